# SPDX-License-Identifier: Apache-2.0
"""A node whose GPUs are shared by MPS, the whole path: kubelet, the agent, `warpshare mps`, simulated control daemons, and
clients that run with what the agent's answer gave their container.
"""
import contextlib
import os
import queue
import re
import signal
import subprocess
import threading

import pytest
import yaml

from mps import BIN, Mps, with_shm
from node import DEADLINE, GPU, LONGEST_WAIT, Node

V100 = {'model': 'V100-32GB', 'name': 'Tesla V100-SXM2-32GB', 'memory': 32768, 'sms': 80, 'cc': 7}
H100 = {'model': 'H100-80GB', 'name': 'NVIDIA H100 80GB HBM3', 'memory': 81920, 'sms': 132, 'cc': 9}
DRIVERS = {535: '535.261.03', 550: '550.163.01', 580: '580.105.08', 590: '590.48.01', 615: '615.10.01'}


def uuid_of(position):
    return 'GPU-%x1111111-2222-3333-4444-555555555555' % position


def share(replicas, root='/run/nvidia/mps', **more):
    """A configuration; |more| goes into the section."""
    return {'version': 'v1', 'flags': {'mpsRoot': root},
            'sharing': {'mps': {'resources': [{'name': GPU, 'replicas': replicas}], **more}}}


# The beginning of a command that waits for a line: a container's process is in its cgroup before its program runs.
HELD_BACK = ['sh', '-c', 'read -r go && exec "$0" "$@"']


