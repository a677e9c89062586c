# SPDX-License-Identifier: Apache-2.0
"""What a stolen token of the agent may write, by the policy <release>-own-node: each kind, verb and subresource. Nodes, slices and claims are
as Kubernetes 1.36 has them. That the agent's own writes are admitted is tried by its end-to-end tests, too: test/e2e/cluster.py."""
import copy
import json
import os
import re
import subprocess

import admission
import chart
import pytest
import yaml
from admission import Policy, Review, agent_of

OWN, OTHER = agent_of('node1'), agent_of('node2')
DRIVER = 'gpu.warpshare.dev'
TAINT = {'key': 'nvidia.com/gpu-sharing', 'value': 'unavailable', 'effect': 'NoSchedule'}
VALUES = {'events': 'pods', 'node': {'taint': 'nvidia.com/gpu-sharing=unavailable:NoSchedule', 'condition': 'GPUSharingReady'},
          'mig': {'manager': True, 'evict': True}, 'gfd': {'enabled': True}, 'dra': {'enabled': True}}


def recorded(name):
    head, _, body = (admission.SOURCE / 'test/fixtures' / name).read_text(encoding='utf-8').partition('\n\n')
    assert head.startswith('HTTP/')
    return json.loads(body)


def render(program, values, **more):
    return Policy(chart.render(program, values, **more).one('ValidatingAdmissionPolicy', 'warpshare-own-node')['spec'])


@pytest.fixture(scope='session', name='policy')
def policy_of_everything(program):
    return render(program, VALUES)


