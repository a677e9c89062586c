# SPDX-License-Identifier: Apache-2.0
"""CDI specifications as container runtimes read them: with the Go library that those are built with."""
import json
import os
import shutil
import stat
import subprocess

import pytest

EMIT = os.environ['WARPSHARE_CDI_EMIT']
INJECT = os.environ['WARPSHARE_CDI_INJECT']
SOURCE = os.environ['WARPSHARE_SOURCE']
GO_PATH = '/usr/share/gocode'
LIBRARY = 'github.com/container-orchestrated-devices/container-device-interface'
VENDOR = 'k8s.device-plugin.nvidia.com'
LIBRARIES = '/usr/lib/x86_64-linux-gnu'
READ_ONLY = ['ro', 'nosuid', 'nodev', 'rbind', 'rprivate']


@pytest.fixture(scope='module')
def injector():
    if not shutil.which('go'):
        pytest.skip('Go is not installed (Debian: golang-go)')
    if not os.path.isdir(f'{GO_PATH}/src/{LIBRARY}'):
        pytest.skip('the CDI library is not installed '
                    '(Debian: golang-github-container-orchestrated-devices-container-device-interface-dev)')
    environment = {**os.environ, 'GO111MODULE': 'off', 'GOPATH': GO_PATH, 'GOPROXY': 'off', 'CGO_ENABLED': '0',
                   'GOCACHE': INJECT + '.cache'}
    subprocess.run(['go', 'build', '-o', INJECT, './test/e2e/cdi'], cwd=SOURCE, env=environment, check=True, timeout=280)
    return INJECT


