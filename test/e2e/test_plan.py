# SPDX-License-Identifier: Apache-2.0
"""warpshare plan: what it tells of a node, real or simulated, for people and for scripts."""
import json
import os
import re
import subprocess

import pytest
import yaml

from node import GPU, REPORT, SIMULATOR, WARPSHARE, sharing, v100s

SOURCE = os.environ['WARPSHARE_SOURCE']


def plan(*arguments, stdin='', **environment):
    done = subprocess.run([WARPSHARE, 'plan', *arguments], capture_output=True, text=True, timeout=60, check=False,
                          input=stdin, env={**os.environ, **environment})
    assert not REPORT.search(done.stderr), done.stderr
    return done


def simulate(*arguments, **environment):
    return plan('--nvml-library', SIMULATOR, *arguments, **environment)


def plan_json(*arguments, **environment):
    done = simulate('--output', 'json', *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def config(tmp_path):
    def write(content):
        path = tmp_path / 'config.yaml'
        path.write_text(yaml.safe_dump(content))
        return '--config-file=%s' % path

    return write


def weighted(replicas, **more):
    return sharing('mps', replicas, provisioning='weighted', **{
        'failRequestsGreaterThanOne': False, 'placement': 'packed', 'daemonScope': 'resource', **more})


def test_the_table_says_what_a_container_gets(config):
    done = simulate(config(weighted(10)), '--model', 'A100-40GB', '--gpus', '4', '--replicas', '1,3,all')
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith('4 GPUs (simulated: A100-40GB), driver 580.105.08, config ')
    assert '\nnvidia.com/gpu: 40\n' in done.stdout
    assert re.search(r'^  0-3 +NVIDIA A100-SXM4-40GB +40960 MiB +\d+ MiB +108 +10 +48 +verified$', done.stdout, re.M)
    one, three, ten = (int(re.search(pattern, done.stdout, re.M).group(1)) for pattern in (
        r'^  0-3 +1 of 10 +(\d+) MiB +10\.0 %$', r'^ +3 of 10 +(\d+) MiB +30\.0 %$', r'^ +10 of 10 +(\d+) MiB +100\.0 %$'))
    assert 3 * one <= three < 3 * (one + 1) and 10 * one <= ten < 10 * (one + 1) and 36000 < ten < 40960
    assert 'MPS control daemons: 1,' in done.stdout
    assert '\x1b' not in done.stdout and not re.search(r' $', done.stdout, re.M)


def test_the_json_has_the_same_and_the_units_one_by_one(config):
    told = plan_json(config(weighted(10)), '--model', 'A100-40GB', '--gpus', '2', '--replicas', '1,3')
    resource, = told['resources']
    assert (resource['name'], resource['devices'], resource['advertised']) == (GPU, 20, 20)
    assert [unit['index'] for unit in resource['units']] == ['0', '1']
    shares = resource['units'][0]['shares']
    assert [(share['replicas'], share['threadsPercent'], share['sms']) for share in shares] == [
        (1, 10.0, None), (3, 30.0, None)]
    assert 3 * shares[0]['memoryMiB'] <= shares[1]['memoryMiB'] < 40960 * 3 // 10
    daemon, = told['mpsDaemons']
    assert [unit['uuid'] for unit in daemon['units']] == [unit['uuid'] for unit in resource['units']]
    assert told['warnings'] == [] and told['simulated'] is True


def test_the_driver_decides_how_shares_hold_and_how_many_clients(config):
    file = config(weighted(10))
    tiers = {}
    for driver in ('550.163.01', '590.44', '615.10'):
        unit = plan_json(file, '--model', 'H100-80GB', '--driver', driver)['resources'][0]['units'][0]
        tiers[driver] = (unit['tier'], unit['maxClients'])
    assert tiers == {'550.163.01': ('verified', 48), '590.44': ('verified', 60), '615.10': ('namespace', 60)}


@pytest.mark.parametrize('ceilings, expected', [
    ({}, 'all of the threads and all of the memory'),
    ({'maxThreads': 60, 'maxMemory': '8Gi'}, '60 % of the threads and 8192 MiB')])
def test_the_plan_shows_what_a_container_may_declare(config, ceilings, expected):
    done = simulate(config(sharing('mps', 10, provisioning='declared', **ceilings)), '--model', 'A100-40GB', '--replicas', '1')
    assert done.returncode == 0 and not done.stderr
    ceiling = 'A container that declares nothing has that share. A container may declare up to %s.' % expected
    assert ceiling in done.stdout
    assert re.search(r'^ +0 +1 of 10 +\d+ MiB +10\.0 %$', done.stdout, re.M)


def test_sms_are_shown_where_shares_are_of_sms(config):
    file = config(sharing('mps', 7, provisioning='sm', failRequestsGreaterThanOne=False))
    unit = plan_json(file, '--model', 'H100-80GB', '--driver', '595.10')['resources'][0]['units'][0]
    assert unit['tier'] == 'partition' and [share['sms'] for share in unit['shares']] == [16, 32, 48, 112]


def test_the_guarantee_keeps_replicas_back(config):
    file = config(weighted(7, placement='same-gpu', daemonScope='gpu', maxPerRequest=4))
    done = simulate(file, '--model', 'H200', '--gpus', '3')
    assert '\nnvidia.com/gpu: 15\n  of 21 replicas' in done.stdout
    assert re.search(r'^ +more than 4 .*refused by maxPerRequest$', done.stdout, re.M)


def test_a_reserve_above_a_third_is_a_warning_with_the_ways_out(config):
    """Each number of the table is what the plan says when that way is taken."""
    file = config(sharing('mps', 10, provisioning='weighted'))
    done = simulate(file, '--model', 'H100-80GB', '--gpus', '8')
    assert '\nnvidia.com/gpu: 52\n  of 80 replicas' in done.stdout and '28 (35 %) are reserved' in done.stdout
    rows = dict(re.findall(r'^    (\S.*?)  +(\d+|all)(?:  .*)?$', done.stdout, re.M))
    assert rows == {'maxPerRequest: 3': '66', 'maxPerRequest: 2': '73', 'reserve: none': '80', 'scope: individual': '80', 'DRA (--dra)': 'all'}
    for row, advertised in rows.items():
        key, _, value = row.partition(': ')
        if value:
            more = {key: int(value) if value.isdigit() else value}
            told = plan_json(config(sharing('mps', 10, provisioning='weighted', **more)), '--model', 'H100-80GB', '--gpus', '8')
            assert sum(one['advertised'] for one in told['resources']) == int(advertised), row
            assert not told['warnings'], row
    warning, = re.findall(r'^warning: (.*)$', done.stdout, re.M)
    assert ("'nvidia.com/gpu' reserves 28 of 80 replicas (35 %), so that each request for up to 5 finds one unit with room: "
            'with maxPerRequest: 3 it advertises 66, with maxPerRequest: 2 it advertises 73; reserve: none') in warning


def test_a_gpu_in_mig_mode_is_promised_no_shares(tmp_path, config):
    """Under migStrategy none it is advertised as a whole, as by NVIDIA's plugin; but a container sees one MIG device of it."""
    scenario = tmp_path / 'node.yaml'
    scenario.write_text('gpus: [{model: A100-40GB}, {model: A100-40GB, mig: {devices: [{profile: 3g.20gb}]}}]\n')
    for strategy in 'mps', 'timeSlicing':
        arguments = config(sharing(strategy, 4)), '--scenario', str(scenario)
        whole, divided = plan_json(*arguments)['resources'][0]['units']
        assert whole['shares'] and not divided['shares']
        warning, = plan_json(*arguments)['warnings']
        assert 'shares GPU 1 (%s) as a whole, but it is in MIG mode' % divided['uuid'] in warning
        assert plan_json(*arguments, '--mig-strategy', 'mixed')['warnings'] == []
    table = simulate(config(sharing('mps', 4)), '--scenario', str(scenario)).stdout
    assert re.search(r'^  1 +any +- +- +at most one MIG device of it', table, re.M), table


def test_uniform_shares_take_one_replica_a_container(config):
    done = simulate(config(sharing('mps', 10)), '--model', 'T4')
    assert re.search(r'^ +more than 1 .*refused by failRequestsGreaterThanOne$', done.stdout, re.M)
    share = plan_json(config(sharing('mps', 10)), '--model', 'T4')['resources'][0]['units'][0]['shares'][1]
    assert share == {'replicas': 2, 'refusedBy': 'failRequestsGreaterThanOne'}


def test_time_slicing_limits_nothing(config):
    done = simulate(config(sharing('timeSlicing', 7)), '--model', 'T4', '--gpus', '2')
    assert '\nnvidia.com/gpu: 14\n' in done.stdout and 'have no limit' in done.stdout
    assert 'MPS control daemons' not in done.stdout and 'refused' not in done.stdout


def test_time_slicing_may_refuse_more_than_one(config):
    content = sharing('timeSlicing', 7)
    content['sharing']['timeSlicing']['failRequestsGreaterThanOne'] = True
    done = simulate(config(content), '--model', 'T4')
    assert 'asks for more than one is refused by failRequestsGreaterThanOne.\n' in done.stdout


def test_each_gpu_may_have_a_daemon_of_its_own(config):
    told = plan_json(config(sharing('mps', 10)), '--model', 'T4', '--gpus', '3')
    units = told['resources'][0]['units']
    assert [[unit['uuid'] for unit in daemon['units']] for daemon in told['mpsDaemons']] == [
        [unit['uuid']] for unit in units]
    assert [daemon['units'][0]['mostMemoryMiB'] for daemon in told['mpsDaemons']] == [1536] * 3


def test_without_a_file_gpus_are_whole():
    done = simulate('--model', 'T4', '--gpus', '2')
    assert done.returncode == 0
    assert 'no config file' in done.stdout and '\nnvidia.com/gpu: 2\n' in done.stdout and 'REPLICAS' not in done.stdout


def test_a_scenario_may_have_mig_devices(config):
    content = weighted(2)
    content['flags']['migStrategy'] = 'mixed'
    content['sharing']['mps']['resources'].append({'name': 'nvidia.com/mig-1g.5gb', 'replicas': 3})
    done = simulate(config(content), '--scenario', SOURCE + '/sim/scenarios/a100-mixed.yaml')
    assert done.returncode == 0
    assert '\nnvidia.com/mig-1g.5gb: 9\n' in done.stdout
    assert re.search(r'^  2:1-3 +1g\.5gb +4864 MiB +\d+ MiB +14 +3 +6 +verified$', done.stdout, re.M)


def test_this_node_is_read_as_the_agent_reads_it(node):
    node.scenario([*v100s(1), {'model': 'T4', 'lost': True}])
    node.config(sharing('timeSlicing', 3))
    done = simulate(WARPSHARE_SIM_SCENARIO=node.scenario_path, CONFIG_FILE=node.config_path)
    assert done.returncode == 0
    assert done.stdout.startswith('1 GPU, driver 550.163.01, config ') and 'simulated' not in done.stdout
    assert len(re.findall(r'^warning: .*GPU_IS_LOST', done.stdout, re.M)) == 1


def test_a_wrong_config_is_refused_with_the_agents_words(config, node):
    done = simulate(config({'version': 'v2'}), '--model', 'T4')
    assert done.returncode == 1 and not done.stdout
    assert "'v2' is not a known version, use v1" in done.stderr


def test_names_that_mean_nothing_are_warned_about(config):
    for name, words in (('gqu', "no GPU and no MIG device has the name 'nvidia.com/gqu', did you mean 'nvidia.com/gpu'?"),
                        ('mig-2g.10gb', "this node has no 'nvidia.com/mig-2g.10gb', only nvidia.com/gpu; MIG devices have such names")):
        content = sharing('timeSlicing', 3)
        content['sharing']['timeSlicing']['resources'][0]['name'] = name
        done = simulate(config(content), '--model', 'A100-40GB')
        assert done.returncode == 0 and '\nnvidia.com/gpu: 1\n' in done.stdout
        assert re.search('^warning: .*shares nothing.*%s' % re.escape(words), done.stdout, re.M), done.stdout


def test_the_warning_that_explains_an_error_is_printed_before_it(tmp_path):
    """A misspelt key: without its warning, "replicas is missing" would be all that is said of 'replica'."""
    done = simulate('-', '--model', 'T4', stdin='{version: v1, sharing: {mps: {resources: [{name: gpu, replica: 4}]}}}')
    assert done.returncode == 1 and not done.stdout
    warning, error = done.stderr.splitlines()
    assert warning.startswith('warning: ') and "resources[0].replica: unknown key, ignored; did you mean 'replicas'?" in warning
    assert 'resources[0]: replicas is missing' in error


def test_a_plan_that_does_not_hold_on_these_gpus_is_refused(config):
    done = simulate(config(sharing('mps', 200)), '--model', 'H200')
    assert done.returncode == 1 and not done.stdout
    assert '200' in done.stderr and done.stderr.count('\n') == 1


def test_a_node_without_a_driver_says_so():
    done = plan('--nvml-library', '/nonexistent/libnvidia-ml.so.1')
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith('warpshare plan: this node (--model plans for a simulated one): ')
    assert '/nonexistent/libnvidia-ml.so.1' in done.stderr


def test_every_model_of_the_simulator_can_be_planned_for():
    with open(SOURCE + '/sim/hardware/models.c', encoding='utf-8') as source:
        models = re.findall(r'\.key = "([^"]+)"', source.read())
    assert len(models) >= 10
    help_text = ' '.join(plan('--help').stdout.split())
    for model in models:
        assert simulate('--model', model).returncode == 0
        assert re.search(r'\b%s\b' % re.escape(model), help_text)


def test_the_examples_of_the_help_work(tmp_path):
    done = plan('--help')
    assert done.returncode == 0 and not done.stderr
    examples = re.findall(r'^  (echo .*|warpshare plan .*)$', done.stdout, re.M)
    assert len(examples) == 5
    (tmp_path / 'pods.csv').write_text('start,end,replicas\n0,60,1\n')
    for example in examples:
        subprocess.run(['sh', '-ec', example.replace('warpshare plan', '"$WARPSHARE" plan --nvml-library "$SIMULATOR"')],
                       cwd=tmp_path, check=True, timeout=60, stdout=subprocess.DEVNULL,
                       env={**os.environ, 'SIMULATOR': SIMULATOR})


def test_a_file_is_a_word_or_follows_f_or_is_standard_input(tmp_path):
    """As people type it: 'plan FILE', 'plan -' and 'plan -f FILE', wherever the other options are."""
    file = tmp_path / 'gpus.yaml'
    file.write_text('{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}}')
    for words in ([str(file)], ['-f', str(file)], ['--filename', str(file)], ['-'], ['-f', '-'], ['--config-file=-']):
        for around in ([*words, '--model', 'T4'], ['--model', 'T4', *words]):
            with open(file, encoding='utf-8') as content:
                done = subprocess.run([WARPSHARE, 'plan', '--nvml-library', SIMULATOR, *around], capture_output=True, text=True,
                                      timeout=60, check=False, stdin=content, env={**os.environ, 'CONFIG_FILE': '/nonexistent'})
            assert done.returncode == 0 and '\nnvidia.com/gpu: 3\n' in done.stdout, (words, done.stderr)
            assert done.stdout.split('\n')[0].endswith(", config '%s'" % ('-' if '-' in words[-1][-1] else file))


def test_standard_input_is_named_in_what_is_wrong_with_it():
    done = plan('-', '--model', 'T4', '--nvml-library', SIMULATOR, stdin='{version: v2}')
    assert done.returncode == 1 and "config '-' line 1: version: 'v2' is not a known version" in done.stderr


@pytest.mark.parametrize('arguments, text', [
    (('a.yaml', 'b.yaml'), "'a.yaml' and 'b.yaml': only one file can be planned, without --replay"),
    (('a.yaml', '-f', 'b.yaml'), "'a.yaml' and 'b.yaml': only one file can be planned"),
    (('-f', 'b.yaml', '--config-file', 'c.yaml'), "'b.yaml' and 'c.yaml': only one file can be planned"),
    (('a.yaml', '--config-file', 'c.yaml'), "'a.yaml' and 'c.yaml': only one file can be planned"),
    (('--modle', 'T4'), "unknown flag '--modle'; did you mean '--model'?"),
    (('--model', 'H2'), "model: 'H2' is not known, did you mean 'H200'?; --help lists all"),
    (('--model', 'H100'), "model: 'H100' is not known, did you mean 'H100-80GB'?; --help lists all"),
    (('--model', 'a100'), "model: 'a100' is not known, did you mean 'A100-40GB'?; --help lists all"),
    (('--model', 'V100'), "model: 'V100' is not known, did you mean 'V100-32GB'?; --help lists all"),
    (('--model', 'T4', '--gpus', '0'), "gpus: '0' is not a number from 1 to 64"),
    (('--model', 'T4', '--driver', '1: 2'), "driver: '1: 2' is not a version such as 580.105.08"),
    (('--gpus', '2'), '--gpus and --driver are of a simulated node: they need --model'),
    (('--model', 'T4', '--scenario', 'x'), '--model and --scenario: only one of them'),
    (('--memory', '24576', '--sms', '46', '--scenario', 'x'), '--memory, --sms and --scenario: only one of them'),
    (('--memory', '24576'), '--memory and --sms: without --model both are needed'),
    (('--sms', '46'), '--memory and --sms: without --model both are needed'),
    (('--memory', '24Gi', '--sms', '46'), "memory: '24Gi' is not a number of MiB from 1 to 16777216"),
    (('--memory', '0', '--sms', '46'), "memory: '0' is not a number of MiB from 1 to 16777216"),
    (('--memory', '24576', '--sms', '1025'), "sms: '1025' is not a number from 1 to 1024"),
    (('--replicas', 'two'), "replicas: 'two' is neither a number from 1 to 50000, nor half, nor all"),
    (('--nodes', '2'), '--nodes needs --replay'),
    (('--replay', 'x', '--nodes', '0'), "nodes: '0' is not a number from 1 to 10000"),
    (('--output', 'xml'), "output: 'xml' is not a known value, use table or json")])
def test_a_wrong_word_has_status_2_and_is_named(arguments, text):
    done = plan(*arguments)
    assert done.returncode == 2 and not done.stdout
    assert text in done.stderr


def test_a_gpu_that_has_no_name_here_is_planned_by_its_sizes(config):
    done = simulate(config(weighted(4)), '--memory', '24576', '--sms', '46', '--gpus', '2', '--replicas', '1,all')
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith('2 GPUs (simulated: GPU), driver ')
    assert '\nnvidia.com/gpu: 8\n' in done.stdout
    assert re.search(r'^  0-1 +GPU +24576 MiB +\d+ MiB +46 +4 ', done.stdout, re.M)
    unit = plan_json(config(weighted(4)), '--memory', '24576', '--sms', '46', '--replicas', '2')['resources'][0]['units'][0]
    assert (unit['memoryMiB'], unit['sms'], unit['migProfile']) == (24576, 46, None)
    assert (24576 - unit['reserveMiB']) // 2 - 1 <= unit['shares'][0]['memoryMiB'] <= (24576 - unit['reserveMiB']) // 2


def test_sizes_stand_in_the_place_of_the_models(config):
    """Of a board that has other sizes than the simulator's."""
    for arguments, sizes in (((), (24564, 128)), (('--memory', '49140'), (49140, 128)), (('--sms', '114'), (24564, 114))):
        unit = plan_json(config(weighted(4)), '--model', 'RTX-4090', *arguments)['resources'][0]['units'][0]
        assert (unit['gpu'], unit['memoryMiB'], unit['sms']) == ('NVIDIA GeForce RTX 4090', *sizes)


def test_a_gpu_with_the_machines_memory_has_no_memory_in_the_plan(config):
    """GB10: as recorded, NVML reports none. Thor is Tegra, so one device, whatever MIG devices it could have."""
    unit = plan_json(config(weighted(4)), '--model', 'gb10')['resources'][0]['units'][0]
    assert (unit['gpu'], unit['memoryMiB'], unit['sms']) == ('NVIDIA GB10', None, 48)
    resource, = plan_json(config(sharing('timeSlicing', 3)), '--model', 'Thor', '--mig-strategy', 'mixed')['resources']
    assert resource['name'] == GPU
    assert [(unit['uuid'], unit['memoryMiB'], unit['replicas']) for unit in resource['units']] == [('tegra', None, 3)]


def test_mig_devices_without_memory_of_their_own_are_named_by_the_driver(tmp_path):
    """Thor, where NVML and not Tegra's one device is wanted: memory is 0 in every profile, as recorded."""
    scenario = tmp_path / 'node.yaml'
    scenario.write_text('gpus: [{model: Thor, mig: {devices: [{profile: 2g.0gb+gfx}, {profile: 1g.0gb+me}]}}]\n')
    told = plan_json('--device-discovery-strategy', 'nvml', '--mig-strategy', 'mixed', '--scenario', str(scenario))
    assert {one['name']: [(unit['migProfile'], unit['memoryMiB'], unit['sms']) for unit in one['units']] for one in told['resources']} == {
        'nvidia.com/mig-1g.0gb.me': [('1g.0gb+me', None, 8)], 'nvidia.com/mig-2g.0gb.gfx': [('2g.0gb+gfx', None, 12)]}


def test_the_agents_switches_count_too(config):
    done = simulate('--model', 'T4', '--pass-device-specs', '--fail-on-init-error=false', '--mig-strategy', 'mixed')
    assert done.returncode == 0, done.stderr


def test_a_gpu_that_fails_is_named(node):
    node.scenario([*v100s(1), {'model': 'T4', 'errors': {'nvmlDeviceGetMemoryInfo': 'GPU_IS_LOST'}}])
    done = simulate(WARPSHARE_SIM_SCENARIO=node.scenario_path)
    assert done.returncode == 0 and '\nnvidia.com/gpu: 2\n' in done.stdout
    assert re.search(r'^warning: GPU 1 \(GPU-[^)]+\) cannot be used: .*GPU_IS_LOST', done.stdout, re.M)


# ---- what nodes have under each strategy, and what files of users make of a node ----

DISPLAY = [{'model': 'A100-80GB', 'name': 'DGX Display'}, {'model': 'A100-80GB'}]
EQUAL = [{'model': 'H100-80GB', 'count': 2, 'mig': {'devices': [{'profile': '1g.10gb', 'count': 7}]}}]
EMPTY = [{'model': 'A100-40GB', 'mig': {'enabled': True}}, {'model': 'A100-40GB'}]
DIVIDED = [{'model': 'A100-40GB'},
           {'model': 'A100-40GB', 'mig': {'devices': [{'profile': '3g.20gb'}, {'profile': '2g.10gb'}, {'profile': '1g.5gb', 'count': 2}]}}]
TWO_KINDS = [{'model': 'A30', 'mig': {'devices': [{'profile': '2g.12gb', 'count': 2}]}}, {'model': 'T4'}]
GRAPHICS = [{'model': 'RTX-PRO-6000', 'mig': {'devices': [{'profile': '1g.24gb+gfx'}, {'profile': '1g.24gb-me'}, {'profile': '2g.48gb'}]}},
            {'model': 'RTX-PRO-6000', 'mig': {'devices': [{'profile': '1g.24gb+me.all'}, {'profile': '1g.24gb-me', 'count': 2}]}},
            {'model': 'RTX-PRO-6000'}]
NO_WHOLE = 'is not in MIG mode, but there is MIG device'


def mig(*profiles):
    return {'nvidia.com/mig-' + profile: count for profile, count in profiles}


@pytest.mark.parametrize('gpus, none, single, mixed', [
    ([], {}, {}, {}),
    (DISPLAY, {GPU: 1}, {GPU: 1}, {GPU: 1}),
    (EQUAL, {GPU: 2}, {GPU: 14}, mig(('1g.10gb', 14))),
    (EMPTY, {GPU: 2}, {GPU: 1}, {GPU: 1}),
    (DIVIDED, {GPU: 2}, NO_WHOLE, {GPU: 1, **mig(('3g.20gb', 1), ('2g.10gb', 1), ('1g.5gb', 2))}),
    (TWO_KINDS, {GPU: 2}, NO_WHOLE, {GPU: 1, **mig(('2g.12gb', 2))}),
    (GRAPHICS, {GPU: 3}, 'differ in decoders (1 and 0)',
     {GPU: 1, **mig(('1g.24gb.gfx', 1), ('1g.24gb-me', 3), ('2g.48gb', 1), ('1g.24gb.me.all', 1))}),
], ids=['no GPU', 'display', 'equal', 'empty', 'divided', 'two kinds', 'graphics'])
def test_each_strategy_makes_of_a_node_what_nvidias_plugin_makes(tmp_path, gpus, none, single, mixed):
    """But for GPUs in MIG mode without MIG devices, with which NVIDIA's starts under none only."""
    scenario = tmp_path / 'node.yaml'
    scenario.write_text(yaml.safe_dump({'driverVersion': '580.95.05', 'gpus': gpus}))
    for strategy, expected in ('none', none), ('single', single), ('mixed', mixed):
        done = simulate('--scenario', str(scenario), '--mig-strategy', strategy, '--output', 'json')
        if isinstance(expected, str):
            assert done.returncode == 1 and expected in done.stderr
            continue
        told = json.loads(done.stdout)
        assert {one['name']: len(one['units']) for one in told['resources']} == expected
        assert bool(told['warnings']) == (gpus is EMPTY and strategy != 'none')


def slices(*resources, flags=None, **more):
    return {'version': 'v1', **({'flags': flags} if flags else {}), 'sharing': {'timeSlicing': {'resources': list(resources), **more}}}


MANY = {'name': GPU, 'replicas': 16384}
OTHER_NAMES = {'flags': {'migStrategy': 'mixed'}, 'resources': {kind: [{'pattern': '*', 'name': GPU}] for kind in ('gpus', 'mig')}}


@pytest.mark.parametrize('content, gpus, resources, said', [
    ({'version': 'v1'}, DISPLAY, {GPU: 1}, ''),
    (slices({'name': GPU, 'replicas': 1}), EMPTY, {GPU: 2}, ''),
    (slices(MANY, renameByDefault=True), DISPLAY, {GPU + '.shared': 16384}, ''),
    (slices(MANY, renameByDefault=True), [{'model': 'T4', 'count': 4}], None,
     "16384, which makes 65536 devices of the 4 units of 'nvidia.com/gpu.shared', at most 50000 (kubelet takes a list of at most 4 MiB): "
     'use at most 12500'),
    (slices(MANY, flags={'renameByDefault': True}), DISPLAY, {GPU: 16384}, 'flags.renameByDefault: unknown key, ignored'),
    (slices({'name': GPU + '.shared', 'replicas': 4}, {'name': 'nvidia.com/mig-1g.5gb', 'replicas': 4}, flags={'migStrategy': 'mixed'}), DIVIDED,
     {GPU: 1, 'nvidia.com/mig-3g.20gb': 1, 'nvidia.com/mig-2g.10gb': 1, 'nvidia.com/mig-1g.5gb': 8},
     "'nvidia.com/gpu.shared' is the name that renameByDefault gives to 'nvidia.com/gpu': name that one"),
    ({'version': 'v1', **OTHER_NAMES}, DIVIDED, {GPU: 5}, ''),
    ({'version': 'v1', 'sharing': {'timeSlicing': {}}}, DISPLAY, None, 'sharing.timeSlicing: resources is missing'),
], ids=['only the version', 'one replica', 'many replicas', 'too many replicas', 'a key in the wrong place', 'names of nothing',
        'one name for all', 'an empty section'])
def test_files_of_users_make_of_a_node_what_they_say(tmp_path, config, content, gpus, resources, said):
    scenario = tmp_path / 'node.yaml'
    scenario.write_text(yaml.safe_dump({'gpus': gpus}))
    done = simulate(config(content), '--scenario', str(scenario), '--output', 'json')
    if resources is None:
        assert done.returncode == 1 and said in done.stderr, done.stderr
        return
    told = json.loads(done.stdout)
    assert {one['name']: sum(unit['replicas'] for unit in one['units']) for one in told['resources']} == resources
    assert [said in warning for warning in told['warnings']] == ([True] if said else [])


# ---- DRA ----

def dra(**section):
    return {'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'}, 'dra': {'enabled': True, **section}}


