# SPDX-License-Identifier: Apache-2.0
"""The parts of the soak that are pure: the steps, what must hold, what grew, and how a script gets shorter."""
import itertools
import os
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from expected import Facts, Patience, Share, advertised, broken, sick_and_healthy, unwell
from figures import Figures, grown
from shrink import shrink
from steps import ADMITS, FAULTS_MAX, PODS_MAX, Course, parse, step

UNITS = 'GPU-0', 'GPU-1'


# ---- steps ----

def first_steps(seed, count=2000, **more):
    return list(itertools.islice(Course(seed, **more).steps(), count))


def test_a_seed_makes_the_same_steps_each_time_and_another_seed_others():
    assert first_steps(1) == first_steps(1) != first_steps(2)


def test_a_script_reads_as_it_was_written():
    steps = first_steps(3)
    assert parse('# seed 3\n' + ''.join('%s  # why\n' % one for one in steps)) == steps


def test_steps_do_not_pile_up_pods_or_faults_and_mend_each_fault():
    pods, faults = set(), set()
    for one in first_steps(4, 5000):
        if one.verb in ADMITS:
            pods.add(one.words[1])
        elif one.verb == 'end':
            pods.remove(one.words[1])
        elif one.verb == 'fault':
            assert one.words[2] not in {other[1] for other in faults}
            faults.add(one.words[1:])
        elif one.verb == 'mend':
            faults.remove(one.words[1:])
        elif one.verb in ('settle', 'empty'):
            faults.clear()
            if one.verb == 'empty':
                pods.clear()
        assert len(pods) <= PODS_MAX and len(faults) <= FAULTS_MAX


def test_what_is_not_to_happen_does_not():
    texts = [str(one) for one in first_steps(5, 5000, without=['supervisor', 'api 4', 'lost'])]
    assert not [text for text in texts if text.startswith(('hit supervisor', 'hit api 4', 'fault lost'))]
    assert [text for text in texts if text.startswith('hit api 5')] and [text for text in texts if text.startswith('fault hanging')]


# ---- the clock ----

def test_the_time_of_day_is_wrong_as_the_file_says_and_other_clocks_are_not(tmp_path):
    program = 'import time; print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic())'
    clock = tmp_path / 'clock'

    def read():
        text = subprocess.run([sys.executable, '-c', program], check=True, capture_output=True, text=True, env={
            'LD_PRELOAD': os.environ['WARPSHARE_CLOCK_SIM'], 'WARPSHARE_SIM_CLOCK': str(clock)}).stdout
        before = time.time(), time.time(), time.monotonic()
        return [round((float(one) - other) / 60) for one, other in zip(text.split(), before)]

    assert read() == [0, 0, 0]
    clock.write_text('-7200\n')
    assert read() == [-120, -120, 0]


# ---- what must hold ----

def pod(name, unit, replicas, of=10, memory=800, **more):
    return Share(name, unit, 'pod', **{'memory': replicas * memory, 'threads': Fraction(100 * replicas, of), 'part': Fraction(replicas, of),
                                       'of': of, 'ids': tuple('%s::%s%d' % (unit, name, i) for i in range(replicas)), 'grant': 'g' + name, **more})


def claim(name, unit, memory, threads):
    return Share(name, unit, 'share', memory, Fraction(threads))


def whole(name, unit):
    return Share(name, unit, 'whole')


def facts(*shares, **more):
    return Facts(**{'shares': list(shares), 'memory': {unit: 8000 for unit in UNITS}, 'replicas': 10, 'plugin_units': UNITS[:1],
                    'dra_units': {UNITS[1]: 'gpu-1'}, **more})


@pytest.mark.parametrize('shares', [
    [], [pod('a', 'GPU-0', 5), pod('b', 'GPU-0', 5)], [claim('a', 'GPU-1', 8000, 100)], [whole('a', 'GPU-1'), pod('b', 'GPU-0', 1)],
    [pod('a', 'GPU-0', 3), pod('b', 'GPU-0', 4, of=20, memory=400)]])
def test_shares_that_fit_are_all_right(shares):
    assert broken(facts(*shares)) == {}


