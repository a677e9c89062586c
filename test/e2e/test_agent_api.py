"""The agent and the API server: how it finds one, and that nothing else waits for it."""
import re

import pytest

from apiserver import ApiServer, agent_rules
from node import sharing

VERBS = {'get', 'list', 'watch', 'create', 'update', 'patch', 'delete'}


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
    node.agent.wait_log(f'info  the API server is not spoken to: {missing} ')
    assert not has_libcurl(node.agent)


def test_with_both_it_says_to_whom_and_as_whom(node, api):
    api.put('/api/v1/nodes', {'metadata': {'name': 'n1'}})
    node.environment.update(NODE_NAME='n1', KUBECONFIG=api.kubeconfig())
    node.start_all(sharing('mps', 20), '--labels-output', 'node')
    node.agent.wait_log(f'info  API server server={api.url} as="kubeconfig \'.*/kubeconfig\'" node=n1')
    api.wait_for(lambda: api.asked(resource='nodes'))
    assert has_libcurl(node.agent)
    assert node.agent.stop() == 0


@pytest.mark.parametrize('arguments, reason', [
    (['--node-name', 'N 1'], "node name 'N 1': must be lower-case letters"),
    (['--node-name', 'n1', '--kubeconfig', '/nonexistent/kubeconfig'], "open '/nonexistent/kubeconfig'")])
def test_what_cannot_be_used_is_an_error_and_the_agent_serves(node, arguments, reason):
    node.start_all(sharing('mps', 20), *arguments)
    node.agent.wait_log('error the API server is not spoken to error=.*%s' % re.escape(reason))
    assert not has_libcurl(node.agent)


def test_a_server_that_does_not_answer_holds_up_nothing(node, api):
    api.fault('hang', times=1000)
    node.environment.update(NODE_NAME='n1', KUBECONFIG=api.kubeconfig())
    node.start_all(sharing('mps', 20), '--labels-output', 'node', '--node-condition', 'GPUSharingReady')
    node.agent.hang_up()
    node.agent.wait_log('resource name=nvidia.com/gpu', count=2)
    assert node.agent.stop() == 0


def test_the_permissions_are_rules_that_say_why():
    rules = agent_rules()
    assert isinstance(rules, list)
    for rule in rules:
        assert set(rule) <= {'apiGroups', 'resources', 'resourceNames', 'verbs', 'namespaced', 'why'}
        assert rule['apiGroups'] and rule['resources'] and set(rule['verbs']) <= VERBS and rule['verbs']
        assert '*' not in rule['resources'] + rule['apiGroups'], 'no more than is needed'
        assert rule['why'].endswith('.') and isinstance(rule.get('namespaced', False), bool)
