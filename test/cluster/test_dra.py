# SPDX-License-Identifier: Apache-2.0
"""DRA on the simulated GPUs of one node: slices, whole GPUs, shares, and shares without a claim. In this order, as test_sharing.py."""
import time

import pytest

from churn import Churn, Relay, outcome
from pods import NAMESPACE

GPUS = 4
API = '/apis/resource.k8s.io/v1'


def template(kube, name, device_class, capacity=None, count=None):
    exactly = {'deviceClassName': f'{device_class}.gpu.warpshare.dev' if device_class else 'gpu.warpshare.dev'}
    if capacity:
        exactly['capacity'] = {'requests': capacity}
    if count:
        exactly['count'] = count
    path = f'{API}/namespaces/{NAMESPACE}/resourceclaimtemplates'
    if not kube.find(f'{path}/{name}'):
        kube.request('POST', path, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': name},
                                    'spec': {'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': exactly}]}}}})
    return {'gpu': name}


def devices(kube, node):
    """{name of a device: its slice's entry}, of our driver on the node."""
    return {device['name']: device for one in kube.items(f'{API}/resourceslices')
            if one['spec']['driver'] == 'gpu.warpshare.dev' and one['spec'].get('nodeName') == node for device in one['spec'].get('devices', [])}


def claims(kube):
    return kube.items(f'{API}/namespaces/{NAMESPACE}/resourceclaims')


def device_of(kube, pod):
    """The device that the pod's claim was given."""
    own, = (one for one in claims(kube) if one['metadata']['name'].startswith(f'{pod}-'))
    return own['status']['allocation']['devices']['results'][0]['device']


@pytest.fixture(scope='module', autouse=True)
def needs_dra(kube):
    if not kube.find(API):
        pytest.skip('this cluster has no resource.k8s.io/v1: Kubernetes 1.34 or newer has it')


def test_the_manifest_describes_each_gpu_whole_and_in_shares(warpshare, kube, note):
    warpshare.install('simulated-dra')
    kube.wait('ResourceSlices', lambda: len(devices(kube, warpshare.node)) >= 2 * GPUS)
    found = devices(kube, warpshare.node)
    assert sorted(found) == sorted([f'gpu-{unit}' for unit in range(GPUS)] + [f'gpu-{unit}-shared' for unit in range(GPUS)])
    shared = found['gpu-0-shared']
    assert shared.get('allowMultipleAllocations') is True and {'memory', 'threadPercentage', 'clients'} == set(shared['capacity'])
    note(f'{len(found)} devices; {kube.get("/version")["gitVersion"]}')


def test_a_claim_has_a_whole_gpu_and_gives_it_back(warpshare, pods, kube):
    told = pods.run('whole', claims=template(kube, 'whole', ''))
    assert told.get('NVIDIA_VISIBLE_DEVICES', '') in ('void', '') or 'GPU-' in told['NVIDIA_VISIBLE_DEVICES']
    assert device_of(kube, 'whole') in [f'gpu-{unit}' for unit in range(GPUS)]
    pods.delete('whole')
    kube.wait('the claim is gone', lambda: not claims(kube))
    kube.wait('the GPU is free', lambda: len(devices(kube, warpshare.node)) == 2 * GPUS)


