# SPDX-License-Identifier: Apache-2.0
"""The stand-ins of test/e2e/dra.py together, before our driver is one of them: what they hand out and refuse is judged here.

The driver's own sockets are real (dra_driver.c). What it answers, and the CDI file of a claim, is written by the test.
"""
import json
import os
import pathlib
import threading

import pytest

import dra
import mps as mps_module
from cluster import cluster  # noqa: F401 -- a fixture
from dra import DRIVER, WHOLE, Unschedulable, node  # noqa: F401 -- a fixture
from dra_driver import Driver
from dra_kubelet import SLICES
from mps_node import H100, uuid_of
from scheduler import place

NODES = {'/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia0'}


class Backend:
    """What the driver does for a claim: a CDI device with what the scheduler has counted. It runs until its driver ends."""

    def __init__(self, node, driver):
        self.node, self.driver, self.refusals = node, driver, []
        self.heard = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while line := self.driver.lines.get():
            self.heard.append(line)
            words = line.split()
            if words[0] == 'prepare' and self.refusals:
                self.driver.tell(f'fail {words[2]} {self.refusals.pop()}')
            elif words[0] == 'prepare':
                self.driver.tell(f'done {words[2]} {self.write(*words[1:])}')
            elif words[0] == 'unprepare':
                os.unlink(self.path(words[2]))
                self.driver.tell(f'done {words[2]}')

    def path(self, uid):
        return os.path.join(self.node.cdi_folder, f'{DRIVER}-claim_{uid}.json')

    def write(self, namespace, uid, name):
        claim = self.node.cluster.api.get(dra.CLAIMS % namespace, name)
        result = claim['status']['allocation']['devices']['results'][0]
        daemon = uuid_of(int(result['device'].split('-')[1]))
        consumed = result.get('consumedCapacity', {})
        edits = {'env': [f'NVIDIA_VISIBLE_DEVICES={daemon}', 'CUDA_MPS_PIPE_DIRECTORY=/mps/pipe',
                         f'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={consumed.get("threadPercentage")}'],
                 'deviceNodes': [{'path': path} for path in sorted(NODES)],
                 'mounts': [{'hostPath': self.node.programs.path(daemon, 'pipe'), 'containerPath': '/mps/pipe'},
                            {'hostPath': self.node.programs.path(daemon, 'shm'), 'containerPath': '/dev/shm'}]}
        spec = {'cdiVersion': '0.5.0', 'kind': f'{DRIVER}/claim', 'devices': [{'name': uid, 'containerEdits': edits}]}
        with open(self.path(uid), 'w', encoding='utf-8') as file:
            json.dump(spec, file)
        return f'{DRIVER}/claim={uid}'


@pytest.fixture
def publish(node, print_slices):  # noqa: F811
    """Puts the slices of a node into the API server, as its driver would."""
    def put():
        node.gpus(2, model=H100)
        for slice_ in print_slices(node.scenario_path.removesuffix('.yaml')):
            node.cluster.api.put(SLICES, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice',
                                          'metadata': {'name': slice_['name']}, 'spec': slice_['spec']})
    return put


@pytest.fixture
def backend(node, publish):  # noqa: F811
    node.dra.start()
    driver = Driver(node.programs.folder)
    made = Backend(node, driver)
    node.dra.wait_driver(DRIVER)
    publish()
    yield made
    assert driver.close() in (0, -9)
    driver.lines.put('')
    made.thread.join()


# ---- the scheduler ----

def recorded(name):
    path = pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'test/fixtures/dra-1.36' / f'{name}.json'
    return json.loads(path.read_text(encoding='utf-8'))['items']


def without_what_is_new_each_time(allocation):
    results = [{key: value for key, value in result.items() if key != 'shareID'} for result in allocation['devices']['results']]
    return {**allocation, 'allocationTimestamp': '', 'devices': {**allocation['devices'], 'results': results}}


def test_claims_are_allocated_as_the_real_scheduler_did():
    slices, classes = recorded('resourceslices'), recorded('deviceclasses')
    allocated = []
    for claim in sorted(recorded('resourceclaims'), key=lambda claim: claim['metadata']['creationTimestamp']):
        found = place(claim, 'node1', DRIVER, slices, classes, allocated)
        assert without_what_is_new_each_time(found) == without_what_is_new_each_time(claim['status']['allocation'])
        allocated.append({**claim, 'status': {'allocation': found}})
    whole = {'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': DRIVER, 'count': 1}}]}}}
    found = place(whole, 'node1', DRIVER, slices, classes, allocated)
    assert [result['device'] for result in found['devices']['results']] == ['gpu-1']
    assert place(whole, 'node1', DRIVER, slices, classes, [*allocated, {'status': {'allocation': found}}]) is None


def test_three_shares_of_one_gpu_and_the_whole_gpu_refused_meanwhile(node, publish):  # noqa: F811
    publish()
    shares = [node.claim(name, {'memory': memory, 'threadPercentage': percent}) for name, memory, percent in (
        ('big', '40Gi', '55'), ('small', '10Gi', '30'), ('tiny', '8Gi', '10'))]
    whole = node.claim('whole', class_=WHOLE)
    both = node.claim('both', requests={'one': (None, WHOLE), 'two': (None, WHOLE)})
    for share in shares:
        node.admit(share)
    assert [node.device_of(share) for share in shares] == ['gpu-0-shared'] * 3
    result, = node.results(shares[1])
    assert result == {'request': 'gpu', 'driver': DRIVER, 'pool': f'n1/{DRIVER}', 'device': 'gpu-0-shared', 'shareID': result['shareID'],
                      'consumedCapacity': {'memory': '10Gi', 'threadPercentage': '30', 'clients': '1'}}
    assert not node.fits(both)
    with pytest.raises(Unschedulable):
        node.admit(both)
    node.admit(whole)
    assert node.results(whole) == [{'request': 'gpu', 'driver': DRIVER, 'pool': f'n1/{DRIVER}', 'device': 'gpu-1'}]


