# SPDX-License-Identifier: Apache-2.0
"""What comes from outside and is wrong: configuration, environment, paths, and bytes on the agent's socket."""
import os
import random
import socket
import threading

import pytest

import wire
from node import GPU, sharing, v100s


def refused(node, config, *arguments):
    """The reason for which the agent does not start."""
    if config is not None:
        node.config(config)
    agent = node.start(*arguments)
    return agent.fails(r'error configuration refused error="?(.*?)"?$').group(1).replace('\\"', '"').replace(
        node.folder, '')


@pytest.mark.parametrize('text, reason', [
    ('version: v2\n',
     "config '/config.yaml' line 1: version: 'v2' is not a known version, use v1"),
    ('sharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n',
     "config '/config.yaml' line 2: sharing.mps: needs the directory of MPS on the host, and none is set: use --mps-root, "
     'MPS_ROOT or flags.mpsRoot, for example /run/nvidia/mps'),
    ('sharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 50001}\n',
     "config '/config.yaml' line 4: sharing.timeSlicing.resources[0].replicas: 50001, must be from 1 to 50000"),
    ('sharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 0}\n',
     "config '/config.yaml' line 4: sharing.timeSlicing.resources[0].replicas: 0, must be from 1 to 50000"),
    ('sharing:\n  timeSlicing:\n    resources:\n    - {name: amd.com/gpu, replicas: 2}\n',
     "config '/config.yaml' line 4: sharing.timeSlicing.resources[0].name: 'amd.com/gpu' is not a resource name: the only "
     'domain possible is nvidia.com/'),
    ('sharing:\n  timeSlicing:\n    resources:\n    - {name: gpu, replicas: 2}\n    - {name: nvidia.com/gpu, replicas: 3, rename: x}\n',
     "config '/config.yaml' line 5: sharing.timeSlicing.resources[1]: 'nvidia.com/gpu' is shared already by the entry at "
     'line 4; to share different GPUs differently, list the devices of one of them'),
    ('sharing:\n  timeSlicing:\n    resources: []\n',
     "config '/config.yaml' line 3: sharing.timeSlicing.resources: empty; list what to share, for example {name: "
     'nvidia.com/gpu, replicas: 4}, or remove the section'),
    ('flags: {migStrategy: multiple}\n',
     "config '/config.yaml' line 1: flags.migStrategy: 'multiple' is not a known value, use none, single or mixed"),
    ('flags: {failOnInitError: perhaps}\n', None),
    ('{\n', None), ('a: b: c\n', None), ('- 1\n- 2\n', None), ('\x00\x01\x02', None), ('x: &x [*x, *x]\n', None),
    ('[' * 100000, None)], ids=range(15))
def test_a_configuration_that_is_wrong_is_refused_with_its_place(node, text, reason):
    error = refused(node, text)
    assert error.startswith("config '/config.yaml'"), error
    if reason is not None:
        assert error == reason


def test_a_configuration_that_is_too_large_is_refused(node):
    assert refused(node, 'a: ' + 'x' * 2 ** 20) == "config: '/config.yaml' is larger than the limit of 1048576 bytes"


def test_a_configuration_that_is_not_there_is_refused(node):
    assert refused(node, None, '--config-file=/nonexistent/config.yaml') == \
        "config: open '/nonexistent/config.yaml': No such file or directory"


def test_a_key_that_is_not_known_is_warned_about_with_the_nearest_one(node):
    config = sharing('mps', 20)
    config['sharing']['mps']['provisionning'] = 'weighted'
    node.start_all(config)
    node.agent.wait_log(r'warn  config .*line \d+: sharing.mps.provisionning.*did you mean .?provisioning')


def test_a_name_that_shares_nothing_is_warned_about_and_the_gpus_are_served(node):
    """One file is made for many nodes, so it is never refused for a name, as with NVIDIA's plugin."""
    config = sharing('timeSlicing', 20)
    config['sharing']['timeSlicing']['resources'][0]['name'] = 'nvidia.com/gqu'
    node.start_all(config)
    node.agent.wait_log(r"warn  config .*line \d+: sharing.timeSlicing.resources\[0\]: shares nothing: .*did you mean .?nvidia.com/gpu")
    node.wait_counts(4)


def test_a_file_of_another_program_leaves_the_configuration_in_force(node):
    node.start_all(sharing('timeSlicing', 20))
    node.wait_counts(80)
    node._write(node.config_path, 'nvidia: {deviceSplitCount: 10}\n')
    node.agent.wait_log(r"error .*'nvidia' is an unknown key, and none is known")
    node.wait_counts(80)


def test_more_mps_clients_than_the_gpu_can_have_end_the_agent(node):
    node.config(sharing('mps', 49))
    agent = node.start()
    agent.fails(r'error no plan can be made error=.*replicas: 49, at most 48 for this GPU and driver \(Tesla V100')


