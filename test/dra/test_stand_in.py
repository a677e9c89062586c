# SPDX-License-Identifier: Apache-2.0
"""The stand-in for the API server, held against what a real one answered (test/fixtures/kube-apiserver-1.36)."""
import json
import os
import pathlib
import ssl
import urllib.error
import urllib.request

import pytest

from apiserver import ApiServer
from apistore import Refused

FIXTURES = pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'test/fixtures'
GROUP = '/apis/resource.k8s.io'
V1 = GROUP + '/v1'
CLAIMS = V1 + '/namespaces/default/resourceclaims'
APPLY = 'application/apply-patch+yaml'


def recorded(name, peer='kube-apiserver-1.36'):
    """(status, object) of a recorded answer."""
    head, _, body = (FIXTURES / peer / f'{name}.http').read_bytes().partition(b'\r\n\r\n')
    return int(head.split()[1]), json.loads(body)


@pytest.fixture
def server(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        server.serve_dra()
        yield server


def ask(server, method, path, body=None, type_='application/json', accept=None):
    """(status, object) of an answer of the stand-in."""
    request = urllib.request.Request(server.url + path, method=method, data=json.dumps(body).encode() if body else None, headers={
        'Authorization': f'Bearer {server.token_file.read_text().strip()}', 'Content-Type': type_, 'Accept': accept or 'application/json'})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(
        context=ssl._create_unverified_context()))
    try:
        with opener.open(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error) if 'json' in error.headers['Content-Type'] else None


def slice_as_recorded():
    _, slice_ = recorded('slice-create')
    for key in ('uid', 'resourceVersion', 'generation', 'creationTimestamp', 'managedFields', 'generateName'):
        del slice_['metadata'][key]
    del slice_['spec']['devices'][0]['taints'][0]['timeAdded']
    return slice_


def without_times(spec):
    text = json.dumps(spec)
    for device in spec['devices']:
        for taint in device['taints']:
            text = text.replace(taint['timeAdded'], 'TIME')
    return json.loads(text)


def test_a_slice_is_kept_as_a_real_server_keeps_it(server):
    status, kept = recorded('slice-create')
    answer = ask(server, 'POST', V1 + '/resourceslices', slice_as_recorded())
    assert answer[0] == status
    assert without_times(answer[1]['spec']) == without_times(kept['spec'])
    assert answer[1]['metadata']['generation'] == kept['metadata']['generation'] == 1


def test_a_step_above_the_capacity_is_refused_in_the_same_words(server):
    status, refusal = recorded('slice-invalid-422')
    slice_ = slice_as_recorded()
    slice_['metadata']['name'] = refusal['details']['name']
    slice_['spec']['devices'][0]['capacity'] = {'memory': {'value': '1', 'requestPolicy': {
        'default': '1', 'validRange': {'min': '1', 'step': '1'}}}}
    assert ask(server, 'POST', V1 + '/resourceslices', slice_) == (status, refusal)


def test_a_change_of_what_is_gone_by_is_a_conflict_in_the_same_words(server):
    status, conflict = recorded('slice-replace-conflict')
    slice_ = slice_as_recorded()
    _, made = ask(server, 'POST', V1 + '/resourceslices', slice_)
    slice_['metadata']['resourceVersion'] = made['metadata']['resourceVersion']
    slice_['spec']['pool']['generation'] = 2
    path = f'{V1}/resourceslices/{slice_["metadata"]["name"]}'
    assert ask(server, 'PUT', path, slice_)[1]['metadata']['generation'] == 2
    answer = ask(server, 'PUT', path, slice_)
    assert answer[0] == status and answer[1]['reason'] == conflict['reason']


def test_what_is_immutable_stays(server):
    slice_ = slice_as_recorded()
    ask(server, 'POST', V1 + '/resourceslices', slice_)
    slice_['spec']['nodeName'] = 'other'
    status, answer = ask(server, 'PUT', f'{V1}/resourceslices/{slice_["metadata"]["name"]}', slice_)
    assert (status, answer['details']['causes'][0]['field']) == (422, 'spec.nodeName')


