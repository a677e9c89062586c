# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh --remove, with every branch taken."""
import pytest

from answers import LABEL, NODE, REPO, SETUP, badly, labels, well


def test_remove_takes_all_of_it_back(cluster, setup):
    cluster.add_node('other', {'nvidia.com/gpu.present': 'true'})
    well(setup('20', 'all', REPO))
    out = well(setup('--remove', 'all'))
    assert labels(cluster) == labels(cluster, 'other') == {}
    assert cluster.runtime.running == {}
    for kind in ('DaemonSet', 'ConfigMap', 'ServiceAccount', 'ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding', 'Pod'):
        assert cluster.all(kind) == [], kind
    assert not cluster.get('Namespace', 'warpshare')
    assert 'gpu-node-1: nothing of Warpshare is left:\n    WHAT  WHERE  OUTCOME\n    MPS   /mps   removed\n' in out
    assert [pod['spec']['nodeName'] for pod in cluster.runtime.started] == [NODE, 'other']


def test_what_is_left_is_looked_for_below_the_root_of_kubelet_that_was_set_up(cluster, setup):
    well(setup('--kubelet-root', '/data/kubelet', '20', NODE, REPO))
    well(setup('--remove', NODE))
    spec, = [pod['spec'] for pod in cluster.runtime.started]
    assert [one['hostPath']['path'] for one in spec['volumes'] if 'kubelet' in one.get('hostPath', {}).get('path', '')] == [
        '/var/lib/kubelet/device-plugins', '/data/kubelet/pod-resources']
    assert {'name': 'WARPSHARE_KUBELET_ROOT', 'value': '/data/kubelet'} in spec['containers'][0]['env']


def test_one_node_is_removed_and_what_others_need_stays(cluster, setup):
    cluster.add_node('other', {'nvidia.com/gpu.present': 'true'})
    well(setup('20', 'all', REPO))
    assert 'still set up: other; so what was installed stays' in well(setup('--remove', NODE))
    assert labels(cluster) == {} and labels(cluster, 'other') != {}
    assert set(cluster.runtime.running) == {('other', 'agent'), ('other', 'mps')}
    well(setup('--remove', 'other'))
    assert not cluster.get('Namespace', 'warpshare')


def test_remove_may_be_repeated(cluster, setup):
    well(setup('20', NODE, REPO))
    well(setup('--remove', NODE))
    assert 'nothing is installed' in well(setup('--remove', NODE))
    assert 'nothing is installed' in well(setup('--remove', 'all'))


def test_a_configuration_of_before_comes_back(cluster, setup):
    cluster.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'theirs'}}})
    well(setup('20', NODE, REPO))
    well(setup('10', NODE, REPO))
    assert labels(cluster)[LABEL] == 'mps.aggregate.10'
    well(setup('--remove', NODE))
    assert labels(cluster) == {LABEL: 'theirs'}
    assert 'setup.warpshare.dev/config-before' not in cluster.get('Node', NODE)['metadata']['annotations']


def test_a_configuration_that_was_set_since_stays(cluster, setup):
    well(setup('20', NODE, REPO))
    cluster.runtime.is_stuck = True
    cluster.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'theirs'}}})
    well(setup('--remove', NODE))
    assert labels(cluster) == {LABEL: 'theirs'}


