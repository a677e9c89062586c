# SPDX-License-Identifier: Apache-2.0
"""GPUs and MIG devices that come and go."""
from machine import Machine
from node import GPU, sharing, v100s


def start(node, count):
    machine = Machine(node, count)
    node.scenario(v100s(count))
    kubelet = node.start_all(sharing('mps', 20), *machine.options)
    node.wait_counts(20 * count)
    return machine, kubelet


def test_a_gpu_that_is_put_in_is_advertised_on_the_same_stream(node):
    machine, kubelet = start(node, 3)
    before = set(kubelet.ids(GPU))
    node.scenario(v100s(4))
    machine.plug(4)
    node.agent.hang_up()
    node.wait_counts(80)
    assert before < set(kubelet.ids(GPU))
    assert len(kubelet.registered) == 1


def test_a_gpu_that_is_taken_out_leaves_its_ids_unhealthy(node):
    machine, kubelet = start(node, 4)
    before = set(kubelet.ids(GPU))
    node.scenario(v100s(3))
    # First it is lost, while the driver still counts it; then the kernel takes it from the driver.
    node.agent.hang_up()
    node.wait_counts(60, 80)
    machine.plug(3)
    node.agent.hang_up()
    node.agent.wait_until(lambda: len(node.agent.page()['gpus']) == 3, 'the agent has three GPUs')
    node.stays(lambda: (node.kubelet.allocatable(GPU), node.kubelet.capacity(GPU)) == (60, 80), '60 of 80', 0.5)
    assert set(kubelet.ids(GPU)) == before
    # And it is the same one again.
    node.scenario(v100s(4))
    machine.plug(4)
    node.agent.hang_up()
    node.wait_counts(80)
    assert set(kubelet.ids(GPU)) == before
    assert len(kubelet.registered) == 1


MIG = 'nvidia.com/mig-3g.20gb'


def a100(*devices, enabled=True):
    return [{'model': 'A100-40GB', 'uuid': 'GPU-00000000-0000-4000-8000-00000000000a',
             'mig': {'enabled': enabled, 'devices': list(devices)} if enabled else {'enabled': False}}]


def device(number, **more):
    return {'profile': '3g.20gb', 'gi': number, 'uuid': 'MIG-00000000-0000-4000-8000-%012d' % number, **more}


def test_mig_devices_come_and_go_by_the_drivers_events(node):
    event = {'gpu': 0, 'type': 'mig'}
    node.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})
    node.scenario(a100(device(1)))
    kubelet = node.start_all()
    node.wait_counts(1, resource=MIG)
    first = set(kubelet.ids(MIG))
    node.scenario(a100(device(1), device(2)), events=[event])
    node.wait_counts(2, resource=MIG)
    both = set(kubelet.ids(MIG))
    assert first < both
    node.scenario(a100(device(2)), events=[event] * 2)
    node.wait_counts(1, 2, resource=MIG)
    assert set(kubelet.ids(MIG, healthy=True)) == both - first
    assert set(kubelet.ids(MIG)) == both
    node.scenario(a100(device(1), device(2)), events=[event] * 3)
    node.wait_counts(2, resource=MIG)
    assert kubelet.registered and len(kubelet.registered) == 1


def test_a_gpu_whose_mig_mode_is_switched_changes_its_resource(node):
    event = {'gpu': 0, 'type': 'mig'}
    node.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})
    node.scenario(a100(enabled=False))
    kubelet = node.start_all()
    node.wait_counts(1)
    node.scenario(a100(device(1)), events=[event])
    node.wait_counts(1, resource=MIG)
    node.wait(lambda: not kubelet.allocatable(GPU), 'the whole GPU is no longer allocatable')
    node.scenario(a100(enabled=False), events=[event] * 2)
    node.wait_counts(1)
    node.wait(lambda: not kubelet.allocatable(MIG), 'the MIG device is no longer allocatable')
