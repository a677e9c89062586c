# SPDX-License-Identifier: Apache-2.0
"""The ways in which a container's devices reach its runtime: what kubelet reads from Allocate under each strategy."""
import errno
import os
import re
import shutil
import stat
import subprocess
import uuid

import grpc
import pytest

from container_options import ContainerOptions
from container_runtime import Container
from node import GPU, sharing, v100s

VENDOR = 'k8s.device-plugin.nvidia.com'
VOLUMES = '/var/run/nvidia-container-devices'
CONTROL_NODES = ['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools', '/dev/nvidia-modeset']
IMEX_NODE = '/dev/nvidia-caps-imex-channels/channel0'


class Answer:
    """One container's response in plain Python."""

    def __init__(self, response):
        self.envs = dict(response.envs)
        self.mounts = [(mount.host_path, mount.container_path, mount.read_only) for mount in response.mounts]
        self.nodes = [(node.host_path, node.container_path, node.permissions) for node in response.devices]
        self.annotations = dict(response.annotations)
        self.cdi = [device.name for device in response.cdi_devices]


def allocate(kubelet, *ids, resource=GPU):
    response, = kubelet.plugin(resource).allocate_ids(list(ids))
    return Answer(response)


def volumes(*names):
    return [('/dev/null', VOLUMES + '/' + name, False) for name in names]


def qualified(names):
    return ['%s/gpu=%s' % (VENDOR, name) for name in names]


def same_path(paths):
    return [(path, path, 'rw') for path in paths]


def start(node, strategies, *arguments, config=None):
    """An agent on a machine without device nodes, unless they are made; CDI wants those of the GPUs, and a driver."""
    if 'cdi' in strategies:
        make_device_nodes(node, *['/dev/nvidia%d' % i for i in range(4)])
        make_driver(node)
    return node.start_all(
        config, '--device-list-strategy=' + strategies, '--cdi-root=' + os.path.join(node.folder, 'cdi'),
        '--system-root=' + machine(node), '--container-driver-root=' + os.path.join(node.folder, 'driver'), *arguments)


def machine(node):
    root = os.path.join(node.folder, 'machine')
    os.makedirs(os.path.join(root, 'dev'), exist_ok=True)
    return root


def make_driver(node):
    folder = os.path.join(node.folder, 'driver/usr/lib64')
    os.makedirs(folder, exist_ok=True)
    for library in ('libcuda', 'libnvidia-ml'):
        with open(os.path.join(folder, library + '.so.550.163.01'), 'w', encoding='ascii'):
            pass


def make_device_nodes(node, *paths):
    for path in paths:
        path = machine(node) + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except FileExistsError:
            pass
        except PermissionError as error:
            pytest.skip('device nodes cannot be made here, which takes CAP_MKNOD: %s' % error)


# ---- each strategy, and those that stand together ----

@pytest.mark.parametrize('strategies, ids', [
    ('envvar', 'uuid'), ('volume-mounts', 'uuid'), ('cdi-annotations', 'uuid'), ('cdi-cri', 'uuid'),
    ('envvar,volume-mounts', 'uuid'), ('cdi-annotations,cdi-cri', 'uuid'), ('envvar,cdi-cri', 'uuid'),
    ('volume-mounts,cdi-annotations', 'uuid'), ('cdi-cri,cdi-annotations,volume-mounts,envvar', 'uuid'),
    ('envvar', 'index'), ('cdi-cri,cdi-annotations,volume-mounts', 'index')])
def test_devices_are_passed_by_the_configured_strategies_only(node, strategies, ids):
    kubelet = start(node, strategies, '--device-id-strategy=' + ids, config=sharing('timeSlicing', 3))
    # Replicas of the third GPU and of the first, in this order; the scenario's order is that of the first list.
    gpus = list(dict.fromkeys(device.split('::')[0] for device in kubelet.messages_of(GPU)[0].healthy))
    answer = allocate(kubelet, gpus[2] + '::1', gpus[0] + '::2', gpus[2] + '::0')
    names = [gpus[2], gpus[0]] if ids == 'uuid' else ['2', '0']
    chosen = strategies.split(',')
    if 'volume-mounts' in chosen:
        assert answer.envs == {'NVIDIA_VISIBLE_DEVICES': VOLUMES}
        assert answer.mounts == volumes(*names)
    else:
        assert answer.envs == ({'NVIDIA_VISIBLE_DEVICES': ','.join(names)} if 'envvar' in chosen else {})
        assert answer.mounts == []
    assert list(answer.annotations.values()) == (
        [','.join(qualified(names))] if 'cdi-annotations' in chosen else [])
    assert answer.cdi == (qualified(names) if 'cdi-cri' in chosen else [])
    assert answer.nodes == []


