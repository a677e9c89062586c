# SPDX-License-Identifier: Apache-2.0
"""`warpshare mps ping`, by which kubelet finds out whether the supervisor's loop runs. Where NVML hangs: test_nvml_hangs_mps.py."""
import os
import re
import signal

import pytest

from mps import UUIDS, daemon, mps, wait  # noqa: F401 -- a fixture
from node import fast
from test_mps_daemon import children, start_kept


def ping(mps, *arguments):  # noqa: F811
    """Its exit status, and what it says on the standard error."""
    done = mps.run('mps', 'ping', *arguments)
    assert done.stdout == ''
    return done.returncode, done.stderr


def test_a_supervisor_that_stands_still_gives_no_sign_of_life(mps):  # noqa: F811
    supervisor = mps.start()
    assert ping(mps) == (0, '')
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    try:
        assert ping(mps, '--timeout=1') == (1, "no sign of life of the MPS supervisor with '%s': it does not answer\n" % mps.root)
    finally:
        os.kill(supervisor.process.pid, signal.SIGCONT)
    assert ping(mps) == (0, '')


def pending(pid):
    with open('/proc/%d/status' % pid, encoding='ascii') as file:
        return int(re.search('^ShdPnd:\t(.*)', file.read(), re.MULTILINE).group(1), 16)


def test_in_a_container_one_that_stands_still_for_a_minute_is_started_again_and_clients_live(mps):  # noqa: F811
    """Before kubelet ends the container, and with it the clients."""
    mps.variables = fast()
    parent, first, pid, client = start_kept(mps)
    mps.variables = {}
    os.kill(first, signal.SIGSTOP)  # as a call into the kernel that does not return; what would end that waits while it is stopped
    wait(lambda: pending(first) & 1 << signal.SIGALRM - 1, 'the alarm', timeout=60)
    os.kill(first, signal.SIGCONT)
    parent.wait_log('the supervisor was ended by a signal, and is started again signal="Alarm clock" times=1')
    mps.wait_socket(parent)
    assert ping(mps) == (0, '')
    adopted = mps.connect().watch().wait_ready(UUIDS[0])
    assert adopted['pid'] == pid and adopted['adopted'] and client.poll() is None


def test_a_daemon_that_does_not_answer_is_no_fault_of_the_supervisor(mps):  # noqa: F811
    mps.variables = fast()
    mps.start()
    mps.variables = {}
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    os.kill(pid, signal.SIGSTOP)
    peer.wait_daemon(UUIDS[0], lambda one: one['state'] != 'ready', 'it is at fault')
    assert ping(mps) == (0, '')


def test_where_nobody_listens_nobody_lives(mps):  # noqa: F811
    path = mps.path('warpshare.sock')
    assert ping(mps) == (1, "no sign of life of the MPS supervisor with '%s': connect to '%s': No such file or directory\n" % (mps.root, path))
    mps.start().kill()
    assert ping(mps) == (1, "no sign of life of the MPS supervisor with '%s': connect to '%s': Connection refused\n" % (mps.root, path))


def test_connections_of_others_do_not_keep_it_from_being_found_alive(mps):  # noqa: F811
    mps.start()
    for _ in range(64):
        assert mps.connect().watch().read()
    assert ping(mps) == (0, '')
    assert mps.run('mps', 'status').returncode == 1, 'there was room for one more'


@pytest.mark.parametrize('seconds', ['0', '3601', 'long'])
def test_a_timeout_that_is_none_is_refused(mps, seconds):  # noqa: F811
    done = mps.run('mps', 'ping', '--timeout', seconds)
    assert done.returncode == 2 and "timeout: '%s' is not a number of seconds from 1 to 3600" % seconds in done.stderr
