# SPDX-License-Identifier: Apache-2.0
"""The dashboard: beside the cluster with its kubeconfig, and in it, by its manifest, for the token of an account."""
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import pytest

from apiserver import PATIENCE
from pods import NAMESPACE
from warpshare import NAMESPACE as OURS

GPUS = 4


def ask(url, token=None):
    """(status, JSON or text)."""
    request = urllib.request.Request(url, headers={'Authorization': f'Bearer {token}'} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read().decode()
            return answer.status, json.loads(text) if answer.headers['Content-Type'].startswith('application/json') else text
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def begin(process, pattern):
    """The port that a process says it listens on."""
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(pattern, line)
        if found:
            return int(found.group(1))
    pytest.fail(''.join(said))


def until_complete(kube, url, token=None):
    def question():
        status, answer = ask(f'{url}/api/v1/overview', token)
        return status == 200 and answer['isComplete'] and any(node.get('gpus') for node in answer['nodes']) and answer, str(answer)[:500]
    return kube.wait('the dashboard knows all nodes', question)


@pytest.fixture(scope='module', name='shared')
def install(warpshare):
    warpshare.install('simulated')
    warpshare.wait_counts({'nvidia.com/gpu': 16})
    yield warpshare
    warpshare.clean_node()


def end(process):
    process.terminate()
    process.communicate(timeout=PATIENCE)


def test_a_dashboard_with_a_kubeconfig_shows_the_node_and_whose_the_shares_are(shared, pods, kube, tmp_path):
    pods.run('seen', {'nvidia.com/gpu': 1})
    process = subprocess.Popen([os.environ['WARPSHARE'], 'dashboard', '--address', '127.0.0.1:0',
                                '--kubeconfig', kube.kubeconfig, '--authorization', 'proxy', '--interval', '1'],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
    try:
        url = f'http://127.0.0.1:{begin(process, r"dashboard address=.* port=([0-9]+)")}'
        overview = until_complete(kube, url)
        node, = (one for one in overview['nodes'] if one['name'] == shared.node)
        assert len(node['gpus']) == GPUS
        kube.wait('the pod is found', lambda: 'seen' in str(ask(f'{url}/api/v1/search?q=seen')[1]))
        status, page = ask(f'{url}/api/v1/pods/{NAMESPACE}/seen')
        assert status == 200 and shared.node in str(page)
        status, page = ask(f'{url}/')
        assert status == 200 and '<html' in page
    finally:
        end(process)


def test_the_dashboard_of_the_manifest_shows_an_account_what_it_may_see(shared, pods, kube):
    pods.run('seen', {'nvidia.com/gpu': 1})
    shared.apply('dashboard')
    kube.kubectl('-n', OURS, 'rollout', 'status', 'deployment/warpshare-dashboard', f'--timeout={kube.timeout}s')
    process = kube.child('-n', OURS, 'port-forward', 'service/warpshare-dashboard', ':80')
    try:
        url = f'http://127.0.0.1:{begin(process, r"Forwarding from 127.0.0.1:([0-9]+)")}'
        assert ask(f'{url}/api/v1/overview')[0] == 401
        kube.kubectl('-n', NAMESPACE, 'create', 'serviceaccount', 'viewer')
        token = kube.kubectl('-n', NAMESPACE, 'create', 'token', 'viewer').strip()
        assert ask(f'{url}/api/v1/overview', token)[0] == 403
        kube.kubectl('create', 'clusterrolebinding', 'warpshare-cluster-test-map', '--clusterrole', 'warpshare-dashboard-viewer',
                     f'--serviceaccount={NAMESPACE}:viewer')
        kube.wait('the right counts', lambda: ask(f'{url}/api/v1/overview', token)[0] == 200)
        assert 'seen' not in str(until_complete(kube, url, token))
        kube.kubectl('-n', NAMESPACE, 'create', 'rolebinding', 'viewer', '--clusterrole', 'view', f'--serviceaccount={NAMESPACE}:viewer')
        kube.wait('the pod is seen', lambda: 'seen' in str(ask(f'{url}/api/v1/search?q=seen', token)[1]), seconds=120)
    finally:
        end(process)
        kube.kubectl('delete', 'clusterrolebinding', 'warpshare-cluster-test-map', '--ignore-not-found')
        kube.kubectl('delete', '--ignore-not-found', '-f', '-', text=shared.text('manifests/dashboard.yaml').partition('---')[2])
