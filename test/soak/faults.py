# SPDX-License-Identifier: Apache-2.0
"""Faults of a soak that last, from the step that begins them to the one that mends them."""
import contextlib
import os
import re
import resource
import signal
import time

from mps_node import uuid_of
from steps import GPUS

LOST_XID = 79
GONE = ('lost', 'absent')  # faults of a GPU that is not there any more
SPARE_FILES = 2  # descriptors that are left where there are few
SPARE_MEMORY = 0  # bytes of address space that are left where there are few


def child_of(pid):
    """The process that a parent keeps; None: there is none at the moment."""
    with contextlib.suppress(OSError):
        with open('/proc/%d/task/%d/children' % (pid, pid), encoding='ascii') as file:
            return int((file.read().split() or [0])[0]) or None
    return None


def address_space(pid):
    """None: it has ended."""
    with contextlib.suppress(OSError):
        with open('/proc/%d/status' % pid, encoding='ascii', errors='replace') as file:
            found = re.search(r'^VmSize:\s+(\d+) kB', file.read(), re.MULTILINE)
            return found and int(found.group(1)) << 10
    return None


def has_nvml(pid):
    try:
        with open('/proc/%s/maps' % pid, encoding='ascii') as maps:
            return 'nvml-sim' in maps.read()
    except OSError:
        return False


class Faults:
    """Of a Scene."""

    def __init__(self):
        self.faults = {}  # (what, where) → call or None
        self._starving = {}  # process → PID that has no memory left: it may abort, once
        self.starved = 0  # agents so far
        self.exhausted = 0  # of these, that have said so and ended
        self._aborted = 0.0  # when one may have
        self._fed = None  # PID of the supervisor that has memory again: it may have aborted just before
        self._disks = []

    def _do_fault(self, what, where, call=None):
        self.faults[(what, where)] = call
        if where.isdigit():
            self._touch(uuid_of(int(where)), is_deadly=what in GONE)
            if what == 'absent':  # the driver lets go of a GPU that nobody uses
                self._end_programs(uuid_of(int(where)))
            if what == 'lost':
                self.events.append({'gpu': int(where), 'xid': LOST_XID})
            self._write_gpus()
        else:
            self._touch(where)
            getattr(self, '_begin_' + what)(where)

    def _end_programs(self, unit):
        for pod in list(self.pods.values()):
            share, program = pod.share, pod.first()
            if share and share.unit == unit and program:
                program.is_expected_to_end = True
                self._signal(program.client.pid, signal.SIGKILL)

    def _do_mend(self, what, where, *_):
        if self.faults.pop((what, where), self) is self:
            return
        if where.isdigit():
            self._touch(uuid_of(int(where)))
            self._write_gpus()
        else:
            self._touch(where)
            getattr(self, '_end_' + what)(where)

    def mend_all(self):
        for what, where in list(self.faults):
            self._do_mend(what, where)
        self.revive()
        with self.cluster.api.store.lock:
            self.cluster.api.faults.clear()
            for watch in self.cluster.api.watches:
                if watch['order'] == 'freeze':
                    watch['order'] = 'drop'
            self.cluster.api.store.lock.notify_all()

    def _begin_api(self, _):
        self.cluster.api.fault('drop', times=10**9)
        self.cluster.api.cut()

    def _end_api(self, _):
        with self.cluster.api.store.lock:
            self.cluster.api.faults.clear()

    def _begin_disk(self, _):
        for folder in self._disks:
            with contextlib.suppress(OSError), open(os.path.join(folder, 'filler'), 'wb', buffering=0) as file:
                while True:
                    file.write(bytes(65536))

    def _end_disk(self, _):
        for folder in self._disks:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, 'filler'))

    def _process(self, which):
        """None: an agent that has not opened NVML yet, which ends where it cannot, as it does on a node without."""
        if which == 'supervisor':
            return self.node.supervisor.pid
        log = self.agent.log()
        at = log.rfind('GPUs found')
        has_gpus = at > log.rfind('warpshare agent version=') or (at < 0 and self.agent in self._ports and 'version=' not in log)
        return child_of(self.agent.pid) if has_gpus else None

    def _victim(self, which):
        """The same; the log may be of an agent that was killed a moment ago, and the next one has nothing open yet."""
        pid = self._process(which)
        return pid if which == 'supervisor' or has_nvml(pid) else None

    def _begin_files(self, which):
        self._limit(self._victim(which), resource.RLIMIT_NOFILE, lambda pid, most: len(os.listdir('/proc/%d/fd' % pid)) + SPARE_FILES)

    def _end_files(self, which):
        self._limit(self._process(which), resource.RLIMIT_NOFILE, lambda pid, most: most)

    @staticmethod
    def _limit(pid, what, count):
        with contextlib.suppress(OSError):
            if pid:
                _, most = resource.prlimit(pid, what)
                resource.prlimit(pid, what, (count(pid, most), most))

    def _begin_memory(self, which):
        """An agent may end of it, and its parent starts it again; the supervisor, which has none here, is started again by revive()."""
        pid = self._victim(which)
        size = pid and address_space(pid)
        if not size:
            return
        self._starving[which] = pid
        if which == 'agent':
            self.starved += 1
        else:
            self._touch(*map(uuid_of, GPUS), is_deadly=True)  # what it starts has no more than it
        self._limit(pid, resource.RLIMIT_AS, lambda pid, most: size + SPARE_MEMORY)

    def _end_memory(self, which):
        pid = self._starving.pop(which, None)
        if not pid:
            return
        self._aborted = time.monotonic()
        for one in [pid, *(self.node.programs.processes() if which == 'supervisor' else [])]:
            self._limit(one, resource.RLIMIT_AS, lambda pid, most: most)
        if which == 'supervisor':
            self._fed = pid
            self._touch(*map(uuid_of, GPUS), is_deadly=True)

    def may_have_aborted(self, process, status):
        """The supervisor, for want of memory."""
        return process.pid in (self._starving.get('supervisor'), self._fed) and status == -signal.SIGABRT

    def revive(self):
        """As kubelet does with a container."""
        old = self.node.supervisor
        status = old.process.poll()
        if status is None or not self.may_have_aborted(old, status):
            return
        self.said('the supervisor has ended for want of memory')
        self.start_supervisor(old)
        self._end_memory('supervisor')
