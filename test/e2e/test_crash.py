# SPDX-License-Identifier: Apache-2.0
"""The parent of the agent: what a signal ends is started again at once."""
import os
import signal
import subprocess

import pytest

from cluster import cluster  # noqa: F401 -- a fixture
from node import GPU, sharing

KEPT = '--restart-after-crash=always'


def child_of(pid):
    """The one child of a process, None where there is none at the moment."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        return int((file.read().split() or [0])[0]) or None


def stop(agent):
    """By the parent, which listens to signals in a way that /proc does not tell."""
    os.kill(agent.pid, signal.SIGTERM)
    return agent.wait()


def crash(node, number=signal.SIGKILL):
    pid = child_of(node.agent.pid)
    os.kill(pid, number)
    node.wait(lambda: child_of(node.agent.pid) not in (None, pid), 'another agent runs')


def test_an_agent_that_is_killed_is_back_and_keeps_what_was_promised(node, cluster):
    kubelet = node.start_all(sharing('timeSlicing', 4), KEPT, *cluster.options())
    held = kubelet.admit('train', GPU, 2)
    crash(node)
    node.wait(lambda: kubelet.allocatable(GPU) == 16, 'all devices are healthy at kubelet again')
    assert cluster.wait_event('AgentRestarted')['type'] == 'Warning'
    crash(node, signal.SIGABRT)
    node.wait(lambda: kubelet.allocatable(GPU) == 16, 'all devices are healthy at kubelet again')
    assert held[0] and kubelet.admit('other', GPU, 1)
    assert stop(node.agent) == 0


def test_a_refused_configuration_ends_parent_and_all(node):
    node.config('version: v1\nsharing: 5\n')
    node.kubelet.start()
    agent = node.start(KEPT)
    agent.expected_status = 1
    assert agent.wait() == 1
    assert 'event=AgentRestarted' not in agent.log()


def test_a_hang_up_of_the_parent_reads_the_configuration_again(node):
    node.start_all(sharing('timeSlicing', 4), KEPT)
    os.kill(node.agent.pid, signal.SIGHUP)
    node.agent.wait_log('signal received signal=Hangup')
    assert stop(node.agent) == 0


@pytest.mark.skipif(os.geteuid() != 0 or subprocess.run(['unshare', '--pid', '--fork', 'true'], check=False).returncode != 0,
                    reason='PID namespaces cannot be made here')
def test_as_the_first_process_of_a_container_it_has_a_parent_without_being_asked(node):
    node.config(sharing('timeSlicing', 4))
    node.kubelet.start()
    outer = node.start(prefix=('unshare', '--pid', '--fork', '--kill-child'))
    node.wait(lambda: node.kubelet.allocatable(GPU) == 16, 'the devices are healthy')
    parent = child_of(outer.pid)
    pid = child_of(parent)
    os.kill(pid, signal.SIGABRT)
    outer.wait_log('event=AgentRestarted signal=Aborted times=1')
    node.wait(lambda: node.kubelet.allocatable(GPU) == 16, 'the devices are healthy again')
    os.kill(parent, signal.SIGTERM)
    assert outer.wait() == 0
