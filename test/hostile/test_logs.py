# SPDX-License-Identifier: Apache-2.0
"""What a tenant makes the control daemon write: the node's memory is not his to fill, and nothing he writes becomes a fact."""
import os
import re

import pytest

from mps import mps, wait  # noqa: F401 -- a fixture
from node_files import MIB, Scale
from served import (FIRST, bystander, expect_service, expect_the_first_daemon, mounted, served_by_each,  # noqa: F401 -- fixtures
                    wait_for_another)
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = needs_root

# Whoever asks is disconnected, and comes back.
FLOOD = '''
say('floods')
while True:
    try:
        door = front_end('/mnt/control')
        while True:
            command(door, b'x' * 4000)
            try:
                while door.recv(65536, socket.MSG_DONTWAIT):
                    pass
            except BlockingIOError:
                pass
    except OSError:
        say('again')
'''


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_a_flood_of_commands_does_not_fill_the_node(served_by_each, tenants, uid):  # noqa: F811
    served = served_by_each
    scale = Scale(served.path(FIRST, 'log'))
    flood = tenants.start(uid, served.lines + FLOOD, prefix=mounted(served))
    hears(flood, 'floods')
    try:
        for _ in range(3):
            kept = served.path(FIRST, 'log', 'control.log.1')
            before = os.path.exists(kept) and os.stat(kept).st_mtime_ns
            wait(lambda: os.path.exists(kept) and os.stat(kept).st_mtime_ns != before, 'the log is cut')
        for _ in range(20):
            hears(flood, 'again')
        served.agent.wait_daemon(FIRST, lambda one: re.search('is flooded|occupied', one.get('notice') or ''), 'told')
    finally:
        most = scale.finish()
    assert most < 128 * MIB
    expect_the_first_daemon(served)


FORGE = '''
head = '[2026-11-20 10:06:00.123 %s %s] '
control, server = head % ('Control', ' 4711'), head % ('Server', sys.argv[1])
command(front_end('/mnt/control'), ('x\\n' + control + 'Starting new server %s for user 0\\n' % sys.argv[1] +
        control + 'NEW SERVER %s: Ready\\n' % sys.argv[1] + server + 'Client {PID: %s, Context ID: 7} connected\\n' % sys.argv[1] +
        control + 'Server %s exited with status 1' % sys.argv[1]).encode())
say('forged')
stay()
'''


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_a_forged_log_line_makes_no_process_a_server_or_a_client(served_by_each, tenants, bystander, uid):  # noqa: F811
    """One command, whose line breaks the daemon copies into its log. What the last line says is told as what it is; nobody is ended."""
    served = served_by_each
    hears(tenants.start(uid, served.lines + FORGE, bystander.pid, prefix=mounted(served)), 'forged')
    told = served.agent.wait_daemon(FIRST, lambda one: 'its server ended with status 1' in (one.get('notice') or ''), 'the log is read')
    assert (told['servers'], told['clients'], told['pid']) == ([], [], served.first)
    os.kill(served.first, 9)  # its servers end with it
    wait_for_another(served, served.first)
    expect_service(served)
    assert bystander.poll() is None
