# SPDX-License-Identifier: Apache-2.0
"""Whether an object is one that an API server takes: its structure, by the models of Kubernetes' own Python client, which are
generated from the API's description (Debian: python3-kubernetes), every field of every object; and those of the server's own
rules that a chart can break, in words of ours."""
import re

from kubernetes.client import models

# The Prometheus operator's, as far as it is used.
MONITOR = {'selector': {'matchLabels': dict}, 'namespaceSelector': {'matchNames': list}}
MONITORED = [{'port': str, 'interval': str, 'honorLabels': bool, 'authorization': {'credentials': {'name': str, 'key': str}}, 'bearerTokenFile': str,
              'scheme': str, 'tlsConfig': {'insecureSkipVerify': bool, 'serverName': str},
              'relabelings': [{'sourceLabels': list, 'targetLabel': str, 'action': str, 'regex': str}]}]
RULE = {'alert': str, 'expr': str, 'for': str, 'labels': dict, 'annotations': dict}
MONITORS = {'PodMonitor': {**MONITOR, 'podMetricsEndpoints': MONITORED}, 'ServiceMonitor': {**MONITOR, 'endpoints': MONITORED},
            'PrometheusRule': {'groups': [{'name': str, 'rules': [RULE]}]}}
SCALARS = {'str': (str,), 'bool': (bool,), 'int': (int,), 'float': (int, float), 'datetime': (str,), 'object': (object,)}
LABEL_VALUE = re.compile(r'([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z')
LABEL_KEY = re.compile(r'([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z')
NAME = re.compile(r'[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z')
SHORT_NAME = re.compile(r'[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z')
# Newer than Debian's client; as far as it is used.
ADMISSION_POLICY = {
    'failurePolicy': str,
    'matchConstraints': {'matchPolicy': str, 'resourceRules': [{'apiGroups': list, 'apiVersions': list, 'operations': list, 'resources': list}]},
    'matchConditions': [{'name': str, 'expression': str}], 'variables': [{'name': str, 'expression': str}],
    'validations': [{'expression': str, 'reason': str, 'message': str, 'messageExpression': str}]}
SHAPES = {'ValidatingAdmissionPolicy': ADMISSION_POLICY,
          'ValidatingAdmissionPolicyBinding': {'policyName': str, 'validationActions': list},
          'DeviceClass': {'selectors': [{'cel': {'expression': str}}], 'extendedResourceName': str}}
GROUPS = {'DeviceClass': 'resource.k8s.io/v1'}  # of these; else that of admission policies
VERSIONS = ('v1', 'apps/v1', 'networking.k8s.io/v1', 'rbac.authorization.k8s.io/v1')
CLUSTER_KINDS = {'ClusterRole', 'ClusterRoleBinding', 'Namespace', *SHAPES}


def decode(kind, value, where):
    """As the type, strictly: an unknown field, a wrong type and a missing field are errors."""
    if kind.startswith('list['):
        assert isinstance(value, list), f'{where}: {value!r} is no list'
        return [decode(kind[5:-1], one, f'{where}[{number}]') for number, one in enumerate(value)]
    if kind.startswith('dict('):
        assert isinstance(value, dict), f'{where}: {value!r} is no table'
        inner = kind[5:-1].split(', ')[1]
        return {key: decode(inner, one, f'{where}.{key}') for key, one in value.items()}
    if kind in SCALARS:
        right = isinstance(value, SCALARS[kind]) and not (kind in ('int', 'float') and isinstance(value, bool))
        assert right, f'{where}: {value!r} is no {kind}'
        return value
    if kind == 'V1ResourceRequirements':  # quantities may be numbers
        value = {name: {key: str(one) for key, one in table.items()} for name, table in value.items()}
    model = getattr(models, kind)
    assert isinstance(value, dict), f'{where}: {value!r} is no {kind}'
    fields = {name: field for field, name in model.attribute_map.items()}
    decoded = {}
    for name, one in value.items():
        assert name in fields, f'{where}.{name}: {kind} has no such field'
        assert one is not None, f'{where}.{name}: nothing'
        decoded[fields[name]] = decode(model.openapi_types[fields[name]], one, f'{where}.{name}')
    try:
        return model(**decoded)
    except ValueError as error:  # a field that is needed is missing, or a value is none of the legal ones
        raise AssertionError(f'{where}: {error}') from error


def match(shape, value, where):
    if isinstance(shape, dict):
        assert isinstance(value, dict), f'{where}: {value!r} is no table'
        for name, one in value.items():
            assert name in shape, f'{where}.{name}: there is no such field'
            match(shape[name], one, f'{where}.{name}')
    elif isinstance(shape, list):
        assert isinstance(value, list) and value, f'{where}: {value!r} is no list'
        for number, one in enumerate(value):
            match(shape[0], one, f'{where}[{number}]')
    else:
        assert isinstance(value, shape), f'{where}: {value!r} is no {shape.__name__}'


