# SPDX-License-Identifier: Apache-2.0
"""One MPS daemon for several GPUs, of which one is away: the others are served, and their clients notice nothing."""
import pytest

from mps_node import node, share, uuid_of  # noqa: F401 -- a fixture
from node import GPU

FIRST, SECOND = uuid_of(0), uuid_of(1)
UNREAD = {1: {'errors': {'nvmlDeviceGetMemoryInfo': 'UNKNOWN'}}}
LOST = {1: {'lost': True}}
NAMES = {'resource': GPU, 'node': 'node'}


def limits(node, name):
    """The memory that the daemon allows one client on each GPU, as its program prints 1630 MiB."""
    return [node.programs.ask(name, 'get_default_device_pinned_mem_limit %d' % i)
            for i in range(len(node.daemon(name)['units']))]


def admit(node):
    """A pod that computes on the first GPU."""
    node.kubelet.admit('pod', GPU, 1)
    assert node.unit('pod') == FIRST
    client = node.client('pod')
    client.connected()
    return client


def leave(node, client):
    client.end()
    node.kubelet.remove_pod('pod')


@pytest.mark.parametrize('scope', NAMES)
def test_a_gpu_that_cannot_be_read_at_the_start_is_left_out_until_nobody_computes_on_the_others(node, scope):
    node.gpus(2, changes=UNREAD)
    node.start_all(share(20, daemonScope=scope))
    node.wait_counts(20, 40)
    assert node.daemon(NAMES[scope])['units'] == [FIRST]
    client = admit(node)
    pid = node.daemon(NAMES[scope])['pid']
    node.gpus(2)
    node.stays(lambda: node.healthy_replicas(unit=FIRST) == 20 and node.healthy_replicas(unit=SECOND) == 0,
               'the first GPU takes pods', 5)
    assert node.daemon(NAMES[scope])['pid'] == pid and client.is_alive()
    leave(node, client)
    node.wait_counts(40)
    assert node.daemon(NAMES[scope])['units'] == [FIRST, SECOND]
    assert limits(node, NAMES[scope]) == ['1G', '1G']


def test_an_agent_that_starts_while_a_gpu_cannot_be_read_leaves_the_daemon_that_has_it_alone(node):
    node.start_all(share(20, daemonScope='resource'))
    node.wait_counts(40)
    client = admit(node)
    pid = node.daemon(GPU)['pid']
    node.gpus(2, changes=UNREAD)
    assert node.agent.stop() == 0
    node.start('--log-level=debug')
    node.wait_counts(20, 40)
    node.stays(lambda: node.healthy_replicas(unit=FIRST) == 20, 'the first GPU takes pods')
    node.gpus(2)
    node.wait_counts(40)
    assert node.daemon(GPU)['pid'] == pid and client.is_alive()
    assert limits(node, GPU) == ['1G', '1G']


def test_a_gpu_that_is_lost_for_good_keeps_the_others_from_nothing(node):
    node.start_all(share(20, daemonScope='resource'))
    node.wait_counts(40)
    node.gpus(2, changes=LOST)
    node.agent.wait_event('MPSDaemonFault', 'its unit %s is lost' % SECOND)
    node.agent.hang_up()  # it reads its GPUs again, as by itself within a minute
    node.wait_counts(20, 40)
    assert node.daemon(GPU)['units'] == [FIRST]
    client = admit(node)
    node.gpus(2)
    node.stays(lambda: node.healthy_replicas(unit=FIRST) == 20, 'the first GPU takes pods', 5)
    leave(node, client)
    node.wait_counts(40)
    assert limits(node, GPU) == ['1G', '1G']
