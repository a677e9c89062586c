# SPDX-License-Identifier: Apache-2.0
"""`warpshare mps` on this machine's GPU: its daemon's limits are in force, it is repaired, it ends nobody by mistake."""
import ctypes
import os
import signal
import tempfile
import time

import pytest

from hardware import CONTEXT_MIB, SM_TOLERANCE, Result, say, seen
from hardware import hardware  # noqa: F401 -- a fixture
from supervisor import supervisor  # noqa: F401


def is_ready(daemon):
    return daemon['state'] == 'ready'


def test_limits_that_were_applied_are_in_force(hardware, supervisor):
    limit = hardware.facts['memory']['totalMib'] // 5
    supervisor.apply(300, limit)
    daemon = supervisor.wait(is_ready, 'ready')
    say('applied', threads_permille=daemon.get('threadsPermille'), limit_mib=daemon.get('limitMib'), tier=daemon.get('tier'))
    # The control daemon shows whole GiB only, rounded down, from one GiB on.
    assert daemon['threadsPermille'] == 300 and daemon['limitMib'] in (limit, limit >> 10 << 10), daemon
    done = hardware.probe('--memory', str(limit + 64), daemon=supervisor)
    sms = done.json['multiprocessors']['reported']
    say('client', allocated=done.json['memory']['allocatedMib'], sms=sms)
    assert limit - CONTEXT_MIB <= done.json['memory']['allocatedMib'] <= limit, done
    assert abs(sms - hardware.facts['multiprocessors']['reported'] * 3 // 10) <= SM_TOLERANCE, done


def test_what_is_in_force_for_a_client_is_reported(hardware, supervisor):
    limit = hardware.facts['memory']['totalMib'] // 5
    supervisor.apply(300, limit)
    supervisor.wait(is_ready, 'ready')
    load = hardware.start('--load', '20', daemon=supervisor)
    daemon = supervisor.wait(lambda daemon: daemon.get('clients') and daemon['clients'][0].get('limitMib'),
                             'a client with its limits')
    say('client as reported', **daemon['clients'][0])
    client = daemon['clients'][0]
    assert Result(load).status == 0
    assert abs(client['threadsPermille'] - 300) <= 10 and client['limitMib'] <= limit, client


def test_a_killed_control_daemon_is_replaced(hardware, supervisor):
    supervisor.apply(1000, 0)
    first = supervisor.wait(is_ready, 'ready')['pid']
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    daemon = supervisor.wait(lambda daemon: is_ready(daemon) and daemon['pid'] != first, 'ready with a new process')
    say('control daemon replaced', seconds='%.1f' % (time.monotonic() - began), restarts=daemon['restarts'])
    done = hardware.probe('--no-memory', daemon=supervisor)
    assert done.status == 0, '%s\n%s' % (done, supervisor.log())


def test_a_client_of_no_container_is_left_alone(hardware, supervisor):
    supervisor.apply(1000, 0)
    supervisor.wait(is_ready, 'ready')
    load = hardware.start('--load', '20', daemon=supervisor)
    client = supervisor.wait(lambda daemon: daemon.get('clients'), 'a client')['clients'][0]
    answer = supervisor.terminate(client)
    done = Result(load)
    say('terminate', answer=answer, client=done.status)
    assert client.get('containerId') or not answer['ok'], answer
    assert done.status == (3 if answer['ok'] else 0), done


# ---- driver 615 ----

NO_LIMIT = (1 << 64) - 1
CGROUPS = '/sys/fs/cgroup'


def test_a_namespace_limits_its_clients(hardware, supervisor):
    """And a client that names none has the limits of the daemon, which are those of the largest share."""
    limit = hardware.facts['memory']['totalMib'] // 10
    supervisor.apply(600, limit * 6, 'half', 'namespace')
    daemon = supervisor.wait(is_ready, 'ready')
    if daemon['tier'] != 'namespace':
        pytest.skip('MPS namespaces need driver 615; here the tier is ' + daemon['tier'])
    answer = supervisor.call(do='grant', grant={'id': 'g1', 'daemon': supervisor.name, 'unit': hardware.uuid,
                                                'threadsPermille': 200, 'limitMib': limit})
    assert answer['ok'] and answer['granted']['tier'] == 'namespace', answer
    inside = hardware.probe('--memory', str(limit + 64), daemon=supervisor,
                            CUDA_MPS_PIPE_DIRECTORY=os.path.join(supervisor.folder, answer['granted']['pipe']))
    say('in a namespace', limit=limit, allocated=inside.json['memory']['allocatedMib'],
        sms=inside.json['multiprocessors']['reported'])
    seen(5, '20 %% and %d MiB: %d SMs, %d MiB' % (
        limit, inside.json['multiprocessors']['reported'], inside.json['memory']['allocatedMib']))
    beside = hardware.probe('--memory', str(limit * 6 + 64), daemon=supervisor)
    say('beside it', limit=limit * 6, allocated=beside.json['memory']['allocatedMib'],
        sms=beside.json['multiprocessors']['reported'])
    seen(4, '%d SMs, %d MiB of %d' % (
        beside.json['multiprocessors']['reported'], beside.json['memory']['allocatedMib'], limit * 6))
    sms = hardware.facts['multiprocessors']['reported']
    assert limit - CONTEXT_MIB <= inside.json['memory']['allocatedMib'] <= limit, inside
    assert abs(inside.json['multiprocessors']['reported'] - sms // 5) <= SM_TOLERANCE, inside
    assert limit * 6 - CONTEXT_MIB <= beside.json['memory']['allocatedMib'] <= limit * 6, beside
    assert abs(beside.json['multiprocessors']['reported'] - sms * 6 // 10) <= SM_TOLERANCE, beside


class Limits(ctypes.Structure):
    """nvmlGetMemoryLimits_v1_t; what is set is the same without the last."""
    _fields_ = [('name_space', ctypes.c_char_p), ('soft', ctypes.c_ulonglong), ('hard', ctypes.c_ulonglong),
                ('used', ctypes.c_ulonglong)]


def limits_of(hardware):
    """The device, and NVML, if it has the two calls; else the test is skipped."""
    try:
        nvml = ctypes.CDLL('libnvidia-ml.so.1')
    except OSError as error:
        pytest.skip('no NVML: %s' % error)
    if not hasattr(nvml, 'nvmlDeviceSetMemoryLimits_v1'):
        pytest.skip('memory limits of cgroups need driver 615')
    device = ctypes.c_void_p()
    assert nvml.nvmlInit_v2() == 0
    assert nvml.nvmlDeviceGetHandleByUUID(hardware.uuid.encode(), ctypes.byref(device)) == 0
    return nvml, device


def test_a_cgroup_limits_its_processes_together(hardware):
    """With two programs in one cgroup, each of which alone would be within the limit."""
    nvml, device = limits_of(hardware)
    limit = hardware.facts['memory']['totalMib'] // 5
    if os.geteuid() or not os.path.exists(CGROUPS + '/cgroup.controllers'):
        pytest.skip('needs root and cgroup v2')
    folder = tempfile.mkdtemp(prefix='warpshare-', dir=CGROUPS)
    try:
        wanted = Limits(folder.encode(), 0, limit << 20)
        code = nvml.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(wanted))
        if code:
            pytest.skip('the driver takes no memory limit here: NVML error %d' % code)
        found = Limits(folder.encode())
        assert nvml.nvmlDeviceGetMemoryLimits_v1(device, ctypes.byref(found)) == 0
        say('limit of a cgroup', mib=limit, soft=found.soft, hard=found.hard, used=found.used)
        assert (found.soft, found.hard) == (0, limit << 20)
        first = hardware.start('--memory', str(limit * 2 // 3), '--load', '20', cgroup=folder)
        time.sleep(10)
        second = hardware.probe('--memory', str(limit * 2 // 3), cgroup=folder)
        assert Result(first).status == 0
        say('two programs in it', total_told=second.json['memory']['totalMib'], second=second.json['memory']['allocatedMib'])
        seen(2, 'limit %d MiB: reads back %d, CUDA tells %d' % (limit, found.hard >> 20, second.json['memory']['totalMib']))
        seen(3, 'beside %d MiB of another program, %d MiB could be had' % (limit * 2 // 3, second.json['memory']['allocatedMib']))
        assert second.json['memory']['allocatedMib'] <= limit // 3, second
        assert second.json['memory']['totalMib'] <= limit, second
        none = Limits(folder.encode(), 0, NO_LIMIT)
        assert nvml.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(none)) == 0
    finally:
        os.rmdir(folder)
        nvml.nvmlShutdown()
