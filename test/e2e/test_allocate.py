# SPDX-License-Identifier: Apache-2.0
"""What a container is given, and which devices kubelet is advised to take."""
import os
import re

import grpc
import pytest

import deviceplugin_pb2 as pb
from node import GPU, sharing, v100s

METADATA = '/var/run/kubernetes.io/dra-device-attributes/resourceclaims/device-plugin/gpu/gpu.warpshare.dev-metadata.json'


def uuid_of(device):
    return device.split('::')[0]


def by_gpu(ids):
    gpus = {}
    for device in ids:
        gpus.setdefault(uuid_of(device), []).append(device)
    return gpus


def without_metadata(mounts):
    """Each answer has a file of its own."""
    return [mount for mount in mounts if mount.container_path != METADATA]


def without_grant(environment):
    """The rest of it: each answer is a grant of its own."""
    rest = dict(environment)
    assert re.fullmatch('g[0-9a-f]{17,}', rest.pop('WARPSHARE_GRANT'))
    return rest


def weighted(replicas, **more):
    return sharing('mps', replicas, provisioning='weighted', **more)


# ---- Allocate ----

def test_a_container_learns_its_gpu_by_uuid(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    ids, response = kubelet.admit('pod', GPU, 1)
    assert dict(response.envs) == {'NVIDIA_VISIBLE_DEVICES': uuid_of(ids[0])}
    assert not response.mounts and not response.devices and not response.annotations and not response.cdi_devices


def test_a_container_learns_its_gpu_by_index_where_that_is_wanted(node):
    kubelet = node.start_all(None, '--device-id-strategy=index')
    plugin = kubelet.plugin(GPU)
    seen = {plugin.allocate_ids([device])[0].envs['NVIDIA_VISIBLE_DEVICES'] for device in kubelet.ids(GPU)}
    assert seen == {'0', '1', '2', '3'}


def test_several_replicas_of_one_gpu_are_one_visible_device(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    uuid, ids = next(iter(by_gpu(kubelet.ids(GPU)).items()))
    response, = kubelet.plugin(GPU).allocate_ids(ids[:3])
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == uuid


def test_replicas_of_several_gpus_are_as_many_visible_devices(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    ids = [ids[0] for ids in by_gpu(kubelet.ids(GPU)).values()]
    response, = kubelet.plugin(GPU).allocate_ids(ids)
    assert sorted(response.envs['NVIDIA_VISIBLE_DEVICES'].split(',')) == sorted(map(uuid_of, ids))


def test_whole_gpus_are_allocated_without_any_limit(node):
    kubelet = node.start_all()
    ids, response = kubelet.admit('pod', GPU, 2)
    assert sorted(response.envs['NVIDIA_VISIBLE_DEVICES'].split(',')) == sorted(ids)
    assert list(response.envs) == ['NVIDIA_VISIBLE_DEVICES']


@pytest.mark.parametrize('replicas, threads, memory, fraction', [
    (1, '5', 1614, '0.0495'), (7, '35', 11299, '0.3465'), (10, '50', 16142, '0.495'), (20, '100', 32285, '0.9901')])
def test_a_weighted_share_has_as_much_as_it_has_replicas(node, replicas, threads, memory, fraction):
    node.scenario(v100s(memory='32605MiB'))
    kubelet = node.start_all(weighted(20, failRequestsGreaterThanOne=False, maxPerRequest=20))
    uuid, ids = next(iter(by_gpu(kubelet.ids(GPU)).items()))
    response, = kubelet.plugin(GPU).allocate_ids(ids[:replicas])
    assert without_grant(response.envs) == {
        'NVIDIA_VISIBLE_DEVICES': uuid,
        'CUDA_MPS_PIPE_DIRECTORY': '/mps/%s/pipe' % uuid,
        'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': threads,
        'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=%dM' % memory,
        'WARPSHARE_REPLICAS': '%d/20' % replicas,
        'WARPSHARE_FRACTION': fraction,
        'WARPSHARE_MEMORY_LIMIT_MIB': str(memory),
        'WARPSHARE_THREAD_PERCENTAGE': threads + '.0',
        'WARPSHARE_SMS': str(80 * int(threads) // 100),
        'WARPSHARE_TIER': 'verified',
    }
    assert [(mount.container_path, mount.host_path, mount.read_only) for mount in response.mounts] == [
        ('/mps/%s/pipe' % uuid, '/run/nvidia/mps/%s/pipe' % uuid, True),
        ('/dev/shm', '/run/nvidia/mps/shm', False),
        (METADATA, '/run/nvidia/mps/metadata/%s.json' % response.envs['WARPSHARE_GRANT'], True)]


@pytest.mark.parametrize('page, memory', [
    ('mps.md', '32605MiB'), ('configuration.md', '24GiB')])
def test_the_manual_shows_all_variables_of_a_weighted_share(node, page, memory):
    node.scenario(v100s(memory=memory))
    kubelet = node.start_all(weighted(20, maxPerRequest=10))
    ids = next(iter(by_gpu(kubelet.ids(GPU)).values()))
    response, = kubelet.plugin(GPU).allocate_ids(ids[:7])
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'docs', page), encoding='utf-8') as file:
        block = re.search(r'^```\n(NVIDIA_VISIBLE_DEVICES=[^`]*)```', file.read(), re.MULTILINE).group(1)
    shown = dict(line.split('=', 1) for line in block.splitlines())
    assert set(shown) == set(response.envs)
    for name, value in response.envs.items():
        if 'GPU-' not in value and name != 'WARPSHARE_GRANT':
            assert shown[name] == value, name


def test_a_uniform_share_leaves_the_limits_to_the_control_daemon(node):
    kubelet = node.start_all(sharing('mps', 20))
    ids, response = kubelet.admit('pod', GPU, 1)
    assert [name for name in sorted(response.envs) if not name.startswith('WARPSHARE_')] == [
        'CUDA_MPS_PIPE_DIRECTORY', 'NVIDIA_VISIBLE_DEVICES']
    assert response.envs['WARPSHARE_TIER'] == 'default'
    assert [mount.container_path for mount in response.mounts] == ['/mps/%s/pipe' % uuid_of(ids[0]), '/dev/shm', METADATA]


def test_a_threads_percentage_that_is_no_whole_number_keeps_its_tenth(node):
    kubelet = node.start_all(weighted(16, failRequestsGreaterThanOne=False))
    response, = kubelet.plugin(GPU).allocate_ids(kubelet.ids(GPU)[:1])
    assert response.envs['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '6.2'


def test_replicas_of_several_gpus_are_given_on_the_one_that_has_room(node):
    kubelet = node.start_all(weighted(20))
    ids = [ids[0] for ids in by_gpu(kubelet.ids(GPU)).values()]
    response, = kubelet.plugin(GPU).allocate_ids(ids[:2])
    uuid = response.envs['NVIDIA_VISIBLE_DEVICES']
    assert uuid in [uuid_of(device) for device in ids]
    assert response.envs['CUDA_MPS_PIPE_DIRECTORY'] == '/mps/%s/pipe' % uuid
    assert response.envs['WARPSHARE_REPLICAS'] == '2/20'


def test_allocate_may_be_repeated(node):
    kubelet = node.start_all(weighted(20))
    ids = kubelet.ids(GPU)[:1]
    first, second = (kubelet.plugin(GPU).allocate_ids(ids)[0] for _ in range(2))
    assert without_grant(first.envs) == without_grant(second.envs)
    assert without_metadata(first.mounts) == without_metadata(second.mounts)


def test_an_id_that_is_listed_twice_is_allocated_once(node):
    kubelet = node.start_all(sharing('timeSlicing', 20))
    device = kubelet.ids(GPU)[0]
    response, = kubelet.plugin(GPU).allocate_ids([device, device])
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == uuid_of(device)


def test_each_container_of_a_request_has_its_answer_in_place(node):
    kubelet = node.start_all(sharing('mps', 20))
    gpus = by_gpu(kubelet.ids(GPU))
    responses = kubelet.plugin(GPU).allocate_ids(*[ids[:1] for ids in gpus.values()])
    assert [response.envs['NVIDIA_VISIBLE_DEVICES'] for response in responses] == list(gpus)


def test_pre_start_container_is_answered(node):
    kubelet = node.start_all(sharing('mps', 20))
    assert kubelet.plugin(GPU).pre_start(pb.PreStartContainerRequest(devices_ids=kubelet.ids(GPU)[:1]), timeout=30)\
        == pb.PreStartContainerResponse()


# ---- what is refused, and in which words: kubelet puts them into the pod's status ----

def refusal(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code().name, caught.value.details()


def test_an_unknown_device_is_refused_by_name(node):
    kubelet = node.start_all(sharing('mps', 20))
    assert refusal(lambda: kubelet.plugin(GPU).allocate_ids(['GPU-7::0'])) == (
        'NOT_FOUND', "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-7::0'")


def test_more_than_one_replica_is_refused_where_it_is_forbidden(node):
    kubelet = node.start_all(sharing('mps', 20))
    assert refusal(lambda: kubelet.plugin(GPU).allocate_ids(kubelet.ids(GPU)[:3])) == (
        'INVALID_ARGUMENT', "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources "
        'is 1; found 3; to allow more, set sharing.mps.failRequestsGreaterThanOne to false')


def test_an_unknown_method_is_unimplemented(node):
    kubelet = node.start_all(sharing('mps', 20))
    call = kubelet.plugin(GPU).channel.unary_unary('/v1beta1.DevicePlugin/Deallocate')
    assert refusal(lambda: call(b'', timeout=30))[0] == 'UNIMPLEMENTED'


def test_a_message_that_is_no_protobuf_is_refused(node):
    kubelet = node.start_all(sharing('mps', 20))
    call = kubelet.plugin(GPU).channel.unary_unary('/v1beta1.DevicePlugin/Allocate')
    code, text = refusal(lambda: call(b'\x0a\xff\xff', timeout=30))
    assert code == 'INVALID_ARGUMENT' and 'cannot be decoded' in text
    kubelet.admit('pod', GPU, 1)


@pytest.mark.parametrize('method, container', [
    ('Allocate', pb.ContainerAllocateRequest()), ('GetPreferredAllocation', pb.ContainerPreferredAllocationRequest())])
def test_a_request_for_ever_so_many_containers_costs_no_memory(node, method, container):
    # kubelet sends one; what two bytes ask for must not cost the size of the device list.
    node.scenario([{'model': 'V100-32GB', 'count': 16}])
    kubelet = node.start_all(sharing('timeSlicing', 625))
    call = kubelet.plugin(GPU).channel.unary_unary('/v1beta1.DevicePlugin/' + method)
    code, text = refusal(lambda: call((b'\x0a%c' % container.ByteSize()) * 100000, timeout=60))
    assert (code, text) == ('INVALID_ARGUMENT', '100000 containers in one request, at most 64')
    assert node.agent.memory_kib('VmHWM') < 1000000


# ---- GetPreferredAllocation ----

def test_packed_fills_the_fullest_gpu_first(node):
    node.config(sharing('timeSlicing', 4))
    kubelet = node.start_all(None, '--shared-devices-allocation-policy=packed')
    gpus = by_gpu(kubelet.ids(GPU))
    fullest = list(gpus)[2]
    available = [device for uuid, ids in gpus.items() for device in (ids[3:] if uuid == fullest else ids)]
    assert kubelet.plugin(GPU).prefer_ids(available, 1) == gpus[fullest][3:]


def test_distributed_takes_the_emptiest_gpu_first(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    gpus = by_gpu(kubelet.ids(GPU))
    emptiest = list(gpus)[2]
    available = [device for uuid, ids in gpus.items() for device in (ids if uuid == emptiest else ids[1:])]
    assert uuid_of(kubelet.plugin(GPU).prefer_ids(available, 1)[0]) == emptiest


def test_pods_that_come_one_by_one_are_packed_on_one_gpu_and_then_the_next(node):
    node.config(sharing('timeSlicing', 4))
    kubelet = node.start_all(None, '--shared-devices-allocation-policy=packed')
    seen = [uuid_of(kubelet.admit('pod-%d' % i, GPU, 1)[0][0]) for i in range(8)]
    assert len(set(seen[:4])) == 1 and len(set(seen[4:])) == 1 and seen[0] != seen[4]


def test_pods_that_come_one_by_one_are_distributed_over_all_gpus(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    seen = [uuid_of(kubelet.admit('pod-%d' % i, GPU, 1)[0][0]) for i in range(8)]
    assert sorted(map(seen.count, set(seen))) == [2, 2, 2, 2]


def test_what_must_be_included_is(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    ids = kubelet.ids(GPU)
    chosen = kubelet.plugin(GPU).prefer_ids(ids, 3, required=[ids[5], ids[11]])
    assert len(set(chosen)) == 3 and {ids[5], ids[11]} <= set(chosen)


def test_more_than_is_available_is_refused(node):
    kubelet = node.start_all(sharing('timeSlicing', 4))
    code, text = refusal(lambda: kubelet.plugin(GPU).prefer_ids(kubelet.ids(GPU)[:2], 3))
    assert code == 'INVALID_ARGUMENT' and text == 'allocation_size: 3, but only 2 devices are available'


def test_gpus_with_nvlinks_between_them_are_preferred(node):
    node.scenario([{'model': 'V100-32GB', 'nvlink': {'peers': [peer]}} for peer in (3, 2, 1, 0)])
    kubelet = node.start_all()
    ids = kubelet.ids(GPU)
    indices = {device: i for i, device in enumerate(kubelet.messages_of(GPU)[0].healthy)}
    chosen = kubelet.plugin(GPU).prefer_ids(ids, 2, required=[ids[0]])
    assert sorted(indices[device] for device in chosen) == [0, 3]
