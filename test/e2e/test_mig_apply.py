# SPDX-License-Identifier: Apache-2.0
"""The MIG geometry of a node changed by `warpshare mig apply`: killed at any step, after a reboot, beside others."""
import json
import os
import subprocess

import pytest
import yaml

from node import SIMULATOR, WARPSHARE
from test_mig import Simulated

A100 = {'model': 'A100-40GB', 'uuid': 'GPU-a100'}
H100 = {'model': 'H100-80GB', 'uuid': 'GPU-h100'}
CONFIGS = {'version': 'v1', 'mig-configs': {
    'mixed': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 2, '3g.40gb': 1}}],
    'large': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'7g.80gb': 1}}],
    'parts': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1c.3g.40gb': 1, '2c.3g.40gb': 1, '1g.10gb': 1}}],
    'a100': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'3g.20gb': 2}}],
    'off': [{'devices': 'all', 'mig-enabled': False}]}}
# The status of a command that the driver's library ended.
INTERRUPTED = 4
# What a change of geometry calls, and how often at most below.
CALLS = {'nvmlComputeInstanceDestroy': 3, 'nvmlGpuInstanceDestroy': 3, 'nvmlDeviceSetMigMode': 1,
         'nvmlDeviceCreateGpuInstanceWithPlacement': 3, 'nvmlGpuInstanceCreateComputeInstance': 3}


class Node(Simulated):
    """A node whose geometry its programs share, with a boot id and a state directory of its own."""

    def __init__(self, folder, *gpus):
        self.scenario = {'driverVersion': '580.105.08', 'geometryFile': str(folder / 'geometry'), 'gpus': list(gpus)}
        super().__init__(folder, self.scenario)
        (folder / 'mig.yaml').write_text(yaml.safe_dump(CONFIGS))
        self.root = folder / 'root'
        self.boot('first')

    def boot(self, name):
        file = self.root / 'proc/sys/kernel/random/boot_id'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name + '\n')

    def reboot(self, name):
        self.boot(name)
        self.write(boots=self.scenario.get('boots', 0) + 1)

    def write(self, **changes):
        self.scenario.update(changes)
        temporary = self.folder / 'node.yaml.new'
        temporary.write_text(yaml.safe_dump(self.scenario))
        temporary.rename(self.path)

    def apply(self, *arguments, **environment):
        return self.mig('apply', '--state-directory', self.folder / 'state', *arguments, WARPSHARE_SYSTEM_ROOT=str(self.root), **environment)

    def apply_config(self, name, *arguments, **environment):
        return self.apply('--file', 'mig.yaml', '--config', name, *arguments, **environment)

    def plan(self, name):
        return json.loads(self.good('plan', '--file', 'mig.yaml', '--config', name, '--output', 'json'))

    def has(self, name):
        return self.mig('assert', '--file', 'mig.yaml', '--config', name).returncode == 0

    def devices(self):
        """UUIDs of the MIG devices of each GPU, with profile and placement."""
        return [[(uuid, instance['profile'], instance['start']) for instance in gpu['stays'] + gpu['goes'] for uuid in instance['uuids']]
                for gpu in self.plan('off')['gpus']]

    def is_settled(self):
        return not (self.folder / 'state/change.json').exists()


@pytest.fixture(name='h100')
def _h100(tmp_path):
    return Node(tmp_path, {**H100, 'mig': {'devices': [{'profile': '1g.10gb', 'start': 0}, {'profile': '2g.20gb', 'start': 4}]}})


# ---- plan ----


