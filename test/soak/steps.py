# SPDX-License-Identifier: Apache-2.0
"""The steps of a soak, made from a seed: pure. The same seed makes the same steps, and a step says all that it needs, so that any of them can
be left out of a script and the others still mean the same: what names a pod that was never made does nothing.

A script is text, a step a line; '#' begins a comment:

    pod p1 3                a pod with 3 replicas, and a CUDA program in its container
    share p2 10 30          a pod whose claim asks for 10 GiB and 30 % of the threads
    whole p3                a pod whose claim asks for a whole GPU
    device p4 1g.10gb       a pod with a MIG device of that profile
    geometry small          the node's label wants that geometry of the GPU with MIG: see GEOMETRIES
    program p1              another program in its container, which leaves again
    end p1                  the pod ends
    hit agent kill          something happens at once: see HITS
    fault lost 1            something is wrong from now on: see FAULTS …
    mend lost 1             … until now
    config 20               the GPUs of the device plugin are shared in 20
    pause 300               milliseconds
    settle                  all faults end, and all has to be well
    empty                   the same, and all pods end before
"""
import dataclasses
import random

PLUGIN_GPUS = (0, 1)
DRA_GPUS = (2, 3)
GPUS = PLUGIN_GPUS + DRA_GPUS
MIG_GPU = 4  # nothing happens to it but other geometries
REPLICAS = (10, 20)
PODS_MAX = 14
# By the label's value: how many MIG devices of each profile.
GEOMETRIES = {'small': {'1g.10gb': 7}, 'mixed': {'1g.10gb': 3, '3g.40gb': 1}, 'large': {'3g.40gb': 2}}
PROFILES = ('1g.10gb', '3g.40gb')

# How often what is chosen, of what can be chosen at all.
WORK = {'pod': 30, 'share': 20, 'whole': 3, 'device': 8, 'end': 35, 'program': 15, 'config': 2, 'geometry': 3, 'pause': 15}
ADMITS = ('pod', 'share', 'whole', 'device')
# Each hit: how often, and its words.
HITS = {
    'agent kill': 5, 'agent stop': 2, 'agent upgrade': 3, 'agent freeze': 1, 'supervisor kill': 2, 'supervisor stop': 1, 'supervisor freeze': 1,
    'kubelet restart': 2, 'kubelet away': 1, 'daemon kill': 2, 'daemon hang': 1, 'server kill': 2, 'program kill': 3, 'program fault': 1,
    'xid ignored': 2, 'xid critical': 1, 'configuration read': 3,
    'api gone': 3, 'api drop': 3, 'api end': 1, 'api freeze': 2, 'api 429': 3, 'api 500': 3, 'api hang': 2, 'api rubbish': 2, 'api rotate': 2,
    'api cut': 2, 'api identity': 2, 'api authority': 2, 'certificate renewed': 2, 'clock set': 3, 'both upgrade': 1,
}
HITS_OF_GPU = {'daemon kill', 'daemon hang', 'server kill', 'xid ignored', 'xid critical'}
HITS_OF_POD = {'program kill', 'program fault'}
# Each fault that lasts: how often, and its words; one of a GPU has only one, and its number comes after it.
FAULTS = {'lost': 4, 'absent': 2, 'failing': 3, 'hanging': 1, 'api away': 2, 'disk full': 2, 'files agent': 1, 'files supervisor': 1,
          'memory agent': 2, 'memory supervisor': 1}
FAULTS_MAX = 2
# By how many seconds the time of day may be wrong.
CLOCKS = (0, -1, 60, -60, 7200, -7200)
# The NVML calls that fail or hang.
CALLS = ('nvmlDeviceGetMemoryInfo', 'nvmlDeviceGetComputeRunningProcesses', 'nvmlDeviceGetTemperature', 'nvmlDeviceGetUtilizationRates')


@dataclasses.dataclass(frozen=True)
class Step:
    words: tuple

    @property
    def verb(self):
        return self.words[0]

    def __str__(self):
        return ' '.join(self.words)


def step(*words):
    return Step(tuple(' '.join(map(str, words)).split()))


def parse(text):
    """The steps of a script."""
    lines = (line.partition('#')[0].split() for line in text.splitlines())
    return [step(*words) for words in lines if words]


def choose(chance, weights):
    return chance.choices(list(weights), list(weights.values()))[0]


class Course:
    """What the steps so far have made of the node, as far as the next one depends on it."""

    def __init__(self, seed, without=()):
        """|without|: the beginnings of hits and faults that do not happen."""
        self.chance = random.Random(seed)
        self.pods = []
        self.faults = []
        self.made = 0

        def allowed(weights):
            return {what: weight for what, weight in weights.items() if not any(what.startswith(one) for one in without)}

        self.hits, self.lasting = allowed(HITS), allowed(FAULTS)

    def name(self):
        self.made += 1
        self.pods.append('p%d' % self.made)
        return self.pods[-1]

    # ---- one step ----

    def work(self):
        possible = {verb: weight for verb, weight in WORK.items()
                    if (self.pods or verb not in ('end', 'program')) and (len(self.pods) < PODS_MAX or verb not in ADMITS)}
        verb = choose(self.chance, possible)
        if verb == 'pod':
            return step(verb, self.name(), self.chance.randint(1, 5))
        if verb == 'share':
            return step(verb, self.name(), self.chance.choice((2, 5, 10, 20, 40)), self.chance.choice((5, 10, 20, 30, 60)))
        if verb == 'whole':
            return step(verb, self.name())
        if verb == 'device':
            return step(verb, self.name(), self.chance.choice(PROFILES))
        if verb == 'geometry':
            return step(verb, self.chance.choice(list(GEOMETRIES)))
        if verb == 'end':
            return step(verb, self.pods.pop(self.chance.randrange(len(self.pods))))
        if verb == 'program':
            return step(verb, self.chance.choice(self.pods))
        if verb == 'config':
            return step(verb, self.chance.choice(REPLICAS))
        return step(verb, self.chance.choice((20, 100, 300, 1000)))

    def hit(self):
        what = choose(self.chance, {what: weight for what, weight in self.hits.items() if self.pods or what not in HITS_OF_POD})
        if what in HITS_OF_GPU:
            return step('hit', what, self.chance.choice(GPUS))
        if what in HITS_OF_POD:
            return step('hit', what, self.chance.choice(self.pods))
        if what == 'clock set':
            return step('hit', what, self.chance.choice(CLOCKS))
        return step('hit', what)

    def fault(self):
        if self.faults and (len(self.faults) == FAULTS_MAX or self.chance.random() < 0.6):
            return step('mend', *self.faults.pop(self.chance.randrange(len(self.faults))))
        what = choose(self.chance, self.lasting)
        words = tuple(what.split())
        if len(words) == 1:
            words += (str(self.chance.choice(GPUS)),)
        if what in ('failing', 'hanging'):
            words += (self.chance.choice(CALLS),)
        if any(words[1] == other[1] for other in self.faults):
            return self.work()
        self.faults.append(words)
        return step('fault', *words)

    def next(self):
        kinds = {self.work: 75, self.hit: 15 if self.hits else 0, self.fault: 8 if self.lasting else 0}
        return choose(self.chance, kinds)()

    # ---- all of them ----

    def steps(self):
        """Without end."""
        yield step('empty')
        while True:
            for _ in range(self.chance.randint(15, 40)):
                yield self.next()
            self.faults.clear()
            if self.chance.random() < 0.4:
                self.pods.clear()
                yield step('empty')
            else:
                yield step('settle')