def test_a_scenario_that_is_wrong_is_named_by_the_simulator(node):
    node._write(node.scenario_path, 'gpus:\n- {model: V1000}\n')
    agent = node.start()
    agent.fails(r'warpshare-nvml-sim: scenario .* line 2: gpus\[0\].model: must be one of V100-32GB')


def test_a_scenario_that_goes_wrong_leaves_the_last_good_one(node):
    kubelet = node.start_all(sharing('mps', 20))
    node._write(node.scenario_path, 'gpus: [\n')
    node.agent.wait_log('warpshare-nvml-sim: .*the last good scenario stays')
    assert kubelet.allocatable(GPU) == 80
    node.scenario(v100s())


def test_a_socket_path_that_is_too_long_is_named_and_costs_only_kubelet(node):
    directory = os.path.join(node.folder, 'x' * 80)
    os.mkdir(directory)
    node.config(sharing('mps', 20))
    agent = node.start('--kubelet-socket', os.path.join(directory, 'kubelet.sock'))
    with open(os.path.join(directory, 'kubelet.sock'), 'w', encoding='ascii'):
        pass
    agent.wait_log('registration with kubelet failed.*the path has [0-9]+ bytes, at most 107 are possible')
    assert agent.stop() == 0


# ---- bytes on the socket ----

def path_of(node):
    return os.path.join(node.directory, node.sockets()[0])


def garbage():
    generator = random.Random(3)
    preface = wire.PREFACE + wire.settings()
    request = wire.call('Allocate', 1, b'\x0a\x05\x0a\x03abc')
    whole = preface + request
    yield from (whole[:length] for length in range(0, len(whole), 7))
    yield from (preface + generator.randbytes(generator.randrange(1, 400)) for _ in range(50))
    yield from (generator.randbytes(100) for _ in range(10))
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            broken[generator.randrange(len(broken))] = generator.randrange(256)
        yield bytes(broken)
    yield b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
    yield preface + wire.frame(wire.DATA, 0, 1, b'x' * 20000)
    yield preface + wire.headers('Allocate', 1) + wire.frame(wire.DATA, 0, 1, b'\0\xff\xff\xff\xff')
    yield preface + wire.headers('Allocate', 1) + wire.frame(wire.DATA, 1, 1, b'\1\0\0\0\1x')
    yield preface + b''.join(wire.headers('Allocate', stream) + wire.frame(wire.RST_STREAM, 0, stream, b'\0\0\0\x08')
                             for stream in range(1, 20001, 2))
    yield preface + wire.frame(wire.PING, payload=b'12345678') * 20000
    yield preface + wire.settings() * 20000
    yield preface + wire.headers('Allocate', 1) + wire.frame(wire.WINDOW_UPDATE, 0, 1, b'\x7f\xff\xff\xff') * 3


def still_serves(node, pod):
    ids, response = node.kubelet.admit(pod, GPU, 1)
    assert response.envs['NVIDIA_VISIBLE_DEVICES'] == ids[0].split('::')[0]
    assert node.kubelet.allocatable(GPU) == 80 and len(node.kubelet.registered) == 1


def test_garbage_on_the_socket_affects_no_other_connection(node):
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    path = path_of(node)
    for i, text in enumerate(garbage()):
        connection = wire.connect(path)
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the agent closed first: good
        wire.read_to_end(connection)
        connection.close()
        if i % 20 == 0:
            still_serves(node, 'pod-%d' % i)
    still_serves(node, 'last')


def test_a_connection_that_stops_in_the_middle_of_a_frame_is_only_its_own_problem(node):
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    halves = [wire.connect(path_of(node)) for _ in range(20)]
    for i, connection in enumerate(halves):
        connection.sendall((wire.PREFACE + wire.settings() + wire.call('Allocate', 1, b'x' * 1000))[:40 + 17 * i])
    still_serves(node, 'pod')
    for connection in halves:
        connection.close()
    still_serves(node, 'pod-2')


def test_a_peer_that_says_nothing_is_closed_after_a_while(node):
    node.start_all(sharing('mps', 20))
    silent = wire.connect(path_of(node))
    wire.read_to_end(silent)  # its deadline is the test
    still_serves(node, 'pod')


def test_a_thousand_connections_do_not_disturb_kubelet(node):
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    path = path_of(node)
    descriptors = len(os.listdir('/proc/%d/fd' % node.agent.pid))
    open_ones = []

    def flood():
        for _ in range(250):
            open_ones.append(wire.connect(path))

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        still_serves(node, 'pod-%d' % i)
    for thread in threads:
        thread.join()
    assert len(open_ones) == 1000
    still_serves(node, 'pod')
    # Those beyond the bound are closed at once.
    assert len(os.listdir('/proc/%d/fd' % node.agent.pid)) < descriptors + 80
    for connection in open_ones:
        connection.close()
    still_serves(node, 'pod-after')
