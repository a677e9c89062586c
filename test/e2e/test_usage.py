# SPDX-License-Identifier: Apache-2.0
"""Who uses what, as the metrics of the agent say: simulated processes, whose cgroups are in a /proc of the test's own."""
import csv
import json
import os
import re
import shutil
import subprocess

import pytest
from apiserver import agent_rules
from cluster import NAME, cluster  # noqa: F401 -- a fixture
from mps_node import MpsNode
from node import GPU, SIMULATOR, WARPSHARE, sharing, v100s
from test_health import fail

GIB = 1 << 30
USED = 'warpshare_container_memory_used_bytes'


class Machine:
    """A /proc with the processes that the test puts into it."""

    def __init__(self, node):
        self.root = os.path.join(node.folder, 'machine')
        os.makedirs(os.path.join(self.root, 'proc'))

    def put(self, pid, cgroup):
        os.makedirs(os.path.join(self.root, 'proc', str(pid)))
        with open(os.path.join(self.root, 'proc', str(pid), 'cgroup'), 'w', encoding='ascii') as file:
            file.write('0::%s\n' % cgroup)


def series(node, name):
    """The samples of the family: their labels as text, and their values."""
    lines = [line for line in node.agent.get('/metrics')[1].splitlines() if line.startswith(name + '{')]
    return {line[len(name):].rsplit(' ', 1)[0]: float(line.rsplit(' ', 1)[1]) for line in lines}


def names(node):
    """What is known of each share, by its id."""
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', text)) for text in series(node, 'warpshare_container_info')]
    return {of.pop('share'): of for of in labels}


def of_pod(node, name, pod):
    shares = {'{share="%s"}' % share for share, of in names(node).items() if of.get('pod') == pod}
    return [value for labels, value in series(node, name).items() if labels in shares]


def start(node, config, machine):
    return node.start_all(config, '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', machine.root)


def test_a_pods_processes_are_counted_until_it_ends(node):
    machine = Machine(node)
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    kubelet.admit('train', GPU, 1, namespace='team-a')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['train'].uid, 1))
    machine.put(4712, '/user.slice/user-1000.slice/session-1.scope')
    gpus = v100s(1)
    gpus[0]['memoryUsed'] = '5GiB'
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}, {'pid': 4712, 'memory': '1GiB'}]
    node.scenario(gpus)
    node.wait(lambda: of_pod(node, USED, 'train') == [3 * GIB], 'the memory of the pod is told')
    of, = names(node).values()
    assert (of['namespace'], of['pod'], of['container']) == ('team-a', 'train', 'main')
    assert of_pod(node, 'warpshare_container_sm_ratio', 'train') == [0.4]
    others = series(node, 'warpshare_unit_other_memory_bytes')
    assert sorted(value for labels, value in others.items() if 'index="0"' in labels) == [GIB, GIB], 'the host, and nobody'
    node.wait(lambda: of_pod(node, 'warpshare_container_sm_seconds_total', 'train')[0] > 0.3, 'activity adds up')
    kubelet.remove_pod('train')
    node.scenario(v100s(1))
    node.wait(lambda: of_pod(node, USED, 'train') in ([], [0]), 'its processes have ended')


def page(node, query=''):
    status, text = node.agent.get('/node' + query)
    assert status == 200
    return json.loads(text)


def only_share(node, query=''):
    shares = page(node, query)['gpus'][0]['units'][0]['shares']
    return shares[0] if len(shares) == 1 else {}


@pytest.mark.parametrize('way', ['timeSlicing', 'mps'])
def test_two_pods_that_kubelet_gave_one_device_are_reported_and_both_have_a_row(node, way):
    machine = Machine(node)
    kubelet = start(node, sharing(way, 4), machine)
    kubelet.admit('one', GPU, 1, namespace='team')
    kubelet.admit_again('two', 'one')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['two'].uid, 1))  # whose that is the agent asks kubelet
    gpus = v100s(4)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB'}]
    node.scenario(gpus)
    node.agent.wait_log('kubelet has given one device to two pods error="\'GPU-.*::[0-9]+\' of nvidia.com/gpu is held by team/one and by team/two')
    node.wait(lambda: {'one', 'two'} <= {of.get('pod') for of in names(node).values()}, 'both have a row')
    assert '\nwarpshare_devices_held_twice 1\n' in node.agent.get('/metrics')[1]


