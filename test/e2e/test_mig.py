# SPDX-License-Identifier: Apache-2.0
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
MODELS = ('T4', 'A30', 'A100-40GB', 'A100-80GB', 'H100-80GB', 'H100-NVL', 'H200', 'B200', 'B300', 'GB200', 'GB300', 'RTX-PRO-6000',
          'Thor')


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


def configs(folder, **configurations):
    path = folder / 'some.yaml'
    path.write_text(yaml.safe_dump({'version': 'v1', 'mig-configs': configurations}))
    return path


def test_what_cannot_be_read_is_not_there(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'A30'}, {'model': 'A30', 'lost': True}]})
    rows = node.good('plan', '--all').splitlines()[1:]
    assert rows and all(re.fullmatch(r'\S+ +no .* a GPU cannot be read', row) for row in rows)
    assert 'GPU is lost' in node.mig('apply', '--config', 'all-disabled', '--state-directory', tmp_path / 'state').stderr


def test_a_configuration_for_none_of_the_gpus_is_an_error_of_each_command(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'A30', 'count': 2}]})
    file = configs(tmp_path, absent=[{'devices': [7], 'mig-enabled': True, 'mig-devices': {'1g.6gb': 4}}],
                   other=[{'devices': 'all', 'device-filter': '0x232110DE', 'mig-enabled': False}],
                   vendorless=[{'devices': 'all', 'device-filter': '0x20B7', 'mig-enabled': False}])
    for name in 'absent', 'other', 'vendorless':
        for command in ['plan'], ['assert'], ['apply', '--state-directory', tmp_path / 'state']:
            done = node.mig(*command, '--file', file, '--config', name)
            assert done.returncode == 1
            assert f"the configuration '{name}' is for none of this node's GPUs" in done.stderr
            assert '"0x20B7" has no vendor and is for no GPU, use "0x20B710DE"' in done.stderr
            assert ('.devices: 7: the node has no such GPU, it has 2' in done.stderr) == (name == 'absent')
        assert node.parted('apply', '-f', file, '-c', name, WARPSHARE_MIG_STATE_DIRECTORY=str(tmp_path / 'state')).returncode == 1


def test_what_is_wrong_in_another_configuration_does_not_count(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'H100-80GB', 'count': 2}]})
    file = configs(tmp_path, mine=[{'devices': 'all', 'mig-enabled': False}],
                   other=[{'devices': 'all', 'device-filter': 'A100-SXM4-40GB', 'mig-enabled': True, 'mig-devices': {'1g.5gb': 7}}])
    assert node.good('assert', '--file', file, '--config', 'mine')
    assert node.parted('assert', '-f', file, '-c', 'mine').returncode == 0
    assert 'other[0].device-filter: "A100-SXM4-40GB", must be device and vendor' in node.mig('assert', '--file', file, '--config', 'other').stderr
    assert [row.split()[:2] for row in node.good('plan', '--all', '--file', file).splitlines()[1:]] == [['mine', 'yes'], ['other', 'no']]


def test_entries_for_a_gpu_that_differ_in_the_mode_are_refused(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'H100-80GB', 'count': 2}]})
    file = configs(tmp_path, over=[{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 7}}, {'devices': [0], 'mig-enabled': False}])
    for program in node.mig, node.parted:
        done = program('assert', '-f', file, '-c', 'over')
        assert done.returncode == 1 and 'over[1]: disables MIG on GPU 0 (NVIDIA H100 80GB HBM3), and another entry enables it' in done.stderr


def test_for_the_mode_alone_profiles_may_be_unknown(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': 'H100-80GB'}, {'model': 'H100-80GB', 'mig': {'enabled': True}}]})
    file = configs(tmp_path, second=[{'devices': [1], 'mig-enabled': True, 'mig-devices': {'1g.10gb': 1, '1g.12gb': 1}}])
    assert node.parted('assert', '-m', '-f', file, '-c', 'second').returncode == 0
    done = node.parted('assert', '-f', file, '-c', 'second')
    assert done.returncode == 1 and '1g.12gb: GPU 1 (NVIDIA H100 80GB HBM3) has no such profile' in done.stderr


def test_a_gpu_that_stays_as_it_is_may_be_busy(tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'geometryFile': str(tmp_path / 'geometry'), 'gpus': [
        {'model': 'A100-40GB', 'processes': [{'pid': 77, 'memory': '1GiB'}]}, {'model': 'A100-40GB', 'mig': {'enabled': True}}]})
    file = configs(tmp_path, second=[{'devices': [0], 'mig-enabled': False}, {'devices': [1], 'mig-enabled': True, 'mig-devices': {'3g.20gb': 2}}])
    assert node.good('apply', '--file', file, '--config', 'second', '--state-directory', tmp_path / 'state')
    assert node.good('assert', '--file', file, '--config', 'second')


