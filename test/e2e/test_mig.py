"""The MIG geometry by the command line: `warpshare mig`, and `nvidia-mig-parted` in the place of NVIDIA's program."""
import json
import os
import re
import subprocess

import pytest
import yaml

from node import REPORT, SIMULATOR, WARPSHARE

PARTED = os.path.join(os.path.dirname(WARPSHARE), 'nvidia-mig-parted')
MIXED = {'driverVersion': '580.105.08', 'gpus': [
    {'model': 'A100-40GB'},
    {'model': 'A100-40GB', 'mig': {'devices': [{'profile': '3g.20gb'}, {'profile': '1g.5gb', 'count': 4}]}}]}
MODELS = ('T4', 'A30', 'A100-40GB', 'A100-80GB', 'H100-80GB', 'H200', 'GB200', 'RTX-PRO-6000')


class Simulated:
    """The programs on a simulated node of its own."""

    def __init__(self, folder, scenario):
        self.folder = folder
        self.path = folder / 'node.yaml'
        self.path.write_text(yaml.safe_dump(scenario))

    def run(self, program, *arguments, text=None, **environment):
        done = subprocess.run(
            [*program, *map(str, arguments)], capture_output=True, text=True, timeout=90, check=False, input=text or '', cwd=self.folder,
            env={**os.environ, 'WARPSHARE_NVML_LIBRARY': SIMULATOR, 'WARPSHARE_SIM_SCENARIO': str(self.path), **environment})
        assert not REPORT.search(done.stderr), done.stderr
        return done

    def mig(self, *arguments, **more):
        return self.run([WARPSHARE, 'mig'], *arguments, **more)

    def parted(self, *arguments, **more):
        return self.run([PARTED], *arguments, **more)

    def good(self, *arguments, **more):
        done = self.mig(*arguments, **more)
        assert (done.returncode, done.stderr) == (0, ''), done.stderr
        return done.stdout


@pytest.fixture(name='mixed')
def _mixed(tmp_path):
    return Simulated(tmp_path, MIXED)


# ---- what a node has, and can have ----


def test_what_is_exported_is_what_is_there(mixed):
    text = mixed.good('export')
    assert yaml.safe_load(text) == {'version': 'v1', 'mig-configs': {'current': [
        {'devices': [0], 'mig-enabled': False, 'mig-devices': {}},
        {'devices': [1], 'mig-enabled': True, 'mig-devices': {'1g.5gb': 4, '3g.20gb': 1}}]}}
    assert mixed.good('assert', '--file', '-', text=text) == 'Selected MIG configuration currently applied\n'
    as_json = mixed.good('export', '--output', 'json', '--name', 'now')
    assert json.loads(as_json)['mig-configs']['now'] == yaml.safe_load(text)['mig-configs']['current']
    assert mixed.good('assert', '--file', '-', '--config', 'now', text=as_json)


