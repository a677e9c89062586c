# SPDX-License-Identifier: Apache-2.0
"""What happens at once in a soak: to processes, GPUs, and the API server."""
import contextlib
import os
import signal
import time

from apiserver import make_certificate, pem_of, pem_of_key
from faults import child_of
from mps_node import uuid_of
from node import listens
from steps import GPUS

IGNORED_XID, CRITICAL_XID = 13, 48
JUST_KILLED = 10.0  # seconds
FROZEN = 3.0  # seconds
KUBELET_AWAY = 2.0  # seconds
TERMINATION = 60.0  # seconds: a pod of the chart has 40
OVERLAP = 1.0  # seconds that two agents of an upgrade run beside each other


class Hits:
    """Of a Scene."""

    def __init__(self):
        self.events = []
        self.kills = 0  # of agents that their parent starts again
        self._killed = 0.0  # when the last of them was

    def _do_hit(self, whom, how, *words):
        getattr(self, '_hit_' + whom)(how, *words)

    def _hit_agent(self, how):
        self._touch('agent')
        if how == 'kill':
            self._end_memory('agent')
            pid = child_of(self.agent.pid)
            if pid:
                self.kills += 1
                self._killed = time.monotonic()
                self._signal(pid, signal.SIGKILL)
            return
        if how == 'freeze':
            self._freeze(child_of(self.agent.pid))
            return
        old = self.agent
        self._end_memory('agent')
        if how == 'upgrade':
            self.start_agent()
            self.is_over.wait(OVERLAP)
        self._stop(old)
        if how == 'stop':
            self.start_agent()
        self._touch('agent')

    def _hit_both(self, _):
        """Both get another version: the new agent beside the old one, and the daemons end with their supervisor."""
        old = self.agent
        self._touch('agent')
        self._end_memory('agent')
        self.start_agent()
        self._hit_supervisor('stop')
        self._stop(old)
        self._touch('agent')

    def _stop(self, process):
        """An agent, by its parent."""
        process.signal(signal.SIGTERM)
        status = process.wait()
        for number, when in ((signal.SIGKILL, self._killed), (signal.SIGABRT, self._aborted)):
            if status == 128 + number and time.monotonic() < when + JUST_KILLED:
                process.expected_status = status  # the parent had no agent again yet, and says how the last one ended
        self.read_log(process)
        for fault in process.finish('agent'):
            self.wrong('end', fault)
        self.node.agents.remove(process)

    def _freeze(self, pid):
        if pid:
            self._signal(pid, signal.SIGSTOP)
            self.is_over.wait(FROZEN)
            self._signal(pid, signal.SIGCONT)

    def _hit_supervisor(self, how):
        node = self.node
        if how == 'freeze':
            self._touch('supervisor')
            self._freeze(node.supervisor.pid)
            return
        self._touch('supervisor', *map(uuid_of, GPUS), is_deadly=how == 'stop')
        self.revive()
        self._end_memory('supervisor')
        old = node.supervisor
        status = old.kill() if how == 'kill' else self._end_supervisor(old)
        if status != old.expected_status:
            self.wrong('end', 'the supervisor ended with %d' % status)
        self.start_supervisor(old)
        self._touch('supervisor')

    @staticmethod
    def _end_supervisor(process):
        """Where it can ask nothing, it kills daemons that have not ended by then: that takes longer than a wait here."""
        process.signal(signal.SIGTERM)
        return process.wait(TERMINATION)

    def start_supervisor(self, old):
        """Another, where the one before has ended."""
        self.read_log(old)
        old.wait()
        self.node.programs.agents.remove(old)
        self.node.start_mps('--restart-after-crash=never')
        self._touch('supervisor')

    def _hit_kubelet(self, how):
        self._touch('kubelet')
        self.node.dra.stop()
        self.node.kubelet.restart(gone=KUBELET_AWAY if how == 'away' else 0)
        self.node.dra.start()
        self._touch('kubelet')

    def _hit_daemon(self, how, gpu):
        found = self.daemons().get(uuid_of(int(gpu)))
        if found and found.get('pid'):
            self._touch(uuid_of(int(gpu)), is_deadly=True)
            self._signal(found['pid'], signal.SIGKILL if how == 'kill' else signal.SIGSTOP)

    def _hit_server(self, _, gpu):
        for server in self.daemons().get(uuid_of(int(gpu)), {}).get('servers', []):
            self._touch(uuid_of(int(gpu)), is_deadly=True)
            self._signal(server['pid'], signal.SIGKILL)

    @staticmethod
    def _signal(pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def _hit_program(self, how, name):
        pod = self.pods.get(name)
        program = pod.first() if pod else None
        if not program:
            return
        program.is_expected_to_end = True
        if how == 'fault':
            self._touch(pod.share.unit, is_deadly=True)
        self._signal(program.client.pid, signal.SIGUSR1 if how == 'fault' else signal.SIGKILL)

    def _hit_xid(self, how, gpu):
        if how == 'critical':
            self._touch(uuid_of(int(gpu)))
        self.events.append({'gpu': int(gpu), 'xid': CRITICAL_XID if how == 'critical' else IGNORED_XID})
        self._write_gpus()

    def _hit_configuration(self, _):
        pid = child_of(self.agent.pid)
        if pid and listens(pid, signal.SIGHUP):  # one that has just begun reads it anyway
            self._signal(pid, signal.SIGHUP)

    def _hit_clock(self, _, seconds):
        """Of both, from now on; what the machine really has is its own."""
        self.write_clock(int(seconds))

    def write_clock(self, seconds):
        with open(self.clock + '.new', 'w', encoding='ascii') as file:
            file.write('%d\n' % seconds)
        os.rename(self.clock + '.new', self.clock)

    def _hit_certificate(self, _):
        self.renew_certificate()

    def renew_certificate(self):
        """Of the agent's own port."""
        certificate, key = make_certificate('agent')
        self.certificate = pem_of(certificate)
        for path, content in zip(self.certificate_paths, (pem_of_key(key), self.certificate)):
            with open(path + '.new', 'wb') as file:
                file.write(content)
            os.rename(path + '.new', path)

    def _hit_api(self, how):
        api = self.cluster.api
        if how == 'gone':
            api.compact()
            api.order_watches('end')
        elif how in ('drop', 'end', 'freeze'):
            api.order_watches(how)
        elif how in ('429', '500'):
            api.fault('status', code=int(how), times=3, retry_after=1 if how == '429' else None)
        elif how == 'rotate':
            api.rotate_token()
        elif how == 'identity':
            api.rotate_certificate()
        elif how == 'authority':
            api.rotate_authority()
            api.cut()
        elif how == 'cut':
            api.cut()
        else:
            api.fault(how, times=2)