def test_the_strategies_may_stand_in_the_file(node):
    kubelet = node.start_all({'version': 'v1', 'flags': {'plugin': {
        'deviceListStrategy': ['envvar', 'volume-mounts'], 'deviceIDStrategy': 'index'}}})
    answer = allocate(kubelet, next(iter(kubelet.messages_of(GPU)[0].healthy)))
    assert answer.envs == {'NVIDIA_VISIBLE_DEVICES': VOLUMES}
    assert answer.mounts == volumes('0')


def test_settings_for_a_host_of_its_own_stand_together(node):
    """A file as users write it: by index, as mounts, with the nodes, one replica each under the other name."""
    make_device_nodes(node, '/dev/nvidia1', *CONTROL_NODES)
    config = sharing('timeSlicing', 2, failRequestsGreaterThanOne=True, renameByDefault=True)
    config['flags'] = {'failOnInitError': True, 'plugin': {
        'deviceIDStrategy': 'index', 'deviceListStrategy': 'volume-mounts', 'passDeviceSpecs': True}}
    kubelet = node.start_all(config, '--system-root=' + machine(node))
    shared = GPU + '.shared'
    devices = list(kubelet.messages_of(shared)[0].healthy)
    assert len(devices) == 8
    answer = allocate(kubelet, devices[2], resource=shared)
    assert (answer.envs, answer.mounts) == ({'NVIDIA_VISIBLE_DEVICES': VOLUMES}, volumes('1'))
    assert answer.nodes == same_path([*CONTROL_NODES, '/dev/nvidia1'])
    with pytest.raises(grpc.RpcError, match='failRequestsGreaterThanOne'):
        allocate(kubelet, *devices[2:4], resource=shared)


def test_a_new_strategy_counts_from_the_next_request_on(node):
    kubelet = node.start_all({'version': 'v1', 'flags': {'plugin': {'deviceListStrategy': 'envvar'}}})
    device = kubelet.ids(GPU)[0]
    assert allocate(kubelet, device).envs == {'NVIDIA_VISIBLE_DEVICES': device}
    node.config({'version': 'v1', 'flags': {'plugin': {'deviceListStrategy': 'volume-mounts'}}})
    node.agent.hang_up()
    node.wait(lambda: allocate(kubelet, device).mounts == volumes(device), 'the device is handed out as a mount')


# ---- the annotation ----

def keys(kubelet, count):
    device = kubelet.ids(GPU)[0]
    return [next(iter(allocate(kubelet, device).annotations)) for _ in range(count)]


def test_each_answer_has_an_annotation_with_a_key_of_its_own(node):
    kubelet = start(node, 'cdi-annotations')
    found = keys(kubelet, 40)
    node.agent.stop()
    start(node, 'cdi-annotations')
    found += keys(kubelet, 40)
    assert len(set(found)) == 80
    for key in found:
        tag = re.fullmatch('cdi.k8s.io/nvidia-device-plugin_(.*)', key).group(1)
        assert str(uuid.UUID(tag)) == tag and uuid.UUID(tag).version == 4
        assert len(key.split('/')[1]) <= 63  # what Kubernetes takes


def test_the_prefix_of_the_annotation_can_be_replaced(node):
    kubelet = start(node, 'cdi-annotations', '--cdi-annotation-prefix=custom.cdi.k8s.io/')
    assert keys(kubelet, 1)[0].startswith('custom.cdi.k8s.io/nvidia-device-plugin_')


def specification(node):
    with open(os.path.join(node.folder, 'cdi', VENDOR + '-gpu.json'), encoding='utf-8') as file:
        return file.read()


def test_the_specifications_are_those_of_the_agent_that_serves(node):
    start(node, 'cdi-cri', '--nvidia-cdi-hook-path=/usr/bin/first-hook')
    first, before = node.agent, specification(node)
    assert '/usr/bin/first-hook' in before
    second = node.start('--device-list-strategy=cdi-cri', '--cdi-root=' + os.path.join(node.folder, 'cdi'),
                        '--system-root=' + machine(node), '--container-driver-root=' + os.path.join(node.folder, 'driver'),
                        '--nvidia-cdi-hook-path=/usr/bin/second-hook')
    second.wait_plan(4)
    assert specification(node) == before
    second.reload()
    assert specification(node) == before
    assert first.stop() == 0
    node.wait(lambda: '/usr/bin/second-hook' in specification(node), 'the second agent has written its own')
    node.wait_counts(4)
    answer = allocate(node.kubelet, node.kubelet.ids(GPU)[0])
    assert len(answer.cdi) == 1
    assert node.agent.stop() == 0