@pytest.mark.parametrize('what, shares', [
    ('twice replicas', [pod('a', 'GPU-0', 6, memory=1, threads=1), pod('b', 'GPU-0', 5, memory=1, threads=1)]),
    ('twice memory', [claim('a', 'GPU-1', 4000, 1), claim('b', 'GPU-1', 4001, 1)]),
    ('twice threads', [claim('a', 'GPU-1', 1, 50), claim('b', 'GPU-1', 1, 51)]),
    ('twice whole', [whole('a', 'GPU-1'), claim('b', 'GPU-1', 1, 1)]),
    ('twice owner', [pod('a', 'GPU-1', 1), claim('b', 'GPU-1', 1, 1)]),
    ('twice id', [pod('a', 'GPU-0', 1, ids=('x',)), pod('b', 'GPU-0', 1, ids=('x',))]),
    ('twice grant', [pod('a', 'GPU-0', 1, grant='g'), pod('b', 'GPU-0', 1, grant='g')])])
def test_what_is_given_twice_is_found(what, shares):
    assert list(broken(facts(*shares))) == [what]


def test_an_id_that_is_held_and_no_longer_listed_is_found():
    held = pod('a', 'GPU-0', 1, ids=('x',))
    assert list(broken(facts(held, devices={'y': True}))) == ['dropped']
    assert broken(facts(held, devices={'x': False})) == {}
    assert broken(facts(held)) == {}  # kubelet has no list at the moment


def test_lost_units_are_to_be_unhealthy_and_tainted():
    devices = {'GPU-0::1': True, 'GPU-0::2': False}
    published = {'gpu-1': ['xid'], 'gpu-1-shared': [], 'gpu-10': []}
    assert sick_and_healthy(facts(devices=devices, published=published)) == {}
    assert set(sick_and_healthy(facts(devices=devices, published=published, lost=set(UNITS)))) == {'healthy GPU-0', 'untainted GPU-1'}


def device(name, id_, profile='1g.10gb'):
    return Share(name, id_, 'device', ids=(id_,), of=profile)


def test_a_mig_device_that_is_held_stays_in_the_gpu_and_in_the_list():
    listed = {'1g.10gb': {'MIG-1': True}}
    assert broken(facts(device('a', 'MIG-1'), mig=listed, geometry={'MIG-1'})) == {}
    assert broken(facts(device('a', 'MIG-1'), geometry={'MIG-1'}, mig={'1g.10gb': {}})) == {}  # kubelet has no list at the moment
    assert list(broken(facts(device('a', 'MIG-1'), mig=listed))) == ['destroyed']
    assert list(broken(facts(device('a', 'MIG-2'), mig=listed, geometry={'MIG-2'}))) == ['dropped']
    assert list(broken(facts(device('a', 'MIG-1'), device('b', 'MIG-1'), mig=listed, geometry={'MIG-1'}))) == ['twice id']


def well(*shares, **more):
    return facts(*shares, **{
        'devices': {'GPU-0::%s' % i: True for i in range(10)}, 'record': {share.grant: share.unit for share in shares if share.grant},
        'daemons': {'GPU-0': 'ready', **{share.unit: 'ready' for share in shares if share.kind == 'share'}},
        'published': {'gpu-1': [], 'gpu-1-shared': []}, 'is_driver_connected': True, 'sockets': ('one',),
        'cdi_devices': tuple(share.pod for share in shares if share.kind in ('share', 'whole')), **more})


@pytest.mark.parametrize('what, shares, state, healthy', [
    ([], [], 'success', 2), (['state of the geometry'], [], 'pending', 2), (['state of the geometry'], [], '', 2),
    (['MIG devices'], [], 'success', 1), ([], [device('a', 'MIG-0')], 'pending', 1), (['MIG devices'], [device('a', 'MIG-0')], 'success', 1)])
def test_the_geometry_is_as_the_label_says_or_waits_for_pods(what, shares, state, healthy):
    mig = {'1g.10gb': {'MIG-%d' % i: i < healthy for i in range(3)}, '3g.40gb': {}}
    assert list(unwell(well(*shares, mig=mig, mig_wanted={'1g.10gb': 2}, mig_state=state))) == what


