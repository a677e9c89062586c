# SPDX-License-Identifier: Apache-2.0
"""The simulated GPUs of one node, shared in every way that the manifest's configurations know. In this order: each test takes the node as
the one before left it, and the last one removes everything."""
import re

import pytest

from churn import Churn
from pods import NAMESPACE

GPUS = 4
EVERYTHING = {'nvidia.com/gpu': 16}


def daemon_says(pods, name, command):
    """What the control daemon of the container's GPU answers."""
    return pods.shell(name, f'echo {command} | PATH=/usr/lib/warpshare/mps-sim:$PATH nvidia-cuda-mps-control').strip()


def gpus(pods, name, told):
    """Those of a container: by CDI as device nodes, otherwise by name."""
    unit = told['NVIDIA_VISIBLE_DEVICES']
    return ' '.join(pods.shell(name, 'echo /dev/nvidia[0-9]*').split()) if unit == 'void' else unit


def test_the_manifest_offers_four_gpus_in_sixteen_shares(warpshare, note):
    warpshare.install('simulated')
    warpshare.wait_counts(EVERYTHING)
    note(f'kubelet {warpshare.look()["status"]["nodeInfo"]["kubeletVersion"]}, '
         f'{warpshare.look()["status"]["nodeInfo"]["containerRuntimeVersion"]}')


def test_the_node_says_which_configuration_is_in_force(warpshare):
    warpshare.kube.wait('annotations', lambda: warpshare.annotations().get('config-status') == 'accepted')
    assert warpshare.annotations()['config'] == 'default'


def test_a_pod_with_a_share_by_mps_reaches_the_daemon_of_its_gpu(pods):
    told = pods.run('one', {'nvidia.com/gpu': 1})
    assert told['NVIDIA_VISIBLE_DEVICES'].startswith('GPU-')
    assert daemon_says(pods, 'one', 'get_default_active_thread_percentage') == '25.0'


def test_pods_are_spread_over_the_gpus_and_the_one_too_many_waits(pods, kube, note):
    for number in range(16):
        pods.start(f'share-{number}', {'nvidia.com/gpu': 1})
    pods.start('too-many', {'nvidia.com/gpu': 1})
    units = {}
    for number in range(16):
        pods.wait(f'share-{number}', 'Running')
        unit = pods.environment(f'share-{number}')['NVIDIA_VISIBLE_DEVICES']
        units[unit] = units.get(unit, 0) + 1
    assert sorted(units.values()) == [4] * GPUS
    said = kube.wait('the scheduler judges the last pod', lambda: next(
        (one['message'] for one in pods.get('too-many')['status'].get('conditions', []) if one['type'] == 'PodScheduled'), None))
    assert 'Insufficient nvidia.com/gpu' in said
    why = kube.kubectl('warpshare', 'why', 'too-many', '-n', NAMESPACE)
    assert 'waits' in why and 'too few replicas are free' in why, why
    note(why.split('\n', maxsplit=1)[0])
    pods.delete('share-7')
    pods.wait('too-many', 'Running')


def test_a_pod_that_asks_for_two_equal_shares_is_refused_with_the_reason(pods):
    pods.start('two', {'nvidia.com/gpu': 2})
    status = pods.wait('two', 'Failed')['status']
    assert status['reason'] == 'UnexpectedAdmissionError' and 'maximum request size' in status['message'], status


# ---- changes by the node's label, while a pod has a share ----

def test_a_label_makes_one_resource_of_each_gpu_while_a_pod_goes_on(warpshare, pods):
    pods.run('stays', {'nvidia.com/gpu': 1})
    warpshare.choose('individual')
    pods.kube.wait('the configuration is known', lambda: (warpshare.annotations().get('config') == 'individual', warpshare.annotations()))
    assert pods.get('stays')['status']['phase'] == 'Running'
    pods.delete('stays')
    warpshare.wait_counts({f'nvidia.com/gpu{unit}': 4 for unit in range(GPUS)})
    assert len({gpus(pods, f'unit-{unit}', pods.run(f'unit-{unit}', {f'nvidia.com/gpu{unit}': 1})) for unit in range(GPUS)}) == GPUS


