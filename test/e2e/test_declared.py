# SPDX-License-Identifier: Apache-2.0
"""provisioning: declared. A container's share is what its own variables or its pod's annotations say; k of N for whoever says nothing."""
import os
import signal

import grpc
import pytest

from apiserver import agent_rules
from cluster import cluster  # noqa: F401 -- a fixture
from container_runtime import Container
from node import GPU, v100s
from test_device_lists import make_device_nodes, make_driver
from test_several_resources import cdi_root, limits, places

PERCENT = 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'
MEMORY = 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'


def declared(replicas=10, **more):
    return {'version': 'v1', 'sharing': {'mps': {
        'provisioning': 'declared', 'memoryReserve': '512Mi', 'resources': [{'name': GPU, 'replicas': replicas}], **more}}}


def start(node, config, *arguments, gpus=1):
    node.scenario(v100s(gpus))
    make_device_nodes(node, *['/dev/nvidia%d' % i for i in range(gpus)])
    make_driver(node)
    node.start_all(config, *places(node), *arguments)
    node.wait(lambda: len(node.kubelet.newest) == (gpus if 'individual' in str(config) else 1) and all(
        node.kubelet.allocatable(resource) for resource in node.kubelet.newest), 'all resources are allocatable')
    return node.kubelet


def run(node, pod, env=None):
    return Container(node.kubelet.run_options(pod), cdi_root(node), env)


@pytest.mark.parametrize('annotations, env, expected', [
    ({}, {}, ('0=6418M', '20')),
    ({'threads': '60', 'memory': '3Gi'}, {}, ('0=3072M', '60')),
    ({'threads': '60'}, {}, ('0=6418M', '60')),
    ({'memory': '512Mi'}, {}, ('0=512M', '20')),
    ({'threads': '60', 'threads.main': '10', 'threads.other': '90'}, {}, ('0=6418M', '10')),
    ({}, {PERCENT: '60', MEMORY: '0=3G'}, ('0=3G', '60')),
    ({}, {PERCENT: '60'}, ('0=6418M', '60')),
    ({'threads': '10', 'memory': '1Gi'}, {PERCENT: '60'}, ('0=1024M', '60')),
], ids=str)
@pytest.mark.parametrize('strategy', [None, 'cdi-cri'])
def test_a_container_has_what_it_declares_and_its_replicas_worth_of_the_rest(node, cluster, strategy, annotations, env, expected):
    kubelet = start(node, declared(), *cluster.options(), *(['--device-list-strategy=' + strategy] if strategy else []))
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/' + key: value for key, value in annotations.items()}, env=env)
    kubelet.admit('pod', GPU, 2)
    container = run(node, 'pod', env)
    assert limits(container) == expected
    assert container.envs['WARPSHARE_THREAD_PERCENTAGE'] == expected[1] + '.0'
    assert container.envs['CUDA_MPS_PIPE_DIRECTORY'].endswith('/pipe')


def test_a_container_of_two_gpus_has_what_it_declares_of_each(node, cluster):
    kubelet = start(node, declared(scope='individual'), *cluster.options(), gpus=2)
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/memory': '2Gi'})
    kubelet.admit('pod', 'nvidia.com/gpu0', 3)
    kubelet.admit('pod', 'nvidia.com/gpu1', 5)
    assert limits(run(node, 'pod')) == ('2048M', '30')
    assert len(cluster.api.asked('get', 'pods')) == 1  # for both resources


def test_a_pod_in_nvidias_dialect_has_its_limit_and_hears_what_has_no_effect(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={
        'nvidia.com/container.main.gpu-memory.request': '1Gi', 'nvidia.com/container.main.gpu-memory.limit': '2Gi',
        'nvidia.com/container.main.gpu-compute.mode': 'sm-sharing', 'warpshare.dev/priority': '1'})
    kubelet.admit('pod', GPU, 2)
    container = run(node, 'pod')
    assert limits(container)[0] == '0=2048M'
    assert container.envs['CUDA_MPS_CLIENT_PRIORITY'] == '1'
    assert 'gpu-memory.request: 1024 MiB is below the limit and has no effect' in cluster.wait_event('DeclarationIgnored', kind='Pod')['message']


def test_no_container_gets_more_than_the_ceilings(node, cluster):
    kubelet = start(node, declared(maxThreads=40, maxMemory='4Gi'), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '60', 'warpshare.dev/memory': '20Gi'})
    kubelet.admit('pod', GPU, 2)
    assert limits(run(node, 'pod')) == ('0=4096M', '40')
    cluster.create_pod(node.kubelet, 'large')
    kubelet.admit('large', GPU, 5)
    assert limits(run(node, 'large')) == ('0=4096M', '40')


def test_a_restart_brings_what_the_annotations_say_by_then(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '60'})
    kubelet.admit('pod', GPU, 2)
    assert run(node, 'pod').envs[PERCENT] == '60'
    cluster.api.patch('/api/v1/namespaces/default/pods', 'pod', {'metadata': {'annotations': {'warpshare.dev/threads': '30'}}})
    assert run(node, 'pod').envs[PERCENT] == '30'


