# SPDX-License-Identifier: Apache-2.0
"""What Kueue 0.19 charges a quota with for a claim, from the ResourceSlices of a driver: pkg/dra/counters.go and pkg/dra/capacity.go of its
repository, read in August 2026. Nothing of Kueue runs here. Of the pools only complete ones count, each in its newest generation; of the
devices those that the source's selector, the class and the request select. The charge is the largest of theirs, times the request's count.
"""
import scheduler
from resourceslices import basic, quantity


class Inadmissible(Exception):
    """Kueue does not admit the workload, and tries again or gives up; the text is why."""


def matching(slices, source, expressions):
    """The devices that the selector of the |source| and these of class and request select."""
    pools = {}
    for one in slices:
        if one['spec']['driver'] == source['driver']:
            pools.setdefault(one['spec']['pool']['name'], []).append(one['spec'])
    found = []
    for specs in pools.values():
        newest = max(spec['pool']['generation'] for spec in specs)
        specs = [spec for spec in specs if spec['pool']['generation'] == newest]
        if len(specs) == specs[0]['pool']['resourceSliceCount']:
            found += [basic(device) for spec in specs for device in spec.get('devices', [])]
    expressions = [source['deviceSelector']['cel']['expression'], *expressions]
    return [device for device in found if all(scheduler.is_true(text, source['driver'], device) for text in expressions)]


def charge_of_device(capacity, asked):
    """What it charges for one device, or None where the policy does not allow so much."""
    policy = capacity.get('requestPolicy')
    if asked is None:
        asked = quantity(policy['default'] if policy else capacity['value'])
    return scheduler.round_up(asked, policy) if policy else asked


def charge(slices, source, expressions, count=1, asked=None):
    """What |count| devices cost; |source| is one of deviceClassMappings[].sources[]."""
    (kind, of), = source.items()
    devices = matching(slices, of, expressions)
    if len(devices) < count:
        raise Inadmissible(f'{len(devices)} devices match but {count} requested')
    if kind == 'counter':
        values = [quantity(consumed['counters'][of['name']]['value']) for device in devices
                  for consumed in device.get('consumesCounters', []) if of['name'] in consumed['counters']]
        if not values:
            raise Inadmissible(f'no consumesCounters entry for counter {of["name"]}')
    else:
        capacities = [device['capacity'][of['name']] for device in devices if of['name'] in device['capacity']]
        if not capacities:
            raise Inadmissible(f'no capacity dimension {of["name"]}')
        values = [value for value in (charge_of_device(capacity, asked) for capacity in capacities) if value is not None]
        if not values:
            raise Inadmissible(f'no policy allows {asked}')
    return max(values) * count
