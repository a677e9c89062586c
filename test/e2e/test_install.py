"""What docs/install.md shows for MPS, on a simulated node: the configuration of deploy/manifests/mps.yaml, asked as the page asks."""
import os
import subprocess

import yaml

from mps_node import node, uuid_of  # noqa: F401 -- a fixture
from node import DEADLINE, GPU

MANIFEST = os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy/manifests/mps.yaml')


def test_the_manifest_for_mps_gives_each_of_four_containers_a_quarter(node):
    with open(MANIFEST, encoding='utf-8') as file:
        configs = next(one for one in yaml.safe_load_all(file) if one['kind'] == 'ConfigMap')
    node.start_all({'flags': {'mpsRoot': '/run/nvidia/mps'}, **yaml.safe_load(configs['data']['default'])})
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