def test_a_node_that_is_well():
    assert unwell(well()) == {}
    assert unwell(well(claim('b', 'GPU-1', 100, 10))) == {}


@pytest.mark.parametrize('what, more', [
    ('allocatable replicas', {'devices': {'GPU-0::1': True}}), ('ledger', {'record': {'g': 'GPU-0'}}), ('ledger', {'record': None}),
    ('daemons', {'daemons': None}), ('daemons', {'daemons': {'GPU-0': 'fault'}}), ('daemons', {'daemons': {'GPU-0': 'ready', 'GPU-1': 'ready'}}),
    ('DRA driver', {'is_driver_connected': False}), ('published devices', {'published': {'gpu-1': []}}),
    ('taints of devices', {'published': {'gpu-1': [], 'gpu-1-shared': ['xid']}}), ('claims that wait', {'waiting': {'p': 'no'}}),
    ('CDI devices', {'cdi_devices': ('left',)}), ('sockets', {'sockets': ('one', 'two')}), ('marks of the node', {'marks': ('taint',)}),
    ('/healthz', {'health': 'no'})])
def test_whatever_is_not_well_is_found(what, more):
    assert list(unwell(well(**more))) == [what]


def test_pods_with_shares_of_before_may_hold_back_what_is_allocatable_and_never_add_to_it():
    before = [pod('a', 'GPU-0', 1, of=20)]
    assert unwell(well(*before, devices={share: False for share in before[0].ids})) == {}
    assert list(unwell(well(*before, devices={str(i): True for i in range(11)}))) == ['allocatable replicas']


@pytest.mark.parametrize('units, replicas, most, count', [(4, 20, 1, 80), (4, 20, 5, 68), (4, 20, 10, 53), (4, 20, 20, 23), (1, 10, 5, 10)])
def test_as_many_are_advertised_as_the_design_says(units, replicas, most, count):
    assert advertised(units, replicas, most) == count


def test_patience_ends_for_what_stays_wrong_without_a_break():
    patience = Patience(10)
    assert patience.look(0, {'a': 'A'}) == {} == patience.look(9, {'a': 'A', 'b': 'B'})
    assert patience.look(11, {'a': 'A', 'b': 'B'}) == {'a': 'A, for 11 s'}
    assert patience.look(12, {'b': 'B'}) == {} == patience.look(13, {'a': 'A', 'b': 'B'})


def test_what_grew_is_named():
    first = Figures(memory=4000, descriptors=20, threads=3, wakeups=1.0)
    assert grown(first, Figures(5000, 22, 3, 4.0)) == []
    assert grown(first, Figures(9000, 40, 9, 99.0)) == ['memory', 'descriptors', 'threads', 'wakeups']


# ---- shorter scripts ----

def test_the_steps_that_matter_are_what_is_left():
    steps = [step('pause', i) for i in range(100)]
    needed = {steps[7], steps[50], steps[93]}
    assert set(shrink(steps, lambda some: needed <= set(some))) == needed


def test_one_step_that_fails_alone_and_a_script_that_needs_all_of_it():
    steps = [step('pause', i) for i in range(9)]
    assert shrink(steps, lambda some: steps[8] in some) == [steps[8]]
    assert shrink(steps, lambda some: len(some) == 9) == steps


def test_what_was_before_an_empty_node_is_left_out_first():
    steps = [step(*('empty' if i % 10 == 0 else 'pause', i)) for i in range(100)]
    tried = []

    def fails(some):
        tried.append(len(some))
        return {steps[75], steps[99]} <= set(some)

    assert set(shrink(steps, fails)) == {steps[75], steps[99]}
    assert tried[:3] == [10, 20, 40] and max(tried[3:]) < 40


def test_shrinking_ends_with_its_time():
    left = iter(range(5))
    steps = [step('pause', i) for i in range(64)]
    shorter = shrink(steps, lambda some: steps[0] in some, lambda: next(left, None) is not None)
    assert steps[0] in shorter and 1 < len(shorter) < 64
