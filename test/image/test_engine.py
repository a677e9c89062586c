# SPDX-License-Identifier: Apache-2.0
"""The archive in containerd and runc, which nodes have: it is loaded, and its containers run with what runc leaves them."""
import os
import re
import signal

from engine import needs_engine
from image import SOURCE

import kubelet as kubelet_module
from node import DEADLINE, GPU

pytestmark = needs_engine

def test_the_image_has_the_name_that_the_page_says_and_all_its_content(engine):
    with open(os.path.join(SOURCE, 'meson.build'), encoding='utf-8') as file:
        version = re.search(r"^  version: '(.*)',", file.read(), re.MULTILINE).group(1)
    assert engine.image == 'docker.io/library/warpshare:' + version
    row = engine.ctr('images', 'check', '--snapshotter', 'native').splitlines()[1]
    assert 'complete (2/2)' in row and row.endswith('true'), row


def test_a_plan_is_made_without_a_capability(engine):
    status, output = engine.run('/bin/sh', '-c', 'grep CapBnd: /proc/self/status; exec warpshare plan --model H200 --gpus 4')
    assert status == 0 and re.match(r'CapBnd:\t0+\n', output) and 'nvidia.com/gpu: 4\n' in output, output


def test_the_entry_point_is_a_device_plugin_that_kubelet_knows_until_its_container_is_ended(engine):
    folders = [os.path.join(engine.host, name) for name in ('plugins', 'simulation')]
    for folder in folders:
        os.mkdir(folder)
    with open(os.path.join(folders[1], 'gpus.yaml'), 'w', encoding='utf-8') as file:
        file.write('gpus: [{model: A100-40GB}, {model: A100-40GB}]\n')
    kubelet = kubelet_module.Kubelet(folders[0])
    kubelet.start()
    try:
        agent = engine.start(
            environment={'WARPSHARE_NVML_LIBRARY': '/usr/lib/warpshare/libwarpshare-nvml-sim.so',
                         'WARPSHARE_SIM_SCENARIO': '/simulation/gpus.yaml'},
            mounts={'/var/lib/kubelet/device-plugins': folders[0], '/simulation': folders[1]})
        assert kubelet.wait(lambda: kubelet.allocatable(GPU) == 2, DEADLINE), agent.story()
        ids, response = kubelet.admit('pod', GPU, 1)
        assert response.envs['NVIDIA_VISIBLE_DEVICES'] == ids[0]
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0, agent.story()
    finally:
        kubelet.stop()
