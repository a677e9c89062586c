# SPDX-License-Identifier: Apache-2.0
"""Pods that come and go all the time, and what became of each.

    with Churn(pods, {'nvidia.com/gpu': 1}, at_once=4) as churn:
        ...                     # something happens to the agent
    churn.tally.refused         # those that kubelet did not admit

Nobody creates a refused pod again, as a Deployment would: each counts.
"""
import dataclasses
import threading
import time

REFUSALS = ('UnexpectedAdmissionError', 'OutOf')  # how kubelet's reasons begin


def outcome(pod):
    """'waits', 'starts', 'runs', 'ran', 'refused' or 'failed'."""
    status = pod.get('status', {})
    phase = status.get('phase', 'Pending')
    if phase == 'Failed':
        return 'refused' if status.get('reason', '').startswith(REFUSALS) else 'failed'
    if phase == 'Pending':
        return 'starts' if pod['spec'].get('nodeName') else 'waits'
    return {'Running': 'runs', 'Succeeded': 'ran'}.get(phase, 'failed')


def reason(pod):
    """Why it did not run: kubelet's words, or how its container ended."""
    status = pod['status']
    if status.get('message'):
        return f'{status.get("reason", "")}: {status["message"]}'
    for one in status.get('containerStatuses', []):
        ended = one.get('state', {}).get('terminated')
        if ended:
            return f'{ended.get("reason", "")}, exit code {ended.get("exitCode")}: {ended.get("message", "")}'
    return status.get('reason', 'no reason')


@dataclasses.dataclass
class Tally:
    ran: int = 0
    refused: int = 0
    failed: int = 0
    reasons: list = dataclasses.field(default_factory=list)

    def count(self, pod):
        """True if the pod has ended, and was counted."""
        how = outcome(pod)
        if how not in ('ran', 'refused', 'failed'):
            return False
        setattr(self, how, getattr(self, how) + 1)
        if how != 'ran':
            self.reasons.append(f'{pod["metadata"]["name"]}: {reason(pod)}')
        return True

    def __str__(self):
        return f'{self.ran} pods ran, {self.refused} refused' + (f', {self.failed} failed' if self.failed else '')


class Churn:
    def __init__(self, pods, limits, at_once=4, **more):
        self.pods, self.limits, self.at_once, self.more = pods, limits, at_once, more
        self.tally = Tally()
        self.serial = 0
        self.error = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)

    def turn(self, is_last):
        there = [pod for pod in self.pods.all() if pod['metadata'].get('labels', {}).get('role') == 'churn']
        living = 0
        for pod in there:
            if pod['metadata'].get('deletionTimestamp'):
                continue
            if self.tally.count(pod):
                self.pods.delete(pod['metadata']['name'], wait=False)
            else:
                living += 1
        if not is_last:
            for _ in range(self.at_once - living):
                self.serial += 1
                self.pods.start(f'churn-{self.serial}', self.limits, command=['sleep', '1'], role='churn', **self.more)
        return living

    def go(self):
        try:
            while not self.stop.is_set():
                self.turn(False)
                self.stop.wait(0.3)
            deadline = time.monotonic() + self.pods.kube.timeout
            while self.turn(True):
                if time.monotonic() > deadline:
                    raise AssertionError('pods still wait: ' + ', '.join(
                        f'{pod["metadata"]["name"]} {outcome(pod)}' for pod in self.pods.all()))
                time.sleep(0.3)
        except BaseException as error:  # pylint: disable=broad-except -- raised again where the test is
            self.error = error

    def wait_ran(self, count):
        """Until so many more have run to their end."""
        goal = self.tally.ran + count
        self.pods.kube.wait(f'{count} more pods', lambda: (self.tally.ran >= goal or self.error, str(self.tally)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.stop.set()
        self.thread.join()
        if self.error and not args[1]:
            raise self.error


class Relay:
    """Pods that are deleted with a grace period of 0 as soon as they run, while others come for what their claims had."""

    def __init__(self, pods, kinds, at_once):
        self.pods, self.kinds, self.at_once = pods, kinds, at_once  # |kinds|: what start() takes as claims, in turn
        self.serial = 0
        self.ran = 0

    def turn(self):
        """How many have run so far."""
        there = [pod for pod in self.pods.all() if not pod['metadata'].get('deletionTimestamp')]
        running = [pod['metadata']['name'] for pod in there if outcome(pod) == 'runs']
        for name in running:
            self.pods.delete(name, wait=False, grace=0)
        for _ in range(self.at_once - len(there) + len(running)):
            self.pods.start(f'relay-{self.serial}', command=['sleep', '3600'], claims=self.kinds[self.serial % len(self.kinds)])
            self.serial += 1
        self.ran += len(running)
        return self.ran