def test_a_plan_shows_the_slices_before_and_after(h100):
    uuids = [device[0] for device in h100.devices()[0]]
    assert h100.good('plan', '--file', 'mig.yaml', '--config', 'mixed') == (
        'GPU 0  NVIDIA H100 80GB HBM3  GPU-h100: changes\n'
        '  now  │1g.10gb │        │        │        │-2g.20gb         │        │        │\n'
        '  then │1g.10gb │+1g.10gb│        │        │+3g.40gb                           │\n'
        f'  ends {uuids[1]} (2g.20gb at 4)\n'
        '\n'
        "mixed: - ends, + is made; nothing is changed yet ('warpshare mig apply')\n")
    assert h100.plan('mixed') == {'config': 'mixed', 'fits': True, 'changes': True, 'reason': None, 'gpus': [{
        'index': 0, 'uuid': 'GPU-h100', 'name': 'NVIDIA H100 80GB HBM3', 'named': True, 'changes': True, 'problem': None,
        'mode': {'is': True, 'wanted': True, 'needs': 'nothing'},
        'stays': [{'uuids': [uuids[0]], 'profile': '1g.10gb', 'start': 0}],
        'goes': [{'uuids': [uuids[1]], 'profile': '2g.20gb', 'start': 4}],
        'made': [{'profile': '1g.10gb', 'start': 1}, {'profile': '3g.40gb', 'start': 4}]}]}
    assert [device[0] for device in h100.devices()[0]] == uuids


def test_what_does_not_fit_is_said_with_what_would(h100):
    text = yaml.safe_dump({'version': 'v1', 'mig-configs': {'three': [
        {'devices': 'all', 'mig-enabled': True, 'mig-devices': {'3g.40gb': 3}}]}})
    reason = 'GPU 0 (GPU-h100): 3 of 3g.40gb do not fit: at most 2 of 3g.40gb fit on this GPU; this would fit: 2 of 3g.40gb'
    done = h100.mig('plan', '--file', '-', '--output', 'json', text=text)
    assert (done.returncode, done.stderr) == (1, f'warpshare mig plan: {reason}\n')
    answer = json.loads(done.stdout)
    assert (answer['fits'], answer['reason']) == (False, reason)
    before = h100.devices()
    done = h100.apply('--file', '-', text=text)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', f'warpshare mig apply: {reason}\n')
    assert h100.devices() == before
    done = h100.mig('plan', '--config', 'nowhere', '--output', 'json')
    assert done.returncode == 1
    assert json.loads(done.stdout)['fits'] is False
    assert done.stderr.rstrip('\n').endswith(json.loads(done.stdout)['reason'])


@pytest.mark.parametrize('model', ('A30', 'A100-80GB', 'H100-80GB', 'GB200', 'RTX-PRO-6000'))
def test_each_default_configuration_of_a_model_fits_and_can_be_had(model, tmp_path):
    node = Node(tmp_path, {'model': model, 'mig': {'enabled': True}})
    rows = [line.split() for line in node.good('plan', '--all').splitlines()[1:]]
    plans = json.loads(node.good('plan', '--all', '--output', 'json'))['configs']
    assert [row[0] for row in rows] == [plan['config'] for plan in plans]
    assert all(row[1] == 'yes' for row in rows) and all(plan['fits'] for plan in plans)
    for plan in plans:
        if plan['config'] != 'all-disabled':
            done = node.apply('--config', plan['config'])
            assert (done.returncode, done.stderr) == (0, '')
            assert node.good('assert', '--config', plan['config'])


# ---- apply ----


def test_what_can_stay_keeps_its_uuid(h100):
    before = h100.devices()[0]
    done = h100.apply_config('mixed')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout == ('GPU GPU-h100: destroyed 2g.20gb at 4\nGPU GPU-h100: made 1g.10gb at 1\nGPU GPU-h100: made 3g.40gb at 4\n'
                           'the geometry is as wanted\n')
    assert h100.has('mixed') and h100.is_settled()
    assert before[0] in h100.devices()[0]
    done = h100.apply_config('mixed', '--output', 'json')
    assert (done.returncode, json.loads(done.stdout)) == (0, {'config': 'mixed', 'result': 'unchanged'})


