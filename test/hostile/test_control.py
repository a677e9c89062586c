# SPDX-License-Identifier: Apache-2.0
"""What tenants do to the control daemon through what is mounted into their containers, read-only as it is: its sockets and the pipe of
its log. The daemon serves on, or is back by itself; nobody else is signalled.
"""
import pytest

from mps import mps  # noqa: F401 -- a fixture
from served import (bystander, expect_service, expect_the_first_daemon, mounted, served_by_each,  # noqa: F401 -- fixtures
                    wait_for_another)
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = [needs_root, pytest.mark.parametrize('uid', [ROOT, USER], ids=['root', 'user'])]


def test_a_command_beyond_all_measure_ends_a_daemon_that_comes_back(served_by_each, tenants, uid, bystander):  # noqa: F811
    """It does not check how long a command is."""
    tenant = tenants.start(uid, served_by_each.lines + '''
command(front_end('/mnt/control'), b'x' * 20000)
say('sent')
stay()
''', prefix=mounted(served_by_each))
    hears(tenant, 'sent')
    wait_for_another(served_by_each, served_by_each.first)
    expect_service(served_by_each)
    assert tenant.poll() is None and bystander.poll() is None


def test_rubbish_in_the_pipe_of_the_log_ends_a_daemon_that_comes_back(served_by_each, tenants, uid, bystander):  # noqa: F811
    """Everybody may write there; NVIDIA's daemon then reads it no longer, and stands still when it is full."""
    tenant = tenants.start(uid, '''
pipe = os.open('/mnt/log', os.O_WRONLY | os.O_NONBLOCK)
try:
    while True:
        os.write(pipe, b'x' * 4096)
        time.sleep(0.005)
except (BlockingIOError, BrokenPipeError):
    say('full')
stay()
''', prefix=mounted(served_by_each))
    hears(tenant, 'full')
    wait_for_another(served_by_each, served_by_each.first)
    expect_service(served_by_each)
    assert tenant.poll() is None and bystander.poll() is None


def test_only_root_may_end_the_daemon_and_it_is_started_again(served_by_each, tenants, uid):  # noqa: F811
    tenant = tenants.start(uid, served_by_each.lines + '''
door = front_end(sys.argv[1])
command(door, b'quit')
answer = door.recv(65536)
say('refused' if b'Not enough privilege' in answer else 'quits')
stay()
''', '/mnt/control_privileged' if uid == ROOT else '/mnt/control', prefix=mounted(served_by_each))
    hears(tenant, 'quits' if uid == ROOT else 'refused')
    if uid == ROOT:
        wait_for_another(served_by_each, served_by_each.first)
    expect_service(served_by_each)
    if uid == USER:
        expect_the_first_daemon(served_by_each)
    assert tenant.poll() is None
