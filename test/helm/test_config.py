# SPDX-License-Identifier: Apache-2.0
"""config.map of the chart: compared with the schema that the program prints, before anything is installed."""
import json
import os
import subprocess

import chart
import jsonschema
import pytest
import yaml

MPS = 'sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]'
RANGE = 'must be a whole number from'
with open(f'{chart.CHART}/files/config.schema.json', encoding='utf-8') as committed:
    SCHEMA = committed.read()
JUDGE = jsonschema.Draft7Validator(json.loads(SCHEMA))


def table(text):
    return json.loads(json.dumps(yaml.safe_load(text) or {}))


def told(program, values):
    """The lines of the refusal."""
    with pytest.raises(chart.Refused) as refused:
        chart.render(program, values)
    text = str(refused.value)
    return text[text.index('config.map.'):].strip().split('\n')


def planned(text):
    """How many replicas the plan of a file has for eight GPUs, by resource."""
    done = subprocess.run([os.environ['WARPSHARE'], 'plan', '-', '--model', 'H100-80GB', '--gpus', '8', '--output', 'json'],
                          input=text, capture_output=True, text=True, check=True)
    return {one['name']: one['advertised'] for one in json.loads(done.stdout)['resources']}


@pytest.mark.parametrize('words, keys, advertised', [
    (['10'], {'reserve': 'none'}, 80),
    (['--max-per-request', '3', '10'], {'reserve': 'none', 'maxPerRequest': 3}, 80),
    (['--strict', '10'], {}, 52),
    (['--strict', '10'], {'reserve': 'strict'}, 52),
    (['--strict', '--max-per-request', '3', '10'], {'maxPerRequest': 3}, 66),
    (['10', 'individual'], {'scope': 'individual'}, 10),
])
def test_setup_chart_and_plan_have_one_number_for_one_wish(program, words, keys, advertised):
    """docs/choosing.md has these: the words for scripts/setup.sh, the keys for config.map, and the number for eight GPUs."""
    configuration = {'version': 'v1', 'sharing': {'mps': {'provisioning': 'weighted', **keys, 'resources': [{'name': 'nvidia.com/gpu', 'replicas': 10}]}}}
    values = {'config': {'map': {'default': configuration}}}
    setup = subprocess.run([os.path.join(os.environ['WARPSHARE_SOURCE'], 'scripts/setup.sh'), '--print', *words],
                           capture_output=True, text=True, check=True).stdout
    rendered = chart.render(program, values).one('ConfigMap', 'warpshare-configs')
    found = [planned(text) for text in (setup, yaml.safe_dump(values), yaml.safe_dump(rendered), yaml.safe_dump(configuration))]
    assert all(one == found[0] for one in found) and set(found[0].values()) == {advertised}, found


def test_the_schema_is_the_programs():
    printed = subprocess.run([os.environ['WARPSHARE'], 'agent', '--print-schema'], capture_output=True, text=True, check=True).stdout
    assert SCHEMA == printed, 'run: make manifests'


@pytest.mark.parametrize('form', [str, table])
def test_what_the_schema_takes_is_taken(program, form):
    configs = {f'c{i}': form(text) for i, text in enumerate([
        MPS + '}}',
        '',
        '{"version": "v1", "flags": {"migStrategy": null}}',
        MPS + ', guard: off, memoryReserve: 512Mi}}',
        MPS + ', memoryReserve: 0, daemonScope: node}}',
        'flags: {gfd: {sleepInterval: 60s}, plugin: {deviceListStrategy: [envvar, cdi-cri]}}',
        'flags: {plugin: {deviceListStrategy: envvar}}\nhealth: {xids: {79: ignore}}',
        'imex: {channelIDs: [0], required: true}\nresources: {gpus: [{pattern: "*", name: a.b}]}',
        'sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: [0, "0:1"]}, {name: gpu, replicas: 1, devices: 3}]}}',
    ])}
    assert all(JUDGE.is_valid(table(text) if form is str else text) for text in configs.values())
    found = chart.render(program, {'config': {'map': configs, 'default': 'c0'}}).one('ConfigMap', 'warpshare-configs')['data']
    assert {name: yaml.safe_load(text) for name, text in found.items()} == {
        name: yaml.safe_load(text) if form is str else text for name, text in configs.items()}