def test_a_namespace_that_was_there_stays(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    well(setup('20', NODE, REPO))
    well(setup('--remove', 'all'))
    assert cluster.get('Namespace', 'warpshare') and cluster.all('DaemonSet') == cluster.all('ConfigMap') == []


def test_the_pod_that_cleans_up_has_image_secret_and_runtime_of_the_supervisor(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    cluster.apply({'kind': 'Secret', 'metadata': {'name': 'registry', 'namespace': 'warpshare'}})
    well(setup('--runtime-class', 'nvidia', '2', NODE, REPO, 'v7', 'registry'))
    well(setup('--remove', NODE))
    spec, = (pod['spec'] for pod in cluster.runtime.started)
    assert (spec['containers'][0]['image'], spec['imagePullSecrets'], spec['runtimeClassName'], spec['nodeName']) == (
        f'{REPO}:v7', [{'name': 'registry'}], 'nvidia', NODE)
    assert spec['containers'][0]['command'] == ['warpshare', 'uninstall']


def test_the_pod_that_cleans_up_names_no_secret_and_runtime_without_one(cluster, setup):
    well(setup('--namespace', 'gpu', '2', NODE, REPO))
    well(setup('--namespace', 'gpu', '--remove', NODE))
    pod, = cluster.runtime.started
    assert pod['metadata']['namespace'] == 'gpu'
    assert 'imagePullSecrets' not in pod['spec'] and 'runtimeClassName' not in pod['spec']


def test_a_dry_run_of_remove_changes_nothing(cluster, setup):
    well(setup('20', NODE, REPO))
    before = cluster.changes()
    out = well(setup('--dry-run', '--remove', 'all'))
    assert f'would run: kubectl label node {NODE} --overwrite {SETUP}- {LABEL}-\n' in out
    assert 'would delete what ' in out and ', the namespace warpshare\n' in out
    assert cluster.changes() == before


def test_a_dry_run_of_remove_knows_what_others_need(cluster, setup):
    cluster.add_node('other', {'nvidia.com/gpu.present': 'true'})
    well(setup('20', 'all', REPO))
    assert 'still set up: other' in well(setup('--dry-run', '--remove', NODE))


def test_pods_that_have_a_gpu_are_in_the_way_unless_forced(cluster, setup):
    well(setup('20', NODE, REPO))
    cluster.add_pod('training', NODE, limits={'nvidia.com/gpu': '7'})
    cluster.add_pod('web', NODE, limits={'memory': '1Gi'})
    before = cluster.changes()
    said = badly(setup('--remove', 'all'))
    assert "pods on node 'gpu-node-1' have GPUs, and lose them: default/training. End them first" in said
    assert cluster.changes() == before
    assert 'warning: pods lose their GPU: default/training\n' in well(setup('--force', '--remove', 'all'))


def test_pods_that_have_ended_are_not_in_the_way(cluster, setup):
    well(setup('20', NODE, REPO))
    cluster.add_pod('training', NODE, limits={'nvidia.com/gpu': '7'})
    cluster.set_status(cluster.get('Pod', 'training', 'default'), phase='Succeeded')
    well(setup('--remove', 'all'))


def test_a_pod_that_does_not_end_keeps_the_rest_for_another_run(cluster, setup):
    well(setup('20', NODE, REPO))
    cluster.runtime.pods_stay = True
    said = badly(setup('--timeout', '0', '--remove', 'all'))
    assert 'gpu-node-1: still there after 0 s: warpshare-agent-gpu-node-1' in said and 'what was installed stays' in said
    assert cluster.get('DaemonSet', 'warpshare-mps')


@pytest.mark.parametrize('phase, words', [
    ('Failed', 'gpu-node-1: something is left:\n    WHAT'),
    ('Pending', "gpu-node-1: not known what is left: pod warpshare-uninstall-gpu-node-1 is 'Pending' after 0 s"),
])
def test_what_is_left_on_the_node_is_listed_and_the_rest_stays(cluster, setup, phase, words):
    well(setup('20', NODE, REPO))
    cluster.runtime.phase = phase
    said = badly(setup('--timeout', '0', '--remove', 'all'))
    assert words in said and 'so that this can be run again' in said
    assert not cluster.get('Pod', 'warpshare-uninstall-gpu-node-1') and cluster.get('Namespace', 'warpshare')


@pytest.mark.parametrize('pattern', ['label node', 'annotate node', 'get pods -l app', 'apply -f', 'delete configmap', 'delete namespace'])
def test_a_cluster_that_does_not_answer_fails_the_removal_which_may_be_repeated(cluster, setup, pattern):
    cluster.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'theirs'}}})
    well(setup('20', NODE, REPO))
    cluster.fail(pattern, 'no connection')
    assert 'no connection' in badly(setup('--remove', NODE))
    well(setup('--remove', NODE))
    assert not cluster.get('Namespace', 'warpshare') and labels(cluster) == {LABEL: 'theirs'}
