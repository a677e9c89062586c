# SPDX-License-Identifier: Apache-2.0
"""The image in the place of NVIDIA's, started by the GPU Operator: the cases of a drop-in."""
import json
import os

import pytest

from image import needs_containers
from node import GPU
from operator_node import BY_BASH, COPY_NODES, ENTRYPOINT, TWO_FILES, UUIDS, WITHOUT_MODULES, OperatorNode

pytestmark = needs_containers

TWENTY = {'sharing': {'mps': {'resources': [{'name': GPU, 'replicas': 20}]}}}
FOUR = {'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': 4}]}}}
EIGHT = {'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': 8}]}}}


@pytest.fixture
def node():
    node = OperatorNode()
    yield node
    node.finish()


def test_the_image_alone_serves_every_gpu_once_the_driver_is_ready(node):
    plugin = node.start_plugin()
    node.driver_is_ready()
    node.wait_counts(2)
    assert plugin.stop() == 0


def test_a_configuration_follows_the_nodes_label(node):
    node.add_config('four', FOUR)
    node.add_config('eight', EIGHT)
    node.choose_config('four')
    assert node.start_config_manager('nvidia-device-plugin', is_init=True).wait() == 0
    node.driver_is_ready()
    node.start_plugin(config=True)
    node.wait_counts(8)
    node.start_config_manager('nvidia-device-plugin')
    node.choose_config('eight')
    node.wait_counts(16)


def test_mps_follows_the_nodes_label(node):
    """The tmpfs is mounted by an init container of the MPS pod, and seen by the plugin's pod."""
    node.add_config('mps', TWENTY)
    node.add_config('four', FOUR)
    node.choose_config('four')
    assert node.start_config_manager('/usr/bin/mps-control-daemon', is_init=True).wait() == 0
    node.driver_is_ready()
    status, output = node.mount_shm()
    assert status == 0, output
    status, output = node.mount_shm()
    assert status == 0, output
    mps = node.start_mps()
    node.start_plugin(config=True)
    node.wait_counts(8)
    node.start_config_manager('/usr/bin/mps-control-daemon', folder='config')
    node.start_config_manager('nvidia-device-plugin')
    node.choose_config('mps')
    node.wait_counts(40, GPU)
    mps.wait_log('Set device pinned memory limit')
    _, response = node.kubelet.admit('pod', GPU, 1)
    assert response.envs['CUDA_MPS_PIPE_DIRECTORY'].startswith('/mps/')


@pytest.mark.parametrize('strategy', ['envvar', 'cdi-annotations,cdi-cri'])
def test_devices_reach_the_runtime_with_cdi_and_without(node, strategy):
    node.driver_is_ready()
    node.start_plugin(DEVICE_LIST_STRATEGY=strategy, CDI_ENABLED='false' if strategy == 'envvar' else 'true')
    node.wait_counts(2)
    ids, response = node.kubelet.admit('pod', GPU, 1)
    if strategy == 'envvar':
        assert response.envs['NVIDIA_VISIBLE_DEVICES'] == ids[0] and not response.cdi_devices
    else:
        assert [one.name for one in response.cdi_devices] == ['k8s.device-plugin.nvidia.com/gpu=' + ids[0]]
        with open(node.at('cdi/k8s.device-plugin.nvidia.com-gpu.json'), encoding='utf-8') as file:
            assert ids[0] in [device['name'] for device in json.load(file)['devices']]


def test_on_openshift_labels_go_into_the_file_of_node_feature_discovery(node):
    """There the operator does not use the NodeFeature API."""
    node.start_gfd(USE_NODE_FEATURE_API='false')
    path = node.at('features.d/gfd')
    node.wait(lambda: os.path.exists(path), 'the labels are in the file')
    with open(path, encoding='utf-8') as file:
        labels = dict(line.strip().split('=', 1) for line in file)
    assert labels['nvidia.com/gpu.count'] == '2' and labels['nvidia.com/mps.capable'] == 'false'


