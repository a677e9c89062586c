# SPDX-License-Identifier: Apache-2.0
"""Many devices, and a client that does not read."""
import os
import time

import pytest

import wire
from node import GPU, SANITIZED, sharing

GPUS = 16


@pytest.mark.parametrize('replicas', [625, 1000])
def test_10000_devices_and_more_are_listed_preferred_and_allocated(node, replicas):
    node.scenario([{'model': 'V100-32GB', 'count': GPUS, 'numa': 0}])
    kubelet = node.start_all(sharing('timeSlicing', replicas))
    node.wait_counts(GPUS * replicas)
    assert kubelet.messages_of(GPU)[0].size < 4 << 20
    ids = kubelet.ids(GPU)
    plugin = kubelet.plugin(GPU)
    chosen = plugin.prefer_ids(ids, GPUS, timeout=60)
    assert len({device.split('::')[0] for device in chosen}) == GPUS
    begun = time.monotonic()
    chosen = plugin.prefer_ids(ids, len(ids) // 2, timeout=60)
    took = time.monotonic() - begun
    print('GetPreferredAllocation: %d of %d in %.1f ms' % (len(chosen), len(ids), took * 1000))
    assert len(set(chosen)) == len(ids) // 2
    begun = time.monotonic()
    response, = plugin.allocate_ids(ids, timeout=60)
    print('Allocate: %d in %.1f ms' % (len(ids), (time.monotonic() - begun) * 1000))
    assert len(response.envs['NVIDIA_VISIBLE_DEVICES'].split(',')) == GPUS


def test_a_list_of_16000_devices_shrinks_to_16_and_grows_again_in_no_time(node):
    node.scenario([{'model': 'V100-32GB', 'count': GPUS}])
    kubelet = node.start_all(sharing('timeSlicing', 1000))
    node.wait_counts(GPUS * 1000)
    times = {1: [], 1000: []}
    for replicas in (1, 1000, 1, 1000):
        node.config(sharing('timeSlicing', replicas))
        node.agent.hang_up()
        node.wait_counts(GPUS * replicas, GPUS * 1000)
        # A request has to wait as long as the agent is busy with the lists.
        busy = [agent_pause(node, line) for line in ('resource name=', 'devices resource=')]
        print('%d replicas: the lists took %.0f ms' % (replicas, busy[1] - busy[0]))
        times[replicas].append(busy[1] - busy[0])
    # The machine may be busy, but not each time.
    assert SANITIZED or max(map(min, times.values())) < 300
    assert len(kubelet.registered) == 1


def agent_pause(node, text):
    """When the agent logged the last line with |text|, in milliseconds."""
    line = [line for line in node.agent.log().splitlines() if text in line][-1]
    hours, minutes, seconds = line.split('T')[1].split('Z')[0].split(':')
    return (int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000


def test_clients_that_do_not_read_cost_bounded_memory_and_delay_no_other(node):
    gpus = [{'model': 'V100-32GB', 'count': GPUS}]
    node.scenario(gpus)
    kubelet = node.start_all(sharing('timeSlicing', 1000))
    node.wait_counts(GPUS * 1000)
    path = os.path.join(node.directory, node.sockets()[0])
    before = node.agent.memory_kib()
    slow = []
    for _ in range(8):
        # All windows open, so that nothing but the socket's own buffer holds the agent back.
        connection = wire.connect(path)
        slow.append(connection)
        connection.sendall(wire.PREFACE + wire.settings(initial_window_size=2 ** 31 - 1) +
                           wire.window_update(0, 2 ** 31 - 65536) + b''.join(
                               wire.call('ListAndWatch', stream) for stream in range(1, 41, 2)))
    events = []
    for position in range(GPUS):
        sent = len(kubelet.messages)
        events.append({'gpu': position, 'xid': 79})
        node.scenario(gpus, events=events)
        # kubelet's own stream goes on, and so do requests.
        node.wait(lambda: len(kubelet.messages) > sent, 'kubelet heard of GPU %d' % position)
        kubelet.plugin(GPU).allocate_ids(kubelet.ids(GPU)[:1])
    # Now they return, each with a list of its own or several together.
    node.wait_counts(GPUS * 1000)
    lists = len(kubelet.messages)
    grown = node.agent.memory_kib() - before
    size = kubelet.messages[-1].size // 1024
    print('160 streams that nobody reads: %d KiB more after %d lists of %d KiB' % (grown, lists, size))
    # At any time there are three for all together: the one on its way, the newest, and the one that is being made. In every
    # stream they would be 450 MiB, and all that ever were some 20.
    assert lists >= GPUS
    assert SANITIZED or grown < 8 * size
    assert len(kubelet.registered) == 1
    for connection in slow:
        connection.close()
