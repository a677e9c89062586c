# SPDX-License-Identifier: Apache-2.0
"""The program in the place of NVIDIA's plugin: started by its name, with its environment, watched by its tools."""
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

import node as node_module
from node import GPU, Agent, sharing, v100s

LINK = os.path.join(os.path.dirname(node_module.WARPSHARE), 'nvidia-device-plugin')

# What the GPU Operator's DaemonSet sets, and what its entry script exports for a driver on the host.
OPERATOR = {
    'PASS_DEVICE_SPECS': 'true', 'FAIL_ON_INIT_ERROR': 'true', 'DEVICE_LIST_STRATEGY': 'envvar', 'DEVICE_ID_STRATEGY': 'uuid',
    'NVIDIA_VISIBLE_DEVICES': 'all', 'NVIDIA_DRIVER_CAPABILITIES': 'all', 'MPS_ROOT': '/run/nvidia/mps',
    'MIG_STRATEGY': 'single', 'NVIDIA_MIG_MONITOR_DEVICES': 'all', 'IS_HOST_DRIVER': 'true', 'NVIDIA_DRIVER_ROOT': '/',
    'DRIVER_ROOT_CTR_PATH': '/host', 'NVIDIA_DEV_ROOT': '/', 'DEV_ROOT_CTR_PATH': '/host', 'GDRCOPY_ENABLED': ''}

HEADER = r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} [\w.-]+:\d+\] '


def fail(node, position):
    gpus = v100s()
    gpus[position]['lost'] = True
    node.scenario(gpus, events=[{'gpu': position, 'xid': 79}])


