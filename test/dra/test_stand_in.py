"""The stand-in for the API server, held against what a real one answered (test/fixtures/kube-apiserver-1.36)."""
import json
import os
import pathlib
import ssl
import urllib.error
import urllib.request

import pytest

from apiserver import ApiServer

FIXTURES = pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'test/fixtures/kube-apiserver-1.36'
V1 = '/apis/resource.k8s.io/v1'
CLAIMS = V1 + '/namespaces/default/resourceclaims'


def recorded(name):
    """(status, object) of a recorded answer."""
    head, _, body = (FIXTURES / f'{name}.http').read_bytes().partition(b'\r\n\r\n')
    return int(head.split()[1]), json.loads(body)


@pytest.fixture
def server(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        server.serve_dra()
        yield server


def ask(server, method, path, body=None, type_='application/json'):
    """(status, object) of an answer of the stand-in."""
    request = urllib.request.Request(server.url + path, method=method, data=json.dumps(body).encode() if body else None, headers={
        'Authorization': f'Bearer {server.token_file.read_text().strip()}', 'Content-Type': type_})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(
        context=ssl._create_unverified_context()))
    try:
        with opener.open(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


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


def test_devices_of_a_status_are_for_those_who_may_speak_for_the_driver(server):
    claim = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': 'small1-g-2lvxk'}}
    server.put(CLAIMS, claim)
    patch = {**claim, 'status': {'devices': [{'driver': 'gpu.warpshare.dev', 'pool': 'node1', 'device': 'gpu-0-shared'}]}}
    path = f'{CLAIMS}/small1-g-2lvxk/status?fieldManager=warpshare'
    status = {'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims/status'], 'verbs': ['patch']}
    driver = {'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims/driver'], 'verbs': ['associated-node:patch'],
              'resourceNames': ['gpu.warpshare.dev']}
    server.allow([status])
    code, refusal = ask(server, 'PATCH', path, patch, 'application/apply-patch+yaml')
    user = server.requests[-1].user
    expected = recorded('claim-status-apply-without-driver-rule')
    text = json.dumps(expected[1]).replace('system:serviceaccount:default:drasa', user)
    assert (code, refusal) == (expected[0], json.loads(text))
    server.allow([status, {**driver, 'resourceNames': ['gpu.nvidia.com']}])
    assert ask(server, 'PATCH', path, patch, 'application/apply-patch+yaml')[0] == 422
    server.allow([status, driver])
    code, answer = ask(server, 'PATCH', path, patch, 'application/apply-patch+yaml')
    assert code == 200 and answer['status']['devices'] == patch['status']['devices']
