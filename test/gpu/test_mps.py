# SPDX-License-Identifier: Apache-2.0
"""What MPS really does on this machine's GPU: limits, shares, faults; and what it gains over time-slicing.

Each test prints what it saw. docs/hardware-notes.md says which of its lines these numbers fill.
"""
import subprocess
import time

import pytest

from hardware import CONTEXT_MIB, DEADLINE, SIMULATED, SM_TOLERANCE, Result, say, seen
from hardware import daemon, hardware, make_daemon  # noqa: F401 -- fixtures


def share(percentage, memory_mib):
    return {'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': str(percentage),
            'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=%dM' % memory_mib}


def total_sms(hardware):
    return hardware.facts['multiprocessors']['reported']


def test_without_mps_a_program_has_the_whole_gpu(hardware):
    sms = hardware.facts['multiprocessors']
    say('without MPS', **sms)
    seen(27, 'NVML %s, CUDA %s' % (sms['unit'] or 'does not tell', sms['reported']))
    seen(12, '%d of %d' % (sms['atOnce'], sms['reported']))
    assert hardware.facts['mps'] is not True
    assert sms['atOnce'] <= sms['reported'], sms
    if sms['unit'] is None:
        pytest.skip('NVML does not tell the number of cores')
    assert sms['unit'] == sms['reported'], 'SMs by NVML (cores, divided) and by CUDA differ: %s' % sms


def test_a_client_sees_that_mps_is_in_use(hardware, daemon):
    done = hardware.probe('--no-memory', daemon=daemon)
    say('client of MPS', attribute=done.json.get('mps'), **done.json.get('multiprocessors', {}))
    words = {True: '1', False: '0', None: 'unknown to the driver'}
    seen(28, 'client %s, without MPS %s' % (words[done.json.get('mps')], words[hardware.facts['mps']]))
    assert done.status == 0, '%s\n%s' % (done, daemon.log())
    assert done.json['mps'] is not False
    assert daemon.ask('get_server_list'), 'no server was started:\n' + daemon.log()


@pytest.mark.parametrize('part', [0.1, 0.5])
def test_memory_is_refused_at_the_limit(hardware, daemon, part):
    limit = int(hardware.facts['memory']['totalMib'] * part)
    done = hardware.probe(daemon=daemon, **share(100, limit))
    memory = done.json.get('memory', {})
    say('memory limit', limit=limit, **memory)
    if memory.get('refused'):
        seen(19, 'limit %d MiB: %d MiB, then refused' % (limit, memory['allocatedMib']))
        seen(15, '%d MiB' % (limit - memory['allocatedMib']))
    assert done.status == 0, '%s\n%s' % (done, daemon.log())
    assert memory['refused'] and limit - CONTEXT_MIB <= memory['allocatedMib'] <= limit, memory


def test_a_limit_without_an_ordinal_holds_for_each_gpu(hardware, daemon):
    limit = hardware.facts['memory']['totalMib'] // 5
    done = hardware.probe('--memory', str(limit + 64), daemon=daemon, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='%dM' % limit)
    memory = done.json.get('memory', {})
    say('a limit without an ordinal', limit=limit, **memory)
    seen(1, 'limit %d MiB: %s MiB' % (limit, memory.get('allocatedMib')))
    assert limit - CONTEXT_MIB <= memory['allocatedMib'] <= limit, memory


@pytest.mark.parametrize('percentage', [10, 30, 50, 70])
def test_sms_are_those_of_the_percentage(hardware, daemon, percentage):
    granted = total_sms(hardware) * percentage // 100
    done = hardware.probe('--no-memory', daemon=daemon, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(percentage))
    sms = done.json.get('multiprocessors', {})
    say('SMs of %d %%' % percentage, expected=granted, **sms)
    if sms:
        seen(16, '%d %% → %d of %d' % (percentage, sms['reported'], total_sms(hardware)))
        seen(20, '%d %%: told %d, affinity %s' % (percentage, sms['reported'], sms['affinity']))
        seen(11, '%d %%: %d' % (percentage, sms['atOnce']))
        seen(13, '%d %%: %d' % (percentage, sms['seen']))
    assert done.status in (0, 1), '%s\n%s' % (done, daemon.log())
    assert abs(sms['reported'] - granted) <= SM_TOLERANCE, 'CUDA says %s' % sms
    assert sms['atOnce'] <= granted + SM_TOLERANCE, 'measured %s' % sms


