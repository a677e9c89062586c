# SPDX-License-Identifier: Apache-2.0
"""What must hold on the node of a soak, whatever happens there: pure. What was seen goes in (Facts), what is wrong comes out, as texts by
what they are about.

broken() is never to be so, at no moment. unwell() may be so while something is wrong, and has to end when that does.
"""
import dataclasses
from fractions import Fraction

MAX_PER_REQUEST = 5


@dataclasses.dataclass(frozen=True)
class Share:
    """What a pod's container was given of one unit."""
    pod: str
    unit: str
    kind: str  # pod, device (the device plugin's replicas, and MIG devices), share, whole (DRA's)
    memory: int = 0  # MiB
    threads: Fraction = Fraction(0)  # percent
    ids: tuple = ()
    part: Fraction = Fraction(0)  # of the unit, of a pod
    of: int = 0  # replicas that the unit had when it was given
    grant: str = ''  # its name in the ledger, of a pod

    @property
    def is_shared(self):
        return self.kind in ('pod', 'share')


@dataclasses.dataclass
class Facts:
    shares: list  # of all pods that have one
    memory: dict  # unit → MiB
    devices: dict = dataclasses.field(default_factory=dict)  # id → healthy, as kubelet has them
    lost: set = dataclasses.field(default_factory=set)  # units that NVML reports as lost
    replicas: int = 0  # of each unit of the device plugin
    plugin_units: tuple = ()
    dra_units: dict = dataclasses.field(default_factory=dict)  # unit → the beginning of the names of its devices
    record: dict = None  # grant → unit, of the ledger on disk
    daemons: dict = None  # unit → state; None: the supervisor does not answer
    published: dict = dataclasses.field(default_factory=dict)  # device of the slices → its taints
    mig: dict = dataclasses.field(default_factory=dict)  # profile → MIG device → healthy, as kubelet has them; none: no list yet
    geometry: set = dataclasses.field(default_factory=set)  # MIG devices that there are
    mig_wanted: dict = dataclasses.field(default_factory=dict)  # profile → how many, by the label; empty: no GPU has MIG
    mig_state: str = ''  # by the other label
    is_driver_connected: bool = False
    waiting: dict = dataclasses.field(default_factory=dict)  # pod → why its claims are not prepared, or not given back
    cdi_devices: tuple = ()  # of the driver's own kind
    sockets: tuple = ()  # of the device plugin
    marks: tuple = ()  # taints of the node, and its condition where it says that something is wrong
    health: str = ''  # what /healthz says where it is not well
    # of an empty node there must be nothing but this:
    is_empty: bool = False


def by_unit(shares):
    found = {}
    for share in shares:
        found.setdefault(share.unit, []).append(share)
    return found


def advertised(units, replicas, most=MAX_PER_REQUEST):
    """How many replicas kubelet may count, so that every request up to |most| fits on one unit (DESIGN, section 6)."""
    return units * replicas - (units - 1) * (most - 1)


# ---- at no moment ----

def check_unit(unit, shares, memory):
    names = ', '.join('%s (%s)' % (share.pod, share.kind) for share in shares)
    if any(share.kind == 'whole' for share in shares) and len(shares) > 1:
        yield 'whole', '%s was given as a whole, and to others: %s' % (unit, names)
    if {'pod'} < {share.kind for share in shares}:
        yield 'owner', '%s was given by the device plugin and by DRA: %s' % (unit, names)
    for what, given, most in (('memory', sum(share.memory for share in shares), memory),
                              ('threads', sum(share.threads for share in shares), 100),
                              ('replicas', sum(share.part for share in shares), 1)):
        if given > most:
            yield what, '%s: of %s %s, %s were given to %s' % (unit, most, what, given, names)


