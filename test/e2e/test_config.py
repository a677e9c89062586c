# SPDX-License-Identifier: Apache-2.0
"""What the agent says about a configuration without serving it: --help, --check and --print-schema."""
import json
import os
import subprocess

import pytest

from node import REPORT, WARPSHARE

GOOD = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - {name: gpu, rename: gpu.notebook, devices: [0], replicas: 4}
health: {xids: {94: ignore}}
"""


def agent(*arguments, command='agent', **environment):
    clean = {name: value for name, value in os.environ.items() if name in ('PATH', 'ASAN_OPTIONS', 'UBSAN_OPTIONS')}
    done = subprocess.run([WARPSHARE, command, *arguments], capture_output=True, text=True, timeout=30, check=False,
                          stdin=subprocess.DEVNULL, env={**clean, **environment})
    assert not REPORT.search(done.stderr), done.stderr
    return done


def check(tmp_path, text, *arguments, **environment):
    path = tmp_path / 'config.yaml'
    path.write_text(text, encoding='utf-8')
    done = agent('--check', f'--config-file={path}', *arguments, **environment)
    return done.returncode, (done.stdout + done.stderr).replace(str(path), 'FILE')


def test_help_names_the_flags_of_nvidia_and_ours():
    done = agent('--help')
    assert done.returncode == 0
    for flag in ('--dev-root', '--pass-device-specs', '--gds-enabled', '--cdi-disable-hooks', '--imex-channel-ids',
                 '--cdi-root', '--check', '--print-schema'):
        assert f'  {flag} ' in done.stdout, flag
    assert all(len(line) <= 120 for line in done.stdout.splitlines())


def test_a_right_configuration_is_said_to_be_right(tmp_path):
    status, said = check(tmp_path, GOOD)
    assert status == 0
    assert 'FILE' in said and 'warning' not in said


def test_the_check_asks_no_gpu_and_its_help_says_who_does(tmp_path):
    """Whether a GPU reports its memory, for example, cannot be known: there may be none here."""
    scenario = tmp_path / 'gb10.yaml'
    scenario.write_text('gpus: [{model: H100-80GB, errors: {nvmlDeviceGetMemoryInfo: NOT_SUPPORTED}}]\n', encoding='utf-8')
    text = 'version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n'
    assert check(tmp_path, text, '--mps-root=/run/nvidia/mps', WARPSHARE_SIM_SCENARIO=str(scenario)) == (0, "config 'FILE' is valid\n")
    assert "reports no memory, is what 'warpshare plan' says on the node" in ' '.join(agent('--help').stdout.split())


def test_warnings_are_shown_and_change_nothing(tmp_path):
    status, said = check(tmp_path, GOOD + 'shring: {}\n')
    assert status == 0
    assert "config 'FILE' line 7: shring: unknown key, ignored; did you mean 'sharing'?" in said


def test_a_wrong_configuration_is_named_with_its_place(tmp_path):
    status, said = check(tmp_path, GOOD + 'imex: {required: perhaps}\n')
    assert status == 1
    assert "config 'FILE' line 7: imex.required: \"perhaps\", must be true or false" in said


def test_flags_and_variables_count_in_a_check(tmp_path):
    mps = 'sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}\n'
    assumed = 'no mpsRoot is set, so /run/nvidia/mps is assumed'
    status, said = check(tmp_path, mps)
    assert status == 0 and assumed in said
    for more, variables in [(['--mps-root=/run/nvidia/mps'], {}), ([], {'MPS_ROOT': '/run/nvidia/mps'})]:
        status, said = check(tmp_path, mps, *more, **variables)
        assert status == 0 and assumed not in said
    assert check(tmp_path, 'flags: {migStrategy: wrong}\n', MIG_STRATEGY='mixed')[0] == 0


def test_a_check_warns_of_names_that_no_node_has(tmp_path):
    status, said = check(tmp_path, 'sharing: {timeSlicing: {resources: [{name: gqu, replicas: 4}, {name: mig-2g.10gb, replicas: 2}]}}\n')
    assert status == 0 and "config 'FILE' is valid" in said
    assert said.count('shares nothing') == 1
    assert "timeSlicing.resources[0]: shares nothing: no GPU and no MIG device has the name 'nvidia.com/gqu', did you mean" in said


MANIFEST = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: configs}\ndata:\n%s'
FOUR = '  four: |\n    version: v1\n    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n'
WRONG = '  wrong: |\n    version: v1\n    sharing: 5\n'


@pytest.mark.parametrize('data, arguments, status, words', [
    (FOUR, [], 0, "config 'FILE: four' is valid"),
    (WRONG, [], 1, "config 'FILE: wrong' line 2: sharing"),
    (FOUR + WRONG, ['--config-default=four'], 0, 'is valid'),
    (FOUR + WRONG, ['--config-default=wrong'], 1, "config 'FILE: wrong' line 2: sharing"),
    (FOUR + WRONG, [], 1, 'data: several configurations: four, wrong; name one by --config-default'),
    (FOUR, ['--config-default=five'], 1, "data: no configuration 'five' among: four"),
    ('  {}\n', [], 1, 'data: the ConfigMap has no configuration'),
    (FOUR.replace('version: v1', 'kind: Secret\n    apiVersion: v1'), [], 1, "kind: a manifest of a 'Secret'"),
])
def test_the_manifest_of_a_configmap_stands_for_its_configuration(tmp_path, data, arguments, status, words):
    found, said = check(tmp_path, MANIFEST % data, *arguments)
    assert found == status and words in said, said


VALUES = 'image: {repository: here}\nresources: {requests: {cpu: 10m}}\nmigStrategy: single\nconfig:\n  name: ""\n'
OPERATORS = 'devicePlugin:\n  config:\n    name: configs\n'
TABLES = '  map:\n    a:\n      version: v1\n    b:\n      sharing: 5\n'


@pytest.mark.parametrize('text, arguments, status, words', [
    (VALUES + '  map:\n  ' + FOUR.replace('\n    ', '\n      '), [], 0, "config 'FILE: four' is valid"),
    (VALUES + '  map:\n  ' + WRONG.replace('\n    ', '\n      '), [], 1, "config 'FILE: wrong' line 2: sharing"),
    (VALUES + TABLES, ['--config-default=a'], 0, "config 'FILE' is valid"),
    (VALUES + '  map:\n    five: "sharing: {timeSlicing: {resources: [{name: gqu, replicas: 5}]}}"\n', [], 0,
     "config 'FILE: five' line 1: sharing.timeSlicing.resources[0]: shares nothing"),
    (VALUES + TABLES, ['--config-default=b'], 1, "config 'FILE' line 10: config.map.b.sharing: 5, must be a mapping"),
    (VALUES + TABLES, [], 1, 'line 6: config.map: several configurations: a, b; name one by --config-default'),
    (VALUES + '  default: b\n' + TABLES, [], 1, 'config.map.b.sharing: 5'),
    (VALUES + TABLES.replace('b:', 'default:'), [], 1, 'config.map.default.sharing: 5'),
    (VALUES + TABLES.replace('b:', 'default:'), ['--config-default=a'], 0, 'is valid'),
    (VALUES + '  default: c\n' + TABLES, [], 1, "config.map: no configuration 'c' among: a, b"),
    (VALUES + '  map: {}\n', [], 1, "config 'FILE' line 6: config.map: the values of the chart have no configuration"),
    (VALUES, [], 1, 'config.map: the values of the chart have no configuration'),
    (VALUES.replace('single', 'both') + TABLES, ['--config-default=a'], 1, "migStrategy: 'both' is not a known value, use none, single or mixed"),
    (VALUES.replace('single', 'both') + TABLES, ['--config-default=a', '--mig-strategy=mixed'], 0, 'is valid'),
    (OPERATORS + '    data:\n    ' + WRONG.replace('\n    ', '\n        '), [], 1, "config 'FILE: wrong' line 2: sharing"),
    (OPERATORS, [], 1, 'devicePlugin.config.data: the values of the GPU Operator have no configuration'),
    ('version: v1\nconfig: {map: {}}\n', [], 0, 'config: unknown key, ignored'),  # as NVIDIA's plugin, which looks at no such key
])
def test_the_values_of_a_chart_stand_for_their_configuration(tmp_path, text, arguments, status, words):
    found, said = check(tmp_path, text, *arguments)
    assert found == status and words in said, said


def test_the_charts_values_have_no_configuration_until_one_is_set(tmp_path):
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy/helm/warpshare/values.yaml'), encoding='utf-8') as file:
        values = file.read()
    status, said = check(tmp_path, values)
    assert status == 1 and 'config.map: the values of the chart have no configuration' in said


HAMI = 'nvidia:\n  resourceCountName: nvidia.com/gpu\n  deviceSplitCount: 10\n'


@pytest.mark.parametrize('text, words', [
    (HAMI, "line 1: 'nvidia' is an unknown key, and none is known: a configuration has some of version, flags, resources, sharing"),
    (MANIFEST % '  device-config.yaml: |\n    ' + HAMI.replace('\n', '\n    '), "config 'FILE: device-config.yaml' line 1: 'nvidia'"),
    ('{"nodeconfig": [{"name": "n", "devicesplitcount": 10}]}', "'nodeconfig' is an unknown key"),
    ('version: v1\nmig-configs: {all-disabled: []}\n', "mig-configs: this is a configuration of MIG, as for mig-parted: 'warpshare mig plan' reads it"),
    ('sharin: {timeSlicing: {}}\n', "'sharin' is an unknown key, and none is known: a configuration has some of version, flags"),
    ('sharin: {timeSlicing: {}}\n', "did you mean 'sharing'?"),
])
def test_a_file_without_any_known_key_is_refused(tmp_path, text, words):
    status, said = check(tmp_path, text)
    assert status == 1 and words in said, said
    # NVIDIA's plugin starts with whatever it does not know.
    path = tmp_path / 'config.yaml'
    done = agent('--check', '--config-file', str(path), command='nvidia-device-plugin')
    assert done.returncode == 0 and 'unknown key, ignored' in done.stderr, done.stderr


@pytest.mark.parametrize('text', ['', '{}', 'version: v1', 'Version: v1\nother: 1', 'FLAGS: {}', 'sharing:\nother: 1'])
def test_a_file_with_one_known_key_or_none_at_all_is_a_configuration(tmp_path, text):
    assert check(tmp_path, text)[0] == 0


@pytest.mark.parametrize('environment', [{}, {'MIG_STRATEGY': 'wrong', 'CONFIG_FILE': '/nonexistent'}])
def test_the_schema_is_printed_whatever_the_configuration_is(environment):
    done = agent('--print-schema', **environment)
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    assert schema['$schema'].startswith('http://json-schema.org/draft-07/')
    assert schema['properties']['flags']['properties']['migStrategy']['enum'] == ['none', 'single', 'mixed', None]
