# SPDX-License-Identifier: Apache-2.0
"""A tenant fills the shared memory of MPS: who shares no GPU with it does not notice, it is told with whose files they are, and nothing of what
lies there is followed."""
import errno
import os
import subprocess

import pytest

from mps import UUIDS, daemon, mps, with_shm  # noqa: F401 -- a fixture
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

FIRST = UUIDS[0]
MIB = 1 << 20

pytestmark = needs_root

FILL = {
    'bytes': '''
with open(sys.argv[1] + '/large', 'wb') as file:
    try:
        while True:
            file.write(b'x' * 65536)
    except OSError:
        pass
say('full')
stay()
''',
    'nameless': '''
file = open(sys.argv[1] + '/large', 'wb', buffering=0)
os.unlink(sys.argv[1] + '/large')
try:
    while True:
        file.write(b'x' * 65536)
except OSError:
    pass
say('full')
stay()
''',
    'files': '''
os.mkfifo(sys.argv[1] + '/fifo')
os.symlink('/', sys.argv[1] + '/link')
here = sys.argv[1]
try:
    for i in range(40):
        here += '/d'
        os.mkdir(here)
    for i in range(1000):
        open(sys.argv[1] + '/%d' % i, 'w').close()
except OSError:
    pass
say('full')
stay()
'''}


@pytest.fixture
def served(mps):  # noqa: F811
    """As hostile/served.py, with a tmpfs as `mps mount-shm` makes it, but small."""
    shm = os.path.join(mps.root, 'shm')
    os.mkdir(shm)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=16m,nr_inodes=200', 'shm', shm], check=True)
    mps.scenario(gpus=1)
    mps.supervisor = mps.start('--shared-memory=node')
    mps.agent = mps.connect()
    mps.agent.apply(daemon(0))
    mps.agent.watch()
    mps.first = mps.agent.wait_ready(FIRST)['pid']
    yield mps
    subprocess.run(['umount', '--lazy', shm], check=True)


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_a_full_shared_memory_does_not_affect_other_gpus(mps, tenants, uid):  # noqa: F811
    mps.start('--shared-memory-size=16')
    agent = mps.connect().watch()
    agent.apply(daemon(0), daemon(1))
    pids = [agent.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]]
    neighbour = mps.client(FIRST)  # a container that was there before
    hears(tenants.start(uid, FILL['bytes'], '/dev/shm', prefix=with_shm(mps.shm_of(FIRST))), 'full')
    told = agent.wait_daemon(FIRST, lambda one: one['sharedMemory']['full'], 'it is full')['sharedMemory']
    assert told['owners'][0]['uid'] == uid and told['usedBytes'] == told['sizeBytes'] == 16 * MIB
    said = subprocess.run(
        [*with_shm(mps.shm_of(FIRST)), 'warpshare-mps-sim-client'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, timeout=60,
        env={**mps.environment, 'CUDA_MPS_PIPE_DIRECTORY': mps.path(FIRST, 'pipe')})
    assert 'error 805 CUDA_ERROR_MPS_CONNECTION_FAILED' in said.stdout
    other = mps.client(UUIDS[1])  # connects
    assert neighbour.poll() is None and other.poll() is None
    status = agent.wait_daemon(UUIDS[1], lambda one: one['clients'], 'it has a client')
    assert status['sharedMemory']['full'] is False
    assert [agent.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]] == pids
    metrics = mps.run('mps', 'status', '--output', 'metrics').stdout
    assert 'warpshare_mps_shared_memory_used_bytes{daemon="%s",resource="nvidia.com/gpu"} %d\n' % (FIRST, 16 * MIB) in metrics


@pytest.mark.parametrize('uid, how', [(ROOT, 'bytes'), (ROOT, 'files'), (USER, 'bytes'), (USER, 'files'), (USER, 'nameless')])
def test_a_tenant_that_fills_the_shared_memory_is_reported(served, tenants, uid, how):  # noqa: F811
    shm = os.path.join(served.root, 'shm')
    before = served.agent.wait_status(lambda status: 'sharedMemory' in status, 'the size is told')['sharedMemory']
    assert (before['sizeBytes'], before['filesMax'], before['full'], before['owners']) == (16 * MIB, 200, False, [])
    hears(tenants.start(uid, FILL[how], shm), 'full')
    told = served.agent.wait_status(lambda status: status['sharedMemory']['full'], 'it is full')['sharedMemory']
    if how == 'nameless':
        assert told['namelessBytes'] > 14 * MIB
    else:
        assert told['owners'][0]['uid'] == uid
        assert told['owners'][0]['bytes'] > 14 * MIB if how == 'bytes' else told['owners'][0]['files'] > 150
    metrics = served.run('mps', 'status', '--output', 'metrics').stdout
    assert 'warpshare_mps_shared_memory_size_bytes %d\n' % (16 * MIB) in metrics
    assert 'warpshare_mps_shared_memory_files_max 200\n' in metrics
    assert served.agent.wait_ready(FIRST)['pid'] == served.first
    tenants.finish()
    for name in os.listdir(shm):
        subprocess.run(['rm', '-r', os.path.join(shm, name)], check=True)
    served.agent.wait_status(lambda status: not status['sharedMemory']['full'], 'there is room again')


LINK = '''
os.symlink(sys.argv[2], sys.argv[1] + '/file')
os.symlink(os.path.dirname(sys.argv[2]), sys.argv[1] + '/folder')
'''


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_no_link_in_a_daemon_s_shared_memory_is_followed_by_it(mps, tenants, uid):  # noqa: F811
    """Seen with its own eyes: through its /dev/shm, and by what the kernel says of its mounts."""
    precious = os.path.join(mps.folder, 'precious')
    with open(precious, 'w', encoding='utf-8') as file:
        file.write('of the node')
    mps.scenario(gpus=1)
    mps.start()
    agent = mps.connect().watch()
    agent.apply(daemon(0))
    pid = agent.wait_ready(FIRST)['pid']
    assert tenants.start(uid, LINK, mps.shm_of(FIRST), precious).wait() == 0
    for name in ('file', 'folder/precious'):
        with pytest.raises(OSError) as refused:
            with open('/proc/%d/root/dev/shm/%s' % (pid, name), encoding='utf-8'):
                pass
        assert refused.value.errno == errno.ELOOP
    with open('/proc/%d/mountinfo' % pid, encoding='utf-8') as file:
        options = {line.split()[4]: line.split()[5].split(',') for line in file}
    assert {'nosymfollow', 'nosuid', 'nodev', 'noexec'} <= set(options['/dev/shm'])
    assert 'nosymfollow' in options[mps.path(FIRST, 'pipe')]
    assert mps.client(FIRST).poll() is None  # it works there
