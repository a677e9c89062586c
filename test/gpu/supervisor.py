# SPDX-License-Identifier: Apache-2.0
"""`warpshare mps` in a temporary MPS root, and the agent's end of its socket: what is wanted, and what it reports."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from hardware import DEADLINE, WARPSHARE


class Supervisor:
    def __init__(self, hardware):
        self.folder = tempfile.mkdtemp(prefix='ws-mps-', dir='/tmp')
        os.chmod(self.folder, 0o755)
        self.hardware = hardware
        self.name = hardware.uuid
        self.variables = {'CUDA_MPS_PIPE_DIRECTORY': os.path.join(self.folder, self.name, 'pipe'),
                          'CUDA_VISIBLE_DEVICES': hardware.uuid}
        self.log_path = os.path.join(self.folder, 'supervisor.txt')
        options = ['--mps-directory', self.folder, '--mps-control', hardware.control, '--no-compute-mode', '--grace', '5']
        if '--nvml-library' in hardware.options:
            options += hardware.options[hardware.options.index('--nvml-library'):][:2]
        with open(self.log_path, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen([WARPSHARE, 'mps', *options], env=hardware.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.socket = self._connect()
        self.lines = self.socket.makefile('r', encoding='utf-8')
        self.status = {}
        self.answers = {}
        self.last_id = 0
        self.send(do='watch')

    @property
    def shm(self):
        """What its daemon has as /dev/shm, if that is not ours."""
        path = os.path.join(self.folder, self.name, 'shm')
        return path if os.path.ismount(path) else None

    def _connect(self):
        path = os.path.join(self.folder, 'warpshare.sock')
        deadline = time.monotonic() + DEADLINE
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                connection.settimeout(DEADLINE)
                return connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
            assert self.process.poll() is None, 'warpshare mps ended with %d\n%s' % (self.process.returncode, self.log())
            assert time.monotonic() < deadline, 'no socket\n' + self.log()
            time.sleep(0.05)

    def log(self):
        """The supervisor's own, and its daemons'."""
        texts = []
        for path in (self.log_path, os.path.join(self.folder, self.name, 'log/control.log'),
                     os.path.join(self.folder, self.name, 'log/server.log')):
            if os.path.exists(path):
                with open(path, encoding='utf-8', errors='replace') as file:
                    texts.append('---- %s ----\n%s' % (os.path.basename(path), file.read()))
        return '\n'.join(texts)

    def send(self, **request):
        self.socket.sendall(json.dumps(request).encode() + b'\n')

    def _read(self):
        message = json.loads(self.lines.readline() or 'null')
        assert message, 'the supervisor closed the connection\n' + self.log()
        if 'status' in message:
            self.status = message['status']
        else:
            self.answers[message['id']] = message

    def call(self, **request):
        self.last_id += 1
        number = self.last_id
        self.send(id=number, **request)
        while number not in self.answers:
            self._read()
        return self.answers.pop(number)

    def terminate(self, client):
        of = {'container': client['containerId']} if client.get('containerId') else {}
        return self.call(do='terminate', daemon=self.name, client=client['pid'], **of)

    def apply(self, threads_permille, limit_mib, provisioning='uniform', tier='default'):
        facts = self.hardware.facts
        unit = {'uuid': self.hardware.uuid, 'gpuUuid': self.hardware.uuid, 'index': '0', 'name': facts['device']['name'],
                'isMig': False, 'memoryBytes': facts['memory']['totalMib'] << 20, 'replicas': 10,
                'sms': facts['multiprocessors']['reported'], 'limitMib': limit_mib, 'clients': 48}
        answer = self.call(do='apply', generation=1, daemons=[{
            'name': self.name, 'resource': 'nvidia.com/gpu', 'provisioning': provisioning, 'tierLimit': tier,
            'threadsPermille': threads_permille, 'units': [unit]}])
        assert answer['ok'], answer

    @property
    def daemon(self):
        return next((daemon for daemon in self.status.get('daemons', []) if daemon['name'] == self.name), {})

    def wait(self, is_true, what):
        """Until the daemon's status is as wanted."""
        deadline = time.monotonic() + DEADLINE
        while not (self.daemon and is_true(self.daemon)):
            assert time.monotonic() < deadline, 'not %s: %s\n%s' % (what, json.dumps(self.status, indent=2), self.log())
            try:
                self._read()
            except TimeoutError:
                pass
        return self.daemon

    def stop(self):
        self.socket.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait(DEADLINE)
        if self.shm:
            subprocess.run(['umount', '--lazy', self.shm], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        return status


@pytest.fixture
def supervisor(hardware):
    if not hardware.control:
        pytest.skip('nvidia-cuda-mps-control is not installed')
    if subprocess.run([WARPSHARE, 'mps', '--help'], capture_output=True, check=False).returncode:
        pytest.skip('this build has no warpshare mps')
    made = Supervisor(hardware)
    yield made
    assert made.stop() == 0, 'warpshare mps did not end well'
