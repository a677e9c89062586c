# SPDX-License-Identifier: Apache-2.0
"""What happens under MPS, as Kubernetes events on the node and on the pods that it concerns."""
import os
import signal
import subprocess

import pytest

from cluster import cluster  # noqa: F401 -- a fixture
from mps_node import kill, node, share, uuid_of  # noqa: F401 -- a fixture
from node import GPU
from rights import needs_mounts


def messages(cluster, reason, namespace):
    """On the node and on the pod, which are told the same."""
    on_node = cluster.wait_event(reason)
    on_pod = cluster.wait_event(reason, namespace, 'Pod')
    assert on_node['message'] == on_pod['message'] and on_node['type'] == on_pod['type']
    return on_pod


def test_a_fault_of_a_daemon_and_its_end_are_events_on_the_pods_of_its_unit(node, cluster):
    node.start_mps()
    node.start_agent(share(10, provisioning='weighted', failRequestsGreaterThanOne=True, placement='distributed'),
                     *cluster.options())
    node.wait_counts(20)
    for pod in ('one', 'two'):
        node.kubelet.admit(pod, GPU, 1, namespace='team-' + pod)
    faulty = node.unit('one')
    assert faulty != node.unit('two')
    kill(node.daemon(faulty)['pid'])
    event = messages(cluster, 'MPSDaemonFault', 'team-one')
    assert event['message'].startswith(
        "MPS daemon '%s' of %s is at fault, its replicas are unhealthy: " % (faulty, GPU))
    assert event['type'] == 'Warning' and event['involvedObject']['uid'] == node.kubelet.pods['one'].uid
    event = messages(cluster, 'MPSDaemonRecovered', 'team-one')
    assert (event['type'], event['message']) == ('Normal', "MPS daemon '%s' of %s is ready again" % (faulty, GPU))
    assert not cluster.events(namespace='team-two')


def test_a_violation_is_an_event_on_the_pod_that_has_more_than_its_share(node, cluster):
    node.gpus(1)
    node.start_mps()
    node.start_agent(share(20, provisioning='weighted', guard='terminate'), *cluster.options())
    node.wait_counts(20)
    node.admit('greedy', 3, namespace='team')
    greedy = [node.client('greedy'), node.client('greedy')]
    for client, amount in zip(greedy, (4500, 4000)):
        client.connected()
        assert client.allocate(amount) == amount
    event = messages(cluster, 'MPSLimitViolated', 'team')
    assert event['message'].startswith('limit violated: ') and '8500 MiB in 2 processes' in event['message']
    assert event['involvedObject']['uid'] == node.kubelet.pods['greedy'].uid
    assert messages(cluster, 'MPSClientTerminated', 'team')['message'].startswith('terminating an MPS client: ')
    assert messages(cluster, 'MPSLimitHolds', 'team')['type'] == 'Normal'


@pytest.mark.parametrize('provisioning', ['uniform', 'declared'])
def test_a_pod_that_has_its_own_shared_memory_is_told_why_cuda_fails_in_it(node, cluster, provisioning):
    node.gpus(1)
    node.start_mps()
    node.start_agent(share(4, provisioning=provisioning), *cluster.options())
    node.wait_counts(4)

    def start(pod, *mounts):
        cluster.create_pod(node.kubelet, pod, mounts=mounts)
        node.kubelet.admit(pod, GPU, 1)
        if provisioning == 'declared':
            node.kubelet.run_options(pod)  # kubelet asks before it starts the container

    start('plain', '/dev/shm/cache', '/data')
    start('ray', '/dev/shm')
    event = messages(cluster, 'MPSSharedMemoryHidden', 'default')
    assert event['involvedObject']['name'] == 'ray' and event['type'] == 'Warning'
    assert 'container main of pod default/ray' in event['message'] and 'error 805' in event['message']
    start('late', '/dev/shm')
    event = cluster.wait_event('MPSSharedMemoryHidden', kind='Pod', count=2)
    assert event['involvedObject']['name'] == 'late'
    assert len(cluster.events('MPSSharedMemoryHidden', kind='Pod')) == 2


@needs_mounts
def test_a_client_whose_shared_memory_is_not_the_daemons_fails(node):
    """As in a container whose pod has a volume at /dev/shm: kubelet puts that behind the plugin's mounts, so it counts."""
    node.gpus(1)
    node.start_all(share(4))
    node.wait_counts(4)
    node.admit('ray')
    own = os.path.join(node.folder, 'own-shm')
    os.mkdir(own)
    mounts = {mount.container_path: mount.host_path for mount in node.answer('ray', GPU).mounts}
    client = node.start_client(node.kubelet.pods['ray'], node.variables('ray', GPU), {**mounts, '/dev/shm': own}, ())
    client.hears('^error 805 ')


def test_a_node_without_warpshare_mps_says_so_once(node, cluster):
    node.start_agent(share(20), *cluster.options())
    event = cluster.wait_event('MPSUnavailable')
    assert event['type'] == 'Warning' and '`warpshare mps`' in event['message']
    node.start_mps()
    node.wait_counts(40)
    os.kill(node.supervisor.pid, signal.SIGKILL)
    node.supervisor.expected_status = -signal.SIGKILL
    cluster.api.wait_for(lambda: sum(event['count'] for event in cluster.events('MPSUnavailable')) == 2)


def is_full(status, whose):
    found = status if whose == 'node' else status['daemons'][0]
    return found.get('sharedMemory', {}).get('full')


@needs_mounts
@pytest.mark.parametrize('whose', ['node', 'daemon'])
def test_a_full_shared_memory_is_reported_once_each_time_that_it_fills(node, cluster, whose):
    shm = os.path.join(node.mps_root, *(['shm'] if whose == 'node' else [uuid_of(0), 'shm']))
    if whose == 'node':
        os.mkdir(shm)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'shm', shm], check=True)
    try:
        node.gpus(1)
        options = ['--shared-memory=%s' % whose, '--shared-memory-size=1']
        node.start_mps(*options)
        node.start_agent(share(20), *cluster.options())
        node.wait_counts(20)
        assert not cluster.events('MPSSharedMemoryFull')
        for is_restarted in (True, False):
            with open(os.path.join(shm, 'large'), 'wb') as file:
                file.write(bytes(1000 << 10))
            told = node.agent.count('the shared memory of MPS is almost full')
            node.agent.wait_log('the shared memory of MPS is almost full event=MPSSharedMemoryFull', told + 1)
            if is_restarted:
                os.kill(node.supervisor.pid, signal.SIGKILL)
                node.supervisor.expected_status = -signal.SIGKILL
                node.supervisor.process.wait()
                node.start_mps(*options)
                node.watch().wait_status(lambda status: status['daemons'] and is_full(status, whose), 'still full')
            os.unlink(os.path.join(shm, 'large'))
            node.agent.wait_log('the shared memory of MPS has room again', told + 1)
        cluster.api.wait_for(lambda: sum(event['count'] for event in cluster.events('MPSSharedMemoryFull')) == 2)
        assert node.agent.count('event=MPSSharedMemoryFull') == 2
        event = cluster.wait_event('MPSSharedMemoryFull')
        assert event['type'] == 'Warning' and 'files are used; user 0 has 0 MiB in 1 files' in event['message']
        assert ("MPS daemon '%s'" % uuid_of(0) in event['message']) == (whose == 'daemon')
    finally:
        subprocess.run(['umount', '--lazy', shm], check=True)
