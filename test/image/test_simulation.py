# SPDX-License-Identifier: Apache-2.0
"""The manifest with simulated GPUs, in the image's root: its containers with their commands, variables and mounts, as on a node of kind.
Where containerd and runc are there, by them too, and with what the manifest leaves each container of rights.
"""
import json
import os
import stat
import sys
import time

import pytest
import yaml

from engine import needs_engine
from image import SOURCE, needs_containers

sys.path.insert(0, os.path.join(SOURCE, 'test', 'e2e'))

import kubelet as kubelet_module  # noqa: E402
from node import DEADLINE, GPU  # noqa: E402

pytestmark = needs_containers


class KindNode:
    """Folders of the node are below |host|; ConfigMaps are folders there, too. |pod| is what starts containers."""

    def __init__(self, pod, manifest):
        self.pod = pod
        self.host = pod.host
        with open(f'{SOURCE}/deploy/manifests/{manifest}.yaml', encoding='utf-8') as file:
            self.objects = {(one['kind'], one['metadata']['name']): one for one in yaml.safe_load_all(file)}
        os.makedirs(self.host + '/var/lib/kubelet/device-plugins')
        self.kubelet = kubelet_module.Kubelet(self.host + '/var/lib/kubelet/device-plugins')
        self.kubelet.start()

    def finish(self):
        self.kubelet.stop()

    def source(self, volume):
        """What a volume is on the node."""
        if 'configMap' in volume:
            folder = os.path.join(self.host, 'configmaps', volume['configMap']['name'])
            os.makedirs(folder, exist_ok=True)
            for name, text in self.objects['ConfigMap', volume['configMap']['name']]['data'].items():
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    file.write(text)
            return folder
        folder = self.host + volume['hostPath']['path'] if 'hostPath' in volume else os.path.join(self.host, 'tmp')
        os.makedirs(folder, exist_ok=True)
        return folder

    def start_pod(self, daemons):
        """All its containers, those of initialisation first; the last one."""
        spec = self.objects['DaemonSet', daemons]['spec']['template']['spec']
        volumes = {one['name']: one for one in spec['volumes']}
        for container in spec.get('initContainers', []) + spec['containers']:
            arguments = container['command'] + container.get('args', [])
            variables = {one['name']: one['value'] for one in container.get('env', []) if 'value' in one}
            mounts = {one['mountPath']: self.source(volumes[one['name']]) for one in container['volumeMounts']}
            context = container['securityContext']
            rights = {'privileged': context.get('privileged', False), 'capabilities': context.get('capabilities', {}).get('add', [])}
            if container in spec['containers']:
                return self.pod.start(*arguments, environment=variables, mounts=mounts, **rights)
            status, log = self.pod.run(*arguments, environment=variables, mounts=mounts, **rights)
            assert status == 0, log
        raise AssertionError('no container')


@pytest.fixture(params=['pod', pytest.param('engine', marks=needs_engine)])
def make_node(request):
    made = []

    def make(manifest):
        made.append(KindNode(request.getfixturevalue(request.param), manifest))
        return made[-1]

    yield make
    for one in made:
        one.finish()


def test_claims_find_the_files_of_a_driver_for_simulated_gpus(make_node):
    node = make_node('simulated-dra')
    agent = node.start_pod('warpshare-agent')
    specification = node.host + '/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json'
    deadline = time.monotonic() + DEADLINE
    while not os.path.exists(specification):
        assert time.monotonic() < deadline, agent.story()
        time.sleep(0.05)
    with open(specification, encoding='utf-8') as file:
        found = json.load(file)
    units = [[one['path'] for one in device['containerEdits']['deviceNodes']] for device in found['devices'] if device['name'] != 'all']
    assert sorted(units) == [[f'/dev/nvidia{unit}'] for unit in range(4)]
    for device in found['devices'] + [found]:
        edits = device.get('containerEdits', {})
        assert 'hooks' not in edits  # they are programs that the node lacks
        for one in edits.get('deviceNodes', []):  # what it lacks keeps a container from starting
            assert stat.S_ISCHR(os.stat(node.host + one['hostPath']).st_mode)
        for one in edits.get('mounts', []):
            assert os.path.exists(node.host + one['hostPath']), one


def test_four_simulated_gpus_are_shared_in_four(make_node):
    node = make_node('simulated')
    supervisor = node.start_pod('warpshare-mps')
    agent = node.start_pod('warpshare-agent')
    assert node.kubelet.wait(lambda: node.kubelet.allocatable(GPU) == node.kubelet.capacity(GPU) == 16, DEADLINE), \
        agent.story() + supervisor.story()
    # What verify-mps-setup.sh looks for
    for device in range(4):
        supervisor.wait_log(f'Set device pinned memory limit: device={device}, .* replicas=4, limit_per_replica_mib=8151')