def remove_folder(folder):
    """However often the agent puts a file back before the folder is gone."""
    while True:
        try:
            shutil.rmtree(folder)
            return
        except OSError as error:
            assert error.errno == errno.ENOTEMPTY, error


@pytest.mark.parametrize('damage', [
    os.unlink, lambda path: remove_folder(os.path.dirname(path)), lambda path: shutil.copy('/dev/null', path)],
    ids=['removed', 'removed with its folder', 'emptied'])
def test_a_specification_that_another_program_removes_or_changes_comes_back(node, damage):
    start(node, 'cdi-cri')
    path = os.path.join(node.folder, 'cdi', VENDOR + '-gpu.json')
    before = specification(node)
    damage(path)
    node.wait(lambda: os.path.exists(path) and specification(node) == before, 'the specification is as it was')
    node.agent.wait_log('it was written again')


def test_an_agent_leaves_whose_folder_of_specifications_was_removed_on_the_host(node):
    """In its container the folder is a mount of the host's: only a new container sees the next one."""
    on_host, folder = os.path.join(node.folder, 'on-host'), os.path.join(node.folder, 'cdi')
    os.mkdir(on_host)
    os.mkdir(folder)
    prefix = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
              'mount --bind "$1" "$2" && shift 2 && exec "$@"', 'sh', on_host, folder]
    if subprocess.run([*prefix, 'true'], capture_output=True, check=False).returncode:
        pytest.skip('no right to make a mount namespace')
    make_device_nodes(node, '/dev/nvidia0')
    make_driver(node)
    node.kubelet.start()
    agent = node.start('--device-list-strategy=cdi-cri', '--cdi-root=' + folder, '--system-root=' + machine(node),
                       '--container-driver-root=' + os.path.join(node.folder, 'driver'), prefix=prefix)
    node.wait(lambda: os.listdir(on_host), 'the specification is there')
    remove_folder(on_host)
    agent.fails('error the folder of CDI specifications was removed on the host')


def test_an_agent_that_does_not_serve_any_more_leaves_the_files_to_the_one_that_does(node):
    start(node, 'cdi-cri', '--nvidia-cdi-hook-path=/usr/bin/first-hook')
    first = node.agent
    second = node.start('--device-list-strategy=cdi-cri', '--cdi-root=' + os.path.join(node.folder, 'cdi'),
                        '--system-root=' + machine(node), '--container-driver-root=' + os.path.join(node.folder, 'driver'),
                        '--nvidia-cdi-hook-path=/usr/bin/second-hook')
    second.wait_log('not serving yet')
    assert first.stop() == 0
    node.wait(lambda: '/usr/bin/second-hook' in specification(node), 'the second agent has written its own')
    os.unlink(os.path.join(node.folder, 'cdi', VENDOR + '-gpu.json'))
    second.wait_log('it was written again')
    assert '/usr/bin/second-hook' in specification(node)
    assert node.agent.stop() == 0


def test_a_device_node_that_is_made_later_gets_into_the_specification(node):
    kubelet = start(node, 'cdi-cri')
    assert '/dev/nvidia-uvm' not in specification(node)
    make_device_nodes(node, *CONTROL_NODES)
    node.wait(lambda: all('"%s"' % path in specification(node) for path in CONTROL_NODES), 'the nodes are in it')
    assert kubelet.ids(GPU)


HOOKS = {'create-symlinks': 0, 'update-ldcache': 0, 'enable-cuda-compat': 11705, 'disable-device-node-modification': 11708,
         'update-application-profile': 12000}