def broken(facts):
    found = {}
    for unit, shares in by_unit([share for share in facts.shares if share.kind != 'device']).items():
        for what, text in check_unit(unit, shares, facts.memory[unit]):
            found['twice %s' % what] = text
    holders = {}
    for share in facts.shares:
        for id_ in share.ids:
            if id_ in holders:
                found['twice id'] = '%s was given to %s and to %s' % (id_, holders[id_], share.pod)
            holders[id_] = share.pod
    grants = [share.grant for share in facts.shares if share.grant]
    if len(grants) != len(set(grants)):
        found['twice grant'] = 'two pods have the same entry in the ledger: %s' % grants
    lists = [facts.devices, *facts.mig.values()]
    lost = [share.ids[0] for share in facts.shares if share.kind == 'device' and share.ids[0] not in facts.geometry]
    if lost:
        found['destroyed'] = '%s holds %s, which does not exist any more' % (holders[lost[0]], lost[0])
    lost = [id_ for share in facts.shares for id_ in share.ids if is_listed_by(share, facts) and not any(id_ in one for one in lists)]
    if lost:
        found['dropped'] = '%s holds %s, which the list of devices has lost' % (holders[lost[0]], ', '.join(lost))
    return found


def is_listed_by(share, facts):
    """kubelet has a list of that resource. A kubelet that has just started has an empty one until it is sent another."""
    return bool(facts.mig.get(share.of) if share.kind == 'device' else facts.devices)


# ---- not for long ----

def sick_and_healthy(facts):
    """Units that are lost, and that kubelet counts, or the scheduler."""
    found = {}
    for unit in facts.lost:
        count = sum(healthy for id_, healthy in facts.devices.items() if id_.startswith(unit))
        if count:
            found['healthy %s' % unit] = '%s is lost, and %d of its replicas are healthy' % (unit, count)
        name = facts.dra_units.get(unit)
        if name and any(not taints for device, taints in facts.published.items() if is_of(device, name)):
            found['untainted %s' % unit] = '%s is lost, and DRA devices of it have no taint' % unit
    return found


def is_of(device, name):
    return device == name or device.startswith(name + '-')


def unwell(facts):
    """What is wrong although nothing is wrong with the node any more."""
    found = dict(sick_and_healthy(facts))

    def expect(what, is_, should):
        if is_ != should:
            found[what] = '%s: %s instead of %s' % (what, is_, should)

    pods = [share for share in facts.shares if share.kind == 'pod']
    healthy = sum(facts.devices.values())
    most = advertised(len(facts.plugin_units), facts.replicas)
    if all(share.of == facts.replicas for share in pods):
        expect('allocatable replicas', healthy, most)
    elif healthy > most:  # units whose pods have shares of before may wait for those
        found['allocatable replicas'] = 'allocatable replicas: %d instead of at most %d' % (healthy, most)
    expect('ledger', facts.record, {share.grant: share.unit for share in pods})
    wanted = {*facts.plugin_units, *(share.unit for share in facts.shares if share.kind == 'share')}
    expect('daemons', facts.daemons, {unit: 'ready' for unit in wanted})
    found.update(wrong_geometry(facts))
    expect('DRA driver', facts.is_driver_connected, True)
    names = {name for prefix in facts.dra_units.values() for name in (prefix, prefix + '-shared')}
    expect('published devices', sorted(facts.published), sorted(names))
    expect('taints of devices', {name: taints for name, taints in facts.published.items() if taints}, {})
    expect('claims that wait', facts.waiting, {})
    expect('CDI devices', len(facts.cdi_devices), len({share.pod for share in facts.shares if share.kind in ('share', 'whole')}))
    expect('sockets', len(facts.sockets), 1)
    expect('marks of the node', facts.marks, ())
    expect('/healthz', facts.health, '')
    return found


def wrong_geometry(facts):
    """Who holds a MIG device is waited for; devices that the new geometry has, too, stay with their pods."""
    is_held = any(share.kind == 'device' for share in facts.shares)
    there = {profile: count for profile, devices in facts.mig.items() if (count := sum(devices.values()))}
    if facts.mig_state == 'pending' and is_held:
        return {}
    if facts.mig_wanted and facts.mig_state != 'success':
        return {'state of the geometry': 'the state of the geometry is %s' % (facts.mig_state or 'not told')}
    if there != facts.mig_wanted:
        return {'MIG devices': 'MIG devices that are allocatable: %s instead of %s' % (there, facts.mig_wanted)}
    return {}


class Patience:
    """What is wrong for longer than it may be."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.since = {}

    def look(self, now, wrong):
        """The texts of |wrong| (what → text) that have been there, without a break, for too long at |now|."""
        self.since = {what: self.since.get(what, now) for what in wrong}
        return {what: '%s, for %.0f s' % (wrong[what], now - since) for what, since in self.since.items() if now - since > self.seconds}
