# SPDX-License-Identifier: Apache-2.0
"""Whatever a tenant does to what is mounted into its container, in any order, while the supervisor works.

Nothing of the node is signalled, opened or changed by it; the supervisor lives, answers, and stays within its bounds; and when the
tenant has ended, its daemon serves again. A failure shows the seed, and the same seed does the same again, but for the moments.
"""
import json
import os
import random
import select
import struct
import subprocess
import time

import pytest

from mps import BIN, DEADLINE, mps, wait, with_shm  # noqa: F401 -- a fixture
from node_files import MIB, Scale, Watch
from served import FIRST, SIMULATED, THREADS, answer_to_a_user, served_by_each  # noqa: F401 -- a fixture
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = needs_root

ACTIONS = 1500

# argv: seed, number of actions, a file of the node, folders.
ANYTHING = '''
import errno, random
seed, count, foreign = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
folders = sys.argv[4:]
any_of = random.Random(seed)
doors = ['control', 'control_privileged', 'control_lock', 'nvidia-cuda-mps-control.pid', 'log', 'x', 'y']
held = []
socket.setdefaulttimeout(0.05)

def name():
    folder = any_of.choice(folders)
    there = sorted(os.listdir(folder)) if any_of.random() < 0.5 else []
    return os.path.join(folder, any_of.choice(there or doors))

def rubbish():
    return any_of.choice([b'UI', b'CMD quit', b'CMD get_server_list', b'CMD start_server -uid 0', os.urandom(any_of.randrange(1, 4096)),
                          b'x' * 60000, struct.pack('<iiii', *(any_of.randrange(-2, 70000) for _ in range(4)))])

def keep(thing):
    held.append(thing)
    if len(held) > 40:
        old = held.pop(any_of.randrange(len(held)))
        os.close(old) if isinstance(old, int) else old.close()

def write(flags):
    fd = os.open(name(), flags | os.O_NONBLOCK, 0o666)
    keep(fd)
    os.write(fd, rubbish())

def lock():
    fd = os.open(name(), os.O_RDWR | os.O_NONBLOCK)
    keep(fd)
    fcntl.lockf(fd, any_of.choice([fcntl.LOCK_EX, fcntl.LOCK_SH]) | fcntl.LOCK_NB)

def listen():
    one = socket.socket(socket.AF_UNIX, any_of.choice([socket.SOCK_SEQPACKET, socket.SOCK_STREAM]))
    keep(one)
    one.bind(name())
    one.listen(4)

def connect():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keep(one)
    one.setblocking(False)
    one.connect(os.path.join(folders[0], any_of.choice(doors[:2])))
    for _ in range(any_of.randrange(4)):
        one.send(rubbish())

def speak():
    one = come_as_front_end(os.path.join(folders[0], any_of.choice(doors[:2])))
    keep(one)
    for _ in range(any_of.randrange(4)):
        command(one, any_of.choice([b'quit', b'get_server_list', b'start_server -uid 0', b'set_default_active_thread_percentage 1',
                                    os.urandom(any_of.randrange(1, 8000))]))

def fill():
    fd = os.open(name(), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o666)
    keep(fd)
    os.ftruncate(fd, any_of.randrange(1 << 20))
    os.write(fd, os.urandom(any_of.randrange(1, 65536)))

actions = [
    lambda: write(os.O_WRONLY | os.O_CREAT), lambda: write(os.O_WRONLY | os.O_APPEND), lambda: write(os.O_RDWR | os.O_TRUNC),
    lambda: os.rename(name(), name()), lambda: os.symlink(foreign, name()), lambda: os.symlink(os.path.dirname(foreign), name()),
    lambda: os.symlink(name(), name()), lambda: os.link(name(), name()), lambda: os.link(foreign, name()),
    lambda: os.mkfifo(name(), 0o666), lambda: os.mkdir(name()), lambda: os.unlink(name()), lambda: os.rmdir(name()),
    lambda: os.chmod(name(), any_of.choice([0, 0o600, 0o777, 0o4777])), lock, listen, connect, speak, fill,
]
say('begins')
successes = 0
for _ in range(count):
    try:
        any_of.choice(actions)()
        successes += 1
    except (OSError, ValueError):
        pass
    time.sleep(0.002)
say(successes)
'''

SOMEBODY = 2000


@pytest.fixture
def foreign(tmp_path):
    """A file of the node, in a folder that every user may look into. Neither tenant may open it; the supervisor may."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == folder.parent or str(folder) == '/tmp':
            break
        os.chmod(folder, 0o755)
    path = tmp_path / 'of-the-node'
    path.write_text('unchanged')
    path.chmod(0o600)
    os.chown(path, SOMEBODY, SOMEBODY)
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    return str(path)


def memory_of(pid):
    with open('/proc/%d/status' % pid, encoding='ascii') as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith('VmRSS:'))


def is_served(served):  # noqa: F811
    """Whether whoever comes now is; what it comes to may be a door of the tenant's yet. pytest shows with a failure what it said."""
    if served.program != SIMULATED:
        return answer_to_a_user(served) == THREADS
    client = subprocess.Popen([*with_shm(served.shm_of(FIRST)), os.path.join(BIN, 'warpshare-mps-sim-client')], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env={**served.environment, 'CUDA_MPS_PIPE_DIRECTORY': served.path(FIRST, 'pipe')})
    try:
        said = b''
        while b'connected' not in said and select.select([client.stdout], [], [], 3)[0]:
            got = os.read(client.stdout.fileno(), 4096)
            if not got:
                break
            said += got
        print('a client:', said)
        return b'connected' in said
    finally:
        client.kill()
        client.communicate()


def test_the_watch_sees_another_program_open_the_file(foreign):
    watch = Watch(foreign)
    with open(foreign, 'rb'):
        pass
    assert watch.seen()


@pytest.mark.parametrize('uid', [ROOT, USER], ids=['root', 'user'])
def test_nothing_that_a_tenant_does_at_random_reaches_the_node(served_by_each, tenants, foreign, uid):  # noqa: F811
    served = served_by_each
    seed = random.randrange(1 << 32)
    print('seed', seed)  # pytest shows it with a failure
    bystander = subprocess.Popen(['sleep', '600'])
    watch = Watch(foreign)
    scale = Scale(served.path(FIRST, 'log'))
    pid = served.supervisor.process.pid
    before = memory_of(pid)
    try:
        tenant = tenants.start(uid, served.lines + ANYTHING, seed, ACTIONS, foreign, served.path(FIRST, 'pipe'),
                               served.shm_of(FIRST))
        hears(tenant, 'begins')
        deadline = time.monotonic() + 2 * DEADLINE
        while tenant.poll() is None:
            assert time.monotonic() < deadline, 'the tenant itself hangs'
            done = served.run('mps', 'status', '--output=json')
            assert json.loads(done.stdout)['daemons'], done.stderr
        assert memory_of(pid) < before + 64 * MIB
    finally:
        most = scale.finish()
        is_alive = bystander.poll() is None
        bystander.kill()
        bystander.wait()
    assert is_alive and most < 128 * MIB
    assert int(tenant.stdout.readline()) > ACTIONS // 20  # what it may do at all
    assert served.supervisor.process.poll() is None
    tenants.finish()
    try:
        wait(lambda: is_served(served), 'a client is served again', 2 * DEADLINE)
    except AssertionError:
        print(served.logs())
        raise
    assert watch.seen() == []
    with open(foreign, encoding='ascii') as file:
        assert file.read() == 'unchanged'
