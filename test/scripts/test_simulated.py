# SPDX-License-Identifier: Apache-2.0
"""The scripts with a cluster of one simulated node: what they apply starts the agent and `warpshare mps`, kubelet counts what these offer."""
import json
import os
import re
import subprocess
import sys
import urllib.request

import pytest

from apiserver import ApiServer, agent_rules
from configmap import MountedConfigMap
from conftest import SOURCE
from mps_node import MpsNode
from node import DEADLINE, WARPSHARE, Agent
from stand_in import Cluster

SOURCE = os.environ['WARPSHARE_SOURCE']
NODE = 'gpu-node-1'
REPO = 'registry.example.com/warpshare'
LABEL = 'nvidia.com/device-plugin.config'


class Machine:
    """kubelet and the container runtime of one node: containers are processes, with the command and the environment of their pod."""

    def __init__(self, node, api, folder):
        self.node, self.api, self.folder = node, api, folder
        self.cluster = None
        self.mounts = {}        # name of a ConfigMap: as it is mounted
        self.mounted = {}       # and its content
        self.supervisor = None
        self.processes = {}     # uid of the pod: process
        self.said = {}          # uid of the pod: what it printed, of those that have ended

    def environment(self, pod):
        container, = pod['spec']['containers']
        values = {one['name']: one.get('value', NODE) for one in container['env']}
        places = {  # what is mounted, and what belongs to the machine
            **self.node.programs.environment, 'KUBECONFIG': self.api.kubeconfig(), 'KUBELET_SOCKET': self.node.kubelet.socket,
            'WARPSHARE_POD_RESOURCES_SOCKET': self.node.kubelet.pod_resources, 'WARPSHARE_CDI_ROOT': os.path.join(self.folder, 'cdi'),
            'WARPSHARE_LABELS_FILE': os.path.join(self.folder, 'labels')}
        for volume in pod['spec']['volumes']:
            if 'configMap' in volume:
                folder = self.mounts[volume['configMap']['name']].folder
                place, = (one['mountPath'] for one in container['volumeMounts'] if one['name'] == volume['name'])
                places.update({name: value.replace(place, folder, 1) for name, value in values.items() if value.startswith(place)})
        if 'WARPSHARE_NVML_LIBRARY' in values:  # the simulation is the pod's, not the machine's
            assert values['WARPSHARE_NVML_LIBRARY'] == '/usr/lib/warpshare/libwarpshare-nvml-sim.so'
            for name in ('WARPSHARE_MPS_SIM', 'WARPSHARE_SIM_SCENARIO', 'PATH'):
                if name not in values:
                    places.pop(name, None)
        if 'PATH' in values:
            assert values['PATH'].split(':')[0] == '/usr/lib/warpshare/mps-sim'
        for name in ('WARPSHARE_METRICS_ADDRESS', 'WARPSHARE_MPS_METRICS_ADDRESS'):
            if name in values:
                places[name] = '127.0.0.1:0'
        return container['command'][1:] + container.get('args', []), {**values, **places}

    def start(self, pod):
        self.mount()
        arguments, environment = self.environment(pod)
        if arguments == ['uninstall']:
            done = subprocess.run([WARPSHARE, *arguments], env=environment, text=True, capture_output=True, timeout=2 * DEADLINE, check=False)
            self.said[pod['metadata']['uid']] = done.stdout + done.stderr
            self.cluster.set_status(pod, phase='Failed' if done.returncode else 'Succeeded')
            return
        process = Agent(arguments, environment)
        self.node.programs.agents.append(process)
        if arguments[0] == 'mps':
            self.supervisor = process
            self.node.programs.wait_socket(process)
        self.processes[pod['metadata']['uid']] = process
        self.cluster.set_status(pod, phase='Running', containerStatuses=[{'ready': True}])

    def stop(self, pod):
        process = self.processes.pop(pod['metadata']['uid'], None)
        if process and process.process.poll() is None:
            process.stop()

    def mount(self):
        for one in self.cluster.all('ConfigMap'):
            name, data = one['metadata']['name'], one['data']
            if name not in self.mounts:
                self.mounts[name] = MountedConfigMap(os.path.join(self.folder, name), **data)
            elif data != self.mounted[name]:
                self.mounts[name].swap(**data)
            self.mounted[name] = data

    def settle(self):
        self.mount()
        kubelet = self.node.kubelet
        with kubelet.changed:
            names = list(kubelet.devices)
        self.cluster.patch('Node', NODE, {'status': {
            'allocatable': {name: str(kubelet.allocatable(name)) for name in names},
            'capacity': {name: str(kubelet.capacity(name)) for name in names}}}, status=True)

    def logs(self, pod):
        uid = pod['metadata']['uid']
        return self.said[uid] if uid in self.said else self.processes[uid].log()

    def metrics(self, pod):
        process = self.processes.get(pod['metadata']['uid'])
        if not process:
            return None
        port = process.port()
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=DEADLINE) as response:
            return response.read().decode()

    def exec(self, pod, words):
        done = subprocess.run([WARPSHARE, *words[1:]], env=self.environment(pod)[1], text=True, capture_output=True, check=False,
                              timeout=2 * DEADLINE)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def cluster(folder):
    node = MpsNode()
    node.gpus(4)
    node.kubelet.start()
    api = ApiServer(os.path.join(folder, 'api'), namespace='warpshare')
    api.allow(agent_rules('events: node', 'configuration'))
    made = Cluster(folder, Machine(node, api, folder), api.store)
    made.add_node(NODE, {'nvidia.com/gpu.present': 'true'})
    yield made
    made.close()
    api.close()
    faults = node.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def well(cluster, answer):
    status, out, err = answer
    assert (status, err) == (0, ''), '%s%s\n%s' % (out, err, cluster.runtime.node.logs())
    return out