def test_what_is_more_than_is_left_goes_to_the_next_gpu_and_then_nowhere(node, publish):  # noqa: F811
    publish()
    claims = [node.claim(f'claim-{i}', {'threadPercentage': '60'}) for i in range(3)]
    for claim in claims[:2]:
        node.admit(claim)
    assert [node.device_of(claim) for claim in claims[:2]] == ['gpu-0-shared', 'gpu-1-shared']
    assert not node.fits(claims[2])


def test_nothing_is_given_of_a_pool_that_is_not_complete(node, publish):  # noqa: F811
    publish()
    claim = node.claim('claim')
    node.cluster.api.delete(SLICES, node.slices()[0]['metadata']['name'])
    assert not node.fits(claim)


# ---- kubelet and the container ----

def test_a_pod_runs_with_what_its_claim_was_given_and_frees_it_at_its_end(node, backend):  # noqa: F811
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    uid = claim['metadata']['uid']
    assert backend.heard == ['registered', f'prepare default {uid} train']
    assert pod.cdi_ids == node.cdi_devices() == [f'{DRIVER}/claim={uid}']
    assert pod.variables['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '30'
    assert pod.container.nodes == NODES
    node.programs.start()
    peer = node.programs.connect().watch()
    peer.apply(mps_module.daemon(0, threadsPermille=1000))
    peer.wait_ready(uuid_of(0))
    assert pod.client().connected()['percentage'] == '30.0'
    peer.close()
    pod.end()
    assert backend.heard[-1] == f'unprepare default {uid} train'
    assert node.cdi_devices() == []
    assert 'allocation' not in node.look(claim)['status'] and node.fits(claim)


def test_two_pods_on_one_claim_are_one_prepare_and_one_unprepare(node, backend):  # noqa: F811
    claim = node.claim('shared')
    pods = [node.run(claim), node.run(claim)]
    assert pods[0].cdi_ids == pods[1].cdi_ids
    pods[0].end()
    assert [call for call, _ in node.dra.calls] == ['NodePrepareResources']
    assert node.look(claim)['status']['allocation']
    pods[1].end()
    assert [call for call, _ in node.dra.calls] == ['NodePrepareResources', 'NodeUnprepareResources']


def test_a_refusal_is_in_the_pods_status_and_kubelet_may_try_again(node, backend):  # noqa: F811
    claim = node.claim('train')
    backend.refusals = ['not now']
    pod = node.admit(claim)
    with pytest.raises(dra.Failed, match='NodePrepareResources failed for ResourceClaim train: not now'):
        node.prepare(pod, claim)
    pod = node.run_pod(pod, claim)
    assert [line.split()[0] for line in backend.heard] == ['registered', 'prepare', 'prepare']
    pod.end()
    backend.refusals = ['no']
    backend.path = lambda uid: os.path.join(node.cdi_folder, 'x.json')
    open(backend.path(''), 'w', encoding='utf-8').close()
    assert node.refusal(claim) == 'NodePrepareResources failed for ResourceClaim train: no'


def test_a_pod_that_the_claim_is_not_reserved_for_does_not_get_it(node, backend):  # noqa: F811
    claim = node.claim('train')
    node.admit(claim)
    with pytest.raises(dra.Failed, match='is not allowed to use ResourceClaim train'):
        node.prepare(node.create(claim), claim)
    assert backend.heard == ['registered']


def test_a_restarted_kubelet_deletes_the_slices_and_prepares_again_what_runs(node, backend):  # noqa: F811
    claim = node.claim('train')
    node.run(claim)
    assert node.slices()
    node.dra.restart()
    assert node.slices() == []
    heard = [line.split()[0] for line in backend.heard]
    # kubelet prepares as soon as it knows the driver, and may tell it that it is registered meanwhile.
    assert heard[:2] == ['registered', 'prepare'] and sorted(heard[2:]) == ['prepare', 'registered']


def test_a_driver_that_is_gone_loses_its_slices_and_nothing_is_prepared(node, backend):  # noqa: F811
    node.dra.wipe_delay = 0.1
    claim = node.claim('train')
    pod = node.admit(claim)
    backend.driver.process.kill()
    node.dra.wait(lambda: not node.slices(), 'the slices are gone')
    with pytest.raises(dra.Failed, match='NodePrepareResources failed: StatusCode.UNAVAILABLE'):
        node.prepare(pod, claim)


def test_health_is_received_and_forgotten_with_the_driver(node, backend):  # noqa: F811
    backend.driver.tell('health 2 broken')
    node.dra.wait(lambda: node.dra.health.get(DRIVER), 'health of the driver')
    device, = node.dra.health[DRIVER].values()
    assert device.message == 'broken'
    backend.driver.process.kill()
    node.dra.wait(lambda: DRIVER not in node.dra.health, 'nothing of it')