def test_labels_go_into_a_node_feature(node):
    node.start_gfd()
    collection = '/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu-operator/nodefeatures'
    node.api.wait_for(lambda: any(
        one['spec']['labels'].get('nvidia.com/gpu.count') == '2' for one in node.api.all(collection)))


def test_the_mig_manager_may_change_the_layout_while_the_plugin_is_away(node):
    node.driver_is_ready()
    plugin = node.start_plugin()
    node.wait_counts(2)
    assert plugin.stop() == 0
    node.gpus(mig={'devices': [{'profile': '1g.5gb', 'count': 7}]})
    node.start_plugin()
    node.wait_counts(14)


def test_a_root_of_mps_elsewhere_on_the_host_is_what_containers_get(node):
    node.add_config('mps', TWENTY)
    node.choose_config('mps')
    assert node.start_config_manager('nvidia-device-plugin', is_init=True).wait() == 0
    node.driver_is_ready()
    assert node.mount_shm()[0] == 0
    node.start_mps()
    node.start_plugin(mps_root='/srv/mps', config=True)
    node.wait_counts(40)
    _, response = node.kubelet.admit('pod', GPU, 1)
    assert all(mount.host_path.startswith('/srv/mps/') for mount in response.mounts) and response.mounts


def test_the_validator_finds_a_resource_by_its_prefix_where_shared_ones_are_renamed(node):
    node.add_config('shared', {'sharing': {'timeSlicing': {
        'renameByDefault': True, 'resources': [{'name': GPU, 'replicas': 4}]}}})
    node.choose_config('shared')
    assert node.start_config_manager('nvidia-device-plugin', is_init=True).wait() == 0
    node.driver_is_ready()
    node.start_plugin(config=True)
    node.wait_counts(8, GPU + '.shared')
    ids, _ = node.kubelet.admit('pod', GPU + '.shared', 1)
    assert ids[0].split('::')[0] in UUIDS


def test_a_driver_of_the_host_is_served_from_its_roots(node):
    node.driver_is_ready(IS_HOST_DRIVER='true', NVIDIA_DRIVER_ROOT='/', DRIVER_ROOT_CTR_PATH='/host', NVIDIA_DEV_ROOT='/',
                         DEV_ROOT_CTR_PATH='/host')
    plugin = node.start_plugin()
    node.wait_counts(2)
    plugin.wait_log('"containerDriverRoot": "/host"')


@pytest.mark.parametrize('script, root', [
    (ENTRYPOINT, '/driver-root'), (WITHOUT_MODULES, '/driver-root'), (BY_BASH, '/driver-root'), (TWO_FILES, '/run/nvidia/driver')],
    ids=['v26.3.3 and newer', 'v25.10 to v26.3.2', 'v24.6 to v25.3', 'v23.9 and v24.3'])
def test_the_entrypoint_scripts_of_every_version_start_the_plugin(node, script, root):
    """Before v25.10 bash is the shell of the container's command, and of the script."""
    node.write('entrypoint.sh', script, 0o700)
    plugin = node.start_plugin(shell=script.splitlines()[0][len('#!'):])
    node.driver_is_ready()
    node.wait_counts(2)
    plugin.wait_log('"containerDriverRoot": "%s"' % root)
    assert plugin.stop() == 0


def test_an_init_container_may_have_a_script_for_bash(node):
    node.driver_is_ready()
    mounts = {'/run/nvidia/validations': node.at('validations'), '/driver-root': node.at('driver'), '/config': node.at('config')}
    path = 'etc/nvidia-imex/nodes_config.cfg'
    assert node.run('/bin/bash', '-c', COPY_NODES, mounts=mounts) == (0, 'none\n')
    os.makedirs(os.path.dirname(node.at('driver', path)))
    node.write('driver/' + path, '10.0.0.1\n')
    for _ in range(2):
        assert node.run('/bin/bash', '-c', COPY_NODES, mounts=mounts) == (0, '')
        with open(node.at('config', path), encoding='utf-8') as file:
            assert file.read() == '10.0.0.1\n'
