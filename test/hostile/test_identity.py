"""Who is a control daemon, and who a server: nothing that a tenant says or holds decides whom the supervisor trusts or ends."""
import os
import subprocess

import pytest

from mps import BIN, mps, wait  # noqa: F401 -- a fixture
from served import FIRST, served  # noqa: F401 -- a fixture
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

DOORS = ('control', 'control_privileged')

pytestmark = needs_root

HOLD_THE_LOCK = '''
fd = os.open(sys.argv[1], os.O_RDWR)
say('waits')
fcntl.lockf(fd, fcntl.LOCK_EX)
say('holds')
stay()
'''

# A lock on what it may only read keeps a writer out, too.
READ_LOCK = '''
fd = os.open(sys.argv[1], os.O_RDONLY)
say('waits')
fcntl.lockf(fd, fcntl.LOCK_SH)
say('holds')
stay()
'''


@pytest.fixture
def bystander():
    """A process of the node that has nothing to do with MPS."""
    process = subprocess.Popen(['sleep', '600'])
    yield process
    process.kill()
    process.wait()


def executable(pid):
    return os.path.basename(os.readlink('/proc/%d/exe' % pid))


def control(folder):
    return {'CUDA_MPS_PIPE_DIRECTORY': folder, 'CUDA_MPS_LOG_DIRECTORY': folder, 'PATH': '%s:%s' % (BIN, os.environ['PATH'])}


def count(path, word):
    try:
        with open(path, encoding='utf-8') as file:
            return file.read().count(word)
    except FileNotFoundError:
        return 0


def test_whom_a_tenant_names_as_a_server_is_not_ended(served, tenants, bystander):  # noqa: F811
    """It puts its own daemon behind the doors, which names a process of the node as its server, and ends the true daemon."""
    pipe = served.path(FIRST, 'pipe')
    own, real = (served.path(name) for name in ('own', 'real'))  # on the mount of the doors
    os.mkdir(own)
    os.mkdir(real)
    scenario = os.path.join(served.folder, 'hostile.conf')
    with open(scenario, 'w', encoding='utf-8') as file:
        file.write('version: 550\nlifetime: 600\ngpu: %s sms=80 memory=32768 cc=7\non get_server_list: answer %d\n'
                   % (FIRST, bystander.pid))
    tenants.start(ROOT, 'os.execvp("nvidia-cuda-mps-control", ["nvidia-cuda-mps-control", "-d"])',
                  environment={**control(own), 'WARPSHARE_MPS_SIM': scenario})
    wait(lambda: all(os.path.exists(os.path.join(own, door)) for door in DOORS), 'the tenant has a daemon of its own')
    for door in DOORS:
        os.rename(os.path.join(pipe, door), os.path.join(real, door))
        os.rename(os.path.join(own, door), os.path.join(pipe, door))
    asked = count(os.path.join(own, 'control.log'), 'get_server_list')
    wait(lambda: count(os.path.join(own, 'control.log'), 'get_server_list') > asked + 1 or
         served.supervisor.count('it was replaced'), 'the supervisor has asked the tenant, or knows better')
    tenants.run(ROOT, ['sh', '-c', 'echo quit -t 0 | nvidia-cuda-mps-control'], environment=control(real))
    served.agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != served.first, 'another process')
    assert bystander.poll() is None


@pytest.mark.parametrize('uid', [ROOT, USER])
@pytest.mark.parametrize('how', [HOLD_THE_LOCK, READ_LOCK], ids=['to write', 'to read'])
def test_whoever_has_the_lock_is_no_daemon(served, tenants, uid, how):  # noqa: F811
    """It queues on the lock file, and has it as soon as the daemon is gone."""
    thief = tenants.start(uid, how, served.path(FIRST, 'pipe', 'control_lock'))
    hears(thief, 'waits')
    os.kill(served.first, 9)
    found = served.agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != served.first, 'another process')
    assert executable(found['pid']) == 'nvidia-cuda-mps-control' and found['pid'] != thief.pid
    assert served.ask(FIRST, 'get_server_list') == ''
    served.client(FIRST)


