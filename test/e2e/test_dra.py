# SPDX-License-Identifier: Apache-2.0
"""Shares of a GPU by dynamic resource allocation, the whole path: the agent's ResourceSlices, the scheduler, kubelet's DRA manager, the
CDI files, and CUDA programs under the MPS daemon that the agent has started for them."""
import concurrent.futures
import contextlib
import copy
import itertools
import json
import os
import re
import threading

import pytest

from apiserver import agent_rules
from cluster import cluster  # noqa: F401 -- a fixture
from dra import CLAIMS, DRIVER, SHARED, WHOLE, Unschedulable, node  # noqa: F401 -- a fixture
from dra_kubelet import Failed
from mps_node import H100, share, uuid_of
from test_device_lists import make_device_nodes, make_driver, machine, remove_folder

FIRST, SECOND = uuid_of(0), uuid_of(1)
CONTROL_NODES = '/dev/nvidiactl', '/dev/nvidia-uvm'


def config(**dra):
    return {'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'}, 'dra': {'enabled': True, **dra}}


def prepare_machine(node, gpus=1):
    node.gpus(gpus, model=H100)
    make_device_nodes(node, *CONTROL_NODES, *('/dev/nvidia%d' % i for i in range(gpus)))
    make_driver(node)


def start(node, gpus=1, arguments=(), **dra):
    """H100s that all belong to DRA."""
    prepare_machine(node, gpus)
    node.start_mps()
    node.dra.start()
    start_agent(node, arguments=arguments, **dra)
    node.wait_devices(*(name for i in range(gpus) for name in ('gpu-%d' % i, 'gpu-%d-shared' % i)))
    node.dra.wait_driver(DRIVER)


def start_agent(node, beside=None, arguments=(), **dra):
    """|beside|: the configuration of the device plugin."""
    return node.start_agent({**(beside or {}), **config(**dra)}, *node.cluster.options(), '--cdi-root=' + node.cdi_folder, '--system-root=' + machine(node),
                            '--container-driver-root=' + os.path.join(node.folder, 'driver'), *arguments)


def wait_no_daemon(node):
    node.watch().wait_status(lambda status: not status['daemons'], 'no daemon is left')


def test_a_pod_gets_the_share_that_its_claim_asks_for(node):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    client = pod.client()
    assert client.connected()['percentage'] == '30.0'
    assert client.allocate(9000) == 9000 and client.allocate(1300) < 1300
    told = '\n%s  claim default/train\n' % FIRST
    node.wait(lambda: told in node.programs.run('mps', 'status').stdout, 'the status of the daemons names the claim')
    pod.end()
    wait_no_daemon(node)
    assert not [device for device in node.cdi_devices() if device.startswith('gpu.warpshare.dev')]


def read_lines(path):
    with open(path, encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def test_a_program_reads_its_share_in_a_file_until_its_claim_is_released(node):
    start(node)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    path = pod.container.mounts['/var/run/kubernetes.io/dra-device-attributes/resourceclaims/train/gpu/%s-metadata.json' % DRIVER]
    told = read_lines(path)
    result, = node.results(claim)
    attributes = {**node.devices()['gpu-0-shared']['attributes'],
                  'memoryMiB': {'int': 10240}, 'threadPercentage': {'int': 30}, 'tier': {'string': 'verified'}}
    del attributes['type']
    assert told == [
        {'kind': 'DeviceMetadata', 'apiVersion': 'metadata.resource.k8s.io/' + version,
         'metadata': {'name': 'train', 'namespace': 'default', 'uid': claim['metadata']['uid'], 'generation': 1},
         'requests': [{'name': 'gpu', 'devices': [
             {'driver': DRIVER, 'pool': result['pool'], 'name': 'gpu-0-shared', 'attributes': attributes}]}]}
        for version in ('v1beta1', 'v1alpha1')]
    node.agent.kill()
    os.rename(path, os.path.join(os.path.dirname(path), 'gone_gpu.json'))  # of a claim that nobody knows any more
    start_agent(node)
    node.wait(lambda: os.listdir(os.path.dirname(path)) == [os.path.basename(path)], 'only the file of the claim is there')
    assert read_lines(path) == told
    node.dra.wait_driver(DRIVER)
    pod.end()
    assert os.listdir(os.path.dirname(path)) == []


def test_a_gpu_whose_memory_the_configuration_says_is_shared_with_limits(node):
    """As a GB10, whose memory NVML does not report. What it offers is what the key says, less the reserve."""
    errors = {call: 'NOT_SUPPORTED' for call in ('nvmlDeviceGetMemoryInfo', 'nvmlDeviceGetMemoryInfo_v2')}
    prepare_machine(node)
    node.gpus(1, model=H100, changes={0: {'name': 'NVIDIA GB10', 'errors': errors}})
    node.start_mps()
    node.dra.start()
    start_agent(node, memory='64Gi', memoryReserve='1Gi')
    node.wait_devices('gpu-0', 'gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    offered = {name: device['capacity']['memory']['value'] for name, device in node.devices().items()}
    assert offered == {'gpu-0': '64Gi', 'gpu-0-shared': '63Gi'}
    client = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})).client()
    assert client.connected()['limit'] == '10240'
    assert client.allocate(9000) == 9000 and client.allocate(1300) < 1300


UID = '6f1a2b3c-0000-4000-8000-0123456789ab'


def test_a_root_of_kubelet_with_a_long_path_has_room_for_the_sockets_of_both(node):
    """MicroK8s has /var/snap/microk8s/common/var/lib/kubelet; what is longest here is the first socket of a driver."""
    room = 107 - len('/plugins_registry/%s-01234567-reg.sock' % DRIVER)
    node.set_kubelet_root((node.folder + '/data/var/lib/kubelet/').ljust(room, 'x'))
    start(node, arguments=['--dra-instance=' + UID])
    assert {len(os.path.join(node.dra.registry, name)) for name in os.listdir(node.dra.registry)} == {107}
    node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})).client().connected()
    assert not node.agent.count('pod-resources socket is missing')


