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


def agent(*arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if name in ('PATH', 'ASAN_OPTIONS', 'UBSAN_OPTIONS')}
    done = subprocess.run([WARPSHARE, 'agent', *arguments], capture_output=True, text=True, timeout=30, check=False,
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
    (FOUR, [], 0, "config 'FILE' is valid"),
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


@pytest.mark.parametrize('environment', [{}, {'MIG_STRATEGY': 'wrong', 'CONFIG_FILE': '/nonexistent'}])
def test_the_schema_is_printed_whatever_the_configuration_is(environment):
    done = agent('--print-schema', **environment)
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    assert schema['$schema'].startswith('http://json-schema.org/draft-07/')
    assert schema['properties']['flags']['properties']['migStrategy']['enum'] == ['none', 'single', 'mixed', None]
