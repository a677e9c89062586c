# SPDX-License-Identifier: Apache-2.0
"""The GPU Operator says that clients of the driver are to leave the node: MPS daemons end before it unloads the driver."""
import pytest

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from mps_node import node, share  # noqa: F401 -- a fixture

CLIENT = 'nvidia.com/gpu.deploy.client'
UPGRADE = 'nvidia.com/gpu-driver-upgrade-state'


def label(cluster, **labels):
    """None removes one."""
    cluster.api.patch(NODES, NAME, {'metadata': {'labels': {
        {'client': CLIENT, 'upgrade': UPGRADE}[key]: value for key, value in labels.items()}}}, manager='gpu-operator')


def start(node, cluster, grace):
    """One share is in use, and its client computes."""
    node.start_mps('--grace=%d' % grace)
    node.start_agent(share(10), *cluster.options())
    node.wait_counts(20)
    node.admit('one')
    client = node.client('one')
    client.connected()
    return client


def wait_no_daemon(node):
    node.watch().wait_status(lambda status: not status['daemons'], 'no daemon is left')


@pytest.mark.parametrize('before, leave, after', [
    ({'client': 'true'}, {'client': 'paused-for-driver-upgrade'}, {'client': 'true'}),
    ({'client': 'true'}, {'client': 'paused-for-mig-change'}, {'client': None}),
    ({'upgrade': 'drain-required'}, {'upgrade': 'pod-restart-required'}, {'upgrade': 'validation-required'}),
])
def test_daemons_end_with_their_clients_and_come_back(node, cluster, before, leave, after):
    label(cluster, **before)
    client = start(node, cluster, grace=0)
    label(cluster, **leave)
    wait_no_daemon(node)
    client.wait()
    node.wait_counts(0, 20)
    event = cluster.wait_event('GPUClientsLeave')
    (key, value), = leave.items()
    assert event['type'] == 'Warning' and '(%s=%s)' % ({'client': CLIENT, 'upgrade': UPGRADE}[key], value) in event['message']
    assert not cluster.events('MPSDaemonFault')
    node.agent.reload()  # another look at the same GPUs starts none
    node.stays(lambda: not node.watch().wait_status(lambda status: True, 'a status')['daemons'], 'no daemon', 0.5)
    label(cluster, **after)
    node.wait_counts(20)
    assert cluster.wait_event('GPUClientsReturn')['type'] == 'Normal'


def test_daemons_end_although_the_agent_is_the_first_that_leaves_the_node(node, cluster):
    client = start(node, cluster, grace=5)
    label(cluster, client='paused-for-driver-upgrade')
    node.agent.wait_log('clients of the driver are to leave this node.*event=GPUClientsLeave')
    node.watch().wait_status(lambda status: any(one['state'] == 'draining' for one in status['daemons']), 'it drains')
    node.agent.stop()
    assert client.is_alive()  # it has the grace
    wait_no_daemon(node)
    client.wait()


def test_daemons_without_clients_end_at_once_and_others_have_the_grace(node, cluster):
    client = start(node, cluster, grace=600)
    label(cluster, client='paused-for-driver-upgrade')
    node.watch().wait_status(lambda status: [one['name'] for one in status['daemons']] == [node.unit('one')], 'one is left')
    assert client.is_alive()
    label(cluster, client='true')
    node.wait_counts(20)
    assert client.is_alive()


def test_an_operator_that_has_the_label_says_by_it_alone_whether_the_driver_goes(node, cluster):
    label(cluster, client='true')
    client = start(node, cluster, grace=0)
    label(cluster, upgrade='pod-restart-required')
    node.stays(client.is_alive, 'the client computes', 0.5)
    assert not cluster.events('GPUClientsLeave')