def test_the_driver_needs_its_own_rights_only(node):
    node.cluster.api.allow(agent_rules('dra'))
    start(node, arguments=['--events=none', '--config-annotations=false'])
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    pod.end()
    wait_no_daemon(node)


def condition(entry, type_):
    found, = [one for one in entry['conditions'] if one['type'] == type_]
    return found['status'], found['reason'], found['message']


def test_the_claim_says_what_was_prepared_for_it_until_its_pod_has_ended(node):
    start(node)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    node.cluster.api.wait_for(lambda: node.status_of(claim))
    entry, = node.status_of(claim)
    result, = node.results(claim)
    assert all(entry[key] == result[key] for key in ('driver', 'pool', 'device', 'shareID'))
    assert entry['data'] == {'uuid': FIRST, 'memoryMiB': 10240, 'threadPercentage': 30, 'tier': 'verified', 'mpsDaemon': FIRST}
    assert condition(entry, 'Ready') == ('True', 'Prepared', '10240 MiB and 30 % of the threads of ' + FIRST + ', tier verified')
    assert condition(entry, 'LimitsEnforced')[0] == 'True'
    second = node.run(claim)
    node.dra.unprepare(pod.pod)
    assert node.status_of(claim) == [entry]
    node.dra.unprepare(second.pod)
    node.cluster.api.wait_for(lambda: not node.status_of(claim))


def test_a_claim_whose_status_may_not_be_written_is_still_prepared(node):
    node.cluster.api.allow([rule for rule in agent_rules() if 'resourceclaims/driver' not in rule['resources']])
    start(node)
    for name in ('train', 'serve'):
        pod = node.run(node.claim(name, {'memory': '10Gi', 'threadPercentage': '30'}))
        assert pod.client().connected()['percentage'] == '30.0'
    node.agent.wait_log('the status of another DRA claim could not be written')
    assert node.agent.log().count('the status of a DRA claim could not be written') == 1


def test_three_unequal_shares_of_one_gpu_and_the_whole_gpu_meanwhile(node):
    start(node)
    shares = [('40Gi', 55), ('10Gi', 30), ('8Gi', 10)]
    pods = [node.run(node.claim('claim-%d' % i, {'memory': memory, 'threadPercentage': str(percentage)}))
            for i, (memory, percentage) in enumerate(shares)]
    for pod, (_, percentage) in zip(pods, shares, strict=True):
        assert pod.client().connected()['percentage'] == '%d.0' % percentage
    whole = node.claim('whole', class_=WHOLE)
    assert not node.fits(whole)
    assert not node.fits(node.claim('large', {'memory': '30Gi', 'threadPercentage': '1'}))
    for pod in pods:
        pod.end()
    pod = node.run(whole)
    assert pod.variables['NVIDIA_VISIBLE_DEVICES'] == 'void' and 'CUDA_MPS_PIPE_DIRECTORY' not in pod.variables
    assert pod.cdi_ids[0] == 'k8s.device-plugin.nvidia.com/gpu=' + FIRST
    assert not node.fits(node.claim('small', {'memory': '1Gi', 'threadPercentage': '1'}))


WAITS = 'a DRA claim waits for what it was allocated to become free'
ALMOST_ALL = {'memory': '70Gi', 'threadPercentage': '90'}


def test_a_claim_for_so_many_of_nvidias_shares_has_no_device(node):
    """NVIDIA's driver has a capacity 'shares' where ConsumableShares is on: it counts, and limits nothing."""
    start(node)
    with pytest.raises(Unschedulable):
        node.run(node.claim('counted', {'shares': '1'}, WHOLE))
    with pytest.raises(Unschedulable):
        node.run(node.claim('counted-too', {'shares': '1'}, SHARED))
    node.run(node.claim('whole', class_=WHOLE)).end()


@contextlib.contextmanager
def preparing(node, *claims):
    """One attempt of kubelet's, which the agent lets wait: a Future."""
    pod = node.admit(*claims)
    with concurrent.futures.ThreadPoolExecutor(1) as kubelet:
        call = kubelet.submit(node.prepare, pod, *claims)
        node.agent.wait_log(WAITS)
        assert not call.done()
        yield call


@pytest.mark.parametrize('before, after', [((ALMOST_ALL, SHARED), (ALMOST_ALL, SHARED)), ((None, WHOLE), (ALMOST_ALL, SHARED)),
                                           ((ALMOST_ALL, SHARED), (None, WHOLE))], ids=['share-share', 'whole-share', 'share-whole'])
def test_a_prepare_that_comes_before_the_unprepare_of_the_claim_before_waits_for_it(node, before, after):
    start(node)
    first = node.run(node.claim('first', *before))
    first.vanish()
    with preparing(node, node.claim('second', *after)) as call:
        node.dra.unprepare(first.pod)
        assert call.result()
    assert [method for method, _ in node.dra.calls] == ['NodePrepareResources', 'NodeUnprepareResources', 'NodePrepareResources']


def test_a_claim_that_was_deleted_and_whose_name_another_has_now_is_waited_for(node):
    start(node)
    first = node.run(node.claim('train', ALMOST_ALL))
    first.vanish()
    node.cluster.api.delete(CLAIMS % 'default', 'train')
    with preparing(node, node.claim('train', ALMOST_ALL)) as call:
        node.dra.unprepare(first.pod)
        assert call.result()


def test_a_prepare_does_not_wait_without_end_for_an_unprepare(node):
    start(node)
    first = node.run(node.claim('first', ALMOST_ALL))
    first.vanish()
    with preparing(node, node.claim('second', class_=WHOLE)) as call:
        with pytest.raises(Failed, match='claim default/first has a share of it; .*; Prepare has waited 20 s for that to change'):
            call.result()
    assert not node.agent.count('claim is late')
    node.dra.unprepare(first.pod)