def test_claims_of_different_size_share_a_gpu_with_their_limits(pods, kube):
    large = pods.run('large', claims=template(kube, 'large', 'shared', {'memory': '10Gi', 'threadPercentage': '30'}))
    small = pods.run('small', claims=template(kube, 'small', 'shared', {'memory': '2Gi', 'threadPercentage': '20'}))
    assert device_of(kube, 'large') == device_of(kube, 'small') == 'gpu-0-shared'
    assert large['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'].startswith('30') and small['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'].startswith('20')
    assert large['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=10240M' and small['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=2048M'
    assert pods.shell('large', 'echo get_server_list | PATH=/usr/lib/warpshare/mps-sim:$PATH nvidia-cuda-mps-control && echo answered'
                      ).endswith('answered\n')


def test_what_fits_on_no_gpu_waits(pods, kube, note):
    for number in range(GPUS):
        pods.run(f'most-{number}', claims=template(kube, 'most', 'shared', {'memory': '20Gi'}))
    pods.start('waits', claims=template(kube, 'most', 'shared', {'memory': '20Gi'}))
    said = kube.wait('the scheduler judges it', lambda: next(
        (one['message'] for one in pods.get('waits')['status'].get('conditions', []) if one['type'] == 'PodScheduled'
         and one['status'] == 'False'), None))
    note(said)
    pods.delete('most-2')
    pods.wait('waits', 'Running')
    assert device_of(kube, 'waits') == 'gpu-2-shared'


def test_a_pod_has_the_default_share_without_a_claim(pods, kube):
    told = pods.run('plain', {'nvidia.com/gpu.shared': 1})
    assert told['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'].startswith('10'), told
    assert pods.get('plain')['status'].get('extendedResourceClaimStatus'), 'another than the scheduler gave it the share'
    assert kube.kubectl('warpshare', 'why', 'plain', '-n', NAMESPACE).startswith(f'{NAMESPACE}/plain runs on ')


def test_kubectl_warpshare_shows_the_shares_of_claims(warpshare, pods, kube):
    pods.run('seen', claims=template(kube, 'large', 'shared', {'memory': '10Gi', 'threadPercentage': '30'}))
    shares = kube.kubectl('warpshare', 'shares', '-n', NAMESPACE)
    assert 'seen' in shares and '10.0Gi' in shares, shares
    assert f'{NAMESPACE}/seen' in kube.kubectl('warpshare', 'top', warpshare.node)


def failed_calls(kube):
    """What kubelet told of claims that it could not have prepared, or not at once: it tries again after a minute at the earliest."""
    return [event['message'] for event in kube.items(f'/api/v1/namespaces/{NAMESPACE}/events')
            if event['reason'] == 'FailedPrepareDynamicResources']


def test_rolling_updates_under_churn_fail_no_claim(warpshare, pods, kube, told, note):
    stays = template(kube, 'small', 'shared', {'memory': '2Gi', 'threadPercentage': '5'})
    pods.run('outlives', claims=stays)
    before = failed_calls(kube)
    with Churn(pods, {}, at_once=8, claims=stays) as churn:
        churn.wait_ran(2)
        for _ in range(3):
            kube.kubectl('-n', 'warpshare', 'rollout', 'restart', 'daemonset/warpshare-agent')
            kube.kubectl('-n', 'warpshare', 'rollout', 'status', 'daemonset/warpshare-agent', f'--timeout={told.timeout}s')
            churn.wait_ran(4)
    note(str(churn.tally))
    assert pods.get('outlives')['status']['phase'] == 'Running'
    assert not churn.tally.failed and not churn.tally.refused, churn.tally.reasons
    assert failed_calls(kube) == before
    assert len(devices(kube, warpshare.node)) == 2 * GPUS


def test_pods_without_grace_fail_no_claim_of_those_that_follow(warpshare, pods, kube, told, note):
    """The scheduler gives to the next claim at once what kubelet has not released yet: 117 of 254 Prepares have failed of that."""
    kinds = [template(kube, 'whole', ''), template(kube, 'most', 'shared', {'memory': '20Gi'}),
             template(kube, 'small', 'shared', {'memory': '2Gi', 'threadPercentage': '5'})]
    before = failed_calls(kube)
    relay = Relay(pods, kinds, 2 * GPUS)
    end = time.monotonic() + told.seconds
    kube.wait('pods run and are deleted', lambda: relay.turn() >= 4 * GPUS and time.monotonic() > end, told.seconds + told.timeout)
    kube.wait('no Prepare is under way', lambda: not any(outcome(pod) == 'starts' for pod in pods.all()))
    note(f"{relay.ran} pods ran; {warpshare.logs('agent').count('a DRA claim waits for what it was allocated')} Prepares waited")
    assert failed_calls(kube) == before


def test_nothing_is_left_after_the_uninstall(warpshare, pods, kube, note):
    pods.clear()
    kube.wait('no claims', lambda: not claims(kube))
    phase, said = warpshare.clean_node()
    assert phase == 'Succeeded', said
    warpshare.delete()
    kube.wait('everything is gone', lambda: (not warpshare.left(), str(warpshare.left())))
    note(f'{said.count("removed")} things removed on the node')
