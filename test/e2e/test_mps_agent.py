# SPDX-License-Identifier: Apache-2.0
"""What a container under MPS gets, from kubelet's question to what its CUDA program sees: agent and `warpshare mps` together."""
import json
import os
import signal
import subprocess

import grpc
import pytest

import mps as mps_module
from mps_node import H100, node, share, uuid_of  # noqa: F401 -- a fixture
from node import GPU, fast

FIRST, SECOND = uuid_of(0), uuid_of(1)


# ---- when replicas are there ----

def test_replicas_are_there_when_their_daemon_is_and_at_once_after_a_restart(node):
    node.gpus(2, 'daemon: exits 1')
    node.start_all(share(20))
    node.stays(lambda: node.healthy_replicas() == 0, 'no replica is healthy without its daemon', 0.5)
    assert node.kubelet.capacity(GPU) == 40
    node.gpus(2)
    node.wait_counts(40)
    pid = node.daemon(FIRST)['pid']
    assert node.agent.stop() == 0
    node.start()
    node.wait_counts(40)
    assert node.daemon(FIRST)['pid'] == pid


def test_without_warpshare_mps_there_is_no_replica_and_the_log_says_why(node):
    node.start_agent(share(20))
    node.wait_counts(0, 40)
    node.agent.wait_event('MPSUnavailable')
    node.start_mps()
    node.wait_counts(40)


def test_a_daemon_of_nvidias_container_does_as_well(node):
    folder = node.programs.path(GPU)
    os.makedirs(os.path.join(folder, 'pipe'))
    os.makedirs(os.path.join(folder, 'log'))
    variables = {**node.programs.environment, 'CUDA_VISIBLE_DEVICES': '%s,%s' % (FIRST, SECOND),
                 'CUDA_MPS_PIPE_DIRECTORY': os.path.join(folder, 'pipe'),
                 'CUDA_MPS_LOG_DIRECTORY': os.path.join(folder, 'log')}
    node.environment.update(fast(), PATH=variables['PATH'], WARPSHARE_MPS_SIM=variables['WARPSHARE_MPS_SIM'])
    node.start_agent(share(20, daemonScope='resource'))
    node.wait_counts(0, 40)
    subprocess.run(['nvidia-cuda-mps-control', '-d'], env=variables, check=True, timeout=mps_module.DEADLINE)
    node.wait_counts(40)
    node.admit('pod')
    assert node.variables('pod')['CUDA_MPS_PIPE_DIRECTORY'] == '/mps/nvidia.com/gpu/pipe'
    assert node.client('pod').connected()['percentage'] == '100.0'  # nobody gave that daemon limits


def test_the_other_daemon_is_not_touched_when_replicas_change(node):
    config = {'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'}, 'sharing': {'mps': {'resources': [
        {'name': GPU, 'rename': 'nvidia.com/gpu.a', 'devices': ['0'], 'replicas': 20},
        {'name': GPU, 'rename': 'nvidia.com/gpu.b', 'devices': ['1'], 'replicas': 20}]}}}
    node.start_all(config)
    node.wait_counts(20, resource='nvidia.com/gpu.a')
    node.wait_counts(20, resource='nvidia.com/gpu.b')
    pids = node.daemon(FIRST)['pid'], node.daemon(SECOND)['pid']
    config['sharing']['mps']['resources'][1]['replicas'] = 10
    node.config(config)
    node.agent.hang_up()
    node.wait_counts(10, 20, resource='nvidia.com/gpu.b')
    peer = node.watch()
    peer.wait_daemon(SECOND, lambda one: one['state'] == 'ready' and one['threadsPermille'] == 100, 'changed')
    assert peer.wait_ready(FIRST)['pid'] == pids[0]
    node.stays(lambda: node.healthy_replicas('nvidia.com/gpu.a') == 20, 'the other resource is as it was', 0.5)
    assert all(all(message.healthy.values()) for message in node.kubelet.messages_of('nvidia.com/gpu.a')[1:])


# ---- what a share is worth ----

def facts(node, pod):
    """The pod's share, as its variables say it and as MPS gives it: they have to be the same."""
    said = node.variables(pod)
    assert 'WARPSHARE_GRANT' in said
    got = node.client(pod).connected()
    assert float(got['percentage']) == float(said['WARPSHARE_THREAD_PERCENTAGE'])
    assert got['limit'] == said['WARPSHARE_MEMORY_LIMIT_MIB']
    return said['WARPSHARE_REPLICAS'], float(got['percentage']), int(got['limit']), said['WARPSHARE_TIER']


