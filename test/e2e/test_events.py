# SPDX-License-Identifier: Apache-2.0
"""What the agent tells the cluster as Kubernetes events, with the rights of deploy/rbac.json."""
import os
import re

from cluster import NAME, cluster  # noqa: F401 -- a fixture
from node import GPU, sharing, v100s


def fail(node, position, xid=79, lost=True):
    gpus = v100s()
    if lost:
        gpus[position]['lost'] = True
    node.scenario(gpus, events=[{'gpu': position, 'xid': xid}])


def uuid_at(node, position):
    return node.agent.page()['gpus'][position]['uuid']


def test_a_gpu_that_fails_and_recovers_has_events_on_the_node_as_kubectl_shows_them(node, cluster):
    node.start_all(sharing('timeSlicing', 4), *cluster.options())
    uuid = uuid_at(node, 2)
    fail(node, 2)
    event = cluster.wait_event('GPUUnhealthy')
    assert event['involvedObject'] == {'apiVersion': 'v1', 'kind': 'Node', 'name': NAME, 'uid': NAME}
    assert event['metadata']['name'].startswith(NAME + '.') and event['metadata']['namespace'] == 'default'
    assert (event['type'], event['count']) == ('Warning', 1)
    assert event['source'] == {'component': 'warpshare', 'host': NAME}
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', event['firstTimestamp'])
    assert event['lastTimestamp'] == event['firstTimestamp']
    assert event['message'].startswith('GPU 2 (%s) is unhealthy: Xid 79 (GPU has fallen off the bus)' % uuid)
    node.scenario(v100s(), events=[{'gpu': 2, 'xid': 79}])
    event = cluster.wait_event('GPUHealthy')
    assert (event['type'], event['message']) == ('Normal', 'GPU 2 (%s) is healthy again' % uuid)
    assert len(cluster.events()) == 2


def test_only_the_pods_on_that_gpu_get_events_with_their_uid(node, cluster):
    kubelet = node.start_all({'version': 'v1'}, *cluster.options())
    by_pod = {}
    for pod in ('a', 'b', 'c', 'd'):
        by_pod[kubelet.admit(pod, GPU, 1, namespace='team-' + pod)[0][0]] = pod
    pod = by_pod[uuid_at(node, 2)]
    fail(node, 2)
    event = cluster.wait_event('GPUUnhealthy', 'team-' + pod, 'Pod')
    assert event['involvedObject'] == {'apiVersion': 'v1', 'kind': 'Pod', 'name': pod, 'namespace': 'team-' + pod,
                                       'uid': kubelet.pods[pod].uid}
    assert event['message'] == cluster.wait_event('GPUUnhealthy')['message']
    node.scenario(v100s(), events=[{'gpu': 2, 'xid': 79}])
    cluster.wait_event('GPUHealthy', 'team-' + pod, 'Pod')
    assert not [other for other in by_pod.values() if other != pod and cluster.events(namespace='team-' + other)]


def test_the_same_again_raises_the_count_of_the_first(node, cluster):
    node.start_all(sharing('timeSlicing', 4), *cluster.options())
    uuid = uuid_at(node, 1)
    fail(node, 1, xid=48, lost=False)
    cluster.wait_event('GPUHealthy')
    node.scenario(v100s(), events=[{'gpu': 1, 'xid': 48}, {'gpu': 1, 'xid': 48}])
    cluster.api.wait_for(lambda: [event['count'] for event in cluster.events('GPUHealthy')] == [2])
    first, = cluster.events('GPUUnhealthy')
    assert first['count'] == 2 and uuid in first['message']
    assert [one.content_type for one in cluster.api.asked('patch', 'events')] == ['application/merge-patch+json'] * 2


def test_a_refused_configuration_and_its_repair_are_reported(node, cluster):
    node.start_all(sharing('mps', 20), *cluster.options())
    node.config(sharing('mps', 0))
    event = cluster.wait_event('ConfigRefused')
    assert event['type'] == 'Warning' and 'replicas: 0, must be' in event['message']
    node.config(sharing('mps', 49))
    assert '49, at most 48 for this GPU and driver' in cluster.wait_event('PlanRefused')['message']
    node.config(sharing('mps', 10))
    node.wait_counts(40, 80)
    assert cluster.wait_event('PlanAccepted')['type'] == 'Normal'
    assert len(cluster.events('PlanRefused')) == len(cluster.events('ConfigRefused')) == 1