@pytest.mark.parametrize('model', MODELS)
def test_each_default_configuration_of_a_model_is_a_valid_one(model, tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': model, 'count': 2}]})
    text = node.good('generate')
    configs = yaml.safe_load(text)['mig-configs']
    assert {'all-disabled', 'all-enabled'} <= set(configs)
    assert ('all-balanced' in configs) == (model != 'T4')
    assert not any('device-filter' in entry for entries in configs.values() for entry in entries)
    (tmp_path / 'generated.yaml').write_text(text)
    for name in configs:
        assert node.good('assert', '--valid-config', '--config', name, '--file', 'generated.yaml')
        assert node.good('assert', '--valid-config', '--config', name)
    assert node.good('assert', '--config', 'all-disabled')


def test_h100s_are_cut_into_seven_and_a30s_into_four(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'H100-80GB'}, {'model': 'A30'}]})
    configs = yaml.safe_load(node.good('generate'))['mig-configs']
    assert configs['all-1g.10gb'] == [
        {'device-filter': ['0x233010DE'], 'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 7}}]
    assert configs['all-1g.6gb'][0]['mig-devices'] == {'1g.6gb': 4}
    assert [entry['mig-devices'] for entry in configs['all-balanced']] == [
        {'1g.10gb': 2, '2g.20gb': 1, '3g.40gb': 1}, {'1g.6gb': 2, '2g.12gb': 1}]


def test_the_documented_configurations_are_compared_gpu_by_gpu(mixed):
    """The one of NVIDIA's README that sets GPUs apart, for two."""
    (mixed.folder / 'mig.yaml').write_text(yaml.safe_dump({'version': 'v1', 'mig-configs': {
        'custom-config': [
            {'devices': [0], 'mig-enabled': False},
            {'devices': [1], 'mig-enabled': True, 'mig-devices': {'1g.5gb': 4, '3g.20gb': 1}}],
        'all-balanced': [
            {'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.5gb': 2, '2g.10gb': 1, '3g.20gb': 1}}]}}))
    assert mixed.good('assert', '--file', 'mig.yaml', '--config', 'custom-config')
    done = mixed.mig('assert', '--file', 'mig.yaml', '--config', 'all-balanced')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == ('warpshare mig assert: MIG is disabled on GPU 0, wanted is enabled\n'
                           'warpshare mig assert: GPU 1 has 4 of 1g.5gb, wanted are 2\n')
    done = mixed.mig('assert', '--file', 'mig.yaml', '--config', 'all-balanced', '--mode-only')
    assert (done.returncode, done.stderr) == (1, 'warpshare mig assert: MIG is disabled on GPU 0, wanted is enabled\n')
    done = mixed.mig('assert', '--file', 'mig.yaml', '--config', 'balanced')
    assert (done.returncode, done.stderr) == (1, "warpshare mig assert: config 'mig.yaml' has no configuration 'balanced', use one of: "
                                              'all-balanced, custom-config\n')


def test_what_is_wrong_in_a_file_is_named_with_its_line(mixed):
    (mixed.folder / 'mig.yaml').write_text('version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enable: true\n')
    for more in ((), ('--valid-config',)):
        done = mixed.mig('assert', '--file', 'mig.yaml', *more)
        assert (done.returncode, done.stderr) == (
            1, "warpshare mig assert: config 'mig.yaml' line 5: mig-configs.a[0].mig-enable: unknown key; did you mean 'mig-enabled'?\n")
    done = mixed.mig('assert', '--file', 'nowhere.yaml')
    assert (done.returncode, done.stderr) == (1, "warpshare mig assert: open 'nowhere.yaml': No such file or directory\n")


def test_a_node_without_a_driver_says_so(mixed):
    for command in ('assert', 'checkpoint', 'export', 'generate'):
        done = mixed.mig(command, '--nvml-library', '/nonexistent/libnvidia-ml.so.1')
        assert (done.returncode, done.stdout) == (1, '')
        assert '/nonexistent/libnvidia-ml.so.1' in done.stderr


# ---- checkpoint ----


def test_a_checkpoint_has_the_placements(mixed):
    state = json.loads(mixed.good('checkpoint'))
    assert state['Version'] == 'v1'
    first, second = state['MigState']['Devices']
    assert (first['MigMode'], first['GpuInstances'], second['MigMode']) == (0, [], 1)
    by_profile = {}
    for instance in second['GpuInstances']:
        by_profile.setdefault(instance['ProfileID'], []).append(instance['Placement']['Size'])
        assert len(instance['ComputeInstances']) == 1
    assert by_profile == {0: [1, 1, 1, 1], 2: [4]}


def test_a_checkpoint_replaces_a_file_and_nothing_else(mixed):
    target, link, file = (mixed.folder / name for name in ('target', 'link', 'file'))
    target.write_text('x' * 10000)
    link.symlink_to(target)
    file.write_text('before')
    for path in (link, file):
        assert mixed.good('checkpoint', '--file', path) == 'MIG configuration checkpointed successfully\n'
    assert link.is_symlink()
    assert target.read_text() == file.read_text() == mixed.good('checkpoint')
    assert mixed.parted('checkpoint', '-f', '/dev/full').returncode == 1


# ---- the drop-in ----


def test_the_drop_in_has_the_flags_and_variables_of_nvidia(mixed):
    done = mixed.parted('export', '-o', 'json', '-l', 'now')
    assert (done.returncode, list(json.loads(done.stdout)['mig-configs'])) == (0, ['now'])
    (mixed.folder / 'mig.json').write_text(done.stdout)
    for arguments, environment in (
            (('-f', 'mig.json', '-c', 'now'), {}), (('--config-file=mig.json', '--selected-config=now'), {}), (('-f', 'mig.json'), {}),
            ((), {'MIG_PARTED_CONFIG_FILE': 'mig.json', 'MIG_PARTED_SELECTED_CONFIG': 'now'})):
        done = mixed.parted('assert', *arguments, **environment)
        assert (done.returncode, done.stdout) == (0, 'Selected MIG configuration currently applied\n'), done.stderr
        done = mixed.parted('-d', 'assert', *arguments, '-a', **environment)
        assert (done.returncode, done.stdout) == (0, 'Selected MIG configuration is valid\n'), done.stderr
    done = mixed.parted('assert', '-f', 'mig.json', '-m', MIG_PARTED_DEBUG='true')
    assert (done.returncode, done.stdout) == (0, 'Selected MIG mode settings from configuration currently applied\n')
    assert mixed.parted('generate-config', '-f', 'generated.yaml').returncode == 0
    assert (mixed.folder / 'generated.yaml').read_text() == mixed.good('generate')
    done = mixed.parted('assert', '-f', 'generated.yaml', '-c', 'all-1g.5gb')
    assert (done.returncode, done.stdout) == (1, '')


def test_the_drop_in_answers_wrong_usage_as_nvidia_s_does(mixed):
    for arguments, words in (((), 'usage: nvidia-mig-parted'), (('--help',), 'usage: nvidia-mig-parted'),
                             (('assert', '--help'), '--selected-config'), (('--version',), 'nvidia-mig-parted version')):
        done = mixed.parted(*arguments)
        assert (done.returncode, done.stderr) == (0, '') and words in done.stdout
    for arguments, words in ((('assert',), "nvidia-mig-parted assert: missing required flags 'config-file'"),
                             (('checkpoint',), "nvidia-mig-parted checkpoint: missing required flags 'checkpoint-file'"),
                             (('frobnicate',), "nvidia-mig-parted: 'frobnicate' is not a command"),
                             (('export', '-o', 'xml'), "output-format: 'xml' is not a known value, use yaml or json")):
        done = mixed.parted(*arguments)
        assert (done.returncode, done.stdout) == (1, '') and done.stderr.endswith(words + '\n'), done.stderr


def test_mig_alone_names_its_commands(mixed):
    done = mixed.mig('--help')
    assert (done.returncode, done.stderr) == (0, '')
    for command in ('assert', 'checkpoint', 'export', 'generate'):
        assert re.search(r'warpshare mig %s ' % command, done.stdout)
        assert mixed.good(command, '--help').startswith('usage: warpshare mig %s ' % command)
    for arguments, words in (((), 'warpshare mig: needs a command; --help lists them\n'),
                             (('frobnicate',), "warpshare mig: 'frobnicate' is not a command; 'warpshare mig --help' lists them\n")):
        done = mixed.mig(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (2, '', words)
