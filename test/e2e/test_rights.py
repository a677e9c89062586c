# SPDX-License-Identifier: Apache-2.0
"""Each thing that can be switched on in a cluster works with the rights that deploy/rbac.json names for it, and asks for no others."""
import pytest

from apiserver import agent_rules
from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import GPU, sharing, v100s

LABEL = 'nvidia.com/device-plugin.config'


def fail_first_gpu(node):
    node.scenario(v100s(1, lost=True), events=[{'gpu': 0, 'xid': 79}])


def annotation(cluster, key):
    return (cluster.node()['metadata'].get('annotations') or {}).get('warpshare.dev/' + key)


def has_condition(cluster):
    return (cluster.condition('GPUSharingReady') or {}).get('status') == 'False'


def has_label(cluster):
    return (cluster.node()['metadata'].get('labels') or {}).get('nvidia.com/gpu.count') == '1'


def has_feature(cluster):
    return cluster.api.all('/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures')


@pytest.mark.parametrize('switches, arguments, is_done', [
    (['events: node'], ['--events=node'], lambda cluster: cluster.events('GPUUnhealthy', kind='Node')),
    (['events: pods'], ['--events=pods'], lambda cluster: cluster.events('GPUUnhealthy', 'team', 'Pod')),
    (['condition'], ['--events=none', '--node-condition=GPUSharingReady'], has_condition),
    (['taint'], ['--events=none', '--node-taint=a=b:NoSchedule'], lambda cluster: cluster.taints()),
    (['labels: node'], ['--events=none', '--labels-output=node'], has_label),
    (['labels: nodefeature'], ['--events=none', '--labels-output=nodefeature'], has_feature),
], ids=lambda one: one[0] if isinstance(one, list) else '')
def test_what_is_switched_on_needs_its_own_rights_only(node, cluster, switches, arguments, is_done):
    cluster.api.allow(agent_rules(*switches))
    node.scenario(v100s(1))
    kubelet = node.start_all(sharing('timeSlicing', 4), '--config-annotations=false', *arguments, *cluster.options())
    kubelet.admit('train', GPU, 1, namespace='team')
    fail_first_gpu(node)
    cluster.api.wait_for(lambda: is_done(cluster))
    assert node.agent.stop() == 0


def test_the_configuration_that_a_label_chooses_needs_its_own_rights_only(node, cluster, tmp_path):
    cluster.api.allow(agent_rules('configuration'))
    folder = tmp_path / 'configs'
    folder.mkdir()
    (folder / 'small').write_text('version: v1\n', encoding='utf-8')
    cluster.api.patch(NODES, NAME, {'metadata': {'labels': {LABEL: 'small'}}})
    node.kubelet.start()
    node.start('--events=none', '--config-dir', str(folder), *cluster.options())
    cluster.api.wait_for(lambda: annotation(cluster, 'config') == 'small')
    assert node.agent.stop() == 0


@pytest.mark.parametrize('about', ['none', 'node'])
def test_only_the_chosen_objects_get_events(node, cluster, about):
    node.scenario(v100s(1))
    kubelet = node.start_all(sharing('timeSlicing', 4), '--events', about, '--node-condition=GPUSharingReady', *cluster.options())
    kubelet.admit('train', GPU, 1, namespace='team')
    fail_first_gpu(node)
    cluster.api.wait_for(lambda: has_condition(cluster))
    if about == 'node':
        cluster.wait_event('GPUUnhealthy')
    assert node.agent.stop() == 0
    assert {one.namespace for one in cluster.api.asked('create', 'events')} == ({'default'} if about == 'node' else set())