# ---- claims ----

NAME = 'small1-g-2lvxk'
STATUS = f'{CLAIMS}/{NAME}/status?fieldManager=warpshare'


def put_claim(server):
    """The recorded claim as the scheduler leaves it; returns the patch that its driver then applies."""
    _, claim = recorded('claim-get', 'dra-1.36')
    devices = claim['status'].pop('devices')
    server.put(CLAIMS, {**claim, 'metadata': {'name': NAME}})
    server.patch(CLAIMS, NAME, {'status': claim['status']}, 'kube-scheduler', 'status')
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': NAME}, 'status': {'devices': devices}}


def test_the_status_of_devices_is_applied_as_a_real_server_does(server):
    _, kept = recorded('claim-get', 'dra-1.36')
    patch = put_claim(server)
    for _ in range(2):
        code, answer = ask(server, 'PATCH', STATUS, patch, APPLY)
        assert code == 200 and (answer['spec'], answer['status']) == (kept['spec'], kept['status'])
    ours = [next(one['fieldsV1'] for one in claim['metadata']['managedFields'] if one['manager'] == 'warpshare')
            for claim in (answer, kept)]
    assert ours[0] == ours[1]


def test_what_a_driver_does_not_apply_again_goes_and_what_others_applied_stays(server):
    patch = put_claim(server)
    allocation = server.get(CLAIMS, NAME)['status']['allocation']
    other = {'driver': 'nic.example.com', 'pool': 'p', 'device': 'nic-0'}
    both = {**allocation, 'devices': {'results': [*allocation['devices']['results'], {'request': 'gpu', **other}]}}
    server.patch(CLAIMS, NAME, {'status': {'allocation': None, 'reservedFor': None}}, subresource='status')
    server.patch(CLAIMS, NAME, {'status': {'allocation': both}}, subresource='status')
    others = {**patch, 'status': {'devices': [other]}}
    ask(server, 'PATCH', STATUS.replace('warpshare', 'nic'), others, APPLY)
    ask(server, 'PATCH', STATUS, patch, APPLY)
    assert {device['device'] for device in server.get(CLAIMS, NAME)['status']['devices']} == {'gpu-0-shared', 'nic-0'}
    for status in ({'devices': []}, {}):
        ask(server, 'PATCH', STATUS, {**patch, 'status': status}, APPLY)
        assert server.get(CLAIMS, NAME)['status']['devices'] == [other]


def change(path, value):
    """A function that puts |value| there in the one device of a status."""
    def put(device):
        *way, last = path
        for step in way:
            device = device[step]
        device[last] = value
    return put


@pytest.mark.parametrize('fault, field, message', [
    (change(['device'], 'gpu-1-shared'), 'status.devices[0]', 'must be an allocated device in the claim'),
    (change(['shareID'], '15ebfed7-be35-49d4-b3d5-a749dcd593f9'), 'status.devices[0]', 'must be an allocated device in the claim'),
    (change(['shareID'], 'one'), 'status.devices[0].shareID', 'RFC 4122'),
    (change(['data'], {'text': 'x' * 10230}), 'status.devices[0].data', 'Too long: may not be more than 10240 bytes'),
    (change(['data'], []), 'status.devices[0].data', 'must be a valid JSON object'),
    (change(['more'], 1), 'status.devices[0]', 'unknown field'),
    (change(['conditions'], [{'type': f'T{i}', 'status': 'True', 'reason': 'R', 'lastTransitionTime': '2026-11-23T06:00:00Z'}
                             for i in range(9)]), 'status.devices[0].conditions', 'Too many: 9: must have at most 8 items'),
    (change(['conditions', 0, 'status'], 'yes'), 'status.devices[0].conditions[0].status', 'Unsupported value: "yes"'),
    (change(['conditions', 0, 'reason'], ''), 'status.devices[0].conditions[0].reason', 'Required value'),
    (change(['conditions', 0, 'reason'], 'not ready'), 'status.devices[0].conditions[0].reason', 'a condition reason must start'),
    (change(['conditions', 0, 'lastTransitionTime'], 'today'), 'status.devices[0].conditions[0].lastTransitionTime', 'Required value'),
    (change(['conditions', 0, 'message'], 'x' * 32769), 'status.devices[0].conditions[0].message', 'Too long'),
])
def test_a_status_that_a_real_server_would_refuse_is_refused(server, fault, field, message):
    patch = put_claim(server)
    fault(patch['status']['devices'][0])
    code, answer = ask(server, 'PATCH', STATUS, patch, APPLY)
    cause = answer['details']['causes'][0]
    assert (code, cause['field']) == (422, field) and message in cause['message']
    assert 'devices' not in server.get(CLAIMS, NAME)['status']


