# SPDX-License-Identifier: Apache-2.0
"""The publisher of ResourceSlices against a server that does what servers, kubelet and people do to them."""
import os
import queue
import subprocess
import threading
import time

import pytest

import resourceslices
from apiserver import PATIENCE, ApiServer

V1 = '/apis/resource.k8s.io/v1/resourceslices'
WRITES = ('create', 'update', 'patch', 'delete')


class Publisher:
    """The publisher as a process (publisher_driver.c)."""

    def __init__(self, server, scenario):
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        path = os.path.join(os.environ['WARPSHARE_SCENARIOS'], scenario + '.yaml')
        self.process = subprocess.Popen([os.environ['WARPSHARE_PUBLISHER_DRIVER'], server.kubeconfig(), path],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.lines = queue.Queue()
        self.thread = threading.Thread(target=lambda: [self.lines.put(line.rstrip('\n')) for line in self.process.stdout], daemon=True)
        self.thread.start()

    def do(self, *words):
        self.process.stdin.write(' '.join(words) + '\n')
        self.process.stdin.flush()

    def until(self, start):
        """The first line that begins with |start|."""
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if line.startswith(start):
                return line

    def close(self):
        """Its loop ends by itself, and nothing is left open."""
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self.thread.join()


@pytest.fixture
def server(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        server.serve_dra()
        server.put('/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n1'}})
        yield server


@pytest.fixture
def start(server):
    started = []

    def run(scenario='v100x4', *words):
        publisher = Publisher(server, scenario)
        started.append(publisher)
        publisher.do('put', *words)
        return publisher

    yield run
    for publisher in started:
        publisher.close()


def pool(server, collection=V1):
    """The specs of the slices, by name."""
    return [s['spec'] for s in sorted(server.all(collection), key=lambda s: s['metadata']['name'])]


def names(server, collection=V1):
    return [d['name'] for spec in pool(server, collection) for d in spec.get('devices', [])]


def generations(server):
    return {spec['pool']['generation'] for spec in pool(server)}


def is_complete(server, generation=None):
    specs = pool(server)
    return specs and len(generations(server)) == 1 and {spec['pool']['resourceSliceCount'] for spec in specs} == {len(specs)} and \
        generation in (None, specs[0]['pool']['generation'])


def writes(server):
    return [(r.verb, r.name) for r in server.requests if r.resource == 'resourceslices' and r.verb in WRITES and
            'dryRun' not in r.query and r.status < 300]


FULL = [f'gpu-{n}-shared' for n in range(4)] + [f'gpu-{n}' for n in (3, 2, 1, 0)]
SHARED = FULL[:4]
SAFE = [f'gpu-{n}' for n in range(4)]


def test_slices_are_made_owned_by_the_node_and_complete(server, start):
    assert start().until('ok') == 'ok devices=8 safe=0'
    assert names(server) == FULL and is_complete(server, 1)
    assert resourceslices.check_pool(pool(server)) == []
    uid = server.get('/api/v1/nodes', 'n1')['metadata']['uid']
    for slice_ in server.all(V1):
        assert slice_['metadata']['ownerReferences'] == [
            {'apiVersion': 'v1', 'kind': 'Node', 'name': 'n1', 'uid': uid, 'controller': True}]


def test_nothing_is_written_while_nothing_changes(server, start):
    first = start()
    first.until('ok')
    assert len(writes(server)) == 2
    first.do('put')
    server.compact()
    server.order_watches('end')
    server.wait_for(lambda: len(server.asked('watch', 'resourceslices')) >= 2)
    second = start()
    assert second.until('ok') == 'ok devices=8 safe=0'
    assert len(writes(server)) == 2


def test_what_kubelet_deletes_at_its_start_is_put_back(server, start):
    publisher = start()
    publisher.until('ok')
    for slice_ in server.all(V1):
        server.delete(V1, slice_['metadata']['name'])
    server.wait_for(lambda: is_complete(server) and names(server) == FULL)
    publisher.until('ok')


