# SPDX-License-Identifier: Apache-2.0
"""The kubelet of these tests as it tells who holds what: what the agent is told must be what a real one would tell.

kubelet_internal_checkpoint.json beside this folder's fixtures was written by a real one.
"""
import json
import os

import grpc
import pytest

import podresources_pb2 as pb
from node import GPU, sharing, v100s

REAL = os.path.join(os.environ['WARPSHARE_SOURCE'], 'test', 'fixtures', 'kubelet-1.36', 'kubelet_internal_checkpoint.json')


def ask(kubelet):
    """Who holds what, as somebody else reads it: {(namespace, pod, container): {resource: ids}}."""
    with grpc.insecure_channel('unix:' + kubelet.pod_resources) as channel:
        response = channel.unary_unary(
            '/v1.PodResourcesLister/List', request_serializer=pb.ListPodResourcesRequest.SerializeToString,
            response_deserializer=pb.ListPodResourcesResponse.FromString)(pb.ListPodResourcesRequest(), timeout=30)
    held = {}
    for pod in response.pod_resources:
        for container in pod.containers:
            devices = held.setdefault((pod.namespace, pod.name, container.name), {})
            for entry in container.devices:
                devices.setdefault(entry.resource_name, []).extend(entry.device_ids)
    return held


def checkpoint(kubelet):
    with open(os.path.join(kubelet.directory, kubelet.CHECKPOINT), encoding='utf-8') as file:
        return json.load(file)


def several(replicas):
    return sharing('timeSlicing', replicas, failRequestsGreaterThanOne=False)


def test_what_a_container_holds_is_listed_until_its_pod_ends(node):
    kubelet = node.start_all(several(4))
    assert ask(kubelet) == {}
    first, _ = kubelet.admit('one', GPU, 3, namespace='team', container='train')
    second, _ = kubelet.admit('two', GPU, 1)
    assert ask(kubelet) == {('team', 'one', 'train'): {GPU: first}, ('default', 'two', 'main'): {GPU: second}}
    kubelet.remove_pod('one')
    assert ask(kubelet) == {('default', 'two', 'main'): {GPU: second}}
    kubelet.restart()
    assert ask(kubelet) == {('default', 'two', 'main'): {GPU: second}}


def test_devices_of_an_init_container_go_to_the_containers_after_it(node):
    node.scenario(v100s(1))
    kubelet = node.start_all(several(8))
    initial, _ = kubelet.admit('pod', GPU, 3, container='prepare', init=True)
    sidecar, _ = kubelet.admit('pod', GPU, 1, container='sidecar', init=True, restartable=True)
    main, _ = kubelet.admit('pod', GPU, 4, container='main')
    assert set(sidecar) < set(initial)
    assert set(initial) - set(sidecar) < set(main)
    assert ask(kubelet) == {('default', 'pod', 'sidecar'): {GPU: sidecar}, ('default', 'pod', 'main'): {GPU: main}}
    with pytest.raises(RuntimeError, match='Requested: 4, Available: 3'):
        kubelet.admit('other', GPU, 4)


def test_what_only_an_init_container_held_stays_taken_and_is_not_listed(node):
    node.scenario(v100s(1))
    kubelet = node.start_all(several(4))
    initial, _ = kubelet.admit('pod', GPU, 3, container='prepare', init=True)
    main, _ = kubelet.admit('pod', GPU, 1, container='main')
    assert set(main) < set(initial)
    assert ask(kubelet) == {('default', 'pod', 'main'): {GPU: main}}
    with pytest.raises(RuntimeError, match='Requested: 2, Available: 1'):
        kubelet.admit('other', GPU, 2)