def changed(object_, **paths):
    """A copy with other values: spec__taints=[…]; None removes."""
    made = copy.deepcopy(object_)
    for path, value in paths.items():
        *steps, last = path.split('__')
        at = made
        for step in steps:
            at = at.setdefault(step, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    made['metadata']['resourceVersion'] = '99999'
    return made


def with_items(object_, part, **items):
    """A copy with other labels or annotations; None removes. |items| by key."""
    made = changed(object_)
    table = made['metadata'].setdefault(part, {})
    for key, value in items.items():
        table.pop(key, None)
        if value is not None:
            table[key] = value
    return made


def check(policy, review, refusal):
    """|refusal|: a word of the one message; None: it is admitted."""
    assert policy.matches(review), 'the policy is not about it'
    found = policy.refusals(review)
    if refusal is None:
        assert not found
    else:
        assert any(refusal in text for text in found), found
        assert not any('resulted in error' in text for text in found), found


# ---- of every request ----

def test_the_api_server_can_parse_every_expression(policy):
    assert not policy.faults()


def test_others_than_the_agent_are_not_concerned(policy):
    node = recorded('kube-apiserver-1.36/node-merge-patch.http')
    for account in ('system:node:node2', 'system:serviceaccount:warpshare:other', 'system:serviceaccount:other:warpshare'):
        assert not policy.matches(Review('UPDATE', 'nodes', agent_of('node2', account), changed(node, spec__unschedulable=True), node))


def test_the_namespace_of_the_account_is_where_its_objects_are(program):
    policy = render(program, VALUES, namespace='gpus')
    own = agent_of('node1', 'system:serviceaccount:gpus:warpshare')
    check(policy, Review('CREATE', 'nodefeatures', own, feature(metadata__namespace='gpus')), None)
    check(policy, Review('CREATE', 'nodefeatures', own, feature()), 'in the namespace gpus')


def test_a_token_that_names_no_node_may_write_nothing(policy):
    node = recorded('kube-apiserver-1.36/node-merge-patch.http')
    for user in (agent_of(None), {**agent_of(None), 'extra': {'authentication.kubernetes.io/credential-id': ['x']}}):
        check(policy, Review('UPDATE', 'nodes', user, node, node), 'names none')


# ---- the node ----

@pytest.fixture(scope='session', name='node')
def a_node():
    """With a taint of somebody else, and ours, as it is while no GPU can be shared."""
    node = recorded('kube-apiserver-1.36/node-merge-patch.http')
    node['metadata']['labels']['node-restriction.kubernetes.io/pool'] = 'a'
    node['metadata']['annotations']['warpshare.dev/taint'] = 'nvidia.com/gpu-sharing=unavailable:NoSchedule'
    node['spec']['taints'] = [{'key': 'team', 'effect': 'NoExecute'}, TAINT]
    node['status']['conditions'].append({'type': 'GPUSharingReady', 'status': 'False', 'reason': 'NoHealthyGPU', 'message': 'none of 4 units is healthy'})
    return node


@pytest.fixture(params=['nodes', 'nodes/status'], name='resource')
def resource_of_node(request):
    """The API server takes metadata by both."""
    return request.param


@pytest.mark.parametrize('operation', ['CREATE', 'UPDATE', 'DELETE'])
def test_another_node_is_not_touched(policy, node, resource, operation):
    review = Review(operation, resource, OTHER, None if operation == 'DELETE' else node, None if operation == 'CREATE' else node)
    check(policy, review, 'another node')


@pytest.mark.parametrize('operation', ['CREATE', 'DELETE'])
def test_its_own_node_is_neither_made_nor_deleted(policy, node, operation):
    for is_nameless in (False, True):
        review = Review(operation, 'nodes', OWN, node if operation == 'CREATE' else None, node if operation == 'DELETE' else None, is_nameless=is_nameless)
        check(policy, review, f'never does {operation} of nodes')


@pytest.mark.parametrize('key, refusal', [
    ('nvidia.com/gpu.product', None), ('nvidia.com/gpu.count', None), ('nvidia.com/gpu.compute.major', None), ('nvidia.com/cuda.driver-version.full', None),
    ('nvidia.com/mig-1g.10gb.engines.copy', None), ('nvidia.com/mig-1g.10gb.me.slices.gi', None), ('nvidia.com/mig.config.state', None),
    ('nvidia.com/gfd.timestamp', None), ('nvidia.com/vgpu.host-driver-branch', None), ('warpshare.dev/product.NVIDIA-H100', None),
    ('node-restriction.kubernetes.io/pool', 'only labels'), ('node-restriction.kubernetes.io/other', 'only labels'),
    ('kubernetes.io/hostname', 'only labels'), ('node-role.kubernetes.io/control-plane', 'only labels'), ('team', 'only labels'),
    ('topology.kubernetes.io/zone', 'only labels'), ('evil.warpshare.dev/x', 'only labels'), ('xwarpshare.dev/x', 'only labels'),
    # What they say is done to the node, by the GPU Operator, a MIG manager or the agent itself.
    ('nvidia.com/gpu.deploy.driver', 'only labels'), ('nvidia.com/mig.config', 'only labels'), ('nvidia.com/mig.config.drain', 'only labels'),
    ('nvidia.com/device-plugin.config', 'only labels'), ('nvidia.com/gpu-driver-upgrade-state', 'only labels'),
    ('nvidia.com/vgpu.config', 'only labels'), ('nvidia.com/gpu.workload.config', 'only labels'), ('nvidia.com/gpu.present', 'only labels'),
    ('evil.nvidia.com/gpu.product', 'only labels'), ('nvidia.com/gpu.product\nteam', 'only labels'),
])
def test_only_its_own_labels_are_set_changed_and_removed(policy, node, resource, key, refusal):
    without, with_, other = (with_items(node, 'labels', **{key: value}) for value in (None, 'a', 'b'))
    for new, old in ((with_, without), (other, with_), (without, with_)):
        check(policy, Review('UPDATE', resource, OWN, new, old), refusal)


def test_the_labels_cannot_go_all_at_once(policy, node, resource):
    check(policy, Review('UPDATE', resource, OWN, changed(node, metadata__labels=None), node), 'only labels')


@pytest.mark.parametrize('key, refusal', [
    ('warpshare.dev/config', None), ('warpshare.dev/config-status', None), ('warpshare.dev/mig-config.reason', None),
    ('volumes.kubernetes.io/controller-managed-attach-detach', 'only annotations'), ('csi.volume.kubernetes.io/nodeid', 'only annotations'),
    ('warpshare.dev.evil/x', 'only annotations'), ('cluster-autoscaler.kubernetes.io/scale-down-disabled', 'only annotations'),
])
def test_only_its_own_annotations_are_set_changed_and_removed(policy, node, resource, key, refusal):
    without, with_, other = (with_items(node, 'annotations', **{key: value}) for value in (None, 'a', 'b'))
    for new, old in ((with_, without), (other, with_), (without, with_)):
        check(policy, Review('UPDATE', resource, OWN, new, old), refusal)


NOTE = 'warpshare.dev/taint'
TEXT = 'nvidia.com/gpu-sharing=unavailable:NoSchedule'
TEAM = {'key': 'team', 'effect': 'NoExecute'}


def tainted(node, taints, note):
    return changed(with_items(node, 'annotations', **{NOTE: note}), spec__taints=taints)


@pytest.mark.parametrize('before, after, refusal', [
    (([TEAM], None), ([TEAM, TAINT], TEXT), None),
    ((None, None), ([TAINT], TEXT), None),
    (([TEAM, TAINT], TEXT), ([TEAM], None), None),
    (([TAINT], TEXT), (None, None), None),
    (([TAINT, TEAM], TEXT), ([TEAM, TAINT], TEXT), None),  # in another order
    # One that node.taint said before is removed with the new one.
    (([TEAM, {'key': 'old', 'effect': 'NoSchedule'}], 'old:NoSchedule'), ([TEAM, TAINT], TEXT), None),
    (([TEAM, TAINT], TEXT), ([TAINT], TEXT), 'remove none'),
    (([TEAM, TAINT], TEXT), (None, None), 'remove none'),
    (([TEAM, TAINT], TEXT), ([], None), 'remove none'),
    (([TEAM, TAINT], None), ([TEAM], None), 'remove none'),  # somebody else's, with the same words
    (([TEAM], None), ([TEAM, {'key': 'x', 'effect': 'NoExecute'}], None), 'add no taint'),
    (([TEAM], None), ([TEAM, {**TAINT, 'effect': 'NoExecute'}], TEXT), 'add no taint'),
    (([TEAM], None), ([TEAM, {**TAINT, 'value': 'other'}], TEXT), 'add no taint'),
    (([TEAM], None), ([{**TEAM, 'effect': 'NoSchedule'}], None), 'add no taint'),
    (([TEAM], None), ([{**TEAM, 'value': 'x'}], None), 'add no taint'),
    # First to call it one's own, then to remove it.
    (([TEAM], None), ([TEAM], 'team:NoExecute'), 'its own'),
    (([TEAM, TAINT], TEXT), ([TEAM, TAINT], 'team:NoExecute'), 'its own'),
    (([TEAM], None), ([], 'team:NoExecute'), 'its own'),
])
def test_only_its_own_taint_comes_and_goes(policy, node, resource, before, after, refusal):
    check(policy, Review('UPDATE', resource, OWN, tainted(node, *after), tainted(node, *before)), refusal)


def test_without_a_taint_of_its_own_none_comes(program, node):
    for value in ('', None):
        policy = render(program, {'node': {'taint': value}})
        check(policy, Review('UPDATE', 'nodes', OWN, tainted(node, [TEAM, TAINT], TEXT), tainted(node, [TEAM], None)), 'add no taint')
        check(policy, Review('UPDATE', 'nodes', OWN, tainted(node, [TEAM], None), tainted(node, [TEAM, TAINT], TEXT)), None)


@pytest.mark.parametrize('value, taint, note', [
    ('nvidia.com/x:NoSchedule', {'key': 'nvidia.com/x', 'effect': 'NoSchedule'}, 'nvidia.com/x:NoSchedule'),
    ('x=:PreferNoSchedule', {'key': 'x', 'effect': 'PreferNoSchedule'}, 'x:PreferNoSchedule'),
    ('x=y:NoExecute', {'key': 'x', 'value': 'y', 'effect': 'NoExecute', 'timeAdded': '2026-11-30T00:00:00Z'}, 'x=y:NoExecute'),
])
def test_a_taint_is_known_however_it_is_written(program, node, value, taint, note):
    policy = render(program, {'node': {'taint': value}})
    check(policy, Review('UPDATE', 'nodes', OWN, tainted(node, [TEAM, taint], note), tainted(node, [TEAM], None)), None)


def condition(type_, status='True', reason='Ready', message='4 units are healthy, 1 resources are advertised'):
    return {'type': type_, 'status': status, 'reason': reason, 'message': message, 'lastHeartbeatTime': '2026-11-30T00:00:00Z',
            'lastTransitionTime': '2026-11-30T00:00:00Z'}


KUBELETS = {'type': 'Ready', 'status': 'True', 'reason': 'KubeletReady', 'message': 'kubelet is posting ready status'}


@pytest.mark.parametrize('before, after, refusal', [
    ([KUBELETS], [KUBELETS, condition('GPUSharingReady')], None),
    ([KUBELETS, condition('GPUSharingReady')], [KUBELETS, condition('GPUSharingReady', 'False', 'NoGPU')], None),
    ([condition('GPUSharingReady', message='anything'), KUBELETS], [KUBELETS], None),
    ([KUBELETS, condition('Earlier')], [KUBELETS, condition('GPUSharingReady')], None),
    ([KUBELETS, condition('Earlier', 'False', 'NVMLUnavailable', 'x')], [KUBELETS], None),
    ([KUBELETS], [{**KUBELETS, 'status': 'False'}], 'no condition'),
    ([KUBELETS], [], 'no condition'),
    ([KUBELETS], None, 'no condition'),
    ([KUBELETS], [KUBELETS, condition('NetworkUnavailable')], 'no condition'),
    ([KUBELETS, condition('KernelDeadlock', reason='Ready', message='all is well')], [KUBELETS], 'no condition'),
    ([KUBELETS, condition('Earlier')], [KUBELETS, condition('Earlier', 'False', 'NoGPU')], 'no condition'),
])
def test_only_its_own_condition_comes_changes_and_goes(policy, node, resource, before, after, refusal):
    old, new = changed(node, status__conditions=before), changed(node, status__conditions=after)
    check(policy, Review('UPDATE', resource, OWN, new, old), refusal)


def test_the_policy_knows_every_reason_of_the_condition(policy, node):
    """A new one in the agent would keep a condition of an earlier type on the node."""
    reasons = re.findall(r'set\(ret, NODE_(?:NOT_)?READY, "(\w+)"', (admission.SOURCE / 'src/node/status/report.c').read_text(encoding='utf-8'))
    assert len(reasons) >= 7
    for reason in reasons:
        old = changed(node, status__conditions=[KUBELETS, condition('Earlier', reason=reason)])
        check(policy, Review('UPDATE', 'nodes/status', OWN, changed(old, status__conditions=[KUBELETS]), old), None)


@pytest.mark.parametrize('change', [
    {'spec__unschedulable': True}, {'spec__podCIDR': '10.0.0.0/24'}, {'spec__providerID': 'x'}, {'spec__podCIDRs': ['10.0.0.0/24']},
    {'metadata__finalizers': ['x/y']}, {'metadata__ownerReferences': [{'apiVersion': 'v1', 'kind': 'Pod', 'name': 'x', 'uid': 'y'}]},
    {'metadata__uid': 'x'}, {'status__capacity': {'nvidia.com/gpu': '800'}}, {'status__allocatable': None}, {'status__addresses': []},
    {'status__daemonEndpoints__kubeletEndpoint__Port': 1}, {'status__config': {'error': 'x'}}, {'status__images': []}, {'status__nodeInfo': None},
])
def test_nothing_else_of_the_node_changes(policy, node, resource, change):
    for new, old in ((changed(node, **change), node), (node, changed(node, **change))):
        check(policy, Review('UPDATE', resource, OWN, new, old), 'nothing of a node')


def test_who_manages_a_field_may_change(policy, node):
    new = changed(node, metadata__managedFields=[{'manager': 'warpshare', 'operation': 'Update', 'fieldsV1': {}}])
    check(policy, Review('UPDATE', 'nodes', OWN, new, node), None)


# ---- events ----

def event(**more):
    """As the agent sends it, and the API server fills it in."""
    made = recorded('kube-apiserver-1.36/event-create.http')
    made.update({'source': {'component': 'warpshare', 'host': 'node1'}, 'reportingComponent': 'warpshare', 'reportingInstance': 'node1'})
    made['involvedObject'] = {'apiVersion': 'v1', 'kind': 'Node', 'name': 'node1', 'uid': 'node1'}
    return changed(made, **more)


POD = {'apiVersion': 'v1', 'kind': 'Pod', 'namespace': 'default', 'name': 'train', 'uid': '6f1a'}
NOT_OWN = [
    {'source__host': 'node2'}, {'source__component': 'kubelet'}, {'reportingInstance': 'node2'}, {'involvedObject__name': 'node2'},
    {'involvedObject__uid': 'd45c'}, {'involvedObject__kind': 'Secret'}, {'involvedObject__kind': 'Namespace'},
    {'involvedObject__apiVersion': 'example.com/v1'}, {'related': POD},
]


def test_events_about_the_node_and_pods_are_its_own(policy):
    for made in (event(), event(involvedObject=POD)):
        for is_nameless in (False, True):
            check(policy, Review('CREATE', 'events', OWN, made, is_nameless=is_nameless), None)
        check(policy, Review('UPDATE', 'events', OWN, changed(made, count=2, lastTimestamp='2026-11-30T00:00:00Z'), made), None)
        check(policy, Review('CREATE', 'events', OTHER, made), 'only its own events')


@pytest.mark.parametrize('change', NOT_OWN)
def test_no_event_is_in_the_name_of_another(policy, change):
    check(policy, Review('CREATE', 'events', OWN, event(**change)), 'only its own events')
    check(policy, Review('UPDATE', 'events', OWN, event(**change), event()), 'only its own events')


@pytest.mark.parametrize('change', NOT_OWN)
def test_no_event_of_another_is_written_over(policy, change):
    for new in (event(), event(**change)):
        check(policy, Review('UPDATE', 'events', OWN, new, event(**change)), 'only its own events')


def test_no_event_is_deleted(policy):
    for is_nameless in (False, True):
        check(policy, Review('DELETE', 'events', OWN, old=event(), is_nameless=is_nameless), 'never does DELETE of events')


def test_events_about_pods_are_for_who_asks_for_them(program):
    policy = render(program, {'events': 'node'})
    check(policy, Review('CREATE', 'events', OWN, event(involvedObject=POD)), 'only its own events')
    check(policy, Review('CREATE', 'events', OWN, event()), None)


@pytest.mark.parametrize('missing', ['source', 'source__host', 'reportingInstance', 'involvedObject', 'involvedObject__uid'])
def test_an_event_without_what_says_whose_it_is_is_refused(policy, missing):
    assert policy.refusals(Review('CREATE', 'events', OWN, event(**{missing: None})))


# ---- labels by node-feature-discovery ----

LABEL = 'nfd.node.kubernetes.io/node-name'


def feature(**more):
    made = {'apiVersion': 'nfd.k8s-sigs.io/v1alpha1', 'kind': 'NodeFeature', 'metadata': {
        'name': 'nvidia-features-for-node1', 'namespace': 'warpshare', 'labels': {LABEL: 'node1'}, 'ownerReferences': [
            {'apiVersion': 'apps/v1', 'kind': 'DaemonSet', 'name': 'warpshare-agent', 'uid': 'x', 'controller': True}]},
            'spec': {'features': {'flags': {}, 'attributes': {}, 'instances': {}}, 'labels': {'nvidia.com/gpu.count': '8'}}}
    return changed(made, **more)


def test_its_own_nodefeature_is_made_changed_and_deleted(policy):
    for is_nameless in (False, True):
        check(policy, Review('CREATE', 'nodefeatures', OWN, feature(), is_nameless=is_nameless), None)
        check(policy, Review('DELETE', 'nodefeatures', OWN, old=feature(), is_nameless=is_nameless), None)
    check(policy, Review('UPDATE', 'nodefeatures', OWN, changed(feature(), spec__labels={'warpshare.dev/gpu.most': '4'}), feature()), None)
    check(policy, Review('UPDATE', 'nodefeatures', OWN, feature(), feature(), version='v1'), None)


@pytest.mark.parametrize('labels', [{}, None, {'a': 'b'}])
def test_a_nodefeature_without_the_label_is_never_written_and_may_be_replaced(policy, labels):
    """node-feature-discovery does not look at such a one."""
    without = feature(metadata__labels=labels)
    check(policy, Review('CREATE', 'nodefeatures', OWN, without), 'only the NodeFeature')
    check(policy, Review('UPDATE', 'nodefeatures', OWN, without, feature()), 'only the NodeFeature')
    check(policy, Review('UPDATE', 'nodefeatures', OWN, feature(), without), None)
    check(policy, Review('DELETE', 'nodefeatures', OWN, old=without), None)


@pytest.mark.parametrize('change', [
    {'metadata__labels': {LABEL: 'node2'}}, {'metadata__name': 'nvidia-features-for-node2'},
    {'metadata__name': 'node1'}, {'metadata__name': 'x-nvidia-features-for-node1'}, {'metadata__namespace': 'node-feature-discovery'},
])
def test_the_nodefeature_of_no_other_node_is_written(policy, change):
    """node-feature-discovery goes by the label, whatever the object is called."""
    strange = feature(**change)
    for is_nameless in (False, True):
        check(policy, Review('CREATE', 'nodefeatures', OWN, strange, is_nameless=is_nameless), 'only the NodeFeature')
        check(policy, Review('DELETE', 'nodefeatures', OWN, old=strange, is_nameless=is_nameless), 'only the NodeFeature')
    check(policy, Review('UPDATE', 'nodefeatures', OWN, strange, feature(**({'metadata__namespace': 'x'} if 'metadata__namespace' in change else {}))),
          'only the NodeFeature')
    if 'metadata__namespace' not in change:
        check(policy, Review('UPDATE', 'nodefeatures', OWN, feature(), strange), 'only the NodeFeature')
    check(policy, Review('CREATE', 'nodefeatures', OTHER, feature()), 'only the NodeFeature')


@pytest.mark.parametrize('spec', [
    {'labels': {'node-restriction.kubernetes.io/pool': 'a'}}, {'labels': {'nvidia.com/gpu.deploy.driver': 'false'}}, {'labels': {'team': 'x'}},
    {'labels': {'nvidia.com/gpu.count': '8', 'team': 'x'}}, {'labels': {'nvidia.com/gpu.count': '8'}, 'other': {}},
    {'features': {'flags': {'cpu.cpuid': {'elements': {'AVX512': {}}}}}}, {'features': {'flags': {}, 'attributes': {'system.name': {}}}},
    {'features': {'instances': {'pci.device': {'elements': []}}}},
])
def test_a_nodefeature_has_only_its_own_labels(policy, spec):
    for old in (None, feature()):
        check(policy, Review('UPDATE' if old else 'CREATE', 'nodefeatures', OWN, changed(feature(), spec=spec), old), 'nothing into a NodeFeature')


# ---- devices for claims ----

def resource_slice(**more):
    made = recorded('kube-apiserver-1.36/slice-create.http')
    made['metadata'].pop('generateName')
    made['metadata']['name'] = f'00000-{DRIVER}-node1-0123abcd'
    made['spec'].update(driver=DRIVER, pool={'name': f'node1/{DRIVER}', 'generation': 1, 'resourceSliceCount': 1})
    return changed(made, **more)


@pytest.mark.parametrize('version', ['v1beta1', 'v1beta2', 'v1'])
def test_its_own_slices_are_made_changed_and_deleted(policy, version):
    for pool in (f'node1/{DRIVER}', 'node1'):
        made = resource_slice(spec__pool__name=pool)
        check(policy, Review('CREATE', 'resourceslices', OWN, made, version=version), None)
        check(policy, Review('UPDATE', 'resourceslices', OWN, changed(made, spec__pool__generation=2), made, version=version), None)
        for is_nameless in (False, True):
            check(policy, Review('DELETE', 'resourceslices', OWN, old=made, version=version, is_nameless=is_nameless), None)
    check(policy, Review('CREATE', 'resourceslices', OWN, resource_slice(metadata__name=f'00000-{DRIVER}-node1-0123abcd-probe')), None)


@pytest.mark.parametrize('change', [
    {'spec__driver': 'gpu.nvidia.com'}, {'spec__nodeName': 'node2'}, {'spec__pool__name': 'node2'}, {'spec__pool__name': f'node2/{DRIVER}'},
    {'spec__pool__name': 'node1/gpu.nvidia.com'}, {'spec__allNodes': True}, {'spec__nodeSelector': {'nodeSelectorTerms': []}},
    {'spec__perDeviceNodeSelection': True},
])
def test_no_slice_of_another_node_or_driver_is_written(policy, change):
    strange = resource_slice(**change)
    for is_nameless in (False, True):
        check(policy, Review('CREATE', 'resourceslices', OWN, strange, is_nameless=is_nameless), 'only ResourceSlices of the driver')
        check(policy, Review('DELETE', 'resourceslices', OWN, old=strange, is_nameless=is_nameless), 'only ResourceSlices of the driver')
    check(policy, Review('UPDATE', 'resourceslices', OWN, strange, resource_slice()), 'only ResourceSlices of the driver')
    check(policy, Review('UPDATE', 'resourceslices', OWN, resource_slice(), strange), 'only ResourceSlices of the driver')
    check(policy, Review('UPDATE', 'resourceslices', OTHER, resource_slice(), resource_slice()), 'only ResourceSlices of the driver')


@pytest.mark.parametrize('where', [{'spec__nodeName': None, 'spec__allNodes': True}, {'spec__nodeName': None, 'spec__perDeviceNodeSelection': True}])
def test_a_slice_without_a_node_is_refused(policy, where):
    assert policy.refusals(Review('CREATE', 'resourceslices', OWN, resource_slice(**where)))


@pytest.mark.parametrize('name', [f'00000-{DRIVER}-node2-0123abcd', f'00000-{DRIVER}-node1-x-0123abcd', f'00000-{DRIVER}-node10-0123abcd',
                                  '00000-gpu.nvidia.com-node1-0123abcd', 'x', f'00000-{DRIVER}-node1-0123abcd-node2-0123abcd'])
def test_a_slice_does_not_take_the_name_of_another_nodes(policy, name):
    check(policy, Review('CREATE', 'resourceslices', OWN, resource_slice(metadata__name=name)), 'may make only ResourceSlices that are named')


def test_a_node_with_a_long_name_has_slices_too(policy):
    node = 'n' * 63 + '.' + 'o' * 63 + '.' + 'p' * 63
    made = resource_slice(metadata__name=f'00001-{DRIVER}-{node[:160]}-0123abcd', spec__nodeName=node, spec__pool__name=f'{node}/{DRIVER}')
    check(policy, Review('CREATE', 'resourceslices', agent_of(node), made), None)


@pytest.fixture(scope='session', name='claim')
def a_claim():
    """Prepared, with a device of another driver beside ours."""
    claim = recorded('dra-1.36/claim-status-apply.http')
    claim['status']['allocation']['devices']['results'].append({'request': 'nic', 'driver': 'nic.example.com', 'pool': 'nics', 'device': 'nic0'})
    claim['status']['devices'].append({'driver': 'nic.example.com', 'pool': 'nics', 'device': 'nic0', 'data': {'mac': 'x'}})
    return claim


def devices(claim, *entries):
    return changed(claim, status__devices=list(entries) or None)


@pytest.mark.parametrize('version', ['v1beta1', 'v1beta2', 'v1'])
def test_what_was_prepared_is_told_and_removed(policy, claim, version):
    ours, nic = claim['status']['devices']
    told = {**ours, 'data': {'memoryMiB': 1}}
    for before, after in (([nic], [nic, ours]), ([ours, nic], [told, nic]), ([ours, nic], [nic]), ([ours], []), ([], [ours])):
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, devices(claim, *after), devices(claim, *before), version=version), None)


