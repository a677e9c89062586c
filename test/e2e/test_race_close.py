# SPDX-License-Identifier: Apache-2.0
"""The race of two registrations under one name, see race.py: within one life of the agent."""
import random
import time

import race
from node import GPU, sharing


@race.KUBELETS
def test_a_resource_is_renamed_there_and_back_in_quick_succession(node, keyed_by, cleanup_delay):
    race.start(node, keyed_by, cleanup_delay)
    renamed = sharing('mps', 20)
    renamed['sharing']['mps']['resources'][0]['rename'] = 'nvidia.com/gpu.small'
    for i, config in enumerate((renamed, sharing('mps', 20), renamed, sharing('mps', 20))):
        node.config(config)
        node.agent.hang_up()
        # Each plan in force, none settled; together they would be read as one.
        node.agent.wait_log(r'info  resource name=\S+ sharing=mps', count=i + 2)
    race.settles(node)
    assert node.kubelet.allocatable('nvidia.com/gpu.small') == 0


@race.KUBELETS
def test_a_kubelet_that_closes_streams_at_random_for_a_while(node, keyed_by, cleanup_delay):
    race.start(node, keyed_by, cleanup_delay)
    generator = random.Random(7)
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        node.kubelet.close_stream(GPU)
        time.sleep(generator.uniform(0.0, 0.3))
    race.settles(node)


def test_kubelet_closes_the_first_stream_before_it_has_answered_register(node):
    # The clean-up after the old stream meets the new plugin in the middle of its registration.
    kubelet = node.kubelet
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    kubelet.cleanup_delay = 0.02
    for _ in range(5):
        kubelet.close_stream(GPU)
    race.settles(node)
