# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: rendered by what Helm is made of, for the default and for each value; each object is one that Kubernetes takes."""
import json
import os
import re
import subprocess

import chart
import jsonschema
import pytest
import yaml

from daemonsets import lands

kubernetes_api = pytest.importorskip('kubernetes_api', reason='Debian: python3-kubernetes')

WARPSHARE = os.environ['WARPSHARE']
MPS_CONFIG = {'version': 'v1', 'sharing': {'mps': {'resources': [{'name': 'nvidia.com/gpu', 'replicas': 4}]}}}
DECLARED_CONFIG = {'version': 'v1', 'sharing': {'mps': {**MPS_CONFIG['sharing']['mps'], 'provisioning': 'declared'}}}
WITH_MPS = {'mps': {'enabled': True}}
# For NVIDIA's programs, not for the agent's options.
FOREIGN = {'WARPSHARE_SIM_SCENARIO', 'WARPSHARE_MPS_SIM', 'PATH', 'NVIDIA_VISIBLE_DEVICES', 'NVIDIA_DRIVER_CAPABILITIES', 'NVIDIA_MIG_MONITOR_DEVICES', 'NVIDIA_MIG_CONFIG_DEVICES'}

# Each value of values.yaml, at least once, with what differs from the default.
VALUES = {
    'image': {'image': {'repository': 'registry.example.com:5000/a/b', 'tag': 'v9', 'pullPolicy': 'Always'},
              'imagePullSecrets': [{'name': 'secret'}]},
    'an image by its digest': {'image': {'digest': 'sha256:' + '0123456789abcdef' * 4}},
    'configurations as text': {'config': {'map': {'default': yaml.safe_dump(MPS_CONFIG), 'other': 'version: v1\n'}}},
    'configurations as tables': {'config': {'map': {'a': MPS_CONFIG, 'b': {'version': 'v1'}}, 'default': 'b'}},
    'configurations as they are': {'config': {'map': {'default': 'version: v1\n'}, 'check': False}},
    'one configuration': {'config': {'map': {'only': MPS_CONFIG}}},
    'an existing ConfigMap': {'config': {'name': 'mine', 'default': 'a', 'fallbackStrategies': ['empty']}},
    'keys of the configuration that make root': {'configKeysFromFlagsOnly': False},
    'MIG': {'migStrategy': 'mixed'},
    'no MIG with an existing ConfigMap': {'migStrategy': 'none', 'deviceListStrategy': 'envvar', 'config': {'name': 'mine'}},
    'strategies': {'deviceListStrategy': 'cdi-annotations,cdi-cri', 'deviceIDStrategy': 'index', 'failOnInitError': False,
                   'sharedDevicesAllocationPolicy': 'packed', 'deviceDiscoveryStrategy': 'nvml'},
    'strategies as a list': {'deviceListStrategy': ['envvar', 'volume-mounts']},
    'driver root': {'nvidiaDriverRoot': '/run/nvidia/driver', 'nvidiaDevRoot': '/'},
    'extras': {'gdrcopyEnabled': True, 'gdsEnabled': False, 'mofedEnabled': True},
    'CPU manager': {'compatWithCPUManager': True},
    'people who look': {'rbac': {'viewer': True}},
    'another root of kubelet': {'kubeletRootDir': '/var/snap/microk8s/common/var/lib/kubelet', 'dra': {'enabled': True}},
    'CDI': {'cdi': {'nvidiaHookPath': '/usr/bin/nvidia-cdi-hook', 'featureFlags': 'a,b'}},
    'agent': {'devicePlugin': {'enableHostNetwork': True, 'containers': {'main': {'env': [
        {'name': 'DP_DISABLE_HEALTHCHECKS', 'value': '79'}]}}}, 'updateStrategy': {
            'type': 'RollingUpdate', 'rollingUpdate': {'maxUnavailable': '20%'}}},
    'labels only': {'devicePlugin': {'enabled': False}, 'gfd': {'enabled': True, 'output': 'file'}},
    'labels': {'gfd': {'enabled': True}},
    'labels without node-feature-discovery': {'gfd': {'enabled': True, 'output': 'node'}},
    'node': {'node': {'condition': 'GPUSharingReady', 'taint': 'warpshare.io/not-ready=true:NoSchedule'}},
    'no MPS': {'mps': {'enabled': False}},
    'MPS': {'mps': {'enabled': True, 'root': '/opt/mps', 'enableHostPID': False, 'enableHostNetwork': True, 'privileged': False, 'grace': 600,
                    'setComputeMode': False, 'nodeSelector': {'nvidia.com/mps.capable': 'true'}, 'resources': {},
                    'env': [{'name': 'WARPSHARE_MPS_SHARED_MEMORY', 'value': 'node'}], 'tolerations': []}},
    'MPS and MIG': {'migStrategy': 'single', 'mps': {'enabled': True, 'privileged': False}, 'nvidiaDriverRoot': '/run/nvidia/driver'},
    'pods that the GPU Operator waits for': {'gpuOperator': {'client': True}, 'mps': {'enabled': True, 'nodeSelector': {'pool': 'gpu'}}},
    'MIG by label': {'mig': {'manager': True, 'default': 'all-disabled', 'configMap': 'mine', 'evict': True}},
    'DRA': {'dra': {'enabled': True, 'driverName': 'gpu.example.com', 'deviceClasses': {'extendedResourceNames': {
        'gpu': 'nvidia.com/gpu', 'shared': 'nvidia.com/gpu.shared', 'timeslice-mig': 'example.com/turns'}}},
        'config': {'map': {'default': {'version': 'v1', 'dra': {'enabled': True, 'devices': [0], 'timeSlicing': True}}}}},
    'DRA without classes and shares': {'dra': {'enabled': True, 'deviceClasses': {'create': False}}, 'mps': {'enabled': False}},
    'no metrics': {'metrics': {'enabled': False}},
    'metrics over TLS': {'dashboard': {'enabled': True}, 'metrics': {'tls': {'enabled': True, 'secret': 'agent-tls', 'config': {'serverName': 'warpshare'}}, 'podMonitor': {
        'enabled': True}}},
    'metrics for some': {'metrics': {'authorization': {'enabled': True, 'credentials': {'name': 'prometheus', 'key': 'token'}},
                                     'podMonitor': {'enabled': True}}},
    'metrics': {'metrics': {'port': 9500, 'dcgm': True, 'podLabels': ['team', 'app.kubernetes.io/name'], 'mpsPort': 9501, 'service': {'enabled': True}, 'podMonitor': {
        'enabled': True, 'interval': '30s', 'labels': {'release': 'prometheus'}},
        'networkPolicy': {'enabled': True, 'from': [{'ipBlock': {'cidr': '10.0.0.0/8'}}]}}},
    'usage': {'usage': {'hostPID': True}},
    'metrics by a service': {'metrics': {'service': {'enabled': True}, 'serviceMonitor': {
        'enabled': True, 'interval': '30s', 'labels': {'release': 'prometheus'}}}},
    'alerts': {'metrics': {'rules': {'enabled': True, 'labels': {'release': 'prometheus'}, 'runbooks': 'https://docs.example.com/alerts.md',
                                     'disabled': ['WarpshareChangePending']}}},
    'dashboards': {'metrics': {'dashboards': {'enabled': True, 'labels': {'grafana_dashboard': 'yes'}, 'annotations': {'grafana_folder': 'GPUs'}}}},
    'dashboard': {'dashboard': {'enabled': True}},
    'dashboard behind a proxy': {'dashboard': {'enabled': True, 'authorization': 'proxy', 'allowedHosts': ['gpus.example.com'], 'port': 8081, 'interval': 60, 'networkPolicy': {
        'enabled': True, 'from': [{'podSelector': {'matchLabels': {'app': 'proxy'}}}]}, 'resources': {}, 'nodeSelector': {'pool': 'system'},
        'tolerations': [{'operator': 'Exists'}]}, 'imagePullSecrets': [{'name': 'secret'}], 'selectorLabelsOverride': {'app': 'gpu'}},
    'test': {'test': {'resource': 'nvidia.com/gpu.shared'}},
    'simulation': {'simulation': {'enabled': True, 'model': 'H200', 'gpus': 8}, 'config': {'map': {'default': yaml.safe_dump(MPS_CONFIG)}}},
    'log': {'log': {'level': 'debug', 'format': 'json'}},
    'accounts': {'serviceAccount': {'create': False, 'name': 'mine'}, 'rbac': {'create': False}},
    'rights': {'events': 'pods', 'rbac': {'admissionPolicy': False, 'readPods': True}},
    'account': {'serviceAccount': {'annotations': {'a/b': 'c'}, 'name': 'other'}},
    'a root that NVIDIA\'s hooks can write to': {'readOnlyRootFilesystem': False},
    'SELinux': {'seLinuxOptions': {'type': 'spc_t'}, 'securityContextConstraints': 'privileged', 'mps': {'enabled': True, 'privileged': False}},
    'security': {'securityContext': {'privileged': True}, 'podSecurityContext': {'fsGroup': 0}},
    'names': {'nameOverride': 'gpu', 'namespaceOverride': 'elsewhere', 'selectorLabelsOverride': {'app': 'gpu'}},
    'full name': {'fullnameOverride': 'x' * 90},
    'scheduling': {'podAnnotations': {'a': 'b'}, 'podLabels': {'team': 'gpu'}, 'nodeSelector': {'pool': 'gpu'}, 'affinity': {}, 'tolerations': [],
                   'priorityClassName': '', 'runtimeClassName': 'nvidia', 'resources': {'limits': {'memory': '128Mi'}}},
}