def test_the_page_of_the_node_has_granted_and_used(node):
    machine = Machine(node)
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    kubelet.admit('train', GPU, 1, namespace='team-a')
    uid = kubelet.pods['train'].uid
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (uid, 1))
    with open(os.path.join(machine.root, 'proc/4711/comm'), 'w', encoding='ascii') as file:
        file.write('python3\n')
    gpus = v100s(1)
    gpus[0]['memoryUsed'] = '5GiB'
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    node.wait(lambda: only_share(node).get('memoryUsed') == 3 * GIB, 'the memory of the pod is told')
    node.wait(lambda: only_share(node).get('replicas') == 1, 'kubelet has said what the pod holds')
    share = only_share(node)
    assert (share['namespace'], share['pod'], share['container'], share['podUid']) == ('team-a', 'train', 'main', uid)
    assert share['sm'] == 0.4 and 'memoryLimit' not in share and 'processes' not in share and 'history' not in share
    share = only_share(node, '?processes=1&history=1')
    assert share['processes'] == [{'pid': 4711, 'name': 'python3', 'memoryUsed': 3 * GIB, 'sm': 0.4}]
    assert share['history'][-1] == 0.4 and share['memoryHistory'][-1] == 3 * GIB
    whole = page(node, '?history=1')
    gpu = whole['gpus'][0]
    unit, = gpu['units']
    assert whole['version'] == 1 and gpu['model'] and gpu['memoryUsed'] == 5 * GIB
    assert (unit['resource'], unit['sharing'], unit['by']) == (GPU, 'time-slicing', 'device-plugin')
    assert (unit['replicas'], unit['granted'], unit['reserved'], unit['healthy']) == (4, 1, 0, True)
    assert unit['others'] == [{'by': 'unattributed', 'memoryUsed': 2 * GIB}]
    assert unit['history']
    kubelet.remove_pod('train')
    node.scenario(v100s(1))
    node.wait(lambda: page(node)['gpus'][0]['units'][0]['shares'] == [], 'its share ends with it')


def test_the_page_of_the_node_has_what_happened(node):
    node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=off')
    assert page(node)['events'] == []
    uuid = page(node)['gpus'][0]['uuid']
    fail(node, 0)
    node.wait(lambda: not page(node)['gpus'][0]['units'][0]['healthy'], 'the GPU is unhealthy')
    event, = page(node)['events']
    assert (event['kind'], event['reason'], event['unit']) == ('Warning', 'GPUUnhealthy', uuid)
    assert 'Xid 79' in event['text'] and 'Xid 79' in page(node)['gpus'][0]['units'][0]['reason']


def test_chosen_labels_of_pods_are_repeated(node, cluster):  # noqa: F811
    cluster.api.allow(agent_rules('podLabels', 'configuration'))
    cluster.create_pod(node.kubelet, 'train', 'team-a', labels={'team': 'vision', 'app.kubernetes.io/name': 'resnet', 'secret': 'x'})
    machine = Machine(node)
    kubelet = node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', machine.root,
                             '--metrics-pod-labels=team,app.kubernetes.io/name', '--events=none', *cluster.options())
    kubelet.admit('train', GPU, 1, namespace='team-a')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['train'].uid, 1))
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB'}]
    node.scenario(gpus)

    def chosen():
        return [{key: value for key, value in of.items() if key.startswith('label_')} for of in names(node).values() if of.get('pod') == 'train']

    node.wait(lambda: chosen() == [{'label_team': 'vision', 'label_app_kubernetes_io_name': 'resnet'}], 'the labels are repeated')
    asked, = cluster.api.asked('list', 'pods')
    assert asked.query['fieldSelector'] == 'spec.nodeName=' + NAME
    assert (asked.form, cluster.api.asked('watch', 'pods')[0].form) == ('PartialObjectMetadataList', 'PartialObjectMetadata')
    cluster.api.patch('/api/v1/namespaces/team-a/pods', 'train', {'metadata': {'labels': {'team': 'speech', 'app.kubernetes.io/name': None}}})
    node.wait(lambda: chosen() == [{'label_team': 'speech'}], 'a label that changes')
    cluster.api.delete('/api/v1/namespaces/team-a/pods', 'train')
    node.wait(lambda: chosen() == [{}], 'the pod is gone')
    assert not cluster.refused()


