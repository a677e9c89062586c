# SPDX-License-Identifier: Apache-2.0
"""kubelet restarts, disappears, is slow, refuses, or behaves oddly: the resource comes back each time with the same ids."""
import os
import shutil
import socket
import subprocess
import time

import grpc
import pytest

import deviceplugin_pb2 as pb
from kubelet import Plugin
from node import GPU, SANITIZED, fast, sharing


@pytest.fixture
def served(node):
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    node.ids_at_first = set(node.kubelet.ids(GPU))
    return node


def is_back(node, timeout=None):
    took = node.wait_counts(80) if timeout is None else node.wait_counts(80, timeout=timeout)
    assert set(node.kubelet.ids(GPU)) == node.ids_at_first
    return took


def test_a_restarted_kubelet_has_the_devices_back_within_a_moment(served):
    times = []
    for _ in range(3):
        served.kubelet.restart()
        times.append(is_back(served))
    print('allocatable again after ' + ', '.join('%.0f ms' % (took * 1000) for took in times))
    # The machine may be busy, but not each time.
    assert SANITIZED or min(times) < 1.0
    assert len(served.sockets()) == 1
    served.kubelet.admit('pod', GPU, 1)


def test_kubelets_socket_is_replaced_while_the_old_kubelet_still_holds_its_connections(served):
    # Two kubelets do not live at the same time, but the old one's connections may outlive its socket.
    old = served.kubelet
    new = type(old)(served.directory)
    served.kubelet = new
    try:
        new.start(clean=False)
        is_back(served)
    finally:
        old.stop(remove_socket=False)
    served.stays(lambda: new.allocatable(GPU) == 80, '80 allocatable')


def test_ten_restarts_in_a_row_leave_one_socket_and_one_registration_each(served):
    for _ in range(10):
        registered = len(served.kubelet.registered)
        served.kubelet.restart()
        is_back(served)
        assert len(served.kubelet.registered) == registered + 1
    assert len(served.sockets()) == 1


def test_the_directory_is_emptied_as_old_kubelets_do_with_everything_in_it(served):
    with open(os.path.join(served.directory, 'kubelet_internal_checkpoint'), 'w', encoding='ascii') as file:
        file.write('{}')
    served.kubelet.stop()
    for name in os.listdir(served.directory):
        os.unlink(os.path.join(served.directory, name))
    served.kubelet.start(clean=False)
    is_back(served)


def test_the_directory_is_removed_and_made_again(served):
    served.kubelet.stop()
    shutil.rmtree(served.directory)
    served.agent.wait_log('kubelet.s socket is gone|not serving yet')
    os.mkdir(served.directory, 0o750)
    served.kubelet.start()
    is_back(served)
    served.kubelet.restart()
    is_back(served)


def test_configurations_that_change_while_the_directory_is_away_are_served_when_it_is_back(served):
    """Each plan goes with the next but one, and nobody may still look at it by then."""
    served.kubelet.stop()
    shutil.rmtree(served.directory)
    served.agent.wait_log('not serving yet')
    for replicas in (10, 5, 4, 3):
        served.config(sharing('mps', replicas))
        served.agent.wait_plan(4 * replicas)
    os.mkdir(served.directory, 0o750)
    served.kubelet.start()
    served.wait(lambda: served.kubelet.allocatable(GPU) == 12, 'the newest configuration is served')


def test_the_directory_is_replaced_by_another_one_at_once(served):
    served.kubelet.stop()
    os.rename(served.directory, served.directory + '.old')
    os.mkdir(served.directory, 0o750)
    served.kubelet.start()
    is_back(served)
    served.agent.wait_log("kubelet's directory was removed or replaced")


def test_kubelet_is_gone_for_a_while_and_the_agent_waits_quietly(served):
    served.kubelet.stop()
    served.agent.wait_log("kubelet's socket is gone")
    lines = served.agent.log().count('\n')
    time.sleep(1.5)
    assert served.agent.log().count('\n') - lines <= 3, served.agent.log()
    served.kubelet.start()
    is_back(served)


def test_a_stale_socket_without_a_listener_is_waited_out(node):
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(node.kubelet.socket)
    stale.close()
    node.config(sharing('mps', 20))
    agent = node.start()
    agent.wait_log('registration with kubelet failed, will try again .*Connection refused')
    node.kubelet.start()
    node.wait_counts(80)


def test_an_agent_that_is_there_before_kubelet_registers_as_soon_as_it_comes(node):
    os.rmdir(node.directory)
    node.config(sharing('mps', 20))
    agent = node.start()
    agent.wait_log('not serving yet .*No such file or directory')
    os.mkdir(node.directory, 0o750)
    node.kubelet.start()
    node.wait_counts(80)


def test_kubelet_answers_register_after_three_seconds(node):
    node.kubelet.register_delay = 3.0
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    assert len(kubelet.attempts) == 1


def test_kubelet_that_never_answers_register_is_given_up_after_twenty_seconds_and_asked_again(node):
    kubelet = node.kubelet
    kubelet.register_delay = 7.0  # 28 s of the agent's
    kubelet.start()
    node.environment.update(fast())
    node.config(sharing('mps', 20))
    agent = node.start()
    node.wait(lambda: kubelet.attempts, 'Register was called')
    kubelet.register_delay = 0.0
    node.wait_counts(80, timeout=60)
    agent.wait_log('registration with kubelet failed, will try again .*DeadlineExceeded')
    assert (kubelet.attempts[1][0] - kubelet.attempts[0][0]) * 4 > 15.0
    node.stays(lambda: kubelet.allocatable(GPU) == 80, '80 allocatable although the first call is answered now', 3.0)


