# SPDX-License-Identifier: Apache-2.0
"""The agent on this machine's own GPUs, compared with what NVIDIA's nvidia-smi says of them. Skipped where there are none.

Reads only: no mode of any GPU is changed. To keep what was seen: `nvidia-smi -q` beside the output of `pytest -s`.
"""
import re
import shutil
import subprocess

import pytest

from node import GPU, sharing


def smi(*query):
    """Rows of nvidia-smi's answer, as lists of text."""
    done = subprocess.run(['nvidia-smi', '--query-gpu=' + ','.join(query), '--format=csv,noheader,nounits'],
                          capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        pytest.skip('nvidia-smi: ' + (done.stdout + done.stderr).strip())
    return [[cell.strip() for cell in line.split(',')] for line in done.stdout.splitlines()]


@pytest.fixture(scope='module')
def gpus():
    if not shutil.which('nvidia-smi'):
        pytest.skip('no nvidia-smi, so no GPU to test with')
    rows = smi('index', 'uuid', 'name', 'memory.total')
    if not rows:
        pytest.skip('no GPU')
    return rows


@pytest.fixture
def real(node):
    node.library = None  # found as on a node
    return node


def test_every_gpu_is_advertised_whole_without_a_flag(real, gpus):
    kubelet = real.start_all()
    assert sorted(kubelet.ids(GPU)) == sorted(uuid for _, uuid, _, _ in gpus)
    assert kubelet.allocatable(GPU) == len(gpus)


def test_name_and_memory_are_those_of_nvidia_smi(real, gpus):
    real.start_all()
    for index, uuid, name, memory in gpus:
        line = real.agent.wait_log(r'^.* GPU index=%s gpu=%s .*$' % (index, re.escape(uuid))).group(0)
        assert name in line
        # nvidia-smi and NVML's first form of the call round differently, and may count reserved memory or not.
        told = int(re.search(r'memory_mib=(\d+)', line).group(1))
        assert abs(told - int(memory)) <= 2048, line


def test_a_share_is_worth_its_part_of_the_memory(real, gpus):
    config = sharing('mps', 10, provisioning='weighted', failRequestsGreaterThanOne=False)
    kubelet = real.start_all(config)
    real.wait_counts(10 * len(gpus))
    answer, = kubelet.plugin(GPU).allocate_ids(['%s::%d' % (gpus[0][1], i) for i in range(3)])
    assert answer.envs['NVIDIA_VISIBLE_DEVICES'] == gpus[0][1]
    assert answer.envs['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '30'
    limit = int(re.fullmatch(r'0=(\d+)M', answer.envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT']).group(1))
    assert abs(limit - int(gpus[0][3]) * 3 / 10) <= 1024


def test_a_healthy_gpu_stays_healthy_over_probes_and_a_reload(real, gpus):
    real.start_all()
    real.agent.reload()
    real.stays(lambda: real.kubelet.allocatable(GPU) == len(gpus), 'every GPU is healthy', 4.0)
    assert real.agent.count('marked unhealthy') == 0