def put_past_the_scheduler(node, claim, device):
    """The pod of a claim with a device that another claim has."""
    pod = node.create(claim)
    node.reserve(claim, pod, {'devices': {'results': [{'request': 'gpu', 'driver': DRIVER, 'pool': node.pool, 'device': device}]}})
    return pod


def test_a_claim_that_is_in_the_way_and_still_allocated_is_a_conflict_at_once(node):
    start(node)
    first = node.run(node.claim('first', ALMOST_ALL))
    whole = node.claim('whole', class_=WHOLE)
    pod = put_past_the_scheduler(node, whole, 'gpu-0')
    with pytest.raises(Failed, match=r'%s: claim default/first has a share of it' % FIRST):
        node.prepare(pod, whole)
    assert not node.agent.count(WAITS)
    first.end()
    node.run_pod(pod, whole)


def test_a_prepare_whose_pod_is_gone_takes_nothing(node):
    start(node)
    first = node.run(node.claim('first', ALMOST_ALL))
    first.vanish()
    second = node.claim('second', ALMOST_ALL)
    pod = node.admit(second)
    call = node.dra.begin_prepare(DRIVER, second)
    node.agent.wait_log(WAITS)
    call.cancel()
    node.agent.wait_log('nobody waits for a DRA claim any more')
    node.release(second, pod)
    node.dra.unprepare(first.pod)
    node.run(node.claim('third', ALMOST_ALL))
    assert node.agent.count(WAITS) == 1


def test_a_prepare_waits_for_a_gpu_that_is_not_offered_at_the_moment(node):
    start(node, 2)
    whole = node.claim('whole', class_=WHOLE)
    pod = node.admit(whole)
    node.config(config(devices=['0']))
    node.agent.hang_up()
    node.wait_devices('gpu-0', 'gpu-0-shared')
    with concurrent.futures.ThreadPoolExecutor(1) as kubelet:
        call = kubelet.submit(node.prepare, pod, whole)
        node.agent.wait_log(WAITS)
        node.config(config())
        node.agent.hang_up()
        assert call.result()


def test_a_claim_that_does_not_say_gets_the_default(node):
    start(node, defaults={'memory': '2Gi', 'threadPercentage': 20})
    pod = node.run(node.claim('train'))
    assert pod.variables['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=2048M'
    assert pod.client().connected()['percentage'] == '20.0'


# ---- the files ----

def specifications(node):
    """Name → content, of all files that runtimes read."""
    found = {}
    for name in os.listdir(node.cdi_folder):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(node.cdi_folder, name), encoding='utf-8') as file:
            found[name] = file.read()
    return {name: text for name, text in found.items() if name.endswith('.json')}


def remove_files(node):
    for name in os.listdir(node.cdi_folder):
        os.unlink(os.path.join(node.cdi_folder, name))


def overwrite_files(node):
    for name in os.listdir(node.cdi_folder):
        with open(os.path.join(node.cdi_folder, name), 'w', encoding='utf-8') as file:
            file.write('{"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": []}')


@pytest.mark.parametrize('damage', [remove_files, lambda node: remove_folder(node.cdi_folder), overwrite_files],
                         ids=['removed', 'removed with their folder', 'overwritten'])
def test_files_that_another_program_removes_or_changes_come_back_at_once(node, damage):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    before = specifications(node)
    assert len(before) == 2
    damage(node)
    node.wait(lambda: os.path.isdir(node.cdi_folder) and specifications(node) == before, 'the files are as they were')
    again = node.container_of(pod.cdi_ids)
    assert again.envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == pod.variables['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT']


def test_files_that_vanish_while_no_agent_runs_are_there_when_it_has_begun(node):
    start(node)
    node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    before = specifications(node)
    node.agent.kill()
    remove_files(node)
    start_agent(node)
    node.wait(lambda: specifications(node) == before, 'the files are as they were')


def test_a_claim_that_ended_has_no_file_that_could_come_back(node):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    pod.end()
    before = specifications(node)
    assert len(before) == 1
    remove_files(node)
    node.wait(lambda: specifications(node) == before, 'the file of the GPUs is there, and no other')