def test_what_is_deleted_again_and_again_is_put_back_later_each_time(server, start):
    publisher = start()
    publisher.until('ok')
    begun = time.monotonic()
    for _ in range(6):
        server.delete(V1, server.all(V1)[0]['metadata']['name'])
        server.wait_for(lambda: is_complete(server))
    assert time.monotonic() - begun > (50 + 100 + 200 + 400 + 800) / 2 / 1000  # half of a pause may be missing
    assert publisher.until('error').startswith('error another client has deleted ResourceSlice 0000')
    assert names(server) == FULL


def test_a_deleted_slice_is_restored_as_it_was(server, start):
    start().until('ok')
    before = pool(server)
    server.delete(V1, server.all(V1)[0]['metadata']['name'])
    server.wait_for(lambda: is_complete(server))
    assert pool(server) == before
    assert len(writes(server)) == 3


def test_a_changed_slice_is_changed_back(server, start):
    publisher = start()
    publisher.until('ok')
    name = server.all(V1)[1]['metadata']['name']
    server.patch(V1, name, {'spec': {'devices': []}})
    server.wait_for(lambda: names(server) == FULL)
    assert generations(server) == {1}


def test_slices_of_others_are_left_alone(server, start):
    other = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 'other'}, 'spec': {
        'driver': 'gpu.nvidia.com', 'nodeName': 'n1', 'pool': {'name': 'n1', 'generation': 1, 'resourceSliceCount': 1}, 'devices': []}}
    server.put(V1, other)
    server.put(V1, {**other, 'metadata': {'name': 'foreign'}, 'spec': {**other['spec'], 'driver': 'gpu.warpshare.dev', 'nodeName': 'n2'}})
    start().until('ok')
    assert server.get(V1, 'other')['spec'] == other['spec']
    assert server.get(V1, 'foreign') is not None


def test_an_obsolete_slice_of_ours_goes_first(server, start):
    server.put(V1, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': '00000-old'}, 'spec': {
        'driver': 'gpu.warpshare.dev', 'nodeName': 'n1', 'pool': {'name': 'n1', 'generation': 7, 'resourceSliceCount': 1},
        'devices': [{'name': 'gpu-0'}]}})
    start().until('ok')
    assert [verb for verb, _ in writes(server)] == ['delete', 'create', 'create']
    assert names(server) == FULL and is_complete(server)


def test_a_change_of_several_slices_is_a_new_generation_and_never_half_there(server, start):
    publisher = start('h100x8-nvswitch')
    publisher.until('ok')
    publisher.do('put', 'no-whole')
    assert publisher.until('ok') == 'ok devices=8 safe=0'
    assert is_complete(server, 2) and len(server.all(V1)) == 1
    publisher.do('put', 'time-slicing')
    assert publisher.until('ok') == 'ok devices=24 safe=0'
    assert is_complete(server, 3)


def test_a_taint_comes_and_goes_in_its_slice_alone(server, start):
    publisher = start()
    publisher.until('ok')
    publisher.do('taint', '2')
    publisher.until('ok')
    tainted = {d['name']: d['taints'] for spec in pool(server) for d in spec.get('devices', []) if d.get('taints')}
    assert set(tainted) == {'gpu-2', 'gpu-2-shared'}
    assert [(t['key'], t['value'], t['effect']) for t in tainted['gpu-2']] == [('gpu.warpshare.dev/xid', '79', 'NoSchedule')]
    publisher.do('taint')
    publisher.until('ok')
    assert not any(d.get('taints') for spec in pool(server) for d in spec.get('devices', []))
    assert is_complete(server, 1) and [verb for verb, _ in writes(server)] == ['create', 'create', 'update', 'update']


@pytest.mark.parametrize('off', [{'DRAConsumableCapacity'}, {'DRAPartitionableDevices'}], ids=str)
def test_without_a_gate_no_device_is_ever_promised_twice(server, start, off):
    server.serve_dra(off=off)
    assert start().until('ok') == 'ok devices=4 safe=1'
    assert names(server) == SAFE
    assert len(writes(server)) == 1  # the probe has shown it


def test_without_taints_what_is_tainted_is_not_there(server, start):
    server.serve_dra(off={'DRADeviceTaints'})
    publisher = start()
    publisher.until('ok')
    publisher.do('taint', '1')
    publisher.until('ok')
    assert names(server) == [name for name in FULL if not name.startswith('gpu-1')]