def test_the_daemons_defaults_hold_for_a_client_without_variables(hardware, daemon):
    limit = hardware.facts['memory']['totalMib'] // 5
    daemon.ask('set_default_device_pinned_mem_limit 0 %dM' % limit)
    daemon.ask('set_default_active_thread_percentage 20')
    done = hardware.probe('--memory', str(limit + 64), daemon=daemon)
    say('defaults', limit=limit, read_back=daemon.ask('get_default_device_pinned_mem_limit 0'),
        percentage=daemon.ask('get_default_active_thread_percentage'), allocated=done.json['memory']['allocatedMib'],
        sms=done.json['multiprocessors']['reported'])
    seen(18, '20 %% and %d MiB: %d SMs, %d MiB' % (
        limit, done.json['multiprocessors']['reported'], done.json['memory']['allocatedMib']))
    assert limit - CONTEXT_MIB <= done.json['memory']['allocatedMib'] <= limit, done
    assert abs(done.json['multiprocessors']['reported'] - total_sms(hardware) // 5) <= SM_TOLERANCE, done


def test_a_client_cannot_raise_what_the_daemon_allows(hardware, daemon):
    limit = hardware.facts['memory']['totalMib'] // 5
    daemon.ask('set_default_device_pinned_mem_limit 0 %dM' % limit)
    daemon.ask('set_default_active_thread_percentage 20')
    done = hardware.probe('--memory', str(limit + 64), daemon=daemon, **share(90, limit * 4))
    say('a client that asks for more', limit=limit, allocated=done.json['memory']['allocatedMib'],
        sms=done.json['multiprocessors']['reported'])
    seen(17, 'asked for 90 %% and %d MiB of 20 %% and %d: %d SMs, %d MiB' % (
        limit * 4, limit, done.json['multiprocessors']['reported'], done.json['memory']['allocatedMib']))
    assert done.json['memory']['allocatedMib'] <= limit, done
    assert done.json['multiprocessors']['reported'] <= total_sms(hardware) // 5 + SM_TOLERANCE, done


def test_shares_of_30_and_70_percent_work_30_to_70(hardware, daemon):
    small, large = hardware.loads({'daemon': daemon, 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '30'},
                                  {'daemon': daemon, 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '70'})
    part = 100 * small / (small + large)
    say('30 and 70 %', gflops_of_30='%.0f' % small, gflops_of_70='%.0f' % large, part='%.2f %%' % part)
    seen(21, '%.2f : %.2f' % (part, 100 - part))
    assert part == pytest.approx(30, abs=3), 'the share of 30 %% did %.2f %% of the work' % part


def test_k_replicas_are_worth_k_times_one(hardware, daemon):
    memory = hardware.facts['memory']['totalMib'] // 10
    found = {}
    for k in (1, 2, 4):
        limits = share(10 * k, memory * k)
        done = hardware.probe(daemon=daemon, **limits)
        assert done.status == 0, '%s\n%s' % (done, daemon.log())
        found[k] = done.json
        say('%d of 10 replicas' % k, sms=done.json['multiprocessors']['reported'],
            allocated=done.json['memory']['allocatedMib'], gflops='%.0f' % done.json['throughput']['median'])
    each = found[1]['throughput']['median'] / found[1]['multiprocessors']['reported']
    for k in (2, 4):
        rate = found[k]['throughput']['median'] / found[k]['multiprocessors']['reported']
        assert rate == pytest.approx(each, rel=0.1), '%d replicas: %.1f GFLOP/s an SM, one: %.1f' % (k, rate, each)
        grown = found[k]['memory']['allocatedMib'] - found[1]['memory']['allocatedMib']
        assert grown == pytest.approx((k - 1) * memory, abs=64), '%d replicas: %d MiB more' % (k, grown)
        seen(22, 'k = %d: %.3f of the rate an SM, %d MiB more' % (k, rate / each, grown))


def wait_for_work(hardware, daemon, deadline):
    """A new client works again; the last answer in any case."""
    while True:
        done = hardware.probe('--no-memory', daemon=daemon)
        if done.status != 3 or time.monotonic() > deadline:
            return done
        time.sleep(0.5)


def wait_for_clients(daemon, count):
    """Their PIDs, as soon as there are so many."""
    deadline = time.monotonic() + DEADLINE
    while True:
        clients = [line for server in daemon.ask('get_server_list').split()
                   for line in daemon.ask('get_client_list ' + server).split()]
        if len(clients) >= count:
            return clients
        assert time.monotonic() < deadline, 'clients: %s\n%s' % (clients, daemon.log())
        time.sleep(0.1)


def test_a_fault_ends_the_neighbours_and_the_unit_recovers(hardware, daemon):
    victim = hardware.start('--load', '30', daemon=daemon)
    wait_for_clients(daemon, 1)
    culprit = hardware.probe('--fault', daemon=daemon)
    done = Result(victim)
    say('fault', culprit=culprit.json.get('fault', culprit.err)[:80], victim=done.json.get('error', {}).get('name'))
    seen(23, 'the neighbour ended with status %d' % done.status)
    assert culprit.status == 0, culprit
    assert done.status == 3, 'the neighbour was not hit: %s' % done
    began = time.monotonic()
    again = wait_for_work(hardware, daemon, began + DEADLINE)
    took = time.monotonic() - began
    say('after the fault', status=again.status, seconds='%.1f' % took)
    error = done.json.get('error', {})
    seen(14, 'error %s, %s; a client works again after %.1f s' % (error.get('code'), error.get('name'), took))
    assert again.status == 0, '%s\n%s' % (again, daemon.log())


def test_a_client_is_ended_politely_and_its_neighbour_goes_on(hardware, daemon):
    stays = hardware.start('--load', '20', daemon=daemon)
    first, = wait_for_clients(daemon, 1)
    goes = hardware.start('--load', '60', daemon=daemon)
    victim, = set(wait_for_clients(daemon, 2)) - {first}
    answer = daemon.ask('terminate_client %s %s' % (daemon.ask('get_server_list').split()[0], victim))
    ended, went_on = Result(goes), Result(stays)
    say('terminate_client', answer=answer, error=ended.json.get('error', {}).get('name'), neighbour=went_on.status)
    seen(24, 'error %s; the neighbour ended with status %d' % (ended.json.get('error', {}).get('code'), went_on.status))
    assert answer.split()[-1:] == ['0'], answer
    assert ended.status == 3 and ended.json['error']['code'] in (810, 806), ended
    assert went_on.status == 0, went_on


def second_gpu(hardware):
    """UUID of another GPU that CUDA sees, or None."""
    if hardware.facts['device']['visible'] < 2:
        return None
    other = hardware.probe('--no-memory', '--device', '1')
    return 'GPU-' + other.json['device']['uuid'] if other.status != 3 else None


def test_a_fault_stays_with_the_daemon_of_its_gpu(hardware, make_daemon):
    other_uuid = second_gpu(hardware)
    if not other_uuid:
        pytest.skip('needs two GPUs')
    mine, other = make_daemon(), make_daemon(other_uuid)
    bystander = hardware.start('--load', '10', daemon=other)
    wait_for_clients(other, 1)
    culprit = hardware.probe('--fault', daemon=mine)
    assert culprit.status == 0, culprit
    done = Result(bystander)
    say('fault on another GPU', bystander=done.status)
    seen(25, 'the other GPU\'s client ended with status %d' % done.status)
    assert done.status == 0, done


def test_mps_against_time_slicing(hardware, daemon):
    count = 4
    quarters = hardware.loads(*[{'daemon': daemon, 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '25'}] * count)
    free = hardware.loads(*[{'daemon': daemon}] * count)
    say('four clients of MPS at 25 %', gflops=' '.join('%.0f' % rate for rate in quarters))
    say('four clients of MPS without limits', gflops=' '.join('%.0f' % rate for rate in free))
    assert min(quarters) >= 0.8 * max(quarters), 'equal shares did unequal work: %s' % quarters
    if SIMULATED:
        return  # the simulated programs do not slow each other down without MPS
    sliced = hardware.loads(*[{}] * count)
    say('four programs by time-slicing', gflops=' '.join('%.0f' % rate for rate in sliced))
    say('MPS against time-slicing', at_25_percent='%.3f' % (sum(quarters) / sum(sliced)),
        without_limits='%.3f' % (sum(free) / sum(sliced)))
    seen(31, '%.3f with 25 %% each, %.3f without limits' % (sum(quarters) / sum(sliced), sum(free) / sum(sliced)))
    assert sum(quarters) > 0.5 * sum(sliced), 'MPS halves the throughput'


def test_one_client_too_many_gets_an_error(hardware, daemon):
    """How many fit is by architecture and driver; the number that was reached is the fact."""
    if SIMULATED:
        pytest.skip('the number is the simulator\'s own')
    clients = []
    refused = None
    try:
        while len(clients) < 64 and refused is None:
            clients.append(hardware.start('--load', '120', daemon=daemon))
            deadline = time.monotonic() + DEADLINE
            while time.monotonic() < deadline:
                if clients[-1].poll() is not None:
                    refused = Result(clients[-1])
                    break
                servers = daemon.ask('get_server_list').split()
                if servers and len(daemon.ask('get_client_list ' + servers[0]).split()) >= len(clients):
                    break
                time.sleep(0.05)
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
        for client in clients:
            try:
                client.communicate(timeout=DEADLINE)
            except (ValueError, subprocess.TimeoutExpired):
                pass
    say('clients until refusal', clients=len(clients) - (refused is not None),
        error=refused.json['error']['name'] if refused else 'none')
    seen(26, '%d, then %s' % (len(clients) - (refused is not None), refused.json['error']['name'] if refused else 'not refused yet'))
    assert refused is None or refused.json['error']['code'] in (808, 809, 2), refused