def test_under_uniform_the_daemon_gives_everybody_the_same(node):
    node.start_all(share(20))
    node.wait_counts(40)
    node.kubelet.admit('pod', GPU, 1)
    assert 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE' not in node.variables('pod')
    assert facts(node, 'pod') == ('1/20', 5.0, 1630, 'default')
    # NVIDIA's figures, whatever the container does with its variables.
    free = node.client('pod', CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='100', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=30000M')
    assert free.connected()['percentage'] == '5.0' and free.allocate(1631) == 0 and free.allocate(1630) == 1630
    limits = node.agent.wait_until(lambda: [(one['memoryLimit'], one['threadPercent']) for unit in node.agent.units(GPU)
                                            for one in unit['shares'] if one.get('pod') == 'pod' and 'memoryLimit' in one], 'its limits')
    assert limits == [(1630 << 20, 5)]


@pytest.mark.parametrize('version, tier_expected', [(535, 'verified'), (550, 'verified'), (615, 'namespace')])
@pytest.mark.parametrize('provisioning, percentage', [('half', 70.0), ('weighted', 35.0)])
def test_seven_of_twenty_are_worth_seven(node, version, tier_expected, provisioning, percentage):
    node.gpus(1, version=version)
    node.start_all(share(20, provisioning=provisioning))
    node.wait_counts(node.kubelet.capacity(GPU))
    node.kubelet.admit('large', GPU, 7)
    node.kubelet.admit('small', GPU, 1)
    replicas, threads, memory, tier = facts(node, 'large')
    one = facts(node, 'small')
    assert (replicas, threads, tier) == ('7/20', percentage, tier_expected)
    assert one[0] == '1/20' and threads == 7 * one[1] and 0 <= memory - 7 * one[2] < 7


def test_replicas_up_to_all_of_a_gpu_are_whole_shares(node):
    node.gpus(1)
    node.start_all(share(20, provisioning='weighted'))
    node.wait_counts(20)
    node.kubelet.admit('all', GPU, 20)
    replicas, threads, memory, _ = facts(node, 'all')
    assert (replicas, threads) == ('20/20', 100.0) and 31 * 1024 < memory < 32605


# ---- placement ----

def test_a_container_finds_its_share_in_a_file_as_long_as_its_pod_exists(node):
    node.gpus(2)
    node.start_all(share(20, provisioning='weighted', maxPerRequest=10))
    node.wait_counts(31, 40)  # 9 are reserved
    answer = node.admit('pod', 7)
    path, = (mount.host_path for mount in answer.mounts if mount.container_path.endswith('-metadata.json'))
    path = path.replace('/run/nvidia/mps', node.mps_root, 1)

    def told():
        with open(path, encoding='utf-8') as file:
            objects = [json.loads(line) for line in file]
        assert [o['apiVersion'] for o in objects] == ['metadata.resource.k8s.io/v1beta1', 'metadata.resource.k8s.io/v1alpha1']
        device, = objects[0]['requests'][0]['devices']
        return {name: value.popitem()[1] for name, value in device['attributes'].items()}

    attributes = told()
    assert attributes['uuid'] == node.unit('pod')
    assert attributes['tier'] == answer.envs['WARPSHARE_TIER']
    assert str(attributes['memoryMiB']) == answer.envs['WARPSHARE_MEMORY_LIMIT_MIB']
    assert attributes['threadPercentage'] == float(answer.envs['WARPSHARE_THREAD_PERCENTAGE'])
    assert attributes['driverVersion'] and attributes['productName']
    os.unlink(path)
    node.wait(lambda: os.path.exists(path), 'the file is there again')
    assert told() == attributes
    node.kubelet.remove_pod('pod')
    node.wait(lambda: not os.path.exists(path), 'the file is gone with the pod')


def test_no_request_is_split_and_what_is_free_is_noticed(node):
    node.gpus(4)
    node.start_all(share(20, provisioning='weighted', maxPerRequest=5))
    node.wait_counts(68, 80)
    with pytest.raises(Exception, match='maxPerRequest is 5'):
        node.kubelet.plugin(GPU).allocate_ids(node.kubelet.ids(GPU, healthy=True)[:6])
    held = {}
    sizes = [5, 1, 3, 5, 2, 4] * 4
    for i, size in enumerate(sizes):
        if sum(held.values()) + size > 68:
            break
        node.kubelet.admit('pod%d' % i, GPU, size)
        assert node.variables('pod%d' % i)['NVIDIA_VISIBLE_DEVICES'].count('GPU-') == 1
        held[i] = size
    used = {}
    for i, size in held.items():
        used[node.unit('pod%d' % i)] = used.get(node.unit('pod%d' % i), 0) + size
    assert all(count <= 20 for count in used.values()) and sum(used.values()) == sum(held.values())
    # They are all over; kubelet does not say so, and the agent asks.
    for i in held:
        node.kubelet.remove_pod('pod%d' % i)
    assert node.agent.stop() == 0
    node.start()  # with the books of the one before
    node.wait_counts(68, 80)
    node.wait(lambda: not on_record(node), 'nobody holds anything')
    for i in range(13):
        node.kubelet.admit('next%d' % i, GPU, 5)


def on_record(node):
    try:
        with open(os.path.join(node.mps_root, 'allocations-nvidia.com_gpu.json'), encoding='utf-8') as file:
            return {grant['id']: grant['unit'] for grant in json.load(file)['grants']}
    except (FileNotFoundError, IsADirectoryError):
        return {}


def test_the_ledger_survives_a_restart(node):
    node.start_all(share(20, provisioning='weighted', maxPerRequest=20))
    node.wait_counts(21, 40)
    for pod, size in (('one', 15), ('two', 4)):
        node.admit(pod, size)
    node.wait(lambda: len(on_record(node)) == 2, 'the books are on file')
    node.agent.kill()
    node.wait_counts(0, 40)
    node.start('--log-level=debug')
    node.wait(lambda: node.kubelet.newest and node.kubelet.allocatable(GPU), 'replicas are there')
    node.admit('three', 2)
    with pytest.raises(RuntimeError, match='Requested: 1, Available: 0'):
        node.kubelet.admit('four', GPU, 1)
    node.wait(lambda: len(on_record(node)) == 3, 'the books are on file')
    assert on_record(node) == {node.variables(pod)['WARPSHARE_GRANT']: node.unit(pod) for pod in ('one', 'two', 'three')}


@pytest.mark.parametrize('scope', ['gpu', 'resource'])
def test_a_share_outlives_an_agent_that_starts_while_its_gpu_is_lost(node, scope):
    """That agent cannot know the GPU. The share must not become another one, nor wait for its own pod to end."""
    node.start_all(share(20, provisioning='weighted', maxPerRequest=5, placement='same-gpu', daemonScope=scope))
    node.wait_counts(36, 40)
    node.admit('pod', 3)
    client = node.client('pod')
    given = client.connected()
    node.wait(lambda: len(on_record(node)) == 1, 'it is on record')
    before, unit = on_record(node), node.unit('pod')
    lost = {int(unit[4]): {'lost': True}}
    node.gpus(2, changes=lost)
    node.wait(lambda: node.healthy_replicas(unit=unit) == 0, 'its replicas are unhealthy')
    client.end()
    for _ in range(2):
        assert node.agent.stop() == 0
        node.start('--log-level=debug')
        node.wait(lambda: node.healthy_replicas() > 0, 'the other GPU is served')
        node.agent.wait_event('ChangePending', '%s.*default/pod/main' % unit)
    node.gpus(2)
    assert node.agent.stop() == 0
    node.start('--log-level=debug')
    node.wait_counts(36, 40)
    again = node.client('pod').connected()
    assert (again['percentage'], again['limit']) == (given['percentage'], given['limit'])
    node.wait(lambda: on_record(node) == before, 'the allocation is on record again')


# ---- tiers ----

def partition_of(variables):
    """As lspart shows it, without the UUID."""
    return variables['CUDA_MPS_SM_PARTITION'].split('/', 1)[1]


def test_partitions_are_made_for_a_container_and_go_with_it(node):
    node.environment.update(fast())
    node.gpus(1, model=H100, version=590)
    node.start_all(share(4, provisioning='sm'))
    node.wait_counts(node.kubelet.capacity(GPU))
    node.kubelet.admit('large', GPU, 2)
    node.kubelet.admit('small', GPU, 1)
    large, small = node.variables('large'), node.variables('small')
    assert (large['WARPSHARE_TIER'], large['WARPSHARE_SMS']) == ('partition', '48')
    assert large['CUDA_MPS_SM_PARTITION'] != small['CUDA_MPS_SM_PARTITION']
    assert node.client('large').connected()['sms'] == '48' and node.client('small').connected()['sms'] == '24'
    assert node.client('small', CUDA_MPS_SM_PARTITION=None).hears('error 915')
    for client in node.clients:
        client.end()
    node.kubelet.remove_pod('large')
    node.wait(lambda: partition_of(large) not in node.programs.ask(FIRST, 'lspart'), 'its partition is gone')
    assert partition_of(small) in node.programs.ask(FIRST, 'lspart')
    node.supervisor.kill()  # and nobody hears the next release
    node.kubelet.remove_pod('small')
    node.wait(lambda: not on_record(node), 'the agent has released it')
    node.start_mps()
    node.wait_counts(node.kubelet.capacity(GPU))
    node.wait(lambda: partition_of(small) not in node.programs.ask(FIRST, 'lspart'), 'its partition is gone, too')


GB10 = {'name': 'NVIDIA GB10', 'errors': {call: 'NOT_SUPPORTED' for call in ('nvmlDeviceGetMemoryInfo', 'nvmlDeviceGetMemoryInfo_v2')}}


@pytest.mark.parametrize('version, provisioning, tier', [(550, 'weighted', 'verified'), (580, 'uniform', 'default'),
                                                         (615, 'weighted', 'namespace')])
def test_a_tier_that_limits_no_memory_says_so_to_the_container_and_in_the_status(node, version, provisioning, tier):
    node.gpus(1, version=version, changes={0: GB10})
    node.start_all(share(4, provisioning=provisioning))
    node.wait_counts(4)
    node.admit('pod', 1)
    told = tier + '-no-memory-limit'
    variables = node.variables('pod')
    assert variables['WARPSHARE_TIER'] == told
    assert not [name for name in variables if 'MEM' in name]
    assert ' %s' % told in node.programs.run('mps', 'status').stdout
    daemon, = json.loads(node.programs.run('mps', 'status', '--output', 'json').stdout)['daemons']
    assert (daemon['tier'], daemon['unlimitedUnits']) == (told, [FIRST])


def test_a_tier_has_its_plain_name_where_the_configuration_says_how_much_memory_there_is(node):
    node.gpus(1, changes={0: GB10})
    content = share(4, provisioning='weighted')
    content['sharing']['mps']['resources'][0]['memory'] = '32Gi'
    node.start_all(content)
    node.wait_counts(4)
    node.admit('pod', 1)
    assert node.variables('pod')['WARPSHARE_TIER'] == 'verified'
    daemon, = json.loads(node.programs.run('mps', 'status', '--output', 'json').stdout)['daemons']
    assert daemon['tier'] == 'verified' and 'unlimitedUnits' not in daemon


def test_every_partition_of_a_gpu_that_is_full_can_be_made(node):
    node.gpus(1, model=H100, version=590)
    node.start_all(share(8, provisioning='sm'))
    node.wait_counts(8)
    for name in (pods := ['pod-%d' % number for number in range(8)]):
        node.kubelet.admit(name, GPU, 1)
    assert len({node.variables(name)['CUDA_MPS_SM_PARTITION'] for name in pods}) == 8


def test_mig_devices_have_a_daemon_each(node):
    mig = {'enabled': True, 'devices': [{'profile': '3g.20gb', 'uuid': 'MIG-aaaaaaaa-1111-2222-3333-444444444444'},
                                        {'profile': '3g.20gb', 'uuid': 'MIG-bbbbbbbb-1111-2222-3333-444444444444'}]}
    devices = [device['uuid'] for device in mig['devices']]
    a100 = {'model': 'A100-40GB', 'sms': 108, 'memory': 40960, 'cc': 8}
    node.gpus(1, model=a100, changes={0: {'mig': mig}}, visible=[(uuid, 42, 20096) for uuid in devices])
    config = share(5, provisioning='weighted', maxPerRequest=5)
    config['flags']['migStrategy'] = 'mixed'
    config['sharing']['mps']['resources'][0]['name'] = 'nvidia.com/mig-3g.20gb'
    node.start_all(config)
    node.wait(lambda: node.healthy_replicas('nvidia.com/mig-3g.20gb') == 6, 'as many are there as the guarantee allows')
    pids = [node.daemon(uuid)['pid'] for uuid in devices]
    assert pids[0] != pids[1]
    node.kubelet.admit('pod', 'nvidia.com/mig-3g.20gb', 2)
    said = node.variables('pod', 'nvidia.com/mig-3g.20gb')
    assert said['NVIDIA_VISIBLE_DEVICES'] in devices
    got = node.client('pod', resource='nvidia.com/mig-3g.20gb').connected()
    assert (got['percentage'], got['limit']) == ('40.0', said['WARPSHARE_MEMORY_LIMIT_MIB'])
    node.set_mps_scenario(devices[0], 'server: works')
    os.kill(pids[0], 9)
    node.agent.wait_event('MPSDaemonFault', devices[0])
    node.agent.wait_event('MPSDaemonRecovered', devices[0])
    assert node.daemon(devices[1])['pid'] == pids[1]


# ---- the guard ----

def overdraw(node, guard):
    """Two pods on one GPU: one has two processes of its whole share each, which no limit of the driver forbids."""
    node.gpus(1)
    node.start_all(share(20, provisioning='weighted', guard=guard))
    node.wait_counts(20)
    node.admit('greedy', 3, namespace='team')
    node.admit('neighbour', 3)
    good = node.client('neighbour')
    good.connected()
    assert good.allocate(4000) == 4000
    greedy = [node.client('greedy'), node.client('greedy')]
    for client, amount in zip(greedy, (4500, 4000)):
        client.connected()
        assert client.allocate(amount) == amount
    return good, greedy


def test_two_processes_that_each_use_the_whole_share_are_reported(node):
    good, greedy = overdraw(node, 'report')
    told = node.agent.wait_log('limit violated event=MPSLimitViolated violation=memory .*').group(0)
    assert 'pod=team/greedy' in told and 'client=%d' % greedy[0].pid in told and '8500 MiB in 2 processes' in told
    greedy[0].order('leave')
    node.agent.wait_log('limit holds again event=MPSLimitHolds violation=memory .*pod=team/greedy')
    assert good.is_alive() and greedy[1].is_alive()
    assert node.agent.count('MPSClientTerminated|neighbour.*MPSGrant') == 0


def test_a_pod_that_is_only_in_kubelets_checkpoint_keeps_its_share_and_is_not_external(node):
    """An init container, of which kubelet's list says nothing, of an agent that died before it had written anything down."""
    node.gpus(1)
    node.environment.update(fast())
    node.start_all(share(20, provisioning='weighted', guard='terminate', maxPerRequest=7))
    node.wait_counts(20)
    node.kubelet.admit('pod', GPU, 3, container='prepare', init=True)
    node.agent.kill()
    node.start('--log-level=debug')
    calls = node.kubelet.list_calls
    client = node.client('pod')
    client.connected()
    node.wait(lambda: node.kubelet.list_calls > calls and len(on_record(node)) == 1, 'the agent asks, and has it in its books')
    # Not a guess: kubelet's record has the answer, too.
    assert on_record(node) == {node.variables('pod')['WARPSHARE_GRANT']: node.unit('pod')}
    # Longer than anything is taken for held without proof.
    node.stays(lambda: client.is_alive() and len(on_record(node)) == 1, 'it has its share', 3.0)  # twelve of the agent's
    assert node.agent.count('MPSLimitViolated|MPSClientUnknown|MPSClientTerminated') == 0
    client.end()
    node.kubelet.remove_pod('pod')
    node.wait(lambda: not on_record(node), 'its share is free, though kubelet allocates nothing')


def test_a_request_waits_for_kubelets_record_where_that_is_in_doubt(node):
    """What ended before any list had it looks like an init container, and kubelet gives its devices to the next pod at once."""
    node.gpus(1)
    node.environment.update(fast())
    node.start_all(share(20, provisioning='weighted', maxPerRequest=20))
    node.wait_counts(20)
    for i in range(3):
        node.kubelet.admit('pod%d' % i, GPU, 20, init=i != 1)
        node.kubelet.remove_pod('pod%d' % i)
    node.kubelet.admit('lasting', GPU, 20)
    node.kubelet.remove_pod('lasting')
    node.wait(lambda: not on_record(node), 'all of it is free')


def test_no_process_is_judged_by_an_old_list(node):
    """The pod is gone, another one has its ids, and kubelet refuses to tell whose they are now."""
    node.gpus(1)
    node.start_all(share(20, provisioning='weighted', guard='terminate', maxPerRequest=20))
    node.wait_counts(20)
    node.admit('first', 20)
    node.kubelet.list_refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, 'rejected by rate limit, please retry later.')
    node.kubelet.remove_pod('first')
    node.kubelet.admit('second', GPU, 20)
    calls = node.kubelet.list_calls
    client = node.client('second')
    client.connected()
    node.wait(lambda: node.kubelet.list_calls >= calls + 3, 'kubelet is asked again and again')
    node.kubelet.list_refusal = None
    listed = 'kubelet has reported which container holds which devices'
    node.agent.wait_log(listed, node.agent.count(listed) + 2)
    assert client.is_alive() and node.agent.count('MPSLimitViolated|MPSClientUnknown|MPSClientTerminated') == 0