def test_the_most_data_is_kept(server):
    patch = put_claim(server)
    patch['status']['devices'][0]['data'] = {'text': 'x' * 10229}
    assert ask(server, 'PATCH', STATUS, patch, APPLY)[0] == 200


def test_a_claim_that_is_not_there_is_missed_in_the_same_words(server):
    assert ask(server, 'GET', f'{CLAIMS}/nonesuch') == recorded('claim-not-found', 'dra-1.36')


def test_each_served_version_returns_the_claim_and_an_unserved_one_does_not(server):
    put_claim(server)
    server.serve_dra('v1beta2', 'v1beta1', minor=33)
    codes = {version: ask(server, 'GET', f'{GROUP}/{version}/namespaces/default/resourceclaims/{NAME}')
             for version in ('v1beta2', 'v1beta1')}
    exactly = {'deviceClassName': 'shared.gpu.warpshare.dev', 'allocationMode': 'ExactCount', 'count': 1,
               'capacity': {'requests': {'memory': '10Gi', 'threadPercentage': '30'}}}
    assert codes['v1beta2'][1]['spec']['devices']['requests'] == [{'name': 'gpu', 'exactly': exactly}]
    assert codes['v1beta1'][1]['spec']['devices']['requests'] == [{'name': 'gpu', **exactly}]
    assert codes['v1beta1'][1]['apiVersion'] == 'resource.k8s.io/v1beta1'
    assert codes['v1beta1'][1]['status'] == codes['v1beta2'][1]['status']
    assert ask(server, 'GET', f'{CLAIMS}/{NAME}') == (404, None)


def test_an_allocation_does_not_change_and_takes_the_devices_status_with_it(server):
    patch = put_claim(server)
    ask(server, 'PATCH', STATUS, patch, APPLY)
    with pytest.raises(Refused, match='status.allocation: Invalid value: "…": field is immutable'):
        server.patch(CLAIMS, NAME, {'status': {'allocation': {'allocationTimestamp': '2026-11-23T06:09:25Z'}}}, subresource='status')
    with pytest.raises(Refused, match='spec: Invalid value: "…": field is immutable'):
        server.patch(CLAIMS, NAME, {'spec': {'devices': {'requests': []}}})
    server.patch(CLAIMS, NAME, {'status': {'allocation': None, 'reservedFor': None}}, subresource='status')
    assert server.get(CLAIMS, NAME)['status'] == {}