def test_a_count_of_0_beside_others_counts_for_nothing(tmp_path):
    """NVIDIA's program takes it for a difference: what it has applied it never finds applied."""
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'geometryFile': str(tmp_path / 'geometry'),
                                'gpus': [{'model': 'H100-80GB', 'mig': {'enabled': True}}]})
    file = configs(tmp_path, seven=[{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 7, '7g.80gb': 0}}])
    assert node.mig('assert', '--file', file, '--config', 'seven').returncode == 1
    assert node.good('apply', '--file', file, '--config', 'seven', '--state-directory', tmp_path / 'state')
    assert node.good('assert', '--file', file, '--config', 'seven')
    assert node.parted('assert', '-f', file, '-c', 'seven').returncode == 0


def test_a_thor_is_divided_in_two_although_its_full_instance_has_one_copy_engine(tmp_path):
    """MIG user guide: two instances at most, one of them for graphics; what it refuses is taken back."""
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'geometryFile': str(tmp_path / 'geometry'),
                                'gpus': [{'model': 'Thor', 'mig': {'enabled': True}}]})
    for name, profiles, status in (('both', {'2g.0gb+gfx': 1, '1g.0gb+me': 1}, 0), ('neither', {'2g.0gb': 1, '1g.0gb+me': 1}, 1)):
        file = configs(tmp_path, **{name: [{'devices': 'all', 'mig-enabled': True, 'mig-devices': profiles}]})
        done = node.mig('apply', '--file', file, '--config', name, '--state-directory', tmp_path / 'state')
        assert done.returncode == status, done.stderr
        entry, = yaml.safe_load(node.good('export'))['mig-configs']['current']
        assert entry['mig-devices'] == {'2g.0gb+gfx': 1, '1g.0gb+me': 1}


@pytest.mark.parametrize('model', MODELS)
def test_each_default_configuration_of_a_model_is_a_valid_one(model, tmp_path):
    node = Simulated(tmp_path, {'driverVersion': '580.105.08', 'gpus': [{'model': model, 'count': 2}]})
    text = node.good('generate')
    configs = yaml.safe_load(text)['mig-configs']
    assert {'all-disabled', 'all-enabled'} <= set(configs)
    assert ('all-balanced' in configs) == (model not in ('T4', 'Thor'))
    assert not any('device-filter' in entry for entries in configs.values() for entry in entries)
    (tmp_path / 'generated.yaml').write_text(text)
    for name in configs:
        assert node.good('assert', '--valid-config', '--config', name, '--file', 'generated.yaml')
        assert node.good('assert', '--valid-config', '--config', name)
    assert node.good('assert', '--config', 'all-disabled')


FITTING = (  # model, what a GPU is to have; a profile may have the name of any release
    ('GB200', {'1g.47gb': 4}), ('GB200', {'1g.45gb': 4}), ('GB200', {'1g.23gb': 7}), ('GB200', {'1g.24gb': 7}),
    ('RTX-PRO-6000', {'1g.24gb': 4}), ('RTX-PRO-6000', {'2g.48gb': 1, '1g.24gb': 2}), ('RTX-PRO-6000', {'4g.96gb': 1}),
    ('RTX-PRO-6000', {'1g.24gb+me.all': 1, '1g.24gb-me': 3}), ('RTX-PRO-6000', {'2g.48gb+gfx': 1, '1g.24gb+gfx': 2}),
    ('RTX-PRO-6000', {'1g.24gb+me': 1, '1g.24gb': 3}),
    ('A100-40GB', {'3g.20gb': 1, '2g.10gb': 1, '1g.5gb': 2}), ('A100-40GB', {'1g.5gb': 2, '2g.10gb': 1, '3g.20gb': 1}),
    ('A100-40GB', {'3g.20gb': 1, '4g.20gb': 1}), ('A100-40GB', {'4g.20gb': 1, '2g.10gb': 1, '1g.5gb': 1}),
    ('A100-40GB', {'1g.10gb': 3, '1g.5gb': 1}), ('A100-40GB', {'1g.5gb': 6, '1g.5gb+me': 1}),
    ('A100-80GB', {'4c.7g.80gb': 1, '3c.7g.80gb': 1}), ('H100-80GB', {'4c.7g.80gb': 1, '3c.7g.80gb': 1}),
    ('A100-80GB', {'1c.3g.40gb': 2, '3g.40gb': 1}),
)
NOT_FITTING = (
    ('A100-40GB', {'1g.10gb': 4, '1g.5gb': 3}, 'its memory slices have no place for all of them; this would fit: 4 of 1g.10gb'),
    ('A100-40GB', {'2g.10gb': 4}, 'at most 3 of 2g.10gb fit on this GPU'),
    ('A100-80GB', {'4c.7g.80gb': 2}, 'at most 1 of 7g.80gb 4c fit on this GPU'),
)


