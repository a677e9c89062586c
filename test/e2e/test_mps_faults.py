# SPDX-License-Identifier: Apache-2.0
"""What goes wrong under MPS: each fault is told with the pods that it concerns, stays on its unit, and goes by itself."""
import os
import resource
import shutil
import signal
import stat

import pytest

import mps as mps_module
from mps_node import kill, node, share, uuid_of  # noqa: F401 -- a fixture
from node import GPU

FIRST, SECOND = uuid_of(0), uuid_of(1)


class Stage:
    """Two GPUs with ten replicas each, a pod with a client on each of them."""

    def __init__(self, node):
        self.node = node
        node.start_all(share(10, provisioning='weighted', failRequestsGreaterThanOne=True, placement='distributed'))
        node.wait_counts(20)
        for pod in ('one', 'two'):
            node.kubelet.admit(pod, GPU, 1, namespace='team')
        self.faulty, self.other = node.unit('one'), node.unit('two')
        assert self.faulty != self.other
        node.agent.wait_log('kubelet has reported which container holds which devices containers=2')
        self.daemon = node.daemon(self.faulty)
        self.untouched = node.daemon(self.other)['pid']
        self.told = len(node.kubelet.messages_of(GPU))
        self.neighbour = node.client('two')
        self.neighbour.connected()

    def client(self):
        client = self.node.client('one')
        client.connected()
        return client

    def server(self):
        """The PID of the server of the faulty daemon, when it has one."""
        peer = self.node.watch()
        return peer.wait_daemon(self.faulty, lambda one: one['servers'], 'a server')['servers'][0]['pid']

    def falls(self, reason):
        """It is told with its pod, and only its replicas go."""
        told = self.node.agent.wait_log(
            'MPS daemon at fault, its replicas are unhealthy event=MPSDaemonFault daemon=%s .*' % self.faulty).group(0)
        assert reason in told and 'pods=team/one' in told
        self.node.wait_replicas(self.faulty, 0)
        assert self.node.healthy_replicas(unit=self.other) == 10

    def waits_for_its_gpu(self):
        self.node.watch().wait_daemon(self.faulty, lambda one: 'cannot be used' in (one['reason'] or ''), 'its GPU is the reason')

    def comes_back(self):
        told = self.node.agent.wait_log('MPS daemon ready again event=MPSDaemonRecovered daemon=%s .*' % self.faulty).group(0)
        assert 'pods=team/one' in told
        self.node.wait_counts(20)
        self.check_other()
        self.client()

    def check_other(self):
        """Nothing was told of the other daemon, nothing done to it; its client works on."""
        assert self.node.daemon(self.other)['pid'] == self.untouched
        assert self.neighbour.is_alive() and self.neighbour.allocate(1) == 1
        assert self.node.agent.count('MPSDaemonFault daemon=%s' % self.other) == 0
        for message in self.node.kubelet.messages_of(GPU)[self.told:]:
            assert all(healthy for device, healthy in message.healthy.items() if device.startswith(self.other))


@pytest.fixture
def stage(node):  # noqa: F811
    return Stage(node)


def test_a_control_daemon_that_is_killed(stage):
    client = stage.client()
    kill(stage.daemon['pid'])
    stage.falls('its control daemon was ended by signal 9 (Killed)')
    assert client.wait() == 5  # the server has to go before the next daemon can come
    stage.comes_back()


def test_a_server_that_is_killed_takes_its_clients_and_no_daemon(stage):
    client, server = stage.client(), stage.server()
    kill(server)
    assert client.wait() == 5
    # Until its control daemon has noticed, a client is sent to the server that is gone.
    stage.node.watch().wait_daemon(stage.faulty, lambda one: server not in [each['pid'] for each in one['servers']], 'no such server')
    again = stage.node.client('one')
    again.connected()
    assert stage.node.daemon(stage.faulty)['pid'] == stage.daemon['pid']
    stage.check_other()


def test_a_control_daemon_that_hangs(stage):
    os.kill(stage.daemon['pid'], signal.SIGSTOP)
    stage.falls('did not answer')
    stage.comes_back()


def test_a_client_that_faults_faults_its_server_until_all_of_it_is_gone(stage):
    culprit, victim = stage.node.client('one', '--stubborn'), stage.client()
    culprit.connected()
    stage.server()
    culprit.order('fault')
    assert victim.wait() == 6
    stage.falls('its server is in FAULT')
    kill(culprit.pid)
    stage.comes_back()
    assert stage.node.daemon(stage.faulty)['pid'] == stage.daemon['pid']