def test_a_ledger_that_cannot_be_written_is_written_later(node):
    node.gpus(2)
    node.start_all(share(20, provisioning='weighted', maxPerRequest=7))
    node.wait_counts(34, 40)
    path = os.path.join(node.mps_root, 'allocations-nvidia.com_gpu.json')
    terms = os.path.join(node.mps_root, 'terms.json')
    os.unlink(terms)
    for folder in (path, terms):
        os.mkdir(folder)  # so that nothing can be put in its place
    node.kubelet.admit('pod', GPU, 3)
    node.agent.wait_log('the allocation record cannot be written, will try again')
    node.config(share(10, provisioning='weighted', maxPerRequest=7))
    node.agent.hang_up()
    node.agent.wait_log('the record of sharing policies cannot be written, will try again')
    for folder in (path, terms):
        os.rmdir(folder)
    node.wait(lambda: os.path.isfile(terms), 'what was promised is on file')
    node.wait(lambda: os.path.exists(path) and len(on_record(node)) == 1, 'it is on file')
    record = os.path.join(node.mps_root, 'state.json')
    assert [os.stat(each).st_mode & 0o777 for each in (path, terms, record)] == [0o600] * 3


def connections(path):
    """Of both ends, and the socket that listens."""
    with open('/proc/net/unix', encoding='utf-8') as file:
        return sum(line.rstrip('\n').endswith(path) for line in file)