def file_of_the_chart(name):
    with open(f'{chart.CHART}/files/{name}', encoding='utf-8') as file:
        return file.read()


def pod(rendered, component, release='warpshare'):
    return rendered.one('DaemonSet', f'{release}-{component}')['spec']['template']['spec']


def environment(container):
    return {entry['name']: entry.get('value') for entry in container.get('env', [])}


def accepted(command, container, configs, folder):
    """Whether the program takes what the chart says to it, without a word of warning; names of variables it has to know."""
    variables = environment(container)
    if 'WARPSHARE_CONFIG_DIR' in variables:
        variables['WARPSHARE_CONFIG_DIR'] = str(folder)
        for name, text in configs.items():
            (folder / name).write_text(text, encoding='utf-8')
    known = set(re.findall(r'\b[A-Z][A-Z0-9_]{3,}\b', subprocess.run(
        [WARPSHARE, *command, '--help'], capture_output=True, text=True, check=True).stdout))
    assert variables.keys() - known - FOREIGN - {'DP_DISABLE_HEALTHCHECKS'} == set()
    if command == ['agent']:
        variables = {name: value for name, value in variables.items() if value is not None}
        done = subprocess.run([WARPSHARE, 'agent', '--check'], env={**variables, 'PATH': os.environ['PATH']},
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ''), done.stderr


@pytest.mark.parametrize('name', ['default', *VALUES])
def test_kubernetes_and_the_programs_take_what_is_rendered(program, tmp_path, name):
    rendered = chart.render(program, VALUES.get(name, {}))
    for one in rendered.objects:
        kubernetes_api.check(one)
    names = [(one['kind'], one['metadata'].get('namespace'), one['metadata']['name']) for one in rendered.objects]
    assert len(set(names)) == len(names)
    assert '<no value>' not in ''.join(rendered.texts.values()) + rendered.notes
    configs = [one['data'] for one in rendered.all('ConfigMap')] or [{'a': 'version: v1'}]  # else somebody else's
    for daemons in rendered.all('DaemonSet'):
        for container in daemons['spec']['template']['spec']['containers']:
            assert container['command'][0] == 'warpshare'
            accepted(container['command'][1:], container, configs[0], tmp_path)
    for deployment in rendered.all('Deployment'):
        container, = deployment['spec']['template']['spec']['containers']
        assert container['command'] == ['warpshare', 'dashboard']
        accepted(['dashboard'], container, {}, tmp_path)


def test_every_value_has_a_comment_a_place_in_the_schema_and_a_test():
    with open(f'{chart.CHART}/values.yaml', encoding='utf-8') as file:
        lines = file.read().split('\n')
    values = yaml.safe_load('\n'.join(lines))
    with open(f'{chart.CHART}/values.schema.json', encoding='utf-8') as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(values)
    tested = {key for case in VALUES.values() for key in case}
    untested = values.keys() - tested - {'allowDefaultNamespace'}  # test_the_default_namespace_is_refused
    assert not untested
    assert values.keys() <= schema['properties'].keys()
    for number, line in enumerate(lines):
        if re.match(r'[a-zA-Z]+: *(null|""|\{\}|\[\]|[a-z].*)$', line):  # one value of its own
            above = lines[number - 1]
            assert above.startswith('#') or re.match(r'[a-zA-Z]+:', above), f'values.yaml:{number + 1}: no comment: {line}'


@pytest.mark.parametrize('values, words', [
    ({'replicas': 3}, 'replicas'),
    ({'mps': {'rot': '/x'}}, 'rot'),
    ({'image': {'digest': 'sha256:12'}}, 'image.digest'),
    ({'podLabels': {'app.kubernetes.io/component': 'x'}}, 'podLabels'),
    ({'metrics': {'serviceMonitor': {'enabled': True}}}, 'metrics.serviceMonitor needs metrics.service'),
    ({'metrics': {'service': {'enabled': True}, 'serviceMonitor': {'enabled': True}, 'podMonitor': {'enabled': True}}},
     'metrics.podMonitor and metrics.serviceMonitor'),
    ({'dashboard': {'enabled': True}, 'metrics': {'enabled': False}}, 'dashboard.enabled needs metrics.enabled'),
    ({'dashboard': {'authorization': 'none'}}, 'dashboard.authorization'),
    ({'dashboard': {'allowedHosts': ['https://gpus.example.com']}}, 'dashboard.allowedHosts'),
    ({'dashboard': {'allowedHosts': ['*']}}, 'dashboard.allowedHosts'),
    ({'metrics': {'nodePage': 'all'}}, 'metrics.nodePage'),
    ({'dashboard': {'enabled': True}, 'metrics': {'authorization': {'enabled': True}}}, 'dashboard.enabled and metrics.authorization.enabled'),
    ({'metrics': {'rules': {'runbooks': 'docs'}}}, 'metrics.rules.runbooks'),
    ({'metrics': {'rules': {'disabled': ['KubePodCrashLooping']}}}, 'metrics.rules.disabled'),
    ({'metrics': {'rules': {'enabled': True, 'disabled': ['WarpshareChangePendin']}}}, 'there is no alert WarpshareChangePendin'),
    ({'mps': {'root': 'x'}}, 'mps.root'),
    ({'migStrategy': 'some'}, 'migStrategy'),
    ({'deviceListStrategy': 'envvar,cdi'}, 'deviceListStrategy'),
    ({'metrics': {'port': 0}}, 'metrics.port'),
    ({'config': {'fallbackStrategies': ['any']}}, 'config.fallbackStrategies'),
    ({'config': {'map': {'no name': ''}}}, 'no name'),
    ({'config': {'map': {'a': ''}, 'name': 'b'}}, 'config.map and config.name'),
    ({'config': {'map': {'a': 'x: [', 'b': ''}}}, 'config.map.a is no YAML'),
    ({'config': {'map': {'a': '', 'b': ''}}}, 'choose one of a, b'),
    ({'config': {'map': {'a': ''}, 'default': 'b'}}, 'config.default: b is none of config.map (a)'),
    ({'config': {'default': 'b'}}, 'config.default: b is the name of a configuration, and there is none: set config.map, or config.name'),
    ({'devicePlugin': {'enabled': False}}, 'devicePlugin.enabled and gfd.enabled'),
    ({'dra': {'enabled': True}, 'devicePlugin': {'enabled': False}, 'gfd': {'enabled': True}}, 'dra.enabled needs devicePlugin.enabled'),
    ({'dra': {'driverName': 'GPU.example.com'}}, 'dra.driverName'),
    ({'dra': {'driverName': 'a' * 64}}, 'dra.driverName'),
    ({'dra': {'enabled': True, 'driverName': 'a' * 56}}, 'have 72 characters together, and may have 71'),
    ({'dra': {'enabled': True}, 'kubeletRootDir': '/data' * 11}, 'dra.driverName: gpu.warpshare.dev and kubeletRootDir: /data'),
    ({'kubeletRootDir': '/data/kubelet/'}, 'kubeletRootDir'),
    ({'kubeletRootDir': 'kubelet'}, 'kubeletRootDir'),
    ({'dra': {'deviceClasses': {'extendedResourceNames': {'whole': 'a/b'}}}}, 'dra.deviceClasses.extendedResourceNames'),
    ({'dra': {'deviceClasses': {'extendedResourceNames': {'gpu': 'gpu'}}}}, 'dra.deviceClasses.extendedResourceNames.gpu'),
    ({'config': {'map': {'a': 'dra: {enabled: true}'}}}, 'config.map.a: dra.enabled: say so as the value dra.enabled'),
    ({'image': {'repository': 'nvcr.io/nvidia/k8s-device-plugin'}}, 'image.repository'),
    ({'legacyDaemonsetAPI': True}, 'legacyDaemonsetAPI'),
    ({'namespace': 'x'}, 'helm install --namespace'),
])
def test_what_cannot_work_is_refused_by_name(program, values, words):
    with pytest.raises(chart.Refused, match=re.escape(words)):
        chart.render(program, values)


