# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh, with every branch taken."""
import re

import pytest
import yaml

from answers import LABEL, NODE, REPO, SETUP, badly, labels, well


NO_RESERVE = ('reserve: none: all replicas are advertised, so a pod that asks for several may be refused on a node with several GPUs, where none '
              'has so many free. --max-per-request K bounds what is asked for, --strict advertises fewer and refuses none')


def mps(cluster, name):
    """What the agent gets."""
    return yaml.safe_load(cluster.get('ConfigMap', 'warpshare-setup')['data'][name])['sharing']['mps']


# ---- what is made ----

def test_what_is_made_can_be_printed_before_without_a_cluster(cluster, setup):
    """So that plan can read it (test/helm/test_config.py)."""
    printed = yaml.safe_load(well(setup('--print', '--strict', '20')))
    assert cluster.commands == []
    well(setup('--strict', '20', NODE, REPO))
    assert cluster.get('ConfigMap', 'warpshare-setup')['data'] == printed['data']


def test_aggregate_counts_all_replicas_of_the_node(cluster, setup):
    out = well(setup('20', 'aggregate', NODE, REPO))
    assert out.splitlines()[-2] == 'gpu-node-1: nvidia.com/gpu=80'
    assert out.splitlines()[-1] == NO_RESERVE
    assert labels(cluster) == {LABEL: 'mps.aggregate.20', SETUP: 'true'}
    assert mps(cluster, 'mps.aggregate.20') == {
        'scope': 'aggregate', 'provisioning': 'weighted', 'reserve': 'none', 'memoryReserve': 0,
        'resources': [{'name': 'nvidia.com/gpu', 'replicas': 20}]}


def test_individual_counts_the_replicas_of_each_gpu_and_loses_none(cluster, setup):
    out = well(setup('20', 'individual', NODE, REPO))
    assert out.endswith('gpu-node-1: nvidia.com/gpu0=20, nvidia.com/gpu1=20, nvidia.com/gpu2=20, nvidia.com/gpu3=20\n')
    assert mps(cluster, 'mps.individual.20') == {
        'scope': 'individual', 'provisioning': 'weighted', 'memoryReserve': 0,
        'resources': [{'name': 'nvidia.com/gpu', 'replicas': 20}]}


def test_strict_reserves_what_keeps_every_request_on_one_gpu(cluster, setup):
    out = well(setup('--strict', '20', NODE, REPO))
    assert out.splitlines()[-2:] == [
        'gpu-node-1: nvidia.com/gpu=53',
        'reserve: strict: every request for up to 10 of 20 replicas finds one GPU with room; the rest is reserved, 27 of 80 on gpu-node-1. '
        'A smaller --max-per-request reserves less']
    assert labels(cluster)[LABEL] == 'mps.aggregate.20.strict'
    assert mps(cluster, 'mps.aggregate.20.strict')['reserve'] == 'strict'


@pytest.mark.parametrize('options, name, expected, last', [
    (['--max-per-request', '5'], 'mps.aggregate.20.max-5', 80, 'no container may ask for more than 5 of 20 replicas. '),
    (['--strict', '--max-per-request', '5'], 'mps.aggregate.20.strict.max-5', 68, 'reserve: strict: every request for up to 5 of 20 replicas '),
    (['--strict', '--max-per-request', '1'], 'mps.aggregate.20.strict.max-1', 80, 'reserve: strict: every request for up to 1 of 20 '),
])
def test_the_largest_request_can_be_said(cluster, setup, options, name, expected, last):
    out = well(setup(*options, '20', NODE, REPO))
    assert f'gpu-node-1: nvidia.com/gpu={expected}\n' in out and last in out.splitlines()[-1]
    assert labels(cluster)[LABEL] == name and mps(cluster, name)['maxPerRequest'] == int(options[-1])
    # Another node's run leaves the configuration as it is.
    cluster.add_node('other')
    before = cluster.get('ConfigMap', 'warpshare-setup')['data'][name]
    well(setup('--max-per-request', '2', '4', 'individual', 'other', REPO))
    after = cluster.get('ConfigMap', 'warpshare-setup')['data']
    assert after[name] == before and set(after) == {name, 'mps.individual.4.max-2'}