def devices_of(told):
    return {device['name']: device for one in told['dra']['resourceSlices'] for device in one['spec'].get('devices', [])}


def test_with_dra_the_table_has_a_row_for_each_device(config):
    done = simulate('--model', 'A100-40GB', '--gpus', '2', config(dra(
        timeSlicing=True, slots=8, defaults={'memory': '4Gi', 'threadPercentage': 20, 'clients': 2})))
    assert done.returncode == 0 and not done.stderr
    assert '\nno resource of the device plugin: DRA has all GPUs\n' in done.stdout
    assert '\nDRA driver gpu.warpshare.dev: 6 devices\n' in done.stdout
    rows = dict(re.findall(r'^  (gpu-\S+)  +(.*)$', done.stdout, re.M))
    assert list(rows) == ['gpu-0-shared', 'gpu-1-shared', 'gpu-0-timeslice', 'gpu-1-timeslice', 'gpu-1', 'gpu-0']
    assert re.fullmatch(r'shared +40320 MiB \(4096\) +100 % \(20\) +48 \(2\) +- +gpu-0-timeslice, gpu-0', rows['gpu-0-shared'])
    assert re.fullmatch(r'timeslice +- +- +- +8 \(1\) +gpu-1-shared, gpu-1', rows['gpu-1-timeslice'])
    assert re.fullmatch(r'whole +40960 MiB +- +- +- +gpu-1-shared, gpu-1-timeslice', rows['gpu-1'])


