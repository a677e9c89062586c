# SPDX-License-Identifier: Apache-2.0
"""Labels of the node: the drop-in gpu-feature-discovery, `warpshare labels`, and the agent; in files, as NodeFeature, on the node.

What each label says is held against tables in test/unit/node/labels; here it is that they arrive, follow what changes, and go.
"""
import json
import os
import re
import signal
import subprocess

import pytest

import node as node_module
from apiserver import ApiServer
from node import GPU, Agent, sharing, v100s
from own_node_policy import policy_of

LINK = os.path.join(os.path.dirname(node_module.WARPSHARE), 'gpu-feature-discovery')
NODE = 'node-1'
NODES = '/api/v1/nodes'
FEATURES = '/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures'
PODS = '/api/v1/namespaces/gpu/pods'
FEATURE = f'nvidia-features-for-{NODE}'

# What the GPU Operator gives the service account of feature discovery: no patch.
OPERATOR_RULES = [
    {'apiGroups': ['nfd.k8s-sigs.io'], 'resources': ['nodefeatures'], 'verbs': ['get', 'list', 'watch', 'create', 'update']},
    {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get']},
    {'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['get', 'list', 'watch']}]


def our_rules():
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy/rbac.json'), encoding='utf-8') as file:
        return json.load(file)


@pytest.fixture
def api(tmp_path):
    with ApiServer(tmp_path / 'api', namespace='gpu') as server:
        server.policy = policy_of(server, NODE)
        server.put(NODES, {'metadata': {'name': NODE, 'labels': {'kubernetes.io/hostname': NODE}}})
        yield server


def environment(node, **more):
    return {'PATH': os.path.dirname(LINK) + ':' + os.environ['PATH'], 'WARPSHARE_SIM_SCENARIO': node.scenario_path,
            'WARPSHARE_NVML_LIBRARY': node.library, 'WARPSHARE_SYSTEM_ROOT': os.path.join(node.folder, 'machine'),
            **{name: value for name, value in os.environ.items() if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_'))},
            **more}


def discover(node, *arguments, **variables):
    """The drop-in, as a container starts it: by its bare name."""
    node.agents.append(Agent(arguments, environment(node, **variables),
                             ['/bin/sh', '-c', 'shift; exec gpu-feature-discovery "$@"', 'sh']))
    return node.agent


def run(node, *command, **variables):
    return subprocess.run(command, env=environment(node, **variables), capture_output=True, text=True,
                          timeout=node_module.DEADLINE, check=False)


def read(path):
    """The labels of a file, or {} where there is none."""
    try:
        with open(path, encoding='utf-8') as file:
            return dict(line.rstrip('\n').split('=', 1) for line in file)
    except FileNotFoundError:
        return {}


@pytest.fixture
def labels_file(node):
    folder = os.path.join(node.folder, 'features.d')
    os.mkdir(folder)
    return os.path.join(folder, 'gfd')


def wait_label(node, path, key, value):
    node.wait(lambda: read(path).get(key) == value, f'{key} is {value}')


# ---- the drop-in ----

def test_once_to_standard_output(node):
    os.makedirs(os.path.join(node.folder, 'machine/sys/class/dmi/id'))
    with open(os.path.join(node.folder, 'machine/sys/class/dmi/id/product_name'), 'w', encoding='utf-8') as file:
        file.write('DGX-1 with V100-32\n')
    node.scenario(v100s(2))
    result = run(node, LINK, '--oneshot', '--no-timestamp', '-o', '', GFD_USE_NODE_FEATURE_API='false')
    assert result.returncode == 0, result.stderr
    labels = dict(line.split('=', 1) for line in result.stdout.splitlines())
    assert list(labels) == sorted(labels)
    assert labels['nvidia.com/gpu.product'] == 'Tesla-V100-SXM2-32GB'
    assert labels['nvidia.com/gpu.count'] == '2'
    assert labels['nvidia.com/gpu.machine'] == 'DGX-1-with-V100-32'
    assert 'nvidia.com/gfd.timestamp' not in labels


def test_the_file_follows_gpus_and_configuration_and_goes_at_the_end(node, labels_file):
    os.mkdir(os.path.join(os.path.dirname(labels_file), 'gfd-tmp'))  # of a version that is long gone
    node.config(sharing('timeSlicing', 4))
    agent = discover(node, GFD_OUTPUT_FILE=labels_file, USE_NODE_FEATURE_API='false', GFD_CONFIG_FILE=node.config_path,
                     CONFIG_FILE='/nowhere')
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '4')
    stamp = read(labels_file)['nvidia.com/gfd.timestamp']
    assert os.stat(labels_file).st_mode & 0o777 == 0o644
    assert read(labels_file)['nvidia.com/gpu.product'] == 'Tesla-V100-SXM2-32GB-SHARED'
    node.scenario(v100s(3))
    agent.hang_up()
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '3')
    assert int(read(labels_file)['nvidia.com/gfd.timestamp']) >= int(stamp)
    node.config(sharing('mps', 2))  # it is followed without a signal, too
    wait_label(node, labels_file, 'nvidia.com/mps.capable', 'true')
    wait_label(node, labels_file, 'nvidia.com/gpu.sharing-strategy', 'mps')
    node.config('sharing: 7\n')
    agent.wait_log('configuration refused, the one in force stays')
    assert read(labels_file)['nvidia.com/gpu.sharing-strategy'] == 'mps'
    assert agent.stop() == 0
    assert os.listdir(os.path.dirname(labels_file)) == []


def test_a_configuration_that_cannot_be_carried_out_leaves_the_file(node, labels_file):
    """Without an API server there is no NodeFeature: then the file stays, is kept up to date, and goes at the end."""
    def configure(use_node_feature, count):
        node.config({'version': 'v1', 'flags': {'useNodeFeatureAPI': use_node_feature, 'gfd': {'outputFile': labels_file}},
                     'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': count}]}}})
    configure(False, 4)
    agent = discover(node, '--sleep-interval=1s', GFD_CONFIG_FILE=node.config_path, NODE_NAME=NODE)
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '4')
    configure(True, 8)
    agent.wait_log('configuration refused, the one in force stays')
    assert read(labels_file)['nvidia.com/gpu.replicas'] == '4'
    os.unlink(labels_file)
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '4')
    assert agent.stop() == 0
    assert not os.path.exists(labels_file)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_signal_ends_it_with_status_0_and_takes_the_file_away(node, labels_file, number):
    agent = discover(node, '--use-node-feature-api=false', '--output', labels_file)
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')
    agent.signal(number)
    assert agent.wait() == 0
    assert not os.path.exists(labels_file)