def shown(command):
    """What docs/install.md shows of it, as a pattern."""
    sys.path.insert(0, f'{SOURCE}/test/docs')
    from pages import Page, pattern  # pylint: disable=import-outside-toplevel
    found, = (one for _, commands in Page(f'{SOURCE}/docs/install.md').commands() for one in commands if one.text == command)
    return pattern(found.output)


def set_up(cluster, run, *arguments):
    """Below the time that a script may take here, so that logs are seen; the page shows the default."""
    return well(cluster, run('scripts/setup.sh', *arguments, WARPSHARE_TIMEOUT='60')).replace('shares, 60 s at', 'shares, 300 s at')


def held(cluster):
    """The allocations that the ledger has on file; None: no file yet."""
    try:
        with open(os.path.join(cluster.runtime.node.mps_root, 'allocations-nvidia.com_gpu.json'), encoding='utf-8') as file:
            return json.load(file)['grants']
    except FileNotFoundError:
        return None


def test_replicas_are_shared_counted_verified_changed_and_taken_back(cluster, run):
    out = set_up(cluster, run, '20', 'aggregate', NODE, REPO)
    assert re.fullmatch(shown(f'scripts/setup.sh 20 aggregate {NODE} {REPO}'), out)
    assert 'gpu-node-1: nvidia.com/gpu=80\nreserve: none: ' in out
    out = well(cluster, run('scripts/verify-mps-setup.sh', NODE))
    assert re.fullmatch(shown(f'scripts/verify-mps-setup.sh {NODE}'), out)
    assert '  ok      configuration: mps.aggregate.20 (' in out and '  ok      resources: nvidia.com/gpu: 80\n' in out
    assert out.count(' ready  ') == 4 and out.endswith('all is well\n')
    for device in range(4):
        assert f'Set device pinned memory limit: device={device}, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630\n' in out

    ids, response = cluster.runtime.node.kubelet.admit('half', 'nvidia.com/gpu', 10)  # the half of one GPU
    assert len({one.split('::')[0] for one in ids}) == 1
    assert response.envs['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '50'
    cluster.runtime.node.wait(lambda: held(cluster), 'the ledger has what the pod holds')
    cluster.runtime.node.kubelet.remove_pod('half')
    cluster.runtime.node.wait(lambda: held(cluster) == [], 'the ledger knows that the pod has ended')

    out = set_up(cluster, run, '--strict', '20', 'aggregate', NODE, REPO)
    assert 'gpu-node-1: nvidia.com/gpu=53\n' in out and '27 of 80 on gpu-node-1' in out.splitlines()[-1]
    out = well(cluster, run('scripts/verify-mps-setup.sh', NODE))
    assert '  ok      resources: nvidia.com/gpu: 53 of 80 (27 reserved so that every request finds one GPU with room)\n' in out

    out = set_up(cluster, run, '20', 'individual', NODE, REPO)
    assert re.fullmatch(shown(f'scripts/setup.sh 20 individual {NODE} {REPO}'), out)
    assert out.endswith('gpu-node-1: nvidia.com/gpu0=20, nvidia.com/gpu1=20, nvidia.com/gpu2=20, nvidia.com/gpu3=20\n')
    assert 'all is well\n' in well(cluster, run('scripts/verify-mps-setup.sh'))

    out = set_up(cluster, run, '--remove', NODE)
    assert re.fullmatch(shown(f'scripts/setup.sh --remove {NODE}'), out)
    assert 'gpu-node-1: nothing of Warpshare is left:\n' in out
    node = cluster.get('Node', NODE)['metadata']
    assert LABEL not in node['labels'] and not [key for key in node.get('annotations', {}) if 'warpshare' in key]
    assert cluster.all('DaemonSet') == cluster.all('Pod') == cluster.all('ConfigMap') == []
    machine = cluster.runtime
    assert machine.node.programs.processes() == machine.node.sockets() == [] and os.listdir(machine.node.mps_root) == []


def of_other_guides():
    """The commands of docs/install.md that stand in the place of another guide's."""
    with open(f'{SOURCE}/docs/install.md', encoding='utf-8') as file:
        section = file.read().partition('#### Commands of other guides')[2].partition('\n## ')[0]
    rows = [re.split(r' (?<!\\)\| ', line) for line in section.splitlines() if line.startswith('| `') or line.startswith('| the same')]
    return [re.match('`([^`]*)`', row[1])[1].replace('\\|', '|') for row in rows]


def test_the_commands_in_the_place_of_another_guides_show_the_same(cluster, run):
    set_up(cluster, run, '20', 'aggregate', NODE, REPO)

    def said(command):
        done = subprocess.run(['bash', '-c', command], env=cluster.environment, text=True, capture_output=True, check=False, timeout=DEADLINE)
        assert (done.returncode, done.stderr) == (0, ''), (command, done.stdout, done.stderr)
        return done.stdout

    assert 'nvidia.com/gpu:  80\n' in said(f'kubectl describe node {NODE} | grep nvidia.com')
    assert said(f'kubectl describe node {NODE} | grep "Allocated resources" -A 20')
    pinned, tail, running, restart, configs, driver = of_other_guides()
    for device in range(4):
        assert f'Set device pinned memory limit: device={device}, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630\n' in said(pinned)
    assert 'Set device pinned' in said(tail)
    assert 'provisioning' in said(running)
    assert 'mps.aggregate.20: ' in said(configs) and 'provisioning: weighted' in said(configs)
    assert re.search(r'driver.* \d+\.\d+', said(f'{driver} 2>&1 || true'))  # other checks see the machine of the test
    agent, supervisor = (cluster.get('Pod', f'warpshare-{name}-{NODE}')['metadata']['uid'] for name in ('agent', 'mps'))
    assert said(restart) == 'daemonset.apps/warpshare-agent restarted\n'
    said(f'kubectl get node {NODE} -o name')
    assert cluster.get('Pod', f'warpshare-agent-{NODE}')['metadata']['uid'] != agent
    assert cluster.get('Pod', f'warpshare-mps-{NODE}')['metadata']['uid'] == supervisor
    cluster.runtime.node.wait(lambda: cluster.runtime.node.kubelet.allocatable('nvidia.com/gpu') == 80, 'the replicas are back')


def test_what_a_killed_supervisor_left_is_taken_back_too(cluster, run):
    set_up(cluster, run, '3', NODE, REPO)
    machine = cluster.runtime
    machine.supervisor.kill()
    assert machine.node.programs.processes()
    out = set_up(cluster, run, '--remove', 'all')
    assert '4 on record, 4 compute modes restored\n' in out
    assert machine.node.programs.processes() == [] and os.listdir(machine.node.mps_root) == []


def test_the_manifest_with_simulated_gpus_brings_its_own(cluster):
    machine = cluster.runtime
    machine.node.gpus(1)  # of the machine; not to be seen
    with open(f'{SOURCE}/deploy/manifests/simulated.yaml', encoding='utf-8') as file:
        assert cluster.answer(['apply', '-f', '-'], file.read())['status'] == 0
    for config, counts in [
            (None, {'gpu': 16}), ('individual', {f'gpu{i}': 4 for i in range(4)}), ('unequal', {'gpu': 22}), ('time-slicing', {'gpu': 16}),
            ('whole', {'gpu': 4}), ('default', {'gpu': 16})]:
        if config:
            assert cluster.answer(['label', 'node', NODE, '--overwrite', f'{LABEL}={config}'], '')['status'] == 0
        machine.node.wait(lambda: all(machine.node.kubelet.allocatable(f'nvidia.com/{name}') == count for name, count in counts.items()),
                          f'{config} offers {counts}')