@pytest.mark.parametrize('component', ['agent', 'mps'])
@pytest.mark.parametrize('label, landed', [
    ('feature.node.kubernetes.io/pci-10de.present', True),  # node-feature-discovery as NVIDIA configures it
    ('feature.node.kubernetes.io/pci-0302_10de.present', True),  # as it comes: class and vendor
    ('feature.node.kubernetes.io/pci-0300_10de.present', True),
    ('nvidia.com/gpu.present', True),
    ('feature.node.kubernetes.io/pci-0300_1002.present', False),  # AMD
    ('feature.node.kubernetes.io/pci-0207_10de.present', False),  # a network card of NVIDIA's
])
def test_nodes_with_a_gpu_have_the_pods_by_any_label_that_says_so(program, component, label, landed):
    assert lands(pod(chart.render(program, WITH_MPS), component), {label: 'true', 'kubernetes.io/arch': 'amd64'}) == landed


@pytest.mark.parametrize('component', ['agent', 'mps'])
@pytest.mark.parametrize('client', ['auto', True, False])
@pytest.mark.parametrize('affinity', [{}, {'affinity': {'nodeAffinity': None}}, {'affinity': None}], ids=['by default', 'none', 'null'])
@pytest.mark.parametrize('labels, landed', [  # landed: with auto, true and false
    ({}, (True, False, True)),  # no GPU Operator, or one before 26.7
    ({'gpu-driver-upgrade-state': 'drain-required'}, (True, False, True)),
    ({'gpu-driver-upgrade-state': 'pod-restart-required'}, (False, False, True)),
    ({'gpu-driver-upgrade-state': 'validation-required'}, (True, False, True)),
    ({'gpu.deploy.client': 'true'}, (True, True, True)),
    ({'gpu.deploy.client': 'true', 'gpu-driver-upgrade-state': 'pod-restart-required'}, (True, True, True)),
    ({'gpu.deploy.client': 'paused-for-driver-upgrade'}, (False, False, True)),
    ({'gpu.deploy.client': 'paused-for-mig-change'}, (False, False, True)),
])
def test_the_pods_leave_a_node_whose_driver_is_to_be_unloaded(program, component, client, affinity, labels, landed):
    values = {'gpuOperator': {'client': client}, **affinity}
    node = {'nvidia.com/gpu.present': 'true', **{'nvidia.com/' + key: value for key, value in labels.items()}}
    assert lands(pod(chart.render(program, WITH_MPS, values), component), node) == landed[['auto', True, False].index(client)]


def test_an_affinity_of_ones_own_stays_whole(program):
    own = {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': [
        {'matchExpressions': [{'key': 'pool', 'operator': 'In', 'values': ['gpu']}], 'matchFields': [
            {'key': 'metadata.name', 'operator': 'In', 'values': ['n1']}]}]}}, 'podAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': []}}
    found = pod(chart.render(program, {'affinity': own}), 'agent')['affinity']
    terms = found['nodeAffinity']['requiredDuringSchedulingIgnoredDuringExecution']['nodeSelectorTerms']
    mine, = own['nodeAffinity']['requiredDuringSchedulingIgnoredDuringExecution']['nodeSelectorTerms']
    assert len(terms) == 2 and found['podAffinity'] == own['podAffinity']
    for term in terms:
        assert term['matchFields'] == mine['matchFields'] and term['matchExpressions'][0] == mine['matchExpressions'][0]
    assert pod(chart.render(program, {'affinity': own, 'gpuOperator': {'client': False}}), 'agent')['affinity'] == own


def test_the_default_namespace_is_refused(program):
    with pytest.raises(chart.Refused, match='allowDefaultNamespace'):
        chart.render(program, {}, namespace='default')
    assert chart.render(program, {'allowDefaultNamespace': True}, namespace='default').objects


def test_the_version_is_the_projects():
    with open(f'{chart.SOURCE}/meson.build', encoding='utf-8') as file:
        version = re.search(r"^  version: '([^']+)'", file.read(), re.MULTILINE).group(1)
    with open(f'{chart.CHART}/Chart.yaml', encoding='utf-8') as file:
        metadata = yaml.safe_load(file)
    assert (metadata['version'], str(metadata['appVersion'])) == (version, version)


# ---- rights ----

def granted(rendered, kind):
    return [rule for role in rendered.all(kind) for rule in role['rules']
            if rule['apiGroups'] != ['security.openshift.io']]


def rules_of(*switches):
    """Of deploy/rbac.json, by the namespace of the role that they belong to; None: a ClusterRole."""
    with open(f'{chart.SOURCE}/deploy/rbac.json', encoding='utf-8') as file:
        rules = json.load(file)
    found = {}
    for rule in rules:
        assert rule.keys() <= {'apiGroups', 'resources', 'resourceNames', 'verbs', 'namespaced', 'namespace', 'when', 'why'} and rule['why'], rule
        assert '*' not in rule['verbs'] + rule['resources'] + rule['apiGroups'], rule
        if {'always', *switches} & set(rule['when']):
            place = 'gpus' if rule.get('namespaced') else rule.get('namespace')
            found.setdefault(place, []).append({key: rule[key] for key in ('apiGroups', 'resources', 'resourceNames', 'verbs')
                                               if key in rule})
    return found


@pytest.mark.parametrize('values, switches', [
    ({}, ['events: node']),
    ({'events': 'none'}, []),
    ({'events': 'pods'}, ['events: pods']),
    ({'config': {'name': 'mine'}}, ['events: node', 'configuration']),
    ({'config': {'map': {'default': MPS_CONFIG}}}, ['events: node', 'configuration']),
    ({'devicePlugin': {'containers': {'main': {'env': [{'name': 'WARPSHARE_CONFIG_MAP', 'value': 'gpus/x'}]}}}},
     ['events: node', 'configuration', 'configMap']),
    ({'rbac': {'readPods': True}}, ['events: node', 'declared']),
    ({'metrics': {'podLabels': ['team']}}, ['events: node', 'podLabels']),
    ({'metrics': {'authorization': {'enabled': True}}}, ['events: node', 'authorization']),
    ({'config': {'map': {'default': DECLARED_CONFIG}}}, ['events: node', 'configuration', 'declared']),
    ({'config': {'map': {'default': DECLARED_CONFIG}}, 'rbac': {'readPods': False}}, ['events: node', 'configuration']),
    ({'node': {'condition': 'GPUSharingReady'}}, ['events: node', 'condition']),
    ({'node': {'taint': 'warpshare.io/not-ready=true:NoSchedule'}}, ['events: node', 'taint']),
    ({'gfd': {'enabled': True, 'output': 'node'}}, ['events: node', 'labels: node']),
    ({'gfd': {'enabled': True, 'output': 'nodefeature'}}, ['events: node', 'labels: nodefeature']),
    ({'gfd': {'enabled': True, 'output': 'file'}}, ['events: node']),
    ({'dra': {'enabled': True}}, ['events: node', 'dra']),
    ({'mig': {'manager': True}}, ['events: node', 'mig']),
    ({'mig': {'manager': True, 'evict': True}}, ['events: node', 'mig', 'mig: evict']),
    ({'mig': {'evict': True}}, ['events: node']),
])
def test_the_agent_gets_the_rights_of_what_is_switched_on_and_no_others(program, values, switches):
    rendered = chart.render(program, {'securityContextConstraints': 'privileged', **values}, namespace='gpus')
    roles = [one for kind in ('ClusterRole', 'Role') for one in rendered.all(kind)
             if not one['metadata']['name'].endswith(('-scc', '-metrics-reader'))]
    assert {one['metadata'].get('namespace'): one['rules'] for one in roles} == rules_of(*switches)
    bindings = [one for kind in ('ClusterRoleBinding', 'RoleBinding') for one in rendered.all(kind)
                if not one['metadata']['name'].endswith('-scc')]
    assert [(one['metadata'].get('namespace'), one['roleRef']['kind'], one['roleRef']['name']) for one in bindings] == \
        [(one['metadata'].get('namespace'), one['kind'], one['metadata']['name']) for one in roles]
    for binding in bindings:
        assert binding['subjects'] == [{'kind': 'ServiceAccount', 'name': 'warpshare', 'namespace': 'gpus'}]