def test_an_infinite_interval_leaves_the_file(node, labels_file):
    agent = discover(node, '--use-node-feature-api=false', '--output', labels_file, GFD_SLEEP_INTERVAL='infinite')
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')
    assert agent.stop() == 0
    assert read(labels_file)['nvidia.com/gpu.count'] == '4'


def test_once_leaves_the_file(node, labels_file):
    result = run(node, LINK, GFD_ONESHOT='true', GFD_OUTPUT_FILE=labels_file, GFD_USE_NODE_FEATURE_API='false')
    assert result.returncode == 0, result.stderr
    assert read(labels_file)['nvidia.com/gpu.count'] == '4'
    assert os.listdir(os.path.dirname(labels_file)) == ['gfd']


def test_a_removed_file_is_written_again(node, labels_file):
    discover(node, '--use-node-feature-api=false', '--output', labels_file, '--sleep-interval=1s')
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')
    os.unlink(labels_file)
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')


def test_the_configuration_file_says_what_flags_and_variables_do_not(node, labels_file):
    other = labels_file + '-other'
    node.config({'version': 'v1', 'flags': {'useNodeFeatureAPI': False, 'gfd': {
        'oneshot': True, 'noTimestamp': True, 'outputFile': other, 'machineTypeFile': '/proc/sys/kernel/ostype'}}})
    assert run(node, LINK, '--config-file', node.config_path).returncode == 0
    assert read(other)['nvidia.com/gpu.machine'] == 'Linux'
    assert 'nvidia.com/gfd.timestamp' not in read(other)
    assert run(node, LINK, '--config-file', node.config_path, '--output-file', labels_file,
               GFD_NO_TIMESTAMP='false').returncode == 0
    assert 'nvidia.com/gfd.timestamp' in read(labels_file)


def test_without_nvml_it_ends_or_waits_as_configured(node, labels_file):
    node.library = '/nowhere/libnvidia-ml.so.1'
    arguments = ('--use-node-feature-api=false', '--output', labels_file, '--device-discovery-strategy=nvml')
    result = run(node, LINK, *arguments)
    assert result.returncode == 1
    assert 'NVML cannot be used' in result.stderr
    agent = discover(node, *arguments, '--fail-on-init-error=false')
    agent.wait_log('No labels generated from any source')
    node.wait(lambda: 'nvidia.com/gfd.timestamp' in read(labels_file), 'the file is written')
    assert not [key for key in read(labels_file) if key.startswith('nvidia.com/gpu')]


