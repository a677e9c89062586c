"""What the scheduler of 1.36 gives to claims from our ResourceSlices, as its allocator does it: slices by name, devices in the order of
the list, the first that fits; what a claim asks of a shared device is rounded up by the policy; a shared device's counters are charged
once, while anybody has it.
"""
import dataclasses
import math

from resourceslices import basic, quantity


@dataclasses.dataclass
class Request:
    """|count| different devices of one |type|."""
    type: str
    count: int = 1
    capacity: dict = dataclasses.field(default_factory=dict)  # name → number
    tolerates: bool = False


@dataclasses.dataclass
class Share:
    device: str
    consumed: dict


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


class Scheduler:
    def __init__(self, slices):
        slices = [s['spec'] for s in sorted(slices, key=lambda s: s['name'])]
        self.devices = {d['name']: basic(d) for spec in slices for d in spec.get('devices', [])}
        self.counters = {(set_['name'], name): quantity(counter['value']) for spec in slices
                         for set_ in spec.get('sharedCounters', []) for name, counter in set_['counters'].items()}
        self.shares = {name: [] for name in self.devices}

    def type_of(self, name):
        return self.devices[name]['attributes']['type']['string']

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
            taken = sum(share.consumed[key] for share in self.shares[name])
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
                if self.counters[key] - self.in_use(key) < quantity(wanted['value']):
                    return False
        return True

    def in_use(self, key):
        return sum(quantity(consumed['counters'][key[1]]['value']) for name, shares in self.shares.items() if shares
                   for consumed in self.devices[name].get('consumesCounters', [])
                   if consumed['counterSet'] == key[0] and key[1] in consumed['counters'])

    def allocate(self, *requests):
        """The shares of a claim with these requests, or None."""
        return self.search([request for request in requests for _ in range(request.count)], [])

    def search(self, requests, got):
        if not requests:
            return got
        request = requests[0]
        used = {share.device for share, other in got if other is request}
        for name in self.devices:
            if self.type_of(name) != request.type or name in used:
                continue
            consumed = self.consumption(name, request)
            if consumed is None or not self.has_counters(name):
                continue
            share = Share(name, consumed)
            self.shares[name].append(share)
            found = self.search(requests[1:], got + [(share, request)])
            if found is not None:
                return found
            self.shares[name].remove(share)
        return None

    def release(self, claim):
        for share, _ in claim:
            self.shares[share.device].remove(share)