class Machine:
    def __init__(self, root):
        self.root = str(root)

    def path(self, path):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        return self.root + path

    def node(self, path, major, minor, mode=0o666):
        try:
            os.mknod(self.path(path), stat.S_IFCHR | 0o600, os.makedev(major, minor))
        except PermissionError:
            pytest.skip('no right to make device nodes here; run as root')
        os.chmod(self.root + path, mode)

    def publish(self):
        done = subprocess.run([EMIT, self.root], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, '')

    def inject(self, injector, *names):
        done = subprocess.run([injector, self.root + '/cdi', *names], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    for path, major, minor in (('/dev/nvidiactl', 195, 255), ('/dev/nvidia-uvm', 511, 0), ('/dev/nvidia0', 195, 0),
                               ('/dev/nvidia1', 195, 1), ('/dev/gdrdrv', 510, 0)):
        made.node(path, major, minor)
    made.node('/dev/nvidia-caps/nvidia-cap10', 509, 10, 0o444)
    made.node('/dev/nvidia-caps/nvidia-cap11', 509, 11, 0o444)
    for library in ('libcuda', 'libnvidia-ml'):
        with open(made.path(f'{LIBRARIES}/{library}.so.580.105.08'), 'wb'):
            pass
    made.publish()
    return made


def nodes(answer):
    """By path: major, minor and mode."""
    return {device['path']: (device['major'], device['minor'], device['fileMode'])
            for device in answer['container']['linux']['devices']}


def environment(answer):
    """This version of the library appends; the last one counts."""
    return dict(entry.split('=', 1) for entry in answer['container']['process']['env'])


# What the container has before CDI, limits of its own among it: cdi/main.go.
POD = {'NVIDIA_VISIBLE_DEVICES': 'all', 'HOME': '/', 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=80G',
       'CUDA_MPS_PIPE_DIRECTORY': '/tmp/none'}
CONTROL = {'/dev/nvidiactl': (195, 255, 0o666), '/dev/nvidia-uvm': (511, 0, 0o666)}


def test_every_device_is_known_and_no_file_is_refused(machine, injector):
    answer = machine.inject(injector)
    assert answer['file_errors'] == {}
    assert sorted(answer['devices']) == [f'{VENDOR}/gdrcopy=all', f'{VENDOR}/gpu=GPU-0', f'{VENDOR}/gpu=MIG-1',
                                         'nvidia.com/mps=GPU-0', 'nvidia.com/mps=GPU-0-1', 'nvidia.com/mps=GPU-0-2']


def test_a_container_gets_its_gpu_and_the_driver(machine, injector):
    answer = machine.inject(injector, f'{VENDOR}/gpu=GPU-0')
    assert (answer['error'], answer['unresolvable']) == ('', None)
    assert nodes(answer) == {**CONTROL, '/dev/nvidia0': (195, 0, 0o666)}
    container = answer['container']
    assert {(rule['type'], rule['major'], rule['minor'], rule['access'])
            for rule in container['linux']['resources']['devices'] if rule['allow']} == {
                ('c', 195, 255, 'rwm'), ('c', 511, 0, 'rwm'), ('c', 195, 0, 'rwm')}
    assert environment(answer) == {**POD, 'NVIDIA_VISIBLE_DEVICES': 'void', 'NVIDIA_CTK_LIBCUDA_DIR': LIBRARIES}
    assert container['mounts'] == [
        {'source': f'{machine.root}{LIBRARIES}/{name}.so.580.105.08', 'destination': f'{LIBRARIES}/{name}.so.580.105.08',
         'options': READ_ONLY} for name in ('libcuda', 'libnvidia-ml')]
    assert [hook['args'][1] for hook in container['hooks']['createContainer']] == [
        'create-symlinks', 'enable-cuda-compat', 'update-ldcache', 'disable-device-node-modification',
        'update-application-profile']


def test_a_container_gets_its_mig_device_and_no_other(machine, injector):
    answer = machine.inject(injector, f'{VENDOR}/gpu=MIG-1')
    assert nodes(answer) == {**CONTROL, '/dev/nvidia1': (195, 1, 0o666), '/dev/nvidia-caps/nvidia-cap10': (509, 10, 0o444),
                             '/dev/nvidia-caps/nvidia-cap11': (509, 11, 0o444)}


def test_classes_add_up(machine, injector):
    answer = machine.inject(injector, f'{VENDOR}/gpu=GPU-0', f'{VENDOR}/gdrcopy=all')
    assert nodes(answer) == {**CONTROL, '/dev/nvidia0': (195, 0, 0o666), '/dev/gdrdrv': (510, 0, 0o666)}


@pytest.mark.parametrize('replicas, threads, memory', [(1, '50', '0=11904M'), (2, '100', '0=23808M')])
def test_limits_replace_those_that_a_pod_sets_itself(machine, injector, replicas, threads, memory):
    answer = machine.inject(injector, f'{VENDOR}/gpu=GPU-0', f'nvidia.com/mps=GPU-0-{replicas}')
    assert (answer['error'], answer['unresolvable']) == ('', None)
    assert nodes(answer) == {**CONTROL, '/dev/nvidia0': (195, 0, 0o666)}
    assert environment(answer) == {
        **POD, 'NVIDIA_VISIBLE_DEVICES': 'void', 'NVIDIA_CTK_LIBCUDA_DIR': LIBRARIES,
        'CUDA_MPS_PIPE_DIRECTORY': '/mps/GPU-0/pipe', 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': threads,
        'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': memory}


def test_a_major_number_that_the_kernel_has_changed_is_not_stale(machine, injector):
    os.unlink(machine.root + '/dev/nvidia-uvm')
    machine.node('/dev/nvidia-uvm', 237, 0)
    answer = machine.inject(injector, f'{VENDOR}/gpu=GPU-0')
    assert nodes(answer)['/dev/nvidia-uvm'] == (237, 0, 0o666)


def test_a_cdi_name_that_is_in_no_file_is_an_error(machine, injector):
    answer = machine.inject(injector, f'{VENDOR}/gpu=GPU-7')
    assert answer['unresolvable'] == [f'{VENDOR}/gpu=GPU-7']
    assert 'unresolvable CDI devices' in answer['error']