def test_a_pipe_directory_that_is_removed(stage):
    pipe = stage.node.programs.path(stage.faulty, 'pipe')
    shutil.rmtree(pipe)
    stage.falls('its pipe directory')
    stage.comes_back()
    assert stat.S_ISDIR(os.stat(pipe).st_mode)


def test_a_gpu_that_is_lost(stage):
    position = int(stage.faulty[4])
    # Its daemon and the processes on it go first, as with the GPU; NVML tells it as lost.
    stage.node.gpus(2, changes={position: {'lost': True}}, events=[{'gpu': position, 'xid': 79}])
    kill(stage.daemon['pid'])
    stage.falls('')
    stage.node.agent.wait_event('GPUUnhealthy', '%s.*Xid 79' % stage.faulty)
    stage.waits_for_its_gpu()
    stage.node.gpus(2)
    stage.node.wait_counts(20)
    stage.check_other()


def test_a_gpu_that_is_lost_under_a_daemon_without_clients(stage):
    """Nothing else is wrong with the daemon: it answers, and nobody computes on its GPU."""
    position = int(stage.faulty[4])
    stage.node.gpus(2, changes={position: {'lost': True}})
    stage.falls('is lost')
    stage.waits_for_its_gpu()
    with pytest.raises(ProcessLookupError):
        os.kill(stage.daemon['pid'], 0)
    stage.node.gpus(2)
    stage.comes_back()


def test_a_limit_that_a_daemon_refuses(stage):
    stage.node.set_mps_scenario(stage.faulty, 'on set_default_device_pinned_mem_limit: ignore')
    kill(stage.daemon['pid'])
    stage.falls('its control daemon was ended')
    stage.node.watch().wait_daemon(stage.faulty, lambda one: 'memory limit of' in (one['reason'] or ''), 'the limit is the reason')
    assert stage.node.healthy_replicas(unit=stage.faulty) == 0
    stage.node.set_mps_scenario(stage.faulty)
    stage.comes_back()


def test_warpshare_mps_that_is_killed_leaves_clients_alone_and_comes_back_to_them(stage):
    node = stage.node
    client = stage.client()
    node.supervisor.kill()
    node.agent.wait_event('MPSUnavailable')
    node.wait_counts(0, 20)
    assert client.is_alive() and client.allocate(1) == 1
    node.start_mps()
    node.wait_counts(20)
    ready = node.daemon(stage.faulty)
    assert ready['pid'] == stage.daemon['pid'] and ready['adopted']
    assert node.daemon(stage.other)['pid'] == stage.untouched
    assert client.allocate(1) == 1 and stage.neighbour.allocate(1) == 1


def test_a_supervisor_that_has_no_descriptor_left_takes_no_daemon_for_dead(stage):
    """It cannot ask them anything. That says nothing about them, and to end them would end their clients."""
    node, client = stage.node, stage.client()
    pid = node.supervisor.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # Below all that are open: they stay, and no number is free, whatever was open for a moment just now.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, most))
    node.supervisor.wait_log('Too many open files')
    node.stays(lambda: client.is_alive() and node.kubelet.allocatable(GPU) == 20, 'the daemons serve', 5.0)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    assert node.daemon(stage.faulty)['pid'] == stage.daemon['pid']
    assert client.allocate(1) == 1
    stage.check_other()
    kill(stage.server())  # it looks again
    assert client.wait() == 5
    stage.client()


def test_a_control_program_that_is_missing_is_named_and_used_when_it_is_there(node):  # noqa: F811
    folder = os.path.join(node.programs.folder, 'bin')
    os.mkdir(folder)
    program = os.path.join(folder, 'nvidia-cuda-mps-control')
    node.start_mps('--mps-control', program)
    node.start_agent(share(10))
    assert program in node.agent.wait_event('MPSDaemonFault', FIRST)
    node.wait_counts(0, 20)
    for name in ('nvidia-cuda-mps-server', 'nvidia-cuda-mps-control'):
        os.symlink(os.path.join(mps_module.BIN, name), os.path.join(folder, name))
    node.wait_counts(20)


def test_a_waiting_client_of_another_user_is_reported(node):  # noqa: F811
    if os.geteuid() != 0:
        pytest.skip('only root can start a program of another user')
    node.gpus(1, version=535)  # one user at a time
    node.start_all(share(10))
    node.wait_counts(10)
    node.admit('one')
    os.chmod(node.programs.folder, 0o755)
    node.client('one').connected()
    node.client('one', '--uid=65534').hears('^waiting')
    told = node.agent.wait_log('MPS needs attention event=MPSNotice .*').group(0)
    assert 'pods=default/one' in told and '65534' in told
    assert node.kubelet.allocatable(GPU) == 10
