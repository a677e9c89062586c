# SPDX-License-Identifier: Apache-2.0
"""ResourceSlices of simulated nodes against the rules of the API server, and claims against a model of the scheduler."""
import random

import pytest

from resourceslices import basic, canonical, check, check_pool, quantity
from scheduler import TOLERATES, Constraint, Panic, Request, Scheduler, place

SCENARIOS = ('a100-mig', 'a100-mixed', 'broken', 'gb200x4', 'h100x8-nvswitch', 'h200', 'mixed', 'rtx-pro-mig', 'v100x4', 'many')
WORDS = ((), ('time-slicing',), ('no-whole',), ('no-mps',), ('no-whole', 'no-mps', 'time-slicing'), ('safe',), ('shares',),
         ('dynamic-mig',), ('dynamic-mig', 'time-slicing'), ('dynamic-mig', 'tainted'), ('tainted', 'time-slicing'),
         ('one-form', 'time-slicing'), ('one-form-whole',), ('one-form', 'dynamic-mig'))
MIB = 1 << 20


@pytest.mark.parametrize('words', WORDS, ids=' '.join)
@pytest.mark.parametrize('scenario', SCENARIOS)
def test_the_api_server_takes_every_layout(print_slices, scenario, words):
    for version, minor in ((), 36), (('v1beta2', 'together'), 33), (('v1beta1', 'together'), 34), (('v1beta1',), 35):
        slices = print_slices(scenario, *words, *version)
        assert slices and check_pool([s['spec'] for s in slices], minor) == []
        assert [s['name'] for s in slices] == sorted(s['name'] for s in slices)
        assert all(len(s['name']) <= 253 for s in slices)


def test_versions_differ_in_where_the_fields_of_a_device_stand(print_slices):
    flat, nested = print_slices('mixed', 'v1beta2'), print_slices('mixed', 'v1beta1')
    assert flat == print_slices('mixed')
    for a, b in zip(flat, nested):
        assert [d['name'] for d in a['spec'].get('devices', [])] == [d['name'] for d in b['spec'].get('devices', [])]
        assert [{k: v for k, v in d.items() if k != 'name'} for d in a['spec'].get('devices', [])] == [
            d['basic'] for d in b['spec'].get('devices', [])]


