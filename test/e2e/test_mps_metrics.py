# SPDX-License-Identifier: Apache-2.0
"""The metrics of `warpshare mps`, over HTTP as a client of the Python library reads them."""
import http.client
import os
import re
import signal
import socket

import pytest

from mps import DEADLINE, UUIDS, daemon, mps, wait  # noqa: F401 -- a fixture


def start(mps):
    """The supervisor, and the port that the kernel chose for its metrics."""
    supervisor = mps.start('--metrics-address', '127.0.0.1:0')
    return supervisor, supervisor.port()


def get(port, path, method='GET'):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=DEADLINE)
    connection.request(method, path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.getheader('Content-Type'), text


def test_metrics_of_daemons_are_the_same_over_http_and_on_the_command_line(mps):
    _, port = start(mps)
    assert get(port, '/healthz')[0] == 200, 'nothing is wanted yet, so nothing is wrong'
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    status, kind, text = get(port, '/metrics')
    assert status == 200 and kind == 'text/plain; version=0.0.4; charset=utf-8'
    assert 'warpshare_mps_daemon_state{daemon="%s",resource="nvidia.com/gpu",state="ready"} 1\n' % UUIDS[0] in text
    assert text == mps.run('mps', 'status', '--output', 'metrics').stdout
    assert get(port, '/metrics', 'HEAD')[2] == ''
    assert get(port, '/')[0] == 404


def test_health_says_which_daemon_is_not_ready(mps):
    supervisor, port = start(mps)
    mps.scenario('daemon: exits 1')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_state(UUIDS[0], 'fault')

    def reason():
        status, _, text = get(port, '/healthz')
        return status == 503 and text

    text = wait(reason, 'the health says so')
    assert text.startswith('the MPS daemon %s is in state ' % UUIDS[0]), text
    assert supervisor.process.poll() is None


def test_silent_clients_do_not_hinder_the_supervisor(mps):
    _, port = start(mps)
    silent = [socket.create_connection(('127.0.0.1', port), DEADLINE) for _ in range(40)]
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    for one in silent:
        one.close()
    assert wait(lambda: is_answered(port), 'there is room again')


def is_answered(port):
    try:
        return get(port, '/healthz')[0] == 200
    except (http.client.HTTPException, OSError):
        return False


def inodes_of(pid):
    """Of the sockets of a process."""
    found = set()
    for fd in os.listdir('/proc/%d/fd' % pid):
        try:
            found.update(re.findall(r'^socket:\[(\d+)\]$', os.readlink('/proc/%d/fd/%s' % (pid, fd))))
        except FileNotFoundError:
            pass
    return found


def tcp_inodes(pid):
    """Of all TCP sockets where the process lives."""
    found = set()
    for family in ('tcp', 'tcp6'):
        with open('/proc/%d/net/%s' % (pid, family), encoding='ascii') as file:
            found.update(line.split()[9] for line in file.readlines()[1:])
    return found


def test_a_port_is_there_only_where_one_was_asked_for(mps):
    supervisor, _ = start(mps)
    assert inodes_of(supervisor.pid) & tcp_inodes(supervisor.pid)
    supervisor.signal(signal.SIGTERM)
    supervisor.wait()
    supervisor = mps.start()
    assert inodes_of(supervisor.pid)
    assert not inodes_of(supervisor.pid) & tcp_inodes(supervisor.pid)


@pytest.mark.parametrize('address', ['localhost:9400', '9400', '[::1]'])
def test_a_wrong_address_ends_it_before_any_daemon_starts(mps, address):
    done = mps.run('mps', '--metrics-address', address)
    assert done.returncode == 1
    assert "metrics: '%s' is no IP address with a port" % address in done.stderr
    assert not mps.processes()