def test_the_device_of_another_driver_or_pool_is_not_spoken_for(policy, claim):
    ours, nic = claim['status']['devices']
    foreign = {**ours, 'pool': 'node2'}
    for before, after in (([ours], [ours, nic]), ([ours, nic], [ours]), ([ours, nic], [ours, {**nic, 'data': {}}]), ([nic], []),
                          ([ours], [ours, foreign]), ([ours, foreign], [ours])):
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, devices(claim, *after), devices(claim, *before)), 'no status of the devices')


def allocated(claim, *results):
    return changed(claim, status__allocation__devices__results=list(results))


def test_nothing_is_told_of_a_claim_of_another_node(policy, claim):
    ours, nic = claim['status']['allocation']['devices']['results']
    elsewhere = {**ours, 'pool': f'node2/{DRIVER}'}
    told = {**claim['status']['devices'][0], 'pool': 'node1'}
    for results in ([elsewhere, nic], [nic], [ours, elsewhere]):
        before = devices(allocated(claim, *results))
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, devices(before, told), before), "are this node's")
    before = devices(changed(claim, status__allocation=None))
    check(policy, Review('UPDATE', 'resourceclaims/status', OWN, devices(before, told), before), "are this node's")
    before = devices(claim)
    check(policy, Review('UPDATE', 'resourceclaims/status', OTHER, devices(before, {**told, 'pool': 'node2'}), before), "are this node's")