def test_a_container_may_have_shares_of_two_resources(pods):
    told = pods.run('both', {'nvidia.com/gpu0': 1, 'nvidia.com/gpu1': 1})
    assert told['NVIDIA_VISIBLE_DEVICES'] == 'void', 'the container runtime does not know CDI'
    assert gpus(pods, 'both', told) == '/dev/nvidia0 /dev/nvidia1'


def test_a_label_makes_shares_of_any_size(warpshare, pods):
    warpshare.choose('unequal')
    warpshare.wait_counts({'nvidia.com/gpu': 22})
    told = pods.run('seven-tenths', {'nvidia.com/gpu': 7})
    assert told['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'].startswith('70'), told
    assert re.match(r'0=\d+M', told['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT']), told
    told = pods.run('one-tenth', {'nvidia.com/gpu': 1})
    assert told['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'].startswith('10'), told
    pods.start('too-large', {'nvidia.com/gpu': 8})
    status = pods.wait('too-large', 'Failed')['status']
    assert status['reason'] == 'UnexpectedAdmissionError' and 'maxPerRequest is 7' in status['message'], status
    why = pods.kube.kubectl('warpshare', 'why', 'too-large', '-n', NAMESPACE)
    assert 'was refused by kubelet' in why and 'maxPerRequest' in why, why


def test_a_label_makes_shares_by_time_without_mps(warpshare, pods):
    warpshare.choose('time-slicing')
    warpshare.wait_counts(EVERYTHING)
    told = pods.run('slice', {'nvidia.com/gpu': 1})
    assert told['NVIDIA_VISIBLE_DEVICES'].startswith('GPU-') and not [name for name in told if name.startswith('CUDA_MPS')]


def test_a_label_makes_whole_gpus(warpshare, pods):
    warpshare.choose('whole')
    warpshare.wait_counts({'nvidia.com/gpu': GPUS})
    told = pods.run('whole', {'nvidia.com/gpu': 3})
    assert len(set(told['NVIDIA_VISIBLE_DEVICES'].split(','))) == 3


def test_a_label_that_no_configuration_has_falls_back_to_the_default(warpshare, kube):
    warpshare.choose('nonsense')
    warpshare.wait_counts(EVERYTHING)
    kube.wait('the node says so', lambda: (warpshare.annotations().get('config') == 'default', warpshare.annotations()))
    kube.wait('the event', lambda: 'ConfigFallback' in [one['reason'] for one in kube.items('/api/v1/events')])
    warpshare.choose(None)


def test_an_edited_configmap_counts_without_a_restart(warpshare, kube):
    before = warpshare.pod('agent')['metadata']['uid']
    text = 'version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 3}\n'
    path = '/api/v1/namespaces/warpshare/configmaps/warpshare-configs'
    kube.request('PATCH', path, {'data': {'time-slicing': text}}, 'application/merge-patch+json')
    warpshare.choose('time-slicing')
    warpshare.wait_counts({'nvidia.com/gpu': 3 * GPUS})
    assert warpshare.pod('agent')['metadata']['uid'] == before
    warpshare.choose(None)
    warpshare.wait_counts(EVERYTHING)


# ---- the agent, while pods come and go ----

def stays_up(pods):
    """A pod that has to outlive what is done to the agent."""
    pods.run('outlives', {'nvidia.com/gpu': 1})
    return pods.get('outlives')['status']['containerStatuses'][0]['containerID']


def assert_stayed(pods, container):
    status = pods.get('outlives')['status']
    assert status['phase'] == 'Running' and status['containerStatuses'][0]['containerID'] == container
    assert daemon_says(pods, 'outlives', 'get_default_active_thread_percentage') == '25.0'


def test_no_pod_is_refused_while_pods_come_and_go(pods, told, note):
    with Churn(pods, {'nvidia.com/gpu': 1}) as churn:
        churn.stop.wait(told.seconds)
    note(str(churn.tally))
    assert churn.tally.ran and not churn.tally.refused and not churn.tally.failed, churn.tally.reasons