def test_wrong_usage_has_status_1_and_shows_the_options(node):
    for arguments, message in ((['--bogus'], "unknown flag '--bogus'"), (['--oneshot=perhaps'], 'not a boolean'),
                               (['--mig-strategy=many'], "'many'")):
        result = run(node, LINK, *arguments)
        assert result.returncode == 1
        assert message in result.stderr
        assert '--machine-type-file' in result.stderr
    result = run(node, LINK, '--sleep-interval=soon', '--use-node-feature-api=false')
    assert result.returncode == 1
    assert "'soon' is not a duration" in result.stderr
    result = run(node, LINK)
    assert result.returncode == 1
    assert 'a NodeFeature needs the name of the node' in result.stderr
    assert run(node, LINK, '--kube-api-qps', '5', '--kube-api-burst=10', '--help').returncode == 0


# ---- NodeFeature ----

def test_the_drop_in_needs_no_more_rights_than_nvidias(node, api):
    api.allow(OPERATOR_RULES)
    daemon_set = {'apiVersion': 'apps/v1', 'kind': 'DaemonSet', 'name': 'gfd', 'uid': 'ds-1', 'controller': True}
    pod = api.put(PODS, {'metadata': {'name': 'gfd-abcde', 'ownerReferences': [daemon_set]}})
    agent = discover(node, KUBECONFIG=api.kubeconfig(), NODE_NAME=NODE, NAMESPACE='gpu', POD_NAME='gfd-abcde')
    feature = api.wait_for(lambda: api.get(FEATURES, FEATURE))
    assert feature['metadata']['labels'] == {'nfd.node.kubernetes.io/node-name': NODE}
    assert feature['spec']['features'] == {'flags': {}, 'attributes': {}, 'instances': {}}
    assert feature['spec']['labels']['nvidia.com/gpu.count'] == '4'
    owners = [(owner['kind'], owner['name'], owner['uid']) for owner in feature['metadata']['ownerReferences']]
    assert owners == [('DaemonSet', 'gfd', 'ds-1'), ('Pod', 'gfd-abcde', pod['metadata']['uid'])]
    node.scenario(v100s(2))
    agent.hang_up()
    api.wait_for(lambda: api.get(FEATURES, FEATURE)['spec']['labels']['nvidia.com/gpu.count'] == '2')
    assert agent.stop() == 0
    assert api.get(FEATURES, FEATURE), 'it goes with its DaemonSet'
    assert not api.asked(verb='patch')


def test_an_owner_that_cannot_be_read_at_first_is_asked_for_again(node, api):
    """An API server that is away at the start is no reason for labels that outlive the DaemonSet."""
    daemon_set = {'apiVersion': 'apps/v1', 'kind': 'DaemonSet', 'name': 'gfd', 'uid': 'ds-1', 'controller': True}
    api.put(PODS, {'metadata': {'name': 'gfd-abcde', 'ownerReferences': [daemon_set]}})
    api.fault('status', resource='pods', code=500)
    discover(node, '--sleep-interval=1s', KUBECONFIG=api.kubeconfig(), NODE_NAME=NODE, NAMESPACE='gpu', POD_NAME='gfd-abcde')
    api.wait_for(lambda: api.get(FEATURES, FEATURE))
    api.wait_for(lambda: api.get(FEATURES, FEATURE)['metadata'].get('ownerReferences'))


def test_what_is_there_is_replaced_and_what_is_the_same_is_not_written(node, api):
    api.put(FEATURES, {'apiVersion': 'nfd.k8s-sigs.io/v1alpha1', 'kind': 'NodeFeature', 'metadata': {'name': FEATURE},
                       'spec': {'labels': {'nvidia.com/mig-1g.5gb.count': '7'}}})
    discover(node, '--no-timestamp', '--sleep-interval=1s', KUBECONFIG=api.kubeconfig(), NODE_NAME=NODE, NAMESPACE='gpu')
    api.wait_for(lambda: api.get(FEATURES, FEATURE)['spec']['labels'].get('nvidia.com/gpu.count') == '4')
    assert 'nvidia.com/mig-1g.5gb.count' not in api.get(FEATURES, FEATURE)['spec']['labels']
    seen = len(api.asked('get', 'nodefeatures'))
    api.wait_for(lambda: len(api.asked('get', 'nodefeatures')) >= seen + 2)
    assert len(api.asked('update', 'nodefeatures')) == 1
    api.delete(FEATURES, FEATURE)
    api.wait_for(lambda: api.get(FEATURES, FEATURE))


