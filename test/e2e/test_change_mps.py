# SPDX-License-Identifier: Apache-2.0
"""MPS changes while pods compute: agent, `warpshare mps` and CUDA programs together.

A program that runs keeps its daemon and its limits until its pod ends; the other GPU goes over at once.
"""
import os
import time

import pytest

from change import Watch, change, free, wait_settled
from mps_node import MpsNode, share, uuid_of
from node import DEADLINE, GPU, sharing

FIRST, SECOND = uuid_of(0), uuid_of(1)
NEW = 'nvidia.com/gpu.new'


@pytest.fixture(scope='module')
def node():
    made = MpsNode()
    made.start_all(share(20))
    made.in_force = share(20)
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def begin(node, content):
    """|content| is in force, and a pod holds a replica and computes: it, its unit, the other one, and what it was given."""
    if node.in_force != content:
        change(node, content)
    node.wait(lambda: node.kubelet.allocatable(GPU) == 2 * content['sharing']['mps']['resources'][0]['replicas'],
              'all replicas are there')
    node.kubelet.admit('pod', GPU, 1)
    watch = Watch(node, [])
    watch.remember('pod', GPU)
    unit = node.unit('pod')
    # A runtime takes longer to make a container than this test, whose kubelet may not have heard yet that daemons start anew.
    node.wait(lambda: os.path.exists(os.path.join(node.daemon_folder('pod'), '.started')), 'its daemon is ready')
    client = node.client('pod')
    given = client.connected()
    assert client.allocate(int(given['limit'])) > 0
    return watch, client, unit, SECOND if unit == FIRST else FIRST, given


def check_client(node, client, given):
    """It is where it was, and has what it had: no byte more; so has another process of the same container."""
    assert client.is_alive(), node.logs()
    assert client.allocate(1) == 0
    again = node.client('pod').connected()
    assert (again['percentage'], again['limit']) == (given['percentage'], given['limit'])


def check_page(node, unit, content):
    """The page of the node has the unit as its containers have it, until they have ended."""
    shown, = (one for one in node.agent.units(GPU) if one['uuid'] == unit)
    replicas = content['sharing']['mps']['resources'][0]['replicas']
    assert shown.get('draining') and shown['by'] == 'device-plugin' and shown['sharing'] == 'mps', shown
    assert (shown['granted'], shown['replicas'], shown.get('reserved')) == (1, replicas, None), shown
    assert [(share['pod'], share['replicas']) for share in shown['shares']] == [('pod', 1)], shown
    node.wait(lambda: node.programs.run('mps', 'status').stdout.splitlines().count('%s  pod default/pod' % unit) == 1,
              'the status of the daemons names the pod, once')


def admit(node, pod, name, unit, count):
    """As soon as there is room: a daemon that starts anew is away for a moment."""
    deadline = time.monotonic() + DEADLINE
    while True:
        node.wait(lambda: node.healthy_replicas(name, unit) == count, '%d replicas of %s' % (count, unit))
        try:
            node.admit(pod, 1, name)
            return
        except RuntimeError:
            assert time.monotonic() < deadline, node.logs()


WEIGHTED = share(20, provisioning='weighted', maxPerRequest=1)
RENAMED = {**share(20), 'sharing': {'mps': {'resources': [{'name': GPU, 'rename': NEW, 'replicas': 20}]}}}

# From what, to what, what the other GPU has at once, by which name, and what there is in the end. Last: whether what is held counts as
# healthy, so that the scheduler, which subtracts it, finds all that the other GPU has.
CHANGES = {
    'fewer replicas': (share(20), share(10), GPU, 10, 20, True),
    'more replicas': (share(10), share(40), GPU, 40, 80, True),
    'weighted': (share(40), WEIGHTED, GPU, 20, 40, False),
    'time-slicing': (WEIGHTED, sharing('timeSlicing', 5), GPU, 5, 10, False),
    'one slice a request': (share(20), sharing('timeSlicing', 5, failRequestsGreaterThanOne=True), GPU, 5, 10, True),
    'whole GPUs': (share(20), {'version': 'v1'}, GPU, 1, 2, False),
    'one daemon for both': (share(20), share(20, daemonScope='resource'), GPU, 0, 40, False),
    'a new name': (share(20), RENAMED, NEW, 20, 40, False),
}


