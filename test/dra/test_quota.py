# SPDX-License-Identifier: Apache-2.0
"""docs/kueue.md: its configuration of Kueue and its queues, against a model of how Kueue counts (test/e2e/kueue.py) and our ResourceSlices."""
import os
import random
import re

import pytest
import yaml

import kueue
from resourceslices import basic, quantity
from scheduler import Request, Scheduler

DRIVER = 'gpu.warpshare.dev'
MIB = 1 << 20
TYPES = {'gpu.warpshare.dev': 'gpu', 'mig.gpu.warpshare.dev': 'mig', 'shared.gpu.warpshare.dev': 'shared-gpu',
         'shared-mig.gpu.warpshare.dev': 'shared-mig'}  # of the chart's classes


def page():
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'docs/kueue.md'), encoding='utf-8') as file:
        blocks = re.findall(r'^```yaml\n(.*?)^```', file.read(), re.MULTILINE | re.DOTALL)
    return [one for block in blocks for one in yaml.safe_load_all(block)]


def sources(kind):
    """By class: the source of that kind in the page's configuration."""
    mappings = [mapping for one in page() if one['kind'] == 'Configuration' for mapping in one['resources']['deviceClassMappings']]
    return {name: source for mapping in mappings for source in mapping['sources'] if kind in source for name in mapping['deviceClassNames']}