def start(node, *arguments, **environment):
    """As a container starts it: by its bare name. The rest, but for where the simulation is, comes from the environment."""
    variables = {
        'PATH': os.path.dirname(LINK) + ':' + os.environ['PATH'],
        'WARPSHARE_SIM_SCENARIO': node.scenario_path,
        'WARPSHARE_NVML_LIBRARY': node.library,
        'WARPSHARE_CDI_ROOT': os.path.join(node.folder, 'cdi'),
        'KUBELET_SOCKET': node.kubelet.socket,
        'WARPSHARE_MPS_DIRECTORY': node.mps_root,
        'WARPSHARE_POD_RESOURCES_SOCKET': node.kubelet.pod_resources,
        **node_module.ASKED,
        **{name: value for name, value in os.environ.items() if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_'))},
        **({'CONFIG_FILE': node.config_path} if os.path.lexists(node.config_path) else {}),
        **environment}
    node.agents.append(Agent(arguments, variables, ['/bin/sh', '-c', 'shift; exec nvidia-device-plugin "$@"', 'sh']))
    return node.agent


def start_all(node, *arguments, **environment):
    node.kubelet.start()
    agent = start(node, *arguments, **environment)
    node.wait(lambda: node.kubelet.allocatable(GPU), 'GPUs are allocatable')
    return agent


def with_cdi(node):
    """The variables under which the agent writes specifications, of a driver and device nodes that are in the node's folder."""
    root = os.path.join(node.folder, 'driver')
    devices = os.path.join(node.folder, 'machine/dev')
    os.makedirs(devices)
    for name in ('nvidia0', 'nvidia1', 'nvidia2', 'nvidia3', 'nvidiactl', 'nvidia-uvm'):
        try:
            os.mknod(os.path.join(devices, name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError as error:
            pytest.skip('device nodes cannot be made here, which takes CAP_MKNOD: %s' % error)
    folder = os.path.join(root, 'usr/lib64')
    os.makedirs(folder, exist_ok=True)
    for name in ('libcuda.so.550.163.01', 'libnvidia-ml.so.550.163.01'):
        shutil.copy(node.library, os.path.join(folder, name))
    return {'DEVICE_LIST_STRATEGY': 'cdi-annotations,cdi-cri', 'DRIVER_ROOT_CTR_PATH': root,
            'WARPSHARE_SYSTEM_ROOT': os.path.dirname(devices)}


def swap(node, config):
    """What kubelet does with a ConfigMap that changed: a new folder, and "..data" turned to it by a rename."""
    folder = os.path.join(node.folder, 'configmap')
    os.makedirs(folder, exist_ok=True)
    version = '..%d' % len(os.listdir(folder))
    os.mkdir(os.path.join(folder, version))
    path, node.config_path = node.config_path, os.path.join(folder, version, 'config.yaml')
    node.config(config)
    node.config_path = path
    os.symlink(version, os.path.join(folder, '..new'))
    os.rename(os.path.join(folder, '..new'), os.path.join(folder, '..data'))
    if not os.path.lexists(os.path.join(folder, 'config.yaml')):
        os.symlink('..data/config.yaml', os.path.join(folder, 'config.yaml'))
    node.config_path = os.path.join(folder, 'config.yaml')


def test_the_operators_environment_serves_every_gpu(node):
    agent = start_all(node, **OPERATOR)
    node.wait_counts(4)
    ids, response = node.kubelet.admit('pod', GPU, 1)
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == ids[0] and ids[0].startswith('GPU-')
    # By this name a config manager finds the process that it signals.
    with open('/proc/%d/cmdline' % agent.pid, 'rb') as cmdline:
        assert cmdline.read() == b'nvidia-device-plugin\0'
    assert agent.stop() == 0


def test_the_operators_environment_with_cdi_names_devices_that_are_in_the_specification(node):
    start_all(node, **{**OPERATOR, **with_cdi(node), 'CDI_ENABLED': 'true',
                       'CDI_ANNOTATION_PREFIX': 'cdi.k8s.io/',
                       'NVIDIA_CDI_HOOK_PATH': '/usr/local/nvidia/toolkit/nvidia-cdi-hook'})
    ids, response = node.kubelet.admit('pod', GPU, 1)
    name = 'k8s.device-plugin.nvidia.com/gpu=' + ids[0]
    assert [device.name for device in response.cdi_devices] == [name]
    path, = os.listdir(os.path.join(node.folder, 'cdi'))
    assert path == 'k8s.device-plugin.nvidia.com-gpu.json'
    with open(os.path.join(node.folder, 'cdi', path), encoding='utf-8') as file:
        assert '"%s"' % ids[0] in file.read()


def test_mps_is_where_nvidias_control_daemon_has_it(node):
    node.config(sharing('mps', 10))
    start_all(node, **OPERATOR)
    _, response = node.kubelet.admit('pod', GPU, 1)
    assert response.envs['CUDA_MPS_PIPE_DIRECTORY'] == '/mps/nvidia.com/gpu/pipe'
    assert [(mount.host_path, mount.container_path) for mount in response.mounts] == [
        ('/run/nvidia/mps/nvidia.com/gpu/pipe', '/mps/nvidia.com/gpu/pipe'), ('/run/nvidia/mps/shm', '/dev/shm')]


def test_every_line_of_the_log_is_one_of_klog(node):
    agent = start_all(node, **OPERATOR)
    fail(node, 1)
    node.wait_counts(3, 4)
    agent.reload()
    assert agent.stop() == 0
    lines = re.sub('(?<=Running with config:\n){(?s:.*?)^}\n', '', agent.log(), flags=re.MULTILINE).splitlines()
    assert not [line for line in lines if not re.match(HEADER, line)]
    pids = {int(re.match(r'\S+ \S+ +(\d+) ', line).group(1)) for line in lines}
    assert pids == {agent.pid}


def test_the_lines_that_tools_look_for_are_nvidias(node):
    agent = start_all(node)
    uuid = node.kubelet.ids(GPU)[1]
    agent.wait_log('^I%sRunning with config:\n{$' % HEADER[5:])
    agent.wait_log('"logFormat": "klog"')
    agent.wait_log(r"^I%sStarting to serve 'nvidia\.com/gpu' on %s/\S+\.sock$" % (HEADER[5:], node.directory))
    agent.wait_log("Registered device plugin for 'nvidia.com/gpu' with Kubelet")
    fail(node, 1)
    agent.wait_log('XidCriticalError: Xid=79 on Device=%s; marking device as unhealthy.' % uuid)
    agent.wait_log("] 'nvidia.com/gpu' device marked unhealthy: %s$" % uuid)


def test_a_unit_that_falls_is_one_line_however_many_replicas_it_has(node):
    node.config(sharing('timeSlicing', 100))
    agent = start_all(node)
    fail(node, 1)
    node.wait_counts(300, 400)
    agent.wait_log('marked unhealthy: ')
    assert agent.count('marked unhealthy: ') == 1


def test_without_gpus_it_waits(node):
    node.scenario([])
    agent = start(node)
    agent.wait_log(HEADER + 'No devices found. Waiting indefinitely.$')
    assert agent.stop() == 0


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it_with_status_0(node, number):
    agent = start_all(node)
    agent.signal(number)
    assert agent.wait() == 0


def test_a_wrong_configuration_ends_the_start_with_status_1(node):
    node.config('version: v2\n')
    agent = start(node)
    agent.fails('^E%s"configuration refused" error=".*is not a known version' % HEADER[5:])


def test_a_wrong_flag_shows_the_usage_and_has_status_1():
    done = subprocess.run([LINK, '--frobnicate'], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith('usage: nvidia-device-plugin [OPTION...]\n')
    assert done.stderr.endswith("\nnvidia-device-plugin: unknown flag '--frobnicate'; --help lists all\n")


def test_a_word_that_is_a_command_of_ours_is_that_command():
    """The image's entry point is this program: `docker run IMAGE demo`."""
    for words in (['plan', '--help'], ['mps', 'status', '--help']):
        done = subprocess.run([LINK, *words], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.startswith('usage: warpshare ' + ' '.join(words[:-1]))
    done = subprocess.run([LINK, 'plam'], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.endswith("\nnvidia-device-plugin: unexpected argument 'plam'; --help lists the flags\n")


def test_words_on_the_command_line_are_ignored_as_nvidias_program_ignores_them():
    for words in (['--check', '--pass-device-specs', 'true', '--frobnicate'], ['--check', '--', 'rest'], ['--check', '-']):
        done = subprocess.run([LINK, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    done = subprocess.run([LINK, '--check', '--fail-on-init-error', 'false'], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.startswith("nvidia-device-plugin: warning: 'false' and all after it are ignored, as by NVIDIA's program; "
                                  "a boolean is written --flag=false\n")


@pytest.mark.parametrize('program', ['nvidia-device-plugin', 'mps-control-daemon', 'gpu-feature-discovery', 'config-manager',
                                     'nvidia-mig-manager', 'nvidia-mig-parted'])
def test_the_word_help_shows_the_usage_with_status_0(program):
    for word in ('help', 'h'):
        done = subprocess.run([node_module.WARPSHARE, program, word], capture_output=True, text=True, timeout=60, check=True,
                              env={**os.environ, 'MIG_STRATEGY': 'answered before this is read'})
        assert done.stdout.startswith('usage: %s ' % program) and not done.stderr


@pytest.mark.parametrize('command', [[LINK, '--version'], [node_module.WARPSHARE, 'nvidia-device-plugin', '--version']])
def test_the_version_is_in_nvidias_form(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r'NVIDIA Device Plugin version \d+\.\d+\.\d+\ncommit: ([0-9a-f]{40}|unknown)\n', done.stdout)


# ---- the configuration file ----

def two_resources(replicas):
    return {'version': 'v1', 'sharing': {'timeSlicing': {'resources': [
        {'name': GPU, 'rename': 'nvidia.com/gpu.small', 'devices': ['0', '1'], 'replicas': replicas}]}}}


def test_a_configmap_that_is_swapped_takes_effect_by_itself_and_touches_only_what_changed(node):
    swap(node, two_resources(4))
    agent = start_all(node)
    node.wait_counts(8, resource='nvidia.com/gpu.small')
    held, _ = node.kubelet.admit('pod', 'nvidia.com/gpu.small', 2)
    swap(node, two_resources(6))
    node.wait_counts(12, resource='nvidia.com/gpu.small')
    assert set(held) <= set(node.kubelet.ids('nvidia.com/gpu.small', healthy=True))
    swap(node, two_resources(3))
    node.wait_counts(6, 12, resource='nvidia.com/gpu.small')
    assert set(held) <= set(node.kubelet.ids('nvidia.com/gpu.small'))
    assert len(node.kubelet.messages_of('nvidia.com/gpu.small')) == 3
    assert len(node.kubelet.messages_of(GPU)) == 1 and len(node.kubelet.attempts) == 2 and not node.kubelet.ended
    assert agent.count('the configuration file changed') == 2


# ---- without kubelet's list, as NVIDIA's chart and the GPU Operator mount it ----

def without_list(node):
    return {'WARPSHARE_POD_RESOURCES_SOCKET': os.path.join(node.folder, 'not-mounted', 'kubelet.sock')}


BLIND = r'^W.*takes effect at once, also on units that pods still hold.* mount its folder .*folder="?\S*%s'


def test_without_kubelets_list_a_change_takes_effect_at_once(node):
    """kubelet's record keeps pods that have ended until its next Allocate: nobody may wait for that."""
    swap(node, {'version': 'v1'})
    agent = start_all(node, **without_list(node))
    node.wait_counts(4)
    for name in ('one', 'two', 'three', 'four'):
        node.kubelet.admit(name, GPU, 1)
    for name in ('one', 'two', 'three'):
        node.kubelet.remove_pod(name)
    swap(node, sharing('timeSlicing', 4))
    node.wait_counts(16, 20)
    agent.wait_log(BLIND % 'not-mounted')
    node.kubelet.admit('five', GPU, 1)
    swap(node, sharing('timeSlicing', 2))
    node.wait_counts(8, 20)
    assert agent.count(BLIND % 'not-mounted') == 1


def test_without_kubelets_list_shares_of_a_node_with_one_daemon_change_at_once(node):
    swap(node, sharing('mps', 4))
    agent = start_all(node, **without_list(node))
    node.wait_counts(16)
    node.kubelet.admit('one', GPU, 1)
    node.kubelet.remove_pod('one')
    swap(node, sharing('mps', 8))
    node.wait_counts(32)
    agent.wait_log(BLIND % 'not-mounted')
    assert agent.stop() == 0
    start(node, **without_list(node))
    node.wait_counts(32)


def test_the_same_content_again_changes_nothing(node):
    swap(node, two_resources(4))
    agent = start_all(node)
    swap(node, two_resources(4))
    os.utime(node.config_path)
    node.stays(lambda: agent.count('Running with config:') == 1, 'one reading', 1.0)


def test_a_config_manager_that_turns_its_link_and_then_signals_causes_one_reload(node):
    swap(node, sharing('timeSlicing', 4))
    target, node.config_path = node.config_path, os.path.join(node.folder, 'chosen.yaml')
    os.symlink('/dev/null', node.config_path)  # its fallback "empty"
    agent = start_all(node)
    node.wait_counts(4)
    os.symlink(target, node.config_path + '.new')
    os.rename(node.config_path + '.new', node.config_path)
    agent.hang_up()
    node.wait_counts(16, 20)
    node.stays(lambda: agent.count('Running with config:') == 2, 'one reload', 1.0)
    # Now the ConfigMap behind the link changes, and nobody signals.
    swap(node, sharing('timeSlicing', 5))
    node.wait_counts(20, 24)


def test_a_bad_file_is_said_once_and_the_good_one_after_it_takes_effect(node):
    swap(node, sharing('timeSlicing', 4))
    agent = start_all(node, WARPSHARE_LOG_LEVEL='debug')
    for i in range(3):
        swap(node, 'version: v2\n# %d\n' % i)
        agent.wait_log('configuration refused, the one in force stays', count=i + 1)
    assert agent.count('^E.*configuration refused') == 1
    swap(node, 'version: v1\nsharing: 5\n')
    agent.wait_log('^E.*configuration refused', count=2)
    agent.hang_up()  # who asks is answered
    agent.wait_log('^E.*configuration refused', count=3)
    assert len(node.kubelet.messages) == 1
    swap(node, sharing('timeSlicing', 5))
    node.wait_counts(20)


def test_a_file_that_is_gone_changes_nothing_and_takes_effect_when_it_is_back(node):
    node.config(sharing('timeSlicing', 4))
    agent = start_all(node)
    os.unlink(node.config_path)
    node.stays(lambda: agent.count('configuration') == 0, 'nothing is said', 1.0)
    assert node.kubelet.allocatable(GPU) == 16
    node.config(sharing('timeSlicing', 5))
    node.wait_counts(20)


def test_a_plan_that_the_gpus_do_not_allow_is_followed_by_one_that_they_do(node):
    swap(node, sharing('mps', 20))
    agent = start_all(node)
    node.wait_counts(80)
    swap(node, sharing('mps', 49))
    agent.wait_problem('newest plan is refused: .*49, at most 48')
    swap(node, sharing('mps', 10))
    node.wait_counts(40, 80)


# ---- what can fail beside the configuration ----

def block_cdi(node):
    """No specification can be written while a file is in the place of the folder."""
    folder = os.path.join(node.folder, 'cdi')
    with open(folder + '.file', 'w', encoding='utf-8'):
        pass
    while True:  # the agent makes the folder again as soon as it is gone
        if os.path.isdir(folder):
            os.rename(folder, tempfile.mkdtemp(prefix='cdi.old-', dir=node.folder))
        try:
            os.rename(folder + '.file', folder)
            return
        except IsADirectoryError:
            pass


def unblock_cdi(node):
    os.unlink(os.path.join(node.folder, 'cdi'))


def test_a_specification_that_cannot_be_written_ends_the_start_with_status_1(node):
    block_cdi(node)
    agent = start(node, **with_cdi(node))
    agent.fails('"no plan can be made" error="CDI: ')


def test_a_specification_that_cannot_be_written_is_tried_again_where_the_start_may_wait(node):
    block_cdi(node)
    node.kubelet.start()
    agent = start(node, FAIL_ON_INIT_ERROR='false', **with_cdi(node))
    agent.wait_log('"no plan can be made, will try again" error="CDI: ')
    assert node.kubelet.attempts == []
    unblock_cdi(node)
    node.wait_counts(4)


def test_gpus_that_went_are_unhealthy_while_the_new_plan_cannot_be_put_in_force(node):
    agent = start_all(node, **with_cdi(node))
    node.wait_counts(4)
    gone = node.kubelet.ids(GPU)[3]
    block_cdi(node)
    node.scenario(v100s(3))
    agent.hang_up()
    agent.wait_problem('newest plan is refused: CDI: ')
    node.wait_counts(3, 4)
    assert node.kubelet.ids(GPU, healthy=False) == [gone]
    node.stays(lambda: agent.count('change refused') == 1, 'the reason is said once', 2.5)
    unblock_cdi(node)
    agent.wait_plan(3)
    node.wait_counts(3, 4)


def test_an_imex_channel_that_is_required_and_missing_ends_the_start(node):
    agent = start(node, IMEX_CHANNEL_IDS='0', IMEX_REQUIRED='true', WARPSHARE_SYSTEM_ROOT=node.folder)
    agent.fails('"no plan can be made" error="IMEX channel 0 .*channel0 is not there')


def test_an_imex_channel_that_is_missing_is_a_warning_where_it_is_not_required(node):
    agent = start_all(node, IMEX_CHANNEL_IDS='0', WARPSHARE_SYSTEM_ROOT=node.folder)
    node.wait_counts(4)
    agent.wait_log('^W.*IMEX channel 0 .* is not there$')
    assert agent.count('^W.*IMEX channel 0 .* is not there$') == 1


# ---- a driver that is replaced ----

@pytest.fixture
def replaceable(node):
    library = os.path.join(node.folder, 'libnvidia-ml.so.1')
    shutil.copy(node.library, library)
    node.library = library
    start_all(node)
    node.wait_counts(4)
    return node


def replace_driver(node, content=None):
    if content is None:
        shutil.copy(node_module.SIMULATOR, node.library + '.new')
    else:
        node._write(node.library + '.new', content)
    os.rename(node.library + '.new', node.library)
    node.agent.hang_up()


def mapped(node):
    """The inodes of the library that the agent has mapped, and those of its processes."""
    found = []
    with open('/proc/%d/task/%d/children' % (node.agent.pid, node.agent.pid), encoding='ascii') as children:
        pids = [str(node.agent.pid), *children.read().split()]
    for pid in pids:
        try:
            with open('/proc/%s/maps' % pid, encoding='utf-8') as maps:
                found.append({int(line.split()[4]) for line in maps if 'libnvidia-ml' in line})
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return found[0], set().union(*found[1:])


def test_a_replaced_driver_is_loaded_by_other_processes_and_nothing_restarts(replaceable):
    kubelet, agent = replaceable.kubelet, replaceable.agent
    ids = kubelet.ids(GPU)
    for _ in range(3):
        replace_driver(replaceable)
        inode = os.stat(replaceable.library).st_ino
        replaceable.wait(lambda inode=inode: mapped(replaceable) == (set(), {inode}), 'only the new library is mapped, and not by the agent')
    assert kubelet.ids(GPU) == ids and len(kubelet.registered) == 1
    assert agent.count('GPUs found') == 1
    assert agent.stop() == 0


def test_a_driver_that_is_broken_after_it_was_replaced_is_waited_for(replaceable):
    replace_driver(replaceable, 'not ELF\n')
    replaceable.wait_counts(0, 4)
    replace_driver(replaceable)
    replaceable.wait_counts(4)
    assert len(replaceable.kubelet.registered) == 1
