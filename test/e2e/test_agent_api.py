# SPDX-License-Identifier: Apache-2.0
"""The agent and the API server: how it finds one, and that nothing else waits for it."""
import time

import pytest

from apiserver import ApiServer, agent_rules
from cluster import cluster  # noqa: F401 -- a fixture
from node import sharing, v100s

VERBS = {'get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'associated-node:patch'}


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        yield server


def has_libcurl(agent):
    with open(f'/proc/{agent.pid}/maps', encoding='ascii') as maps:
        return 'libcurl' in maps.read()


@pytest.mark.parametrize('arguments, missing', [([], 'no node name'), (['--node-name', 'n1'], 'no credentials')])
def test_without_name_or_credentials_the_agent_serves_and_loads_no_libcurl(node, arguments, missing):
    node.start_all(sharing('mps', 20), *arguments)
    node.agent.wait_log(f'info  the API server is not used: {missing}: ')
    assert not has_libcurl(node.agent)


def test_with_both_it_says_to_whom_and_as_whom(node, api):
    api.put('/api/v1/nodes', {'metadata': {'name': 'n1'}})
    node.environment.update(NODE_NAME='n1', KUBECONFIG=api.kubeconfig())
    node.start_all(sharing('mps', 20), '--labels-output', 'node')
    node.agent.wait_log(f'info  API server server={api.url} as="kubeconfig \'.*/kubeconfig\'" node=n1')
    api.wait_for(lambda: api.asked(resource='nodes'))
    assert has_libcurl(node.agent)
    assert node.agent.stop() == 0


def test_a_name_that_no_node_has_is_an_error_and_the_agent_serves(node):
    node.start_all(sharing('mps', 20), '--node-name', 'N 1')
    node.agent.wait_log("error cannot use the API server error=.*node name 'N 1': must be lower-case letters")
    assert not has_libcurl(node.agent)


def test_a_kubeconfig_that_comes_late_starts_everything_and_nothing_was_lost(node, cluster):
    """First there is none, then one that is wrong; all that happens meanwhile is told to the API server in the end."""
    api = cluster.api
    late = api.folder / 'late'
    node.start_all(sharing('timeSlicing', 4), '--kubeconfig', late, '--node-name', 'n1', '--labels-output', 'nodefeature',
                   '--node-condition', 'GPUSharingReady')
    node.agent.wait_log("error cannot use the API server, will try again error=.*open '%s': No such file" % late)
    node.scenario([{**gpu, 'lost': i == 2} for i, gpu in enumerate(v100s())], events=[{'gpu': 2, 'xid': 79}])
    node.wait_counts(12, 16)
    wrong = api.folder / 'wrong'
    wrong.write_text('current-context: none\n', encoding='ascii')
    wrong.rename(late)
    node.agent.wait_log('error cannot use the API server, will try again error=.*has no context')
    node.agent.hang_up()  # who asks is answered at once
    node.agent.wait_log('error cannot use the API server, will try again error=.*has no context', count=2)
    assert not has_libcurl(node.agent) and not api.requests
    api.kubeconfig(late.name)
    node.agent.wait_log(f'info  API server server={api.url} as="kubeconfig .*late.*" node=n1')
    assert 'Xid 79' in cluster.wait_event('GPUUnhealthy')['message']
    features = f'/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{api.namespace}/nodefeatures'
    api.wait_for(lambda: api.get(features, 'nvidia-features-for-n1'))
    api.wait_for(lambda: (cluster.condition('GPUSharingReady') or {}).get('reason') == 'SomeUnhealthy')
    cluster.wait_configured()
    assert node.agent.count('error cannot use the API server') == 3, 'once for each reason, and once for who asked'
    assert node.agent.stop() == 0


def test_who_asks_for_credentials_that_are_there_is_answered_once(node, api):
    """SIGHUP comes between two attempts of the agent itself; there is no further one after it."""
    api.put('/api/v1/nodes', {'metadata': {'name': 'n1'}})
    late = api.folder / 'late'
    node.start_all(sharing('mps', 20), '--kubeconfig', late, '--node-name', 'n1', '--labels-output', 'node')
    node.agent.wait_log('error cannot use the API server, will try again')
    api.kubeconfig(late.name)
    node.agent.hang_up()
    node.agent.wait_log(f'info  API server server={api.url} ')
    time.sleep(1.5)  # the pause between the first two attempts is at most a second
    assert node.agent.count('info  API server server') == 1
    assert node.agent.stop() == 0


def test_an_agent_that_has_no_credentials_yet_ends_at_once(node):
    node.start_all(sharing('mps', 20), '--node-name', 'n1', '--kubeconfig', '/nonexistent/kubeconfig', '--labels-output', 'node')
    node.agent.wait_log('cannot use the API server, will try again')
    assert node.agent.stop() == 0


def test_a_server_that_does_not_answer_holds_up_nothing(node, api):
    api.fault('hang', times=1000)
    node.environment.update(NODE_NAME='n1', KUBECONFIG=api.kubeconfig())
    node.start_all(sharing('mps', 20), '--labels-output', 'node', '--node-condition', 'GPUSharingReady')
    node.agent.reload()
    assert node.agent.stop() == 0


def test_the_permissions_are_rules_that_say_why():
    rules = agent_rules()
    assert isinstance(rules, list)
    for rule in rules:
        assert set(rule) <= {'apiGroups', 'resources', 'resourceNames', 'verbs', 'namespaced', 'namespace', 'when', 'why'}
        assert rule['when'] and not ('namespaced' in rule and 'namespace' in rule)
        assert rule['apiGroups'] and rule['resources'] and set(rule['verbs']) <= VERBS and rule['verbs']
        assert '*' not in rule['resources'] + rule['apiGroups'], 'no more than is needed'
        assert rule['why'].endswith('.') and isinstance(rule.get('namespaced', False), bool)
