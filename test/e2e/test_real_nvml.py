# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own libnvidia-ml.so.1, from Debian's non-free section, on a machine without their driver."""
import os
import subprocess

import pytest

from node import sharing


@pytest.fixture(scope='module')
def library():
    if os.path.exists('/proc/driver/nvidia/version'):
        pytest.skip('this machine has a driver')
    source = os.environ['WARPSHARE_SOURCE']
    fetch = subprocess.run([os.path.join(source, 'tools', 'fetch-nonfree'), os.path.join(source, 'build', 'nonfree')],
                           capture_output=True, text=True, check=False)
    if fetch.returncode == 77:
        pytest.skip(fetch.stderr.strip())
    assert fetch.returncode == 0, fetch.stderr
    return dict(line.split('=', 1) for line in fetch.stdout.splitlines())['libnvidia-ml.so.1']


def test_the_agent_leaves_with_the_reason(node, library):
    node.library = library
    agent = node.start()
    agent.fails('error NVML cannot be used .*driver')


def test_the_agent_waits_where_it_may(node, library):
    node.library = library
    node.config(sharing('mps', 20))
    node.kubelet.start()
    agent = node.start('--fail-on-init-error=false')
    agent.wait_log('warn  NVML cannot be used, will try again .*driver')
    agent.reload()
    node.stays(lambda: agent.process.poll() is None, 'the agent waits', 1.5)
    assert agent.count('NVML cannot be used') == 1
    assert agent.stop() == 0
