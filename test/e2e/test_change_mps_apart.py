# SPDX-License-Identifier: Apache-2.0
"""What a change of MPS does not touch, and what a change beside MPS does not: not one message, the same daemon, the same limits.

Five GPUs, four resources, each held by a pod: two GPUs and one by MPS, one in time slices, one whole.
"""
import time

import pytest

from change import OTHER, Watch, change, config, share, wait_settled
from mps_node import MpsNode, uuid_of
from node import GPU

SMALL, TINY, SLICED = 'nvidia.com/gpu.small', 'nvidia.com/gpu.tiny', 'nvidia.com/gpu.sliced'
APART = uuid_of(2)
RIGHT = {OTHER: 4, SLICED: 4, GPU: 1}


def layout(name=SMALL, replicas=20, kind='mps', gpus=(0, 1), other=4, slices=4, **more):
    """GPUs 0 and 1 by one name, 2 by MPS with another, 3 in slices, 4 whole. |more| goes into the section of MPS."""
    first = share(kind, (name, replicas, gpus), **(more if kind == 'mps' else {}))
    return config(first, share('mps', (OTHER, other, [2]), **more), share('timeSlicing', (SLICED, slices, [3])))


LISTED = 'kubelet has reported which container holds which devices containers=%d'
# So long (s) a kubelet that has just started may leave pods out of its list: who is missing then is in doubt, and lists are told once more
# for that (node/ledger/holdings.h: HOLDINGS_GRACE_MS). Nobody says when that is over.
YOUNG = 10.5
WEIGHTED = {'provisioning': 'weighted', 'maxPerRequest': 1}

# From what, to what, what hears nothing of it, and by which name GPUs 0 and 1 have how much in the end.
CHANGES = {
    'fewer replicas': (layout(), layout(replicas=10), (OTHER, SLICED, GPU), SMALL, 20),
    'more replicas': (layout(replicas=10), layout(replicas=20), (OTHER, SLICED, GPU), SMALL, 40),
    'a new name': (layout(), layout(name=TINY), (OTHER, SLICED, GPU), TINY, 40),
    'time slices': (layout(name=TINY), layout(name=TINY, kind='timeSlicing'), (OTHER, SLICED, GPU), TINY, 40),
    'fewer GPUs': (layout(), layout(gpus=[0]), (OTHER, SLICED), SMALL, 20),
    'more slices': (layout(), layout(slices=8), (SMALL, OTHER, GPU), SMALL, 40),
    'more replicas of the other': (layout(), layout(other=8), (SMALL, SLICED, GPU), SMALL, 40),
    'weighted': (layout(), layout(**WEIGHTED), (SLICED, GPU), SMALL, 40),
    'less memory': (layout(**WEIGHTED), layout(**WEIGHTED, memoryReserve='8Gi'), (SLICED, GPU), SMALL, 40),
    'a name a GPU': (layout(), layout(scope='individual', daemonScope='gpu'), (SLICED, GPU), SMALL + '0', 20),
}


@pytest.fixture(scope='module')
def node():
    made = MpsNode()
    made.gpus(5)
    made.start_all(layout())
    time.sleep(YOUNG)
    made.in_force = layout()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def begin(node, content):
    """|content| is in force, and every resource has a pod; under MPS it computes. What those were given."""
    name, replicas = [(entry['rename'], entry['replicas']) for section in content['sharing'].values()
                      for entry in section['resources'] if '0' in entry['devices']][0]
    if node.in_force != content:
        change(node, content)
    for resource, right in {**RIGHT, name: 2 * replicas}.items():
        node.wait(lambda resource=resource, right=right: node.kubelet.allocatable(resource) == right, 'all of ' + resource)
    wait_settled(node)
    given = {}
    heard = node.agent.count(LISTED % 4)
    for pod, resource in (('pod', name), ('apart', OTHER), ('slice', SLICED), ('whole', GPU)):
        node.kubelet.admit(pod, resource, 1)
        if resource in (name, OTHER):
            client = node.client(pod, resource=resource)
            given[pod] = (resource, client, client.connected())
            assert client.allocate(int(given[pod][2]['limit'])) > 0
    node.agent.wait_log(LISTED % 4, heard + 1)  # who ends before kubelet's list had him is in doubt, too
    return name, given


def check_clients(node, given):
    """They are where they were, and another process of the same container gets what they got."""
    for pod, (resource, client, got) in given.items():
        assert client.is_alive(), node.logs()
        assert client.allocate(1) == 0
        again = node.client(pod, resource=resource).connected()
        assert (again['percentage'], again['limit']) == (got['percentage'], got['limit'])


@pytest.mark.parametrize('title', CHANGES)
def test_a_change_is_no_moment_of_less_for_what_it_does_not_touch(node, title):
    before, after, untouched, name, in_the_end = CHANGES[title]
    held, given = begin(node, before)
    pids = {unit: node.daemon(unit)['pid'] for unit in (node.unit('pod', held), APART)}
    watch = Watch(node, untouched)
    for pod, resource in (('pod', held), ('apart', OTHER), ('slice', SLICED), ('whole', GPU)):
        watch.remember(pod, resource)
    change(node, after)
    check_clients(node, given)
    assert {unit: node.daemon(unit)['pid'] for unit in pids} == pids
    end_clients(node)
    node.kubelet.remove_pod('pod')
    node.wait(lambda: node.kubelet.allocatable(name) == in_the_end, '%d in the end' % in_the_end)
    if OTHER in untouched:
        assert node.daemon(APART)['pid'] == pids[APART]
    heard = node.agent.count(LISTED % 0)
    for pod in ('apart', 'slice', 'whole'):
        node.kubelet.remove_pod(pod)
    node.agent.wait_log(LISTED % 0, heard + 1)  # else they and the next are in doubt together, and lists are told once more for that
    wait_settled(node)
    gaps = watch.check()
    if OTHER in untouched:
        assert node.daemon(APART)['pid'] == pids[APART]
    print('gaps of untouched resources: %d, in %d messages of others' % (gaps, len(watch.messages())))


def end_clients(node):
    while node.clients:
        node.clients.pop().end()
