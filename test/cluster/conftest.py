# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

from fixtures import pytest_sessionfinish  # noqa: E402,F401 -- a hook
from kube import Kube  # noqa: E402
from pods import NAMESPACE, Pods  # noqa: E402
from settings import settings  # noqa: E402
from table import sentence, table  # noqa: E402
from warpshare import CHOICE, Warpshare, counts, own_marks  # noqa: E402

SOURCE = os.environ['WARPSHARE_SOURCE']
PRESENT = 'nvidia.com/gpu.present'
ROWS = []


@pytest.fixture(scope='session', name='told')
def read_settings():
    found = settings(os.environ, SOURCE)
    if not found:
        pytest.skip('no cluster is named: WARPSHARE_CLUSTER_KUBECONFIG (docs/cluster-tests.md)')
    return found


@pytest.fixture(scope='session', name='kube')
def connect(told):
    folder = tempfile.mkdtemp(prefix='ws-cluster-', dir='/tmp')  # short: a socket's path has 107 bytes
    os.symlink(os.environ['WARPSHARE'], os.path.join(folder, 'kubectl-warpshare'))
    try:
        with Kube(told.kubeconfig, folder, told.timeout) as made:
            yield made
    finally:
        shutil.rmtree(folder)


def choose_node(kube, wanted):
    nodes = kube.items('/api/v1/nodes')
    names = [one['metadata']['name'] for one in nodes if not one['spec'].get('unschedulable') and
             all(taint['effect'] == 'PreferNoSchedule' for taint in one['spec'].get('taints', []))]
    if wanted:
        assert wanted in [one['metadata']['name'] for one in nodes], f"WARPSHARE_CLUSTER_NODE: the cluster has no node '{wanted}'"
        return wanted
    assert names, 'the cluster has no node that takes any pod: WARPSHARE_CLUSTER_NODE names one'
    return names[0]


def objections(kube):
    """Why the suite keeps its hands off this cluster."""
    for namespace in ('warpshare', NAMESPACE):
        if kube.find(f'/api/v1/namespaces/{namespace}'):
            yield f"it has a namespace '{namespace}': delete it, if it is of an earlier run"
    for one in kube.items('/api/v1/nodes'):
        name = one['metadata']['name']
        if counts(one):
            yield f'node {name} offers {", ".join(counts(one))}: this is for clusters without GPUs in use'
        if own_marks(one):
            yield f'node {name} has {", ".join(own_marks(one))}'


@pytest.fixture(scope='session', name='node')
def prepare_node(kube, told):
    found = list(objections(kube))
    assert not found, 'this cluster is not touched: ' + '; '.join(found)
    name = choose_node(kube, told.node)
    had = kube.get(f'/api/v1/nodes/{name}')['metadata'].get('labels', {}).get(PRESENT)
    kube.kubectl('label', 'node', name, '--overwrite', f'{PRESENT}=true')
    yield name
    kube.kubectl('label', 'node', name, '--overwrite', f'{PRESENT}={had}' if had else f'{PRESENT}-', f'{CHOICE}-')


@pytest.fixture(scope='session', name='pods')
def make_pods(kube, told, node):  # pylint: disable=unused-argument
    kube.request('POST', '/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': NAMESPACE}})
    yield Pods(kube, told.image)
    kube.kubectl('delete', 'namespace', NAMESPACE, f'--timeout={told.timeout}s')


@pytest.fixture(scope='module', name='warpshare')
def make_warpshare(kube, told, node, pods):
    """Nothing is installed yet. Whatever a test installs is gone after the last test of the file."""
    made = Warpshare(kube, SOURCE, told.image, node)
    yield made
    pods.clear()
    made.delete()


@pytest.fixture(autouse=True)
def no_pods_stay(request):
    yield
    if 'pods' in request.fixturenames:
        request.getfixturevalue('pods').clear()


@pytest.fixture
def note(request):
    """Adds a note to the test's line in the table."""
    request.node.notes = []
    return request.node.notes.append


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == 'call' or report.outcome != 'passed':
        ROWS.append((sentence(item.name), report.outcome, call.duration, getattr(item, 'notes', [])))


def pytest_terminal_summary(terminalreporter):
    if os.environ.get('WARPSHARE_CLUSTER_KUBECONFIG') and any(how != 'skipped' for _, how, _, _ in ROWS):
        terminalreporter.section('what was done on the cluster')
        for line in table(ROWS):
            terminalreporter.write_line(line)
