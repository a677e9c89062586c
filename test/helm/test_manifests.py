# SPDX-License-Identifier: Apache-2.0
"""What is made from the chart and committed, and the workloads: whether Kubernetes takes them, and whether they are up to date."""
import glob
import json
import os
import re
import subprocess

import chart
import pytest
import yaml

kubernetes_api = pytest.importorskip('kubernetes_api', reason='Debian: python3-kubernetes')

DEPLOY = f'{chart.SOURCE}/deploy'
MANIFESTS = sorted(os.path.basename(path) for path in glob.glob(f'{DEPLOY}/manifests/*.yaml'))


def objects(path):
    with open(path, encoding='utf-8') as file:
        return [one for one in yaml.safe_load_all(file) if one is not None]


def comparable(text):
    """Helm has its own order of objects, and drops comments."""
    return sorted(json.dumps(one, sort_keys=True) for one in yaml.safe_load_all(text) if one) if chart.HELM else text


def test_manifests_are_those_of_the_chart(program, tmp_path):
    subprocess.run([f'{chart.SOURCE}/tools/manifests', tmp_path], check=True, timeout=280,
                   env={**os.environ, 'WARPSHARE_HELM_RENDER': program})
    made = sorted(os.listdir(tmp_path))
    assert made == MANIFESTS, 'run: make manifests'
    for name in made:
        with open(f'{DEPLOY}/manifests/{name}', encoding='utf-8') as file:
            committed = file.read()
        assert comparable(committed) == comparable((tmp_path / name).read_text(encoding='utf-8')), f'{name} is stale; run: make manifests'


@pytest.mark.parametrize('path', [f'manifests/{name}' for name in MANIFESTS] + [
    f'workloads/{os.path.basename(path)}' for path in glob.glob(f'{DEPLOY}/workloads/*.yaml')])
def test_kubernetes_takes_what_is_committed(path):
    found = objects(f'{DEPLOY}/{path}')
    assert found
    for one in found:
        kubernetes_api.check({**one, 'metadata': {'namespace': 'default', **one['metadata']}}
                             if path.startswith('workloads') else one)
        assert 'Helm' not in str(one['metadata'].get('labels'))


def test_an_overlay_as_the_page_shows_it_names_what_the_base_has():
    base, = objects(f'{DEPLOY}/manifests/kustomization.yml')
    assert set(base['resources']) <= set(MANIFESTS)
    found = [one for name in base['resources'] for one in objects(f'{DEPLOY}/manifests/{name}')]
    with open(f'{chart.SOURCE}/docs/install.md', encoding='utf-8') as file:
        block = re.search(r'^```yaml\n(# kustomization.yaml\n.*?)^```', file.read(), re.MULTILINE | re.DOTALL).group(1)
    overlay = yaml.safe_load(block)
    image, = overlay['images']
    for one in found:
        if one['kind'] == 'DaemonSet':
            for container in one['spec']['template']['spec']['containers']:
                assert container['image'].rpartition(':')[0] == image['name']
    patch, = overlay['patches']
    target, = (one for one in found if one['kind'] == patch['target']['kind'] and one['metadata']['name'] == patch['target']['name'])
    change, = yaml.safe_load(patch['patch'])
    assert change['op'] == 'replace' and change['path'].removeprefix('/data/') in target['data']
    assert yaml.safe_load(change['value'])['sharing']


def probe():
    return next(one for one in objects(f'{DEPLOY}/workloads/probe.yaml') if one['kind'] == 'Deployment')


def test_the_probe_is_of_the_charts_image(program):
    container = chart.render(program).one('DaemonSet', 'warpshare-agent')['spec']['template']['spec']['containers'][0]
    assert probe()['spec']['template']['spec']['containers'][0]['image'] == container['image']


@pytest.mark.parametrize('status', [0, 1, 3])
def test_a_replica_is_ready_when_its_grant_holds_and_only_then(tmp_path, status):
    container = probe()['spec']['template']['spec']['containers'][0]
    (tmp_path / 'warpshare').write_text(f'#!/bin/sh\necho probed "$@"\nexit {status}\n', encoding='utf-8')
    (tmp_path / 'sleep').write_text('#!/bin/sh\nkill -TERM $PPID\n', encoding='utf-8')  # one turn, then the pod is deleted
    for name in ('warpshare', 'sleep'):
        (tmp_path / name).chmod(0o755)

    def run(command):
        return subprocess.run([part.replace('/tmp/', './') for part in command], cwd=tmp_path, capture_output=True, text=True,
                              check=False, timeout=60, env={'PATH': f'{tmp_path}:/bin:/usr/bin'})

    ready = container['readinessProbe']['exec']['command']
    assert run(ready).returncode != 0  # not probed yet
    done = run(container['command'])
    assert (done.returncode, done.stderr) == (0, '') and done.stdout.startswith('probed')
    assert (run(ready).returncode == 0) == (status == 0)
