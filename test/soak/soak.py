# SPDX-License-Identifier: Apache-2.0
"""What a year on a node does to the agent, in minutes: thousands of Allocate calls, a hundred restarts of kubelet, a GPU that
fails and returns, configurations that come and go. Under valgrind nothing may leak and nothing be misused; without it memory
may not grow.

usage: soak.py valgrind|plain       (environment as for the tests in test/e2e)
"""
import os
import random
import sys
import time

from node import GPU, Node, sharing, v100s

ALLOCATIONS = 10000
RESTARTS = 100
# What valgrind returns for an error; anything but what the agent itself returns.
VALGRIND_STATUS = 99
VALGRIND = ['valgrind', '--quiet', '--leak-check=full', '--show-leak-kinds=definite,indirect,possible',
            '--errors-for-leak-kinds=definite,indirect,possible', '--fair-sched=yes',
            '--suppressions=' + os.path.join(os.path.dirname(os.path.abspath(__file__)), 'valgrind.supp'),
            '--error-exitcode=%d' % VALGRIND_STATUS]
# What may come on top of the memory after warming up: less than one leaked byte an Allocate and 4 KiB a restart.
GROWTH_KIB = 512


def allocate(node, count):
    kubelet = node.kubelet
    plugin = kubelet.plugin(GPU)
    ids = kubelet.ids(GPU, healthy=True)
    generator = random.Random(count)
    for i in range(count):
        if i % 10 == 0:
            chosen = plugin.prefer_ids(ids, 1 + i % 7)
        else:
            chosen = generator.sample(ids, 1)
        uuids = {device.split('::')[0] for device in chosen}
        response, = plugin.allocate_ids(chosen)
        assert set(response.envs['NVIDIA_VISIBLE_DEVICES'].split(',')) == uuids


def restart_kubelet(node, count):
    for i in range(count):
        node.kubelet.restart()
        node.wait_counts(80)
        # The lists of so many messages are not what is measured here.
        del node.kubelet.messages[:]


def fail_and_return(node):
    gpus = v100s()
    gpus[1]['lost'] = True
    node.scenario(gpus, events=[{'gpu': 1, 'xid': 79}])
    node.wait_counts(60, 80)
    node.scenario(v100s())
    node.wait_counts(80)


def reload(node, times):
    for i in range(times):
        node.config(config(19 - i % 3))
        node.agent.hang_up()
        node.wait_counts(4 * (19 - i % 3), 80)
    node.config(config(20))
    node.agent.hang_up()
    node.wait_counts(80)


def config(replicas):
    return sharing('mps', replicas, provisioning='weighted', daemonScope='resource')


def count_descriptors(agent):
    return len(os.listdir('/proc/%d/fd' % agent.pid))


def soak(node, prefix):
    node.config(config(20))
    node.kubelet.start()
    agent = node.start('--log-level=warn', prefix=prefix)
    node.wait_counts(80)
    # Warm: what is kept for later is kept now.
    allocate(node, 500)
    restart_kubelet(node, 5)
    reload(node, 3)
    before = agent.memory_kib()
    descriptors = count_descriptors(agent)
    begun = time.monotonic()
    for _ in range(10):
        allocate(node, ALLOCATIONS // 10)
        restart_kubelet(node, RESTARTS // 10)
    fail_and_return(node)
    reload(node, 6)
    after = agent.memory_kib()
    print('%d Allocate calls and %d restarts of kubelet in %.0f s; memory %d KiB before, %d KiB after' % (
        ALLOCATIONS, RESTARTS, time.monotonic() - begun, before, after))
    assert count_descriptors(agent) == descriptors
    if not prefix:
        assert after - before < GROWTH_KIB, 'memory grew by %d KiB' % (after - before)
    status = agent.stop()
    assert status == 0, 'valgrind found something:\n' + agent.log() if status == VALGRIND_STATUS else agent.log()


def main():
    node = Node()
    try:
        soak(node, VALGRIND if sys.argv[1] == 'valgrind' else [])
    finally:
        faults = node.finish()
    if faults:
        sys.exit('\n'.join(faults))


if __name__ == '__main__':
    main()
