# SPDX-License-Identifier: Apache-2.0
"""What docs/install.md and docs/security.md say, on a simulated node: what the page asks, and the rights that containers have."""
import os
import re
import shlex
import subprocess
import tempfile

import pytest
import yaml

from apiserver import ApiServer
from configmap import MountedConfigMap
from mps_node import node, uuid_of  # noqa: F401 -- a fixture
from node import DEADLINE, GPU

DEPLOY = os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy')


def manifest(kind, name=None):
    with open(f'{DEPLOY}/manifests/mps.yaml', encoding='utf-8') as file:
        return next(one for one in yaml.safe_load_all(file) if one['kind'] == kind and name in (None, one['metadata']['name']))


def container(name):
    return manifest('DaemonSet', f'warpshare-{name}')['spec']['template']['spec']['containers'][0]


def confined(capabilities):
    """What to put before a command: root with these capabilities, no more ever, and nothing to write to but the test's folders."""
    folders = ' '.join(map(shlex.quote, sorted({'/tmp', tempfile.gettempdir()})))
    kept = ','.join(['-all', *(f'+{name.lower()}' for name in capabilities)])
    prefix = ['unshare', '--mount', '/bin/sh', '-c',
              f'for folder in {folders}; do mount --bind "$folder" "$folder" || exit; done; mount -o remount,bind,ro / && '
              f'exec setpriv --no-new-privs --inh-caps {kept} --bounding-set {kept} "$@"', 'sh']
    if subprocess.run([*prefix, 'true'], check=False, capture_output=True).returncode != 0:
        pytest.skip('no right to make mounts and to give capabilities up here; run as root')
    probe = subprocess.run([*prefix, 'sh', '-c', 'touch /warpshare-test; grep CapEff /proc/self/status'], check=False,
                           capture_output=True, text=True, env={**os.environ, 'LC_ALL': 'C'})
    assert 'Read-only file system' in probe.stderr and bin(int(probe.stdout.split()[1], 16)).count('1') == len(capabilities)
    return prefix


def supervisors_capabilities():
    with open(f'{DEPLOY}/helm/warpshare/templates/mps.yaml', encoding='utf-8') as file:
        return re.findall(r'"([A-Z_]+)"', re.search(r'"warpshare.confined" \(list \. \(list ([^)]*)\)', file.read()).group(1))


def start_as_the_manifest_says(node, api, configs):
    """Both processes, without privileges; paths and addresses are the test's."""
    supervisor, agent = container('mps'), container('agent')
    assert (supervisor['command'], agent['command']) == (['warpshare', 'mps'], ['warpshare', 'agent'])
    node.programs.start('--system-root', node.system_root, *supervisor['args'], prefix=confined(supervisors_capabilities()))
    assert agent['securityContext']['capabilities'] == {'drop': ['ALL']}
    node.environment.update({entry['name']: entry.get('value', {'NODE_NAME': 'n1'}.get(entry['name'], 'x')) for entry in agent['env']})
    node.environment.update(KUBECONFIG=api.kubeconfig(), WARPSHARE_CONFIG_DIR=configs.folder,
                            WARPSHARE_METRICS_ADDRESS='127.0.0.1:0')
    node.kubelet.start()
    node.start(prefix=confined([]))


def test_with_the_rights_of_the_manifest_a_configuration_comes_by_label_and_is_served(node, tmp_path):
    role = manifest('Role')
    rules = manifest('ClusterRole')['rules'] + [{**rule, 'namespace': role['metadata']['namespace']} for rule in role['rules']]
    configs = MountedConfigMap(str(tmp_path / 'configs'), **manifest('ConfigMap')['data'],
                               half='sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}')
    with ApiServer(tmp_path / 'api', namespace='warpshare') as api:
        api.allow(rules)
        api.put('/api/v1/nodes', {'metadata': {'name': 'n1'}})
        start_as_the_manifest_says(node, api, configs)
        node.wait_counts(8)
        api.patch('/api/v1/nodes', 'n1', {'metadata': {'labels': {'nvidia.com/device-plugin.config': 'half'}}})
        for i in range(2):
            node.wait_replicas(uuid_of(i), 2)
        node.wait_counts(4, 8)  # ids that were there stay, unhealthy
        node.kubelet.admit('pod', GPU, 1)
        assert node.client('pod').connected()['percentage'] == '50.0'
        api.wait_for(lambda: api.get('/api/v1/nodes', 'n1')['metadata'].get('annotations', {}).get('warpshare.dev/config') == 'half')
        assert node.agent.stop() == 0
        assert not [(request.verb, request.path) for request in api.requests if request.status == 403]


def test_the_manifest_for_mps_gives_each_of_four_containers_a_quarter(node):
    node.start_all({'flags': {'mpsRoot': '/run/nvidia/mps'}, **yaml.safe_load(manifest('ConfigMap')['data']['default'])})
    node.wait_counts(8)
    for pod in ('a', 'b', 'c', 'd'):
        node.admit(pod)
    pipe = node.variables('a')['CUDA_MPS_PIPE_DIRECTORY'].replace('/mps', node.mps_root, 1)
    done = subprocess.run('echo get_default_active_thread_percentage | nvidia-cuda-mps-control', shell=True, timeout=DEADLINE,
                          env={**node.programs.environment, 'CUDA_MPS_PIPE_DIRECTORY': pipe}, capture_output=True, text=True,
                          check=True)
    assert done.stdout == '25.0\n'
    for pod in ('a', 'b', 'c', 'd'):
        assert node.client(pod).connected()['percentage'] == '25.0'
    assert node.unit('a') in (uuid_of(0), uuid_of(1)) and GPU in node.kubelet.newest