def check_labels(labels, where):
    for key, value in (labels or {}).items():
        assert LABEL_KEY.match(key), f'{where}: {key!r} is no key of a label'
        assert isinstance(value, str) and LABEL_VALUE.match(value), f'{where}: {key}={value!r} is no label'


def unique(values, where):
    values = list(values)
    assert len(set(values)) == len(values), f'{where}: not each once: {values}'


def check_security(context, pod, where):
    added = context.get('capabilities', {}).get('add', [])
    for capability in added:
        assert not capability.startswith('CAP_'), f'{where}: Kubernetes writes {capability} without CAP_'
    if context.get('privileged') or 'SYS_ADMIN' in added:
        assert context.get('allowPrivilegeEscalation') is not False, f'{where}: allowPrivilegeEscalation is false'
    if pod.get('securityContext', {}).get('runAsNonRoot') or context.get('runAsNonRoot'):
        assert context.get('runAsUser') != 0, f'{where}: root, and runAsNonRoot'


def check_pod(pod, where):
    volumes = {one['name'] for one in pod.get('volumes', [])}
    unique((one['name'] for one in pod.get('volumes', [])), f'{where}: volumes')
    for volume in pod.get('volumes', []):
        assert len(volume) == 2, f'{where}: volume {volume} is not of one kind'
        assert '..' not in volume.get('hostPath', {}).get('path', '/').split('/'), f'{where}: {volume}'
    containers = pod.get('initContainers', []) + pod['containers']
    unique((one['name'] for one in containers), f'{where}: containers')
    assert not (pod.get('hostPID') and pod.get('shareProcessNamespace')), f'{where}: hostPID and shareProcessNamespace'
    for one in containers:
        at = f'{where}.{one["name"]}'
        assert SHORT_NAME.match(one['name']), at
        unique((entry['name'] for entry in one.get('env', [])), f'{at}: env')
        unique((port['name'] for port in one.get('ports', [])), f'{at}: ports')
        unique((mount['mountPath'] for mount in one.get('volumeMounts', [])), f'{at}: volumeMounts')
        context = one.get('securityContext', {})
        check_security(context, pod, at)
        for mount in one.get('volumeMounts', []):
            assert mount['name'] in volumes, f'{at}: there is no volume {mount["name"]}'
            if mount.get('mountPropagation') == 'Bidirectional':
                assert context.get('privileged'), f'{at}: Bidirectional is for privileged containers only'
        for name in ('livenessProbe', 'readinessProbe', 'startupProbe'):
            port = one.get(name, {}).get('httpGet', {}).get('port')
            if isinstance(port, str):
                assert port in [entry['name'] for entry in one['ports']], f'{at}.{name}: there is no port {port}'
        for entry in one.get('env', []):
            assert ('value' in entry) != ('valueFrom' in entry), f'{at}: {entry}'


def check(thing):
    """AssertionError, with the place, unless an API server would take it."""
    kind, metadata = thing['kind'], thing['metadata']
    where = f'{kind} {metadata["name"]}'
    if kind in MONITORS:
        assert thing['apiVersion'] == 'monitoring.coreos.com/v1', where
        decode('V1ObjectMeta', metadata, f'{where}: metadata')
        match(MONITORS[kind], thing['spec'], f'{where}: spec')
    elif kind in SHAPES:
        assert thing['apiVersion'] == GROUPS.get(kind, 'admissionregistration.k8s.io/v1'), where
        decode('V1ObjectMeta', metadata, f'{where}: metadata')
        match(SHAPES[kind], thing['spec'], f'{where}: spec')
    else:
        assert thing['apiVersion'] in VERSIONS, f'{where}: {thing["apiVersion"]}'
        decode(f'V1{kind}', thing, where)
    assert NAME.match(metadata['name']), where
    assert ('namespace' in metadata) == (kind not in CLUSTER_KINDS), f'{where}: namespace'
    check_labels(metadata.get('labels'), where)
    if kind in ('DaemonSet', 'Deployment'):
        template = thing['spec']['template']
        selector = thing['spec']['selector']['matchLabels']
        check_labels(template['metadata']['labels'], where)
        assert selector and selector.items() <= template['metadata']['labels'].items(), f'{where}: the selector selects no pod'
        assert len(metadata['name']) <= 63, f'{where}: the name is too long for a label'
        check_pod(template['spec'], where)
    if kind == 'Pod':
        check_pod(thing['spec'], where)
    if kind == 'ConfigMap':
        for key in thing.get('data', {}):
            assert re.match(r'[-._a-zA-Z0-9]{1,253}\Z', key), f'{where}: {key}'