class Client:
    """A CUDA program of a container, which runs from go() on. What it says can be waited for."""

    def __init__(self, node, environment, arguments, shm=None):
        self._node = node
        self._lines = queue.Queue()
        self.said = ''
        self.process = subprocess.Popen(
            [*HELD_BACK, *with_shm(shm), os.path.join(BIN, 'warpshare-mps-sim-client'), *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    @property
    def pid(self):
        return self.process.pid

    def go(self):
        self.order('go')

    def hears(self, pattern):
        """Waits until it says a line like that."""
        while True:
            try:
                line = self._lines.get(timeout=DEADLINE)
            except queue.Empty:
                line = None
            assert line is not None, 'the client never said /%s/, but: %s\n%s' % (pattern, self.said, self._node.logs())
            self.said += line
            found = re.search(pattern, line)
            if found:
                return found

    def connected(self):
        """What it got: percentage, sms, limit."""
        words = self.hears('^connected (.*)').group(1).split()
        return dict(word.split('=') for word in words)

    def order(self, text):
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()

    def allocate(self, mib):
        """How much of it it got."""
        self.order('allocate %d' % mib)
        return int(self.hears(r'^allocated (\d+)').group(1))

    def is_alive(self):
        return self.process.poll() is None

    def wait(self):
        return self.process.wait(DEADLINE)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(DEADLINE)
        with contextlib.suppress(BrokenPipeError):  # an order that it did not live to read
            self.process.stdin.close()
        self.process.stdout.close()


class MpsNode(Node):
    def __init__(self):
        super().__init__(has_mps=False)
        self.programs = Mps()
        os.rmdir(self.mps_root)
        self.mps_root = self.programs.root
        self.scenario_path = os.path.join(self.programs.folder, 'gpus.yaml')
        self.processes_folder = os.path.join(self.programs.folder, 'processes')
        self.system_root = os.path.join(self.programs.folder, 'system')
        os.mkdir(self.processes_folder)
        os.makedirs(os.path.join(self.system_root, 'proc'))
        self.clients = []
        self.gpus(2)

    def gpus(self, count, *lines, model=None, version=550, changes=None, events=(), visible=None, **more):
        """So many GPUs, as NVML and as MPS see them. |lines| are for the programs of MPS, |changes| of GPUs by position for
        NVML; |visible|: what MPS sees instead; |more| of the scenario."""
        model = model or V100
        visible = visible or [(uuid_of(i), model['sms'], model['memory']) for i in range(count)]
        self._write(os.path.join(self.programs.folder, 'mps.conf'), '\n'.join(
            ['version: %d' % version, 'lifetime: 600', 'process-directory: ' + self.processes_folder, *(
                'gpu: %s sms=%d memory=%d cc=%d name=GPU' % (uuid, sms, memory, model['cc'])
                for uuid, sms, memory in visible), *lines, '']))
        gpus = [{'model': model['model'], 'uuid': uuid_of(i), **(changes or {}).get(i, {})} for i in range(count)]
        self._write(self.scenario_path, yaml.safe_dump({
            'driverVersion': DRIVERS[version], 'cudaVersion': '12.4', 'longestWait': LONGEST_WAIT, 'processDirectory': self.processes_folder,
            'gpus': gpus, 'events': list(events), **more}, sort_keys=False))

    def set_mps_scenario(self, unit, *lines):
        """What the daemon of one unit does from now on; nothing: as the others do."""
        self._write(self.programs.path(unit, 'pipe.sim'), '\n'.join([*lines, '']))

    # ---- the two processes ----

    def start_mps(self, *arguments):
        supervisor = self.programs.start('--system-root', self.system_root, *arguments)
        self.supervisor = supervisor
        return supervisor

    def start_agent(self, config=None, *arguments):
        """kubelet and the agent, whatever it advertises."""
        if config is not None:
            self.config(config)
        self.kubelet.start()
        return self.start('--log-level=debug', *arguments)

    def start_all(self, config=None, *arguments):
        self.start_mps()
        self.start_agent(config, *arguments)
        self.wait(lambda: self.kubelet.newest and all(
            self.kubelet.devices[resource] for resource in self.kubelet.newest), 'a resource is there')
        return self.kubelet

    def watch(self):
        """A look at the daemons, beside the agent's."""
        return self.programs.connect().watch()

    def daemon(self, name):
        """The daemon, as soon as it is ready."""
        peer = self.watch()
        ready = peer.wait_ready(name)
        peer.close()
        return ready

    def healthy_replicas(self, resource=GPU, unit=None):
        """The replicas that kubelet counts: all, or those of one unit."""
        with self.kubelet.changed:
            return sum(healthy for device, healthy in self.kubelet.devices.get(resource, {}).items()
                       if unit is None or device.startswith(unit))

    def wait_replicas(self, unit, count, resource=GPU):
        self.wait(lambda: self.healthy_replicas(resource, unit) == count, '%d replicas of %s are healthy' % (count, unit))

    # ---- pods ----

    def admit(self, pod, count=1, resource=GPU, **more):
        """What the pod's container was given; returns when the agent knows whose it is."""
        before = self.agent.count('kubelet has reported which container holds which devices')
        self.kubelet.admit(pod, resource, count, **more)
        self.agent.wait_log('kubelet has reported which container holds which devices', before + 1)
        return self.answer(pod, resource)

    def answer(self, pod, resource=GPU):
        container, = self.kubelet.pods[pod].containers.values()
        return container.responses[resource]

    def variables(self, pod, resource=GPU):
        return dict(self.answer(pod, resource).envs)

    def unit(self, pod, resource=GPU):
        return self.variables(pod, resource)['NVIDIA_VISIBLE_DEVICES']

    def daemon_folder(self, pod, resource=GPU):
        """Of the MPS daemon whose pipe directory the pod's container was given."""
        where = self.variables(pod, resource)['CUDA_MPS_PIPE_DIRECTORY']
        pipe, = (mount.host_path for mount in self.answer(pod, resource).mounts if mount.container_path == where)
        return os.path.dirname(pipe.replace('/run/nvidia/mps', self.mps_root, 1))

    def client(self, pod, *arguments, resource=GPU, **variables):
        """A program in the pod's container, with its variables and mounts; None removes a variable."""
        mounts = {mount.container_path: mount.host_path for mount in self.answer(pod, resource).mounts}
        return self.start_client(self.kubelet.pods[pod], {**self.variables(pod, resource), **variables}, mounts, arguments)

    def start_client(self, pod, variables, mounts, arguments):
        """A program in a container with these variables and mounts (host paths by path)."""
        environment = {**self.programs.environment, **variables}
        mounts = {path: host.replace('/run/nvidia/mps', self.mps_root, 1) for path, host in mounts.items()}
        pipe = environment['CUDA_MPS_PIPE_DIRECTORY']
        environment['CUDA_MPS_PIPE_DIRECTORY'] = mounts.get(pipe, pipe)
        client = Client(self, {name: value for name, value in environment.items() if value is not None}, arguments,
                        mounts['/dev/shm'] if os.path.isdir(mounts['/dev/shm']) else None)
        client.pod = pod
        self.clients.append(client)
        self._put_in_container(client.pid, pod)
        client.go()
        return client

    def _put_in_container(self, pid, pod):
        """A cgroup as a container runtime makes it; the rest is the process's own."""
        folder = os.path.join(self.system_root, 'proc', str(pid))
        os.mkdir(folder + '.new')
        for name in ('stat', 'status', 'environ'):
            os.symlink('/proc/%d/%s' % (pid, name), os.path.join(folder + '.new', name))
        with open(os.path.join(folder + '.new', 'cgroup'), 'w', encoding='ascii') as file:
            file.write('0::/kubepods/burstable/pod%s/%s\n' % (pod.uid, pod.uid.replace('-', '') * 2))
        os.rename(folder + '.new', folder)

    # ---- the end ----

    def logs(self):
        return super().logs() + '\n' + self.programs.logs()

    def finish(self):
        for client in self.clients:
            client.end()
        return super().finish() + self.programs.finish()


@pytest.fixture
def node():
    made = MpsNode()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def kill(pid):
    os.kill(pid, signal.SIGKILL)