def test_without_the_right_to_read_pods_metrics_have_no_labels(node, cluster):  # noqa: F811
    cluster.api.allow(agent_rules('configuration'))
    node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--metrics-pod-labels=team', '--events=none', *cluster.options())
    node.agent.wait_log('metrics have no labels of pods: the pods of this node cannot be read')
    assert node.agent.get('/metrics')[0] == 200
    assert cluster.refused() == [('list', '/api/v1/pods')]
    node.agent.stop()
    cluster.api.requests.clear()


def test_no_reading_is_made_where_it_is_off(node):
    node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=off')
    assert 'warpshare_gpu_' not in node.agent.get('/metrics')[1]


def test_names_of_programs_are_told_as_they_look(node):
    """A program chooses its name: it must not turn round what stands behind it, nor look like another."""
    hostile = 'a\u202eb\u200b\x1b[2J'
    machine = Machine(node)
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    kubelet.admit('train', GPU, 1, namespace='team-a')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['train'].uid, 1))
    with open(os.path.join(machine.root, 'proc/4711/comm'), 'w', encoding='utf-8') as file:
        file.write(hostile + '\n')
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    node.wait(lambda: only_share(node, '?processes=1').get('processes'), 'the process is told')
    assert only_share(node, '?processes=1')['processes'][0]['name'] == 'a?b??[2J'


def top(*arguments, **environment):
    done = subprocess.run([WARPSHARE, 'top', *arguments], env={**os.environ, **environment}, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_top_shows_what_the_agent_knows(node):
    machine = Machine(node)
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    kubelet.admit('train', GPU, 1, namespace='team-a')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['train'].uid, 1))
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    node.wait(lambda: of_pod(node, USED, 'train') == [3 * GIB], 'the memory of the pod is told')
    agent = '--metrics-address=127.0.0.1:%s' % node.agent.port()
    shown = top(agent)
    assert 'GPU 0' in shown and 'team-a/train' in shown and '3.0 GiB' in shown
    assert 'python3' not in shown
    unit = json.loads(top(agent, '--output=json', '--history'))['gpus'][0]['units'][0]
    share, = unit['shares']
    assert share['memoryUsed'] == 3 * GIB and share['sm'] == 0.4 and share['container'] == 'main' and share['history'][-1] == 0.4
    assert '4711' in top(agent, '--processes', '--history')
    row, = csv.DictReader(top(agent, '--output=csv', '--filter=train').splitlines())
    assert row['memory_used_bytes'] == str(3 * GIB) and row['memory_limit_bytes'] == ''
    assert top(agent, '--filter=nobody') == 'no such pod\n'


def test_top_says_why_it_does_not_know_who_uses_a_gpu(node):
    machine = Machine(node)
    why = 'Without hostPID the agent sees who uses MPS only (chart: usage.hostPID=true)'
    os.makedirs(os.path.join(machine.root, 'proc/self/ns'))
    os.symlink('pid:[4026532448]', os.path.join(machine.root, 'proc/self/ns/pid'))
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    agent = '--metrics-address=127.0.0.1:%s' % node.agent.port()
    assert why not in top(agent), 'the GPUs are not in use'
    kubelet.admit('train', GPU, 1, namespace='team-a')
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    node.wait(lambda: '(hidden)' in top(agent), 'the process is seen, and not whose it is')
    assert top(agent).splitlines()[-1] == why
    assert page(node)['ownersUnknown'] == why


def test_top_asks_the_driver_where_there_is_no_agent(node):
    machine = Machine(node)
    machine.put(4711, '/kubepods/burstable/pod1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b/%064d' % 1)
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    # Nobody listens at the default address in a network of our own.
    shown = subprocess.run(['unshare', '-rn', WARPSHARE, 'top', '--once', '--nvml-library', SIMULATOR, '--system-root', machine.root],
                           env={**os.environ, 'WARPSHARE_SIM_SCENARIO': node.scenario_path}, capture_output=True, text=True, check=False)
    if 'unshare' in shown.stderr:
        pytest.skip('no network namespace can be made here: ' + shown.stderr)
    assert 'pod 1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b' in shown.stdout, shown.stderr