def test_a_value_that_cannot_be_used_is_an_event_on_the_pod_and_ignored(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '150', 'warpshare.dev/memory': '1Gi'})
    kubelet.admit('pod', GPU, 2)
    assert limits(run(node, 'pod')) == ('0=1024M', '20')
    event = cluster.wait_event('DeclarationIgnored', kind='Pod')
    assert event['involvedObject']['name'] == 'pod'
    assert event['message'] == ("Container main: the annotation warpshare.dev/threads: '150' is not a percentage above 0 and at most 100, "
                                "for example 60 or 2.5, so it is ignored.")


@pytest.mark.parametrize('how', ['no API server', 'the pod is gone', 'another pod of its name', 'no pod-resources'])
def test_what_cannot_be_read_does_not_count_and_the_container_starts(node, cluster, how):
    arguments = [] if how == 'no API server' else cluster.options()
    if how == 'no pod-resources':
        arguments.append('--pod-resources-socket=')
    kubelet = start(node, declared(), *arguments)
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '60'}, env={MEMORY: '0=3G'})
    if how == 'the pod is gone':
        cluster.api.delete('/api/v1/namespaces/default/pods', 'pod')
    if how == 'another pod of its name':
        kubelet.pods['pod'].uid = '00000000-0000-0000-0000-000000000000'
    kubelet.admit('pod', GPU, 2)
    # Its own variable counts all the same: nobody needs to know it.
    assert limits(run(node, 'pod', {MEMORY: '0=3G'})) == ('0=3G', '20')
    line = node.agent.wait_log("a container's declaration is ignored.*").group(0)
    assert 'event=DeclarationIgnored' in line and 'it starts with the share of its replicas' in line


def test_without_kubelets_checkpoint_a_containers_own_variable_still_counts(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={}, env={MEMORY: '0=3G'})
    kubelet.admit('pod', GPU, 2)
    os.unlink(os.path.join(node.directory, kubelet.CHECKPOINT))
    assert limits(run(node, 'pod', {MEMORY: '0=3G'})) == ('0=3G', '20')


def test_an_api_server_that_does_not_answer_holds_a_start_up_for_seconds_only(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '60'})
    kubelet.admit('pod', GPU, 2)
    cluster.api.fault('hang', verb='get', resource='pods', times=1000)
    assert run(node, 'pod').envs[PERCENT] == '20'
    node.agent.wait_log("a container's declaration is ignored.*")


