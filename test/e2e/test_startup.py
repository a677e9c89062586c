# SPDX-License-Identifier: Apache-2.0
"""What happens where NVML, or a GPU, is missing, late or stuck at start."""
import os
import signal
import time
import subprocess

import pytest

from node import GPU, SANITIZED, WARPSHARE, sharing, v100s


@pytest.fixture
def patient(node):
    """A node whose agent waits for GPUs instead of leaving."""
    node.environment['FAIL_ON_INIT_ERROR'] = 'false'
    node.config(sharing('mps', 20))
    node.kubelet.start()
    return node


def test_without_a_library_the_agent_says_so_and_leaves(node):
    node.library = os.path.join(node.folder, 'libnvidia-ml.so.1')
    node.kubelet.start()
    agent = node.start()
    agent.fails(r'error NVML cannot be used \(failOnInitError: false would wait\) reason=".*%s.*' % node.library)
    assert node.kubelet.attempts == []


def test_a_file_that_is_no_library_is_named(node):
    node.library = os.path.join(node.folder, 'text')
    node._write(node.library, 'not ELF\n')
    agent = node.start()
    agent.fails('NVML cannot be used .*%s' % node.library)


def test_a_library_that_is_not_nvml_is_named(node):
    node.library = next(path for path in (
        '/lib/%s-linux-gnu/libm.so.6' % os.uname().machine, '/usr/lib64/libm.so.6', '/usr/lib/libm.so.6')
        if os.path.exists(path))
    agent = node.start()
    agent.fails('NVML cannot be used .*nvmlInit')


def test_a_driver_that_is_not_loaded_ends_the_agent_with_status_1(node):
    node.scenario(v100s(), init={'error': 'DRIVER_NOT_LOADED'})
    agent = node.start()
    agent.fails('NVML cannot be used .*the NVIDIA driver is not loaded')


def test_the_agent_waits_for_the_driver_where_it_may_and_finds_the_gpus_when_they_come(patient):
    patient.scenario(v100s(), init={'error': 'DRIVER_NOT_LOADED'})
    agent = patient.start()
    agent.wait_log('warn  NVML cannot be used, will try again reason=.*the NVIDIA driver is not loaded')
    assert patient.kubelet.attempts == []
    patient.scenario(v100s())
    patient.wait_counts(80)
    assert agent.count('NVML cannot be used') == 1


def test_the_agent_waits_for_the_library_where_it_may(patient):
    library = patient.library
    patient.library = os.path.join(patient.folder, 'libnvidia-ml.so.1')
    agent = patient.start()
    agent.wait_event('GPUsUnavailable')
    os.symlink(library, patient.library)
    patient.wait_counts(80)


def test_a_hang_up_makes_the_waiting_agent_look_at_once(patient):
    patient.scenario(v100s(), init={'error': 'DRIVER_NOT_LOADED'})
    agent = patient.start()
    agent.wait_event('GPUsUnavailable')
    # Looks are at 0, 1, 3, 7 and 15 s: now nobody looks for about seven seconds.
    patient.stays(lambda: not patient.kubelet.attempts, 'nothing is registered', 7.5)
    patient.scenario(v100s())
    agent.hang_up()
    assert SANITIZED or patient.wait_counts(80) < 5.0


def test_zero_gpus_are_no_error_and_the_first_one_is_picked_up(patient):
    patient.scenario([])
    agent = patient.start()
    agent.wait_log('No devices found. Waiting indefinitely.')
    assert patient.kubelet.attempts == []
    patient.scenario(v100s(1))
    patient.wait_counts(20)


def test_a_slow_driver_delays_the_start_and_nothing_else(patient):
    patient.scenario(v100s(), init={'delay': '1500ms'})
    patient.start()
    patient.wait_counts(80)


def test_a_call_that_hangs_does_not_delay_a_request(node):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    node.scenario(v100s(delays={'nvmlDeviceGetMemoryInfo': '300s'}))
    node.agent.reload()
    for i in range(20):
        kubelet.admit('pod-%d' % i, GPU, 1)
    kubelet.restart()
    node.wait_counts(80)


def test_a_call_that_hangs_does_not_keep_the_agent_from_leaving(node):
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    node.scenario(v100s(delays={'nvmlDeviceGetMemoryInfo': '300s', 'nvmlDeviceGetUUID': '300s'}))
    node.agent.reload()
    node.stays(lambda: node.kubelet.allocatable(GPU) == 80, '80 allocatable', 1.5)
    began = time.monotonic()
    assert node.agent.stop() == 0
    assert time.monotonic() - began < 10, 'it waits for no call'


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_the_agent_while_it_is_still_searching(patient, number):
    patient.scenario(v100s(), init={'error': 'DRIVER_NOT_LOADED'})
    agent = patient.start()
    agent.wait_event('GPUsUnavailable')
    agent.signal(number)
    assert agent.wait() == 0


def test_a_signal_ends_the_agent_while_register_is_not_answered(patient):
    patient.kubelet.register_delay = 20.0
    agent = patient.start()
    patient.wait(lambda: patient.kubelet.attempts, 'Register was called')
    assert agent.stop() == 0
    assert patient.sockets() == []


def test_a_signal_ends_the_agent_while_it_is_backing_off(patient):
    patient.kubelet.refusal = 'no'
    agent = patient.start()
    patient.wait(lambda: len(patient.kubelet.attempts) == 4, 'four attempts')
    assert agent.stop() == 0
    assert patient.sockets() == []


def test_a_signal_ends_the_agent_while_there_is_no_kubelet(patient):
    patient.kubelet.stop()
    agent = patient.start()
    agent.wait_plan(80)
    assert agent.stop() == 0


def test_a_signal_ends_the_agent_while_streams_are_open_and_leaves_no_socket(patient):
    agent = patient.start()
    patient.wait_counts(80)
    assert agent.stop() == 0
    assert patient.sockets() == []


@pytest.mark.skipif(SANITIZED, reason='the sanitizers want to be loaded first')
@pytest.mark.parametrize('words', [
    ['agent'], ['nvidia-device-plugin'], ['mps', '--mps-directory', '/proc/nowhere'],
    ['mps-control-daemon', '--config-file', '', '--mps-directory', '/proc/nowhere'], ['gpu-feature-discovery'],
    ['config-manager', '--node-name', 'n', '--node-label', 'l', '--config-file-srcdir', '/nowhere', '--config-file-dst', '/nowhere'],
], ids=lambda words: words[0])
def test_a_signal_that_comes_before_all_else_does_not_end_the_program(words):
    """It goes on to what it cannot do here."""
    environment = {'LD_PRELOAD': os.environ['WARPSHARE_EARLY_SIGNAL'], 'CONFIG_FILE': '/nowhere/config.yaml'}
    done = subprocess.run([WARPSHARE, *words], env=environment, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert 'SIGHUP\n' in done.stderr, done.stderr
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert 'cannot start' in done.stderr or 'configuration refused' in done.stderr, done.stderr


@pytest.mark.parametrize('spare', (1, 2, 3, 5))
@pytest.mark.parametrize('command', ('agent', 'mps'))
def test_a_program_without_descriptors_says_so_and_ends(command, spare, tmp_path):
    if SANITIZED:
        pytest.skip('a sanitizer needs descriptors of its own')
    limited = ['sh', '-c', 'ulimit -n "$0"; exec "$@"', str(3 + spare), WARPSHARE, command, '--mps-directory', str(tmp_path)]
    done = subprocess.run(limited, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode and 'too many open files' in done.stderr.lower(), done
