# SPDX-License-Identifier: Apache-2.0
"""What the scheduler of a release gives to claims from our ResourceSlices, as its allocator does it: slices by name, devices in the order of
the list, the first that fits; what a claim asks of a shared device is rounded up by the policy; a shared device's counters are charged
once, while anybody has it. Of a request that has alternatives (firstAvailable) it is the first with which the whole claim fits; constraints
hold for all devices of the requests that they name.

place() does so for a ResourceClaim, and returns the allocation as the scheduler writes it.

Releases have these faults, each up to the one before the first good one:

    FORGETS  kubernetes#139034: what claims have of devices that many may have takes nothing of the counters in later cycles
    PANICS   kubernetes#138885: allocationMode All ends the scheduler where a device has counters
    LEAKS    kubernetes#140431: what was tried and taken back of such a device takes its counters for the rest of the cycle
    MIXES    kubernetes#140434: of two drivers whose pools have one name, one gets the counters of the other
"""
import dataclasses
import math
import re
import uuid

from apistore import now
from resourceslices import FACTORS, basic, quantity


@dataclasses.dataclass
class Request:
    """|count| different devices of one |type|: the attribute, or a function that is true of the device."""
    type: object
    count: int = 1
    capacity: dict = dataclasses.field(default_factory=dict)  # name → number
    tolerations: list = dataclasses.field(default_factory=list)
    name: str = ''  # of an alternative with that of its request: "main/small"

    @property
    def tolerates(self):
        assert all(set(one) <= {'operator', 'effect'} and one['operator'] == 'Exists' for one in self.tolerations), 'not modelled'
        return bool(self.tolerations)


TOLERATES = [{'operator': 'Exists'}]


@dataclasses.dataclass
class Constraint:
    """The devices of these requests, of all if there are none, have the same value of the attribute, or each another one."""
    attribute: str  # as devices have it: without the domain where that is the driver's
    requests: tuple = ()
    is_distinct: bool = False

    def is_about(self, request):
        return not self.requests or request.name in self.requests or request.name.split('/')[0] in self.requests

    def holds(self, devices):
        values = [next(iter(device['attributes'].get(self.attribute, {'none': None}).values())) for device in devices]
        return None not in values and len(set(values)) == (len(values) if self.is_distinct else 1)


@dataclasses.dataclass
class Share:
    device: str
    consumed: dict
    is_old: bool = False  # of an earlier cycle


FIRST_GOOD = {'FORGETS': (1, 36, 2), 'PANICS': (1, 36, 2), 'LEAKS': (1, 36, 3), 'MIXES': (1, 36, 3)}
GOOD = (1, 37, 0)


class Panic(Exception):
    """The scheduler has ended, and begins anew."""


def round_up(asked, policy):
    """What is consumed of a capacity with |policy|, or None where so much cannot be asked for."""
    if 'validValues' in policy:
        return min((v for v in map(quantity, policy['validValues']) if v >= asked), default=None)
    range_ = policy['validRange']
    least, step = quantity(range_['min']), quantity(range_.get('step', '0'))
    value = max(asked, least)
    if step:
        value = least + math.ceil((value - least) / step) * step
    return None if 'max' in range_ and value > quantity(range_['max']) else value


def counters_of(specs):
    return {(set_['name'], name): quantity(counter['value']) for spec in specs
            for set_ in spec.get('sharedCounters', []) for name, counter in set_['counters'].items()}


