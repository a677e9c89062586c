# SPDX-License-Identifier: Apache-2.0
"""What kubelet sees when the agent registers."""
import re

import pytest

from node import GPU, sharing


def test_kubelet_gets_its_options_while_register_is_still_unanswered(node):
    # The stand-in, like kubelet, fails Register unless it gets them; the counts could not come otherwise.
    kubelet = node.start_all(sharing('mps', 20))
    assert kubelet.options[GPU].get_preferred_allocation_available
    assert not kubelet.options[GPU].pre_start_required
    assert len(kubelet.attempts) == 1


def test_four_gpus_shared_by_mps_in_20_are_one_resource_with_80_healthy_devices(node):
    kubelet = node.start_all(sharing('mps', 20))
    assert list(kubelet.devices) == [GPU]
    node.wait_counts(80)
    message = kubelet.messages_of(GPU)[-1]
    assert len(message.healthy) == 80 and all(message.healthy.values())
    assert message.repeated_ids == 0
    per_gpu = {}
    for device in message.healthy:
        uuid, replica = re.fullmatch(r'(GPU-[0-9a-f-]{36})::(\d+)', device).groups()
        per_gpu.setdefault(uuid, set()).add(int(replica))
    assert len(per_gpu) == 4
    assert all(replicas == set(range(20)) for replicas in per_gpu.values())


def test_the_endpoint_is_a_file_name_in_kubelets_directory(node):
    kubelet = node.start_all(sharing('mps', 20))
    endpoint = kubelet.registered[0][1]
    assert re.fullmatch(r'warpshare-gpu-[0-9a-f]+-1\.sock', endpoint)
    assert node.sockets() == [endpoint]


def test_each_start_has_a_socket_name_of_its_own(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.agent.stop()
    assert node.sockets() == []
    node.start()
    node.wait(lambda: len(kubelet.registered) == 2, 'the second agent registered')
    assert kubelet.registered[0][1] != kubelet.registered[1][1]


def test_the_list_is_sent_once_and_no_more_while_nothing_changes(node):
    kubelet = node.start_all(sharing('timeSlicing', 20))
    node.stays(lambda: len(kubelet.messages) == 1 and len(kubelet.attempts) == 1, 'one message, one registration', 1.5)


def test_time_slicing_with_rename_by_default_advertises_gpu_shared(node):
    kubelet = node.start_all(sharing('timeSlicing', 10, renameByDefault=True))
    assert list(kubelet.devices) == ['nvidia.com/gpu.shared']
    node.wait_counts(40, resource='nvidia.com/gpu.shared')
    assert kubelet.registered[0][1].startswith('warpshare-gpu.shared-')


def test_a_resource_can_be_renamed(node):
    kubelet = node.start_all({'version': 'v1', 'sharing': {'timeSlicing': {'resources': [
        {'name': GPU, 'rename': 'nvidia.com/gpu.small', 'replicas': 3}]}}})
    assert list(kubelet.devices) == ['nvidia.com/gpu.small']
    node.wait_counts(12, resource='nvidia.com/gpu.small')


def test_without_sharing_whole_gpus_are_advertised_with_their_numa_nodes(node):
    node.scenario([{'model': 'V100-32GB', 'numa': numa} for numa in (0, 0, 1, 3)])
    kubelet = node.start_all()
    message = kubelet.messages_of(GPU)[0]
    assert all(re.fullmatch(r'GPU-[0-9a-f-]{36}', device) for device in message.healthy)
    assert sorted(message.numa.values()) == [[0], [0], [1], [3]]


def test_all_replicas_of_a_gpu_have_its_numa_node(node):
    node.scenario([{'model': 'V100-32GB', 'numa': 0}, {'model': 'V100-32GB', 'numa': 1}])
    kubelet = node.start_all(sharing('timeSlicing', 5))
    message = kubelet.messages_of(GPU)[0]
    nodes = {}
    for device, numa in message.numa.items():
        nodes.setdefault(device.split('::')[0], []).append(numa)
    assert sorted(nodes.values()) == [[[0]] * 5, [[1]] * 5]


def test_an_unknown_numa_node_is_no_topology_at_all(node):
    node.scenario([{'model': 'V100-32GB'}, {'model': 'V100-32GB', 'numa': -1}])
    kubelet = node.start_all(sharing('timeSlicing', 2))
    message = kubelet.messages_of(GPU)[0]
    assert list(message.numa.values()) == [None] * 4


@pytest.mark.parametrize('authority', ['localhost', 'escaped', 'path'])
def test_kubelet_may_name_the_authority_in_every_way_it_ever_did(node, authority):
    node.kubelet.authority = authority
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    ids, response = kubelet.admit('pod', GPU, 1)
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == ids[0].split('::')[0]