def test_an_agent_that_takes_over_knows_at_once_which_daemons_are_ready(node):
    """Those that run with what it wants: it need not wait until the supervisor has heard of it."""
    node.start_all(share(10, provisioning='weighted'))
    first = node.agent
    count = 16  # 4 of 20 are reserved
    node.wait(lambda: node.healthy_replicas() == count, 'all are healthy')
    before = connections(node.programs.path('warpshare.sock'))
    second = node.start()
    second.wait_plan(20)
    node.wait(lambda: connections(node.programs.path('warpshare.sock')) > before, 'the second one is connected')
    node.stays(lambda: node.healthy_replicas() == count, 'the first one serves, and the second one hears of the daemons', 0.5)
    seen = len(node.kubelet.messages_of(GPU))
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    try:
        assert first.stop() == 0
        node.wait(lambda: len(node.kubelet.messages_of(GPU)) > seen, 'the second one serves')
    finally:
        os.kill(node.supervisor.pid, signal.SIGCONT)
    assert sum(node.kubelet.messages_of(GPU)[seen].healthy.values()) == count


def test_the_limit_monitor_terminates_only_the_violating_client(node):
    good, greedy = overdraw(node, 'terminate')
    node.agent.wait_log('terminating an MPS client event=MPSClientTerminated .*client=%d ' % greedy[0].pid)
    assert greedy[0].wait() == 4
    node.agent.wait_log('limit holds again event=MPSLimitHolds')
    assert good.is_alive() and greedy[1].is_alive() and good.allocate(100) == 100
    assert node.agent.count('MPSClientTerminated') == 1