class Scheduler:
    def __init__(self, slices, release=GOOD, counters=None):
        """|counters|: (set, name) → value of all drivers, where the release mixes them up."""
        self.faults = {fault for fault, good in FIRST_GOOD.items() if release < good}
        self.leaked = set()  # names of devices
        slices = [s['spec'] for s in sorted(slices, key=lambda s: s['name'])]
        self.devices = {d['name']: basic(d) for spec in slices for d in spec.get('devices', [])}
        self.counters = counters_of(slices) if counters is None else counters
        self.shares = {name: [] for name in self.devices}

    def type_of(self, name):
        return self.devices[name]['attributes']['type']['string']

    def is_meant(self, name, request):
        return request.type(self.devices[name]) if callable(request.type) else self.type_of(name) == request.type

    def hold(self, name, consumed):
        """Somebody has it already. A device that is not published any more is nobody's to have."""
        self.shares.setdefault(name, []).append(Share(name, consumed, True))

    def consumption(self, name, request):
        """What |request| would consume of the device, or None where it does not get it."""
        device, consumed = self.devices[name], {}
        if any(taint['effect'] != 'None' for taint in device.get('taints', [])) and not request.tolerates:
            return None
        capacities = device.get('capacity', {})
        if not set(request.capacity) <= set(capacities):
            return None
        shares = device.get('allowMultipleAllocations', False)
        for key, capacity in capacities.items():
            value, policy = quantity(capacity['value']), capacity.get('requestPolicy')
            if not shares:
                if request.capacity.get(key, 0) > value:
                    return None
                continue
            if key not in request.capacity:
                consumed[key] = quantity(policy['default']) if policy else value
            else:
                consumed[key] = round_up(request.capacity[key], policy) if policy else request.capacity[key]
            taken = sum(share.consumed.get(key, 0) for share in self.shares[name])
            if consumed[key] is None or taken + consumed[key] > value:
                return None
        return consumed if shares or not self.shares[name] else None

    def has_counters(self, name):
        """Of a device that nobody has yet."""
        if self.shares[name]:
            return True
        for consumed in self.devices[name].get('consumesCounters', []):
            for counter, wanted in consumed['counters'].items():
                key = (consumed['counterSet'], counter)
                if self.counters.get(key, 0) - self.in_use(key) < quantity(wanted['value']):
                    return False
        return True

    def in_use(self, key):
        return sum(quantity(consumed['counters'][key[1]]['value']) for name in self.shares if self.takes_counters(name)
                   for consumed in self.devices.get(name, {}).get('consumesCounters', [])
                   if consumed['counterSet'] == key[0] and key[1] in consumed['counters'])

    def is_for_many(self, name):
        return self.devices.get(name, {}).get('allowMultipleAllocations', False)

    def takes_counters(self, name):
        shares = self.shares[name]
        if 'FORGETS' in self.faults and self.is_for_many(name):
            shares = [share for share in shares if not share.is_old]
        return bool(shares) or name in self.leaked

    def allocate(self, *requests, constraints=()):
        """The shares of a claim with these requests, each a Request or a list of alternatives, or None."""
        self.leaked.clear()
        if not requests:
            return []
        return self.search([one if isinstance(one, list) else [one] for one in requests], [], constraints)

    def search(self, requests, got, constraints):
        if not requests:
            return got
        for request in requests[0]:
            found = self.search_devices(request, request.count, requests[1:], got, constraints)
            if found is not None:
                return found
        return None

    def search_devices(self, request, count, rest, got, constraints):
        if not count:
            return self.search(rest, got, constraints)
        used = {share.device for share, other in got if other is request}
        for name in self.devices:
            if name in used or not self.is_meant(name, request) or not self.fits_beside(name, request, got, constraints):
                continue
            consumed = self.consumption(name, request)
            if consumed is None or not self.has_counters(name):
                continue
            share = Share(name, consumed)
            self.shares[name].append(share)
            found = self.search_devices(request, count - 1, rest, got + [(share, request)], constraints)
            if found is not None:
                return found
            self.shares[name].remove(share)
            if 'LEAKS' in self.faults and self.is_for_many(name):
                self.leaked.add(name)
        return None

    def fits_beside(self, name, request, got, constraints):
        return all(one.holds([self.devices[name], *(self.devices[share.device] for share, other in got if one.is_about(other))])
                   for one in constraints if one.is_about(request))

    def release(self, claim):
        for share, _ in claim:
            self.shares[share.device].remove(share)


# ---- classes ----

TERMS = [
    (re.compile(r'device\.driver == (".*")'), lambda driver, device, value: driver == value),
    (re.compile(r'device\.allowMultipleAllocations == (true|false)'),
     lambda driver, device, value: device.get('allowMultipleAllocations', False) == value),
    (re.compile(r'(!?)device\.allowMultipleAllocations'),
     lambda driver, device, not_: device.get('allowMultipleAllocations', False) != bool(not_)),
    (re.compile(r'device\.attributes\["(.*)"\]\.(\w+) == (".*"|true|false|\d+)'),
     lambda driver, device, domain, name, value: attribute(driver, device, domain, name) == value),
]
WORDS = {'true': True, 'false': False}


def attribute(driver, device, domain, name):
    found = device['attributes'].get(name if domain == driver else f'{domain}/{name}')
    assert found is not None, f'device has no attribute {domain}/{name}: the real scheduler gives up with "no such key"'
    value, = found.values()
    return value


def literal(text):
    return WORDS[text] if text in WORDS else int(text) if text.isdigit() else text.strip('"')


def is_true(expression, driver, device):
    """Of a device: CEL, as far as classes need it, which is terms joined by &&. What is false decides, even beside an error."""
    failure = None
    for term in expression.split('&&'):
        found = [(holds, match) for pattern, holds in TERMS if (match := pattern.fullmatch(term.strip()))]
        assert found, f'this model of the scheduler does not understand {term!r}'
        holds, match = found[0]
        try:
            if not holds(driver, device, *map(literal, match.groups())):
                return False
        except AssertionError as error:
            failure = error
    if failure:
        raise failure
    return True


# ---- claims ----

def pools_of(slices, driver, node):
    """By name: the slices of the newest generation, none where they are not complete."""
    pools = {}
    for one in slices:
        if one['spec']['driver'] == driver and one['spec'].get('nodeName') == node:
            pools.setdefault(one['spec']['pool']['name'], []).append(one)
    for name, ours in pools.items():
        newest = max(one['spec']['pool']['generation'] for one in ours)
        ours = [one for one in ours if one['spec']['pool']['generation'] == newest]
        is_complete = all(one['spec']['pool']['resourceSliceCount'] == len(ours) for one in ours)
        pools[name] = [{'name': one['metadata']['name'], 'spec': one['spec']} for one in ours] if is_complete else []
    return pools


