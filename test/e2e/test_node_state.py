# SPDX-License-Identifier: Apache-2.0
"""The marks of the node: a condition and a taint, beside those of others, with the rights of deploy/rbac.json."""
import os
import re

import pytest

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import sharing, v100s

TAINT = {'key': 'nvidia.com/gpu-sharing', 'value': 'unavailable', 'effect': 'NoSchedule'}
TAINT_OPTION = '--node-taint=nvidia.com/gpu-sharing=unavailable:NoSchedule'
THEIRS = {'key': 'team', 'effect': 'NoExecute'}
CONDITION = '--node-condition=GPUSharingReady'
NOTE = 'warpshare.dev/taint'


def lose_all(node):
    gpus = v100s(lost=True)
    node.scenario(gpus, events=[{'gpu': position, 'xid': 79} for position in range(4)])


def find_all(node):
    node.scenario(v100s(), events=[{'gpu': position, 'xid': 79} for position in range(4)])


def wait_condition(cluster, status, reason):
    def found():
        condition = cluster.condition('GPUSharingReady')
        return condition if condition and (condition['status'], condition['reason']) == (status, reason) else None
    return cluster.api.wait_for(found)


def wait_taints(cluster, *taints):
    return cluster.api.wait_for(lambda: cluster.taints() == list(taints))


def test_the_condition_follows_what_the_node_can_share(node, cluster):
    node.start_all(sharing('mps', 20), CONDITION, *cluster.options())
    condition = wait_condition(cluster, 'True', 'Ready')
    assert condition['message'] == '4 units are healthy, 1 resources are advertised'
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', condition['lastTransitionTime'])
    gpus = v100s()
    gpus[1]['lost'] = True
    node.scenario(gpus, events=[{'gpu': 1, 'xid': 79}])
    partly = wait_condition(cluster, 'True', 'SomeUnhealthy')
    assert '1 of 4 units' in partly['message'] and 'Xid 79' in partly['message']
    assert partly['lastTransitionTime'] == condition['lastTransitionTime']
    lose_all(node)
    assert 'none of 4 units' in wait_condition(cluster, 'False', 'NoHealthyGPU')['message']
    find_all(node)
    wait_condition(cluster, 'True', 'Ready')
    node.config(sharing('mps', 49))
    assert '49, at most 48' in wait_condition(cluster, 'True', 'ChangeRefused')['message']
    assert cluster.condition('Ready') == {'type': 'Ready', 'status': 'True', 'reason': 'KubeletReady'}


def test_a_taint_is_there_while_no_gpu_can_be_shared_and_others_stay(node, cluster):
    cluster.api.patch(NODES, NAME, {'spec': {'taints': [THEIRS]}, 'metadata': {'annotations': {'a': 'b'}}})
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, *cluster.options())
    lose_all(node)
    wait_taints(cluster, THEIRS, TAINT)
    assert cluster.annotations() == {'a': 'b', NOTE: 'nvidia.com/gpu-sharing=unavailable:NoSchedule'}
    find_all(node)
    wait_taints(cluster, THEIRS)
    assert cluster.annotations() == {'a': 'b'}


def test_a_taint_that_changes_in_between_is_merged_again(node, cluster):
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, *cluster.options())
    cluster.wait_configured()
    # The answer to the first patch is a conflict, as after a race.
    cluster.api.fault('status', verb='patch', resource='nodes', code=409)
    cluster.api.patch(NODES, NAME, {'spec': {'taints': [THEIRS]}})
    lose_all(node)
    wait_taints(cluster, THEIRS, TAINT)
    assert [one.status for one in cluster.edits()] == [409, 200]


def test_without_a_driver_the_node_is_marked_and_with_it_no_more(node, cluster):
    library, node.library = node.library, node.folder + '/none.so'
    node.kubelet.start()
    node.start('--fail-on-init-error=false', '--nvml-library', node.library, TAINT_OPTION, CONDITION, *cluster.options())
    wait_condition(cluster, 'False', 'NVMLUnavailable')
    wait_taints(cluster, TAINT)
    os.symlink(library, node.library)
    wait_condition(cluster, 'True', 'Ready')
    wait_taints(cluster)


def test_marks_stay_over_a_restart_and_go_when_their_options_do(node, cluster):
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, CONDITION, *cluster.options())
    lose_all(node)
    wait_taints(cluster, TAINT)
    wait_condition(cluster, 'False', 'NoHealthyGPU')
    assert node.agent.stop() == 0
    assert cluster.taints() == [TAINT] and cluster.condition('GPUSharingReady')['status'] == 'False'
    node.start(*cluster.options())
    wait_taints(cluster)
    cluster.api.wait_for(lambda: cluster.condition('GPUSharingReady') is None)
    assert cluster.condition('Ready') and not cluster.annotations()


def test_a_node_that_is_made_anew_is_marked_anew(node, cluster):
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, CONDITION, *cluster.options())
    lose_all(node)
    wait_taints(cluster, TAINT)
    wait_condition(cluster, 'False', 'NoHealthyGPU')
    cluster.make_anew()
    wait_taints(cluster, TAINT)
    wait_condition(cluster, 'False', 'NoHealthyGPU')
    assert cluster.annotations() == {NOTE: 'nvidia.com/gpu-sharing=unavailable:NoSchedule'}
    cluster.wait_configured()
    assert cluster.condition('Ready')


def test_a_removed_or_changed_condition_or_taint_is_restored(node, cluster):
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, CONDITION, *cluster.options())
    lose_all(node)
    wait_taints(cluster, TAINT)
    wait_condition(cluster, 'False', 'NoHealthyGPU')
    cluster.api.patch(NODES, NAME, {'spec': {'taints': [THEIRS]}})
    wait_taints(cluster, THEIRS, TAINT)
    cluster.api.patch(NODES, NAME, {'status': {'conditions': []}}, subresource='status')
    wait_condition(cluster, 'False', 'NoHealthyGPU')
    node.agent.wait_log('what the agent keeps on its Node object was removed or changed, and is restored')


def test_an_agent_without_marks_asks_once_and_changes_nothing(node, cluster):
    node.start_all(sharing('timeSlicing', 4), *cluster.options())
    cluster.api.wait_for(lambda: cluster.api.asked('get', 'nodes'))
    lose_all(node)
    node.wait_counts(0, 16)
    cluster.wait_event('GPUUnhealthy', count=4)
    assert len(cluster.api.asked('get', 'nodes')) == 1 and not cluster.edits()


@pytest.mark.parametrize('option, text', [
    ('--node-taint=a', "--node-taint: 'a' is not a taint: write key=value:effect or key:effect"),
    ('--node-condition=Ready', "--node-condition: 'Ready' is a condition that kubelet sets"),
])
def test_marks_that_cannot_be_set_are_refused_at_the_start(node, option, text):
    agent = node.start(option)
    agent.fails(re.escape(text))
