# SPDX-License-Identifier: Apache-2.0
"""What an API server does with a ResourceSlice: fields of gates that are off are dropped, the rest is checked.

The rules are those of Kubernetes' pkg/apis/resource/validation as far as a driver can break them; texts as recorded from 1.36.
"""
import copy
import re

LABEL = re.compile(r'[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?')
SUBDOMAIN = re.compile(r'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
IDENTIFIER = re.compile(r'[A-Za-z_][A-Za-z0-9_]{0,31}')
SEMVER = re.compile(r'(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?')
QUANTITY = re.compile(r'(\d+)(|Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)')
FACTORS = {'': 1, **{s: 1024 ** (i + 1) for i, s in enumerate(('Ki', 'Mi', 'Gi', 'Ti', 'Pi'))},
           **{s: 1000 ** (i + 1) for i, s in enumerate(('k', 'M', 'G', 'T', 'P'))}}
EFFECTS = ('None', 'NoSchedule', 'NoExecute')

# Gates by the field of a device that goes with them.
GATES = {'DRAConsumableCapacity': ('allowMultipleAllocations',), 'DRAPartitionableDevices': ('consumesCounters',),
         'DRADeviceTaints': ('taints',), 'DRANodeAllocatableResources': ('nodeAllocatableResources',)}


def quantity(text):
    match = QUANTITY.fullmatch(text)
    assert match, f'{text!r} is no quantity of ours'
    return int(match[1]) * FACTORS[match[2]]


def canonical(text):
    """As the server writes it: the largest suffix of its kind that leaves a whole number."""
    match = QUANTITY.fullmatch(text)
    step, names = (1024, ('', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi')) if match[2].endswith('i') else (1000, ('', 'k', 'M', 'G', 'T', 'P'))
    value, power = quantity(text), 0
    while value and value % step == 0 and power < 5:
        value, power = value // step, power + 1
    return f'{value}{names[power]}'


def basic(device):
    return device.get('basic', device)


def drop(spec, off):
    """The spec without what the gates |off| have switched off."""
    spec = copy.deepcopy(spec)
    if 'DRAPartitionableDevices' in off:
        spec.pop('sharedCounters', None)
    for device in spec.get('devices', []):
        for gate in off:
            for field in GATES[gate]:
                basic(device).pop(field, None)
        if 'DRAConsumableCapacity' in off:
            for capacity in basic(device).get('capacity', {}).values():
                capacity.pop('requestPolicy', None)
    return spec


class Faults(list):
    """(field, reason, message) of each."""

    def invalid(self, field, value, message):
        self.append((field, 'FieldValueInvalid', f'Invalid value: "{value}": {message}'))

    def too_many(self, field, count, most):
        if count > most:
            self.append((field, 'FieldValueTooMany', f'Too many: {count}: must have at most {most} items'))

    def expect(self, holds, field, value, message):
        if not holds:
            self.invalid(field, value, message)


def check_qualified(faults, field, name):
    domain, slash, identifier = name.rpartition('/')
    faults.expect(IDENTIFIER.fullmatch(identifier), field, name, 'a valid C identifier must start with a letter or _')
    faults.expect(not slash or (len(domain) <= 63 and SUBDOMAIN.fullmatch(domain)), field, name, 'the domain must be a subdomain')


def check_attribute(faults, field, attribute):
    faults.expect(len(attribute) == 1, field, '', 'exactly one value must be specified')
    for kind, value in attribute.items():
        faults.expect(kind in ('int', 'bool', 'string', 'version'), field, kind, 'unknown kind of attribute')
        if kind in ('string', 'version'):
            faults.expect(len(value.encode()) <= 64, f'{field}.{kind}', value, 'may not be more than 64 bytes')
        if kind == 'version':
            faults.expect(SEMVER.fullmatch(value), f'{field}.{kind}', value, 'must be a string compatible with semver.org spec 2.0.0')


def check_range(faults, field, value, preset, range_):
    at = f'{field}.validRange'
    least = quantity(range_['min'])
    most = quantity(range_['max']) if 'max' in range_ else None
    faults.expect(least <= value, f'{at}.min', value, f'min is larger than capacity value: {value}')
    faults.expect(least <= preset, f'{field}.default', preset, f'default is less than min: {least}')
    if most is not None:
        faults.expect(least <= most <= value, f'{at}.max', most, f'max is not between min and capacity value: {value}')
        faults.expect(preset <= most, f'{field}.default', preset, f'default is more than max: {most}')
    if 'step' in range_:
        step = quantity(range_['step'])
        assert step, 'the server divides by it'
        faults.expect(least + step <= value, f'{at}.step', step,
                      f'one step {least + step} is larger than capacity value: {value}')
        faults.expect((preset - least) % step == 0, f'{field}.default', preset, 'value is not a multiple of a given step')
        if most is not None:
            faults.expect((most - least) % step == 0, f'{at}.max', most, 'value is not a multiple of a given step')


def check_capacity(faults, field, capacity, allows_multiple):
    value = quantity(capacity['value'])
    policy = capacity.get('requestPolicy')
    if policy is None:
        return
    at = f'{field}.requestPolicy'
    faults.expect(allows_multiple, at, '', 'allowMultipleAllocations must be true')
    faults.expect('validRange' not in policy or 'validValues' not in policy, at, '', 'only one of them can be specified')
    preset = quantity(policy['default'])
    if 'validRange' in policy:
        check_range(faults, at, value, preset, policy['validRange'])
    if 'validValues' in policy:
        values = [quantity(v) for v in policy['validValues']]
        faults.too_many(f'{at}.validValues', len(values), 10)
        faults.expect(values == sorted(set(values)), f'{at}.validValues', values, 'must be sorted')
        faults.expect(preset in values, f'{at}.validValues', preset, 'default must be one of them')
        faults.expect(max(values) <= value, f'{at}.validValues', max(values), f'larger than capacity value: {value}')


def check_device(faults, field, device):
    faults.expect(LABEL.fullmatch(device['name']), f'{field}.name', device['name'], 'a lowercase RFC 1123 label')
    of = basic(device)
    known = {'attributes', 'capacity', 'consumesCounters', 'taints', 'allowMultipleAllocations', 'nodeAllocatableResources', 'name'}
    faults.expect(set(of) <= known, field, sorted(set(of) - known), 'unknown field')
    faults.too_many(field, len(of.get('attributes', {})) + len(of.get('capacity', {})), 32)
    for name, attribute in of.get('attributes', {}).items():
        check_qualified(faults, f'{field}.attributes', name)
        check_attribute(faults, f'{field}.attributes[{name}]', attribute)
    for name, capacity in of.get('capacity', {}).items():
        check_qualified(faults, f'{field}.capacity', name)
        check_capacity(faults, f'{field}.capacity[{name}]', capacity, of.get('allowMultipleAllocations', False))
    faults.too_many(f'{field}.consumesCounters', len(of.get('consumesCounters', [])), 2)
    for i, consumed in enumerate(of.get('consumesCounters', [])):
        at = f'{field}.consumesCounters[{i}]'
        faults.expect(consumed['counters'], at, '', 'counters are required')
        faults.too_many(f'{at}.counters', len(consumed['counters']), 32)
        faults.expect(LABEL.fullmatch(consumed['counterSet']), at, consumed['counterSet'], 'a lowercase RFC 1123 label')
    for name, resource in of.get('nodeAllocatableResources', {}).items():
        at = f'{field}.nodeAllocatableResources[{name}]'
        faults.expect(name in ('cpu', 'memory', 'ephemeral-storage') or name.startswith('hugepages-'), at, name, 'no resource of the node')
        faults.expect(resource.get('overhead') or resource.get('mapping'), at, '', 'at least one of `mapping` and `overhead` is required')
        for key, text in resource.get('overhead', {}).items():
            faults.expect(key in ('perPod', 'perContainer'), at, key, 'unknown field')
            quantity(text.removesuffix('m'))
    faults.too_many(f'{field}.taints', len(of.get('taints', [])), 16)
    for i, taint in enumerate(of.get('taints', [])):
        faults.expect(taint['effect'] in EFFECTS, f'{field}.taints[{i}].effect', taint['effect'], 'unknown effect')
        faults.expect(re.fullmatch(r'([a-z0-9.-]{1,253}/)?[A-Za-z0-9][-A-Za-z0-9_.]{0,62}', taint['key']), f'{field}.taints[{i}].key',
                      taint['key'], 'a qualified name')


def check_sets(faults, spec, counters_apart):
    sets = spec.get('sharedCounters', [])
    faults.too_many('spec.sharedCounters', len(sets), 8)
    names = [set_['name'] for set_ in sets]
    faults.expect(len(names) == len(set(names)), 'spec.sharedCounters', names, 'duplicate')
    for i, set_ in enumerate(sets):
        field = f'spec.sharedCounters[{i}]'
        faults.expect(LABEL.fullmatch(set_['name']), f'{field}.name', set_['name'], 'a lowercase RFC 1123 label')
        faults.expect(set_['counters'], f'{field}.counters', '', 'required')
        faults.too_many(f'{field}.counters', len(set_['counters']), 32)
        for name, counter in set_['counters'].items():
            faults.expect(LABEL.fullmatch(name), f'{field}.counters', name, 'a lowercase RFC 1123 label')
            quantity(counter['value'])
    if not counters_apart:
        faults.too_many('spec.sharedCounters', sum(len(set_['counters']) for set_ in sets), 32)
        check_consumption(faults, spec.get('devices', []), sets)
    faults.expect(not (counters_apart and sets and spec.get('devices')), 'spec', '{}',
                  'exactly one of `sharedCounters` and `devices` is required')


def check_consumption(faults, devices, sets):
    """What devices consume is there."""
    there = {set_['name']: set_['counters'] for set_ in sets}
    for device in devices:
        for consumed in basic(device).get('consumesCounters', []):
            counters = there.get(consumed['counterSet'])
            faults.expect(counters is not None, device['name'], consumed['counterSet'], 'must reference a counterSet')
            for name, counter in consumed['counters'].items():
                faults.expect(counters is None or name in counters, device['name'], name, 'must reference a counter')
                faults.expect(not counters or quantity(counter['value']) <= quantity(counters[name]['value']), device['name'], name,
                              'more than there is')


def check(spec, minor=36):
    """The faults that a server of 1.|minor| finds in the spec of a slice."""
    faults = Faults()
    faults.expect(len(spec['driver']) <= 63 and SUBDOMAIN.fullmatch(spec['driver']), 'spec.driver', spec['driver'], 'a subdomain')
    pool = spec['pool']
    faults.expect(len(pool['name']) <= 253 and all(SUBDOMAIN.fullmatch(part) for part in pool['name'].split('/')),
                  'spec.pool.name', pool['name'], 'subdomains')
    faults.expect(pool['generation'] >= 0, 'spec.pool.generation', pool['generation'], 'must be greater than or equal to zero')
    faults.expect(pool['resourceSliceCount'] > 0, 'spec.pool.resourceSliceCount', pool['resourceSliceCount'],
                  'must be greater than zero')
    where = [key for key in ('nodeName', 'nodeSelector', 'allNodes', 'perDeviceNodeSelection') if spec.get(key)]
    faults.expect(len(where) == 1, 'spec', where, 'exactly one of them is required')
    devices = spec.get('devices', [])
    is_rich = any(basic(d).get('taints') or basic(d).get('consumesCounters') for d in devices)
    faults.too_many('spec.devices', len(devices), 64 if is_rich else 128)
    names = [device['name'] for device in devices]
    faults.expect(len(names) == len(set(names)), 'spec.devices', names, 'duplicate')
    for i, device in enumerate(devices):
        check_device(faults, f'spec.devices[{i}]', device)
    check_sets(faults, spec, minor >= 35)
    return faults


def check_pool(slices, minor=36):
    """Faults of a whole pool, as its consumers find them; |slices| are specs."""
    faults = Faults()
    for spec in slices:
        faults.extend(check(spec, minor))
        faults.expect(spec['pool']['resourceSliceCount'] == len(slices), 'spec.pool', '', 'the pool is not complete')
    devices = [device for spec in slices for device in spec.get('devices', [])]
    sets = [set_ for spec in slices for set_ in spec.get('sharedCounters', [])]
    for kind, items in (('devices', devices), ('sharedCounters', sets)):
        names = [item['name'] for item in items]
        faults.expect(len(names) == len(set(names)), kind, '', 'the same name twice in the pool')
    check_consumption(faults, devices, sets)
    return faults
