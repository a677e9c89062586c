# SPDX-License-Identifier: Apache-2.0
"""What must not grow: memory, descriptors, threads and wake-ups of the two processes, and the files that they leave."""
import dataclasses
import os
import re
import time

IDLE = 2.0  # seconds in which wake-ups are counted


@dataclasses.dataclass
class Figures:
    memory: int  # KiB that are resident, and in no file: pages of programs and libraries come as they are used, and the kernel can drop them
    descriptors: int
    threads: int
    wakeups: float  # a second, of the loop

    def __str__(self):
        return '%d KiB, %d descriptors, %d threads, %.1f wake-ups a second' % (self.memory, self.descriptors, self.threads, self.wakeups)


# What may come on top of what was there when the process was first at rest. Wake-ups: the supervisor asks each daemon every two seconds, and one that
# has a server is asked for its clients, too; a server stays once it had a client. Of two daemons seen: 8 a second without servers, 14 with one.
GROWTH = Figures(memory=2048, descriptors=8, threads=3, wakeups=25)


def read_status(path, key):
    with open(path, encoding='ascii') as file:
        return int(re.search(r'^%s:\s+(\d+)' % key, file.read(), re.MULTILINE).group(1))


def wakeups(pid):
    return read_status('/proc/%d/task/%d/status' % (pid, pid), 'voluntary_ctxt_switches')


def measure(pids):
    """Of each process, at rest. One that ends meanwhile is left out."""
    before = {}
    for pid in pids:
        try:
            before[pid] = wakeups(pid)
        except OSError:
            pass
    time.sleep(IDLE)
    found = {}
    for pid, count in before.items():
        try:
            status = '/proc/%d/status' % pid
            found[pid] = Figures(read_status(status, 'RssAnon'), len(os.listdir('/proc/%d/fd' % pid)), read_status(status, 'Threads'),
                                 (wakeups(pid) - count) / IDLE)
        except OSError:
            pass
    return found


def grown(first, now):
    """What grew beyond what it may: names of figures. Pure."""
    return [field.name for field in dataclasses.fields(Figures)
            if getattr(now, field.name) > getattr(first, field.name) + getattr(GROWTH, field.name)]


class Watch:
    """The first figures of each process, and the highest."""

    def __init__(self):
        self.first = {}

    def look(self, names, found):
        """|names|: pid → what it is. Texts of what grew."""
        texts = []
        for pid, now in found.items():
            first = self.first.setdefault((names[pid], pid), now)
            what = grown(first, now)
            if what:
                texts.append('%s with pid %d: %s grew: at first %s; now %s' % (names[pid], pid, ', '.join(what), first, now))
        return texts