def test_with_dra_the_json_has_the_slices_as_the_api_server_gets_them(config):
    told = plan_json('--model', 'A100-40GB', '--gpus', '2', '--node-name', 'worker-1', config(dra(driverName='gpu.example.com')))
    slices = told['dra']['resourceSlices']
    for one in slices:
        assert (one['apiVersion'], one['kind']) == ('resource.k8s.io/v1', 'ResourceSlice')
        assert '-gpu.example.com-worker-1-' in one['metadata']['name']
        assert (one['spec']['driver'], one['spec']['nodeName']) == ('gpu.example.com', 'worker-1')
        assert one['spec']['pool'] == {'name': 'worker-1/gpu.example.com', 'generation': 0, 'resourceSliceCount': len(slices)}
    devices = devices_of(told)
    assert list(devices) == ['gpu-0-shared', 'gpu-1-shared', 'gpu-1', 'gpu-0']
    assert devices['gpu-0-shared']['allowMultipleAllocations'] is True
    assert devices['gpu-0-shared']['capacity']['threadPercentage']['requestPolicy']['default'] == '10'
    sets = [counters['name'] for one in slices for counters in one['spec'].get('sharedCounters', [])]
    assert sets == ['gpu-0-counters', 'gpu-1-counters']
    assert told['resources'] == [] and told['dra']['driver'] == 'gpu.example.com'