def plan_all(folder, model, devices):
    node = Simulated(folder, {'driverVersion': '580.126.20', 'gpus': [{'model': model}]})
    (folder / 'one.yaml').write_text(yaml.safe_dump({'version': 'v1', 'mig-configs': {
        'one': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': devices}]}}, sort_keys=False))
    return node.mig('plan', '--file', 'one.yaml', '--config', 'one', '--output', 'json')


@pytest.mark.parametrize('model, devices', FITTING)
def test_what_fits_a_gpu_is_planned_in_whatever_order_it_is_written(model, devices, tmp_path):
    done = plan_all(tmp_path, model, devices)
    assert done.returncode == 0, done.stderr
    gpu, = json.loads(done.stdout)['gpus']
    assert gpu['made'], gpu


@pytest.mark.parametrize('model, devices, reason', NOT_FITTING)
def test_what_does_not_fit_a_gpu_is_refused_with_what_would(model, devices, reason, tmp_path):
    done = plan_all(tmp_path, model, devices)
    assert done.returncode != 0 and reason in done.stdout + done.stderr


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


def test_the_drop_in_takes_the_forms_of_options_that_nvidia_s_does(mixed, tmp_path):
    path = tmp_path / 'current.yaml'
    path.write_text(mixed.parted('export').stdout)
    checkpoint = str(tmp_path / 'checkpoint.json')
    for arguments in (('export', '-d'), ('generate-config', '-d'), ('checkpoint', '-df', checkpoint), ('-d', 'export'),
                      ('assert', '-mf', str(path), '-c', 'current'), ('assert', '-dmf', str(path), 'word', '-c', 'current'),
                      ('assert', '-f', str(path), '-d', '--', '--frobnicate')):
        assert mixed.parted(*arguments).returncode == 0, arguments
    for arguments in (('assert', '-mx'), ('assert', '-fm', str(path))):
        done = mixed.parted(*arguments)
        assert done.returncode == 1 and "unknown flag '--%s'" % arguments[1][1:] in done.stderr


def test_mig_alone_names_its_commands(mixed):
    done = mixed.mig('--help')
    assert (done.returncode, done.stderr) == (0, '')
    for command in ('apply', 'assert', 'checkpoint', 'export', 'generate', 'plan', 'restore'):
        assert re.search(r'warpshare mig %s ' % command, done.stdout)
        assert mixed.good(command, '--help').startswith('usage: warpshare mig %s ' % command)
    for arguments, words in (((), 'warpshare mig: needs a command; --help lists them\n'),
                             (('frobnicate',), "warpshare mig: 'frobnicate' is not a command; 'warpshare mig --help' lists them\n")):
        done = mixed.mig(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (2, '', words)


# ---- apply and restore, in the place of NVIDIA's program ----

HOOKS = ('apply-start', 'pre-apply-mode', 'pre-apply-config', 'apply-exit')
CONFIGS = {
    'off': [{'devices': 'all', 'mig-enabled': False}],
    'on': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {}}],
    'seven': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 7}}],
    'mixed': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'1g.10gb': 2, '2g.20gb': 1, '3g.40gb': 1}}],
    'eight': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 8}}]}