def make_hook_program(node, release, path='usr/bin/nvidia-ctk'):
    """One of NVIDIA's container toolkit of that release (11708: 1.17.8); test/unit/node/cdi/hooks.c compares the table with a recording."""
    path = os.path.join(node.folder, 'driver', path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(b'\x7fELF' + b'\0'.join(hook.encode() for hook, since in HOOKS.items() if since <= release))


@pytest.mark.parametrize('release', [11600, 11705, 11708, 12000])
def test_a_container_starts_whatever_hooks_the_hosts_toolkit_knows(node, release):
    make_hook_program(node, release)
    kubelet = start(node, 'cdi-cri')
    options = ContainerOptions({})
    options.cdi_devices = allocate(kubelet, kubelet.ids(GPU)[0]).cdi
    assert Container(options, os.path.join(node.folder, 'cdi'), host=os.path.join(node.folder, 'driver')).nodes
    for hook, since in HOOKS.items():
        assert ('the hook %s is left out' % hook in node.agent.log()) == (since > release)


# ---- beside the GPUs ----

@pytest.mark.parametrize('strategies', ['envvar', 'volume-mounts', 'cdi-cri'])
def test_extras_are_enabled_whatever_the_strategy(node, strategies):
    kubelet = start(node, strategies, '--gdrcopy-enabled', '--gds-enabled', '--mofed-enabled')
    envs = allocate(kubelet, kubelet.ids(GPU)[0]).envs
    envs.pop('NVIDIA_VISIBLE_DEVICES', None)
    assert envs == {'NVIDIA_GDRCOPY': 'enabled', 'NVIDIA_GDS': 'enabled', 'NVIDIA_MOFED': 'enabled'}


def test_extras_have_a_cdi_device_where_they_have_a_device_node(node):
    make_device_nodes(node, '/dev/gdrdrv')
    kubelet = start(node, 'cdi-cri', '--gdrcopy-enabled', '--gds-enabled')
    device = kubelet.ids(GPU)[0]
    assert allocate(kubelet, device).cdi == qualified([device]) + [VENDOR + '/gdrcopy=all']


@pytest.mark.parametrize('strategies', ['envvar', 'volume-mounts', 'envvar,volume-mounts', 'cdi-cri'])
def test_an_imex_channel_reaches_the_container_by_the_same_way(node, strategies):
    make_device_nodes(node, IMEX_NODE)
    kubelet = start(node, strategies, '--imex-channel-ids=0', '--pass-device-specs')
    device = kubelet.ids(GPU)[0]
    answer = allocate(kubelet, device)
    chosen = strategies.split(',')
    assert answer.envs.get('NVIDIA_IMEX_CHANNELS') == ('0' if 'envvar' in chosen else None)
    assert answer.mounts == (volumes(device, 'imex/0') if 'volume-mounts' in chosen else [])
    assert answer.cdi == (qualified([device]) + [VENDOR + '/imex-channel=0'] if 'cdi-cri' in chosen else [])
    assert ((IMEX_NODE, IMEX_NODE, 'rw') in answer.nodes) == ('cdi-cri' not in chosen)


def test_an_imex_channel_without_its_node_is_not_given_to_containers(node):
    kubelet = start(node, 'envvar', '--imex-channel-ids=0', '--pass-device-specs')
    answer = allocate(kubelet, kubelet.ids(GPU)[0])
    assert list(answer.envs) == ['NVIDIA_VISIBLE_DEVICES']
    assert IMEX_NODE not in [path for _, path, _ in answer.nodes]


@pytest.mark.parametrize('strategies', ['envvar', 'volume-mounts', 'cdi-cri'])
def test_mps_stands_beside_every_strategy(node, strategies):
    kubelet = start(node, strategies, config=sharing('mps', 10))
    device = kubelet.ids(GPU)[0]
    answer = allocate(kubelet, device)
    pipe = '/%s/pipe' % device.split('::')[0]
    assert answer.envs['CUDA_MPS_PIPE_DIRECTORY'] == '/mps' + pipe
    assert answer.mounts[:2] == [('/run/nvidia/mps' + pipe, '/mps' + pipe, True), ('/run/nvidia/mps/shm', '/dev/shm', False)]


# ---- device nodes ----

def test_device_nodes_are_those_of_the_driver_that_exist_and_those_of_the_gpus(node):
    node.scenario(v100s(3))
    make_device_nodes(node, *CONTROL_NODES)
    kubelet = start(node, 'envvar', '--pass-device-specs', config=sharing('timeSlicing', 2))
    gpus = list(dict.fromkeys(device.split('::')[0] for device in kubelet.messages_of(GPU)[0].healthy))
    answer = allocate(kubelet, gpus[2] + '::0', gpus[1] + '::0', gpus[2] + '::1')
    assert answer.nodes == same_path(CONTROL_NODES + ['/dev/nvidia2', '/dev/nvidia1'])


def test_device_nodes_that_do_not_exist_are_left_out_and_those_of_the_host_are_below_its_root(node):
    make_device_nodes(node, '/dev/nvidiactl', '/dev/nvidia-uvm')
    kubelet = start(node, 'volume-mounts', '--pass-device-specs', '--nvidia-dev-root=/run/nvidia/driver')
    answer = allocate(kubelet, next(iter(kubelet.messages_of(GPU)[0].healthy)))
    assert answer.nodes == [('/run/nvidia/driver' + path, path, 'rw')
                            for path in ('/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia0')]


def test_device_nodes_are_for_runtimes_that_do_not_find_them_by_cdi(node):
    make_device_nodes(node, *CONTROL_NODES)
    kubelet = start(node, 'cdi-annotations,cdi-cri', '--pass-device-specs')
    assert allocate(kubelet, kubelet.ids(GPU)[0]).nodes == []


# ---- MIG ----

def mig_machine(node):
    """A GPU with two MIG devices, and the minors that the driver would give them."""
    node.scenario([{'model': 'A100-40GB', 'mig': {'devices': [{'profile': '1g.5gb', 'count': 2}]}}])
    folder = os.path.join(machine(node), 'proc/driver/nvidia-caps')
    os.makedirs(folder)
    with open(os.path.join(folder, 'mig-minors'), 'w', encoding='ascii') as file:
        file.write('config 1\nmonitor 2\n')
        for gi in range(15):
            file.write('gpu0/gi%d/access %d\n' % (gi, 3 + 9 * gi))
            for ci in range(8):
                file.write('gpu0/gi%d/ci%d/access %d\n' % (gi, ci, 4 + 9 * gi + ci))


def test_mig_devices_have_their_gpus_node_once_and_capabilities_of_their_own(node):
    mig_machine(node)
    make_device_nodes(node, '/dev/nvidiactl')
    resource = 'nvidia.com/mig-1g.5gb'
    kubelet = start(node, 'envvar', '--mig-strategy=mixed', '--pass-device-specs')
    devices = list(kubelet.messages_of(resource)[0].healthy)
    answer = allocate(kubelet, *devices, resource=resource)
    assert answer.envs == {'NVIDIA_VISIBLE_DEVICES': ','.join(devices)}
    paths = [path for _, path, _ in answer.nodes]
    assert paths[:2] == ['/dev/nvidiactl', '/dev/nvidia0'] and len(set(paths)) == len(paths) == 6
    minors = [int(re.fullmatch(r'/dev/nvidia-caps/nvidia-cap(\d+)', path).group(1)) for path in paths[2:]]
    # Of each, the GPU instance and its first compute instance.
    assert [minor % 9 for minor in minors] == [3, 4, 3, 4]
    assert minors[1] == minors[0] + 1 and minors[3] == minors[2] + 1


def test_mig_devices_are_named_by_two_indices_where_that_is_wanted(node):
    mig_machine(node)
    resource = 'nvidia.com/mig-1g.5gb'
    kubelet = start(node, 'volume-mounts,cdi-cri', '--mig-strategy=mixed', '--device-id-strategy=index')
    seen = []
    for device in kubelet.ids(resource):
        answer = allocate(kubelet, device, resource=resource)
        assert answer.mounts[0][1] == '%s/%s' % (VOLUMES, answer.cdi[0].split('=')[1])
        seen += answer.cdi
    assert len(set(seen)) == 2
    for name in seen:
        assert re.fullmatch(re.escape(VENDOR) + r'/gpu=0:\d', name)


# ---- a container that asks for two of the node's resources ----

def admit_pair(node, strategies):
    """A container with a share of GPU 0 and one of GPU 1, which have names of their own: (device of each, what it is started with)."""
    few, many = GPU + '.few', GPU + '.many'
    config = {'version': 'v1', 'sharing': {'timeSlicing': {'resources': [
        {'name': GPU, 'rename': few, 'devices': ['0'], 'replicas': 2},
        {'name': GPU, 'rename': many, 'devices': ['1'], 'replicas': 2}]}}}
    kubelet = start(node, strategies, config=config)
    node.wait(lambda: kubelet.allocatable(few) and kubelet.allocatable(many), 'both resources are allocatable')
    held = [kubelet.admit('pair', resource, 1)[0][0].split('::')[0] for resource in (few, many)]
    return held, kubelet.run_options('pair')


def test_two_resources_of_a_container_join_in_cdi_devices(node):
    held, options = admit_pair(node, 'cdi-cri')
    assert sorted(options.cdi_devices) == sorted(qualified(held))
    assert options.conflicts == []


def test_two_resources_of_a_container_join_in_cdi_annotations(node):
    held, options = admit_pair(node, 'cdi-annotations')
    assert sorted(options.annotations.values()) == sorted(qualified(held))
    assert options.conflicts == []


def test_two_resources_of_a_container_join_in_volume_mounts(node):
    held, options = admit_pair(node, 'volume-mounts')
    assert set(options.mounts) == {VOLUMES + '/' + device for device in held}


def test_of_two_resources_by_a_variable_the_container_sees_one(node):
    """kubelet cannot join a variable: that is why such a container needs CDI."""
    held, options = admit_pair(node, 'envvar')
    assert options.envs['NVIDIA_VISIBLE_DEVICES'] in held
    assert 'NVIDIA_VISIBLE_DEVICES' in [name for _, name, _, _ in options.conflicts]
