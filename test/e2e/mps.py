# SPDX-License-Identifier: Apache-2.0
"""MPS on a node without a GPU: the simulated programs of NVIDIA, those of ours that supervise them, and who talks to those.

Nothing here sleeps where an event can be waited for, and every wait has a deadline whose message shows the supervisor's log.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import yaml

from node import DEADLINE, SIMULATOR, WARPSHARE, Agent
from rights import may_mount

BIN = os.environ['WARPSHARE_MPS_SIM_BIN']
UUIDS = ['GPU-%x1111111-2222-3333-4444-555555555555' % i for i in range(16)]
LINK = os.path.join(os.path.dirname(WARPSHARE), 'mps-control-daemon')




def wait(is_true, what, timeout=DEADLINE):
    deadline = time.monotonic() + timeout
    while True:
        found = is_true()
        if found:
            return found
        assert time.monotonic() < deadline, 'after %.0f s still not: %s' % (timeout, what)
        time.sleep(0.02)


def unit(position, **more):
    return {'uuid': UUIDS[position], 'gpuUuid': UUIDS[position], 'index': str(position), 'name': 'Tesla V100-SXM2-32GB',
            'isMig': False, 'memoryBytes': 32 << 30, 'replicas': 40, 'sms': 80, 'chunkSms': 4, 'limitMib': 815,
            'replicaMib': 815, 'clients': 48, **more}


def daemon(position, **more):
    return {'name': UUIDS[position], 'resource': 'nvidia.com/gpu', 'provisioning': 'uniform', 'tierLimit': 'verified',
            'threadsPermille': 25, 'units': [unit(position)], **more}


def with_shm(folder):
    """The beginning of a command: the program has |folder| as /dev/shm, as a container runtime mounts it; None: ours stays.

    No preexec_fn: where a thread of gRPC runs, a child between fork and exec may wait for a lock that nobody gives back.
    """
    if not folder:
        return []
    return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', 'mount --bind "$0" /dev/shm && exec "$@"', folder]


class Socket:
    """The agent's end of the supervisor's socket."""

    def __init__(self, mps):
        self._mps = mps
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE)
        self._socket.connect(mps.path('warpshare.sock'))
        self._file = self._socket.makefile('rb')
        self._id = 0
        self.status = None

    def close(self):
        self._file.close()
        self._socket.close()

    def send(self, **request):
        self._socket.sendall(json.dumps(request).encode() + b'\n')

    def read(self):
        """The next line; None at the end."""
        try:
            line = self._file.readline()
        except TimeoutError:
            raise AssertionError('the supervisor says nothing\n' + self._mps.logs()) from None
        return json.loads(line) if line else None

    def ask(self, **request):
        """The answer; what is told of the status meanwhile is kept."""
        self._id += 1
        self.send(id=self._id, **request)
        while True:
            message = self.read()
            assert message is not None, 'the supervisor closed the connection\n' + self._mps.logs()
            if 'status' in message:
                self.status = message['status']
            elif message['id'] == self._id:
                return message

    def apply(self, *daemons, generation=1):
        answer = self.ask(do='apply', generation=generation, daemons=list(daemons))
        assert answer['ok'], answer

    def watch(self):
        self.send(do='watch')
        return self

    def wait_status(self, is_right, what):
        """The first status told that |is_right|; the last one that was told counts, too."""
        deadline = time.monotonic() + DEADLINE
        while self.status is None or not is_right(self.status):
            assert time.monotonic() < deadline, 'never: %s; the last status: %s\n%s' % (
                what, json.dumps(self.status, indent=1), self._mps.logs())
            message = self.read()
            assert message is not None, 'the supervisor closed the connection before %s\n%s' % (what, self._mps.logs())
            self.status = message.get('status', self.status)
        return self.status

    def wait_daemon(self, name, is_right, what):
        def is_there(status):
            return any(one['name'] == name and is_right(one) for one in status['daemons'])

        status = self.wait_status(is_there, '%s: %s' % (name, what))
        return next(one for one in status['daemons'] if one['name'] == name)

    def wait_state(self, name, state):
        return self.wait_daemon(name, lambda one: one['state'] == state, state)

    def wait_ready(self, name):
        return self.wait_state(name, 'ready')


class Mps:
    """A node's MPS root with its simulated GPUs, and the processes that work on it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='ws-mps-', dir='/tmp')  # short: a socket's path has 107 bytes
        os.chmod(self.folder, 0o755)
        self.root = os.path.join(self.folder, 'mps')
        self.config_path = os.path.join(self.folder, 'config.yaml')
        os.mkdir(self.root)
        if may_mount():  # a volume with mountPropagation: Bidirectional
            subprocess.run(['mount', '--bind', self.root, self.root], check=True)
            subprocess.run(['mount', '--make-shared', self.root], check=True)
        self.library = SIMULATOR
        self.programs = BIN  # where those of NVIDIA are
        self.variables = {}  # more of all programs
        self.agents = []
        self.clients = []
        self.sockets = []
        self.scenario()

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def exists(self, *parts):
        return os.path.exists(self.path(*parts))

    def _write(self, path, text):
        with open(path + '.new', 'w', encoding='utf-8') as file:
            file.write(text)
        os.rename(path + '.new', path)

    def scenario(self, *lines, gpus=2, version=550):
        """The GPUs, as NVML and as MPS see them; |lines| are for the MPS programs."""
        self._write(os.path.join(self.folder, 'mps.conf'), '\n'.join(
            ['version: %d' % version, 'lifetime: 600',
             *('gpu: %s sms=80 memory=32768 cc=7 name=V100' % uuid for uuid in UUIDS[:gpus]), *lines, '']))
        self._write(os.path.join(self.folder, 'gpus.yaml'), yaml.safe_dump(
            {'gpus': [{'model': 'V100-32GB', 'uuid': uuid} for uuid in UUIDS[:gpus]]}))

    def config(self, content):
        self._write(self.config_path, content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))

    @property
    def environment(self):
        return {
            **{name: value for name, value in os.environ.items()
               if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_', 'LD_LIBRARY_PATH'))},
            'PATH': '%s:%s' % (self.programs, os.environ['PATH']),
            'WARPSHARE_MPS_SIM': os.path.join(self.folder, 'mps.conf'),
            'WARPSHARE_SIM_SCENARIO': os.path.join(self.folder, 'gpus.yaml'),
            'WARPSHARE_NVML_LIBRARY': self.library,
            'WARPSHARE_MPS_DIRECTORY': self.root,
            **self.variables,
        }

    # ---- processes ----

    def _start(self, arguments, prefix=(), **variables):
        self.agents.append(Agent(arguments, {**self.environment, **variables}, prefix))
        return self.agents[-1]

    def start(self, *arguments, prefix=()):
        """`warpshare mps`, up to where it listens."""
        supervisor = self._start(['mps', *arguments], prefix)
        self.wait_socket(supervisor)
        return supervisor

    def start_dropin(self, *arguments, **variables):
        """As a container starts it: by its bare name."""
        if os.path.exists(self.config_path):
            variables['CONFIG_FILE'] = self.config_path
        path = '%s:%s' % (os.path.dirname(LINK), self.environment['PATH'])
        return self._start(arguments, ['/bin/sh', '-c', 'shift; exec mps-control-daemon "$@"', 'sh'], PATH=path, **variables)

    def wait_socket(self, supervisor):
        def is_listening():
            assert supervisor.process.poll() is None, 'it ended\n' + self.logs()
            try:  # an answer: a supervisor that was killed may have left its socket to a child for a moment
                peer = Socket(self)
                peer.send(id=0, do='ping')
                answer = peer.read()
                peer.close()
            except OSError:
                return False
            return answer is not None

        wait(is_listening, 'somebody listens')

    def connect(self):
        self.sockets.append(Socket(self))
        return self.sockets[-1]

    def run(self, *arguments, program=WARPSHARE, **more):
        """A command of the program to its end."""
        return subprocess.run([program, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=2 * DEADLINE, check=False, **more)

    def shm_of(self, name):
        """The folder that is to be /dev/shm of the daemon's clients; None: they have ours, as it has."""
        return self.path(name, 'shm') if os.path.ismount(self.path(name, 'shm')) else None

    def client(self, name, *arguments, prefix=(), **variables):
        """A CUDA program of a tenant; returns when it is connected. |prefix|: the beginning of its command."""
        process = subprocess.Popen(
            [*with_shm(self.shm_of(name)), *prefix, os.path.join(BIN, 'warpshare-mps-sim-client'), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**self.environment, 'CUDA_MPS_PIPE_DIRECTORY': self.path(name, 'pipe'), **variables})
        self.clients.append(process)
        said = ''
        while 'connected' not in said:
            line = process.stdout.readline()
            assert line, said + self.logs()
            said += line
        return process

    def ask(self, name, command):
        """What the control daemon answers to NVIDIA's front end. It listens to one at a time, and the supervisor is one."""
        proof = 'Unknown command "listens"\n'

        def answer():
            done = subprocess.run(
                ['nvidia-cuda-mps-control'], input=command + '\nlistens\n', text=True, capture_output=True, check=False,
                timeout=DEADLINE, env={**self.environment, 'CUDA_MPS_PIPE_DIRECTORY': self.path(name, 'pipe'),
                                       'CUDA_MPS_LOG_DIRECTORY': self.path(name, 'log')})
            return [done.stdout.removesuffix(proof).rstrip('\n')] if done.stdout.endswith(proof) else None

        return wait(answer, 'the daemon listens')[0]

    def processes(self):
        """The control daemons and servers that run below this root, without front ends, which come and go."""
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open('/proc/%s/environ' % pid, 'rb') as file:
                    variables = file.read().split(b'\0')
                with open('/proc/%s/cmdline' % pid, 'rb') as file:
                    words = file.read().split(b'\0')
            except OSError:
                continue
            prefix = b'CUDA_MPS_PIPE_DIRECTORY=' + self.root.encode()
            is_one = b'nvidia-cuda-mps-server' in words[0] or (
                b'nvidia-cuda-mps-control' in words[0] and (b'-f' in words or b'-d' in words))
            if is_one and any(one.startswith(prefix) for one in variables):
                found.append(int(pid))
        return found

    # ---- the end ----

    def unmount(self):
        """The shared memory that daemons had."""
        with open('/proc/self/mounts', encoding='utf-8') as file:
            points = [line.split()[1] for line in file]
        for point in reversed(points):
            if point.startswith(self.folder + '/'):
                subprocess.run(['umount', '--lazy', point], check=False)

    def logs(self):
        return '\n'.join('---- log of process %d (pid %d) ----\n%s' % (i + 1, agent.pid, agent.story())
                         for i, agent in enumerate(self.agents))

    def finish(self):
        """Ends all of it; returns what was wrong with the end."""
        faults = []
        for one in self.sockets:
            one.close()
        for client in self.clients:
            client.kill()
            client.communicate()
        for agent in self.agents:
            faults += agent.finish('process')
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.unmount()
        shutil.rmtree(self.folder, ignore_errors=True)
        if faults:
            faults.append(self.logs())
        return faults


@pytest.fixture
def mps():
    made = Mps()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)