def form(value):
    """What kind of thing stands where: keys that are names of resources or NUMA nodes are all alike."""
    if isinstance(value, dict):
        names = set(value) <= {'PodUID', 'ContainerName', 'ResourceName', 'DeviceIDs', 'AllocResp', 'Data', 'Checksum',
                               'PodDeviceEntries', 'RegisteredDevices'}
        return {key if names else '*': form(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [form(value[0])] if value else []
    return type(value).__name__


def test_the_checkpoint_has_the_form_of_a_real_one(node):
    kubelet = node.start_all(several(4))
    kubelet.admit('pod', GPU, 2, container='c')
    with open(REAL, encoding='utf-8') as file:
        assert form(checkpoint(kubelet)) == form(json.load(file))


def test_the_checkpoint_has_the_uid_of_each_pod(node):
    node.scenario([{'model': 'V100-32GB'}])  # of no known NUMA node
    kubelet = node.start_all(several(4))
    ids, _ = kubelet.admit('pod', GPU, 2, container='c')
    entry, = checkpoint(kubelet)['Data']['PodDeviceEntries']
    assert (entry['PodUID'], entry['ContainerName'], entry['ResourceName']) == (kubelet.pods['pod'].uid, 'c', GPU)
    assert [sorted(devices) for devices in entry['DeviceIDs'].values()] == [sorted(ids)]
    assert sorted(checkpoint(kubelet)['Data']['RegisteredDevices'][GPU]) == sorted(kubelet.ids(GPU))


def uids(kubelet):
    return [entry['PodUID'] for entry in checkpoint(kubelet)['Data']['PodDeviceEntries'] or []]


def test_a_pod_that_has_ended_stays_in_the_checkpoint_until_the_next_allocate(node):
    """As seen on kubelet 1.36: List frees its devices, and the file is as it was."""
    kubelet = node.start_all(several(4))
    kubelet.admit('one', GPU, 2)
    one = kubelet.pods['one'].uid
    kubelet.remove_pod('one')
    assert uids(kubelet) == [one]
    assert ask(kubelet) == {}
    assert uids(kubelet) == [one]
    kubelet.restart()
    node.wait_counts(16)
    assert uids(kubelet) == [one]  # its memory is the file, and nobody has asked yet
    kubelet.admit('two', GPU, 1)
    assert uids(kubelet) == [kubelet.pods['two'].uid]


def test_an_ended_pod_leaves_the_checkpoint_with_the_next_device_list_after_a_list_request(node):
    kubelet = node.start_all(several(4))
    kubelet.admit('one', GPU, 2)
    one = kubelet.pods['one'].uid
    kubelet.remove_pod('one')
    ask(kubelet)
    node.config(several(5))
    node.agent.hang_up()
    node.wait_counts(20)
    node.wait(lambda: one not in uids(kubelet), 'kubelet has written what it knows')


def test_list_may_be_refused_or_slow(node):
    kubelet = node.start_all(several(4))
    kubelet.list_refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, 'rejected by rate limit, please retry later.')
    with pytest.raises(grpc.RpcError) as refused:
        ask(kubelet)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    kubelet.list_refusal = None
    assert ask(kubelet) == {}
    assert kubelet.list_calls == 2


def test_the_list_is_below_kubelets_root_wherever_device_plugins_are(node):
    node.kubelet.root = os.path.join(node.folder, 'data/kubelet')
    node.start_all(sharing('mps', 20))
    node.wait(lambda: node.kubelet.list_calls, 'kubelet is asked for its list')
    assert not node.agent.count('pod-resources socket is missing')


def test_a_root_that_kubelet_does_not_have_is_reported_although_nothing_is_asked_yet(node):
    node.config('version: v1')
    node.kubelet.start()
    node.start('--kubelet-root=/data/kubelet')
    node.agent.wait_log('kubelet does not say which pods have ended.*its pod-resources socket is missing error="there is no '
                        "'/data/kubelet/pod-resources/kubelet.sock'.*--kubelet-root, kubeletRootDir of the chart")
    node.wait_counts(4)
    node.agent.reload()
    node.stays(lambda: node.agent.count('pod-resources socket is missing') == 1, 'one line', 0.5)
