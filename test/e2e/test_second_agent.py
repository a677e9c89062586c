"""A second agent on the same node, by mistake."""
from node import GPU, SANITIZED, sharing

BUSY = r"not serving yet reason=\"another warpshare agent holds the lock on '%s'; taking over when it ends\""


def test_it_does_not_register_says_why_and_takes_over_when_the_first_one_ends(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    first, second = node.agent, node.start()
    second.wait_log(BUSY % node.directory)
    second.wait_log('resource name=nvidia.com/gpu')
    kubelet.admit('pod', GPU, 1)
    assert len(kubelet.attempts) == 1 and len(node.sockets()) == 1
    assert first.stop() == 0
    took = node.wait_counts(80)
    print('taken over after %.0f ms' % (took * 1000))
    assert SANITIZED or took < 2.0
    assert second.count('not serving yet') == 1
    kubelet.admit('pod-2', GPU, 1)


def test_it_takes_over_from_one_that_was_killed_and_removes_what_that_left(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    first, second = node.agent, node.start()
    second.wait_log(BUSY % node.directory)
    first.kill()
    node.wait(lambda: len(kubelet.registered) == 2, 'the second one registered')
    node.wait_counts(80)
    assert node.sockets() == [kubelet.registered[-1][1]]


def test_it_stays_quiet_while_kubelet_restarts(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    second = node.start()
    second.wait_log(BUSY % node.directory)
    kubelet.restart()
    node.wait_counts(80)
    node.stays(lambda: kubelet.allocatable(GPU) == 80 and len(kubelet.registered) == 2, 'one registration', 1.0)


def test_it_commands_no_mps_daemon_until_it_serves(node):
    kubelet = node.start_all(sharing('mps', 20))
    first = node.agent
    node.config(sharing('mps', 10))
    node.wait(lambda: kubelet.allocatable(GPU) == 40, 'the first one serves the new configuration')
    second = node.start()
    commanded = node.mps.generation
    second.wait_log('resource name=nvidia.com/gpu .*devices=40')
    node.stays(lambda: node.mps.generation == commanded and kubelet.allocatable(GPU) == 40, 'what the first one commanded', 1.0)
    first.kill()
    node.wait(lambda: node.mps.generation > commanded, 'the second one commands')
    node.wait(lambda: kubelet.allocatable(GPU) == 40, 'the second one serves')


def test_it_leaves_when_it_is_told_to(node):
    kubelet = node.start_all(sharing('mps', 20))
    second = node.start()
    second.wait_log(BUSY % node.directory)
    assert second.stop() == 0
    assert kubelet.allocatable(GPU) == 80 and len(kubelet.attempts) == 1