def test_more_declared_memory_than_the_gpu_has_is_an_error_that_names_the_pods(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    for pod in ('first', 'second'):
        cluster.create_pod(node.kubelet, pod, annotations={'warpshare.dev/memory': '20Gi'})
        kubelet.admit(pod, GPU, 2)
        run(node, pod)
    event = cluster.wait_event('DeclaredMemoryExceedsGPU')
    assert 'declare 40960 MiB of 32093 MiB' in event['message']
    assert 'default/first 20480 MiB' in event['message'] and 'default/second 20480 MiB' in event['message']
    cluster.wait_event('DeclaredMemoryExceedsGPU', kind='Pod', count=2)
    kubelet.remove_pod('second')
    node.agent.wait_log('containers declare no more memory than their GPU has any more')


def test_the_newest_does_not_start_where_overcommit_is_refused(node, cluster):
    kubelet = start(node, declared(declaredOvercommit=False), *cluster.options())
    cluster.create_pod(node.kubelet, 'first', annotations={'warpshare.dev/memory': '20Gi'})
    kubelet.admit('first', GPU, 2)
    assert run(node, 'first').envs[MEMORY] == '0=20480M'
    cluster.create_pod(node.kubelet, 'second', annotations={'warpshare.dev/memory': '20Gi'})
    kubelet.admit('second', GPU, 2)
    with pytest.raises(grpc.RpcError) as error:
        run(node, 'second')
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 'declares 20480 MiB' in error.value.details() and 'declare at most 11613 MiB' in error.value.details()
    cluster.create_pod(node.kubelet, 'third', annotations={'warpshare.dev/memory': '8Gi'})
    kubelet.admit('third', GPU, 2)
    assert run(node, 'third').envs[MEMORY] == '0=8192M'  # who does not run takes nothing


def test_running_containers_keep_what_they_declared_when_the_agent_restarts(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    cluster.create_pod(node.kubelet, 'pod', annotations={'warpshare.dev/threads': '60', 'warpshare.dev/memory': '3Gi'})
    kubelet.admit('pod', GPU, 2)
    before = run(node, 'pod').envs
    node.agent.signal(signal.SIGTERM)
    node.agent.wait()
    asked = len(cluster.api.asked('get', 'pods'))
    node.start(*places(node), *cluster.options())
    node.wait(lambda: len(cluster.api.asked('get', 'pods')) > asked, 'its pod is read again')
    assert run(node, 'pod').envs == before


# ---- kubelet's socket of pods (Kubernetes 1.37) ----

def run_declaring(node, cluster, pod='pod', threads='60', **more):
    """The percentage of a new pod that declares its own."""
    cluster.create_pod(node.kubelet, pod, annotations={'warpshare.dev/threads': threads}, **more)
    node.kubelet.admit(pod, GPU, 2)
    return run(node, pod).envs[PERCENT]


def read_of(cluster):
    return len(cluster.api.asked('get', 'pods'))


def test_kubelet_says_what_a_pod_declares_and_no_right_to_read_pods_is_needed(node, cluster):
    node.kubelet.serves_pods = True
    cluster.api.allow([rule for rule in agent_rules() if 'pods' not in rule['resources']])
    start(node, declared(), *cluster.options())
    assert run_declaring(node, cluster) == '60'
    assert node.kubelet.pod_calls == [node.kubelet.pods['pod'].uid]
    assert read_of(cluster) == 0


def test_kubelet_is_enough_where_no_api_server_is_used(node, cluster):
    node.kubelet.serves_pods = True
    start(node, declared())
    assert run_declaring(node, cluster) == '60'
    node.kubelet.pod_refusal = (grpc.StatusCode.PERMISSION_DENIED, 'not for you')
    assert run_declaring(node, cluster, 'refused') == '20'
    line = node.agent.wait_log("a container's declaration is ignored.*").group(0)
    assert 'not for you' in line and 'the agent does not use the API server' in line


def test_a_volume_at_dev_shm_is_seen_by_kubelets_answer(node, cluster):
    node.kubelet.serves_pods = True
    start(node, declared(), *cluster.options())
    run_declaring(node, cluster, mounts=['/dev/shm'])
    cluster.wait_event('MPSSharedMemoryHidden', kind='Pod')
    assert read_of(cluster) == 0


def longer(raw):
    """Beyond what is accepted: 5 MiB in a field that nobody knows."""
    return raw + b'\xa2\x06\x80\x80\xc0\x02' + bytes(5 << 20)


@pytest.mark.parametrize('how', [
    'no socket', 'not in this kubelet', 'does not know its pods yet', 'refuses', 'too many calls', 'is silent', 'another pod', 'no protobuf',
    'nothing', 'too long', 'no text'])
def test_where_kubelet_does_not_say_it_the_api_server_does(node, cluster, how):
    kubelet = node.kubelet
    kubelet.serves_pods = how != 'no socket'
    start(node, declared(), *cluster.options())
    refusals = {'not in this kubelet': grpc.StatusCode.UNIMPLEMENTED, 'refuses': grpc.StatusCode.PERMISSION_DENIED,
                'too many calls': grpc.StatusCode.RESOURCE_EXHAUSTED}
    if how in refusals:
        kubelet.pod_refusal = (refusals[how], 'as the test wants it')
    kubelet.pod_delay = 10 if how == 'is silent' else 0
    changes = {'no protobuf': lambda _: b'\xff\xff', 'nothing': lambda _: b'', 'too long': longer,
               'another pod': lambda raw: raw.replace(kubelet.pods['pod'].uid.encode(), b'0' * 36),
               'no text': lambda raw: raw.replace(b'60', b'\xff0')}
    kubelet.pod_change = changes.get(how, bytes)
    cluster.create_pod(kubelet, 'pod', annotations={'warpshare.dev/threads': '60'})
    kubelet.admit('pod', GPU, 2)
    kubelet.sources_ready = True
    if how == 'does not know its pods yet':
        kubelet.pod_refusal = (grpc.StatusCode.FAILED_PRECONDITION, 'not ready')
    assert run(node, 'pod').envs[PERCENT] == '60'
    assert read_of(cluster) == 1
    assert len(kubelet.pod_calls) == (0 if how == 'no socket' else 1)


def test_neither_kubelet_nor_the_api_server_says_it_and_both_reasons_are_told(node, cluster):
    node.kubelet.serves_pods = True
    node.kubelet.pod_refusal = (grpc.StatusCode.PERMISSION_DENIED, 'not for you')
    start(node, declared(), *cluster.options())
    cluster.api.fault('status', verb='get', resource='pods', times=1000, code=500)
    assert run_declaring(node, cluster) == '20'
    line = node.agent.wait_log("a container's declaration is ignored.*").group(0)
    assert 'and kubelet: GetPod on' in line and 'not for you' in line


def test_the_socket_comes_and_goes_with_kubelets_release(node, cluster):
    kubelet = start(node, declared(), *cluster.options())
    assert run_declaring(node, cluster, 'old') == '60' and not kubelet.pod_calls
    for serves in (True, False, True):
        kubelet.serves_pods = serves
        before = read_of(cluster), len(kubelet.pod_calls)
        kubelet.restart()
        node.wait(lambda: GPU in kubelet.newest and kubelet.allocatable(GPU), 'the GPU is allocatable again')
        assert run_declaring(node, cluster, 'pod-%d' % before[1] if serves else 'without') == '60'
        after = read_of(cluster), len(kubelet.pod_calls)
        assert (after[1] > before[1]) == serves, (before, after)
