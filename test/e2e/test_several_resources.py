# SPDX-License-Identifier: Apache-2.0
"""A container that asks for two of the node's resources, as the guide's pod does: it gets the GPUs and the limits of both."""
import glob
import os
import signal

import deviceplugin_pb2 as pb
import grpc
import pytest

from container_runtime import Container, Unresolvable
from node import GPU, v100s
from test_device_lists import make_device_nodes, make_driver, machine

NODES = {'/dev/nvidia0', '/dev/nvidia1'}


def individual(replicas=10, **more):
    return {'version': 'v1', 'sharing': {'mps': {
        'scope': 'individual', 'provisioning': 'weighted', 'memoryReserve': '512Mi',
        'resources': [{'name': GPU, 'replicas': replicas}], **more}}}


def start(node, config, *arguments):
    node.scenario(v100s(2))
    make_device_nodes(node, *['/dev/nvidia%d' % i for i in range(2)])
    make_driver(node)
    node.start_all(config, *places(node), *arguments)
    wait_for_both(node)
    return node.kubelet


def wait_for_both(node):
    node.wait(lambda: all(node.kubelet.allocatable('nvidia.com/gpu%d' % i) for i in range(2)), 'both GPUs are allocatable')


def places(node):
    return ['--mps-root=/run/nvidia/mps', '--cdi-root=' + cdi_root(node), '--system-root=' + machine(node),
            '--container-driver-root=' + os.path.join(node.folder, 'driver')]


def cdi_root(node):
    return os.path.join(node.folder, 'cdi')


def admit(kubelet, pod, **wanted):
    for resource, count in wanted.items():
        kubelet.admit(pod, 'nvidia.com/' + resource, count)


def run(node, pod, container='main', own=None):
    return Container(node.kubelet.run_options(pod, container), cdi_root(node), own)


def devices_made(node):
    return sorted(glob.glob(os.path.join(cdi_root(node), '*-mps-g*.json')))


def limits(container):
    return (container.envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'], container.envs['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'])


@pytest.mark.parametrize('strategy', [None, 'cdi-cri', 'cdi-annotations', 'envvar,cdi-cri'])
def test_the_guides_pod_has_both_gpus_and_both_limits(node, strategy):
    kubelet = start(node, individual(), *(['--device-list-strategy=' + strategy] if strategy else []))
    admit(kubelet, 'pod', gpu0=5, gpu1=5)
    container = run(node, 'pod')
    assert container.nodes == NODES
    assert limits(container) == ('16046M', '50')
    assert container.envs['CUDA_MPS_PIPE_DIRECTORY'] == '/mps/node/pipe'
    assert container.envs['CUDA_DEVICE_ORDER'] == 'PCI_BUS_ID'
    if strategy and 'envvar' not in strategy:
        assert kubelet.run_options('pod').conflicts == []


def test_each_gpu_has_its_own_limit_and_the_process_the_least_threads(node):
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=2, gpu1=7)
    container = run(node, 'pod')
    assert limits(container) == ('0=6418M,1=22465M', '20')


def test_a_container_of_one_share_has_its_limit_and_what_it_was_given(node):
    kubelet = start(node, individual(), '--device-list-strategy=cdi-cri')
    admit(kubelet, 'pod', gpu1=3)
    container = run(node, 'pod')
    assert container.nodes == {'/dev/nvidia1'}
    assert limits(container) == ('0=9627M', '30')
    assert container.envs['WARPSHARE_REPLICAS'] == '3/10'
    assert 'CUDA_DEVICE_ORDER' not in container.envs


def test_a_pod_cannot_set_another_limit(node):
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=5, gpu1=5)
    container = run(node, 'pod', own={'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '100',
                                      'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=32G,1=32G'})
    assert limits(container) == ('16046M', '50')


def test_init_and_other_containers_of_a_pod_have_their_own_limits(node):
    """An init container has the same ids as the container after it, and less in all."""
    kubelet = start(node, individual())
    kubelet.admit('pod', 'nvidia.com/gpu0', 2, container='init', init=True)
    kubelet.admit('pod', 'nvidia.com/gpu0', 2)
    kubelet.admit('pod', 'nvidia.com/gpu1', 5)
    assert limits(run(node, 'pod', 'init')) == ('0=6418M', '20')
    assert limits(run(node, 'pod')) == ('0=6418M,1=16046M', '20')
    assert limits(run(node, 'pod', 'init')) == ('0=6418M', '20')


def test_a_container_starts_again_after_a_reboot_that_took_the_files(node):
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=5, gpu1=5)
    before = run(node, 'pod').envs
    node.agent.signal(signal.SIGTERM)
    node.agent.wait()
    for path in glob.glob(os.path.join(cdi_root(node), '*')):
        os.unlink(path)
    node.start(*places(node))
    wait_for_both(node)
    assert run(node, 'pod').envs == before