def test_aggregate_is_what_is_meant_without_a_word(cluster, setup):
    well(setup('3', NODE, REPO))
    assert labels(cluster)[LABEL] == 'mps.aggregate.3'


def test_image_tag_and_secret_are_those_of_the_command_line(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    cluster.apply({'kind': 'Secret', 'metadata': {'name': 'registry', 'namespace': 'warpshare'}})
    well(setup('2', NODE, REPO, 'v7', 'registry', PLUGIN_IMAGE_REPO='other', PLUGIN_IMAGE_TAG='v1', IMAGE_PULL_SECRET_NAME='none'))
    for name in ('warpshare-agent', 'warpshare-mps'):
        spec = cluster.get('DaemonSet', name)['spec']['template']['spec']
        assert {one['image'] for one in spec['containers'] + spec.get('initContainers', [])} == {f'{REPO}:v7'}
        assert spec['imagePullSecrets'] == [{'name': 'registry'}]


def test_image_tag_and_secret_may_come_from_the_environment(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    cluster.apply({'kind': 'Secret', 'metadata': {'name': 'registry', 'namespace': 'warpshare'}})
    well(setup('2', NODE, PLUGIN_IMAGE_REPO=REPO, PLUGIN_IMAGE_TAG='v7', IMAGE_PULL_SECRET_NAME='registry'))
    spec = cluster.get('DaemonSet', 'warpshare-agent')['spec']['template']['spec']
    assert spec['containers'][0]['image'] == f'{REPO}:v7' and spec['imagePullSecrets'] == [{'name': 'registry'}]


def test_the_tag_is_that_of_the_manifest_and_no_secret_is_named_without_one(cluster, setup):
    well(setup('2', NODE, REPO))
    spec = cluster.get('DaemonSet', 'warpshare-mps')['spec']['template']['spec']
    assert re.fullmatch(re.escape(REPO) + r':\d+\.\d+\.\d+', spec['containers'][0]['image'])
    assert 'imagePullSecrets' not in spec and 'runtimeClassName' not in spec


def test_another_namespace_and_runtime_class_reach_every_object(cluster, setup):
    well(setup('--namespace', 'gpu', '--runtime-class', 'nvidia', '2', NODE, REPO))
    assert cluster.get('DaemonSet', 'warpshare-mps', 'gpu')['spec']['template']['spec']['runtimeClassName'] == 'nvidia'
    assert not cluster.get('Namespace', 'warpshare')
    kinds = ('DaemonSet', 'ConfigMap', 'ClusterRoleBinding', 'RoleBinding', 'ValidatingAdmissionPolicy')
    text = yaml.safe_dump([one for kind in kinds for one in cluster.all(kind)], width=1000)
    assert 'namespace: warpshare' not in text and 'serviceaccount:gpu:warpshare"' in text


def test_another_root_of_kubelet_is_that_of_all_but_the_device_plugins(cluster, setup):
    well(setup('--kubelet-root', '/var/lib/k0s/kubelet', '2', NODE, REPO))
    spec = cluster.get('DaemonSet', 'warpshare-agent')['spec']['template']['spec']
    paths = {one['name']: one['hostPath']['path'] for one in spec['volumes'] if 'kubelet' in one.get('hostPath', {}).get('path', '')}
    assert paths == {'device-plugins': '/var/lib/kubelet/device-plugins', 'pod-resources': '/var/lib/k0s/kubelet/pod-resources',
                     'pods-api': '/var/lib/k0s/kubelet/pods-api'}
    container, = spec['containers']
    assert paths.items() <= {one['name']: one['mountPath'] for one in container['volumeMounts']}.items()
    assert {'name': 'WARPSHARE_KUBELET_ROOT', 'value': '/var/lib/k0s/kubelet'} in container['env']


@pytest.mark.parametrize('root', ['kubelet', '/var/lib/kubelet/', '/', '/a"b'])
def test_what_is_no_root_of_kubelet_is_refused(setup, root):
    assert f"'{root}' is no root of kubelet" in badly(setup('--kubelet-root', root, '2', NODE, REPO), 2)


def test_a_cluster_that_knows_no_admission_policies_gets_everything_else(cluster, setup):
    cluster.fail('get validatingadmissionpolicies', 'error: the server doesn\'t have a resource type "validatingadmissionpolicies"')
    well(setup('2', NODE, REPO))
    assert cluster.all('ClusterRole') and cluster.all('DaemonSet')
    assert not cluster.all('ValidatingAdmissionPolicy') + cluster.all('ValidatingAdmissionPolicyBinding')


DIGEST = 'sha256:' + '0123456789abcdef' * 4


@pytest.mark.parametrize('words, image, secret', [
    ([f'{REPO}:v7'], f'{REPO}:v7', None),
    ([f'{REPO}:v7', 'registry'], f'{REPO}:v7', 'registry'),
    ([f'{REPO}@{DIGEST}'], f'{REPO}@{DIGEST}', None),
    ([f'{REPO}@{DIGEST}', 'registry'], f'{REPO}@{DIGEST}', 'registry'),
    ([f'{REPO}:v7@{DIGEST}', 'registry'], f'{REPO}:v7@{DIGEST}', 'registry'),
    (['localhost:5000/warpshare', 'v7', 'registry'], 'localhost:5000/warpshare:v7', 'registry'),
    (['Registry.example.com:5000/warpshare:v7'], 'Registry.example.com:5000/warpshare:v7', None),
    (['warpshare:latest', 'registry'], 'warpshare:latest', 'registry'),
])
def test_an_image_may_have_its_tag_or_digest_with_it(cluster, setup, words, image, secret):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    cluster.apply({'kind': 'Secret', 'metadata': {'name': 'registry', 'namespace': 'warpshare'}})
    well(setup('2', NODE, *words, PLUGIN_IMAGE_TAG='' if words[0].startswith('localhost') else 'of-the-environment'))
    for name in ('warpshare-agent', 'warpshare-mps'):
        spec = cluster.get('DaemonSet', name)['spec']['template']['spec']
        assert {one['image'] for one in spec['containers'] + spec.get('initContainers', [])} == {image}
        assert spec.get('imagePullSecrets') == ([{'name': secret}] if secret else None)


def test_the_image_of_the_environment_may_have_a_tag_too(cluster, setup):
    well(setup('2', NODE, PLUGIN_IMAGE_REPO=f'{REPO}:v7', PLUGIN_IMAGE_TAG='v1'))
    assert cluster.get('DaemonSet', 'warpshare-agent')['spec']['template']['spec']['containers'][0]['image'] == f'{REPO}:v7'


def test_all_means_every_node_that_has_a_gpu_or_was_set_up(cluster, setup):
    by_nfd = {'as-nvidia-sets-it': '10de', 'for-data-centres': '0302_10de', 'with-a-display': '0300_10de'}
    for name, device in by_nfd.items():
        cluster.add_node(name, {f'feature.node.kubernetes.io/pci-{device}.present': 'true'})
    cluster.add_node('without')
    out = well(setup('5', 'all', REPO))
    for name in (NODE, *by_nfd):
        assert labels(cluster, name) == {LABEL: 'mps.aggregate.5', SETUP: 'true'} and f'{name}: nvidia.com/gpu=20\n' in out
    assert labels(cluster, 'without') == {}


def test_a_second_run_changes_nothing(cluster, setup):
    well(setup('20', NODE, REPO))
    out = well(setup('20', NODE, REPO))
    assert 'created' not in out and 'configured' not in out and out.count('unchanged') >= 8


def test_other_replicas_are_waited_for_until_the_agent_has_them(cluster, setup):
    cluster.add_node('other', {'nvidia.com/gpu.present': 'true'})
    well(setup('20', 'all', REPO))
    assert 'nvidia.com/gpu3=10\n' in well(setup('10', 'individual', NODE, REPO))
    # the other node's configuration stays
    assert set(cluster.get('ConfigMap', 'warpshare-setup')['data']) == {'mps.aggregate.20', 'mps.individual.10'}
    assert labels(cluster, 'other')[LABEL] == 'mps.aggregate.20'


def test_a_supervisor_with_the_old_image_is_reported_and_left(cluster, setup):
    well(setup('2', NODE, REPO, 'v1'))
    out = well(setup('2', NODE, REPO, 'v2'))
    assert f'gpu-node-1: the MPS supervisor still is {REPO}:v1.' in out and 'delete pod warpshare-mps-gpu-node-1' in out
    assert cluster.runtime.running[NODE, 'mps']['spec']['containers'][0]['image'] == f'{REPO}:v1'
    assert cluster.runtime.running[NODE, 'agent']['spec']['containers'][0]['image'] == f'{REPO}:v2'


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(cluster, setup):
    out = well(setup('--dry-run', '20', NODE, REPO))
    assert 'daemonset.apps/warpshare-mps created (dry run)\n' in out and 'configmap/warpshare-setup created (dry run)\n' in out
    assert f'would run: kubectl label node {NODE} --overwrite {SETUP}=true {LABEL}=mps.aggregate.20\n' in out
    assert cluster.changes() == []


def test_without_waiting_it_ends_at_once(cluster, setup):
    cluster.runtime.is_stuck = True
    assert 'waiting' not in well(setup('--no-wait', '20', NODE, REPO))


def test_a_namespace_that_was_there_is_used_and_not_changed(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    assert "namespace 'warpshare' was there already" in well(setup('20', NODE, REPO))
    assert 'labels' not in cluster.get('Namespace', 'warpshare')['metadata']


# ---- what is in the way ----

@pytest.mark.parametrize('arguments, words', [
    ((), "replicas and a node, or 'all', are needed"),
    (('20',), 'replicas and a node'),
    (('20', 'aggregate'), "a node, or 'all', is needed"),
    (('0', NODE, REPO), "replicas '0': a number from 1 to 60"),
    (('61', NODE, REPO), "replicas '61'"),
    (('x', NODE, REPO), "replicas 'x'"),
    (('20', NODE), 'an image repository is needed, or PLUGIN_IMAGE_REPO'),
    (('20', NODE, 'a b'), "'a b:"),
    (('20', NODE, 'Mine/warpshare'), "'Mine/warpshare:"),
    (('20', NODE, 'https://registry.example.com/warpshare'), 'is no name of an image'),
    (('20', NODE, REPO, 'v:1'), f"'{REPO}:v:1' is no name of an image"),
    (('20', NODE, f'{REPO}@sha256:12'), 'is no name of an image'),
    (('20', NODE, f'{REPO}:v1', 'v2', 'registry'), f"'{REPO}:v1' has a tag already, so 'registry' is one word too many"),
    (('20', NODE, f'{REPO}:v1', 'V2'), "'V2' is no name of a secret"),
    (('--max-per-request', '0', '20', NODE, REPO), "'0' as the largest request: a number from 1 to 20"),
    (('--max-per-request', '21', '20', NODE, REPO), "'21' as the largest request: a number from 1 to 20"),
    (('--max-per-request',), '--max-per-request needs a value'),
    (('--strict', '20', 'individual', NODE, REPO), 'with individual nothing is reserved: --strict is for aggregate'),
    (('--strict', '--remove', NODE), '--strict and --max-per-request go with REPLICAS'),
    (('--print', '20', 'aggregate', NODE), f"'{NODE}': --print takes REPLICAS and aggregate or individual, and no node"),
    (('20', NODE, REPO, 'v1', 'A_b'), "'A_b' is no name of a secret"),
    (('20', NODE, REPO, 'v1', 's', 'x'), "'x' is one word too many"),
    (('20', NODE, 'nvcr.io/nvidia/k8s-device-plugin'), "is NVIDIA's program"),
    (('--some', '20'), "'--some' is no option"),
    (('--namespace',), '--namespace needs a value'),
    (('--namespace', 'A', '20', NODE, REPO), "'A' is no name of a namespace"),
    (('--timeout', 'x', '20', NODE, REPO), "timeout 'x'"),
    (('--runtime-class', 'A b', '20', NODE, REPO), "'A b' is no name of a RuntimeClass"),
    (('--remove',), "--remove takes one thing, a node or 'all'"),
    (('--remove', '20', NODE), '--remove takes one thing'),
])
def test_a_wrong_command_line_is_an_error_before_any_request(cluster, setup, arguments, words):
    said = badly(setup(*arguments), 2)
    assert words in said and said.endswith('; --help says more\n')
    assert cluster.commands == []


def test_help_is_a_text_for_people(cluster, setup):
    assert well(setup('--help')).startswith('usage: scripts/setup.sh ')
    assert cluster.commands == []


def test_without_kubectl_it_says_so(run, cluster, tmp_path):
    for name in ('bash', 'dirname', 'env'):
        (tmp_path / name).symlink_to(f'/usr/bin/{name}')
    assert 'kubectl is not on the PATH' in badly(run('scripts/setup.sh', '20', NODE, REPO, PATH=str(tmp_path)))


def test_a_node_that_is_not_there_is_named(cluster, setup):
    assert "there is no node 'nowhere'" in badly(setup('20', 'nowhere', REPO))
    assert "there is no node 'nowhere'" in badly(setup('--remove', 'nowhere'))


def test_without_gpus_in_the_cluster_the_error_says_how_to_label_nodes(cluster, setup):
    cluster.delete('Node', NODE)
    assert 'kubectl label node NODE nvidia.com/gpu.present=true' in badly(setup('20', 'all', REPO))


@pytest.mark.parametrize('pattern, words', [
    ('get nodes -l feature', 'the nodes cannot be listed'),
    ('get nodes -l warpshare.dev/setup=true -o .*labels', 'the nodes cannot be listed'),
    ('get daemonsets', 'the DaemonSets cannot be listed'),
    ('get pods', "the pods of node 'gpu-node-1' cannot be listed"),
    ('get namespace', "the namespace 'warpshare' cannot be asked for"),
    ('apply', 'no connection'),
    ('label node', 'no connection'),
])
def test_a_cluster_that_does_not_answer_ends_it(cluster, setup, pattern, words):
    cluster.fail(pattern, 'no connection')
    said = badly(setup('20', 'all', REPO))
    assert words in said and 'no connection' in said
    assert 'nvidia.com/gpu=' not in said


@pytest.mark.parametrize('name', ['nvidia-device-plugin-daemonset-x', 'nvdp-nvidia-device-plugin-x', 'nvidia-gpu-device-plugin-x',
                                  'nvidia-device-plugin-mps-control-daemon-x'])
def test_another_device_plugin_on_the_node_is_in_the_way_unless_forced(cluster, setup, name):
    cluster.add_pod(name, NODE)
    said = badly(setup('20', NODE, REPO))
    assert f"node 'gpu-node-1' is served by another device plugin: default/{name}. Take it off the node first" in said
    assert cluster.changes() == []
    assert f'warning: node \'gpu-node-1\' is served by another device plugin, too: default/{name}' in well(setup('--force', '20', NODE, REPO))


def test_other_pods_and_plugins_elsewhere_are_not_in_the_way(cluster, setup):
    cluster.add_node('elsewhere')
    cluster.add_pod('nvidia-device-plugin-daemonset-x', 'elsewhere')
    cluster.add_pod('nvdp-nvidia-device-plugin-gpu-feature-discovery-x', NODE)
    well(setup('20', NODE, REPO))


@pytest.mark.parametrize('namespace, selector', [('warpshare', {}), ('gpu', {SETUP: 'true'}), ('gpu', {'a': 'b'})])
def test_warpshare_from_elsewhere_is_left_alone(cluster, setup, namespace, selector):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': namespace}})
    cluster.apply({'kind': 'DaemonSet', 'metadata': {'name': 'warpshare-agent', 'namespace': namespace, 'labels': {
        'app.kubernetes.io/name': 'warpshare'}}, 'spec': {'updateStrategy': {'type': 'OnDelete'}, 'template': {
            'metadata': {'labels': {}}, 'spec': {'nodeSelector': {**selector, 'never': 'never'}}}}})
    said = badly(setup('20', NODE, REPO))
    assert f'installed in another way or namespace: {namespace}/warpshare-agent' in said
    assert cluster.changes() == []


def test_a_namespace_that_admits_no_privileged_pods_is_reported(cluster, setup):
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare', 'labels': {'pod-security.kubernetes.io/enforce': 'baseline'}}})
    said = badly(setup('20', NODE, REPO))
    assert "admits 'baseline' pods only" in said and 'enforce=privileged --overwrite' in said
    assert cluster.changes() == []


def test_a_missing_secret_is_reported_with_the_command_that_creates_it(cluster, setup):
    said = badly(setup('20', NODE, REPO, 'v1', 'registry'))
    assert 'kubectl create namespace warpshare' in said and 'create secret docker-registry registry' in said
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    assert 'create namespace' not in badly(setup('20', NODE, REPO, 'v1', 'registry'))
    assert cluster.changes() == []


@pytest.mark.parametrize('trouble, words', [
    ({'is_stuck': True}, 'gpu-node-1: not shared after 0 s: the agent has not reported yet that it has the configuration mps.aggregate.20'),
    ({'refuses': 'too many'}, 'gpu-node-1: not shared after 0 s: the agent says: refused: too many'),
    ({'lost': 20}, 'gpu-node-1: not shared after 0 s: nvidia.com/gpu: 20 of 80 are unhealthy'),
    ({'lost': 80}, 'gpu-node-1: not shared after 0 s: nvidia.com/gpu: 80 of 80 are unhealthy'),
    ({'gpus': 0}, 'gpu-node-1: not shared after 0 s: nvidia.com/gpu: the agent offers none'),
    ({'behind': 5}, 'gpu-node-1: not shared after 0 s: nvidia.com/gpu: kubelet counts 75, and the agent offers 80'),
    ({'lost': 20, 'is_mute': True}, 'gpu-node-1: not shared after 0 s: nvidia.com/gpu: kubelet counts 60 of 80'),
])
def test_a_node_that_is_not_shared_in_time_is_reported_with_the_reason(cluster, setup, trouble, words):
    for key, value in trouble.items():
        setattr(cluster.runtime, key, value)
    said = badly(setup('--timeout', '0', '20', NODE, REPO))
    assert words in said and 'look with scripts/verify-mps-setup.sh gpu-node-1' in said


def test_a_node_that_fails_does_not_keep_others_from_being_listed(cluster, setup):
    cluster.add_node('z', {'nvidia.com/gpu.present': 'true'})
    cluster.fail(r'get node gpu-node-1 -o jsonpath=.*config-status', 'no connection', 1)
    said = badly(setup('--timeout', '0', '20', 'all', REPO))
    assert 'gpu-node-1: not shared after 0 s: the node cannot be asked\n' in said and 'z: nvidia.com/gpu=80\n' in said


def test_where_the_agents_metrics_cannot_be_had_what_kubelet_counts_is_enough(cluster, setup):
    cluster.runtime.is_mute = True
    assert 'gpu-node-1: nvidia.com/gpu=80\n' in well(setup('20', NODE, REPO))
    assert 'gpu-node-1: nvidia.com/gpu=53\n' in well(setup('--strict', '20', NODE, REPO))


BACK_OFF = ('ImagePullBackOff', f'Back-off pulling image "{REPO}:v1": ErrImagePull: not found')


def test_an_image_that_cannot_be_pulled_ends_the_waiting_with_the_reason(cluster, setup):
    cluster.runtime.unusable[f'{REPO}:v1'] = BACK_OFF
    said = badly(setup('--timeout', '100', '20', NODE, REPO, 'v1'))
    assert f'gpu-node-1: not shared: pod warpshare-agent-gpu-node-1: ImagePullBackOff: {BACK_OFF[1]}\n' in said
    assert 'create secret docker-registry' in said and 'nvidia.com/gpu=' not in said


@pytest.mark.parametrize('reason', ['ErrImagePull', 'ErrImageNeverPull', 'InvalidImageName', 'ImageInspectError', 'RunContainerError'])
def test_so_does_every_other_reason_why_the_image_is_none(cluster, setup, reason):
    cluster.runtime.unusable[f'{REPO}:v1'] = (reason, 'the\ntext')
    assert f'{reason}: the text\n' in badly(setup('--timeout', '100', '20', NODE, REPO, 'v1'))


def test_a_program_that_is_not_in_the_image_ends_the_waiting_too(cluster, setup):
    """The image of another program, which the container runtime cannot start."""
    cluster.runtime.is_stuck = True
    well(setup('--no-wait', '20', NODE, REPO, 'v1'))
    failed = {'reason': 'StartError', 'message': 'exec: "warpshare": executable file not found in $PATH: unknown'}
    cluster.patch('Pod', f'warpshare-agent-{NODE}', {'status': {'containerStatuses': [
        {'name': 'agent', 'state': {'waiting': {'reason': 'CrashLoopBackOff', 'message': 'back-off 10s'}}, 'lastState': {'terminated': failed}}]}},
        status=True)
    assert f"StartError: {failed['message']}\n" in badly(setup('--timeout', '100', '20', NODE, REPO, 'v1'))


def test_the_right_image_after_a_wrong_one_replaces_what_never_ran(cluster, setup):
    """The supervisor's DaemonSet replaces no pod by itself; but this one has no clients."""
    cluster.runtime.unusable[f'{REPO}:v1'] = BACK_OFF
    badly(setup('--timeout', '0', '20', NODE, REPO, 'v1'))
    out = well(setup('20', NODE, REPO, 'v2'))
    assert 'gpu-node-1: nvidia.com/gpu=80\n' in out and 'the MPS supervisor still is' not in out
    assert cluster.runtime.running[NODE, 'mps']['spec']['containers'][0]['image'] == f'{REPO}:v2'


def test_all_nodes_share_one_deadline(cluster, setup):
    for i in range(4):
        cluster.add_node(f'n{i}', {'nvidia.com/gpu.present': 'true'})
    cluster.runtime.is_stuck = True
    said = badly(setup('--timeout', '1', '20', 'all', REPO))
    assert said.count(': not shared after 1 s: ') == 5
    asked = [found[1] for found in (re.match(r'get node (\S+) -o jsonpath=.*config-status', one) for one in cluster.commands) if found]
    rounds = [asked[i:i + 5] for i in range(0, len(asked), 5)]
    assert rounds and all(one == rounds[0] for one in rounds) and len(set(rounds[0])) == 5, 'each node once before any is asked again'


def test_nodes_that_are_ready_are_listed_before_others(cluster, setup):
    cluster.add_node('z', {'nvidia.com/gpu.present': 'true'})
    cluster.fail(r'get node gpu-node-1 -o jsonpath=.*config-status', 'no connection', 1)
    out = setup('20', 'all', REPO)[1]
    assert out.index('z: nvidia.com/gpu=80\n') < out.index('gpu-node-1: nvidia.com/gpu=80\n')