def mixed_counters(slices, pool):
    """What a release that mixes pools up takes for the counters of one: those of the driver that comes first."""
    specs = sorted((one['spec'] for one in slices if one['spec']['pool']['name'] == pool and one['spec'].get('sharedCounters')),
                   key=lambda spec: spec['driver'])
    return counters_of(spec for spec in specs if spec['driver'] == specs[0]['driver'])


def written(value, like):
    """The number as a quantity, in the form of |like|: with the largest suffix that leaves a whole number."""
    steps = [(factor, suffix) for suffix, factor in FACTORS.items() if suffix.endswith('i') == like.endswith('i') or not suffix]
    factor, suffix = max((step for step in steps if value % step[0] == 0), key=lambda step: step[0] if value else 0)
    return f'{value // factor}{suffix}' if value else '0'


def place(claim, node, driver, slices, classes, others, release=GOOD):
    """
    status.allocation of |claim| on |node|, or None where nothing fits. |others| are claims, of which some are allocated. For one claim
    only devices of one pool are taken.
    """
    pools = pools_of(slices, driver, node)
    found = (place_in(claim, node, driver, pool, pools[pool], slices, classes, others, release) for pool in sorted(pools))
    return next((allocation for allocation in found if allocation), None)


def count_of(scheduler, part, meant):
    """How many devices that part of a request is for."""
    if part.get('allocationMode') != 'All':
        return part.get('count', 1)
    if 'PANICS' in scheduler.faults and any(device.get('consumesCounters') for device in scheduler.devices.values()):
        raise Panic('assignment to entry in nil map')
    return sum(meant(device) for device in scheduler.devices.values())


def place_in(claim, node, driver, pool, ours, slices, classes, others, release):
    scheduler = Scheduler(ours, release, mixed_counters(slices, pool) if release < FIRST_GOOD['MIXES'] else None)
    for other in others:
        for result in ((other.get('status') or {}).get('allocation') or {}).get('devices', {}).get('results', []):
            if (result['driver'], result['pool']) == (driver, pool) and not result.get('adminAccess'):
                scheduler.hold(result['device'], {key: quantity(text) for key, text in result.get('consumedCapacity', {}).items()})
    classes = {class_['metadata']['name']: class_['spec'] for class_ in classes}
    devices = claim['spec']['devices']
    requests, configs, by_admins = [], [], []
    for request in devices['requests']:
        alternatives = []
        for part in request.get('firstAvailable') or [request['exactly']]:
            class_ = classes.get(part['deviceClassName'])
            if class_ is None:
                return None
            expressions = [selector['cel']['expression'] for selector in (*class_.get('selectors', []), *part.get('selectors', []))]
            name = '/'.join([request['name'], part['name']] if 'name' in part else [request['name']])
            meant = lambda device, expressions=expressions: all(is_true(text, driver, device) for text in expressions)
            if part.get('adminAccess'):  # whoever has it already
                found = [name for name, device in scheduler.devices.items() if meant(device)][:part.get('count', 1)]
                if len(found) < part.get('count', 1):
                    return None
                by_admins += [{'request': request['name'], 'driver': driver, 'pool': pool, 'device': name, 'adminAccess': True}
                              for name in found]
            else:
                asked = part.get('capacity', {}).get('requests', {})
                alternatives.append(Request(meant, count_of(scheduler, part, meant), {key: quantity(text) for key, text in asked.items()},
                                            part.get('tolerations', []), name))
            configs += [{'source': 'FromClass', 'requests': [name], **config} for config in class_.get('config', [])]
        requests += [alternatives] if alternatives else []
    constraints = [Constraint((one.get('matchAttribute') or one['distinctAttribute']).removeprefix(driver + '/'),
                              tuple(one.get('requests', [])), 'distinctAttribute' in one)
                   for one in devices.get('constraints', [])]
    found = scheduler.allocate(*requests, constraints=constraints)
    if found is None:
        return None
    configs += [{'source': 'FromClaim', **config} for config in devices.get('config', [])]
    results = by_admins
    for share, request in found:
        result = {'request': request.name, 'driver': driver, 'pool': pool, 'device': share.device}
        if request.tolerations:
            result['tolerations'] = request.tolerations
        if scheduler.devices[share.device].get('allowMultipleAllocations'):
            capacity = scheduler.devices[share.device].get('capacity', {})
            result['shareID'] = str(uuid.uuid4())
            result['consumedCapacity'] = {key: written(value, capacity[key]['value']) for key, value in share.consumed.items()}
        results.append(result)
    return {'devices': {'results': results, **({'config': configs} if configs else {})}, 'allocationTimestamp': now(),
            'nodeSelector': {'nodeSelectorTerms': [{'matchFields': [
                {'key': 'metadata.name', 'operator': 'In', 'values': [node]}]}]}}