def test_once_fails_where_the_cluster_has_no_nodefeatures(node, api):
    api.missing.add('/apis/nfd.k8s-sigs.io')
    result = run(node, LINK, '--oneshot', KUBECONFIG=api.kubeconfig(), NODE_NAME=NODE, NAMESPACE='gpu')
    assert result.returncode == 1
    assert 'labels cannot be published' in result.stderr


# ---- the agent ----

def start_agent(node, api, output, *arguments):
    node.kubelet.start()
    node.start('--labels-output', output, '--node-name', NODE, '--kubeconfig', api.kubeconfig(), *arguments)
    return node.agent


def test_the_agent_keeps_the_nodefeature_with_the_rights_it_has(node, api):
    api.allow(our_rules())
    node.config(sharing('timeSlicing', 4))
    agent = start_agent(node, api, 'nodefeature')
    labels = api.wait_for(lambda: api.get(FEATURES, FEATURE))['spec']['labels']
    assert labels['nvidia.com/gpu.replicas'] == '4'
    assert labels['warpshare.dev/gpu.sharing'] == 'time-slicing'
    assert 'nvidia.com/gfd.timestamp' not in labels
    node.config({'version': 'v1'})
    api.wait_for(lambda: api.get(FEATURES, FEATURE)['spec']['labels']['nvidia.com/gpu.replicas'] == '1')
    assert agent.stop() == 0
    version = api.get(FEATURES, FEATURE)['metadata']['resourceVersion']
    seen = len(api.asked('get', 'nodefeatures'))
    node.start('--labels-output', 'nodefeature', '--node-name', NODE, '--kubeconfig', api.kubeconfig())
    api.wait_for(lambda: len(api.asked('get', 'nodefeatures')) > seen)
    node.wait(lambda: node.kubelet.allocatable(GPU) == 4, 'GPUs are allocatable')
    assert node.agent.stop() == 0
    assert api.get(FEATURES, FEATURE)['metadata']['resourceVersion'] == version, 'a restart changes nothing'


def test_labels_of_the_node_itself_that_are_gone_disappear_and_those_of_others_stay(node, api):
    api.allow(our_rules())
    node.scenario([{'model': 'A100-40GB', 'mig': {'devices': [{'profile': '1g.5gb'}]}}])
    node.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})
    start_agent(node, api, 'node')
    api.wait_for(lambda: api.get(NODES, NODE)['metadata']['labels'].get('nvidia.com/mig-1g.5gb.count') == '1')
    node.config({'version': 'v1', 'flags': {'migStrategy': 'none'}})
    api.wait_for(lambda: 'nvidia.com/mig-1g.5gb.count' not in api.get(NODES, NODE)['metadata']['labels'])
    assert api.get(NODES, NODE)['metadata']['labels']['kubernetes.io/hostname'] == NODE
    assert api.get(NODES, NODE)['metadata']['labels']['nvidia.com/gpu.count'] == '1'
    assert not api.asked(resource='nodefeatures')


def test_labels_that_go_come_back_with_the_node_or_without(node, api):
    api.allow(our_rules())
    start_agent(node, api, 'node')
    api.wait_for(lambda: api.get(NODES, NODE)['metadata']['labels'].get('nvidia.com/gpu.count') == '4')
    api.patch(NODES, NODE, {'metadata': {'labels': {'nvidia.com/gpu.count': '5', 'nvidia.com/gpu.product': None}}})
    api.wait_for(lambda: api.get(NODES, NODE)['metadata']['labels'].get('nvidia.com/gpu.count') == '4')
    assert api.get(NODES, NODE)['metadata']['labels']['nvidia.com/gpu.product']
    api.delete(NODES, NODE)
    api.put(NODES, {'metadata': {'name': NODE, 'labels': {'kubernetes.io/hostname': NODE}}})
    api.wait_for(lambda: api.get(NODES, NODE)['metadata']['labels'].get('nvidia.com/gpu.count') == '4')
    assert api.get(NODES, NODE)['metadata']['labels']['kubernetes.io/hostname'] == NODE


def test_a_nodefeature_that_went_with_its_node_comes_back_with_it(node, api):
    """Garbage collection of node-feature-discovery removes the objects of nodes that are gone."""
    api.allow(our_rules())
    start_agent(node, api, 'nodefeature')
    api.wait_for(lambda: api.get(FEATURES, FEATURE))
    api.wait_for(lambda: [one for one in api.watches if one['request'].resource == 'nodes'])
    api.delete(NODES, NODE)
    api.delete(FEATURES, FEATURE)
    api.put(NODES, {'metadata': {'name': NODE}})
    api.wait_for(lambda: api.get(FEATURES, FEATURE))