@pytest.mark.parametrize('release, section, names', [
    ('v1.36.1', {}, ['gpu-0-shared', 'gpu-1-shared']), ('v1.36.1', {'oneForm': 'whole'}, ['gpu-1', 'gpu-0']),
    ('1.36.2', {}, ['gpu-0-shared', 'gpu-1-shared', 'gpu-1', 'gpu-0']), ('v1.35.6+k3s1', {'whole': False}, ['gpu-0-shared', 'gpu-1-shared'])])
def test_the_plan_for_a_release_says_which_forms_its_scheduler_cannot_keep_apart(config, release, section, names):
    arguments = ('--model', 'A100-40GB', '--gpus', '2', '--kubernetes', release, config(dra(**section)))
    told = plan_json(*arguments)
    assert list(devices_of(told)) == names
    is_reduced = len(names) == 2 and 'whole' not in section
    assert any(f'the scheduler of Kubernetes {release} forgets shares' in note for note in told['dra']['notes']) == is_reduced
    assert ('so each GPU and MIG device is offered in one form only' in simulate(*arguments).stdout) == is_reduced


def test_gpus_that_dra_does_not_have_stay_with_the_device_plugin(config):
    section = {**dra(devices=[1], mps=False), **sharing('timeSlicing', 4)}
    told = plan_json('--model', 'T4', '--gpus', '3', config(section))
    assert [unit['index'] for unit in told['resources'][0]['units']] == ['0', '2']
    assert list(devices_of(told)) == ['gpu-1']


