# SPDX-License-Identifier: Apache-2.0
"""Who is a control daemon, and who a server: nothing that a tenant says or holds decides whom the supervisor trusts or ends."""
import os

import pytest

from mps import BIN, daemon, mps, wait  # noqa: F401 -- a fixture
from served import FIRST, bystander, expect_service, mounted, served, served_by_each, wait_for_another  # noqa: F401 -- fixtures
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


def test_a_process_that_a_tenant_names_as_a_server_is_not_killed(served, tenants, bystander):  # noqa: F811
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
def test_the_lock_alone_makes_no_process_a_daemon(served_by_each, tenants, uid, how):  # noqa: F811
    """It queues on the lock file, and has it as soon as the daemon is gone."""
    served = served_by_each
    thief = tenants.start(uid, how, '/mnt/control_lock', prefix=mounted(served, writable=how == HOLD_THE_LOCK))
    hears(thief, 'waits')
    os.kill(served.first, 9)
    found = wait_for_another(served, served.first)
    assert executable(found['pid']) == 'nvidia-cuda-mps-control' and found['pid'] != thief.pid
    assert thief.poll() is None
    assert served.ask(FIRST, 'get_server_list') == ''
    expect_service(served)


def test_a_daemon_that_a_tenant_starts_is_not_taken_over(served_by_each, tenants):  # noqa: F811
    """The same program, as root of the container, with the lock and behind the doors: neighbours would come to it."""
    served = served_by_each
    tenants.start(ROOT, """
say('waits')
while True:
    subprocess.run(['nvidia-cuda-mps-control', '-f'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.005)
""", prefix=['unshare', '--pid', '--fork', '--kill-child'], environment={
        **served.environment, 'CUDA_MPS_PIPE_DIRECTORY': served.path(FIRST, 'pipe'), 'CUDA_MPS_LOG_DIRECTORY': served.folder})
    taken = 'holds the lock of its pipe directory and is no control daemon'
    while served.supervisor.count(taken) == 0:  # it has to win a race
        before = served.agent.wait_ready(FIRST)['pid']
        os.kill(before, 9)
        served.agent.wait_daemon(FIRST, lambda one, before=before: one['pid'] != before, 'another process')
        assert os.readlink('/proc/%d/ns/pid' % served.agent.wait_ready(FIRST)['pid']) == os.readlink('/proc/self/ns/pid')
    expect_service(served)


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_a_daemon_of_a_tenant_is_not_ended_as_one_that_the_supervisor_has_forgotten(served, tenants, uid):  # noqa: F811
    """The record is lost, and the tenant's has the same program, the same argument, and a directory of the node's."""
    pipe = served.path('left', 'pipe')
    os.makedirs(pipe)
    os.chmod(pipe, 0o777)
    program = os.path.join(served.programs, 'nvidia-cuda-mps-control')
    tenant = tenants.start(uid, 'os.execv(sys.argv[1], [sys.argv[1], "-f"])', program, environment={
        **served.environment, 'CUDA_MPS_PIPE_DIRECTORY': pipe, 'CUDA_MPS_LOG_DIRECTORY': pipe, 'CUDA_VISIBLE_DEVICES': FIRST},
        prefix=['unshare', '--pid', '--fork', '--kill-child'] if uid == ROOT else ())
    wait(lambda: os.path.exists(os.path.join(pipe, 'control')), 'the tenant has a daemon')
    served.supervisor.kill()
    os.unlink(served.path('state.json'))
    served.supervisor = served.start()
    agent = served.connect().watch()
    agent.apply(daemon(0, threadsPermille=50))
    agent.wait_ready(FIRST)
    agent.apply()
    agent.wait_status(lambda status: not status['daemons'], 'the only one has ended')
    assert tenant.poll() is None and served.supervisor.count('adopted name=left') == 0
    assert served.supervisor.count('adopted name=%s' % FIRST) == 1


@pytest.mark.parametrize('door', ['control', 'control_privileged', 'control_lock'])
def test_a_replaced_socket_is_a_fault(served_by_each, door):  # noqa: F811
    """Though whatever stands there now answers."""
    served = served_by_each
    path = served.path(FIRST, 'pipe', door)
    os.rename(path, path + '.true')
    if door == 'control_lock':
        with open(path, 'w', encoding='utf-8'):
            pass
    else:
        os.symlink(path + '.true', path)
    served.agent.wait_daemon(FIRST, lambda one: 'it was replaced' in (one.get('reason') or ''), 'told')
    wait_for_another(served, served.first)
    expect_service(served)


LISTEN = '''
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.rename(sys.argv[1], sys.argv[1] + '.daemon')
one.bind(sys.argv[1])
one.listen(4)
say('listens')
stay()
'''


@pytest.mark.parametrize('how', ['replaced', 'gone'])
def test_a_socket_that_was_replaced_while_no_supervisor_ran_is_a_fault(served, tenants, how):  # noqa: F811
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


def test_the_holder_of_the_lock_is_named_with_its_pid(served_by_each, tenants):  # noqa: F811
    served = served_by_each
    thief = tenants.start(USER, HOLD_THE_LOCK, '/mnt/control_lock', prefix=mounted(served, writable=True))
    hears(thief, 'waits')
    os.kill(served.first, 9)
    hears(thief, 'holds')
    wait_for_another(served, served.first)
    served.supervisor.wait_log('process %d .user 1000, of no pod. holds the lock of its pipe directory' % thief.pid)