class Changing(Simulated):
    """A node whose programs share their changes, with hooks that note when they ran."""

    def __init__(self, folder, model='H100-80GB', driver='580.105.08', **more):
        self.scenario = {'driverVersion': driver, 'geometryFile': str(folder / 'geometry'), 'gpus': [{'model': model, **more}]}
        super().__init__(folder, self.scenario)
        (folder / 'mig.yaml').write_text(yaml.safe_dump({'version': 'v1', 'mig-configs': CONFIGS}))
        self.write_hooks()

    def write_hooks(self, **scripts):
        (self.folder / 'hooks.yaml').write_text(yaml.safe_dump({'version': 'v1', 'hooks': {
            name: [{'command': 'sh', 'workdir': str(self.folder), 'args': ['-c', scripts.get(name.replace('-', '_'), 'true') +
                                                                         '; echo %s $MIG_PARTED_SELECTED_CONFIG >> ran' % name]}]
            for name in HOOKS}}))

    def ran(self):
        path = self.folder / 'ran'
        text = path.read_text() if path.exists() else ''
        path.unlink(missing_ok=True)
        return [line.split()[0] for line in text.splitlines()]

    def change(self, *arguments, **environment):
        return self.parted(*arguments, '-k', 'hooks.yaml', '--state-directory', self.folder / 'state', **environment)

    def apply(self, config, *more, **environment):
        return self.change('apply', '-f', 'mig.yaml', '-c', config, *more, **environment)

    def has(self, config, *more):
        return self.parted('assert', '-f', 'mig.yaml', '-c', config, *more).returncode == 0


@pytest.fixture(name='changing')
def _changing(tmp_path):
    return Changing(tmp_path)


def test_hooks_run_in_the_order_of_nvidia_and_only_where_something_differs(changing):
    done = changing.apply('mixed')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'MIG configuration applied successfully\n', '')
    assert changing.has('mixed') and changing.ran() == list(HOOKS)
    assert changing.apply('mixed').returncode == 0
    assert changing.ran() == ['apply-start', 'apply-exit']
    assert changing.apply('seven').returncode == 0
    assert changing.has('seven') and changing.ran() == ['apply-start', 'pre-apply-config', 'apply-exit']
    assert changing.apply('off').returncode == 0
    assert changing.has('off') and changing.ran() == ['apply-start', 'pre-apply-mode', 'apply-exit']
    assert changing.apply('mixed', '-m').returncode == 0
    assert changing.has('on') and changing.ran() == ['apply-start', 'pre-apply-mode', 'apply-exit']


def test_a_hook_has_the_variables_of_nvidia(changing):
    changing.write_hooks(apply_start='env > environment')
    assert changing.apply('mixed', '-m').returncode == 0
    found = dict(line.split('=', 1) for line in (changing.folder / 'environment').read_text().splitlines())
    assert found['MIG_PARTED_CONFIG_FILE'] == 'mig.yaml' and found['MIG_PARTED_SELECTED_CONFIG'] == 'mixed'
    assert found['MIG_PARTED_HOOKS_FILE'] == 'hooks.yaml' and found['MIG_PARTED_MODE_CHANGE_ONLY'] == 'true'
    assert found['MIG_PARTED_SKIP_RESET'] == 'false' and 'HOME' not in found


@pytest.mark.parametrize('failing, ran', [
    ('apply-start', []), ('pre-apply-mode', ['apply-start', 'apply-exit']),
    ('pre-apply-config', ['apply-start', 'pre-apply-mode', 'apply-exit'])])
def test_a_hook_that_fails_ends_the_change_before_anything_is_touched(failing, ran, changing):
    changing.write_hooks(**{failing.replace('-', '_'): 'exit 4'})
    done = changing.apply('mixed')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == "nvidia-mig-parted apply: hook 0 of %s: 'sh' ended with status 4; --debug shows what it prints\n" % failing
    assert changing.has('off') and changing.ran() == ran


def test_the_last_hook_runs_after_an_error_too_and_its_own_failure_is_reported(changing):
    done = changing.apply('eight')
    assert (done.returncode, done.stdout, changing.ran()) == (1, '', ['apply-start', 'apply-exit'])
    assert '8 of 1g.10gb do not fit' in done.stderr and changing.has('off')
    changing.write_hooks(apply_exit='exit 4')
    done = changing.apply('mixed')
    assert (done.returncode, done.stdout) == (1, '') and 'hook 0 of apply-exit' in done.stderr
    assert changing.has('mixed')


def test_debug_shows_the_steps_and_what_hooks_print(changing):
    changing.write_hooks(apply_start='echo said by a hook')
    done = changing.change('-d', 'apply', '-f', 'mig.yaml', '-c', 'mixed')
    assert done.returncode == 0 and 'said by a hook\n' in done.stdout
    assert re.search(r'^GPU GPU-\S+: MIG enabled$', done.stderr, re.MULTILINE)
    assert len(re.findall(r': made \dg\.\d+gb at \d$', done.stderr, re.MULTILINE)) == 4
    assert 'said by' not in changing.apply('mixed').stdout


