# SPDX-License-Identifier: Apache-2.0
"""The GPU that the tests of this folder run on: this machine's own, or, to test the tests, the simulated one.

No mode of any GPU is changed, nothing is reset. The MPS daemons are this suite's own, in temporary folders, beside whatever
else uses the GPU. What was seen is printed (`pytest -s`). What fills a row of docs/hardware-notes.md goes into the file that
WARPSHARE_GPU_FACTS names, for tools/gpu.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

WARPSHARE = os.environ['WARPSHARE']
SIMULATED = os.environ.get('WARPSHARE_GPU_SIMULATED') == '1'
SIM_UUID = 'GPU-5c89852c-d268-4c3f-9b07-0022ad3fdd14'
CONTROL = 'nvidia-cuda-mps-control'
# So slow that the four launches in flight outlast what a loaded machine lets a program wait.
SIM_GFLOPS = 20

DEADLINE = 60.0
# Between start and work: a CUDA program needs a second or two for its context, under MPS the first one the server's, too.
HEAD_START = 10.0 if SIMULATED else 15.0
LOAD_SECONDS = 2 if SIMULATED else 5
CONTEXT_MIB = 768  # GRANTED_CONTEXT_MIB
SM_TOLERANCE = 2   # GRANTED_SM_TOLERANCE


def say(text, **values):
    line = text + ': ' + ', '.join('%s=%s' % item for item in values.items())
    print(line, flush=True)


def note(**fact):
    path = os.environ.get('WARPSHARE_GPU_FACTS')
    if path:
        with open(path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(fact) + '\n')


def seen(row, text):
    """The fact of that number in docs/hardware-notes.md, as it is here."""
    print('fact %d: %s' % (row, text), flush=True)
    note(row=row, text=text)


def driver():
    """The version of its kernel module."""
    try:
        with open('/proc/driver/nvidia/version', encoding='utf-8') as file:
            return next(iter(re.findall(r'\b\d{3}\.\d+(?:\.\d+)?\b', file.read())), 'unknown')
    except OSError:
        return 'unknown'


class Result:
    def __init__(self, process):
        self.out, self.err = process.communicate(timeout=180)
        self.status = process.returncode
        self.json = json.loads(self.out) if self.out.startswith('{') else {}

    def __repr__(self):
        return 'exit status %d\n%s%s' % (self.status, self.out, self.err)


class Hardware:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(('CUDA_MPS_', 'WARPSHARE_'))}
        # Without a daemon of the machine's own in the way.
        self.environment['CUDA_MPS_PIPE_DIRECTORY'] = os.path.join(folder, 'none')
        self.options = []
        if SIMULATED:
            self._simulate()
        self.control = shutil.which(CONTROL, path=self.environment['PATH'])

    def _write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def _simulate(self):
        import yaml  # not where there is a GPU and Python alone

        self.environment.update({
            'PATH': os.environ['WARPSHARE_MPS_SIM_FOLDER'] + ':' + os.environ['PATH'],
            'WARPSHARE_CUDA_SIM': self._write('cuda.yaml', yaml.safe_dump({'uuid': SIM_UUID, 'gflops': SIM_GFLOPS})),
            'WARPSHARE_MPS_SIM': self._write(
                'mps.conf', 'version: 580\ngpu: %s sms=132 memory=81559 cc=9 name=H100\n' % SIM_UUID),
            'WARPSHARE_SIM_SCENARIO': self._write(
                'gpus.yaml', yaml.safe_dump({'gpus': [{'model': 'H100-80GB', 'uuid': SIM_UUID}]})),
        })
        self.options = ['--cuda-library', os.environ['WARPSHARE_CUDA_SIM_LIBRARY'],
                        '--nvml-library', os.environ['WARPSHARE_NVML_SIM']]

    def start(self, *arguments, daemon=None, device=None, cgroup=None, **variables):
        """A probe, without MPS or as a client of |daemon|; in the folder |cgroup|."""
        environment = {**self.environment, **(daemon.variables if daemon else {}), **variables}
        if device:
            environment['CUDA_VISIBLE_DEVICES'] = device
        enter = ['sh', '-c', 'echo $$ >"$0"/cgroup.procs && exec "$@"', cgroup] if cgroup else []
        if getattr(daemon, 'shm', None):  # what a container has as /dev/shm
            enter += ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /dev/shm && exec "$@"', daemon.shm]
        return subprocess.Popen([*enter, WARPSHARE, 'probe', '--json', *self.options, *arguments], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def probe(self, *arguments, **more):
        return Result(self.start(*arguments, **more))

    def loads(self, *programs):
        """Runs programs (keyword arguments of start()) over the same time; their work in GFLOP/s."""
        begin = '%.3f' % (time.time() + HEAD_START)
        started = [self.start('--load', str(LOAD_SECONDS), '--begin-at', begin, **program) for program in programs]
        done = [Result(process) for process in started]
        for result in done:
            assert result.status == 0, result
        return [result.json['load']['gflops'] for result in done]


class Daemon:
    """A control daemon of one GPU, as `warpshare mps` starts it, in a folder of its own."""

    def __init__(self, hardware, uuid):
        # Short: the path of a socket must fit into 108 bytes.
        self.folder = tempfile.mkdtemp(prefix='ws-mps-', dir='/tmp')
        self.hardware = hardware
        self.variables = {'CUDA_MPS_PIPE_DIRECTORY': os.path.join(self.folder, 'pipe'), 'CUDA_VISIBLE_DEVICES': uuid}
        self.environment = {**hardware.environment, **self.variables,
                            'CUDA_MPS_LOG_DIRECTORY': os.path.join(self.folder, 'log')}
        for name in ('pipe', 'log'):
            os.mkdir(os.path.join(self.folder, name))
        os.chmod(self.folder, 0o755)
        self.output = open(os.path.join(self.folder, 'control.txt'), 'w', encoding='utf-8')
        self.process = subprocess.Popen([hardware.control, '-f'], env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + DEADLINE
        while not self.ask('get_default_active_thread_percentage'):
            assert self.process.poll() is None, 'the control daemon ended with %s:\n%s' % (
                self.process.returncode, self.log())
            assert time.monotonic() < deadline, 'the control daemon does not answer:\n' + self.log()
            time.sleep(0.1)

    def ask(self, command):
        done = subprocess.run([self.hardware.control], input=command + '\n', env=self.environment, text=True,
                              capture_output=True, timeout=DEADLINE, check=False)
        return done.stdout.strip() if done.returncode == 0 else ''

    def log(self):
        texts = []
        for path in (os.path.join(self.folder, 'control.txt'), os.path.join(self.folder, 'log/control.log'),
                     os.path.join(self.folder, 'log/server.log')):
            if os.path.exists(path):
                with open(path, encoding='utf-8', errors='replace') as file:
                    texts.append('---- %s ----\n%s' % (os.path.basename(path), file.read()))
        return '\n'.join(texts)

    def stop(self):
        try:
            self.ask('quit -t 5')
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(DEADLINE)
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope='module')
def hardware(tmp_path_factory):
    made = Hardware(str(tmp_path_factory.mktemp('hardware')))
    first = made.probe('--no-memory')
    if first.status == 3:
        pytest.skip('CUDA cannot be used here: ' + first.json.get('error', {}).get('text', first.err).strip())
    # 1: the pipe directory without a daemon, which is no mistake here.
    assert first.status in (0, 1), first
    made.facts = first.json
    device = first.json['device']
    made.uuid = 'GPU-' + device['uuid']
    say('GPU', name=device['name'], uuid=device['uuid'], capability=device['computeCapability'], cuda=device['cuda'],
        sms=first.json['multiprocessors']['reported'], memory_mib=first.json['memory']['totalMib'],
        simulated='yes' if SIMULATED else 'no')
    note(gpu=device['name'], driver='simulated' if SIMULATED else driver(), capability=device['computeCapability'])
    seen(30, 'compiled by the driver for compute capability %s' % device['computeCapability'])
    return made


@pytest.fixture
def make_daemon(hardware, request):
    if not hardware.control:
        pytest.skip(CONTROL + ' is not installed')
    daemons = []

    def make(uuid=None):
        daemons.append(Daemon(hardware, uuid or hardware.uuid))
        return daemons[-1]

    yield make
    for daemon in daemons:
        if getattr(request.node, 'warpshare_failed', False):
            print(daemon.log())
        daemon.stop()


@pytest.fixture
def daemon(make_daemon):
    return make_daemon()