@pytest.mark.skipif(not shutil.which('promtool'), reason='promtool (of the package prometheus) is not installed')
def test_promtool_finds_no_fault_with_the_names(node):
    gpus = v100s(1)
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    start(node, sharing('timeSlicing', 4), Machine(node))
    node.wait(lambda: series(node, 'warpshare_unit_other_memory_bytes'), 'the GPU is read')
    page = node.agent.get('/metrics')[1]
    found = subprocess.run(['promtool', 'check', 'metrics'], input=page, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, '')


@pytest.fixture
def mps_node():
    node = MpsNode()
    yield node
    faults = node.finish()
    assert not faults, '\n'.join(faults)


def test_granted_and_used_of_a_share_have_the_same_labels(mps_node):
    node = mps_node
    node.start_all(sharing('mps', 10, provisioning='weighted', maxPerRequest=5), '--metrics-address=127.0.0.1:0',
                   '--usage-interval=1s', '--system-root', node.system_root)
    node.wait(lambda: node.healthy_replicas() > 5, 'replicas are healthy')
    node.admit('train', 2)
    client = node.client('train')
    client.connected()
    assert client.allocate(1000) == 1000
    node.wait(lambda: [value for value in of_pod(node, USED, 'train') if value >= 1000 << 20], 'the client is counted')
    limits = series(node, 'warpshare_container_memory_limit_bytes')
    used = series(node, USED)
    assert list(limits) == list(used), 'used / limit needs no join'
    unit, = [unit for gpu in page(node)['gpus'] for unit in gpu['units'] if unit['shares']]
    share, = unit['shares']
    assert (unit['sharing'], unit['replicas'], unit['granted'], share['replicas'], share['threadPercent']) == ('mps', 10, 2, 2, 20)
    assert share['memoryLimit'] == list(limits.values())[0]
    assert sum(unit.get('reserved', 0) for gpu in page(node)['gpus'] for unit in gpu['units']) > 0, 'larger requests find room'
    assert series(node, 'warpshare_container_sm_ratio') == {}, 'the driver does not split activity among clients of MPS'
    node.wait(lambda: any('by="mps-server"' in labels for labels in series(node, 'warpshare_unit_other_memory_bytes')),
              'the server is known by the supervisor')


def test_the_supervisor_names_the_owners_where_the_agent_does_not_see_the_hosts_processes(mps_node):
    """As without usage.hostPID: nothing is in the agent's /proc, so the driver's PIDs say nothing to it."""
    node = mps_node
    elsewhere = Machine(node)
    node.start_all(sharing('mps', 10, provisioning='weighted', maxPerRequest=5), '--metrics-address=127.0.0.1:0',
                   '--usage-interval=1s', '--system-root', elsewhere.root)
    node.wait(lambda: node.healthy_replicas() > 5, 'replicas are healthy')
    node.admit('train', 2)
    node.admit('idle', 2)
    client = node.client('train')
    client.connected()
    assert client.allocate(1000) == 1000
    node.wait(lambda: [value for value in of_pod(node, USED, 'train') if value >= 1000 << 20], 'the client is counted for its pod')
    assert of_pod(node, USED, 'idle') == [0], 'the supervisor knows all clients, so a pod without any has nothing'
    assert not [labels for labels in series(node, 'warpshare_unit_other_memory_bytes') if 'by="hidden"' in labels]
    shares = {share['pod']: share for gpu in page(node, '?processes=1')['gpus'] for unit in gpu['units'] for share in unit['shares']}
    assert 'name' not in shares['train']['processes'][0], 'the name of a PID of another PID namespace would be that of another process'


def test_replicas_of_any_units_count_for_their_own(mps_node):
    node = mps_node
    node.start_all(sharing('mps', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', node.system_root)
    node.wait(lambda: node.healthy_replicas() == 8, 'replicas are healthy')
    node.admit('train', 1)
    node.wait(lambda: [unit['granted'] for gpu in page(node)['gpus'] for unit in gpu['units'] if unit['shares']] == [1], 'it is granted')