def test_a_daemon_that_a_tenant_starts_is_not_taken_over(served, tenants):  # noqa: F811
    """The same program, as root of the container, with the lock and behind the doors: neighbours would come to it."""
    tenants.start(ROOT, """
say('waits')
while True:
    subprocess.run(['nvidia-cuda-mps-control', '-f'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.005)
""", prefix=['unshare', '--pid', '--fork', '--kill-child'], environment={
        **served.environment, **control(served.path(FIRST, 'pipe')), 'CUDA_MPS_LOG_DIRECTORY': served.folder})
    taken = 'holds the lock of its pipe directory and is no control daemon'
    while served.supervisor.count(taken) == 0:  # it has to win a race
        before = served.agent.wait_ready(FIRST)['pid']
        os.kill(before, 9)
        served.agent.wait_daemon(FIRST, lambda one, before=before: one['pid'] != before, 'another process')
        assert os.readlink('/proc/%d/ns/pid' % served.agent.wait_ready(FIRST)['pid']) == os.readlink('/proc/self/ns/pid')
    served.client(FIRST)


@pytest.mark.parametrize('door', ['control', 'control_privileged', 'control_lock'])
def test_a_door_that_somebody_replaced_is_a_fault(served, door):  # noqa: F811
    """Though whatever stands there now answers."""
    path = served.path(FIRST, 'pipe', door)
    os.rename(path, path + '.true')
    if door == 'control_lock':
        with open(path, 'w', encoding='utf-8'):
            pass
    else:
        os.symlink(path + '.true', path)
    served.agent.wait_daemon(FIRST, lambda one: 'it was replaced' in (one.get('reason') or ''), 'told')
    served.agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != served.first, 'another process')
    served.client(FIRST)


LISTEN = '''
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.rename(sys.argv[1], sys.argv[1] + '.daemon')
one.bind(sys.argv[1])
one.listen(4)
say('listens')
stay()
'''


@pytest.mark.parametrize('how', ['replaced', 'gone'])
def test_a_door_that_was_replaced_while_nobody_looked_is_a_fault(served, tenants, how):  # noqa: F811
    """The daemon answers all the while: the supervisor comes to it by the other door."""
    door = served.path(FIRST, 'pipe', 'control')
    served.supervisor.kill()
    if how == 'gone':
        os.rename(door, door + '.daemon')
    else:
        hears(tenants.start(ROOT, LISTEN, door), 'listens')
    served.supervisor = served.start()
    served.supervisor.wait_log("pipe/control' is not what its control daemon created: it was replaced")
    agent = served.connect().watch()
    agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != served.first, 'a daemon of its own')
    assert served.client(FIRST).poll() is None


def test_who_has_the_lock_is_named_with_its_number(served, tenants):  # noqa: F811
    thief = tenants.start(USER, HOLD_THE_LOCK, served.path(FIRST, 'pipe', 'control_lock'))
    hears(thief, 'waits')
    os.kill(served.first, 9)
    hears(thief, 'holds')
    served.agent.wait_daemon(FIRST, lambda one: one['state'] == 'ready' and one['pid'] != served.first, 'another process')
    served.supervisor.wait_log('process %d .user 1000, of no pod. holds the lock of its pipe directory' % thief.pid)


@pytest.mark.parametrize('name', ['control', 'control_lock', 'nvidia-cuda-mps-control.pid'])
@pytest.mark.parametrize('kind', ['link', 'fifo', 'folder'])
def test_what_stands_where_a_daemon_makes_its_files_is_not_touched(served, name, kind):  # noqa: F811
    """While the daemon is away; then it starts all the same, and a file of the node that a link names is as it was."""
    precious = os.path.join(served.folder, 'precious')
    with open(precious, 'w', encoding='utf-8') as file:
        file.write('of the node')
    os.chmod(precious, 0o600)
    served.scenario('daemon: exits 1', gpus=1)
    os.kill(served.first, 9)
    served.agent.wait_state(FIRST, 'fault')
    path = served.path(FIRST, 'pipe', name)
    if os.path.lexists(path):
        os.unlink(path)
    if kind == 'link':
        os.symlink(precious, path)
    elif kind == 'fifo':
        os.mkfifo(path)
    else:
        os.makedirs(os.path.join(path, 'with something in it'))
    served.scenario(gpus=1)
    served.agent.wait_ready(FIRST)
    served.client(FIRST)
    with open(precious, encoding='utf-8') as file:
        assert file.read() == 'of the node'
    assert os.stat(precious).st_mode & 0o777 == 0o600