def test_devices_that_are_made_again_may_have_the_uuids_of_those_before(h100):
    h100.write(keepMigUuids=True)
    assert h100.apply_config('mixed').returncode == 0
    before = h100.devices()[0]
    assert h100.apply_config('off').returncode == 0 and h100.devices() == [[]]
    assert h100.apply_config('mixed').returncode == 0
    assert {device[1:] for device in h100.devices()[0]} == {device[1:] for device in before}
    assert {device[0] for device in h100.devices()[0]} & {device[0] for device in before}
    assert h100.has('mixed') and h100.is_settled()


def test_a_change_is_held_to_the_gpus_that_it_was_planned_for(h100):
    before = h100.devices()
    done = h100.apply_config('mixed', '--only', 'GPU-other')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == 'warpshare mig apply: GPU-other, which is to change, is away: nothing changes before it is back\n'
    assert h100.devices() == before and h100.is_settled()
    assert h100.apply_config('mixed', '--only', 'GPU-h100').returncode == 0
    assert h100.has('mixed')


def test_a_used_device_is_named_with_its_process_before_anything_is_touched(h100):
    before = h100.devices()
    h100.write(gpus=[{**h100.scenario['gpus'][0], 'processes': [{'pid': 4711, 'memory': '1GiB', 'gi': 5, 'ci': 0}]}])
    done = h100.apply_config('large')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == f'warpshare mig apply: GPU 0 (GPU-h100): {before[0][1][0]} (2g.20gb at 4): used by process 4711\n'
    assert h100.devices() == before and h100.is_settled()


def test_a_gpu_that_is_not_named_is_not_touched(tmp_path):
    mig = {'devices': [{'profile': '1g.10gb', 'start': 3}]}
    node = Node(tmp_path, {**H100, 'mig': mig}, {**H100, 'uuid': 'GPU-other', 'mig': mig})
    other = node.devices()[1]
    text = yaml.safe_dump({'version': 'v1', 'mig-configs': {'first': [
        {'devices': [0], 'mig-enabled': True, 'mig-devices': {'7g.80gb': 1}}]}})
    assert node.apply('--file', '-', text=text).returncode == 0
    assert node.devices()[1] == other
    assert [device[1] for device in node.devices()[0]] == ['7g.80gb']


def test_what_fails_is_taken_back(h100):
    h100.write(errors={'nvmlGpuInstanceCreateComputeInstance': {'error': 'UNKNOWN', 'times': 1}})
    done = h100.apply_config('large')
    assert done.returncode == 1
    assert done.stderr.startswith('warpshare mig apply: the geometry is as before: GPU GPU-h100: create 7g.80gb at 0: ')
    assert [device[1:] for device in h100.devices()[0]] == [('1g.10gb', 0), ('2g.20gb', 4)]
    assert h100.is_settled()


def test_two_do_not_change_a_node_at_once_and_who_is_killed_is_resumed(h100):
    h100.write(delays={'nvmlDeviceCreateGpuInstanceWithPlacement': '600s'})
    first = subprocess.Popen(
        [WARPSHARE, 'mig', 'apply', '--state-directory', 'state', '--file', 'mig.yaml', '--config', 'large'], cwd=h100.folder,
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, 'WARPSHARE_NVML_LIBRARY': SIMULATOR, 'WARPSHARE_SIM_SCENARIO': str(h100.path),
             'WARPSHARE_SYSTEM_ROOT': str(h100.root)})
    with first:
        while 'destroyed 2g.20gb' not in first.stdout.readline():
            pass
        done = h100.apply_config('mixed')
        assert (done.returncode, done.stderr) == (
            1, f"warpshare mig apply: another process changes the MIG geometry of this node now ('{h100.folder}/state' is locked)\n")
        first.kill()
    h100.write(delays={})
    done = h100.apply('--resume')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout == ("resuming the change to 'large' that was interrupted\nGPU GPU-h100: made 7g.80gb at 0\n"
                           'the geometry is as wanted\n')
    assert h100.has('large') and h100.is_settled()
    done = h100.apply('--resume')
    assert (done.returncode, done.stdout) == (0, 'there is nothing to change\n')