def not_asked_any_more(node, kubelet):
    """Each resource registers for itself: kubelet may know of one already and not yet of the other."""
    node.wait(lambda: not any(kubelet.options[resource].pre_start_required
                              for resource in ('nvidia.com/gpu0', 'nvidia.com/gpu1')), 'kubelet is not to ask any more')


def test_a_configuration_without_such_containers_lets_those_that_run_restart(node):
    """kubelet does not ask under it, and the names of before are still wanted."""
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=5, gpu1=5)
    before = run(node, 'pod').envs
    node.config(individual(provisioning='uniform', failRequestsGreaterThanOne=False, memoryReserve='auto'))
    node.agent.hang_up()
    not_asked_any_more(node, kubelet)
    for path in devices_made(node):
        os.unlink(path)
    node.agent.kill()
    node.start(*places(node))
    node.wait(lambda: len(devices_made(node)) == 2, 'the devices of the container that runs are there again')
    assert run(node, 'pod').envs == before


def test_only_resources_that_need_it_ask_at_each_start(node):
    kubelet = start(node, individual())
    assert kubelet.options['nvidia.com/gpu0'].pre_start_required
    node.config(individual(daemonScope='gpu'))
    node.agent.hang_up()
    not_asked_any_more(node, kubelet)


def test_the_devices_of_pods_that_are_gone_go_too(node):
    kubelet = start(node, individual())
    admit(kubelet, 'first', gpu0=2, gpu1=2)
    run(node, 'first')
    first = devices_made(node)
    assert len(first) == 2
    kubelet.remove_pod('first')
    admit(kubelet, 'second', gpu0=2)
    run(node, 'second')
    second = devices_made(node)
    assert len(second) == 1 and not set(first) & set(second)


def test_without_kubelets_record_a_container_has_the_limits_of_each_share(node):
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=2)
    os.unlink(os.path.join(node.directory, kubelet.CHECKPOINT))
    assert limits(run(node, 'pod')) == ('0=6418M', '20')
    node.agent.wait_log("kubelet's record does not have a container that starts")


def test_an_agent_that_starts_removes_the_devices_of_pods_that_are_gone(node):
    """After a change of the configuration no container may come for which kubelet would ask."""
    kubelet = start(node, individual())
    admit(kubelet, 'first', gpu0=2, gpu1=2)
    run(node, 'first')
    first = devices_made(node)
    kubelet.remove_pod('first')
    admit(kubelet, 'second', gpu0=2)
    node.agent.kill()
    node.start(*places(node))
    node.wait(lambda: devices_made(node) and not set(first) & set(devices_made(node)), 'those of the first are gone')


def test_pre_start_of_an_unknown_device_is_refused_with_the_reason(node):
    kubelet = start(node, individual())
    with pytest.raises(grpc.RpcError) as error:
        kubelet.plugin('nvidia.com/gpu0').pre_start(
            pb.PreStartContainerRequest(devices_ids=['GPU-x::1']), timeout=30)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "the container's limits are not known" in error.value.details()


def test_a_container_is_not_made_before_its_devices_are(node):
    """The stand-in of the runtime refuses a name that no file has, as runtimes do."""
    kubelet = start(node, individual())
    admit(kubelet, 'pod', gpu0=5, gpu1=5)
    options = kubelet.run_options('pod')
    for path in devices_made(node):
        os.unlink(path)
    with pytest.raises(Unresolvable):
        Container(options, cdi_root(node))


@pytest.mark.parametrize('strategy, more, reason', [
    ('envvar', {}, 'sees only those of one of them: an environment variable names them'),
    ('cdi-cri', {'daemonScope': 'gpu'}, 'set sharing.mps.daemonScope: node')])
def test_a_container_that_does_not_get_all_fails_with_the_way_out(node, strategy, more, reason):
    kubelet = start(node, individual(**more), '--device-list-strategy=' + strategy)
    admit(kubelet, 'single', gpu0=2)
    admit(kubelet, 'pair', gpu0=2, gpu1=2)
    line = node.agent.wait_log('a container sees less than it was allocated.*').group(0)
    assert 'event=PodGetsLess' in line and 'pod=pair namespace=default' in line and reason in line
    admit(kubelet, 'other', gpu0=2, gpu1=2)
    node.agent.wait_log('a container sees less than it was allocated.*pod=other')
    assert node.agent.count('event=PodGetsLess') == 2  # each once


def test_without_a_driver_to_describe_the_default_goes_on_without_cdi(node):
    node.scenario(v100s(2))
    kubelet = node.start_all(individual(), '--mps-root=/run/nvidia/mps', '--cdi-root=' + cdi_root(node),
                             '--container-driver-root=' + node.folder)
    wait_for_both(node)
    node.agent.wait_log('a container that asks for several resources will see only the GPUs of one of them')
    admit(kubelet, 'pod', gpu0=5)
    options = kubelet.run_options('pod')
    assert options.cdi_devices == []
    assert options.envs['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'] == '0=16046M'