@pytest.mark.parametrize('spec, message', [
    ({'selectors': [{'cel': {'expression': ''}}]}, 'between 1 and 10240 bytes'),
    ({'extendedResourceName': 'gpu'}, 'an extended resource'),
    ({'extendedResourceName': 'node.kubernetes.io/gpu'}, 'an extended resource'),
    ({'config': [{'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {'text': 'x' * 10240}}}]}, 'may not be more than 10240 bytes'),
    ({'selector': []}, 'unknown field'),
], ids=str)
def test_a_class_that_a_real_server_would_refuse_is_refused(server, spec, message):
    with pytest.raises(Refused, match=message):
        server.put(V1 + '/deviceclasses', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': 'c'},
                                           'spec': spec})


def test_only_accounts_with_the_drivers_right_may_write_devices_of_a_status(server):
    patch, path = put_claim(server), STATUS
    status = {'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims/status'], 'verbs': ['patch']}
    driver = {'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims/driver'], 'verbs': ['associated-node:patch'],
              'resourceNames': ['gpu.warpshare.dev']}
    server.allow([status])
    code, refusal = ask(server, 'PATCH', path, patch, APPLY)
    user = server.requests[-1].user
    expected = recorded('claim-status-apply-without-driver-rule')
    text = json.dumps(expected[1]).replace('system:serviceaccount:default:drasa', user)
    assert (code, refusal) == (expected[0], json.loads(text))
    server.allow([status, {**driver, 'resourceNames': ['gpu.nvidia.com']}])
    assert ask(server, 'PATCH', path, patch, APPLY)[0] == 422
    server.allow([status, driver])
    code, answer = ask(server, 'PATCH', path, patch, APPLY)
    assert code == 200 and answer['status']['devices'] == patch['status']['devices']


# ---- forms of an answer, and pages of a list ----

METADATA = 'application/json;as={};g=meta.k8s.io;v=v1,application/json'


@pytest.fixture(name='pods')
def make_pods(server):
    for name in 'abc':
        server.put('/api/v1/namespaces/default/pods', {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': {'nodeName': 'n1'}})
    return server


def test_a_list_of_metadata_has_nothing_else_of_its_objects(pods):
    status, answer = ask(pods, 'GET', '/api/v1/pods?limit=2', accept=METADATA.format('PartialObjectMetadataList'))
    assert (status, answer['kind'], answer['apiVersion']) == (200, 'PartialObjectMetadataList', 'meta.k8s.io/v1')
    assert [(i['kind'], i['metadata']['name'], i.get('spec')) for i in answer['items']] == [
        ('PartialObjectMetadata', 'a', None), ('PartialObjectMetadata', 'b', None)]
    assert (answer['metadata']['remainingItemCount'], bool(answer['metadata']['continue'])) == (1, True)


@pytest.mark.parametrize('form, path, status, kind', [
    ('PartialObjectMetadata', '/api/v1/namespaces/default/pods/a', 200, 'PartialObjectMetadata'),
    ('PartialObjectMetadata', '/api/v1/pods', 406, 'Status'),
    ('PartialObjectMetadataList', '/api/v1/namespaces/default/pods/a', 406, 'Status'),
    ('Unknown', '/api/v1/namespaces/default/pods/a', 200, 'Pod')])
def test_a_form_that_does_not_fit_is_refused_and_one_that_is_not_known_is_passed_over(pods, form, path, status, kind):
    found, answer = ask(pods, 'GET', path, accept=METADATA.format(form))
    assert (found, answer['kind']) == (status, kind)


def test_a_page_goes_on_where_the_one_before_ended_whatever_its_size_and_form(pods):
    _, first = ask(pods, 'GET', '/api/v1/pods?limit=1')
    token = first['metadata']['continue']
    for limit, accept in ((1, None), (2, None), (1, METADATA.format('PartialObjectMetadataList'))):
        _, answer = ask(pods, 'GET', f'/api/v1/pods?limit={limit}&continue={token}', accept=accept)
        assert [i['metadata']['name'] for i in answer['items']] == ['b', 'c'][:limit]
        assert answer['metadata']['resourceVersion'] == first['metadata']['resourceVersion']
    assert ask(pods, 'GET', '/api/v1/pods?limit=1&continue=nonsense')[0] == 400


def test_how_many_more_fit_a_selector_is_not_said(pods):
    assert 'remainingItemCount' not in ask(pods, 'GET', '/api/v1/pods?limit=1&fieldSelector=spec.nodeName=n1')[1]['metadata']
