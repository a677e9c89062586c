# SPDX-License-Identifier: Apache-2.0
"""warpshare doctor: a node in a folder that has all it needs, and each thing that can be missing or wrong on it."""
import json
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import threading

import grpc
import pytest
import yaml

from apiserver import ApiServer, agent_rules
from kubelet import Kubelet
from node import DEADLINE, REPORT, SIMULATOR, WARPSHARE, sharing
from rights import needs_mounts

DRIVER = '550.163.01'
MODULE = 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Tue Apr  8 12:41:17 UTC 2025\n'
FIRST_UUID = 'GPU-11111111-2222-3333-4444-555555555555'


class Site:
    """What a doctor can look at, whole at first. Every test breaks a thing of it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='ws-doctor-', dir='/tmp')
        os.chmod(self.folder, 0o755)
        self.listeners = []
        self.environment = {}
        self.arguments = []
        self.can_mknod = True
        self.write('root/proc/driver/nvidia/version', MODULE % DRIVER)
        self.write('root/sys/fs/cgroup/cgroup.controllers', 'cpu memory\n')
        self.folder_of('root/proc/self/ns')
        os.symlink('pid:[4026531836]', self.path('root/proc/self/ns/pid'))
        for name in ('nvidiactl', 'nvidia-uvm', 'nvidia0', 'nvidia1'):
            self.make_device(name)
        self.listen('kubelet/kubelet.sock')
        self.listen('pods/kubelet.sock')
        for name in ('nvidia-cuda-mps-control', 'nvidia-cuda-mps-server'):
            self.write('driver/usr/bin/' + name, '#!/bin/sh\nexit 1\n', 0o755)
        self.folder_of('cdi')
        self.folder_of('mps')
        os.symlink('/dev/shm', self.path('mps/shm'))
        self.listen('mps/warpshare.sock', self.tell_status)
        self.status = {'generation': 1, 'daemons': []}
        self.scenario([{'model': 'T4', 'uuid': FIRST_UUID}, {'model': 'T4'}])
        self.config(sharing('mps', 4))

    # ---- its parts ----

    def path(self, name):
        return os.path.join(self.folder, name)

    def folder_of(self, name):
        os.makedirs(self.path(name), mode=0o755, exist_ok=True)

    def write(self, name, text, mode=0o644):
        self.folder_of(os.path.dirname(name))
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def make_device(self, name):
        self.folder_of('root/dev')
        try:
            os.mknod(self.path('root/dev/' + name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            self.can_mknod = False

    def listen(self, name, talk=None):
        self.folder_of(os.path.dirname(name))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path(name))
        listener.listen(8)
        self.listeners.append(listener)
        if talk:
            threading.Thread(target=self._serve, args=(listener, talk), daemon=True).start()

    def _serve(self, listener, talk):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    talk(peer)
                except OSError:
                    pass

    def tell_status(self, peer):
        peer.recv(4096)
        peer.sendall(json.dumps({'status': self.status}).encode() + b'\n')
        peer.recv(4096)  # its end

    def scenario(self, gpus, **more):
        self.write('gpus.yaml', yaml.safe_dump({'driverVersion': DRIVER, 'gpus': gpus, **more}, sort_keys=False))

    def config(self, content):
        self.write('config.yaml', content if isinstance(content, str) else yaml.safe_dump(content))

    def remove(self, name):
        path = self.path(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    # ---- the doctor ----

    def run(self, *arguments, prefix=(), **more):
        done = subprocess.run(
            [*prefix, WARPSHARE, 'doctor', '--system-root', self.path('root'), '--kubelet-socket', self.path('kubelet/kubelet.sock'),
             '--pod-resources-socket', self.path('pods/kubelet.sock'), '--mps-directory', self.path('mps'),
             '--driver-root-ctr-path', self.path('driver'), '--cdi-root', self.path('cdi'), '--mig-state-directory', self.path('mig'),
             '--config-file', self.path('config.yaml'), '--nvml-library', SIMULATOR, *self.arguments, *arguments],
            capture_output=True, text=True, timeout=6 * DEADLINE, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, 'WARPSHARE_SIM_SCENARIO': self.path('gpus.yaml'), **self.environment}, **more)
        assert not REPORT.search(done.stderr), done.stderr
        return done

    def findings(self, *arguments, **more):
        done = self.run('--output', 'json', *arguments, **more)
        assert done.stdout, (done.returncode, done.stderr)
        told = json.loads(done.stdout)
        wrong = [finding for finding in told['findings'] if finding['verdict'] == 'wrong']
        assert told['wrong'] == len(wrong) and done.returncode == (1 if wrong else 0)
        if not self.can_mknod:
            told['findings'] = [finding for finding in told['findings'] if finding['check'] != 'device-nodes']
        for finding in wrong:
            assert finding.get('means') or finding['check'] == 'mps-daemons', finding
        return told['findings']

    def finish(self):
        for listener in self.listeners:
            if listener.fileno() >= 0:
                listener.shutdown(socket.SHUT_RDWR)  # or who waits in accept() may answer for the next site
            listener.close()
        shutil.rmtree(self.folder)


@pytest.fixture
def site():
    made = Site()
    yield made
    made.finish()


def wrong_checks(findings):
    return {finding['check'] for finding in findings if finding['verdict'] == 'wrong'}


def expect(site, check, text, verdict='wrong', alone=True, **more):
    """The finding with |text|, and nothing else wrong."""
    findings = site.findings(**more)
    found = [finding for finding in findings if finding['check'] == check and finding['verdict'] == verdict]
    told = '\n'.join(map(str, findings))
    assert any(text in finding['found'] for finding in found), told
    if alone:
        assert wrong_checks(findings) == ({check} if verdict == 'wrong' else set()), told
    return findings


# ---- a node as it should be ----


def test_on_a_node_that_has_everything_nothing_is_wrong(site):
    findings = site.findings()
    assert wrong_checks(findings) == set(), findings
    checks = [finding['check'] for finding in findings]
    for check in ('config', 'driver', 'gpus', 'plan', 'tiers', 'compute-mode', 'kubelet', 'pod-resources', 'agent',
                  'other-plugins', 'containers', 'cdi', 'toolkit', 'declared', 'dra', 'mig', 'mps-control', 'mps-root', 'mps-parents', 'selinux', 'shm', 'mps-daemons',
                  'automatic-mount', 'host-pid', 'open-files', 'cgroup'):
        assert check in checks


def test_a_container_that_does_not_see_all_its_gpus_is_named_with_the_way_out(site):
    site.config(sharing('timeSlicing', 4, scope='individual'))
    entries = [{'PodUID': 'a-pod', 'ContainerName': 'main', 'ResourceName': 'nvidia.com/gpu%d' % i,
                'DeviceIDs': {'-1': ['GPU-%d::0' % i]}} for i in range(2)]
    site.write('kubelet/kubelet_internal_checkpoint', json.dumps({'Data': {'PodDeviceEntries': entries}}))
    site.arguments += ['--device-list-strategy=envvar']
    finding, = [finding for finding in site.findings() if finding['check'] == 'containers']
    assert finding['verdict'] == 'wrong'
    assert 'container main of the pod with UID a-pod' in finding['found'] and 'deviceListStrategy: cdi-cri' in finding['found']


def test_hooks_that_the_hosts_toolkit_does_not_know_are_named(site):
    site.arguments += ['--device-list-strategy=cdi-cri']
    site.write('driver/usr/bin/nvidia-ctk', 'create-symlinks update-ldcache enable-cuda-compat disable-device-node-modification', 0o755)
    findings = expect(site, 'cdi', 'does not know the hook update-application-profile', 'note')
    assert len([finding for finding in findings if 'does not know the hook' in finding['found']]) == 1


def test_the_table_has_a_line_for_each_finding_and_a_way_out_for_what_is_wrong(site):
    site.remove('kubelet/kubelet.sock')
    done = site.run()
    assert done.returncode == 1 and not done.stderr
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith('wrong    kubelet '))
    assert 'No such file or directory' in lines[at]
    assert lines[at + 1].strip().startswith('means: ') and lines[at + 2].strip().startswith('do: ')
    assert lines[-1].startswith('Something is wrong; wrong: ')
    assert '\x1b' not in done.stdout


def test_nothing_is_changed(site):
    def everything():
        return {(path, os.lstat(path).st_mtime_ns) for top, folders, files in os.walk(site.folder)
                for path in (os.path.join(top, name) for name in folders + files)}

    before = everything()
    site.findings()
    assert everything() == before


# ---- driver and GPUs ----


def test_without_a_driver_it_says_so_and_goes_on(site):
    site.remove('root/proc/driver/nvidia/version')
    site.arguments = ['--nvml-library', '/nonexistent/libnvidia-ml.so.1']
    findings = expect(site, 'driver', 'no driver is loaded, and NVML: ')
    assert {finding['verdict'] for finding in findings if finding['check'] == 'gpus'} == {'skipped'}


def test_a_driver_without_its_library_is_told_apart(site):
    site.arguments = ['--nvml-library', '/nonexistent/libnvidia-ml.so.1']
    expect(site, 'driver', 'kernel module 550.163.01, and NVML: ')


def test_a_library_of_another_driver_is_found(site):
    site.write('root/proc/driver/nvidia/version', MODULE % '535.1.2')
    expect(site, 'driver', 'the kernel module is 535.1.2, NVML is of 550.163.01')


@pytest.mark.parametrize('name', ['nvidiactl', 'nvidia-uvm', 'nvidia1'])
def test_a_missing_device_node_is_named(site, name):
    if not site.can_mknod:
        pytest.skip('device nodes cannot be made here')
    site.remove('root/dev/' + name)
    expect(site, 'device-nodes', '/dev/%s ' % name)


def test_a_node_without_gpus_is_wrong(site):
    site.scenario([])
    expect(site, 'gpus', 'has no GPU')


def test_a_gpu_that_fails_is_named(site):
    site.scenario([{'model': 'T4', 'uuid': FIRST_UUID, 'errors': {'nvmlDeviceGetMemoryInfo': 'GPU_IS_LOST'}}])
    expect(site, 'gpus', FIRST_UUID, alone=False)


def test_a_mig_device_whose_profile_nothing_tells_is_named_with_what_nvml_said(site):
    site.scenario([{'model': 'A30', 'mig': {'devices': [{'profile': '1g.6gb', 'uuid': 'MIG-1'}]},
                    'errors': {'nvmlDeviceGetGpuInstanceById': 'NO_PERMISSION', 'nvmlDeviceGetName': {'error': 'NO_PERMISSION', 'after': 1}}}])
    text = 'GPU 0: the profile of the MIG device MIG-1 is unknown: nvmlDeviceGetGpuInstanceById: Insufficient Permissions (NO_PERMISSION)'
    site.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})
    findings = expect(site, 'gpus', text, alone=False)
    assert any('run the agent privileged' in finding.get('todo', '') for finding in findings), findings
    site.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}, 'resources': {'mig': [{'pattern': '*', 'name': 'nvidia.com/mig-some'}]}})
    expect(site, 'gpus', text, verdict='note', alone=False)


def test_mig_mode_without_mig_devices_is_noted(site):
    site.config({'version': 'v1'})
    site.scenario([{'model': 'A100-40GB', 'mig': {'enabled': True}}])
    expect(site, 'gpus', 'GPU 0 is in MIG mode, and migStrategy is none', verdict='note', alone=False)
    site.arguments = ['--mig-strategy', 'mixed']
    expect(site, 'gpus', 'GPU 0 is in MIG mode and has no MIG device', alone=False)


@pytest.mark.parametrize('mode, kind, text', [
    ('prohibited', 'mps', 'has compute mode PROHIBITED'),
    ('exclusive-process', 'mps', 'has compute mode EXCLUSIVE_PROCESS, and no MPS daemon'),
    ('exclusive-process', 'timeSlicing', 'has compute mode EXCLUSIVE_PROCESS, and no MPS')])
def test_a_compute_mode_that_keeps_containers_out_is_found(site, mode, kind, text):
    site.config(sharing(kind, 4))
    site.scenario([{'model': 'T4', 'uuid': FIRST_UUID, 'computeMode': mode}, {'model': 'T4'}])
    expect(site, 'compute-mode', '0 (%s) %s' % (FIRST_UUID, text))


def test_a_leftover_compute_mode_of_a_gpu_that_is_not_shared_is_noted(site):
    site.config({'version': 'v1'})
    site.scenario([{'model': 'T4', 'computeMode': 'exclusive-process'}, {'model': 'T4'}])
    expect(site, 'compute-mode', 'EXCLUSIVE_PROCESS, and no MPS', verdict='note')


def test_a_refused_config_is_reported_and_the_rest_is_still_checked(site):
    site.config('version: v2\n')
    findings = expect(site, 'config', "'v2' is not a known version, use v1")
    assert any(finding['check'] == 'kubelet' and finding['verdict'] == 'ok' for finding in findings)


def test_a_plan_that_does_not_hold_on_these_gpus_is_wrong(site):
    site.config(sharing('mps', 200))
    expect(site, 'plan', '200')


def test_names_that_share_nothing_are_noted_with_what_the_node_has(site):
    content = sharing('mps', 4)
    content['sharing']['mps']['resources'] += [{'name': 'nvidia.com/gqu', 'replicas': 4}, {'name': 'nvidia.com/mig-2g.10gb', 'replicas': 2}]
    site.config(content)
    expect(site, 'plan', "no GPU and no MIG device has the name 'nvidia.com/gqu', did you mean 'nvidia.com/gpu'?; this node has nvidia.com/gpu",
           verdict='note')
    expect(site, 'plan', "this node has no 'nvidia.com/mig-2g.10gb', only nvidia.com/gpu", verdict='note')


def test_a_reserve_above_a_third_is_noted_with_the_ways_out(site):
    site.scenario([{'model': 'H100-80GB', 'count': 8}])
    site.config(sharing('mps', 10, provisioning='weighted'))
    expect(site, 'plan', "'nvidia.com/gpu' reserves 28 of 80 replicas (35 %), so that each request for up to 5 finds one unit with room: "
           'with maxPerRequest: 3 it advertises 66', verdict='note', alone=False)


def test_two_ways_of_sharing_on_one_node_are_noted(site):
    content = sharing('mps', 4)
    content['sharing']['mps']['resources'][0]['devices'] = ['0']
    content['sharing']['timeSlicing'] = {'resources': [
        {'name': 'nvidia.com/gpu', 'rename': 'nvidia.com/gpu.sliced', 'replicas': 2, 'devices': ['1']}]}
    site.config(content)
    expect(site, 'plan', 'both MPS and time-slicing are configured', verdict='note')


@pytest.mark.parametrize('driver, missing', [
    ('535.261.03', [550, 580, 590, 615]), ('580.105.08', [590, 615]), ('615.10', [])])
def test_features_that_need_a_newer_driver_are_reported(site, driver, missing):
    site.write('root/proc/driver/nvidia/version', MODULE % driver)
    site.scenario([{'model': 'T4'}, {'model': 'T4'}], driverVersion=driver)
    finding, = (finding for finding in site.findings() if finding['check'] == 'tiers')
    assert finding['verdict'] == ('note' if missing else 'ok')
    assert [int(branch) for branch in re.findall(r'\((\d+)\)', finding['found'])] == missing


def test_a_check_that_hangs_is_given_up(site):
    site.scenario([{'model': 'T4'}], init={'delay': '590s'})
    findings = site.findings('--deadline', '1')
    hanging = {'driver', 'device-nodes', 'gpus', 'plan', 'tiers', 'compute-mode'}
    # The check has a second in all, and the call what was left of it.
    said = re.compile('this check did not end in time: nvmlInit_v2 does not return: it was given up after [01] s')
    assert {finding['check'] for finding in findings if said.fullmatch(finding['found'])} >= (
        hanging if site.can_mknod else hanging - {'device-nodes'})
    assert any(finding['check'] == 'cgroup' for finding in findings)


# ---- kubelet ----


def test_a_kubelet_that_does_not_listen_is_found(site):
    site.listeners[0].close()
    expect(site, 'kubelet', 'Connection refused')


def test_missing_pod_resources_are_found(site):
    site.remove('pods/kubelet.sock')
    expect(site, 'pod-resources', 'No such file or directory')


def test_a_plugin_of_nvidia_beside_ours_is_found_while_it_serves(site):
    site.listen('kubelet/nvidia-gpu.sock')
    expect(site, 'other-plugins', 'nvidia-gpu.sock')
    site.listeners[-1].close()
    assert wrong_checks(site.findings()) == set()


def test_an_agent_that_serves_is_seen(site, node):
    expect(site, 'agent', 'none serves', verdict='note')
    node.start_all()
    site.arguments = ['--kubelet-socket', node.kubelet.socket]
    expect(site, 'agent', 'one serves', verdict='ok', alone=False)


def test_a_cdi_folder_that_is_not_there_is_found(site):
    site.arguments = ['--device-list-strategy', 'cdi-cri']
    expect(site, 'cdi', 'no specification', verdict='note')
    site.remove('cdi')
    expect(site, 'cdi', 'No such file or directory')


def test_a_cdi_specification_that_cannot_resolve_is_found(site):
    site.arguments = ['--device-list-strategy', 'cdi-cri']
    node = {'deviceNodes': [{'path': '/dev/nvidia7', 'hostPath': '/dev/nvidia7'}]}
    name = 'cdi/k8s.device-plugin.nvidia.com-gpu.json'
    site.write(name, json.dumps({'devices': [{'name': 'x', 'containerEdits': node}]}))
    expect(site, 'cdi', '/dev/nvidia7')
    site.write(name, '{')
    expect(site, 'cdi', 'is no specification')


# ---- MPS ----


# ---- NVIDIA's container toolkit ----

ENVVAR = 'accept-nvidia-visible-devices-envvar-when-unprivileged'
MOUNTS = 'accept-nvidia-visible-devices-as-volume-mounts'
IN_ETC = 'root/etc/nvidia-container-runtime/config.toml'
OF_OPERATOR = 'root/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml'


def toolkit(site, strategy=None):
    if strategy:
        site.arguments = ['--device-list-strategy', strategy]
    found, = [finding for finding in site.findings() if finding['check'] == 'toolkit']
    return found


@pytest.mark.parametrize('strategy, todo', [
    (None, 'choose another way to hand out GPUs first: deviceListStrategy cdi-cri or cdi-annotations, or volume-mounts together with '
           '%s = true; then set it to false' % MOUNTS),
    ('volume-mounts', 'set it to false, and %s to true' % MOUNTS), ('cdi-cri', 'set it to false;'), ('envvar,cdi-annotations', 'set it to false;')])
def test_that_a_pod_may_name_gpus_itself_is_noted_with_the_way_out_of_its_strategy(site, strategy, todo):
    site.write(IN_ETC, '#%s = true\n[nvidia-container-cli]\n' % ENVVAR)
    found = toolkit(site, strategy)
    assert (found['verdict'], found['found']) == ('note', "'%s': %s is not set, and so true" % (site.path(IN_ETC), ENVVAR))
    assert 'past every share and limit' in found['means'] and found['todo'].startswith(todo), found
    site.write(IN_ETC, '%s = true\n%s = true\n' % (ENVVAR, MOUNTS))
    found = toolkit(site, 'volume-mounts')
    assert found['found'].endswith('is true') and found['todo'].startswith('set it to false;')


@pytest.mark.parametrize('strategy, mounts, verdict', [
    ('cdi-cri', 'false', 'ok'), ('cdi-annotations,envvar', 'false', 'ok'), ('volume-mounts', 'true', 'ok'), ('volume-mounts', 'false', 'wrong'),
    ('envvar', 'true', 'wrong')])
def test_where_the_toolkit_refuses_that_gpus_have_to_come_another_way(site, strategy, mounts, verdict):
    site.write(IN_ETC, '%s = false\n%s = %s\n' % (ENVVAR, MOUNTS, mounts))
    found = toolkit(site, strategy)
    assert found['verdict'] == verdict, found
    if verdict == 'wrong':
        assert found['found'] == "'%s': %s is false, and %s is %s" % (site.path(IN_ETC), ENVVAR, MOUNTS, mounts)
        assert 'containers get no GPU' in found['means'] and 'cdi-cri or cdi-annotations' in found['todo']


def test_what_the_operators_toolkit_reads_counts_and_not_what_is_in_etc(site):
    site.write(IN_ETC, '%s = true\n' % ENVVAR)
    site.write(OF_OPERATOR, '%s = false\n' % ENVVAR)
    assert toolkit(site, 'cdi-cri')['verdict'] == 'ok'
    site.arguments += ['--nvidia-cdi-hook-path', '/opt/nvidia/toolkit/nvidia-cdi-hook']
    of_hook = OF_OPERATOR.replace('usr/local/nvidia', 'opt/nvidia')
    site.write(of_hook, '%s = true\n' % ENVVAR)
    assert site.path(of_hook) in toolkit(site)['found']


@pytest.mark.parametrize('root', ['driver', 'root/host'])
def test_the_toolkits_configuration_is_found_below_the_hosts_root_where_that_is_mounted(site, root):
    site.write(IN_ETC.replace('root', root), '%s = true\n' % ENVVAR)
    assert toolkit(site)['verdict'] == 'note'
    site.arguments = ['--nvidia-driver-root', '/run/nvidia/driver']  # then the driver's root is not the host's
    assert toolkit(site)['verdict'] == ('skipped' if root == 'driver' else 'note')


@pytest.mark.parametrize('text, why', [
    (None, 'none is to be seen from here'), ('%s = "no"\n' % ENVVAR, 'line 1: %s is neither true nor false' % ENVVAR), ('a = 1\0', 'is no text'),
    ('#' * 65537, 'is larger than the limit of 65536 bytes')], ids=['not there', 'no truth', 'no text', 'large'])
def test_a_configuration_of_the_toolkit_that_cannot_be_judged_is_no_failure(site, text, why):
    if text:
        site.write(IN_ETC, text)
    found = toolkit(site)
    assert found['verdict'] == 'skipped' and why in found['found'] and 'grep accept-nvidia' in found['todo'], found


def test_without_mps_nothing_of_it_is_looked_at(site):
    site.config(sharing('timeSlicing', 4))
    site.remove('mps')
    findings = site.findings()
    assert wrong_checks(findings) == set()
    assert {finding['verdict'] for finding in findings if finding['check'].startswith('mps-')} == {'skipped'}


def test_in_the_supervisors_container_mps_is_looked_at_and_what_is_the_agents_is_not(site):
    site.arguments = ['--config-file=']
    site.remove('kubelet')
    site.remove('pods')
    findings = site.findings()
    verdicts = {finding['check']: finding['verdict'] for finding in findings}
    assert wrong_checks(findings) == set(), findings
    assert {check for check in verdicts if verdicts[check] == 'skipped'} == \
        {'plan', 'kubelet', 'pod-resources', 'agent', 'other-plugins', 'containers', 'toolkit'}, findings
    assert {verdicts[check] for check in ('mps-control', 'mps-root', 'mps-parents', 'shm', 'mps-daemons')} == {'ok'}, findings
    site.remove('mps/warpshare.sock')
    assert wrong_checks(site.findings()) == {'kubelet', 'pod-resources', 'agent'}


def break_kubelet(site):
    """Three checks are wrong, two of them with the same advice."""
    for path in ('kubelet/kubelet.sock', 'pods/kubelet.sock'):
        site.remove(path)
    shutil.rmtree(site.path('kubelet'))


def test_what_is_wrong_stands_first_then_notes_then_what_is_well(site):
    break_kubelet(site)
    verdicts = [line.split()[0] for line in site.run().stdout.splitlines() if line and line[0] not in ' S']
    assert verdicts == sorted(verdicts, key=['wrong', 'note', 'ok', 'skipped'].index)
    assert verdicts[:2] == ['wrong', 'wrong'] and {'ok', 'skipped'} <= set(verdicts)


@pytest.mark.parametrize('width', [40, 59, 60, 80, 132])
def test_lines_are_as_wide_as_the_terminal_and_say_the_same(site, width):
    break_kubelet(site)
    whole = site.run().stdout
    site.environment = {**site.environment, 'COLUMNS': str(width)}
    lines = site.run().stdout.splitlines()
    for line in lines:
        assert len(line) <= width or ' ' not in line[26 if width >= 60 else 0:].strip(), line  # a path is not cut
    assert any(len(line) > 2 * width // 3 for line in lines)
    assert ' '.join(lines).split() == whole.split()


def test_advice_and_meaning_that_several_findings_share_stand_once(site):
    site.scenario([{'model': 'T4', 'computeMode': 'exclusive-process'}, {'model': 'T4', 'computeMode': 'exclusive-process'}])
    site.write('config.yaml', 'version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n')
    found = [finding for finding in site.findings() if finding['check'] == 'compute-mode' and finding['verdict'] == 'wrong']
    text = site.run().stdout
    assert len(found) == 2 and found[0]['todo'] == found[1]['todo']
    assert text.count(found[0]['todo']) == 1 and text.count('do: as for compute-mode') == 1


def test_in_the_supervisors_container_exclusive_process_is_right_where_a_daemon_serves(site):
    site.arguments = ['--config-file=']
    site.scenario([{'model': 'T4', 'uuid': FIRST_UUID, 'computeMode': 'exclusive-process'}, {'model': 'T4'}])
    expect(site, 'compute-mode', 'no MPS', verdict='note')
    site.status['daemons'] = [daemon()]
    expect(site, 'compute-mode', 'as they should be', verdict='ok')


@pytest.mark.parametrize('name, text', [
    ('nvidia-cuda-mps-control', 'MPS control program: '), ('nvidia-cuda-mps-server', 'MPS server, without which')])
def test_a_missing_program_of_mps_is_found(site, name, text):
    if shutil.which(name):
        pytest.skip('this machine has the program')
    site.remove('driver/usr/bin/' + name)
    site.remove('mps/warpshare.sock')
    expect(site, 'mps-control', text, alone=False)


def test_programs_of_mps_may_be_missing_in_the_agents_container_where_a_supervisor_has_them(site):
    if shutil.which('nvidia-cuda-mps-control'):
        pytest.skip('this machine has the program')
    for name in ('nvidia-cuda-mps-control', 'nvidia-cuda-mps-server'):
        site.remove('driver/usr/bin/' + name)
    expect(site, 'mps-control', 'not in this container, and not needed here: the supervisor answers', verdict='ok')
    site.arguments = ['--config-file=']  # in the supervisor's own
    expect(site, 'mps-control', 'MPS control program: ')


def test_a_program_that_may_not_be_executed_is_found(site):
    if shutil.which('nvidia-cuda-mps-control'):
        pytest.skip('this machine has the program')
    os.chmod(site.path('driver/usr/bin/nvidia-cuda-mps-control'), 0o644)
    site.remove('mps/warpshare.sock')
    expect(site, 'mps-control', 'may be executed', alone=False)


def test_a_missing_mps_root_is_found(site):
    site.remove('mps')
    expect(site, 'mps-root', 'No such file or directory')


def test_on_the_host_itself_the_mps_root_is_the_configured_one_below_the_system_root(site):
    site.folder_of('root/run/nvidia')
    os.rename(site.path('mps'), site.path('root/run/nvidia/mps'))
    found = {finding['check']: finding for finding in site.findings()}
    assert (found['mps-root']['verdict'], found['mps-root']['found']) == ('ok', "'%s'" % site.path('root/run/nvidia/mps'))
    assert found['mps-daemons']['verdict'] == 'ok'


def test_an_mps_root_that_is_too_long_for_sockets_is_found(site):
    long = site.path('m' * 60)
    os.rename(site.path('mps'), long)
    site.arguments = ['--mps-directory', long]
    expect(site, 'mps-root', '87 fit', alone=False)


def test_a_folder_above_the_pipes_that_keeps_users_out_is_found(site):
    os.chmod(site.path('mps'), 0o750)
    expect(site, 'mps-parents', 'has mode 0750')


def test_selinux_without_the_type_of_containers_is_found(site):
    site.write('root/sys/fs/selinux/enforce', '1')
    expect(site, 'selinux', 'on, and the MPS root has type')


def test_shared_memory_that_is_missing_or_no_tmpfs_is_found(site):
    site.remove('mps/shm')
    expect(site, 'shm', 'No such file or directory')
    os.symlink('/proc', site.path('mps/shm'))
    expect(site, 'shm', 'is no tmpfs')


@needs_mounts
def test_a_shared_memory_that_a_tenant_has_filled(site):
    site.remove('mps/shm')
    os.mkdir(site.path('mps/shm'))
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1g,nr_inodes=100', 'shm', site.path('mps/shm')], check=True)
    try:
        for i in range(95):
            with open(site.path('mps/shm/%d' % i), 'w', encoding='utf-8'):
                pass
        expect(site, 'shm', 'is almost full: 0 of 1024 MiB and 96 of 100 files are used; user 0 has 0 MiB in 95 files')
    finally:
        subprocess.run(['umount', site.path('mps/shm')], check=True)


def test_a_supervisor_that_is_not_there_is_found(site):
    site.remove('mps/warpshare.sock')
    expect(site, 'mps-daemons', 'no supervisor answers')


def test_daemons_are_asked_one_by_one_where_there_is_no_supervisor(site):
    program = site.path('control')
    site.arguments = ['--mps-control', program]
    site.write('nvidia-cuda-mps-server', '#!/bin/sh\n', 0o755)
    site.remove('mps/warpshare.sock')
    site.write('mps/%s/pipe/control' % FIRST_UUID, '')
    site.write('control', '#!/bin/sh\ncat >/dev/null\necho 100.0\n', 0o755)
    expect(site, 'mps-daemons', 'a control daemon answers in', verdict='ok', alone=False)
    site.write('control', '#!/bin/sh\nexec sleep 600\n', 0o755)
    expect(site, 'mps-daemons', 'the control daemon in')


def daemon(**more):
    return {'name': FIRST_UUID, 'resource': 'nvidia.com/gpu', 'units': [FIRST_UUID], 'state': 'ready', 'since': 1,
            'pid': 1, 'adopted': False, 'restarts': 0, 'tier': 'default', 'threadsPermille': 250, 'limitMib': 4000,
            'maxClients': 48, 'servers': [], 'clients': [], **more}


@pytest.mark.parametrize('more, verdict, text', [
    ({'state': 'fault', 'reason': 'it is mute'}, 'wrong', 'is fault: it is mute'),
    ({'notice': 'a client of user 7 waits'}, 'wrong', 'a client of user 7 waits'),
    ({'restarts': 3}, 'note', 'was restarted 3 times')])
def test_a_daemon_in_trouble_is_named(site, more, verdict, text):
    site.status['daemons'] = [daemon(**more)]
    expect(site, 'mps-daemons', FIRST_UUID, verdict=verdict)
    expect(site, 'mps-daemons', text, verdict=verdict)


def test_exclusive_process_is_right_where_a_daemon_serves(site):
    site.scenario([{'model': 'T4', 'uuid': FIRST_UUID, 'computeMode': 'exclusive-process'}, {'model': 'T4'}])
    site.status['daemons'] = [daemon()]
    assert wrong_checks(site.findings()) == set()


def test_the_folder_that_reaches_every_container_is_found(site):
    site.folder_of('root/tmp/nvidia-mps')
    expect(site, 'automatic-mount', '/tmp/nvidia-mps')


# ---- the kernel ----


def test_a_pid_namespace_of_its_own_is_noted(site):
    os.unlink(site.path('root/proc/self/ns/pid'))
    os.symlink('pid:[4026532448]', site.path('root/proc/self/ns/pid'))
    expect(site, 'host-pid', 'a PID namespace of its own', verdict='note')


def test_few_open_files_are_noted(site):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # which not even root may raise everywhere
    few = 4096 if most == resource.RLIM_INFINITY else min(4096, most)
    expect(site, 'open-files', 'at most %d files' % few, verdict='note', prefix=['prlimit', '--nofile=%d:%d' % (few, few)])


def test_an_old_cgroup_is_noted(site):
    site.remove('root/sys/fs/cgroup/cgroup.controllers')
    expect(site, 'cgroup', 'version 1', verdict='note')


# ---- words ----


@pytest.mark.parametrize('arguments, text', [
    (('--frobnicate',), "unknown flag '--frobnicate'"), (('--deadline', '0'), "deadline: '0' is not a number of seconds"),
    (('--output', 'xml'), "output: 'xml' is not a known value, use table or json")])
def test_a_wrong_word_has_status_2_and_is_named(arguments, text):
    done = subprocess.run([WARPSHARE, 'doctor', *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and not done.stdout
    assert text in done.stderr


# ---- DRA ----

SLICES = '/apis/resource.k8s.io/v1/resourceslices'


@pytest.fixture
def offer(site, tmp_path):
    """An agent that is a DRA driver: kubelet can find it, and its devices are in the API server."""
    server = ApiServer(tmp_path)
    server.serve_dra()
    server.allow(agent_rules('dra'))
    registry = site.path('registry')
    os.mkdir(registry)
    site.config({'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'}, 'dra': {'enabled': True}})
    site.arguments += ['--kubeconfig', server.kubeconfig(), '--node-name', 'n1', '--kubelet-plugins-registry', registry]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.join(registry, 'gpu.warpshare.dev-reg.sock'))
        listening.listen()
        yield server
    server.close()


def put_slice(server, **device):
    server.put(SLICES, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 's'}, 'spec': {
        'driver': 'gpu.warpshare.dev', 'nodeName': 'n1', 'pool': {'name': 'n1', 'generation': 1, 'resourceSliceCount': 1},
        'devices': [{'name': 'gpu-0', **device}]}})


def test_a_dra_driver_that_kubelet_can_find_and_that_offers_devices_is_ok(site, offer):
    put_slice(offer, allowMultipleAllocations=True)
    expect(site, 'dra', 'kubelet can find the driver', 'ok')
    expect(site, 'dra', '1 devices are offered, 1 of them to be shared', 'ok')


def test_devices_that_cannot_be_shared_are_noted_with_the_gates(site, offer):
    put_slice(offer)
    findings = expect(site, 'dra', 'none of the 1 devices of this node can be shared', 'note')
    assert any('DRAConsumableCapacity' in finding.get('todo', '') for finding in findings), findings


def test_a_scheduler_that_forgets_shares_is_noted_with_the_release_that_does_not(site, offer):
    put_slice(offer, allowMultipleAllocations=True)
    assert not [finding for finding in expect(site, 'dra', 'kubelet can find', 'ok') if 'forgets' in finding['found']]
    offer.serve_dra(patch=1)
    findings = expect(site, 'dra', 'the scheduler of Kubernetes v1.36.1 forgets shares', 'note')
    assert any('1.36.2' in finding.get('todo', '') and 'dra.oneForm' in finding['todo'] for finding in findings), findings


def test_a_node_without_devices_is_named(site, offer):
    expect(site, 'dra', 'the API server has no devices of this node')


def test_without_the_right_to_read_slices_the_way_out_is_the_chart(site, offer):
    offer.allow(agent_rules('declared'))
    findings = expect(site, 'dra', 'ResourceSlices cannot be read: ')
    assert any('dra.enabled: true' in finding.get('todo', '') for finding in findings), findings


def test_an_api_server_without_dra_is_named(site, offer):
    del offer.discovery['/apis/resource.k8s.io']
    expect(site, 'dra', 'serves no version of resource.k8s.io')


def test_a_driver_without_a_serving_agent_is_named(site, offer):
    put_slice(offer, allowMultipleAllocations=True)
    os.unlink(site.path('registry/gpu.warpshare.dev-reg.sock'))
    expect(site, 'dra', "no agent listens on '")
    os.rmdir(site.path('registry'))
    expect(site, 'dra', "kubelet's registry of plugins '")


# ---- what containers declare ----

@pytest.fixture
def api(tmp_path):
    made = ApiServer(tmp_path)
    made.allow(agent_rules('declared'))
    yield made
    made.close()


def declare(site, api=None):
    site.config(sharing('mps', 4, provisioning='declared'))
    if api:
        site.arguments += ['--kubeconfig', api.kubeconfig(), '--node-name', 'n1']


def test_with_the_right_to_read_pods_what_they_declare_counts(site, api):
    declare(site, api)
    expect(site, 'declared', 'pods can be read, by the API server', 'ok')


@pytest.mark.parametrize('refusal, serves', [
    (None, True), (grpc.StatusCode.UNIMPLEMENTED, False), (grpc.StatusCode.FAILED_PRECONDITION, False)])
def test_kubelets_socket_of_pods_needs_no_right(site, api, tmp_path, refusal, serves):
    declare(site, api)
    api.allow(agent_rules('events: node'))
    (tmp_path / 'device-plugins').mkdir()
    kubelet = Kubelet(str(tmp_path / 'device-plugins'))
    kubelet.serves_pods = True
    kubelet.pod_refusal = refusal and (refusal, 'as the test wants it')
    kubelet.start()
    try:
        site.arguments += ['--pods-api-socket', kubelet.pods_api]
        if serves:
            expect(site, 'declared', "pods can be read, by kubelet's socket", 'ok')
        else:
            expect(site, 'declared', 'pods cannot be read: ')
    finally:
        kubelet.stop()


def test_without_that_right_annotations_do_not_count(site, api):
    declare(site, api)
    api.allow(agent_rules('events: node'))
    findings = expect(site, 'declared', 'pods cannot be read: ')
    assert any('rbac.readPods: true' in finding.get('todo', '') for finding in findings), findings


def test_an_api_server_is_needed_to_know_what_pods_declare(site):
    declare(site)
    expect(site, 'declared', 'the API server is not used: ')


def test_devices_without_cdi_carry_no_declaration(site, api):
    declare(site, api)
    site.arguments.append('--device-list-strategy=envvar')
    expect(site, 'declared', 'containers get their devices without CDI')


def test_the_pod_is_not_known_without_kubelets_list(site, api):
    declare(site, api)
    site.arguments.append('--pod-resources-socket=')
    expect(site, 'declared', "kubelet's pod-resources socket", alone=False)