def test_an_api_server_that_refuses_is_asked_again(node, api):
    fault = api.fault('status', resource='nodefeatures', code=500)
    agent = start_agent(node, api, 'nodefeature')
    agent.wait_log('labels cannot be published, will try again')
    api.wait_for(lambda: api.get(FEATURES, FEATURE))
    agent.wait_log('labels are published')
    assert fault


def test_a_mig_layout_that_single_does_not_allow_is_labelled_as_invalid(node, api):
    node.scenario([{'model': 'A100-40GB', 'mig': {'devices': [{'profile': '1g.5gb'}]}}])
    node.config({'version': 'v1', 'flags': {'migStrategy': 'single', 'failOnInitError': False}})
    agent = start_agent(node, api, 'nodefeature')
    api.wait_for(lambda: api.get(FEATURES, FEATURE))
    node.scenario([{'model': 'A100-40GB', 'mig': {'devices': [{'profile': '1g.5gb'}]}}, {'model': 'A100-40GB'}])
    agent.hang_up()
    api.wait_for(lambda: api.get(FEATURES, FEATURE)['spec']['labels']['nvidia.com/gpu.product'] ==
                 'NVIDIA-A100-SXM4-40GB-MIG-INVALID')


def test_the_agents_file_stays_when_it_stops(node, labels_file):
    node.start_all(None, '--labels-output', 'file', '--labels-file', labels_file)
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')
    assert node.agent.stop() == 0
    assert read(labels_file)['nvidia.com/gpu.count'] == '4'


def test_without_the_api_server_the_agent_says_so_and_serves(node):
    node.start_all(None, '--labels-output', 'nodefeature')
    node.agent.wait_log('no labels: they go to the API server')
    node.wait_counts(4)


# ---- the command ----

def test_the_command_shows_the_labels_in_three_forms(node):
    command = [node_module.WARPSHARE, 'labels']
    table = run(node, *command)
    assert table.returncode == 0, table.stderr
    assert re.search(r'^nvidia\.com/gpu\.count +4$', table.stdout, re.MULTILINE)
    plain = run(node, *command, '--output', 'plain').stdout
    labels = json.loads(run(node, *command, '--output', 'json').stdout)
    assert dict(line.split('=', 1) for line in plain.splitlines()) == labels
    assert labels['warpshare.dev/gpu.memory'] == '32605'


def test_the_command_takes_away_what_was_published_and_nothing_else(node, api, labels_file):
    arguments = ['--labels-file', labels_file, '--node-name', NODE, '--kubeconfig', api.kubeconfig()]
    command = [node_module.WARPSHARE, 'labels', '--remove', *arguments]
    api.put(FEATURES, {'apiVersion': 'nfd.k8s-sigs.io/v1alpha1', 'kind': 'NodeFeature', 'metadata': {'name': FEATURE},
                       'spec': {'labels': {'nvidia.com/gpu.count': '4'}}})
    with open(labels_file, 'w', encoding='utf-8') as file:
        file.write('nvidia.com/gpu.count=4\n')
    foreign = run(node, *command)
    assert foreign.returncode == 1
    assert foreign.stdout.count('no label of this program is in it') == 2
    assert api.get(FEATURES, FEATURE) and os.path.exists(labels_file)
    node.kubelet.start()
    for output in ('nodefeature', 'node', 'file'):
        agent = node.start('--labels-output', output, *arguments)
        if output == 'nodefeature':
            api.wait_for(lambda: 'warpshare.dev/gpu.memory' in api.get(FEATURES, FEATURE)['spec']['labels'])
        elif output == 'node':
            api.wait_for(lambda: 'warpshare.dev/gpu.memory' in api.get(NODES, NODE)['metadata']['labels'])
        else:
            wait_label(node, labels_file, 'warpshare.dev/gpu.memory', '32605')
        assert agent.stop() == 0
    api.allow(our_rules())
    dry = run(node, *command, '--dry-run')
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert dry.stdout.count('would be removed') == 3
    assert api.get(FEATURES, FEATURE) and os.path.exists(labels_file)
    done = run(node, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not api.get(FEATURES, FEATURE) and not os.path.exists(labels_file)
    assert api.get(NODES, NODE)['metadata']['labels'] == {'kubernetes.io/hostname': NODE}
    again = run(node, *command)
    assert again.returncode == 0
    assert again.stdout.count('not there') == 3
