# SPDX-License-Identifier: Apache-2.0
"""Lines that a tenant writes into the log of its daemon: they are told, and end nobody."""
import os

from mps_node import node, share, uuid_of  # noqa: F401 -- a fixture
from tenant import USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = needs_root

# One command, whose line breaks the daemon copies into its log.
FORGE = '''
path, server, victim = sys.argv[1:]
head = '[2026-11-20 10:06:00.123 Server  %s] ' % server
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(path)
door.send(b'UI')
door.send(('CMD x\\n' + head + 'Active Threads Percentage set to 100.0\\n' +
           head + 'Device pinned memory limit for device 0 set to 0x1000000000 bytes\\n' +
           head + 'Client {PID: %s, Context ID: 7} connected\\n' % victim).encode())
say('forged')
stay()
'''


def test_a_neighbour_is_not_ended_for_what_a_log_says_of_it(node, tenants):  # noqa: F811
    node.gpus(1)
    node.start_all(share(4, guard='terminate'))
    node.wait_counts(4)
    node.admit('greedy', 1, namespace='team')
    node.admit('neighbour', 1)
    good, *greedy = [node.client(pod) for pod in ('neighbour', 'greedy', 'greedy')]
    for client in (good, *greedy):
        client.connected()
    status = node.watch().wait_daemon(uuid_of(0), lambda one: len(one['clients']) == 3, 'all are seen')
    forger = tenants.start(USER, FORGE, os.path.join(node.mps_root, uuid_of(0), 'pipe', 'control'), status['servers'][0]['pid'], good.pid)
    hears(forger, 'forged')
    node.agent.wait_log('limit violated event=MPSLimitViolated violation=limit .*client=%d' % good.pid)
    # One that is really to be ended comes later, and is ended: so the neighbour had its turn.
    for client in greedy:
        assert client.allocate(5000) == 5000
    node.agent.wait_log('terminating an MPS client event=MPSClientTerminated')
    node.agent.wait_log('limit holds again event=MPSLimitHolds violation=memory')
    assert sum(client.is_alive() for client in greedy) == 1
    assert good.is_alive() and good.allocate(10) == 10
    assert node.agent.count('MPSClientTerminated') == 1