def test_kubelet_that_restarts_while_it_is_slow_is_registered_with_again(node):
    node.kubelet.register_delay = 20.0
    node.kubelet.start()
    node.config(sharing('mps', 20))
    node.start()
    node.wait(lambda: node.kubelet.attempts, 'Register was called')
    node.kubelet.register_delay = 0.0
    node.kubelet.restart()
    node.wait_counts(80, timeout=10 if not SANITIZED else 30)


def test_kubelet_that_refuses_is_asked_again_ever_more_slowly_and_the_reason_is_logged_once(node):
    kubelet = node.kubelet
    kubelet.refusal = 'the ResourceName "nvidia.com/gpu" is invalid'
    kubelet.start()
    node.config(sharing('mps', 20))
    agent = node.start()
    node.wait(lambda: len(kubelet.attempts) >= 5, 'five attempts')
    gaps = [later[0] - sooner[0] for sooner, later in zip(kubelet.attempts, kubelet.attempts[1:])]
    # 100, 200, 400, 800 ms, each give or take a fifth.
    assert all(gap > expected * 0.75 for gap, expected in zip(gaps, (0.1, 0.2, 0.4, 0.8))), gaps
    assert agent.count('registration with kubelet failed') == 1
    agent.wait_log('error="?Register on .*Unknown: the ResourceName .*nvidia.com/gpu.* is invalid')
    assert len(node.sockets()) <= 1
    kubelet.refusal = None
    node.wait_counts(80)


def test_a_stream_that_kubelet_closes_is_back_at_once(served):
    kubelet = served.kubelet
    kubelet.close_stream(GPU)
    served.wait(lambda: kubelet.allocatable(GPU) == 0, 'kubelet noticed')
    assert is_back(served) < 8.0  # after ten seconds an agent that had not seen it would register again
    assert len(kubelet.registered) == 2


def test_another_reader_of_the_list_is_not_taken_for_kubelet(served):
    """A tool that looks at the socket: what counts is the stream that was opened first."""
    kubelet = served.kubelet
    reader = Plugin(kubelet.plugin(GPU).path)
    try:
        stream = reader.list_and_watch(pb.Empty())
        assert len(next(stream).devices) == 80
        kubelet.close_stream(GPU)
        served.wait(lambda: len(kubelet.registered) == 2, 'the second registration')
        is_back(served)
    finally:
        reader.close()


def test_another_reader_of_the_list_may_leave(served):
    kubelet = served.kubelet
    reader = Plugin(kubelet.plugin(GPU).path)
    assert len(next(reader.list_and_watch(pb.Empty())).devices) == 80
    reader.close()
    served.stays(lambda: len(kubelet.registered) == 1 and kubelet.allocatable(GPU) == 80, 'one registration', 1.0)


def test_a_stream_that_kubelet_closes_before_it_answers_register_is_reported_and_registered_again(node):
    kubelet = node.kubelet
    kubelet.answer_delay = 1.0
    kubelet.start()
    node.config(sharing('mps', 20))
    agent = node.start()
    node.wait_counts(80)
    kubelet.close_stream(GPU)
    node.wait(lambda: kubelet.ended, 'the stream ended')
    kubelet.answer_delay = 0.0
    agent.wait_log('kubelet closed the device list, registering again')
    node.wait_counts(80)
    assert len(kubelet.registered) == 2


def test_a_kubelet_that_closes_every_stream_is_registered_with_ever_more_slowly(served):
    kubelet = served.kubelet
    for n in range(1, 6):
        served.wait(lambda: len(kubelet.registered) == n and kubelet.allocatable(GPU) == 80, 'registration %d' % n)
        kubelet.close_stream(GPU)
        served.wait(lambda: len(kubelet.ended) == n, 'the stream ended')
    is_back(served)
    times = [entry[0] for entry in kubelet.registered]
    gaps = [later - sooner for sooner, later in zip(times, times[1:])]
    assert all(gap > expected * 0.75 for gap, expected in zip(gaps, (0.1, 0.2, 0.4, 0.8, 1.6))), gaps


def test_a_kubelet_that_never_opens_the_stream_is_registered_with_again_after_ten_seconds(node):
    node.kubelet.opens_stream = False
    node.kubelet.start()
    node.config(sharing('mps', 20))
    node.environment.update(fast())
    node.start()
    kubelet = node.kubelet
    node.wait(lambda: len(kubelet.registered) == 1, 'the first registration')
    kubelet.opens_stream = True
    node.wait_counts(80)
    assert (kubelet.registered[1][0] - kubelet.registered[0][0]) * 4 > 9.0
    node.agent.wait_log('warn  kubelet answered Register and did not open ListAndWatch, registering again resource=%s times=1' % GPU)


def test_old_streams_end_before_the_plugin_registers_again(served):
    # A stream that breaks and one that ends with status OK are the same to kubelet, but only one of them is polite.
    kubelet = served.kubelet
    served.agent.stop()
    served.wait(lambda: kubelet.ended, 'the stream ended')
    assert kubelet.ended[0][2] == grpc.StatusCode.OK
    assert kubelet.allocatable(GPU) == 0 and kubelet.capacity(GPU) == 80


def test_an_agent_stranded_on_a_removed_mount_leaves(node):
    """In a container, kubelet's directory is a mount of the host's: once that one is removed, only a new container sees the next."""
    on_host = os.path.join(node.folder, 'on-host')
    os.mkdir(on_host)
    prefix = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
              'mount --bind "$1" "$2" && shift 2 && exec "$@"', 'sh', on_host, node.directory]
    if subprocess.run([*prefix, 'true'], capture_output=True, check=False).returncode:
        pytest.skip('no right to make a mount namespace')
    agent = node.start(prefix=prefix)
    agent.wait_until(lambda: agent.page()['gpus'], 'its GPUs are known')
    os.rmdir(on_host)
    agent.fails("error kubelet's directory was removed on the host")