def test_mig_devices_of_a_gpu_for_dra_are_devices_of_dra(config):
    told = plan_json('--scenario', f'{SOURCE}/sim/scenarios/a100-mig.yaml', '--mig-strategy', 'mixed', config(dra(devices=[1])))
    names = list(devices_of(told))
    assert all(name.startswith('gpu-1-mig-') for name in names) and {'gpu-1-mig-2g-10gb-gi3-ci0', 'gpu-1-mig-2g-10gb-gi3-ci0-shared'} <= set(names)
    assert [resource['name'] for resource in told['resources']] == [GPU]


def test_without_dra_the_plan_has_none_of_it():
    assert plan_json('--model', 'T4')['dra'] is None
    assert 'DRA' not in simulate('--model', 'T4').stdout


def test_the_plan_shows_what_dra_cannot_offer_with_the_reason(config):
    told = plan_json('--scenario', f'{SOURCE}/sim/scenarios/broken.yaml', config(dra(devices=[0, 1])))
    assert [note.partition(': ')[2] for note in told['dra']['notes']] == ['not offered: nothing is known of it']
    assert 'not offered: nothing is known of it\n' in simulate(
        '--scenario', f'{SOURCE}/sim/scenarios/broken.yaml', config(dra(devices=[0, 1]))).stdout


