# SPDX-License-Identifier: Apache-2.0
"""The driver goes, comes back, and is replaced under the agent."""
import pytest

from machine import Machine
from node import GPU, fast, sharing, v100s


def start(node):
    machine = Machine(node, 4)
    kubelet = node.start_all(sharing('mps', 20), *machine.options)
    node.wait_counts(80)
    return machine, kubelet


@pytest.mark.parametrize('code', ['UNINITIALIZED', 'DRIVER_NOT_LOADED', 'LIB_RM_VERSION_MISMATCH'])
def test_without_a_driver_nothing_is_allocatable_and_nothing_is_lost(node, code):
    kubelet = node.start_all(sharing('mps', 20))
    node.wait_counts(80)
    ids = set(kubelet.ids(GPU))
    node.scenario(v100s(), init={'error': 'DRIVER_NOT_LOADED'}, errors={'nvmlEventSetWait': code})
    node.wait_counts(0, 80)
    node.agent.wait_event('GPUsUnavailable', code)
    node.agent.wait_log('NVML cannot be used.*the NVIDIA driver is not loaded')
    # As long as it takes: no id vanishes, and kubelet is not registered with again.
    assert set(kubelet.ids(GPU)) == ids
    node.scenario(v100s())
    node.wait_counts(80)
    assert set(kubelet.ids(GPU)) == ids
    assert len(kubelet.registered) == 1


def test_another_driver_is_taken_up_without_a_restart(node):
    machine, kubelet = start(node)
    ids = set(kubelet.ids(GPU))
    lists = len(kubelet.messages)
    node.scenario(v100s(), driverVersion='580.95.05')
    machine.install('580.95.05')
    node.agent.hang_up()
    node.agent.wait_until(lambda: node.agent.page()['driver'] == '580.95.05', 'the agent has the new driver')
    node.stays(lambda: node.kubelet.allocatable(GPU) == 80, '80 allocatable', 0.5)
    assert set(kubelet.ids(GPU)) == ids
    assert len(kubelet.messages) == lists, 'kubelet was told something'
    assert node.agent.process.poll() is None


def test_while_the_driver_is_being_replaced_its_gpus_are_unhealthy(node):
    machine, kubelet = start(node)
    ids = set(kubelet.ids(GPU))
    machine.remove_library()
    node.agent.hang_up()
    node.wait_counts(0, 80)
    node.agent.wait_event('GPUsUnavailable', 'libnvidia-ml.so.1 not found')
    # The library is there, but not yet the module.
    node.scenario(v100s(), driverVersion='580.95.05', init={'error': 'LIB_RM_VERSION_MISMATCH'})
    machine.install_library()
    node.agent.wait_log('NVML cannot be used.*the NVIDIA library and the loaded kernel driver have different versions')
    assert (kubelet.allocatable(GPU), kubelet.capacity(GPU)) == (0, 80)
    # A reload meanwhile changes nothing about that.
    node.agent.hang_up()
    node.stays(lambda: (node.kubelet.allocatable(GPU), node.kubelet.capacity(GPU)) == (0, 80), '0 of 80', 0.5)
    node.scenario(v100s(), driverVersion='580.95.05')
    node.wait_counts(80)
    assert set(kubelet.ids(GPU)) == ids
    assert len(kubelet.registered) == 1


def test_another_driver_is_noticed_by_itself(node):
    node.environment.update(fast())
    machine, _ = start(node)
    node.scenario(v100s(), driverVersion='580.95.05', init={'error': 'DRIVER_NOT_LOADED'})
    machine.install('580.95.05')
    # It reads its GPUs every half minute; what an upgrade raises as events, no test can.
    node.wait_counts(0, 80, timeout=60)
    node.scenario(v100s(), driverVersion='580.95.05')
    node.wait_counts(80)
    node.agent.wait_until(lambda: node.agent.page()['driver'] == '580.95.05', 'the agent has the new driver')