def test_what_was_told_is_removed_when_the_claim_has_gone_on(policy, claim):
    """Its removal comes late, or finds that the API server has removed it with the allocation."""
    ours, nic = claim['status']['allocation']['devices']['results']
    told, other = claim['status']['devices']
    for now in (changed(claim, status={}), devices(allocated(claim, {**ours, 'pool': 'node2'}, nic), other)):
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, now, now), None)
        there = devices(now, told, *now['status'].get('devices', []))
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, now, there), None)
        check(policy, Review('UPDATE', 'resourceclaims/status', OTHER, now, there), 'no status of the devices')


@pytest.mark.parametrize('change', [
    {'status__reservedFor': []}, {'status__reservedFor': None}, {'status__allocation__nodeSelector': None}, {'status__allocation__devices__config': []},
    {'metadata__labels': {'a': 'b'}}, {'metadata__annotations': None}, {'metadata__finalizers': None}, {'metadata__ownerReferences': None},
    {'spec__devices__requests': []},
])
def test_nothing_else_of_a_claim_changes(policy, claim, change):
    for new, old in ((changed(claim, **change), claim), (claim, changed(claim, **change))):
        check(policy, Review('UPDATE', 'resourceclaims/status', OWN, new, old), 'nothing of a claim')


def test_an_allocation_is_neither_made_nor_changed(policy, claim):
    free = changed(claim, status={})
    check(policy, Review('UPDATE', 'resourceclaims/status', OWN, claim, free), 'nothing of a claim')
    more = changed(claim)
    more['status']['allocation']['devices']['results'].append({'request': 'x', 'driver': DRIVER, 'pool': 'node1', 'device': 'gpu-1', 'adminAccess': True})
    check(policy, Review('UPDATE', 'resourceclaims/status', OWN, more, claim), 'nothing of a claim')


