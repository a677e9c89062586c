# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the configuration changes while kubelet is served."""
import os

import pytest

from node import GPU, sharing, v100s


def reload(node, config):
    node.config(config)
    node.agent.hang_up()


def test_fewer_replicas_leave_the_dropped_ids_as_unhealthy_and_more_bring_them_back(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    ids = set(kubelet.ids(GPU))
    lists = len(kubelet.messages)
    for replicas, allocatable in ((10, 40), (20, 80)):
        reload(node, sharing('mps', replicas))
        node.wait_counts(allocatable, 80)
        assert set(kubelet.ids(GPU)) == ids
        assert {int(device.split('::')[1]) for device in kubelet.ids(GPU, healthy=True)} == set(range(replicas))
    assert len(kubelet.registered) == 1 and not kubelet.ended
    assert len(kubelet.messages) <= lists + 4  # each change is one, and one when the daemons have heard of it


def test_a_device_of_the_plan_before_can_still_be_allocated(node):
    # kubelet may have picked it in the moment before it had the new list.
    kubelet = node.start_all(sharing('mps', 20))
    old = [device for device in kubelet.ids(GPU) if device.endswith('::19')][0]
    reload(node, sharing('mps', 10))
    node.wait_counts(40, 80)
    response, = kubelet.plugin(GPU).allocate_ids([old])
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == old.split('::')[0]


def test_a_resource_that_is_the_same_in_the_new_configuration_sees_no_message(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    lists = len(kubelet.messages)
    reload(node, {**sharing('mps', 20), 'flags': {'mpsRoot': '/run/nvidia/mps', 'plugin': {'deviceIDStrategy': 'index'}}})
    # What changed is in force all the same.
    node.wait(lambda: kubelet.admit('pod', GPU, 1)[1].envs['NVIDIA_VISIBLE_DEVICES'] in '0123', 'the index is given')
    assert len(kubelet.messages) == lists and len(kubelet.attempts) == 1


def test_more_gpus_are_found_by_a_hang_up(node):
    node.scenario(v100s()[:3])
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(60)
    node.scenario(v100s())
    node.agent.hang_up()
    node.wait_counts(80)
    assert len(kubelet.registered) == 1


@pytest.mark.parametrize('text, reason', [
    ('version: v1\nsharing: {mps: {resources: [{name: gpu, replicas: none}]}}\n', 'line 2: .*replicas'),
    ('version: v1\n  sharing: [\n', 'line [0-9]+'),
    ('version: v2\n', "'v2' is not a known version, use v1"),
    (None, 'No such file or directory')])
def test_a_bad_file_is_named_and_the_plan_in_force_serves_on(node, text, reason):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    lists = len(kubelet.messages)
    if text is None:
        os.unlink(node.config_path)
    else:
        node.config(text)
    node.agent.hang_up()
    node.agent.wait_problem('newest configuration is refused: .*%s' % reason)
    kubelet.admit('pod', GPU, 1)
    assert len(kubelet.messages) == lists and len(kubelet.attempts) == 1
    reload(node, sharing('mps', 10))
    node.wait_counts(31, 80)  # what the pod holds and 30 more, and its GPU when it has ended


def test_a_plan_that_the_gpus_do_not_allow_is_refused_and_the_one_in_force_serves_on(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    lists = len(kubelet.messages)
    reload(node, sharing('mps', 49))
    node.agent.wait_problem('newest plan is refused: .*49, at most 48 for this GPU and driver')
    kubelet.admit('pod', GPU, 1)
    assert len(kubelet.messages) == lists


def test_a_rename_moves_all_devices_to_the_new_name(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    node.wait_counts(16)
    reload(node, sharing('timeSlicing', 4, renameByDefault=True))
    node.wait_counts(16, resource='nvidia.com/gpu.shared')
    node.wait(lambda: kubelet.allocatable(GPU) == 0, 'the old name has nothing left')
    assert [name for name in node.sockets() if 'gpu.shared' in name] == node.sockets()


def test_twenty_hang_ups_at_once_do_no_harm(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    for i in range(20):
        reload(node, sharing('mps', 10 + i % 2))
    reload(node, sharing('mps', 15))
    node.wait_counts(60, 80)
    node.stays(lambda: kubelet.allocatable(GPU) == 60, '60 allocatable', 1.0)
    assert len(kubelet.registered) == 1
