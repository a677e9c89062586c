# SPDX-License-Identifier: Apache-2.0
"""The race of two registrations under one name, see race.py: the agent ends and starts again."""
import race


@race.KUBELETS
def test_an_agent_that_is_stopped_and_started_again_at_once(node, keyed_by, cleanup_delay):
    race.start(node, keyed_by, cleanup_delay)
    for _ in range(3):
        node.agent.signal(15)
        node.start()
        assert node.agents[-2].wait() == 0
    race.settles(node)


@race.KUBELETS
def test_an_agent_that_is_killed_and_started_again_at_once(node, keyed_by, cleanup_delay):
    race.start(node, keyed_by, cleanup_delay)
    for _ in range(3):
        node.agent.expected_status = -9
        node.agent.signal(9)
        node.start()
        node.agents[-2].wait()
    race.settles(node)
    assert len(node.sockets()) == 1
