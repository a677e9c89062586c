# SPDX-License-Identifier: Apache-2.0
"""What tests with a node need: fixtures, and the hooks that tell what was wrong with it."""
import pytest

from node import Node


@pytest.fixture
def make_node(request):
    """Nodes as many as a test wants. Each ends with the test: the agent with status 0 and without a sanitizer's report."""
    nodes = []

    def make():
        nodes.append(Node())
        return nodes[-1]

    yield make
    faults = [fault for node in nodes for fault in node.finish()]
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@pytest.fixture
def node(make_node, request):
    made = make_node()
    request.node.warpshare_node = made
    return made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    node = getattr(item, 'warpshare_node', None)
    if node and call.when == 'call' and call.excinfo and 'log of agent' not in str(call.excinfo.value):
        outcome.get_result().sections.append(('the node', node.counts() + '\n' + node.logs()))


def pytest_sessionfinish(session):
    # What Meson takes for "skipped".
    reporter = session.config.pluginmanager.get_plugin('terminalreporter')
    if set(reporter.stats) - {'', 'warnings'} == {'skipped'}:
        session.exitstatus = 77
