# SPDX-License-Identifier: Apache-2.0
"""A supervisor with one daemon that is ready, for tenants to come to.

Its control program is the simulated one, or NVIDIA's own of each release that tools/fetch-nonfree has got. They speak differently, so
each brings the lines by which a tenant speaks to it; those for NVIDIA's say what its front end was seen to say.
"""
import os
import shutil
import subprocess

import pytest

from mps import BIN, UUIDS, daemon, mps, wait  # noqa: F401 -- a fixture
from tenant import USER

FIRST = UUIDS[0]
THREADS = '2.5'  # what daemon() is to have

SIMULATED_LINES = '''
def come_as_front_end(path):
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.connect(path)
    door.send(b'UI')
    return door

def command(door, text):
    door.send(b'CMD ' + text)

half_a_command = None
'''

REAL_LINES = '''
def come_as_front_end(path):
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    door.connect(path)
    door.recv(16)
    own = struct.pack('iII', os.getpid(), os.getuid(), os.getgid())
    door.sendmsg([b'OUTBCRED\\0'], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, own)])
    door.send(struct.pack('i', 4))
    return door

def command(door, text):
    door.send(struct.pack('ii', len(text) + 2, 0))
    door.send(text + b'\\n\\0')

half_a_command = struct.pack('ii', 17, 0)
'''

# The daemon listens to one at a time, and the supervisor comes now and then.
FRONT_END = '''
def front_end(path):
    while True:
        try:
            door = come_as_front_end(path)
            command(door, b'get_default_active_thread_percentage')
            if door.recv(65536):
                return door
        except OSError:
            pass
'''


def _branch(path):
    try:
        with open(os.path.join(path, 'version'), encoding='ascii') as file:
            return file.read().partition('.')[0]
    except FileNotFoundError:
        return os.path.basename(path)


SIMULATED = 'simulated'
RELEASES = {_branch(path): path for path in os.environ['WARPSHARE_REAL_MPS'].split(':')}
PROGRAMS = [SIMULATED, *RELEASES]


def _copy_programs(served, program):
    """Into a folder of the test's own, from which they can be taken away."""
    if program == SIMULATED:
        sources = [os.path.join(BIN, name) for name in ('nvidia-cuda-mps-control', 'nvidia-cuda-mps-server')]
    else:
        sources = [os.path.join(RELEASES[program], 'root/usr', name)
                   for name in ('bin/nvidia-cuda-mps-control', 'sbin/nvidia-cuda-mps-server')]
    if not all(map(os.path.exists, sources)):
        pytest.skip('no nvidia-cuda-mps-control from tools/fetch-nonfree in %s' % RELEASES[program])
    served.programs = os.path.join(served.folder, 'programs')
    os.mkdir(served.programs)
    for source in sources:
        shutil.copy(source, served.programs)


class Away:
    """While it lasts there is no control program, and so no daemon."""

    def __init__(self, served):
        self._path = os.path.join(served.programs, 'nvidia-cuda-mps-control')

    def __enter__(self):
        os.rename(self._path, self._path + '.away')

    def __exit__(self, *ignored):
        os.rename(self._path + '.away', self._path)


def _serve(mps, program):  # noqa: F811
    mps.program = program
    mps.lines = (SIMULATED_LINES if program == SIMULATED else REAL_LINES) + FRONT_END
    _copy_programs(mps, program)
    mps.scenario(gpus=1)
    mps.supervisor = mps.start()
    mps.agent = mps.connect()
    mps.agent.apply(daemon(0))
    mps.agent.watch()
    mps.first = mps.agent.wait_ready(FIRST)['pid']
    return mps


@pytest.fixture
def served(mps):  # noqa: F811
    return _serve(mps, SIMULATED)


@pytest.fixture(params=PROGRAMS)
def served_by_each(mps, request):  # noqa: F811
    return _serve(mps, request.param)


@pytest.fixture
def bystander():
    """A process of the node that has nothing to do with MPS."""
    process = subprocess.Popen(['sleep', '600'])
    yield process
    process.kill()
    process.wait()


def mounted(served, writable=False):
    """What a tenant is started through to have of the node what a container has: the pipe directory, at /mnt, and nothing else of it."""
    script = ['mount --bind "$1" /mnt', *([] if writable else ['mount -o remount,bind,ro /mnt']), 'mount -t tmpfs none "$2"', 'shift 2',
              'exec "$@"']
    return ['unshare', '--mount', '--propagation=private', 'sh', '-ec', '\n'.join(script), 'sh', served.path(FIRST, 'pipe'),
            served.folder]


def expect_service(served):
    """Whoever comes now is served, with the limits that were set."""
    wait(lambda: answer_to_a_user(served) == THREADS, 'a user is answered')
    if served.program == SIMULATED:
        served.client(FIRST)


def answer_to_a_user(served):
    try:
        done = subprocess.run(
            [os.path.join(served.programs, 'nvidia-cuda-mps-control')], input='get_default_active_thread_percentage\n', text=True,
            capture_output=True, check=False, timeout=3, user=USER, group=USER, extra_groups=[],
            env={**served.environment, 'CUDA_MPS_PIPE_DIRECTORY': served.path(FIRST, 'pipe')})
        return done.stdout.strip()
    except subprocess.TimeoutExpired:
        return None


def wait_for_another(served, pid):
    """Its daemon is ready, and is another process than |pid|."""
    return served.agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != pid, 'another process')


def expect_the_first_daemon(served):
    """Its daemon has not ended: asked anew, since the last status that was told may be an old one."""
    assert served.connect().watch().wait_ready(FIRST)['pid'] == served.first