def test_a_checkpoint_is_restored_at_the_same_places(changing):
    assert changing.apply('mixed').returncode == 0
    assert changing.parted('checkpoint', '-f', 'before.json').returncode == 0
    before = (changing.folder / 'before.json').read_text()
    for config in ('seven', 'off', 'mixed'):
        assert changing.apply(config).returncode == 0
        changing.ran()
        done = changing.change('restore', '-f', 'before.json')
        assert (done.returncode, done.stdout) == (0, 'MIG configuration restored successfully\n'), done.stderr
        assert changing.good('checkpoint') == before
        assert changing.ran() == [name for name in HOOKS if config == 'off' or (config == 'seven' and name != 'pre-apply-mode') or
                                  name in ('apply-start', 'apply-exit')]


def test_our_restore_is_like_apply(changing):
    assert changing.apply('mixed').returncode == 0
    before = changing.good('checkpoint')
    assert changing.apply('off').returncode == 0
    arguments = ('restore', '--file', '-', '--state-directory', changing.folder / 'state', '--output', 'json')
    done = changing.mig(*arguments, text=before)
    assert (done.returncode, json.loads(done.stdout)) == (0, {'config': 'checkpoint', 'result': 'done'}), done.stderr
    assert changing.good('checkpoint') == before
    assert json.loads(changing.good(*arguments, text=before))['result'] == 'unchanged'
    done = changing.mig('restore')
    assert (done.returncode, done.stderr) == (2, 'warpshare mig restore: file: is needed, use --file\n')


def test_what_cannot_be_restored_is_refused_with_nothing_touched(changing):
    assert changing.apply('seven').returncode == 0
    for text, words in (('{}', "checkpoint 'bad.json': Version: missing"),
                        ('{"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":0}]}}', 'GPU GPU-0 of the checkpoint is not in this node')):
        (changing.folder / 'bad.json').write_text(text)
        done = changing.change('restore', '-f', 'bad.json')
        assert (done.returncode, done.stdout) == (1, '') and done.stderr == 'nvidia-mig-parted restore: %s\n' % words
        assert changing.has('seven')


def test_a_driver_that_lists_no_profiles_before_mig_is_enabled_is_no_hindrance(tmp_path):
    node = Changing(tmp_path, driver='535.104.05')
    before = yaml.safe_load(node.good('generate'))
    assert before['mig-configs']['all-1g.10gb'][0]['mig-devices'] == {'1g.10gb': 7}
    assert node.apply('mixed').returncode == 0 and node.has('mixed')
    assert yaml.safe_load(node.good('generate')) == before
    done = node.apply('eight')
    assert (done.returncode, done.stdout) == (1, '') and '8 of 1g.10gb do not fit' in done.stderr and node.has('mixed')


# ---- GPUs whose mode needs a reset ----

A100 = {'five': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.5gb': 5}}]}


@pytest.fixture(name='ampere')
def _ampere(tmp_path):
    """An A100, and an nvidia-smi that resets it and notes how it was called."""
    node = Changing(tmp_path, 'A100-40GB')
    (tmp_path / 'mig.yaml').write_text(yaml.safe_dump({'version': 'v1', 'mig-configs': {**CONFIGS, **A100}}))
    (tmp_path / 'bin').mkdir()
    smi = tmp_path / 'bin' / 'nvidia-smi'
    smi.write_text('#!/bin/sh\necho "$@" >> "%s/called"\ncp "%s/after.yaml" "%s"\n' % (tmp_path, tmp_path, node.path))
    smi.chmod(0o755)
    (tmp_path / 'after.yaml').write_text(yaml.safe_dump({**node.scenario, 'gpus': [{**node.scenario['gpus'][0], 'resets': 1}]}))
    node.environment = {'PATH': '%s:%s' % (tmp_path / 'bin', os.environ['PATH'])}
    return node


def test_a_gpu_is_reset_where_its_mode_needs_that(ampere):
    done = ampere.apply('five', **ampere.environment)
    assert (done.returncode, done.stdout) == (0, 'MIG configuration applied successfully\n'), done.stderr
    assert ampere.has('five')
    assert re.fullmatch(r'--gpu-reset --id GPU-\S+\n', (ampere.folder / 'called').read_text())


def test_a_reset_that_is_skipped_leaves_the_mode_pending(ampere):
    done = ampere.apply('five', '-m', '-s', **ampere.environment)
    assert (done.returncode, done.stdout) == (0, 'MIG configuration applied successfully\n'), done.stderr
    assert not ampere.has('five', '-m') and not (ampere.folder / 'called').exists()