def test_a_gpu_whose_memory_nvml_does_not_report_has_no_memory_limit_and_a_warning_says_so(node):
    node.scenario([{'model': 'GB10'}])
    node.config(weighted(4))
    done = simulate(WARPSHARE_SIM_SCENARIO=node.scenario_path, CONFIG_FILE=node.config_path)
    assert done.returncode == 0 and '\nnvidia.com/gpu: 4\n' in done.stdout
    assert re.search(r'NVIDIA GB10 +unknown .* verified-no-memory-limit$', done.stdout, re.M)
    assert re.search(r"^warning: .*sharing.mps.resources\[0\]: 'nvidia.com/gpu' has no memory limits on GPU 0 .*memory: 64Gi$", done.stdout,
                     re.M)
    done = simulate('--output', 'json', WARPSHARE_SIM_SCENARIO=node.scenario_path, CONFIG_FILE=node.config_path)
    assert json.loads(done.stdout)['resources'][0]['units'][0]['tier'] == 'verified-no-memory-limit'


def test_a_gpu_whose_memory_the_configuration_says_has_limits_and_no_warning(node):
    content = weighted(4)
    content['sharing']['mps']['resources'][0]['memory'] = '64Gi'
    node.scenario([{'model': 'GB10'}])
    node.config(content)
    done = simulate(WARPSHARE_SIM_SCENARIO=node.scenario_path, CONFIG_FILE=node.config_path)
    assert done.returncode == 0 and 'warning' not in done.stdout and 'no-memory-limit' not in done.stdout
    assert re.search(r'NVIDIA GB10 +65536 MiB ', done.stdout, re.M)
    assert 15000 < int(re.search(r'^ +0 +1 of 4 +(\d+) MiB', done.stdout, re.M).group(1)) < 16384
    # What NVML reports counts.
    node.scenario(v100s(1))
    done = simulate(WARPSHARE_SIM_SCENARIO=node.scenario_path, CONFIG_FILE=node.config_path)
    assert done.returncode == 0 and '65536' not in done.stdout