@pytest.mark.parametrize('text, lines', [  # what follows config.map.a
    ('version: v2', ['.version: "v2", must be one of v1, ""']),
    ('flags: {migStrateg: none}', ['.flags: there is no key migStrateg here, only ']),
    ('sharing: {mps: {resources: [{name: gpu, replicas: 0}, {replicas: 50001}]}}', [
        f'.sharing.mps.resources[0].replicas: 0, {RANGE} 1 to 50000', '.sharing.mps.resources[1]: name is missing',
        f'.sharing.mps.resources[1].replicas: 50001, {RANGE} 1 to 50000']),
    ('sharing: {mps: {resources: [{name: gpu, replicas: 1.5}]}}', [f'.sharing.mps.resources[0].replicas: 1.5, {RANGE}']),
    ('sharing: {mps: {resources: []}}', ['.sharing.mps.resources: [], must be a list']),
    ('sharing: {mps: {resources: [gpu]}}', ['.sharing.mps.resources[0]: "gpu", must be a table']),
    ('sharing: {mps: 4}', ['.sharing.mps: 4, must be a table']),
    (MPS + ', memoryReserve: -1}}', [f'.sharing.mps.memoryReserve: -1, must be auto, or a whole number from 0 to 1048576, or a text that matches']),
    (MPS + ', scope: both, renameByDefault: "yes"}}', [
        '.sharing.mps.renameByDefault: "yes", must be true or false', '.sharing.mps.scope: "both", must be one of aggregate, individual']),
    ('sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: [0, x]}]}}', ['.sharing.mps.resources[0].devices[1]: "x", must be a whole number']),
    ('sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: none}]}}', [
        '.sharing.mps.resources[0].devices: "none", must be all, or a whole number from 1 to 512, or a list of at most 512']),
    ('flags: {plugin: {deviceListStrategy: [cdi]}}', ['.flags.plugin.deviceListStrategy[0]: "cdi", must be one of envvar, ']),
    (f'sharing: {{mps: {{resources: [{{name: {"x" * 64}, replicas: 2}}]}}}}', ['.sharing.mps.resources[0].name: "xxx']),
    ('health: {xids: {79: restart, x: ignore}}', ['.health.xids.79: "restart", must be one of ', '.health.xids: there is no key x here']),
])
def test_what_the_schema_refuses_is_refused_by_the_key(program, text, lines):
    assert not JUDGE.is_valid(table(text))
    found = told(program, {'config': {'map': {'a': text}}})
    assert found.pop() == '(docs/configuration.md; config.check: false leaves the judgement to the agents)'
    assert len(found) == len(lines), found
    for line in lines:
        assert any(one.startswith(f'config.map.a{line}') for one in found), found


@pytest.mark.parametrize('form', [str, table])
@pytest.mark.parametrize('text, refused', [
    (MPS.replace('nvidia.com/gpu', 'nvidia.com/gqu') + '}}', ['sharing.mps.resources[0].name: no GPU and no MIG device has the name nvidia.com/gqu: GPUs are ']),
    ('sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}, {name: mig-1g.5g, replicas: 2}]}}', [
        'sharing.timeSlicing.resources[1].name: no GPU and no MIG device has the name nvidia.com/mig-1g.5g:']),
    ('sharing: {mps: {resources: [{name: a, replicas: 2}]}, timeSlicing: {resources: [{name: b, replicas: 2}]}}', [
        'sharing.mps.resources[0].name: no GPU', 'sharing.timeSlicing.resources[0].name: no GPU']),
    ('sharing: {mps: {resources: [{name: mig-2g.10gb, replicas: 2}, {name: nvidia.com/mig-1g.10gb.me, replicas: 2}]}}', []),
    ('{sharing: {mps: {resources: [{name: nvidia.com/big, replicas: 2}]}}, resources: {gpus: [{pattern: "*", name: big}]}}', []),
    ('{sharing: {mps: {resources: [{name: small, replicas: 2}]}}, resources: {mig: [{pattern: "*", name: nvidia.com/small}]}}', []),
    ('sharing:', []),
])
def test_a_name_that_no_node_can_have_is_refused(program, form, text, refused):
    values = {'config': {'map': {'a': form(text)}}}
    if refused:
        found = told(program, values)
        assert len(found) == len(refused) + 1, found
        for line, expected in zip(found, refused):
            assert line.startswith(f'config.map.a.{expected}'), line
        values['config']['check'] = False
    assert chart.render(program, values).objects


def test_a_table_is_judged_like_a_text_and_nothing_is_when_that_is_said(program):
    values = {'config': {'map': {'good': 'version: v1', 'wrong': table(MPS + ', scope: both}}')}, 'default': 'good'}}
    assert told(program, values)[0] == 'config.map.wrong.sharing.mps.scope: "both", must be one of aggregate, individual'
    values['config']['check'] = False
    assert chart.render(program, values).objects
