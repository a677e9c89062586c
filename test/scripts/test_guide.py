# SPDX-License-Identifier: Apache-2.0
"""A set-up guide for shares by MPS that names scripts/setup.sh, its arguments and NVIDIA's objects: each of its command lines, as it stands
there, or as docs/install.md names it. Those that look at logs are run with the real programs in test_simulated.py.
"""
import re
import shlex

import pytest

from answers import LABEL, SETUP, labels, well

IMAGE = 'registry.example.com/mine/warpshare:latest'


@pytest.fixture
def guide(cluster, setup):
    """Runs a line on a cluster with a node gpu1, whose namespace has the guide's secret; what it says."""
    cluster.add_node('gpu1', {'nvidia.com/gpu.present': 'true'})
    cluster.delete('Node', 'gpu-node-1')
    cluster.apply({'kind': 'Namespace', 'metadata': {'name': 'warpshare'}})
    cluster.apply({'kind': 'Secret', 'metadata': {'name': 'harbor-regcred', 'namespace': 'warpshare'}})

    def run_line(line, **variables):
        program, *words = shlex.split(line)
        assert program == './scripts/setup.sh'
        return well(setup(*words, **variables))

    return run_line


def spec(cluster, name='warpshare-mps'):
    return cluster.get('DaemonSet', name)['spec']['template']['spec']


@pytest.mark.parametrize('line, config, counts', [
    (f'./scripts/setup.sh 20 aggregate all {IMAGE}', 'mps.aggregate.20', {'gpu': 80}),
    (f'./scripts/setup.sh 20 aggregate gpu1 {IMAGE}', 'mps.aggregate.20', {'gpu': 80}),
    (f'./scripts/setup.sh 20 individual all {IMAGE}', 'mps.individual.20', {f'gpu{i}': 20 for i in range(4)}),
    (f'./scripts/setup.sh 2 individual all {IMAGE}', 'mps.individual.2', {f'gpu{i}': 2 for i in range(4)}),
    (f'./scripts/setup.sh 2 individual gpu1 {IMAGE}', 'mps.individual.2', {f'gpu{i}': 2 for i in range(4)}),
    (f'./scripts/setup.sh 30 individual all {IMAGE}', 'mps.individual.30', {f'gpu{i}': 30 for i in range(4)}),
    (f'./scripts/setup.sh 5 aggregate all {IMAGE} harbor-regcred', 'mps.aggregate.5', {'gpu': 20}),
])
def test_each_command_of_the_guide_does_what_the_guide_says(cluster, guide, line, config, counts):
    out = guide(line)
    assert 'gpu1: ' + ', '.join(f'nvidia.com/{name}={count}' for name, count in counts.items()) + '\n' in out
    assert labels(cluster, 'gpu1') == {LABEL: config, SETUP: 'true'}
    assert {one['image'] for one in spec(cluster)['containers'] + spec(cluster)['initContainers']} == {IMAGE}
    assert spec(cluster).get('imagePullSecrets') == ([{'name': 'harbor-regcred'}] if 'harbor' in line else None)


def test_image_tag_and_secret_of_the_environment(cluster, guide):
    repo, _, tag = IMAGE.rpartition(':')
    guide('./scripts/setup.sh 20 aggregate gpu1', PLUGIN_IMAGE_REPO=repo, PLUGIN_IMAGE_TAG=tag, IMAGE_PULL_SECRET_NAME='harbor-regcred')
    assert spec(cluster)['containers'][0]['image'] == IMAGE and spec(cluster)['imagePullSecrets'] == [{'name': 'harbor-regcred'}]


def test_the_verification_of_a_node(guide, run):
    guide(f'./scripts/setup.sh 20 aggregate gpu1 {IMAGE}')
    assert well(run('scripts/verify-mps-setup.sh', 'gpu1')).endswith('all is well\n')


def test_the_help_names_our_objects_for_those_of_the_guide(setup):
    text = well(setup('--help'))
    for name in ('nvidia-device-plugin-mps-control-daemon', 'mps-control-daemon-ctr', 'warpshare-mps', 'warpshare-agent'):
        assert re.search(rf'(?<![\w-]){name}(?![\w-])', text), name
