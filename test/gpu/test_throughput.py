# SPDX-License-Identifier: Apache-2.0
"""What MPS gains over time-slicing: kernels that compute, copy or are only launched, in small, medium and large grids, by several clients.

Each client runs all nine loads, all clients the same one at the same time; what counts is what they do together. tools/gpu makes a table
and a picture of it.
"""
import time

import pytest

from hardware import HEAD_START, SIMULATED, Result, note, say
from hardware import daemon, hardware, make_daemon  # noqa: F401 -- fixtures

SECONDS = 1
CLIENTS = (1, 2) if SIMULATED else (1, 2, 4, 8)


def sweep(hardware, count, daemon=None):
    """(kernel, grid) → (unit, each client's rate)."""
    begin = '%.3f' % (time.time() + HEAD_START)
    started = [hardware.start('--sweep', str(SECONDS), '--begin-at', begin, daemon=daemon) for _ in range(count)]
    found = {}
    for done in [Result(process) for process in started]:
        assert done.status == 0, done
        for load in done.json['sweep']:
            found.setdefault((load['kernel'], load['grid']), (load['unit'], []))[1].append(load['rate'])
    return found


@pytest.mark.parametrize('count', CLIENTS)
@pytest.mark.parametrize('mode', ['MPS', 'time-slicing'])
def test_throughput_of_clients_together(hardware, request, mode, count):
    found = sweep(hardware, count, request.getfixturevalue('daemon') if mode == 'MPS' else None)
    assert len(found) == 9
    for (kernel, grid), (unit, rates) in found.items():
        say('%d by %s, %s, %s grid' % (count, mode, kernel, grid), unit=unit, rates=' '.join('%.1f' % rate for rate in rates))
        note(mode=mode, clients=count, kernel=kernel, grid=grid, unit=unit, rates=rates)
        assert len(rates) == count and min(rates) > 0, rates