def test_a_server_that_is_upgraded_is_probed_again(server, start):
    server.serve_dra(minor=35, off={'DRAConsumableCapacity', 'DRAPartitionableDevices', 'DRADeviceTaints'})
    publisher = start()
    assert publisher.until('ok') == 'ok devices=4 safe=1'
    server.serve_dra(minor=36)
    server.fault('status', verb='watch', resource='resourceslices', code=500)
    server.order_watches('end')
    assert publisher.until('ok devices=8') == 'ok devices=8 safe=0'
    assert names(server) == FULL and is_complete(server)


@pytest.mark.parametrize('versions, minor, version', [
    (('v1', 'v1beta2', 'v1beta1'), 34, 'v1'), (('v1beta2', 'v1beta1'), 33, 'v1beta2'), (('v1beta1',), 32, 'v1beta1')], ids=str)
def test_the_newest_version_that_is_served_is_used(server, start, versions, minor, version):
    """With candidates, which need counters at any release."""
    server.serve_dra(*versions, minor=minor)
    collection = f'/apis/resource.k8s.io/{version}/resourceslices'
    publisher = start('a100-mig', 'dynamic-mig')
    publisher.until('ok')
    specs = [spec for spec in pool(server, collection) if 'sharedCounters' in spec]
    assert specs and all(spec['devices'] for spec in specs)
    assert {s['apiVersion'] for s in server.all(collection)} == {f'resource.k8s.io/{version}'}


@pytest.mark.parametrize('minor, patch, devices', [
    (34, 9, SHARED), (35, 6, SHARED), (36, 0, SHARED), (36, 1, SHARED), (36, 2, FULL), (36, 10, FULL), (37, 0, FULL)], ids=str)
def test_a_scheduler_that_forgets_shares_is_offered_one_form_of_each_gpu(server, start, minor, patch, devices):
    server.serve_dra(minor=minor, patch=patch)
    start().until('ok')
    assert names(server) == devices
    assert any('sharedCounters' in spec for spec in pool(server)) == (devices == FULL)


@pytest.mark.parametrize('version, devices', [
    ('v1.36.2+k3s1', FULL), ('v1.36.1+k3s1', SHARED), ('v1.36.1-gke.100', SHARED), ('v1.36.2-gke.1', FULL), ('v1.36.2-rc.0', SHARED),
    ('v1.37.0-alpha.1', SHARED), ('v1.37.0', FULL), ('v0.0.0-master+8e16b12f', SHARED), ('', SHARED), (None, SHARED)], ids=str)
def test_a_release_is_known_by_its_version_and_else_it_is_not_trusted(server, start, version, devices):
    server.serve_dra()
    server.discovery['/version']['gitVersion'] = version
    start().until('ok')
    assert names(server) == devices


def test_a_server_without_the_group_is_asked_again(server, start):
    found = server.discovery.pop('/apis/resource.k8s.io')
    publisher = start()
    assert '404' in publisher.until('error')
    server.discovery['/apis/resource.k8s.io'] = found
    publisher.until('ok')


@pytest.mark.parametrize('verb', ['create', 'update', 'delete'])
@pytest.mark.parametrize('fault', [
    {'action': 'status', 'code': 409}, {'action': 'status', 'code': 429, 'retry_after': 0}, {'action': 'status', 'code': 429},
    {'action': 'status', 'code': 500}, {'action': 'drop'}], ids=str)
def test_a_write_that_fails_is_done_again(server, start, verb, fault):
    publisher = start()
    publisher.until('ok')
    fault = server.fault(verb=verb, resource='resourceslices', times=2, **fault)
    publisher.do('put', 'no-whole')  # one slice less
    publisher.until('ok')
    publisher.do('put')
    publisher.until('ok devices=8')
    publisher.do('put', 'time-slicing')
    publisher.until('ok devices=12')
    assert fault.times == 0
    assert is_complete(server) and len(names(server)) == 12