def test_a_rolling_update_under_churn_lets_running_pods_be(warpshare, pods, kube, told, note):
    container = stays_up(pods)
    with Churn(pods, {'nvidia.com/gpu': 1}) as churn:
        churn.wait_ran(2)
        rounds = 0
        while rounds < max(1, told.seconds // 15):
            kube.kubectl('-n', 'warpshare', 'rollout', 'restart', 'daemonset/warpshare-agent')
            kube.kubectl('-n', 'warpshare', 'rollout', 'status', 'daemonset/warpshare-agent', f'--timeout={told.timeout}s')
            rounds += 1
            churn.wait_ran(2)
    note(f'{rounds} updates: {churn.tally}')
    assert_stayed(pods, container)
    assert not churn.tally.failed and not churn.tally.refused, churn.tally.reasons
    warpshare.wait_counts(EVERYTHING)


def processes(warpshare, container):
    """[(pid, parent)] of a container, as the supervisor's pod sees them, which is in the node's PID namespace."""
    said = warpshare.execute('mps', 'sh', '-c', f'''for dir in /proc/[0-9]*; do
        grep -qs {container} "$dir/cgroup" && echo "${{dir#/proc/}} $(sed -n 's/^PPid:[[:space:]]*//p' "$dir/status")"
        done; true''')
    return [tuple(line.split()) for line in said.split('\n') if line]


def kill(warpshare, whole):
    """kill -9 of the agent, or of its whole container: how many processes."""
    status = warpshare.pod('agent')['status']['containerStatuses'][0]
    there = processes(warpshare, status['containerID'].rpartition('/')[2])
    pids = {pid for pid, _ in there}
    doomed = [pid for pid, parent in there if whole or parent in pids]
    assert doomed, there
    warpshare.execute('mps', 'kill', '-9', *doomed)
    return len(doomed)


@pytest.mark.parametrize('what', ['the agent', 'its container'])
def test_a_kill_under_churn_costs_refused_pods_at_most(warpshare, pods, told, note, what):
    container = stays_up(pods)
    with Churn(pods, {'nvidia.com/gpu': 1}) as churn:
        churn.wait_ran(2)
        kills = 0
        while kills < (max(2, told.seconds // 6) if what == 'the agent' else 1):
            kill(warpshare, what != 'the agent')
            kills += 1
            churn.stop.wait(3)
            churn.wait_ran(2)
    note(f'{kills} kills: {churn.tally}')
    assert_stayed(pods, container)
    assert not churn.tally.failed, churn.tally.reasons
    warpshare.wait_counts(EVERYTHING)


# ---- what people look at ----

def test_kubectl_warpshare_shows_nodes_gpus_and_shares(warpshare, pods, kube):
    pods.run('seen', {'nvidia.com/gpu': 1})
    line = next(line for line in kube.kubectl('warpshare', 'nodes').split('\n') if line.startswith(warpshare.node))
    assert line.split()[1:4] == ['Ready', 'answers', '4'] and 'nvidia.com/gpu' in line, line

    def top():
        shown = kube.kubectl('warpshare', 'top', warpshare.node)
        return f'{NAMESPACE}/seen/main' in shown and shown.count('V100') == GPUS, shown

    kube.wait('the container has its name', top)  # which the agent has from kubelet, a moment after it was started
    shares = kube.kubectl('warpshare', 'shares', '-n', NAMESPACE)
    assert 'seen' in shares and warpshare.node in shares, shares
    why = kube.kubectl('warpshare', 'why', 'seen', '-n', NAMESPACE)
    assert why.startswith(f'{NAMESPACE}/seen runs on {warpshare.node}'), why


def test_kubectl_warpshare_doctor_finds_nothing_wrong(warpshare, kube, note):
    done = kube.run('warpshare', 'doctor', warpshare.node)
    note(done.stdout.strip().rpartition('\n')[2])
    assert done.returncode == 0, done.stdout + done.stderr


def test_doctor_in_the_agents_pod_finds_nothing_wrong(warpshare, kube, note):
    done = kube.run('-n', 'warpshare', 'exec', warpshare.pod('agent')['metadata']['name'], '--', 'warpshare', 'doctor')
    note(done.stdout.strip().rpartition('\n')[2])
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the end ----

def test_nothing_is_left_after_the_uninstall(warpshare, note):
    phase, said = warpshare.clean_node()
    assert phase == 'Succeeded', said
    warpshare.choose(None)
    warpshare.delete()
    warpshare.kube.wait('everything is gone', lambda: (not warpshare.left(), str(warpshare.left())))
    note(f'{len(re.findall("removed", said))} things removed on the node')