def test_a_driver_that_is_not_there_yet_is_reported(node, cluster):
    library, node.library = node.library, node.folder + '/none.so'
    node.kubelet.start()
    node.start('--fail-on-init-error=false', '--nvml-library', node.library, *cluster.options())
    event = cluster.wait_event('GPUsUnavailable')
    assert event['message'].startswith('NVML cannot be used: ')
    os.symlink(library, node.library)
    assert cluster.wait_event('GPUsAvailable')['message'] == 'NVML can be used again, 4 GPUs'


def test_events_wait_for_an_api_server_that_is_away_and_come_as_one(node, cluster):
    node.start_all(sharing('timeSlicing', 4), *cluster.options())
    cluster.api.fault('status', verb='create', resource='events', times=3, code=503)
    fail(node, 2)
    event = cluster.wait_event('GPUUnhealthy')
    assert event['count'] == 1 and len(cluster.events()) == 1
    assert [one.status for one in cluster.api.asked('create', 'events')] == [503, 503, 503, 201]
    node.agent.wait_log('an event cannot be sent to the API server')


def test_an_event_that_the_server_never_takes_holds_up_no_other(node, cluster):
    kubelet = node.start_all({'version': 'v1'}, *cluster.options())
    cluster.api.fault('status', verb='create', resource='events', namespace='team', times=1000000)
    kubelet.admit('pod', GPU, 4, namespace='team')
    fail(node, 2)
    cluster.api.wait_for(lambda: [one for one in cluster.api.asked('create', 'events') if one.namespace == 'team'])
    node.scenario(v100s(), events=[{'gpu': 2, 'xid': 79}])
    cluster.wait_event('GPUHealthy')
    node.agent.wait_log('an event cannot be sent to the API server .*namespaces/team/events')
    assert not cluster.events(namespace='team')


def test_an_event_that_the_server_has_forgotten_is_made_again(node, cluster):
    node.start_all(sharing('timeSlicing', 4), *cluster.options())
    fail(node, 1, xid=48, lost=False)
    cluster.wait_event('GPUHealthy')
    first = cluster.wait_event('GPUUnhealthy')
    cluster.api.delete('/api/v1/namespaces/default/events', first['metadata']['name'])
    node.scenario(v100s(), events=[{'gpu': 1, 'xid': 48}, {'gpu': 1, 'xid': 48}])
    assert cluster.wait_event('GPUUnhealthy')['count'] == 2


def test_without_the_right_to_events_nothing_else_suffers(node, cluster):
    cluster.api.allow([])
    kubelet = node.start_all(sharing('timeSlicing', 4), *cluster.options())
    fail(node, 2)
    node.wait_counts(12, 16)
    node.agent.wait_log('an event cannot be sent to the API server .*events is forbidden')
    assert kubelet.admit('pod', GPU, 1)
    cluster.api.requests.clear()


def test_an_agent_outside_a_cluster_sends_no_request(node):
    node.start_all(sharing('timeSlicing', 4))
    node.agent.wait_log('the API server is not used')
    fail(node, 2)
    node.wait_counts(12, 16)


def test_a_pod_that_gets_less_than_it_is_charged_for_has_an_event(node, cluster):
    kubelet = node.start_all(sharing('timeSlicing', 4, scope='individual'), '--device-list-strategy=envvar', *cluster.options())
    node.wait(lambda: all(kubelet.allocatable('nvidia.com/gpu%d' % i) for i in range(2)), 'both are allocatable')
    for i in range(2):
        kubelet.admit('pair', 'nvidia.com/gpu%d' % i, 1, namespace='team')
    event = cluster.wait_event('PodGetsLess', 'team', 'Pod')
    assert (event['type'], event['involvedObject']['name']) == ('Warning', 'pair')
    assert 'nvidia.com/gpu0 and nvidia.com/gpu1' in event['message'] and 'deviceListStrategy: cdi-cri' in event['message']