def test_a_slice_that_is_refused_is_replaced_by_the_safe_layout(server, start, monkeypatch):
    check = resourceslices.check
    refused = []

    def strict(spec, minor=36):
        faults = check(spec, minor)
        if any(d['name'] == 'gpu-0-shared' for d in spec.get('devices', [])):
            refused.append(spec)
            faults.invalid('spec.devices[0]', 'gpu-0-shared', 'a rule of tomorrow')
        return faults

    monkeypatch.setattr(resourceslices, 'check', strict)
    assert start().until('ok') == 'ok devices=4 safe=1'
    assert len(refused) == 1 and names(server) == SAFE and is_complete(server)


def overheads(server):
    return {d['name']: d['nodeAllocatableResources'] for spec in pool(server) for d in spec.get('devices', []) if 'nodeAllocatableResources' in d}


def test_the_nodes_part_of_a_share_is_said_where_the_server_takes_it(server, start):
    server.serve_dra(minor=37, patch=0, on={'DRANodeAllocatableResources'})
    publisher = start('v100x4', 'overhead')
    assert publisher.until('ok') == 'ok devices=8 safe=0'
    said = {'memory': {'overhead': {'perPod': '300Mi'}}, 'cpu': {'overhead': {'perContainer': '250m'}}}
    assert overheads(server) == {name: said for name in SHARED} and resourceslices.check_pool(pool(server), 37) == []
    publisher.do('put', 'less-overhead')
    publisher.until('ok')
    assert {one['cpu']['overhead']['perContainer'] for one in overheads(server).values()} == {'150m'}


@pytest.mark.parametrize('minor, patch', [(36, 2), (37, 0)])
def test_where_the_server_drops_it_the_offer_is_the_same_without(server, start, minor, patch):
    server.serve_dra(minor=minor, patch=patch)
    publisher = start('v100x4', 'overhead')
    assert publisher.until('ok') == 'ok devices=8 safe=0'
    assert names(server) == FULL and overheads(server) == {} and is_complete(server)
    publisher.do('put', 'no-whole', 'overhead')
    assert publisher.until('ok') == 'ok devices=4 safe=0' and overheads(server) == {}


def test_an_overhead_that_is_refused_takes_no_form_away(server, start, monkeypatch):
    check = resourceslices.check

    def strict(spec, minor=36):
        faults = check(spec, minor)
        if any('nodeAllocatableResources' in d for d in spec.get('devices', [])):
            faults.invalid('spec.devices[0].nodeAllocatableResources', '', 'a rule of tomorrow')
        return faults

    monkeypatch.setattr(resourceslices, 'check', strict)
    server.serve_dra(minor=37, patch=0, on={'DRANodeAllocatableResources'})
    assert start('v100x4', 'overhead').until('ok') == 'ok devices=8 safe=0'
    assert names(server) == FULL and overheads(server) == {}


def test_fields_that_the_server_adds_are_not_fought(server, start, monkeypatch):
    drop = resourceslices.drop

    def add(spec, off):
        spec = drop(spec, off)
        for device in spec.get('devices', []):
            device['attributes']['added'] = {'bool': True}
        return spec

    monkeypatch.setattr(resourceslices, 'drop', add)
    publisher = start()
    publisher.until('ok')
    publisher.do('taint', '0')
    publisher.until('ok')
    assert [verb for verb, _ in writes(server)] == ['create', 'create', 'update']
    assert all('added' in d['attributes'] for spec in pool(server) for d in spec.get('devices', []))


def test_the_owner_is_the_node_as_it_is_now(server, start):
    publisher = start()
    publisher.until('ok')
    server.delete('/api/v1/nodes', 'n1')
    server.put('/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n1'}})
    uid = server.get('/api/v1/nodes', 'n1')['metadata']['uid']
    for slice_ in server.all(V1):  # the garbage collector
        server.delete(V1, slice_['metadata']['name'])
    server.wait_for(lambda: is_complete(server) and all(
        s['metadata']['ownerReferences'][0]['uid'] == uid for s in server.all(V1)))


def test_a_forgotten_version_makes_no_write(server, start):
    publisher = start()
    publisher.until('ok')
    server.fault('gone', verb='watch', resource='resourceslices')
    server.order_watches('end')
    server.wait_for(lambda: len(server.asked('list', 'resourceslices')) >= 2)
    publisher.do('taint', '0')
    publisher.until('ok')
    assert [verb for verb, _ in writes(server)] == ['create', 'create', 'update']