@pytest.mark.parametrize('late', [*CONTROL_NODES, '/dev/nvidia0'])
def test_nothing_is_prepared_while_a_device_node_is_missing_that_cuda_needs(node, late):
    prepare_machine(node)
    os.unlink(machine(node) + late)
    node.start_mps()
    node.dra.start()
    start_agent(node)
    node.wait_devices('gpu-0', 'gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    pod = node.admit(claim := node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    with pytest.raises(Failed) as raised:
        node.prepare(pod, claim)
    assert "'%s' is not there" % late in str(raised.value) or late == '/dev/nvidia0'
    make_device_nodes(node, late)
    ran = node.run_pod(pod, claim)
    assert {*CONTROL_NODES, '/dev/nvidia0'} <= ran.container.nodes
    assert ran.client().connected()['percentage'] == '30.0'


def test_an_agent_that_is_killed_and_comes_back_changes_nothing_for_pods(node):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    client = pod.client()
    client.connected()
    pid = node.daemon(FIRST)['pid']
    node.agent.kill()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    second = node.run(node.claim('serve', {'memory': '10Gi', 'threadPercentage': '30'}))
    assert second.client().connected()['percentage'] == '30.0'
    assert client.is_alive() and node.daemon(FIRST)['pid'] == pid
    pod.end()
    second.end()
    wait_no_daemon(node)


def test_an_agent_stops_well_while_kubelet_asks_for_claims(node):
    """Whatever is asked in between is refused, and done by the next agent."""
    start(node)
    claims = [node.claim('claim-%d' % i, {'memory': '1Gi', 'threadPercentage': '5'}) for i in range(12)]
    pods = [node.admit(claim) for claim in claims]
    asking = [threading.Thread(target=try_, args=(node.prepare, pod, claim)) for pod, claim in zip(pods, claims, strict=True)]
    for thread in asking:
        thread.start()
    assert node.agent.stop() == 0
    for thread in asking:
        thread.join()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    for pod, claim in zip(pods, claims, strict=True):
        assert node.run_pod(pod, claim).variables['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '5'


def test_no_claim_fails_while_one_agent_takes_over_from_another(node):
    """An update: the next agent waits beside the one that serves, and kubelet sees its sockets up to a second after it has taken over."""
    start(node, arguments=['--dra-instance=pod-1'])
    failed = []
    is_over = threading.Event()
    scheduling = threading.Lock()
    asking = [threading.Thread(target=ask_for_claims, args=(node, i, is_over, failed, scheduling)) for i in range(4)]
    for thread in asking:
        thread.start()
    for i in range(2, 5):
        before = node.agent
        start_agent(node, arguments=['--dra-instance=pod-%d' % i]).wait_log('not serving yet')
        assert before.stop() == 0
        node.dra.wait(lambda i=i: any(driver.endpoint.endswith('-%d.sock' % i) for driver in node.dra.drivers), 'the next instance')
        is_over.wait(0.5)
    is_over.set()
    for thread in asking:
        thread.join()
    assert not failed, failed
    assert len([method for method, _ in node.dra.calls if 'Unprepare' in method]) > 4


def ask_for_claims(node, number, is_over, failed, scheduling):
    """As pods do that come and go."""
    for i in itertools.count():
        if is_over.is_set():
            return
        with scheduling:
            claim = node.claim('claim-%d-%d' % (number, i), {'memory': '1Gi', 'threadPercentage': '5'})
            pod = node.admit(claim)
        try:
            node.prepare(pod, claim)
            node.dra.unprepare(pod)
        except Failed as error:
            failed.append(str(error))
        with scheduling:
            node.release(claim, pod)


def try_(function, *arguments):
    with contextlib.suppress(Failed):
        function(*arguments)


def test_kubelets_restart_restores_slices_and_finds_claims_prepared(node):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    client = pod.client()
    client.connected()
    node.dra.restart()
    node.wait_devices('gpu-0', 'gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    node.dra.prepare_again()
    assert client.is_alive()
    assert pod.client().connected()['percentage'] == '30.0'


def test_admin_access_is_given_beside_the_shares_of_the_gpu_and_is_still_none_of_them_after_a_restart(node):
    start(node)
    train = {'memory': '10Gi', 'threadPercentage': '30'}
    pod = node.run(node.claim('train', train))
    claim = node.claim('watch', class_=WHOLE, admin=True)
    admin = node.run(claim)
    assert admin.cdi_ids[0] == 'k8s.device-plugin.nvidia.com/gpu=' + FIRST
    assert 'CUDA_MPS_PIPE_DIRECTORY' not in admin.variables
    node.cluster.api.wait_for(lambda: node.status_of(claim))
    assert condition(node.status_of(claim)[0], 'Ready')[2] == FIRST + ', by admin access beside its users'
    node.agent.kill()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    second = node.run(node.claim('serve', train))
    assert second.client().connected()['percentage'] == '30.0'
    for one in (pod, second):
        one.end()
    wait_no_daemon(node)
    whole = node.run(node.claim('whole', class_=WHOLE))
    admin.end()
    whole.end()


def test_admin_access_to_a_share_by_mps_is_refused_with_the_way_out(node):
    start(node)
    assert 'ask for the device class of whole GPUs' in node.refusal(node.claim('watch', admin=True))


def opaque(kind='ShareConfig', **fields):
    return [{'opaque': {'driver': DRIVER, 'parameters': {'apiVersion': 'gpu.warpshare.dev/v1alpha1', 'kind': kind, **fields}}}]


def test_a_claims_configuration_is_read_strictly(node):
    start(node)
    train = {'memory': '10Gi', 'threadPercentage': '30'}
    reason = node.refusal(node.claim('typo', train, config=opaque(unenforzed='Refuse')))
    assert "configuration of the claim: ShareConfig: unknown field 'unenforzed'; known are apiVersion, kind, unenforced" in reason
    reason = node.refusal(node.claim('kind', train, config=opaque('GpuConfig')))
    assert "kind: 'GpuConfig' is not a known value; known are ShareConfig" in reason
    pod = node.run(node.claim('train', train, config=opaque(unenforced='Refuse')))
    assert pod.client().connected()['percentage'] == '30.0'


def test_two_gpus_of_one_numa_node_and_a_share_where_nothing_better_is_left(node):
    prepare_machine(node, 4)
    node.gpus(4, model=H100, changes={i: {'numa': i // 2} for i in range(4)})
    node.start_mps()
    node.dra.start()
    start_agent(node)
    node.wait_devices(*(name for i in range(4) for name in ('gpu-%d' % i, 'gpu-%d-shared' % i)))
    node.dra.wait_driver(DRIVER)
    first = node.run(node.claim('first', class_=WHOLE))
    assert node.device_of(first.claims[0]) == 'gpu-3'
    claim = node.claim_of('pair', requests=[{'name': 'pair', 'exactly': {'deviceClassName': WHOLE, 'count': 2}}],
                          constraints=[{'matchAttribute': 'resource.kubernetes.io/numaNode'}])
    pair = node.run(claim)
    assert [result['device'] for result in node.results(claim)] == ['gpu-1', 'gpu-0']
    wishes = [{'name': 'pair', 'deviceClassName': WHOLE, 'count': 2},
              {'name': 'share', 'deviceClassName': SHARED, 'capacity': {'requests': {'memory': '10Gi', 'threadPercentage': '30'}}}]
    claim = node.claim_of('wishes', requests=[{'name': 'gpus', 'firstAvailable': wishes}])
    share = node.run(claim)
    result, = node.results(claim)
    assert (result['request'], result['device']) == ('gpus/share', 'gpu-2-shared')
    assert share.client().connected()['percentage'] == '30.0'
    for pod in (share, pair, first):
        pod.end()


def start_on(node, patch, *devices, **dra):
    """On Kubernetes 1.36.|patch|, with two GPUs, which are offered so."""
    node.cluster.api.serve_dra(patch=patch)
    prepare_machine(node, 2)
    node.start_mps()
    node.dra.start()
    start_agent(node, arguments=['--node-condition=GPUSharingReady'], **dra)
    node.wait_devices(*devices)
    node.dra.wait_driver(DRIVER)


def test_where_the_scheduler_forgets_shares_no_whole_gpu_is_given_out_beside_one(node):
    start_on(node, 1, 'gpu-0-shared', 'gpu-1-shared')
    assert 'the scheduler of Kubernetes v1.36.1 forgets shares' in node.agent.wait_log(
        'each GPU and MIG device is offered in one form only.*').group()
    pods = [node.run(node.claim('claim-%d' % i, TWO)) for i in range(2)]
    for i, pod in enumerate(pods):
        assert pod.client().connected()['percentage'] == '60.0'
        assert not node.fits(node.claim('whole-%d' % i, class_=WHOLE))
    node.cluster.api.wait_for(lambda: (node.cluster.condition('GPUSharingReady') or {}).get('reason') == 'OfferReduced')
    assert '1.36.2 is the first that does not' in node.cluster.condition('GPUSharingReady')['message']


def test_which_form_is_left_there_can_be_chosen(node):
    start_on(node, 0, 'gpu-0', 'gpu-1', oneForm='whole')
    every = node.claim_of('every-gpu', requests=[{'name': 'gpus', 'exactly': {'deviceClassName': WHOLE, 'allocationMode': 'All'}}])
    node.run(every)
    assert [result['device'] for result in node.results(every)] == ['gpu-1', 'gpu-0']


def test_a_gpu_keeps_the_form_in_which_claims_have_it_to_their_end(node):
    start_on(node, 1, 'gpu-0-shared', 'gpu-1-shared')
    pod = node.run(node.claim('train', TWO))
    node.config(config(oneForm='whole'))
    node.agent.hang_up()
    node.wait_devices('gpu-0-shared', 'gpu-1')
    node.agent.kill()
    start_agent(node, oneForm='whole')
    node.dra.wait_driver(DRIVER)
    node.stays(lambda: set(node.devices()) == {'gpu-0-shared', 'gpu-1'}, 'the share that a claim has is offered', 0.5)
    pod.end()
    node.wait_devices('gpu-0', 'gpu-1')


@pytest.mark.parametrize('order', ['end', 'drop'])
def test_a_cluster_that_is_updated_gets_the_other_forms_too(node, order):
    """The API server ends its watches as it is replaced, and the next one takes them: no request fails, as seen with 1.36.2."""
    start_on(node, 1, 'gpu-0-shared', 'gpu-1-shared')
    node.cluster.api.serve_dra(patch=2)
    node.cluster.api.order_watches(order)
    node.wait_devices('gpu-0', 'gpu-0-shared', 'gpu-1', 'gpu-1-shared')
    node.cluster.api.wait_for(lambda: node.cluster.condition('GPUSharingReady')['reason'] != 'OfferReduced')


EVENTS = [{'gpu': 0, 'xid': 79}]


def fail_first(node):
    node.gpus(2, model=H100, changes={0: {'lost': True}}, events=EVENTS)


def taints(node, device):
    return [(taint.get('value'), taint['effect']) for taint in node.devices()[device].get('taints', [])]


def test_an_unhealthy_gpu_is_tainted_until_it_is_healthy_again(node):
    start(node, 2)
    node.dra.wait_health(DRIVER, 'gpu-0-shared', 'HEALTHY')
    fail_first(node)
    node.dra.wait_health(DRIVER, 'gpu-0-shared', 'UNHEALTHY')
    node.cluster.api.wait_for(lambda: taints(node, 'gpu-0-shared') == taints(node, 'gpu-0') == [('xid-79', 'NoSchedule')])
    assert taints(node, 'gpu-1') == []
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    node.run(claim)
    assert node.device_of(claim) == 'gpu-1-shared'
    node.gpus(2, model=H100, events=EVENTS)
    node.cluster.api.wait_for(lambda: taints(node, 'gpu-0-shared') == [])
    node.dra.wait_health(DRIVER, 'gpu-0-shared', 'HEALTHY')


def test_each_release_of_kubelet_hears_health_by_the_service_that_it_prefers(node):
    start(node)
    for release, service in [('1.36', 'v1alpha1'), ('1.37', 'v1'), ('1.40', 'v1'), ('1.36', 'v1alpha1')]:
        node.dra.release = release
        node.dra.restart()
        node.dra.wait_health(DRIVER, 'gpu-0-shared', 'HEALTHY')
        assert node.dra.health_services == {DRIVER: service + '.DRAResourceHealth'}
        node.agent.kill()
        node.dra.wait(lambda: not node.dra.health, 'the stream of health has ended')
        start_agent(node)
        node.dra.wait_health(DRIVER, 'gpu-0-shared', 'HEALTHY')
        assert node.dra.health_services == {DRIVER: service + '.DRAResourceHealth'}


def test_pods_on_an_unhealthy_gpu_are_evicted_where_that_is_configured(node):
    start(node, 2, unhealthy='NoExecute')
    fail_first(node)
    node.cluster.api.wait_for(lambda: taints(node, 'gpu-0-shared') == [('xid-79', 'NoExecute')])


def test_shares_of_two_gpus_in_one_claim_are_refused_with_the_reason(node):
    start(node, 2)
    share = {'memory': '60Gi', 'threadPercentage': '60'}
    reason = node.refusal(node.claim('both', requests={'a': (share, SHARED), 'b': (share, SHARED)}))
    assert 'are shared by different MPS daemons' in reason and 'dra.daemonScope: resource' in reason


def start_with_one_daemon(node):
    prepare_machine(node, 2)
    node.start_mps()
    node.dra.start()
    start_agent(node, whole=False, daemonScope='resource')
    node.wait_devices('gpu-0-shared', 'gpu-1-shared')
    node.dra.wait_driver(DRIVER)


def both(node, name='both', a='10Gi', b='60Gi', percentages=('30', '60')):
    return node.claim(name, requests={'a': ({'memory': a, 'threadPercentage': percentages[0]}, SHARED),
                                      'b': ({'memory': b, 'threadPercentage': percentages[1]}, SHARED)})


def test_with_one_daemon_a_container_has_shares_of_two_gpus_with_a_limit_on_each(node):
    start_with_one_daemon(node)
    claim = both(node, a='70Gi', percentages=('50', '60'))
    pod = node.run(claim)
    assert [result['device'] for result in node.results(claim)] == ['gpu-0-shared', 'gpu-1-shared']
    assert pod.variables['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=71680M,1=61440M'
    assert pod.variables['CUDA_DEVICE_ORDER'] == 'PCI_BUS_ID'
    assert 'WARPSHARE_MEMORY_LIMIT_MIB' not in pod.variables
    assert 0.73 < float(pod.variables['WARPSHARE_FRACTION']) <= 61440 / 81559  # the lesser of both, of all that NVML reports
    assert pod.client().connected()['percentage'] == '50.0'
    daemon, = node.watch().wait_status(lambda status: status['daemons'], 'the daemon')['daemons']
    assert daemon['name'] == DRIVER and daemon['units'] == [FIRST, SECOND]
    node.cluster.api.wait_for(lambda: len(node.status_of(claim)) == 2)
    assert [entry['data']['threadPercentage'] for entry in node.status_of(claim)] == [50, 60]
    one = node.run(node.claim('one', {'memory': '5Gi', 'threadPercentage': '10'}))
    assert one.client().connected()['percentage'] == '10.0'
    node.agent.kill()
    start_agent(node, whole=False, daemonScope='resource')
    node.dra.wait_driver(DRIVER)
    assert not node.fits(node.claim('more', {'memory': '5Gi', 'threadPercentage': '45'}))
    for each in (pod, one):
        each.end()
    wait_no_daemon(node)


def test_one_daemon_that_was_started_without_a_gpu_takes_it_in_when_it_has_no_clients(node):
    prepare_machine(node, 2)
    node.gpus(2, model=H100, changes={1: {'errors': {'nvmlDeviceGetMemoryInfo': 'UNKNOWN'}}})
    node.start_mps()
    node.dra.start()
    start_agent(node, whole=False, daemonScope='resource')
    node.wait_devices('gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    one = node.run(node.claim('one', {'memory': '5Gi', 'threadPercentage': '10'}))
    client = one.client()
    client.connected()
    daemon, = node.watch().wait_status(lambda status: status['daemons'], 'the daemon')['daemons']
    assert daemon['units'] == [FIRST]
    node.gpus(2, model=H100)
    claim = both(node, a='70Gi', percentages=('50', '60'))  # one on each
    node.cluster.api.wait_for(lambda: node.fits(claim))
    pod = node.admit(claim)
    with concurrent.futures.ThreadPoolExecutor(1) as kubelet:
        prepared = kubelet.submit(node.run_pod, pod, claim)
        node.watch().wait_daemon(DRIVER, lambda one: 'takes it in when it has no clients' in (one['notice'] or ''), 'it says what it waits for')
        node.agent.wait_event('MPSNotice', 'it was started while %s could not be used' % SECOND)
        assert not prepared.done() and client.is_alive()
        client.end()
        assert prepared.result().client().connected()['percentage'] == '50.0'
    daemon, = node.watch().wait_status(lambda status: status['daemons'], 'the daemon')['daemons']
    assert daemon['units'] == [FIRST, SECOND]


def test_shares_of_two_gpus_are_refused_where_a_container_has_only_a_part_of_them(node):
    start_with_one_daemon(node)
    claim = both(node, a='70Gi')
    pod = node.admit(claim, request='a')
    with pytest.raises(Failed, match='a container uses only a part of them'):
        node.prepare(pod, claim)


def test_two_shares_of_one_gpu_are_one_for_a_container_that_has_both(node):
    start(node)
    claim = both(node, b='5Gi', percentages=('30', '20'))
    pod = node.run(claim)
    assert [result['device'] for result in node.results(claim)] == ['gpu-0-shared', 'gpu-0-shared']
    assert pod.variables['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=15360M'
    client = pod.client()
    assert client.connected()['percentage'] == '50.0'
    assert client.allocate(14000) == 14000 and client.allocate(2000) < 2000
    node.cluster.api.wait_for(lambda: len(node.status_of(claim)) == 2)
    assert [entry['data']['memoryMiB'] for entry in node.status_of(claim)] == [10240, 5120]


TWO = {'memory': '60Gi', 'threadPercentage': '60'}  # two of them are on two GPUs


def test_a_container_with_shares_of_two_claims_is_refused_with_the_reason(node):
    start(node, 2)
    reason = node.refusal(node.claim('train', TWO), node.claim('serve', TWO))
    assert "container 'main' of pod default/pod-1 also uses the claim '" in reason
    assert 'use one claim for the container' in reason


def test_a_container_with_shares_of_two_claims_is_still_refused_after_a_restart(node):
    start(node, 2)
    claims = node.claim('train', TWO), node.claim('serve', TWO)
    pod = node.admit(*claims)
    with pytest.raises(Failed, match='use one claim for the container'):
        node.prepare(pod, *claims)
    node.agent.kill()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    with pytest.raises(Failed, match='use one claim for the container'):
        node.prepare(pod, *claims)


def asked_of_pods(node):
    return len(node.cluster.api.asked('get', 'pods'))


def test_kubelet_says_which_claims_a_container_uses_without_a_right_to_read_pods(node):
    node.kubelet.serves_pods = True
    node.cluster.api.allow(agent_rules('dra', 'events: node', 'configuration'))
    start(node, 2)
    reason = node.refusal(node.claim('train', TWO), node.claim('serve', TWO))
    assert 'use one claim for the container' in reason
    assert node.kubelet.pod_calls and asked_of_pods(node) == 0


def of_templates(pod):
    """As if templates had made the claims: their names are in the status of the pod alone, which kubelet does not tell."""
    pod.object = copy.deepcopy(pod.object)
    pod.object['status'] = {'resourceClaimStatuses': [
        {'name': one['name'], 'resourceClaimName': one.pop('resourceClaimName')} for one in pod.object['spec']['resourceClaims']]}
    for one in pod.object['spec']['resourceClaims']:
        one['resourceClaimTemplateName'] = 'template'
    return pod


@pytest.mark.parametrize('tells', [True, False])
def test_where_kubelet_does_not_tell_the_names_of_a_pods_claims_the_api_server_is_asked(node, tells):
    """They were made from a template, and their names are in the status of the pod alone."""
    node.kubelet.serves_pods, node.kubelet.tells_claims = True, tells
    start(node, 2)
    claims = node.claim('train', TWO), node.claim('serve', TWO)
    pod = of_templates(node.admit(*claims))
    with pytest.raises(Failed, match='use one claim for the container'):
        node.prepare(pod, *claims)
    assert node.kubelet.pod_calls and (asked_of_pods(node) == 0) == tells


def test_the_only_claim_of_a_template_is_known_without_its_name(node):
    """A claim of 15 GiB, of which the container names a request for 10."""
    node.kubelet.serves_pods = True
    node.cluster.api.allow(agent_rules('dra', 'events: node', 'configuration'))
    start(node)
    claim = both(node, b='5Gi', percentages=('30', '20'))
    pod = of_templates(node.admit(claim, request='a'))
    known, = node.prepare(pod, claim)
    assert node.container_of(known.cdi_ids('a')).envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=10240M'
    assert node.kubelet.pod_calls and asked_of_pods(node) == 0


@pytest.mark.parametrize('what', ['an extended resource', 'another claim by name'])
def test_a_claim_of_a_template_that_may_be_another_is_asked_of_the_api_server(node, what):
    node.kubelet.serves_pods = True
    start(node)
    claim = both(node, b='5Gi', percentages=('30', '20'))
    pod = of_templates(node.admit(claim, request='a'))
    if what == 'an extended resource':
        pod.object['spec']['containers'][0]['resources']['limits'] = {'nvidia.com/gpu.shared': '1'}
    else:
        pod.object['spec']['resourceClaims'].append({'name': 'other', 'resourceClaimName': claim['metadata']['name']})
    known, = node.prepare(pod, claim)
    assert node.container_of(known.cdi_ids('a')).envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=10240M'
    assert node.kubelet.pod_calls and asked_of_pods(node) > 0


def test_a_claim_that_is_prepared_while_pods_of_another_are_read_counts(node):
    """The pod that both have was checked for the first one already."""
    start(node)
    small = {'memory': '1Gi', 'threadPercentage': '1'}
    held, slow, quick = (node.claim(name, small) for name in ('held', 'slow', 'quick'))
    both, other = node.admit(slow, quick), node.run(held).pod
    node.schedule(slow, other)
    fault = node.cluster.api.fault('hang', verb='get', resource='pods')
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(node.prepare, other, slow)
        node.cluster.api.wait_for(lambda: fault.times == 0)
        node.prepare(both, quick)
        with pytest.raises(Failed, match="container 'main' of pod default/%s also uses the claim 'quick'" % both.name):
            waits.result()


def test_two_pods_with_a_claim_each_are_not(node):
    start(node, 2)
    pods = [node.run(node.claim(name, TWO)) for name in ('train', 'serve')]
    assert [pod.client().connected()['percentage'] for pod in pods] == ['60.0', '60.0']


def test_where_pods_cannot_be_read_the_log_says_what_such_a_container_gets(node):
    start(node, 2)
    node.cluster.api.fault('status', verb='get', resource='pods', times=1000, code=500)
    node.run(node.claim('train', TWO), node.claim('serve', TWO))
    node.agent.wait_log('a pod uses several DRA claims by MPS; a container that names two of them has the limits of one')


def test_claims_are_prepared_as_soon_as_the_cdi_folder_can_be_written(node):
    """A disk that is full while the agent starts, say."""
    prepare_machine(node)
    os.rmdir(node.cdi_folder)
    with open(node.cdi_folder, 'w', encoding='ascii'):
        pass
    node.start_mps()
    node.dra.start()
    start_agent(node)
    node.wait_devices('gpu-0', 'gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    whole = node.claim('whole', class_=WHOLE)
    pod = node.admit(whole)
    with pytest.raises(Failed, match='the CDI specification of the GPUs could not be written'):
        node.prepare(pod, whole)
    os.unlink(node.cdi_folder)
    node.wait(lambda: os.path.isdir(node.cdi_folder) and node.cdi_devices(), 'the specification of the GPUs is written')
    node.run_pod(pod, whole)
    assert node.agent.count('no CDI specification can be written') == 1


def test_without_warpshare_mps_a_share_is_refused_with_the_reason(node):
    prepare_machine(node)
    node.dra.start()
    start_agent(node)
    node.wait_devices('gpu-0', 'gpu-0-shared')
    node.dra.wait_driver(DRIVER)
    refusal = node.refusal(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    assert 'the MPS supervisor (warpshare mps) does not answer on this node' in refusal
    whole = node.claim('whole', class_=WHOLE)
    node.prepare(node.admit(whole), whole)  # at kubelet's first attempt: there is nothing to wait for


def test_the_device_plugin_serves_the_gpus_that_do_not_belong_to_dra(node):
    prepare_machine(node, 2)
    node.start_mps()
    node.dra.start()
    start_agent(node, share(20), devices=['1'])
    node.wait_devices('gpu-1', 'gpu-1-shared')
    node.dra.wait_driver(DRIVER)
    node.wait_counts(20)
    node.admit_replica('plain')
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    assert pod.client().connected()['percentage'] == '30.0'
    assert node.client('plain').connected()['percentage'] == '5.0'
    pod.end()
    node.watch().wait_status(lambda status: [daemon['name'] for daemon in status['daemons']] == [FIRST], 'one daemon is left')


def test_a_gpu_goes_to_the_device_plugin_when_its_last_claim_has_ended(node):
    start(node, 2)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    client = pod.client()
    client.connected()
    assert node.device_of(claim) == 'gpu-0-shared'
    node.config({**share(20), **config(devices=['1'])})
    node.agent.hang_up()
    node.wait_devices('gpu-1', 'gpu-1-shared')
    node.stays(lambda: not node.kubelet.newest, 'nothing is advertised while the claim is held', 0.5)
    assert client.is_alive()
    pod.end()
    node.wait_counts(20)


def test_dra_that_is_switched_off_serves_its_claims_to_their_end(node):
    start(node)
    pod = node.run(node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'}))
    client = pod.client()
    client.connected()
    node.config({**share(20), **config(enabled=False)})
    node.agent.hang_up()
    node.wait_devices()
    node.agent.stop()
    start_agent(node, share(20), enabled=False)
    node.dra.wait_driver(DRIVER)
    node.stays(lambda: not node.kubelet.newest, 'nothing is advertised while the claim is held', 0.5)
    assert client.is_alive()
    pod.end()
    node.wait_counts(20)


def test_a_gpu_goes_to_dra_when_its_last_replica_is_given_back(node):
    prepare_machine(node, 2)
    node.start_mps()
    node.dra.start()
    start_agent(node, share(20), devices=['1'])
    node.wait_counts(20)
    node.admit_replica('plain')
    node.config({**share(20), **config(devices=['0', '1'])})
    node.agent.hang_up()
    node.agent.wait_event('ChangePending', 'default/plain/main')
    node.wait(lambda: node.healthy_replicas() == 0, 'the replicas of the GPU that changes sides are unhealthy')
    node.stays(lambda: set(node.devices()) == {'gpu-1', 'gpu-1-shared'}, 'DRA does not offer what a replica is held of', 0.5)
    node.kubelet.remove_pod('plain')
    node.wait_devices('gpu-0', 'gpu-0-shared', 'gpu-1', 'gpu-1-shared')


def test_pods_that_join_a_claim_later_are_known_to_the_limit_monitor(node):
    start(node)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    first = node.run(claim)
    first.client().connected()
    node.agent.kill()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    second = node.run(claim)
    client = second.client()
    client.connected()
    assert client.allocate(9000) == 9000
    node.stays(lambda: not node.agent.count('limit violated|MPSClientUnknown'), 'nobody is suspected', 6)


METRICS = ('--metrics-address=127.0.0.1:0', '--usage-interval=1s')


def claimed(node, name):
    """What metrics say of the shares that were given by this claim."""
    page = node.agent.get('/metrics')[1]
    found = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in page.splitlines() if line.startswith('warpshare_container_info{')]
    return [{key: one.get(key) for key in ('unit', 'namespace', 'pod', 'pod_uid')} for one in found if one.get('claim') == name]


def put_process(node, pod):
    """On the first GPU."""
    folder = os.path.join(machine(node), 'proc', '4711')
    os.makedirs(folder)
    with open(os.path.join(folder, 'cgroup'), 'w', encoding='ascii') as file:
        file.write('0::/kubepods/burstable/pod%s/%064d\n' % (pod.uid, 1))
    node.gpus(1, model=H100, changes={0: {'processes': [{'pid': 4711, 'memory': '3GiB'}]}})


def test_metrics_name_the_pod_of_a_claim_also_after_a_restart(node):
    start(node, arguments=METRICS)
    claim = node.claim('train', class_=WHOLE)
    pod = node.run(claim).pod
    expected = [{'unit': FIRST, 'namespace': 'default', 'pod': pod.name, 'pod_uid': None}]
    assert claimed(node, 'train') == expected
    node.agent.kill()
    put_process(node, pod)
    start_agent(node, arguments=METRICS)
    node.dra.wait_driver(DRIVER)
    node.wait(lambda: claimed(node, 'train') == expected, 'the pod is found by its process')
    assert re.search(r'^warpshare_container_memory_used_bytes\{share="\w+"\} %d$' % (3 << 30), node.agent.get('/metrics')[1], re.MULTILINE)


def test_what_two_pods_have_by_one_claim_is_counted_once(node):
    start(node, arguments=METRICS)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    node.run(claim)
    second = node.run(claim)
    put_process(node, second.pod)

    def shares():
        return sorted(str(one['pod']) for one in claimed(node, 'train'))

    node.wait(lambda: shares() == sorted(['None', second.pod.name]), 'the claim has a share, and the pod that uses it')
    assert node.agent.get('/metrics')[1].count('\nwarpshare_container_memory_limit_bytes{') == 1
