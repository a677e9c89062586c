# SPDX-License-Identifier: Apache-2.0
"""The parts of the suite that need no cluster: what it is told, how pods are counted, and what it calls left behind."""
import os

import pytest

from churn import Tally, outcome
from settings import Wrong, settings
from table import sentence, table
from warpshare import counts, own_marks

SOURCE = os.environ['WARPSHARE_SOURCE']


def pod(phase=None, node=None, reason=None, message=None, exit_code=None):
    status = {key: value for key, value in (('phase', phase), ('reason', reason), ('message', message)) if value}
    if exit_code is not None:
        status['containerStatuses'] = [{'state': {'terminated': {'exitCode': exit_code, 'reason': 'Error'}}}]
    return {'metadata': {'name': 'p'}, 'spec': {'nodeName': node} if node else {}, 'status': status}


# ---- what it is told ----

def test_without_a_cluster_of_its_own_variable_nothing_is_used():
    assert settings({}, SOURCE) is None
    assert settings({'KUBECONFIG': '/etc/hostname', 'WARPSHARE_CLUSTER_NODE': 'n1'}, SOURCE) is None


def test_a_cluster_is_one_file_and_the_image_is_by_default_the_one_of_this_version(tmp_path):
    (tmp_path / 'config').write_text('')
    told = settings({'WARPSHARE_CLUSTER_KUBECONFIG': str(tmp_path / 'config'), 'WARPSHARE_CLUSTER_SECONDS': '90'}, SOURCE)
    assert told.image.startswith('warpshare:') and told.image.count('.') == 2
    assert (told.seconds, told.timeout, told.node, told.nvidia_image) == (90, 180, '', '')


@pytest.mark.parametrize('name, value, said', [
    ('KUBECONFIG', '/nothing/here', "WARPSHARE_CLUSTER_KUBECONFIG: '/nothing/here' is no file; it takes one kubeconfig, not a list"),
    ('SECONDS', '0', "WARPSHARE_CLUSTER_SECONDS: '0', must be a whole number of seconds from 1 to 99999"),
    ('TIMEOUT', '3m', "WARPSHARE_CLUSTER_TIMEOUT: '3m', must be a whole number of seconds from 1 to 99999")])
def test_a_variable_that_cannot_be_used_is_named(name, value, said):
    with pytest.raises(Wrong, match='^' + said.replace('(', r'\(') + '$'):
        settings({'WARPSHARE_CLUSTER_KUBECONFIG': __file__, f'WARPSHARE_CLUSTER_{name}': value}, SOURCE)


def test_a_misspelt_variable_is_not_ignored():
    with pytest.raises(Wrong, match='^WARPSHARE_CLUSTER_KUBECONFG: no variable of this suite'):
        settings({'WARPSHARE_CLUSTER_KUBECONFG': 'x'}, SOURCE)


# ---- how pods are counted ----

@pytest.mark.parametrize('one, expected', [
    (pod(), 'waits'), (pod('Pending'), 'waits'), (pod('Pending', 'n1'), 'starts'), (pod('Running', 'n1'), 'runs'), (pod('Succeeded', 'n1'), 'ran'),
    (pod('Failed', 'n1', 'UnexpectedAdmissionError', 'no'), 'refused'), (pod('Failed', 'n1', 'OutOfnvidia.com/gpu', 'no'), 'refused'),
    (pod('Failed', 'n1', 'Evicted', 'no'), 'failed'), (pod('Failed', 'n1', exit_code=1), 'failed')])
def test_a_pod_is_refused_only_if_kubelet_did_not_admit_it(one, expected):
    assert outcome(one) == expected


def test_each_pod_that_has_ended_is_counted_with_the_reason():
    tally = Tally()
    for one in (pod('Succeeded', 'n1'), pod('Failed', 'n1', 'UnexpectedAdmissionError', 'Allocate failed'), pod('Failed', 'n1', exit_code=3)):
        assert tally.count(one)
    assert not tally.count(pod('Running', 'n1'))
    assert (tally.ran, tally.refused, tally.failed) == (1, 1, 1)
    assert tally.reasons == ['p: UnexpectedAdmissionError: Allocate failed', 'p: Error, exit code 3: ']
    assert str(tally) == '1 pods ran, 1 refused, 1 failed'


# ---- what it sees of a node ----

def test_a_resource_with_a_count_of_0_is_none():
    node = {'status': {'allocatable': {'cpu': '4', 'nvidia.com/gpu': '0', 'nvidia.com/gpu0': '4', 'example.com/gpu': '1'}}}
    assert counts(node) == {'nvidia.com/gpu0': 4}


def test_what_warpshare_puts_on_a_node_is_recognised_and_nothing_else():
    node = {'metadata': {'labels': {'kubernetes.io/hostname': 'n1', 'nvidia.com/gpu.present': 'true', 'nvidia.com/gpu.count': '4'},
                         'annotations': {'warpshare.dev/config': 'default', 'node.alpha.kubernetes.io/ttl': '0'}},
            'spec': {'taints': [{'key': 'warpshare.io/not-ready'}, {'key': 'other'}]},
            'status': {'conditions': [{'type': 'Ready'}, {'type': 'GPUSharingReady'}]}}
    assert own_marks(node) == ['label nvidia.com/gpu.count', 'annotation warpshare.dev/config', 'taint warpshare.io/not-ready',
                               'condition GPUSharingReady']


# ---- the table ----

def test_a_line_has_the_test_as_a_sentence():
    assert sentence('test_a_kill_costs_pods[its container]') == 'a kill costs pods: its container'
    assert table([('a', 'passed', 12.34, ['x', 'y']), ('longer', 'failed', 1, [])]) == [
        'WHAT    OUTCOME  SECONDS  NOTES', 'a       passed      12.3  x; y', 'longer  failed       1.0']