@pytest.mark.parametrize('title', CHANGES)
def test_a_running_client_keeps_daemon_and_limits_until_it_ends(node, title):
    before, after, name, at_once, in_the_end, counts = CHANGES[title]
    watch, client, unit, other, given = begin(node, before)
    pid = node.daemon(unit)['pid']
    change(node, after)
    node.wait(lambda: node.healthy_replicas(name, other) == at_once, 'the other GPU has %d' % at_once)
    node.wait(lambda: node.healthy_replicas(name, unit) == counts, 'nobody new gets what is held')
    if counts:
        node.wait(lambda: free(node.kubelet, name) == at_once, 'the scheduler finds %d' % at_once)
    if name != GPU:
        node.wait(lambda: node.kubelet.allocatable(GPU) == 0, 'the old name gives nothing')
    assert node.daemon(unit)['pid'] == pid
    check_page(node, unit, before)
    check_client(node, client, given)
    assert set(watch.answers['pod'][1]) <= set(node.kubelet.ids(GPU))
    if title in ('fewer replicas', 'a new name'):
        admit(node, 'next', name, other, at_once)
        assert node.unit('next', name) == other
    leave(node, 'pod', 'next')
    node.wait(lambda: node.kubelet.allocatable(name) == in_the_end, '%d in the end' % in_the_end)
    wait_settled(node)
    watch.check()


def leave(node, *pods):
    while node.clients:
        node.clients.pop().end()
    for pod in pods:
        node.kubelet.remove_pod(pod)


def test_a_change_that_is_undone_while_it_waits_is_not_told_as_carried_out(node):
    watch, client, unit, _, given = begin(node, share(20))
    carried_out = node.agent.count('change carried out')
    change(node, share(10))
    node.agent.wait_event('ChangePending', unit)
    change(node, share(20))
    node.agent.wait_log('change withdrawn event=ChangeCompleted .*unit=%s to="mps uniform, 20 replicas"' % unit)
    assert node.agent.count('change carried out') == carried_out
    check_client(node, client, given)
    leave(node, 'pod')
    watch.check()


def door(answer):
    """The mounts of an answer without device metadata, which is of one allocation alone."""
    return {mount.container_path: mount.host_path for mount in answer.mounts if not mount.container_path.endswith('-metadata.json')}


def test_an_id_that_kubelet_allocates_again_too_early_keeps_its_place(node):
    _, client, unit, other, given = begin(node, share(20))
    held = node.kubelet.pods['pod'].held(GPU)
    change(node, share(10))
    node.wait(lambda: node.healthy_replicas(unit=other) == 10 and node.healthy_replicas(unit=unit) == 1, 'the other GPU has gone over')
    plugin = node.kubelet.plugin(GPU)
    assert plugin.prefer_ids(sorted(held), 1) == []
    assert plugin.prefer_ids(sorted(held) + [other + '::3'], 1) == [other + '::3']
    again, = plugin.allocate_ids(sorted(held))
    assert again.envs['NVIDIA_VISIBLE_DEVICES'] == unit
    assert again.envs['WARPSHARE_MEMORY_LIMIT_MIB'] == node.variables('pod')['WARPSHARE_MEMORY_LIMIT_MIB']
    assert door(again) == door(node.answer('pod'))
    check_client(node, client, given)
    leave(node, 'pod')
    node.wait(lambda: node.kubelet.allocatable(GPU) == 20, 'the GPU goes over, too')


def test_an_agent_that_starts_in_the_middle_leaves_the_daemon_alone(node):
    watch, client, unit, other, given = begin(node, share(20))
    pid = node.daemon(unit)['pid']
    change(node, share(10))
    node.wait(lambda: node.healthy_replicas(unit=other) == 10 and node.healthy_replicas(unit=unit) == 1, 'the other GPU has gone over')
    assert node.agent.stop() == 0
    node.start('--log-level=debug')
    node.wait(lambda: node.healthy_replicas(unit=other) == 10 and node.healthy_replicas(unit=unit) == 1, 'it is as before')
    assert node.daemon(unit)['pid'] == pid
    check_client(node, client, given)
    assert set(watch.answers['pod'][1]) <= set(node.kubelet.ids(GPU, healthy=True))
    leave(node, 'pod')
    node.wait(lambda: node.kubelet.allocatable(GPU) == 20, 'the GPU goes over, too')


def test_an_agent_that_starts_with_another_configuration_leaves_the_daemon_alone(node):
    watch, client, unit, other, given = begin(node, share(10))
    pid = node.daemon(unit)['pid']
    assert node.agent.stop() == 0
    node.config(share(20))
    node.start('--log-level=debug')
    node.wait(lambda: node.healthy_replicas(unit=other) == 20 and node.healthy_replicas(unit=unit) == 1, 'the other GPU goes over')
    assert node.daemon(unit)['pid'] == pid
    check_client(node, client, given)
    assert set(watch.answers['pod'][1]) <= set(node.kubelet.ids(GPU))
    leave(node, 'pod')
    node.wait(lambda: node.kubelet.allocatable(GPU) == 40, 'the GPU goes over, too')
