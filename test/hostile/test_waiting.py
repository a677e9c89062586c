# SPDX-License-Identifier: Apache-2.0
"""Tenants who keep the control daemon from listening to others, through what is mounted into their containers, read-only as it is.

NVIDIA's daemon has one thread, waits for everybody without end, and takes commands from one front end at a time.
"""
import pytest

from mps import mps  # noqa: F401 -- a fixture
from rights import may_copy_descriptors
from served import FIRST, expect_service, expect_the_first_daemon, mounted, served, served_by_each  # noqa: F401 -- fixtures
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = [needs_root, pytest.mark.skipif(not may_copy_descriptors(), reason='to close a connection takes pidfd_getfd(), of Linux 5.6')]

each_user = pytest.mark.parametrize('uid', [ROOT, USER], ids=['root', 'user'])

# Each ends with a connection of which the daemon waits for something.
STUCK = {
    'says nothing': '''
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect('/mnt/control')
''',
    'says half a command': '''
if half_a_command:
    door = front_end('/mnt/control')
    door.send(half_a_command)
else:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.connect('/mnt/control')
''',
    'does not read': '''
door = front_end('/mnt/control')
door.settimeout(1)
try:
    while True:
        command(door, b'get_default_active_thread_percentage')
except TimeoutError:
    door.settimeout(None)
'''}

WAIT_FOR_THE_END = '''
import select
say('stuck')
end = select.poll()
end.register(door, 0)  # nothing but its end
end.poll()
say('closed')
stay()
'''

CROWD = '''
import select
path = sys.argv[1]
def connect():
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.connect(path)
    return door
# The queue of a socket takes 128; who comes then waits in connect().
for _ in range(3):
    if os.fork() == 0:
        doors = [connect() for _ in range(60)]
        while doors:
            for door in select.select(doors, [], [])[0]:
                if not door.recv(64):
                    doors.remove(door)
        os._exit(0)
say('comes')
for _ in range(3):
    os.wait()
say('all closed')
stay()
'''


@each_user
@pytest.mark.parametrize('how', STUCK)
def test_one_connection_does_not_keep_others_from_the_daemon(served_by_each, tenants, uid, how):  # noqa: F811
    """The daemon waits for each without end; it is freed, it is told of whom, and it is not ended, which would end its clients."""
    tenant = tenants.start(uid, served_by_each.lines + STUCK[how] + WAIT_FOR_THE_END, prefix=mounted(served_by_each))
    hears(tenant, 'stuck')
    hears(tenant, 'closed')
    served_by_each.agent.wait_daemon(
        FIRST, lambda one: 'process %d (user %d, of no pod) blocked its control socket' % (tenant.pid, uid) in (one.get('notice') or ''), 'told')
    expect_service(served_by_each)
    expect_the_first_daemon(served_by_each)
    assert tenant.poll() is None


@each_user
def test_a_front_end_that_stays_keeps_no_other_from_the_daemon(served_by_each, tenants, uid):  # noqa: F811
    """The daemon listens to one at a time, and the supervisor is one."""
    tenant = tenants.start(uid, served_by_each.lines + "door = front_end('/mnt/control')\n" + WAIT_FOR_THE_END, prefix=mounted(served_by_each))
    hears(tenant, 'stuck')
    hears(tenant, 'closed')
    served_by_each.agent.wait_daemon(
        FIRST, lambda one: 'process %d (user %d, of no pod) occupied its control socket' % (tenant.pid, uid) in (one.get('notice') or ''), 'told')
    expect_service(served_by_each)
    expect_the_first_daemon(served_by_each)
    assert tenant.poll() is None


@pytest.mark.parametrize('uid, door', [(USER, 'control'), (ROOT, 'control_privileged')])
def test_a_crowd_of_silent_connections_does_not_end_the_daemon(served_by_each, tenants, uid, door):  # noqa: F811
    crowd = tenants.start(uid, CROWD, '/mnt/' + door, prefix=mounted(served_by_each))
    hears(crowd, 'comes')
    hears(crowd, 'all closed')
    expect_service(served_by_each)
    expect_the_first_daemon(served_by_each)
    assert crowd.poll() is None


def test_a_dozen_silent_users_do_not_end_the_daemon(served, tenants):  # noqa: F811
    """Each is given its time, and a question of the supervisor waits behind them all: for longer than a daemon that hangs would be given."""
    users = [tenants.start(USER + n, served.lines + STUCK['says nothing'] + WAIT_FOR_THE_END, prefix=mounted(served)) for n in range(12)]
    for user in users:
        hears(user, 'stuck')
    for user in users:
        hears(user, 'closed')
    expect_service(served)
    expect_the_first_daemon(served)
    assert all(user.poll() is None for user in users)