def test_time_slicing_has_no_use_for_the_memory_of_a_gpu(config):
    content = sharing('timeSlicing', 3)
    content['sharing']['timeSlicing']['resources'][0]['memory'] = '64Gi'
    done = simulate(config(content), '--model', 'T4')
    assert done.returncode != 0 and 'only in sharing.mps: time-slicing limits no memory' in done.stderr


def test_mig_devices_are_advertised_where_the_memory_of_their_gpu_may_not_be_read(tmp_path):
    """A container that is not privileged, with CDI: NVML refuses the memory of a GPU in MIG mode."""
    scenario = tmp_path / 'node.yaml'
    scenario.write_text('driverVersion: "580.126.20"\n'
                        'gpus:\n'
                        '- model: A100-40GB\n'
                        '  mig: {devices: [{profile: 3g.20gb}, {profile: 1g.5gb, count: 4}]}\n'
                        '  errors: {nvmlDeviceGetMemoryInfo: NO_PERMISSION}\n')
    done = simulate('--mig-strategy', 'mixed', '--scenario', str(scenario))
    assert done.returncode == 0 and not done.stderr
    assert '\nnvidia.com/mig-1g.5gb: 4\n' in done.stdout and '\nnvidia.com/mig-3g.20gb: 1\n' in done.stdout
