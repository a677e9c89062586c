# SPDX-License-Identifier: Apache-2.0
"""Everything at once: random work and faults of all kinds on one node, and what must hold meanwhile (docs/soak.md).

    everything.py [--seconds N] [--seed N|random | --replay SCRIPT] [--out FOLDER] [--without WORD,…] [--shrink SECONDS]

The seed is printed first, and the script of the steps is written as they are done; a run that fails is made shorter, if there is time.
Environment as for the tests in test/e2e. Status: 0 all held, 1 something did not, 77 it cannot run here.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import figures
from dra_kubelet import Failed
from expected import Patience, broken, sick_and_healthy, unwell
from faults import child_of
from scene import Scene
from shrink import shrink
from steps import Course, parse, step

LOOK = 0.3  # seconds between two looks at the node
SICK = 60.0  # seconds in which what is lost is unhealthy everywhere
# Seconds in which all heals. A GPU that failed again and again needs 48 good probes, the first of them up to 32 s after a bad one.
HEAL = 150.0

REST = 30.0  # seconds in which processes come to rest


class Broken(Exception):
    """Something did not hold, which the scene has found."""


class Story:
    """What happened, on standard output and in the folder."""

    def __init__(self, folder, is_quiet):
        self.begun = time.monotonic()
        self._is_quiet = is_quiet
        self._log = open(os.path.join(folder, 'story'), 'w', encoding='utf-8', buffering=1)
        self._lock = threading.Lock()

    def say(self, text):
        with self._lock:
            line = '%8.2f %s' % (time.monotonic() - self.begun, text)
            self._log.write(line + '\n')
            if not self._is_quiet:
                print(line, flush=True)


class Run:
    def __init__(self, folder, is_quiet=False):
        self.folder = folder
        self.story = Story(folder, is_quiet)
        self._api_folder = tempfile.mkdtemp(prefix='ws-soak-', dir='/tmp')
        self.scene = Scene(self._api_folder, self.story.say)
        self.watch = figures.Watch()
        self.slowest = 0.0
        self.settled = 0
        self._witness = threading.Thread(target=self._look_all_the_time, daemon=True)
        self._log = open(os.path.join(folder, 'log'), 'w', encoding='utf-8', buffering=1)

    # ---- all the time ----

    def _look_all_the_time(self):
        patience = Patience(SICK)
        while not self.scene.is_over.wait(LOOK):
            try:
                facts = self.scene.facts()
                self._found(broken(facts))
                self._found(patience.look(time.monotonic(), sick_and_healthy(facts)))
                self.scene.check_programs()
                self._read_logs()
            except Exception as error:  # pylint: disable=broad-except
                self.scene.wrong('rig', 'the look at the node: %s: %s' % (type(error).__name__, error))

    def _read_logs(self):
        node = self.scene.node
        for process in [*node.agents, *node.programs.agents]:
            for line in self.scene.read_log(process):
                self._log.write('%d %s' % (process.pid, line))
            if process in (node.agents[-1:] + [node.supervisor]) and process.process.poll() is not None:
                self.scene.ended(process)
        if self.scene.restarts > self.scene.kills + min(self.scene.exhausted, self.scene.starved):
            self.scene.wrong('crash', 'an agent crashed: its parents have started %d again, and %d were killed' % (
                self.scene.restarts, self.scene.kills))

    def _found(self, texts):
        for what, text in texts.items():
            self.scene.wrong(what, text)

    # ---- what has to be well ----

    def settle(self, is_empty):
        scene = self.scene
        scene.mend_all()
        if is_empty:
            for pod in list(scene.pods.values()):
                pod.end()
        begun = time.monotonic()
        good = 0
        while good < 2:
            self.check()
            scene.revive()  # it may just have ended
            wrong = self._unwell(is_empty)
            good = 0 if wrong else good + 1
            if time.monotonic() - begun > HEAL:
                for what, text in wrong.items():
                    scene.wrong('heals: ' + what.split(' GPU-')[0], 'still after %.0f s: %s' % (HEAL, text))
                self.check()
            time.sleep(0.1)
        took = time.monotonic() - begun
        self.slowest = max(self.slowest, took)
        self.settled += 1
        scene.said('all is well after %.1f s; %d pods' % (took, len(scene.pods)))
        if is_empty:
            self._measure()
        self._forget()

    def _unwell(self, is_empty):
        scene = self.scene
        scene.reap()
        try:
            scene.node.dra.prepare_again()
        except (Failed, ValueError) as error:
            return {'claims that wait': str(error)}
        wrong = unwell(scene.all_facts())
        for pod in list(scene.pods.values()):
            share = pod.share
            if share and share.is_shared and not pod.first():
                wrong['programs'] = 'no program runs in %s' % pod.name
                if not pod.has_orders():
                    pod.order('first')
        if is_empty and scene.pods:
            wrong['pods'] = 'these have not ended: %s' % ', '.join(scene.pods)
        return wrong

    def _measure(self):
        """What has come to rest does not count as growing before it has had time for that."""
        names = {child_of(self.scene.agent.pid): 'the agent', self.scene.node.supervisor.pid: 'the supervisor'}
        begun = time.monotonic()
        while True:
            found = figures.measure([pid for pid in names if pid])
            for pid, now in found.items():
                self.scene.said('%s: %s' % (names[pid], now))
            texts = self.watch.look(names, found)
            if not texts or time.monotonic() - begun > REST:
                break
        for text in texts:
            self.scene.wrong('growth', text)

    def _forget(self):
        """What the stand-ins remember of the time before."""
        scene = self.scene
        with scene.node.kubelet.changed:
            for of in (scene.node.kubelet.messages, scene.node.kubelet.attempts, scene.node.kubelet.registered, scene.node.kubelet.ended):
                del of[:-10]
        with scene.cluster.api.store.lock:
            refused = scene.cluster.refused()
            del scene.cluster.api.requests[:-100]
        if refused:
            scene.wrong('rights', 'deploy/rbac.json does not allow: %s' % refused)

    def check(self):
        if self.scene.found:
            raise Broken

    # ---- the steps ----

    def do(self, steps, seconds):
        """Until the time is over, if there is one. The last step of a run is an empty node."""
        end = seconds and time.monotonic() + seconds
        script = os.path.join(self.folder, 'script')
        count = 0
        with open(script, 'w', encoding='utf-8', buffering=1) as file:
            try:
                self.scene.start()
                self._witness.start()
                for one in steps:
                    if end and time.monotonic() > end:
                        break
                    file.write('%s\n' % one)
                    self.carry_out(one)
                    count += 1
                file.write('empty\n')
                self.carry_out(step('empty'))
            except Broken:
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.scene.wrong('rig: ' + type(error).__name__, str(error).split('\n---- log')[0])
            self._finish()
        self.story.say('%d steps, %d times all was well, at the latest after %.1f s' % (count, self.settled, self.slowest))
        return self.scene.found

    def carry_out(self, one):
        self.check()
        self.scene.said(str(one))
        if one.verb in ('settle', 'empty'):
            self.settle(one.verb == 'empty')
        else:
            self.scene.do(one)
        self.check()

    def _finish(self):
        if self._witness.is_alive():
            self.scene.is_over.set()
            self._witness.join()
        try:
            for fault in self.scene.finish():
                self.scene.wrong('end', fault)
        except Exception as error:  # pylint: disable=broad-except
            self.scene.wrong('rig', 'the end: %s' % error)
        shutil.rmtree(self._api_folder, ignore_errors=True)


def run_again(steps, folder):
    """What a run of these steps, in a process of its own, finds wrong: a set of names."""
    script = os.path.join(folder, 'try')
    with open(script, 'w', encoding='utf-8') as file:
        file.writelines('%s\n' % one for one in steps)
    out = subprocess.run([sys.executable, os.path.abspath(__file__), '--replay', script, '--out', os.path.join(folder, 'tries'), '--shrink', '0'],
                         capture_output=True, text=True, check=False).stdout
    return {line.split('WRONG (')[1].split('): ')[0] for line in out.splitlines() if 'WRONG (' in line}


def make_shorter(folder, what, seconds):
    """Writes <folder>/short, the shortest script that was found to fail like that."""
    with open(os.path.join(folder, 'script'), encoding='utf-8') as file:
        steps = parse(file.read())
    end = time.monotonic() + seconds

    def fails(some):
        found = what in run_again(some, folder)
        print('%d steps: %s' % (len(some), 'fail, too' if found else 'do not'), flush=True)
        return found

    short = shrink(steps, fails, lambda: time.monotonic() < end)
    path = os.path.join(folder, 'short')
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines('%s\n' % one for one in short)
    print('shortened from %d steps to %d: %s' % (len(steps), len(short), path))


def parse_arguments():
    parser = argparse.ArgumentParser(description='random work and faults on a simulated node')
    parser.add_argument('--seconds', type=float, default=60, help='how long; with --replay until its last step (default: 60)')
    parser.add_argument('--seed', default='random', help='of the steps: a number, or random (default)')
    parser.add_argument('--replay', help='a script of steps instead of a seed')
    parser.add_argument('--without', default='', help='beginnings of hits and faults that do not happen, with commas between them')
    parser.add_argument('--out', default=None, help='folder for script, story and log (default: build/soak)')
    parser.add_argument('--shrink', type=float, default=0, help='seconds to look for a shorter script that fails (default: 0)')
    return parser.parse_args()


def main():
    options = parse_arguments()
    folder = options.out or os.path.join(os.environ['WARPSHARE_SOURCE'], 'build', 'soak')
    os.makedirs(folder, exist_ok=True)
    seed = int.from_bytes(os.urandom(3), 'big') if options.seed == 'random' else int(options.seed)
    if options.replay:
        with open(options.replay, encoding='utf-8') as file:
            steps = parse(file.read())
        print('replays %s' % options.replay, flush=True)
    else:
        steps = Course(seed, list(filter(None, options.without.split(',')))).steps()
        print('seed %d' % seed, flush=True)
    try:
        found = Run(folder).do(steps, None if options.replay else options.seconds)
    except pytest.skip.Exception as skipped:
        print('skipped: %s' % skipped)
        return 77
    if not found:
        return 0
    for what, text in found.items():
        print('did not hold: %s: %s' % (what, text))
    print('script, story and log are in %s; again: --replay %s/script%s' % (folder, folder, '' if options.replay else ', or --seed %d' % seed))
    if options.shrink:
        make_shorter(folder, next(iter(found)), options.shrink)
    return 1


if __name__ == '__main__':
    sys.exit(main())
