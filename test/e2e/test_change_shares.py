# SPDX-License-Identifier: Apache-2.0
"""Replicas, strategies, GPUs and health policy change while pods hold devices: time-slicing and whole GPUs.

GPU 3 has a name of its own, which no change touches: not one message, and its pod goes on.
"""
import pytest

from change import OTHER, Watch, change, config, free, share, wait_settled
from node import GPU, Node

SLICES = 'timeSlicing'
UNTOUCHED = share(SLICES, (OTHER, 4, [3]))


def gpu_of(device):
    return device.split('::')[0]


@pytest.fixture(scope='module')
def shared_node():
    made = Node()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def begin(node, content):
    """The node with |content| in force and nothing held, whatever was before."""
    if node.agents and node.in_force != content:
        change(node, content)
    elif not node.agents:
        node.start_all(content)
        node.in_force = content
        node.wait(lambda: node.kubelet.allocatable(GPU) and node.kubelet.allocatable(OTHER), 'both resources are there')
    return node.kubelet


def end(node, watch, pods):
    for pod in pods:
        node.kubelet.remove_pod(pod)
    wait_settled(node)
    gaps = watch.check()
    print('gaps of untouched resources: %d, in %d messages of others' % (gaps, len(watch.messages())))
    node.kubelet.remove_pod('elsewhere')
    node.wait(lambda: not node.kubelet.pods, 'nobody holds anything')


def hold(node, watch, pods):
    for pod, resource, count in pods:
        node.kubelet.admit(pod, resource, count)
        watch.remember(pod, resource)


def three(replicas, **more):
    return config(share(SLICES, (None, replicas, [0, 1, 2]), **more), UNTOUCHED)


WHOLE = config(UNTOUCHED)


# What is free at once, as the scheduler counts; how many units are pending; what is free in the end, when no pod is left.
CHANGES = {
    'health': (three(4), {**three(4), 'health': {'xids': {13: 'unhealthy'}}}, [1, 1], 10, 0, 12),
    'placement': (three(4), three(4, placement='packed'), [1, 2], 9, 0, 12),
    'largest request': (three(4, placement='packed'), three(4), [2], 10, 0, 12),
    'more replicas': (three(4), three(8), [1, 1, 2], 20, 0, 24),
    'fewer replicas than are in use': (three(8), three(2), [8, 2], 0, None, 6),
    'fewer replicas, and some free': (three(8), three(4), [1, 1], 10, None, 12),
    'sliced and held': (three(4), WHOLE, [1], 2, 1, 3),
    'whole and held': (WHOLE, three(4), [1, 1], 4, 2, 12),
    'fewer GPUs': (three(4), config(share(SLICES, (None, 4, [0, 1])), share(SLICES, (OTHER, 4, [3]))), [3], None, None, 9),
}


@pytest.mark.parametrize('title', CHANGES)
def test_a_change_does_not_disturb_running_pods_and_other_resources(shared_node, title):
    before, after, sizes, at_once, pending, in_the_end = CHANGES[title]
    node = shared_node
    kubelet = begin(node, before)
    kubelet.admit('elsewhere', OTHER, 1)
    node.wait(lambda: kubelet.allocatable(GPU) > 0 and free(kubelet, GPU) >= sum(sizes), 'there is room')
    watch = Watch(node, [OTHER])
    hold(node, watch, [('pod%d' % i, GPU, size) for i, size in enumerate(sizes)])
    told = node.agent.count('change pending')
    change(node, after)
    if at_once is not None:
        node.wait(lambda: free(kubelet, GPU) == at_once, '%d are free at once' % at_once)
    if pending is not None:
        node.wait(lambda: node.agent.count('change pending') == told + pending, 'what is pending is told')
    for i, _ in enumerate(sizes):
        resource, ids = watch.answers['pod%d' % i]
        assert set(ids) <= set(kubelet.ids(resource))
    end(node, watch, ['pod%d' % i for i, _ in enumerate(sizes)])
    node.wait(lambda: kubelet.allocatable(GPU) == in_the_end, '%d are free in the end' % in_the_end)