def charge(slices, kind, class_, selectors=(), **asked):
    terms = [f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{TYPES[class_]}"', *selectors]
    return kueue.charge([{'spec': {**one['spec'], 'pool': {**one['spec']['pool'], 'generation': 1}}} for one in slices],
                        sources(kind)[class_], terms, **asked)


def devices_of(slices):
    return {device['name']: basic(device) for one in slices for device in one['spec'].get('devices', [])}


def test_the_configuration_keeps_kueues_rules():
    """pkg/config/validation.go: of one mapping all sources are of one kind, each class is mapped once, names are short."""
    for one in page():
        if one['kind'] != 'Configuration':
            continue
        assert one['apiVersion'] == 'config.kueue.x-k8s.io/v1beta2'
        mappings = one['resources']['deviceClassMappings']
        classes = [name for mapping in mappings for name in mapping['deviceClassNames']]
        assert len(classes) == len(set(classes)) and set(classes) <= set(TYPES)
        assert len({mapping['name'] for mapping in mappings}) == len(mappings) <= 16
        for mapping in mappings:
            assert re.fullmatch(r'[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?', mapping['name'])
            assert len(mapping['deviceClassNames']) <= 8 and len({next(iter(source)) for source in mapping['sources']}) == 1
            for source in mapping['sources']:
                (kind, of), = source.items()
                assert set(of) == {'name', 'driver', 'deviceSelector'} and of['driver'] == DRIVER
                assert kind != 'capacity' or one['featureGates'] == {'KueueDRAIntegrationConsumableCapacity': True}


def test_the_queues_cover_what_the_configurations_name():
    queue = next(one for one in page() if one['kind'] == 'ClusterQueue')
    flavors = {one['metadata']['name'] for one in page() if one['kind'] == 'ResourceFlavor'}
    covered = set()
    for group in queue['spec']['resourceGroups']:
        assert {flavor['name'] for flavor in group['flavors']} <= flavors
        for flavor in group['flavors']:
            assert [one['name'] for one in flavor['resources']] == group['coveredResources']
            covered |= {one['name'] for one in flavor['resources'] if quantity(str(one['nominalQuota']))}
    assert covered >= {mapping['name'] for one in page() if one['kind'] == 'Configuration'
                       for mapping in one['resources']['deviceClassMappings']}


def test_a_share_costs_what_it_asks_for_and_else_its_default(print_slices):
    slices = print_slices('h100x8-nvswitch')
    assert charge(slices, 'capacity', 'shared.gpu.warpshare.dev', asked=10 << 30) == 10 << 30
    assert charge(slices, 'capacity', 'shared.gpu.warpshare.dev', asked=(10 << 30) + 1) == (10 << 30) + MIB
    policy = devices_of(slices)['gpu-0-shared']['capacity']['memory']['requestPolicy']
    assert charge(slices, 'capacity', 'shared.gpu.warpshare.dev', count=2) == 2 * quantity(policy['default'])
    with pytest.raises(kueue.Inadmissible, match='no policy allows'):
        charge(slices, 'capacity', 'shared.gpu.warpshare.dev', asked=90 << 30)


@pytest.mark.parametrize('scenario, words, class_', [
    ('h100x8-nvswitch', (), 'gpu.warpshare.dev'), ('a100-mixed', (), 'mig.gpu.warpshare.dev'), ('mixed', (), 'mig.gpu.warpshare.dev'),
    ('many', ('dynamic-mig',), 'mig.gpu.warpshare.dev'), ('many', ('dynamic-mig',), 'gpu.warpshare.dev')], ids=str)
def test_a_whole_device_costs_its_memory_by_counter_and_by_capacity(print_slices, scenario, words, class_):
    slices = print_slices(scenario, *words)
    largest = max(quantity(device['capacity']['memory']['value']) for device in devices_of(slices).values()
                  if device['attributes']['type']['string'] == TYPES[class_])
    assert charge(slices, 'counter', class_) == charge(slices, 'capacity', class_) == largest
    assert charge(slices, 'counter', class_, count=2) == 2 * largest


def test_a_profile_costs_its_own_memory(print_slices):
    slices = print_slices('mixed')
    profile = f'device.attributes["{DRIVER}"].profile == "1g.6gb"'
    small = quantity(devices_of(slices)['gpu-2-mig-1g-6gb-gi5-ci0']['capacity']['memory']['value'])
    assert charge(slices, 'counter', 'mig.gpu.warpshare.dev', [profile]) == small < charge(slices, 'counter', 'mig.gpu.warpshare.dev')


def test_where_nothing_excludes_there_are_no_counters_and_capacity_counts(print_slices):
    slices = print_slices('a100-mixed', 'no-mps')
    with pytest.raises(kueue.Inadmissible, match='no consumesCounters'):
        charge(slices, 'counter', 'mig.gpu.warpshare.dev')
    assert charge(slices, 'capacity', 'mig.gpu.warpshare.dev') > 0


def without_memory(slices):
    for one in slices:
        for holder in (*one['spec'].get('sharedCounters', []),
                       *(c for d in one['spec'].get('devices', []) for c in basic(d).get('consumesCounters', []))):
            holder['counters'].pop('memory')
    return slices


@pytest.mark.parametrize('scenario, words', [
    ('many', ('dynamic-mig', 'time-slicing')), ('mixed', ('time-slicing',)), ('a100-mig', ()), ('a100-mixed', ()), ('gb200x4', ('dynamic-mig',)),
    ('rtx-pro-mig', ('dynamic-mig',)), ('h100x8-nvswitch', ('together', 'time-slicing'))], ids=str)
def test_the_counter_of_memory_takes_nothing_from_anybody(print_slices, scenario, words):
    """Claims get the same devices with it and without it."""
    with_it, without = Scheduler(print_slices(scenario, *words)), Scheduler(without_memory(print_slices(scenario, *words)))
    types = sorted({with_it.type_of(name) for name in with_it.devices})
    chance, claims = random.Random(5), []
    for _ in range(150):
        if claims and chance.random() < 0.3:
            for scheduler, claim in zip((with_it, without), claims.pop(chance.randrange(len(claims)))):
                scheduler.release(claim)
        request = Request(chance.choice(types), chance.choice((1, 1, 2)))
        pair = with_it.allocate(request), without.allocate(request)
        assert [[share.device for share, _ in claim or ()] for claim in pair] == [[share.device for share, _ in pair[0] or ()]] * 2
        if pair[0]:
            claims.append(pair)