def texts(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ('value', 'default', 'min', 'max', 'step') and isinstance(inner, str):
                yield inner
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def test_quantities_are_as_the_server_writes_them(print_slices):
    for scenario in SCENARIOS:
        for text in texts([{k: v for k, v in basic(d).items() if k != 'taints'} for s in print_slices(scenario, 'dynamic-mig')
                           for d in s['spec'].get('devices', [])]):
            assert text == canonical(text)


def test_sixteen_gpus_with_all_places_of_mig_fit_in_slices(print_slices):
    slices = [s['spec'] for s in print_slices('many', 'dynamic-mig', 'time-slicing')]
    assert [len(s.get('sharedCounters', [])) for s in slices[:2]] == [8, 8]
    assert [len(s.get('devices', [])) for s in slices] == [0, 0] + [64] * 7
    together = [s['spec'] for s in print_slices('many', 'dynamic-mig', 'time-slicing', 'together')]
    assert [len(s['sharedCounters']) for s in together] == [2] * 8
    assert sum(len(s['devices']) for s in together) == 16 * 28


def test_attributes_have_nvidias_names(print_slices):
    devices = {d['name']: d for s in print_slices('h100x8-nvswitch') for d in s['spec'].get('devices', [])}
    attributes = devices['gpu-5']['attributes']
    assert attributes['type'] == {'string': 'gpu'}
    assert attributes['productName'] == {'string': 'NVIDIA H100 80GB HBM3'}
    assert attributes['architecture'] == {'string': 'Hopper'}
    assert attributes['cudaComputeCapability'] == {'version': '9.0.0'}
    assert attributes['driverVersion'] == {'version': '570.133.20'}
    assert attributes['cudaDriverVersion'] == {'version': '12.8.0'}
    assert attributes['resource.kubernetes.io/numaNode'] == {'int': 1}
    assert attributes['uuid']['string'].startswith('GPU-')
    assert set(attributes) >= {'brand', 'resource.kubernetes.io/pciBusID'}
    assert devices['gpu-5-shared']['attributes'] == {**attributes, 'type': {'string': 'shared-gpu'}}
    mig = next(d for s in print_slices('mixed') for d in s['spec'].get('devices', []) if d['name'] == 'gpu-2-mig-2g-12gb-gi1-ci0')
    assert mig['attributes']['profile'] == {'string': '2g.12gb'}
    assert mig['attributes']['parentUUID']['string'].startswith('GPU-')
    assert mig['attributes']['uuid']['string'].startswith('MIG-')


def test_a_version_has_no_leading_zero(print_slices):
    device = print_slices('many', 'no-mps')[0]['spec']['devices'][0]
    assert device['attributes']['driverVersion'] == {'version': '580.105.8'}


def test_the_rules_find_what_a_real_server_refused(print_slices):
    spec = print_slices('h100x8-nvswitch')[-1]['spec']
    device = next(d for d in spec['devices'] if d['name'] == 'gpu-0-shared')
    device['capacity'] = {'memory': {'value': '1', 'requestPolicy': {'default': '1', 'validRange': {
        'min': '1', 'max': '1', 'step': '1'}}}}
    assert check(spec) == [('spec.devices[0].capacity[memory].requestPolicy.validRange.step', 'FieldValueInvalid',
                            'Invalid value: "1": one step 2 is larger than capacity value: 1')]


# ---- claims ----

def memory(device):
    return quantity(device['capacity']['memory']['value'])


def gpu_of(name):
    return name.split('-')[1]


def unit_of(name):
    return name.removesuffix('-shared').removesuffix('-timeslice')


def check_nothing_is_promised_twice(scheduler):
    kinds = {}
    for name, shares in scheduler.shares.items():
        device = scheduler.devices[name]
        assert len(shares) <= 1 or device.get('allowMultipleAllocations')
        for key, capacity in device.get('capacity', {}).items():
            if device.get('allowMultipleAllocations'):
                assert sum(share.consumed[key] for share in shares) <= quantity(capacity['value'])
        if shares:
            kinds.setdefault(gpu_of(name), set()).add(name)
    for gpu, names in kinds.items():
        whole_gpu = {name for name in names if 'mig' not in name}
        assert not whole_gpu or names == whole_gpu and len(names) == 1, f'GPU {gpu} has {names} at once'
        units = [unit_of(name) for name in names]
        assert len(units) == len(set(units)), f'GPU {gpu} has a unit in two forms: {names}'
        mig = [name for name in names if '-at-' in name]
        slices = [key for name in mig for key in scheduler.devices[name]['consumesCounters'][0]['counters']
                  if key.startswith('memory-slice-')]
        assert len(slices) == len(set(slices)), f'MIG places of GPU {gpu} overlap: {mig}'
        whole = scheduler.devices.get(f'gpu-{gpu}')
        assert not whole or sum(memory(scheduler.devices[name]) for name in mig) <= memory(whole)


def random_request(chance, types):
    kind = chance.choice(types)
    if not kind.startswith('shared'):
        return Request(kind, chance.choice((1, 1, 1, 2)))
    capacity = {}
    if chance.random() < 0.8:
        capacity['memory'] = chance.randrange(1, 90 << 30)
    if chance.random() < 0.8:
        capacity['threadPercentage'] = chance.randrange(1, 101)
    return Request(kind, capacity=capacity)


def fits_by_sum(scheduler, request):
    """Some shared device that nobody has in another form has enough left of everything."""
    for name, device in scheduler.devices.items():
        if scheduler.type_of(name) != request.type:
            continue
        others = [n for n, shares in scheduler.shares.items() if shares and n != name and gpu_of(n) == gpu_of(name)]
        if any('mig' not in n for n in others) or ('mig' not in name and others):
            continue
        if any(unit_of(n) == unit_of(name) for n in others):
            continue
        left = {key: quantity(c['value']) - sum(s.consumed[key] for s in scheduler.shares[name])
                for key, c in device['capacity'].items()}
        wanted = {key: request.capacity.get(key, quantity(c['requestPolicy']['default'])) for key, c in device['capacity'].items()}
        wanted['memory'] = max(256 * MIB, -(-wanted['memory'] // MIB) * MIB)
        if all(wanted[key] <= left[key] for key in left):
            return True
    return False


@pytest.mark.parametrize('scenario, words', [
    ('h100x8-nvswitch', ('time-slicing',)), ('many', ('dynamic-mig', 'time-slicing')), ('mixed', ('time-slicing',)),
    ('a100-mixed', ()), ('gb200x4', ('dynamic-mig',)), ('rtx-pro-mig', ()), ('h100x8-nvswitch', ('together', 'time-slicing')),
    ('many', ('together', 'dynamic-mig'))], ids=str)
def test_random_claims_get_what_fits_and_no_more(print_slices, scenario, words):
    slices = print_slices(scenario, *words)
    for seed in range(3):
        chance, scheduler, claims = random.Random(seed), Scheduler(slices), []
        types = sorted({scheduler.type_of(name) for name in scheduler.devices})
        for _ in range(200):
            if claims and chance.random() < 0.35:
                scheduler.release(claims.pop(chance.randrange(len(claims))))
            request = random_request(chance, types)
            must = request.type.startswith('shared') and fits_by_sum(scheduler, request)
            claim = scheduler.allocate(request)
            assert claim is not None or not must, f'{request} fits and is not found'
            if claim is not None:
                claims.append(claim)
            check_nothing_is_promised_twice(scheduler)


def test_small_shares_fill_one_gpu_before_the_next(print_slices):
    scheduler = Scheduler(print_slices('h100x8-nvswitch'))
    share = Request('shared-gpu', capacity={'memory': 10 << 30, 'threadPercentage': 30})
    devices = [scheduler.allocate(share)[0][0].device for _ in range(4)]
    assert devices == ['gpu-0-shared'] * 3 + ['gpu-1-shared']
    assert scheduler.allocate(Request('gpu'))[0][0].device == 'gpu-7'
    assert [scheduler.allocate(Request('gpu'))[0][0].device for _ in range(5)] == ['gpu-6', 'gpu-5', 'gpu-4', 'gpu-3', 'gpu-2']
    assert scheduler.allocate(Request('gpu')) is None


def test_one_request_for_two_shares_gets_two_gpus(print_slices):
    scheduler = Scheduler(print_slices('v100x4'))
    assert [share.device for share, _ in scheduler.allocate(Request('shared-gpu', 2))] == ['gpu-0-shared', 'gpu-1-shared']


def test_seven_small_mig_devices_fit_on_one_gpu_and_one_whole_gpu_none(print_slices):
    scheduler = Scheduler(print_slices('many', 'dynamic-mig'))
    one = Request('mig', capacity={'memory': 9 << 30})
    assert {gpu_of(scheduler.allocate(one)[0][0].device) for _ in range(7)} == {'0'}
    assert gpu_of(scheduler.allocate(one)[0][0].device) == '1'
    assert gpu_of(scheduler.allocate(Request('gpu', 14))[-1][0].device) == '2'
    assert scheduler.allocate(Request('gpu')) is None


def test_a_constraint_keeps_the_devices_of_a_claim_together(print_slices):
    node = Constraint('resource.kubernetes.io/numaNode')
    scheduler = Scheduler(print_slices('gb200x4'))
    assert [share.device for share, _ in scheduler.allocate(Request('gpu', 2), constraints=[node])] == ['gpu-3', 'gpu-2']
    assert [share.device for share, _ in scheduler.allocate(Request('gpu', name='a'))] == ['gpu-1']
    assert scheduler.allocate(Request('gpu', name='a'), Request('shared-gpu', name='b'), constraints=[node]) is None
    scheduler = Scheduler(print_slices('gb200x4'))
    apart = Constraint('resource.kubernetes.io/numaNode', is_distinct=True)
    assert [share.device for share, _ in scheduler.allocate(Request('gpu', 2), constraints=[apart])] == ['gpu-3', 'gpu-1']
    assert scheduler.allocate(Request('gpu', 1), constraints=[Constraint('gpu.example.com/color')]) is None


def test_two_mig_devices_that_are_to_be_made_can_be_had_of_one_gpu(print_slices):
    scheduler = Scheduler(print_slices('many', 'dynamic-mig'))
    for _ in range(7):
        scheduler.allocate(Request(lambda device: device['attributes'].get('profile') == {'string': '1g.10gb'}))
    large = [Request(lambda device: device['attributes'].get('profile') == {'string': '3g.40gb'}, name=name) for name in 'ab']
    found = scheduler.allocate(*large, constraints=[Constraint('parentUUID')])
    assert [gpu_of(share.device) for share, _ in found] == ['1', '1']
    assert [gpu_of(share.device) for share, _ in scheduler.allocate(*large, constraints=[Constraint('parentUUID', is_distinct=True)])] == ['2', '3']


def test_of_alternatives_it_is_the_first_with_which_the_whole_claim_fits(print_slices):
    scheduler = Scheduler(print_slices('v100x4'))
    gpus = [Request('gpu', 3, name='gpus/many'), Request('shared-gpu', 2, name='gpus/few')]
    assert [request.name for _, request in scheduler.allocate(gpus)] == ['gpus/many'] * 3
    assert scheduler.allocate(gpus) is None
    scheduler = Scheduler(print_slices('v100x4'))
    found = scheduler.allocate(gpus, Request('gpu', 2, name='more'))
    assert [(share.device, request.name) for share, request in found] == [
        ('gpu-0-shared', 'gpus/few'), ('gpu-1-shared', 'gpus/few'), ('gpu-3', 'more'), ('gpu-2', 'more')]
    beside = Constraint('uuid', ('gpus', 'more'), is_distinct=True)
    assert scheduler.allocate([Request('shared-gpu', name='gpus/few')], Request('shared-gpu', name='more'), constraints=[beside])[1][0].device == 'gpu-1-shared'


def test_a_tainted_device_is_for_those_who_tolerate_it(print_slices):
    scheduler = Scheduler(print_slices('v100x4', 'tainted'))
    assert scheduler.allocate(Request('shared-gpu')) is None
    assert scheduler.allocate(Request('shared-gpu', tolerations=TOLERATES)) is not None


# ---- releases ----

SHARE = Request('shared-gpu', capacity={'memory': 10 << 30, 'threadPercentage': 30})


def in_the_next_cycle(scheduler, slices, release):
    """The scheduler knows of what it gave out by the claims only."""
    after = Scheduler(slices, release)
    for name, shares in scheduler.shares.items():
        for share in shares:
            after.hold(name, share.consumed)
    return after


def given_out(print_slices, release, *words):
    """The devices of GPU 0 that four GPUs' worth of claims for each form have, one claim a cycle."""
    slices = print_slices('v100x4', *words)
    scheduler = Scheduler(slices, release)
    for _ in range(4):
        for request in (SHARE, Request('gpu')):
            scheduler.allocate(request)
            scheduler = in_the_next_cycle(scheduler, slices, release)
    return {name for name, shares in scheduler.shares.items() if shares and gpu_of(name) == '0'}


@pytest.mark.parametrize('release', [(1, 34, 9), (1, 35, 6), (1, 36, 0), (1, 36, 1)], ids=str)
def test_a_scheduler_that_forgets_shares_gives_the_whole_gpu_out_beside_them_unless_there_is_one_form(print_slices, release):
    assert given_out(print_slices, release) == {'gpu-0-shared', 'gpu-0'}
    assert given_out(print_slices, release, 'one-form') == {'gpu-0-shared'}
    assert given_out(print_slices, release, 'one-form-whole') == {'gpu-0'}


@pytest.mark.parametrize('release', [(1, 36, 2), (1, 36, 3), (1, 37, 0)], ids=str)
def test_from_1_36_2_on_all_forms_are_kept_apart(print_slices, release):
    assert given_out(print_slices, release) == {'gpu-0-shared'}


DRIVER = 'gpu.warpshare.dev'
WHOLE = {'metadata': {'name': 'whole'}, 'spec': {'selectors': [{'cel': {'expression': f'device.attributes["{DRIVER}"].type == "gpu"'}}]}}


def every_gpu(slices, release):
    """Of a claim with allocationMode All."""
    claim = {'spec': {'devices': {'requests': [{'name': 'gpus', 'exactly': {'deviceClassName': 'whole', 'allocationMode': 'All'}}]}}}
    slices = [{'metadata': {'name': one['name']}, 'spec': one['spec']} for one in slices]
    found = place(claim, 'n1', DRIVER, slices, [WHOLE], [], release)
    return [result['device'] for result in found['devices']['results']]


def test_all_gpus_at_once_end_an_old_scheduler_where_gpus_have_several_forms(print_slices):
    with pytest.raises(Panic):
        every_gpu(print_slices('v100x4'), (1, 36, 1))
    assert every_gpu(print_slices('v100x4'), (1, 36, 2)) == ['gpu-3', 'gpu-2', 'gpu-1', 'gpu-0']
    assert every_gpu(print_slices('v100x4', 'one-form-whole'), (1, 36, 1)) == ['gpu-3', 'gpu-2', 'gpu-1', 'gpu-0']


def test_what_1_36_2_tries_and_takes_back_stays_taken_for_a_cycle(print_slices):
    """So a pod may stay pending that could run."""
    ways = [[Request('shared-gpu', 4, name='a/shares'), Request('gpu', 3, name='a/whole')], Request('gpu', 1, name='b')]
    found = Scheduler(print_slices('v100x4'), (1, 36, 3)).allocate(*ways)
    assert [request.name for _, request in found] == ['a/whole'] * 3 + ['b']
    assert Scheduler(print_slices('v100x4'), (1, 36, 2)).allocate(*ways) is None


def test_a_scheduler_that_mixes_pools_up_does_not_where_their_names_differ(print_slices):
    slices = [{'metadata': {'name': one['name']}, 'spec': one['spec']} for one in print_slices('v100x4')]
    claim = {'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': 'whole'}}]}}}

    def placed(pool, release):
        nic = {'metadata': {'name': 'nic'}, 'spec': {
            'driver': 'a.example.com', 'nodeName': 'n1', 'pool': {'name': pool, 'generation': 1, 'resourceSliceCount': 1},
            'sharedCounters': [{'name': 'nic-0', 'counters': {'unit': {'value': '1'}}}]}}
        return place(claim, 'n1', DRIVER, [nic, *slices], [WHOLE], [], release)

    assert placed('n1', (1, 36, 2))
    assert placed(f'n1/{DRIVER}', (1, 36, 2)) is None
    assert placed(f'n1/{DRIVER}', (1, 36, 3))