@pytest.mark.parametrize('moment', ('before', 'after'))
@pytest.mark.parametrize('call', CALLS)
def test_who_is_killed_at_any_call_is_resumed(call, moment, tmp_path):
    start = {**H100, 'mig': {'devices': [
        {'profile': '1g.10gb', 'start': 0}, {'profile': '1g.10gb', 'start': 5}, {'profile': '2g.20gb', 'start': 2}]}}
    steps = {'nvmlDeviceSetMigMode': 'off'}
    for number in range(CALLS[call]):
        folder = tmp_path / str(number)
        folder.mkdir()
        node = Node(folder, start)
        if 'Create' in call:
            assert node.apply_config('large').returncode == 0
        config = steps.get(call, 'mixed' if 'Create' in call else 'off')
        node.write(errors={call: {'kills': moment, 'after': number}})
        assert node.apply_config(config).returncode == INTERRUPTED
        assert not node.is_settled()
        node.write(errors={})
        assert node.apply('--resume').returncode == 0
        assert node.has(config) and node.is_settled()


def test_another_change_finishes_the_one_that_was_interrupted_first(h100):
    h100.write(errors={'nvmlGpuInstanceCreateComputeInstance': {'kills': 'before'}})
    assert h100.apply_config('large').returncode == INTERRUPTED
    h100.write(errors={})
    done = h100.apply_config('mixed')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith("resuming the change to 'large' that was interrupted\n")
    assert h100.has('mixed') and h100.is_settled()


# ---- modes that need a reset ----


def test_a_mode_that_needs_a_reset_is_refused_until_it_is_allowed(tmp_path):
    node = Node(tmp_path, A100)
    done = node.apply_config('a100')
    assert (done.returncode, done.stdout, done.stderr) == (
        1, '', 'warpshare mig apply: GPU 0 (GPU-a100): MIG becomes enabled only by a reset or a reboot, and neither is allowed '
        '(--mode-change)\n')
    assert node.plan('a100')['gpus'][0]['mode'] == {'is': False, 'wanted': True, 'needs': 'reset'}


def test_a_reboot_finishes_a_mode_and_what_is_made_on_it(tmp_path):
    node = Node(tmp_path, A100)
    for arguments in (('--file', 'mig.yaml', '--config', 'a100', '--mode-change', 'reboot'), ('--resume',)):
        done = node.apply(*arguments)
        assert (done.returncode, done.stderr) == (3, '')
        assert done.stdout.endswith("a MIG mode is pending: reboot the node, then 'warpshare mig apply --resume'\n")
    node.reboot('second')
    assert node.apply('--resume').returncode == 0
    assert node.has('a100') and node.is_settled()


def test_a_mode_that_waits_for_a_reboot_is_given_up_for_another_configuration(tmp_path):
    node = Node(tmp_path, A100)
    assert node.apply_config('a100', '--mode-change', 'reboot').returncode == 3
    assert node.apply_config('off').returncode == 0
    assert node.is_settled()
    node.reboot('second')
    assert node.has('off')


def test_a_reboot_amid_a_change_is_no_hindrance(h100):
    h100.write(errors={'nvmlGpuInstanceDestroy': {'kills': 'after'}})
    assert h100.apply_config('large').returncode == INTERRUPTED
    h100.write(errors={})
    h100.reboot('second')
    assert h100.devices() == [[]]
    assert h100.apply('--resume').returncode == 0
    assert h100.has('large') and h100.is_settled()


def write_nvidia_smi(folder, body):
    file = folder / 'bin/nvidia-smi'
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\n{body}\n')
    file.chmod(0o755)
    return f'{file.parent}:{os.environ["PATH"]}'


def test_nvidia_smi_resets_where_that_is_allowed(tmp_path):
    node = Node(tmp_path, A100)
    path = write_nvidia_smi(tmp_path, f'echo "$@" > "{tmp_path}/asked"; sed -i "s/uuid: GPU-a100/&\\n  resets: 1/" "{node.path}"')
    done = node.apply_config('a100', '--mode-change', 'reset', PATH=path)
    assert (done.returncode, done.stderr) == (0, '')
    assert (tmp_path / 'asked').read_text() == '--gpu-reset --id GPU-a100\n'
    assert node.has('a100') and node.is_settled()