def test_people_who_look_get_a_role_that_nobody_has_until_it_is_bound(program):
    assert [one['metadata']['name'] for one in chart.render(program, {}).all('ClusterRole')] == ['warpshare']
    rendered = chart.render(program, {'rbac': {'viewer': True}})
    viewer = next(one for one in rendered.all('ClusterRole') if one['metadata']['name'] == 'warpshare-viewer')
    assert {verb for rule in viewer['rules'] for verb in rule['verbs']} == {'get', 'list', 'watch'}
    assert {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get']} in viewer['rules']
    assert 'warpshare-viewer' not in [one['roleRef']['name'] for one in rendered.all('ClusterRoleBinding')]


@pytest.mark.parametrize('values, page', [
    ({}, None),
    ({'metrics': {'nodePage': 'open'}}, 'open'),
    ({'dashboard': {'enabled': True}}, 'open'),
    ({'rbac': {'viewer': True}}, 'open'),
    ({'simulation': {'enabled': True}}, 'open'),
    ({'dashboard': {'enabled': True}, 'metrics': {'nodePage': 'local'}}, None),
    ({'rbac': {'viewer': True}, 'metrics': {'authorization': {'enabled': True}}}, None),
    ({'rbac': {'viewer': True}, 'metrics': {'enabled': False}}, None)])
def test_the_page_of_the_node_is_open_where_something_reads_it_through_the_api_server(program, values, page):
    rendered = chart.render(program, values)
    assert environment(pod(rendered, 'agent')['containers'][0]).get('WARPSHARE_METRICS_NODE_PAGE') == page
    assert ('- metrics.nodePage is open' in rendered.notes) == (page == 'open' and 'simulation' not in values)
    assert ('the dashboard cannot read' in rendered.notes) == (values.get('metrics') == {'nodePage': 'local'})


def test_the_mig_manager_has_what_it_takes_and_only_then(program):
    def seen(values):
        agent = chart.render(program, values).one('DaemonSet', 'warpshare-agent')['spec']['template']['spec']
        container, = agent['containers']
        variables = {one['name']: one.get('value') for one in container['env']}
        return ({name: value for name, value in variables.items() if 'MIG' in name},
                {mount['name']: mount['mountPath'] for mount in container['volumeMounts'] if 'mig' in mount['name']},
                container['securityContext']['capabilities'].get('add'), [one for one in agent['volumes'] if 'mig' in one['name']])

    assert seen({'mig': {'default': 'all-disabled', 'configMap': 'mine'}}) == ({}, {}, None, [])
    variables, mounts, capabilities, volumes = seen({'mig': {'manager': True, 'default': 'all-disabled', 'configMap': 'mine'}})
    assert variables == {'WARPSHARE_MIG_MANAGER': 'true', 'WARPSHARE_MIG_DEFAULT': 'all-disabled', 'WARPSHARE_MIG_CONFIG_FILE':
                         '/mig-configs/config.yaml', 'NVIDIA_MIG_CONFIG_DEVICES': 'all', 'NVIDIA_MIG_MONITOR_DEVICES': 'all'}
    assert mounts == {'mig': '/var/lib/warpshare/mig', 'mig-configs': '/mig-configs'} and capabilities == ['SYS_ADMIN']
    assert volumes == [{'name': 'mig', 'hostPath': {'path': '/var/lib/warpshare/mig', 'type': 'DirectoryOrCreate'}},
                       {'name': 'mig-configs', 'configMap': {'name': 'mine'}}]
    variables, mounts, _, _ = seen({'mig': {'manager': True}})
    assert 'WARPSHARE_MIG_CONFIG_FILE' not in variables and 'WARPSHARE_MIG_DEFAULT' not in variables and mounts == {
        'mig': '/var/lib/warpshare/mig'}


READS = {'apiGroups': [''], 'resources': ['nodes', 'pods'], 'verbs': ['list', 'watch']}
REVIEWS = [{'apiGroups': ['authentication.k8s.io'], 'resources': ['tokenreviews'], 'verbs': ['create']},
           {'apiGroups': ['authorization.k8s.io'], 'resources': ['subjectaccessreviews'], 'verbs': ['create']}]
PROXIED = {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get']}


def test_the_dashboard_knows_the_names_of_its_service_and_those_of_the_values(program):
    rendered = chart.render(program, {'dashboard': {'enabled': True, 'allowedHosts': ['gpus.example.com', 'b']}}, name='x', namespace='gpus')
    service = 'x-warpshare-dashboard'
    assert service in [one['metadata']['name'] for one in rendered.all('Service')]
    spec = rendered.one('Deployment', service)['spec']['template']['spec']
    assert environment(spec['containers'][0])['WARPSHARE_DASHBOARD_ALLOWED_HOSTS'].split(',') == [
        service, service + '.gpus', service + '.gpus.svc', service + '.gpus.svc.cluster.local', 'gpus.example.com', 'b']


@pytest.mark.parametrize('authorization, reviews', [('token', REVIEWS), ('proxy', [])])
def test_the_dashboard_reads_and_asks_who_a_viewer_is_and_no_more(program, authorization, reviews):
    """That this is enough: e2e/dashboard."""
    rendered = chart.render(program, {'dashboard': {'enabled': True, 'authorization': authorization}}, namespace='gpus')
    assert rendered.one('ClusterRole', 'warpshare-dashboard')['rules'] == [READS, *reviews]
    assert rendered.one('Role', 'warpshare-dashboard')['rules'] == [PROXIED]
    for kind, namespace in (('ClusterRoleBinding', None), ('RoleBinding', 'gpus')):
        binding = rendered.one(kind, 'warpshare-dashboard')
        assert binding['metadata'].get('namespace') == namespace
        assert binding['subjects'] == [{'kind': 'ServiceAccount', 'name': 'warpshare-dashboard', 'namespace': 'gpus'}]
    viewers = [one['rules'] for one in rendered.all('ClusterRole') if one['metadata']['name'] == 'warpshare-dashboard-viewer']
    assert viewers == ([[{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['get', 'list']}]] if authorization == 'token' else [])
    assert not [one for one in chart.render(program).objects if 'dashboard' in one['metadata']['name']]


def test_the_dashboard_is_nobody_and_writes_nowhere(program):
    spec = chart.render(program, {'dashboard': {'enabled': True}}).one('Deployment', 'warpshare-dashboard')['spec']['template']['spec']
    assert spec['securityContext'] == {'runAsNonRoot': True, 'runAsUser': 65534, 'runAsGroup': 65534, 'seccompProfile': {'type': 'RuntimeDefault'}}
    container, = spec['containers']
    assert container['securityContext'] == {'allowPrivilegeEscalation': False, 'readOnlyRootFilesystem': True, 'capabilities': {'drop': ['ALL']}}
    assert 'volumes' not in spec and 'volumeMounts' not in container and not spec.get('hostNetwork')


@pytest.mark.parametrize('values, selector', [
    ({}, 'app.kubernetes.io/component=agent,app.kubernetes.io/instance=warpshare,app.kubernetes.io/name=warpshare'),
    ({'selectorLabelsOverride': {'app': 'gpu'}}, 'app=gpu,app.kubernetes.io/component=agent')])
def test_the_dashboard_finds_the_agents_of_this_release(program, values, selector):
    rendered = chart.render(program, {'dashboard': {'enabled': True}, 'namespaceOverride': 'elsewhere', **values})
    container, = rendered.one('Deployment', 'warpshare-dashboard')['spec']['template']['spec']['containers']
    assert environment(container)['WARPSHARE_AGENT_SELECTOR'] == selector
    assert environment(container)['WARPSHARE_AGENT_NAMESPACE'] == 'elsewhere'
    labels = rendered.one('DaemonSet', 'warpshare-agent')['spec']['template']['metadata']['labels']
    assert all(labels[key] == value for key, value in (word.split('=') for word in selector.split(',')))
    service = rendered.one('Service', 'warpshare-dashboard')['spec']
    deployed = rendered.one('Deployment', 'warpshare-dashboard')['spec']['template']['metadata']['labels']
    assert service['selector'].items() <= deployed.items() and service['selector'] != rendered.one(
        'DaemonSet', 'warpshare-agent')['spec']['selector']['matchLabels']


def test_no_node_may_be_written_by_default(program):
    written = {'create', 'update', 'patch', 'delete'}
    rules = [rule for kind in ('ClusterRole', 'Role') for one in chart.render(program, namespace='gpus').all(kind) for rule in one['rules']]
    assert [rule['resources'] for rule in rules if written & set(rule['verbs'])] == [['events']]


def test_what_the_agent_writes_is_tied_to_its_own_node(program):
    rendered = chart.render(program, {'serviceAccount': {'name': 'other'}, 'dra': {'enabled': True}}, namespace='gpus')
    policy, binding = rendered.one('ValidatingAdmissionPolicy', 'warpshare-own-node'), rendered.all('ValidatingAdmissionPolicyBinding')[0]
    assert binding['spec'] == {'policyName': 'warpshare-own-node', 'validationActions': ['Deny']}
    assert policy['spec']['matchConditions'][0]['expression'] == 'request.userInfo.username == "system:serviceaccount:gpus:other"'
    without = chart.render(program, {'rbac': {'admissionPolicy': False}}, namespace='gpus')
    assert not without.all('ValidatingAdmissionPolicy') and 'admission policy' in without.notes


def test_a_driver_of_another_name_may_write_its_own_claims_and_no_others(program):
    rendered = chart.render(program, {'dra': {'enabled': True, 'driverName': 'gpu.example.com'}})
    assert [rule['resourceNames'] for rule in granted(rendered, 'ClusterRole') if 'resourceNames' in rule] == [['gpu.example.com']]


def test_the_supervisor_has_no_way_to_the_api_server(program):
    rendered = chart.render(program, WITH_MPS)
    supervisor = pod(rendered, 'mps')
    assert supervisor['automountServiceAccountToken'] is False
    accounts = {subject['name'] for binding in rendered.all('ClusterRoleBinding') + rendered.all('RoleBinding')
                for subject in binding['subjects']}
    assert supervisor['serviceAccountName'] not in accounts


@pytest.mark.parametrize('enabled', ['auto', True, False])
def test_the_agent_sees_what_the_supervisor_mounts(program, enabled):
    agent = pod(chart.render(program, {'mps': {'enabled': enabled}}), 'agent')['containers'][0]
    mount = [one for one in agent['volumeMounts'] if one['name'] == 'mps'][0]
    assert mount.get('mountPropagation') == ('HostToContainer' if enabled else None)


def context(program, component='agent', **values):
    return pod(chart.render(program, values), component)['containers'][0]['securityContext']


def test_the_agent_has_no_right_that_it_does_not_need(program):
    assert context(program) == {'runAsUser': 0, 'readOnlyRootFilesystem': True, 'allowPrivilegeEscalation': False,
                                'capabilities': {'drop': ['ALL']}, 'seccompProfile': {'type': 'RuntimeDefault'}}
    for values in ({'migStrategy': 'none', 'config': {'name': 'x'}, 'deviceListStrategy': 'envvar'},
                   {'config': {'map': {'default': MPS_CONFIG, 'text': yaml.safe_dump(MPS_CONFIG)}}}):
        assert 'add' not in context(program, **values)['capabilities'], values


@pytest.mark.parametrize('values', [{}, {'compatWithCPUManager': True}, {'mps': {'privileged': False}}, {'simulation': {'enabled': True}},
                                    {'gfd': {'enabled': True}}])
def test_the_root_can_be_written_where_nvidias_hooks_have_to(program, values):
    """crun before 1.26 makes the root read-only before NVIDIA's hooks run: test/fixtures/recorded/host/hooks-and-runtimes.txt."""
    path = os.path.join(chart.SOURCE, 'test/fixtures/recorded/host/hooks-and-runtimes.txt')
    with open(path, encoding='utf-8') as file:
        assert 'crun before 1.26 makes the root read-only BEFORE createContainer hooks run' in file.read()
    for is_read_only in (True, False):
        rendered = chart.render(program, WITH_MPS, {**values, **({} if is_read_only else {'readOnlyRootFilesystem': False})})
        specs = [pod(rendered, component) for component in ('agent', 'mps')]
        specs += [one['spec'] for one in rendered.all('Pod')]
        assert len(specs) == 3
        for spec in specs:
            for container in spec.get('initContainers', []) + spec['containers']:
                assert container['securityContext']['readOnlyRootFilesystem'] is is_read_only, container['name']


@pytest.mark.parametrize('values', [
    {'migStrategy': 'single'}, {'config': {'name': 'x'}}, {'deviceListStrategy': 'volume-mounts'},
    {'gfd': {'enabled': True, 'vgpu': True}},
    {'config': {'map': {'a': 'flags: {migStrategy: mixed}'}}},
    {'config': {'map': {'a': MPS_CONFIG, 'default': {'flags': {'migStrategy': 'single'}}}}},
    {'config': {'map': {'a': 'flags: {plugin: {deviceListStrategy: [volume-mounts]}}'}}}])
def test_mig_volume_mounts_and_vgpus_need_one_capability(program, values):
    found = context(program, **values)
    assert found['capabilities'] == {'drop': ['ALL'], 'add': ['SYS_ADMIN']} and 'privileged' not in found


def test_device_nodes_for_kubelet_need_a_privileged_agent(program):
    assert context(program, compatWithCPUManager=True)['privileged'] is True
    assert context(program, compatWithCPUManager=True, securityContext={'runAsUser': 0}) == {'runAsUser': 0}


def test_a_supervisor_that_is_not_privileged_has_its_capabilities_by_name(program):
    assert context(program, 'mps', **WITH_MPS)['privileged'] is True
    found = context(program, 'mps', mps={'enabled': True, 'privileged': False})
    assert 'privileged' not in found and found['seccompProfile'] == {'type': 'RuntimeDefault'}
    with open(f'{chart.SOURCE}/docs/security.md', encoding='utf-8') as file:
        page = file.read()
    for capability in found['capabilities']['add']:
        assert f'| `{capability}` |' in page, f'docs/security.md does not say what {capability} is for'


# ---- the chart as it is shipped ----

def test_the_chart_needs_nothing_outside_of_its_folder():
    for folder, _, names in os.walk(chart.CHART):
        for name in names:
            assert not os.path.islink(os.path.join(folder, name)), f'{name}: a package of the chart would miss what it links to'


def test_a_digest_wins_over_the_tag(program):
    digest = 'sha256:' + 'ab' * 32
    rendered = chart.render(program, WITH_MPS, {'image': {'tag': 'v9', 'digest': digest}})
    images = {container['image'] for daemons in rendered.all('DaemonSet') for kind in ('containers', 'initContainers')
              for container in daemons['spec']['template']['spec'].get(kind, [])}
    assert images == {f'registry.example.com/warpshare@{digest}'}


def test_labels_of_pods_do_not_change_what_selects_them(program):
    before, after = (chart.render(program, WITH_MPS, values).all('DaemonSet') for values in ({}, {'podLabels': {'team': 'gpu'}}))
    for old, new in zip(before, after):
        assert new['spec']['selector'] == old['spec']['selector']
        assert new['spec']['template']['metadata']['labels'] == {**old['spec']['template']['metadata']['labels'], 'team': 'gpu'}


def test_the_supervisor_may_run_where_the_agent_does_not(program):
    own = [{'key': 'only-mps', 'operator': 'Exists'}]
    rendered = chart.render(program, {'mps': {'enabled': True, 'tolerations': own}, 'node': {'taint': 'a/b=c:NoSchedule'}})
    assert pod(rendered, 'mps')['tolerations'] == own + [{'key': 'a/b', 'operator': 'Exists'}]
    assert {'key': 'only-mps', 'operator': 'Exists'} not in pod(rendered, 'agent')['tolerations']


@pytest.mark.parametrize('simulated', [False, True])
def test_helm_test_asks_for_one_share_and_measures_it(program, simulated):
    hook = chart.render(program, {'simulation': {'enabled': simulated}, 'image': {'repository': 'a/b', 'tag': 'v9'},
                                  'imagePullSecrets': [{'name': 'secret'}]}).one('Pod', 'warpshare-test')
    assert hook['metadata']['annotations']['helm.sh/hook'] == 'test'
    container = hook['spec']['containers'][0]
    assert container['resources'] == {'limits': {'nvidia.com/gpu': 1}} and container['image'] == 'a/b:v9'
    assert hook['spec']['restartPolicy'] == 'Never' and hook['spec']['imagePullSecrets'] == [{'name': 'secret'}]
    assert (container['command'][:2] == ['warpshare', 'probe']) is not simulated  # nothing computes on simulated GPUs


def test_simulated_gpus_have_the_files_of_a_driver_since_cdi_names_them(program, tmp_path):
    rendered = chart.render(program, {'simulation': {'enabled': True, 'gpus': 3}, 'dra': {'enabled': True}})
    spec = pod(rendered, 'agent')
    first, = spec['initContainers']
    assert first['securityContext']['capabilities'] == {'drop': ['ALL'], 'add': ['MKNOD']}
    variables = environment(spec['containers'][0])
    volume, = (one for one in spec['volumes'] if one['name'] == 'driver-root')
    assert volume['hostPath'] == {'path': variables['NVIDIA_DRIVER_ROOT'], 'type': 'DirectoryOrCreate'}
    assert variables['CDI_DISABLE_HOOKS'] == 'all'  # the node need not have NVIDIA's container toolkit
    shell, option, script = first['command']
    script = script.replace('/driver-root', '.').replace('busybox mknod', 'mknod').replace(
        '/usr/lib/warpshare/libwarpshare-nvml-sim.so', os.environ['WARPSHARE_NVML_SIM'])
    for _ in range(2):  # a new agent's pod starts while the one before serves
        subprocess.run([shell, option, script], cwd=tmp_path, check=True, timeout=60)
    version = re.search(r'driverVersion: (\S+)', rendered.one('ConfigMap', 'warpshare-simulation')['data']['gpus.yaml']).group(1)
    assert os.listdir(tmp_path / 'usr/lib64') == [f'libnvidia-ml.so.{version}']
    found = sorted(os.listdir(tmp_path / 'dev'))
    if os.geteuid():
        assert not found  # and the pod starts all the same
    else:
        assert found == ['nvidia-uvm', 'nvidia0', 'nvidia1', 'nvidia2', 'nvidiactl']
        assert all((tmp_path / 'dev' / one).is_char_device() for one in found)


# ---- the processes ----

TURNS = {'version': 'v1', 'sharing': {'timeSlicing': {'resources': [{'name': 'nvidia.com/gpu', 'replicas': 4}]}}}
NO_SHARES = {'version': 'v1', 'dra': {'mps': False}}


@pytest.mark.parametrize('values, is_there', [
    ({}, False),
    ({'config': {'map': {'default': TURNS}}}, False),
    ({'config': {'map': {'default': yaml.safe_dump(TURNS), 'whole': 'version: v1\n'}, 'default': 'whole'}}, False),
    ({'config': {'map': {'default': TURNS, 'other': MPS_CONFIG}}}, True),
    ({'config': {'map': {'default': yaml.safe_dump(MPS_CONFIG)}}}, True),
    ({'config': {'name': 'mine'}}, True),  # which the chart cannot see
    ({'dra': {'enabled': True}}, True),  # claims may be shares
    ({'dra': {'enabled': True}, 'config': {'map': {'default': TURNS}}}, True),
    ({'dra': {'enabled': True}, 'config': {'map': {'default': NO_SHARES}}}, False),
    ({'dra': {'enabled': True}, 'config': {'map': {'default': NO_SHARES, 'other': {'version': 'v1'}}}}, True),
    ({'config': {'map': {'default': MPS_CONFIG}}, 'devicePlugin': {'enabled': False}, 'gfd': {'enabled': True}}, False),
    ({'mps': {'enabled': True}}, True),
])
def test_where_nothing_is_shared_by_mps_no_pod_is_privileged(program, values, is_there):
    rendered = chart.render(program, values)
    assert ('warpshare-mps' in {one['metadata']['name'] for one in rendered.all('DaemonSet')}) is is_there
    assert ('warpshare-mps' in {one['metadata']['name'] for one in rendered.all('ServiceAccount')}) is is_there
    assert is_there or not ['privileged' for text in rendered.texts.values() if 'privileged: true' in text]


@pytest.mark.skipif(chart.HELM is not None, reason='`helm template` asks no cluster')
def test_a_supervisor_that_is_there_outlives_the_last_share(program):
    """Programs of the configuration before end with it, and a change of the configuration ends none."""
    there = ['DaemonSet/warpshare/warpshare-mps']
    values = {'config': {'map': {'default': TURNS}}}
    rendered = chart.render(program, values, upgrade=True, existing=there)
    assert pod(rendered, 'mps') and 'the supervisor warpshare-mps stays' in rendered.notes
    assert 'stays' not in chart.render(program, {'config': {'map': {'default': MPS_CONFIG}}}, upgrade=True, existing=there).notes
    assert len(chart.render(program, values, {'mps': {'enabled': False}}, upgrade=True, existing=there).all('DaemonSet')) == 1


def test_nvidias_own_daemon_takes_the_place_of_the_supervisor_only_where_one_says_so(program):
    values = {'mps': {'enabled': False}, 'config': {'map': {'default': MPS_CONFIG}}}
    with pytest.raises(chart.Refused, match='config.map.default: sharing.mps, and mps.enabled: false leaves out the supervisor .* set mps.enabled to auto'):
        chart.render(program, values)
    values['config']['check'] = False
    assert [one['metadata']['name'] for one in chart.render(program, values).all('DaemonSet')] == ['warpshare-agent']


def test_the_supervisor_is_changed_on_purpose_only(program):
    before = chart.render(program, WITH_MPS)
    assert before.one('DaemonSet', 'warpshare-mps')['spec']['updateStrategy'] == {'type': 'OnDelete'}
    after = chart.render(program, {'config': {'map': {'default': MPS_CONFIG}}, 'updateStrategy': {'type': 'RollingUpdate'}})
    assert pod(after, 'mps') == pod(before, 'mps')


def test_an_update_starts_the_new_agent_beside_the_old_one(program):
    def strategy(values=None):
        return chart.render(program, values).one('DaemonSet', 'warpshare-agent')['spec']['updateStrategy']
    assert strategy() == {'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': 1, 'maxUnavailable': 0}}
    own = {'type': 'RollingUpdate', 'rollingUpdate': {'maxUnavailable': '20%'}}
    assert strategy({'updateStrategy': own}) == own
    assert strategy({'updateStrategy': {'type': 'OnDelete'}}) == {'type': 'OnDelete'}
    # Two agents on the host's network would need the same port.
    host = {'devicePlugin': {'enableHostNetwork': True}}
    assert strategy(host) == {'type': 'RollingUpdate'}
    assert strategy({**host, 'metrics': {'enabled': False}}) == strategy()


def test_the_agent_sees_the_processes_of_the_node_only_where_that_is_wanted(program):
    assert 'hostPID' not in pod(chart.render(program), 'agent')
    assert pod(chart.render(program, {'usage': {'hostPID': True}}), 'agent')['hostPID'] is True


def test_the_ports_of_metrics_can_be_kept_to_some(program):
    def policies(**metrics):
        return [one for one in chart.render(program, {'metrics': metrics}).objects if one['kind'] == 'NetworkPolicy']
    assert not policies() and not policies(enabled=False, networkPolicy={'enabled': True})
    peers = [{'podSelector': {'matchLabels': {'app': 'prometheus'}}}]
    agent, mps = policies(networkPolicy={'enabled': True, 'from': peers})
    assert [one['spec']['ingress'] for one in (agent, mps)] == [
        [{'ports': [{'protocol': 'TCP', 'port': port}], 'from': peers}] for port in (9400, 9401)]
    assert agent['spec']['podSelector'] != mps['spec']['podSelector']


def test_an_agent_that_nobody_can_ask_is_given_ten_seconds(program):
    def seconds(values=None):
        return chart.render(program, values).one('DaemonSet', 'warpshare-agent')['spec'].get('minReadySeconds')
    assert seconds() is None and seconds({'metrics': {'enabled': False}}) == 10


def test_supervisor_and_agent_are_restarted_only_if_their_loop_stands_still(program):
    rendered = chart.render(program, WITH_MPS)
    supervisor, agent = pod(rendered, 'mps')['containers'][0], pod(rendered, 'agent')['containers'][0]
    assert supervisor['readinessProbe']['httpGet']['path'] == '/healthz'
    assert agent['livenessProbe']['httpGet']['path'] == '/livez'
    assert agent['readinessProbe']['httpGet']['path'] == '/healthz'
    # Its clients end with it, so it has minutes. No port that tenants could fill is in between, and none has to be there.
    alive = supervisor['livenessProbe']
    assert alive['exec']['command'] == ['warpshare', 'mps', 'ping'] and alive['periodSeconds'] * alive['failureThreshold'] >= 180
    without = pod(chart.render(program, WITH_MPS, {'metrics': {'enabled': False}}), 'mps')['containers'][0]
    assert without['livenessProbe'] == alive and 'readinessProbe' not in without and 'ports' not in without


def test_clients_have_their_grace_before_kubelet_loses_patience(program):
    for grace in (0, 20, 3600):
        supervisor = pod(chart.render(program, WITH_MPS, {'mps': {'grace': grace}}), 'mps')
        assert supervisor['containers'][0]['args'] == [f'--grace={grace}']
        assert supervisor['terminationGracePeriodSeconds'] > grace + 10


def test_the_nodes_own_taint_keeps_none_of_our_pods_off(program):
    rendered = chart.render(program, WITH_MPS, {'node': {'taint': 'a.b/c=d:NoExecute'}, 'tolerations': []})
    for component in ('agent', 'mps'):
        assert pod(rendered, component)['tolerations'] == [{'key': 'a.b/c', 'operator': 'Exists'}]


def test_a_configuration_arrives_as_it_was_written(program):
    text = '# of ours\nversion: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n'
    rendered = chart.render(program, {'config': {'map': {'default': text, 'table': MPS_CONFIG}}})
    found = rendered.one('ConfigMap', 'warpshare-configs')['data']
    assert found['default'] == text and yaml.safe_load(found['table']) == MPS_CONFIG
    agent = pod(rendered, 'agent')
    assert {'name': 'configs', 'configMap': {'name': 'warpshare-configs'}} in agent['volumes']
    assert environment(agent['containers'][0])['WARPSHARE_CONFIG_DIR'] == '/available-configs'


def test_who_edits_a_configuration_is_not_root_on_the_nodes_by_it(program, tmp_path):
    editor = {'config': {'map': {'default': {'version': 'v1', 'flags': {'plugin': {'nvidiaCTKPath': '/tmp/hook'}}}}}}
    path = tmp_path / 'default'
    for values, words in ((editor, 'flags.plugin.nvidiaCTKPath'), ({**editor, 'configKeysFromFlagsOnly': False}, None)):
        rendered = chart.render(program, values)
        path.write_text(rendered.one('ConfigMap', 'warpshare-configs')['data']['default'], encoding='utf-8')
        told = environment(pod(rendered, 'agent')['containers'][0])
        check = subprocess.run([WARPSHARE, 'agent', '--check', f'--config-file={path}'], capture_output=True, text=True, check=False, env={
            name: value for name, value in told.items() if name.startswith('WARPSHARE_CONFIG_KEYS')})
        if words:
            assert check.returncode and words in check.stderr and '--nvidia-cdi-hook-path or NVIDIA_CDI_HOOK_PATH' in check.stderr, check
        else:
            assert check.returncode == 0, check


def test_without_a_configuration_there_is_no_folder_of_them(program):
    rendered = chart.render(program)
    assert not rendered.all('ConfigMap')
    assert not [name for name in environment(pod(rendered, 'agent')['containers'][0]) if re.search(r'CONFIG(?!_ANNOTATIONS)', name)]
    assert environment(pod(rendered, 'agent')['containers'][0])['WARPSHARE_CONFIG_ANNOTATIONS'] == 'false'


def test_two_releases_do_not_select_each_others_pods(program):
    one, two = chart.render(program, WITH_MPS, name='a'), chart.render(program, WITH_MPS, name='b')
    selectors = [daemons['spec']['selector']['matchLabels'] for daemons in one.all('DaemonSet') + two.all('DaemonSet')]
    assert len({tuple(sorted(selector.items())) for selector in selectors}) == 4
    names = {(kind['kind'], kind['metadata']['name']) for kind in one.objects}
    assert not names & {(kind['kind'], kind['metadata']['name']) for kind in two.objects}


# ---- alerts and dashboards ----

def test_the_alerts_are_those_of_the_plain_file(program):
    rendered = chart.render(program, {'metrics': {'rules': {'enabled': True}}})
    assert rendered.one('PrometheusRule', 'warpshare')['spec'] == yaml.safe_load(file_of_the_chart('rules.yaml'))
    assert not chart.render(program).all('PrometheusRule')
    assert not chart.render(program, {'metrics': {'enabled': False, 'rules': {'enabled': True}}}).all('PrometheusRule')


def test_an_alert_can_be_left_out_and_leads_to_where_the_page_is_served(program):
    values = {'metrics': {'rules': {'enabled': True, 'disabled': ['WarpshareChangePending'], 'runbooks': 'https://docs.example.com/alerts.md'}}}
    groups = chart.render(program, values).one('PrometheusRule', 'warpshare')['spec']['groups']
    links = {rule['alert']: rule['annotations']['runbook_url'] for group in groups for rule in group['rules']}
    assert 'WarpshareChangePending' not in links
    assert links['WarpshareGPULost'] == 'https://docs.example.com/alerts.md#warpsharegpulost'
    assert all(link.startswith('https://') for link in links.values())


def test_grafana_gets_the_dashboards_as_they_are(program):
    found = chart.render(program, {'metrics': {'dashboards': {'enabled': True}}}).one('ConfigMap', 'warpshare-dashboards')
    names = sorted(os.listdir(f'{chart.CHART}/files/dashboards'))
    assert found['data'] == {f'warpshare-{name}': file_of_the_chart(f'dashboards/{name}') for name in names}
    assert found['metadata']['labels']['grafana_dashboard'] == '1'


@pytest.mark.parametrize('values, kind, endpoints', [
    ({'podMonitor': {'enabled': True}}, 'PodMonitor', 'podMetricsEndpoints'),
    ({'service': {'enabled': True}, 'serviceMonitor': {'enabled': True}}, 'ServiceMonitor', 'endpoints')])
def test_series_have_the_name_of_the_node_and_no_pod_of_the_agent(program, values, kind, endpoints):
    endpoint, = chart.render(program, {'metrics': values}).one(kind, 'warpshare')['spec'][endpoints]
    assert endpoint['honorLabels'] is True
    assert endpoint['relabelings'] == [{'sourceLabels': ['__meta_kubernetes_pod_node_name'], 'targetLabel': 'node'},
                                       {'action': 'labeldrop', 'regex': 'namespace|pod|container'}]


# ---- DRA ----

def test_each_type_of_device_has_a_class(program):
    rendered = chart.render(program, {'dra': {'enabled': True, 'deviceClasses': {'extendedResourceNames': {'shared': 'nvidia.com/gpu.shared'}}}})
    classes = {one['metadata']['name']: one['spec'] for one in rendered.all('DeviceClass')}
    driver = 'gpu.warpshare.dev'
    types = {driver: 'gpu', 'shared.' + driver: 'shared-gpu', 'timeslice.' + driver: 'timeslice-gpu', 'mig.' + driver: 'mig',
             'shared-mig.' + driver: 'shared-mig', 'timeslice-mig.' + driver: 'timeslice-mig'}
    assert {name: spec['selectors'] for name, spec in classes.items()} == {
        name: [{'cel': {'expression': f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'}}]
        for name, kind in types.items()}
    assert {name: spec.get('extendedResourceName') for name, spec in classes.items() if 'extendedResourceName' in spec} == {
        'shared.' + driver: 'nvidia.com/gpu.shared'}
    assert not chart.render(program).all('DeviceClass')


@pytest.mark.parametrize('kubernetes, version, has_names', [(36, 'v1', True), (34, 'v1', True), (33, 'v1beta2', False), (32, 'v1beta1', False)])
def test_classes_are_of_the_version_that_the_cluster_has(program, kubernetes, version, has_names):
    values = {'dra': {'enabled': True, 'deviceClasses': {'extendedResourceNames': {'gpu': 'nvidia.com/gpu'}}}}
    classes = chart.render(program, values, kubernetes=kubernetes).all('DeviceClass')
    assert {one['apiVersion'] for one in classes} == {f'resource.k8s.io/{version}'}
    assert any('extendedResourceName' in one['spec'] for one in classes) == has_names


def test_a_cluster_without_dra_is_refused(program):
    with pytest.raises(chart.Refused, match='dra.enabled needs Kubernetes 1.32 or newer, and this is v1.31.0'):
        chart.render(program, {'dra': {'enabled': True}}, kubernetes=31)
    assert chart.render(program, kubernetes=31).objects


def test_a_cluster_without_admission_policies_gets_none_and_a_note(program):
    assert not chart.render(program, kubernetes=29).all('ValidatingAdmissionPolicy')
    assert 'no admission policy' in chart.render(program, kubernetes=29).notes
    assert chart.render(program, kubernetes=30).all('ValidatingAdmissionPolicy')


@pytest.mark.parametrize('config, types', [
    ({'timeSlicing': True}, {'gpu', 'shared-gpu', 'timeslice-gpu', 'mig', 'shared-mig', 'timeslice-mig'}),
    ({'whole': False}, {'shared-gpu', 'shared-mig'}),
])
def test_the_classes_select_the_devices_that_the_program_offers(tmp_path, config, types):
    """What the program says of a device, and what the classes ask for, are the same words."""
    path = tmp_path / 'config.yaml'
    path.write_text(yaml.safe_dump({'dra': {'enabled': True, **config}, 'flags': {'mpsRoot': '/run/nvidia/mps'}}), encoding='utf-8')
    told = json.loads(subprocess.run(
        [WARPSHARE, 'plan', '--config-file', path, '--scenario', f'{chart.SOURCE}/sim/scenarios/a100-mig.yaml', '--output', 'json',
         '--nvml-library', os.environ['WARPSHARE_NVML_SIM']], capture_output=True, text=True, check=True).stdout)
    assert {device['attributes']['type']['string'] for one in told['dra']['resourceSlices'] for device in one['spec'].get('devices', [])} == types


def test_with_dra_the_agent_has_kubelets_folders_and_an_instance(program):
    agent = pod(chart.render(program, {'dra': {'enabled': True, 'driverName': 'gpu.example.com'}}), 'agent')
    container = agent['containers'][0]
    paths = {one['name']: one['hostPath'] for one in agent['volumes']}
    assert paths['plugins-registry'] == {'path': '/var/lib/kubelet/plugins_registry', 'type': 'Directory'}
    assert paths['dra'] == {'path': '/var/lib/kubelet/plugins/gpu.example.com', 'type': 'DirectoryOrCreate'}
    # kubelet dials the path that the agent names, so it is the same on both sides.
    for mount in container['volumeMounts']:
        assert mount['name'] not in ('plugins-registry', 'dra') or mount['mountPath'] == paths[mount['name']]['path']
    uid = [one for one in container['env'] if one['name'] == 'POD_UID']
    assert uid == [{'name': 'POD_UID', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.uid'}}}]
    assert environment(container).items() >= {'WARPSHARE_DRA': 'true', 'WARPSHARE_DRA_DRIVER_NAME': 'gpu.example.com'}.items()
    without = pod(chart.render(program), 'agent')
    assert not {'plugins-registry', 'dra'} & {one['name'] for one in without['volumes']}
    assert not {'POD_UID', 'WARPSHARE_DRA'} & environment(without['containers'][0]).keys()


def test_who_makes_mig_devices_has_the_rights_for_it_and_nobody_else(program):
    rights = {'NVIDIA_MIG_CONFIG_DEVICES': 'all', 'NVIDIA_MIG_MONITOR_DEVICES': 'all', 'WARPSHARE_DRA_DYNAMIC_MIG': 'true'}
    container = pod(chart.render(program, {'dra': {'enabled': True, 'dynamicMig': True}}), 'agent')['containers'][0]
    assert environment(container).items() >= rights.items()
    assert container['securityContext']['capabilities']['add'] == ['SYS_ADMIN']
    for dra in ({'enabled': True}, {'dynamicMig': True}):
        container = pod(chart.render(program, {'dra': dra}), 'agent')['containers'][0]
        assert not rights.keys() & environment(container).keys()
        assert 'add' not in container['securityContext']['capabilities']


@pytest.mark.parametrize('values, root', [
    ({'dra': {'enabled': True}}, '/'), ({'dra': {'enabled': True}, 'nvidiaDriverRoot': '/run/nvidia/driver'}, '/run/nvidia/driver'), ({}, None)])
def test_the_driver_whose_files_claims_name_is_mounted(program, values, root):
    agent = pod(chart.render(program, values), 'agent')
    volumes = [one['hostPath']['path'] for one in agent['volumes'] if one['name'] == 'driver-root']
    mounts = [one for one in agent['containers'][0]['volumeMounts'] if one['name'] == 'driver-root']
    assert volumes == [root] * bool(root)
    assert mounts == [{'name': 'driver-root', 'mountPath': '/driver-root', 'readOnly': True, 'mountPropagation': 'HostToContainer'}] * bool(root)


def test_a_socket_with_the_longest_name_has_room(program):
    for root, name in (('/var/lib/kubelet', 'a' * 55), ('/var/snap/microk8s/common/var/lib/kubelet', 'gpu.of-a-team.example.com.1234')):
        agent = pod(chart.render(program, {'kubeletRootDir': root, 'dra': {'enabled': True, 'driverName': name}}), 'agent')
        registry = [one['hostPath']['path'] for one in agent['volumes'] if one['name'] == 'plugins-registry'][0]
        assert len(f'{registry}/{name}-01234567-reg.sock') == 107  # and a NUL: sun_path has 108 bytes. The hash: src/node/dra/registration.h


def test_kubelets_root_is_where_it_is_on_the_host_and_device_plugins_stay(program):
    root = '/var/lib/k0s/kubelet'
    agent = pod(chart.render(program, {'kubeletRootDir': root, 'dra': {'enabled': True}}), 'agent')
    container, = agent['containers']
    hosts = {one['name']: one['hostPath']['path'] for one in agent['volumes'] if 'hostPath' in one}
    mounts = {one['name']: one['mountPath'] for one in container['volumeMounts']}
    found = {name: path for name, path in hosts.items() if 'kubelet' in path}
    assert found == {'device-plugins': '/var/lib/kubelet/device-plugins', 'pod-resources': f'{root}/pod-resources',
                     'pods-api': f'{root}/pods-api',
                     'plugins-registry': f'{root}/plugins_registry', 'dra': f'{root}/plugins/gpu.warpshare.dev'}
    assert found.items() <= mounts.items()
    assert environment(container)['WARPSHARE_KUBELET_ROOT'] == root


def test_notes_say_how_to_see_what_dra_offers(program):
    notes = chart.render(program, {'dra': {'enabled': True, 'driverName': 'gpu.example.com'}}).notes
    assert 'kubectl get resourceslices --field-selector spec.driver=gpu.example.com' in notes
    assert 'nobody enforces shares' in chart.render(program, {'dra': {'enabled': True}, 'mps': {'enabled': False}}).notes
    assert 'resourceslices' not in chart.render(program).notes


# ---- NVIDIA's values ----

NVIDIA = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'nvidia-values.yaml')


def test_a_values_file_for_nvidias_chart_works(program):
    rendered = chart.render(program, NVIDIA, {'image': {'repository': 'registry.example.com/warpshare', 'tag': None}},
                            name='nvdp', namespace='nvidia-device-plugin')
    agent = pod(rendered, 'agent', 'nvdp-warpshare')
    found = environment(agent['containers'][0])
    assert found.items() >= {
        'MIG_STRATEGY': 'single', 'FAIL_ON_INIT_ERROR': 'false', 'DEVICE_LIST_STRATEGY': 'cdi-cri', 'DEVICE_ID_STRATEGY': 'index',
        'NVIDIA_DRIVER_ROOT': '/run/nvidia/driver', 'GDRCOPY_ENABLED': 'true', 'NVIDIA_CDI_HOOK_PATH': '/opt/nvidia-cdi-hook',
        'CDI_FEATURE_FLAGS': 'x', 'MPS_ROOT': '/var/mps', 'WARPSHARE_CONFIG_DEFAULT': 'shared',
        'NVIDIA_VISIBLE_DEVICES': 'all', 'NVIDIA_MIG_MONITOR_DEVICES': 'all', 'WARPSHARE_LABELS_OUTPUT': 'nodefeature'}.items()
    assert agent['runtimeClassName'] == 'nvidia' and agent['nodeSelector'] == {'pool': 'gpu'}
    for words in ('nfd:', 'gfd.securityContext', 'gfd.sleepInterval', 'componentSelectorLabels'):
        assert f'\n- {words}' in rendered.notes, rendered.notes
    with pytest.raises(chart.Refused, match='image.repository'):
        chart.render(program, NVIDIA)


def test_notes_name_node_feature_discovery_where_labels_need_it(program):
    for values, is_named in (({}, False), ({'gfd': {'enabled': True}}, True), ({'gfd': {'enabled': True, 'output': 'file'}}, True),
                             ({'gfd': {'enabled': True, 'output': 'node'}}, False), ({'nfd': {'master': {}}}, True)):
        assert ('\n- nfd:' in chart.render(program, values).notes) == is_named, values


def test_notes_warn_of_pods_that_name_gpus_themselves_and_name_what_is_safe(program):
    def of_map(*strategies):
        return {'config': {'map': {position and 'c%d' % position or 'default': yaml.safe_dump(
            {'version': 'v1', **({'flags': {'plugin': {'deviceListStrategy': strategy}}} if strategy else {})})
            for position, strategy in enumerate(strategies)}}}

    for values, is_warned in (
            ({}, True), ({'deviceListStrategy': 'envvar'}, True), ({'deviceListStrategy': ['envvar', 'volume-mounts']}, True),
            ({'deviceListStrategy': 'cdi-cri'}, False), ({'deviceListStrategy': 'volume-mounts'}, False),
            ({'deviceListStrategy': 'cdi-annotations,envvar'}, False), (of_map(None), True), (of_map('cdi-cri', 'envvar'), True),
            (of_map(['cdi-annotations', 'cdi-cri'], 'volume-mounts'), False), ({**of_map('envvar'), 'deviceListStrategy': 'cdi-cri'}, False),
            ({'config': {'name': 'other'}}, True), ({'simulation': {'enabled': True}}, False)):
        notes = chart.render(program, values).notes
        assert ('\n- deviceListStrategy envvar: a pod gets past every share' in notes) == is_warned, (values, notes)
    for words in ('accept-nvidia-visible-devices-envvar-when-unprivileged = true (the default)', 'cdi-cri and cdi-annotations',
                  'accept-nvidia-visible-devices-as-volume-mounts = true'):
        assert words in chart.render(program).notes


def test_notes_have_the_next_command(program):
    notes = chart.render(program, name='x', namespace='gpus').notes
    assert 'kubectl -n gpus rollout status daemonset/x-warpshare-agent' in notes and 'placeholder' in notes
    real = {'image': {'repository': 'registry.local/warpshare'}, 'config': {'map': {'default': MPS_CONFIG, 'b': ''}}}
    notes = chart.render(program, real).notes
    assert 'placeholder' not in notes and 'one of: b, default' in notes and 'drain the node' not in notes
    assert 'drain the node' in chart.render(program, real, upgrade=True).notes