def test_a_driver_of_another_name_has_its_own_claims_and_slices(program, claim):
    policy = render(program, {'dra': {'enabled': True, 'driverName': 'gpu.example.com'}})
    before = devices(claim)
    check(policy, Review('UPDATE', 'resourceclaims/status', OWN, claim, before), "are this node's")
    check(policy, Review('CREATE', 'resourceslices', OWN, resource_slice()), 'gpu.example.com')
    made = resource_slice(metadata__name='00000-gpu.example.com-node1-0123abcd', spec__driver='gpu.example.com', spec__pool__name='node1/gpu.example.com')
    check(policy, Review('CREATE', 'resourceslices', OWN, made), None)


# ---- evictions ----

def eviction(**options):
    return {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'train', 'namespace': 'default'}, 'deleteOptions': options}


def test_an_eviction_names_one_pod_and_leaves_it_its_time(policy):
    check(policy, Review('CREATE', 'pods/eviction', OWN, eviction(preconditions={'uid': 'x'})), None)
    check(policy, Review('CREATE', 'pods/eviction', agent_of(None), eviction(preconditions={'uid': 'x'})), 'names none')
    check(policy, Review('CREATE', 'pods/eviction', OWN, eviction(preconditions={'uid': 'x'}, gracePeriodSeconds=0)), 'grace period')
    for one in (eviction(), eviction(preconditions={'resourceVersion': '1'}), {**eviction(), 'deleteOptions': None}):
        assert policy.refusals(Review('CREATE', 'pods/eviction', OWN, one))


