"""What docs/install.md and docs/security.md say, on a simulated node: what the page asks, and the rights that containers have."""
import os
import re
import subprocess
import tempfile

import pytest
import yaml

from mps_node import node, uuid_of  # noqa: F401 -- a fixture
from node import DEADLINE, GPU

DEPLOY = os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy')


def manifest():
    with open(f'{DEPLOY}/manifests/mps.yaml', encoding='utf-8') as file:
        configs = next(one for one in yaml.safe_load_all(file) if one['kind'] == 'ConfigMap')
    return {'flags': {'mpsRoot': '/run/nvidia/mps'}, **yaml.safe_load(configs['data']['default'])}


def confined(capabilities):
    """What to put before a command: root with these capabilities, no more ever, and nothing to write to but the test's folders."""
    folder = tempfile.gettempdir()
    kept = ','.join(['-all', *(f'+{name.lower()}' for name in capabilities)])
    prefix = ['unshare', '--mount', '/bin/sh', '-c',
              f'mount --bind {folder} {folder} && mount -o remount,bind,ro / && '
              f'exec setpriv --no-new-privs --inh-caps {kept} --bounding-set {kept} "$@"', 'sh']
    if subprocess.run([*prefix, 'true'], check=False, capture_output=True).returncode != 0:
        pytest.skip('no right to make mounts and to give capabilities up here; run as root')
    probe = subprocess.run([*prefix, 'sh', '-c', 'touch /warpshare-test; grep CapEff /proc/self/status'], check=False,
                           capture_output=True, text=True)
    assert 'Read-only file system' in probe.stderr and bin(int(probe.stdout.split()[1], 16)).count('1') == len(capabilities)
    return prefix


def supervisors_capabilities():
    with open(f'{DEPLOY}/helm/warpshare/templates/mps.yaml', encoding='utf-8') as file:
        return re.findall(r'"([A-Z_]+)"', re.search(r'"warpshare.confined" \(list \. \(list ([^)]*)\)', file.read()).group(1))


def test_the_rights_that_the_chart_gives_without_privileges_are_enough(node):
    node.programs.start('--system-root', node.system_root, prefix=confined(supervisors_capabilities()))
    node.config(manifest())
    node.kubelet.start()
    node.start('--log-level=debug', prefix=confined([]))
    node.wait_counts(8)
    node.admit('pod')
    assert node.client('pod').connected()['percentage'] == '25.0'


def test_the_manifest_for_mps_gives_each_of_four_containers_a_quarter(node):
    node.start_all(manifest())
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
