# SPDX-License-Identifier: Apache-2.0
"""provisioning: declared, with the daemons and the clients of MPS: what a container declares is what the guard holds it to."""
from cluster import cluster  # noqa: F401 -- a fixture
from mps_node import node, share  # noqa: F401 -- a fixture

PERCENT = 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'
MEMORY = 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'


def start(node, cluster, **more):
    node.gpus(1)
    node.start_mps()
    node.start_agent(share(20, provisioning='declared', **more), '--cdi-root=' + node.folder, *cluster.options())
    node.wait_counts(20)


def create(cluster, node, pod, **env):
    cluster.create_pod(node.kubelet, pod, 'team', env=env)
    node.admit(pod, 2, namespace='team')


def test_a_container_may_use_what_it_declares_and_no_more(node, cluster):
    start(node, cluster)
    create(cluster, node, 'pod', **{PERCENT: '60', MEMORY: '0=12G'})
    node.agent.wait_log("a container's declaration was read.*pod=pod")
    client = node.client('pod', **{PERCENT: '60', MEMORY: '0=12G'})
    assert client.connected()['percentage'] == '60.0'
    assert client.allocate(11000) == 11000
    second = node.client('pod', **{PERCENT: '60', MEMORY: '0=12G'})
    second.connected()
    assert not cluster.events('MPSLimitViolated') and not cluster.events('MPSClientUnknown')
    assert second.allocate(11000) == 11000
    event = cluster.wait_event('MPSLimitViolated', 'team', 'Pod')
    assert '22000 MiB in 2 processes' in event['message'] and '12288 MiB' in event['message']


def test_the_daemon_has_the_ceilings(node, cluster):
    start(node, cluster, maxThreads=50, maxMemory='8Gi')
    create(cluster, node, 'pod')
    client = node.client('pod', **{PERCENT: '100', MEMORY: '0=32G'})
    assert client.connected()['percentage'] == '50.0'
    assert client.allocate(9000) == 0


def test_the_daemon_has_no_limit_without_them(node, cluster):
    start(node, cluster)
    create(cluster, node, 'pod')
    client = node.client('pod', **{PERCENT: '100', MEMORY: '0=32G'})
    assert client.connected()['percentage'] == '100.0'
    assert client.allocate(20000) == 20000