# ---- what the policy is about ----

def test_every_right_to_write_is_bound(policy):
    questions = {'tokenreviews', 'subjectaccessreviews', 'resourceclaims/driver'}  # the last is no resource: who may change a claim's status
    rules = policy.spec['matchConstraints']['resourceRules']
    assert policy.spec['failurePolicy'] == 'Fail' and policy.spec['matchConstraints']['matchPolicy'] == 'Equivalent'
    for right in json.loads((admission.SOURCE / 'deploy/rbac.json').read_text(encoding='utf-8')):
        writes = {{'patch': 'UPDATE'}.get(verb, verb.upper()) for verb in right['verbs']} & {'CREATE', 'UPDATE', 'DELETE', 'DELETECOLLECTION'}
        for resource in set(right['resources']) - questions if writes else ():
            assert any(set(right['apiGroups']) <= set(rule['apiGroups']) and resource in rule['resources'] and writes <= set(rule['operations'])
                       for rule in rules), f'{resource}: written, and tied to no node'


@pytest.mark.parametrize('scenario', sorted((admission.SOURCE / 'sim/scenarios').glob('*.yaml')), ids=lambda path: path.stem)
def test_every_label_of_the_agent_is_one_that_it_may_write(policy, scenario, tmp_path):
    """The list in the policy, held against what the program says of simulated machines."""
    config = tmp_path / 'config.yaml'
    for sharing in ('mps', 'timeSlicing'):
        for strategy in ('none', 'single', 'mixed'):
            config.write_text(json.dumps({'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps', 'migStrategy': strategy}, 'sharing': {sharing: {
                'resources': [{'name': 'nvidia.com/gpu', 'replicas': 4}]}}}), encoding='utf-8')
            done = subprocess.run([os.environ['WARPSHARE'], 'labels', '--config-file', config, '--output', 'json', '--nvml-library',
                                   os.environ['WARPSHARE_NVML_SIM']], env={**os.environ, 'WARPSHARE_SIM_SCENARIO': str(scenario)},
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            labels = json.loads(done.stdout)
            assert len(labels) > 5, labels
            check(policy, Review('CREATE', 'nodefeatures', OWN, feature(spec__labels=labels)), None)


@pytest.mark.parametrize('path', sorted((admission.SOURCE / 'deploy/manifests').glob('*.yaml'), key=str))
def test_the_manifests_have_the_same_policy(policy, path):
    """But for what each is set to."""
    for one in yaml.safe_load_all(path.read_text(encoding='utf-8')):
        if one and one['kind'] == 'ValidatingAdmissionPolicy':
            set_to = {'taints', 'conditionTypes', 'eventKinds', 'driver'}
            assert one['spec']['validations'] == policy.spec['validations']
            assert [v for v in one['spec']['variables'] if v['name'] not in set_to] == [v for v in policy.spec['variables'] if v['name'] not in set_to]