def test_a_reset_that_nvidia_smi_refuses_is_taken_back(tmp_path):
    node = Node(tmp_path, A100)
    done = node.apply_config('a100', '--mode-change', 'reset', PATH=write_nvidia_smi(tmp_path, 'echo in use; exit 7'))
    assert done.returncode == 1
    assert done.stderr.startswith('in use\nwarpshare mig apply: the geometry is as before: nvidia-smi --gpu-reset --id GPU-a100 failed with status 7: ')
    assert node.is_settled()
    node.reboot('second')
    assert node.has('off')


def test_a_reset_that_fails_waits_for_a_reboot_where_that_is_allowed(tmp_path):
    node = Node(tmp_path, A100)
    done = node.apply_config('a100', '--mode-change', 'reset-or-reboot', '--output', 'json', PATH=write_nvidia_smi(tmp_path, 'exit 7'))
    answer = json.loads(done.stdout)
    assert (done.returncode, answer['result']) == (3, 'reboot')
    assert answer['why'].startswith('nvidia-smi --gpu-reset --id GPU-a100 failed with status 7: ')
    node.reboot('second')
    assert node.apply('--resume').returncode == 0
    assert node.has('a100') and node.is_settled()


def test_without_a_record_there_is_nothing_to_resume_and_no_driver_needed(h100):
    done = h100.apply('--resume', WARPSHARE_SIM_SCENARIO='')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'there is nothing to change\n', '')
    assert not (h100.folder / 'state').exists()


def test_a_record_that_cannot_be_read_says_the_way_out(h100):
    record = h100.folder / 'state/change.json'
    record.parent.mkdir()
    record.write_text('{}')
    for done in (h100.apply('--resume'), h100.apply_config('large')):
        assert (done.returncode, done.stdout) == (1, '')
        assert done.stderr == (f"warpshare mig apply: record '{record}' (remove it to accept the geometry as it is): "
                               'version: missing\n')
    record.unlink()
    assert h100.apply_config('large').returncode == 0


def test_resume_takes_no_configuration(h100):
    done = h100.apply_config('mixed', '--resume')
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, 'warpshare mig apply: --resume goes without --file, --config and --only: what was wanted is recorded')


# ---- parts of GPU instances ----

def test_parts_of_a_gpu_instance_are_made_exported_and_restored(h100):
    assert h100.apply_config('mixed').returncode == 0
    h100.good('checkpoint', '--file', 'mixed.json')
    assert '3g.40gb 2c 1c' in h100.good('plan', '--file', 'mig.yaml', '--config', 'parts')
    assert h100.apply_config('parts').returncode == 0 and h100.has('parts')
    made = yaml.safe_load(h100.good('export'))['mig-configs']['current'][0]['mig-devices']
    assert made == CONFIGS['mig-configs']['parts'][0]['mig-devices']
    assert len({uuid for uuid, *_ in h100.devices()[0]}) == 3
    assert h100.parted('assert', '-f', 'mig.yaml', '-c', 'parts').returncode == 0
    h100.good('checkpoint', '--file', 'parts.json')
    assert h100.apply_config('large').returncode == 0 and not h100.has('parts')
    state = ('--state-directory', h100.folder / 'state')
    assert h100.mig('restore', '--file', 'parts.json', *state, WARPSHARE_SYSTEM_ROOT=str(h100.root)).returncode == 0
    assert h100.has('parts')
    # What is there as it is wanted stays.
    before = h100.devices()
    done = h100.apply_config('parts')
    assert done.returncode == 0 and h100.devices() == before
    assert h100.mig('restore', '--file', 'mixed.json', *state, WARPSHARE_SYSTEM_ROOT=str(h100.root)).returncode == 0 and h100.has('mixed')
