# SPDX-License-Identifier: Apache-2.0
"""nvidia-mig-manager beside the GPU Operator's components, which are pods that come and go by labels of the node."""
import os
import pathlib
import re
import threading

import pytest
import yaml

from apiserver import ApiServer
from node import Process
from test_mig_manager import BEFORE, CONFIGURATIONS, LABEL, REASON, STATE

NODES, NAME, PODS = '/api/v1/nodes', 'n1', '/api/v1/namespaces/gpu-operator/pods'
DEPLOY = 'nvidia.com/gpu.deploy.'
COMPONENTS = ['device-plugin', 'gpu-feature-discovery', 'dcgm-exporter']
PAUSED = 'paused-for-mig-change'
# As the Operator gives them to its MIG manager.
RULES = [{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['get', 'list', 'watch', 'update', 'patch']},
         {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get', 'list']},
         {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['delete'], 'namespace': 'gpu-operator'},
         {'apiGroups': [''], 'resources': ['configmaps'], 'verbs': ['create', 'get', 'update'], 'namespace': 'gpu-operator'}]


class Operator:
    """Its DaemonSets: a pod of each component whose label is true."""

    def __init__(self, node, folder):
        self.node = node
        self.folder = pathlib.Path(node.folder)
        self.file = self.folder / 'mig.yaml'
        self.file.write_text(yaml.safe_dump(CONFIGURATIONS), encoding='utf-8')
        node.scenario(BEFORE)
        self.api = ApiServer(folder)
        self.api.allow(RULES)
        self.api.put(NODES, {'metadata': {'name': NAME, 'labels': {
            **{DEPLOY + one: 'true' for one in COMPONENTS}, DEPLOY + 'dcgm': 'false', DEPLOY + 'operator-validator': 'true'}}})
        self.put_pod('operator-validator', app='nvidia-operator-validator')
        self.stuck = set()
        self.history = []  # of the labels of the components
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.follow()
        self._thread.start()
        self.processes = []

    def labels(self):
        return self.api.get(NODES, NAME)['metadata'].get('labels') or {}

    def put_pod(self, component, app=None):
        self.api.put(PODS, {'metadata': {'name': 'pod-' + component, 'namespace': 'gpu-operator', 'labels': {'app': app or component}},
                            'spec': {'nodeName': NAME, 'nodeSelector': {DEPLOY + component: 'true'}}, 'status': {'phase': 'Running'}})

    def pods(self):
        return {pod['metadata']['name'][4:] for pod in self.api.all(PODS)}

    def follow(self):
        labels = self.labels()
        values = {one: labels.get(DEPLOY + one) for one in [*COMPONENTS, 'dcgm']}
        if values != (self.history or [None])[-1]:
            self.history.append(values)
        for one in COMPONENTS:
            if labels.get(DEPLOY + one) == 'true' and one not in self.pods():
                self.put_pod(one)
            elif labels.get(DEPLOY + one) != 'true' and one in self.pods() - self.stuck:
                self.api.delete(PODS, 'pod-' + one)

    def _follow(self):
        while not self._stopping.wait(0.02):
            self.follow()

    def start(self, **variables):
        environment = {name: value for name, value in os.environ.items() if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_', 'PATH'))}
        environment.update({
            'NODE_NAME': NAME, 'KUBECONFIG': self.api.kubeconfig(), 'CONFIG_FILE': str(self.file), 'POD_NAMESPACE': 'gpu-operator',
            'HOST_ROOT_MOUNT': str(self.folder / 'host'), 'WARPSHARE_SIM_SCENARIO': self.node.scenario_path,
            'WARPSHARE_MIG_PROGRAM': os.path.join(os.path.dirname(__file__), 'mig_program.py'), **variables})
        (self.folder / 'host').mkdir(exist_ok=True)
        program = os.path.join(os.path.dirname(os.environ['WARPSHARE']), 'nvidia-mig-manager')
        self.processes.append(Process([program], {name: value for name, value in environment.items() if value is not None}))
        return self.processes[-1]

    def label(self, value):
        self.api.patch(NODES, NAME, {'metadata': {'labels': {LABEL: value}}})

    def wait_state(self, state, reason=None):
        def found():
            node = self.api.get(NODES, NAME)['metadata']
            return (node.get('labels') or {}).get(STATE) == state and (
                reason is None or re.search(reason, (node.get('annotations') or {}).get(REASON, '')))
        try:
            self.api.wait_for(found)
        except AssertionError:
            raise AssertionError('%s %s\n%s' % (self.labels(), self.api.get(NODES, NAME)['metadata'].get('annotations'),
                                                '\n'.join(one.log() for one in self.processes))) from None

    def wait_all_on(self):
        self.api.wait_for(lambda: all(self.labels()[DEPLOY + one] == 'true' for one in COMPONENTS))

    def calls(self):
        path = self.folder / 'calls'
        return path.read_text(encoding='utf-8').split('\n')[:-1] if path.exists() else []

    def devices(self):
        with open(self.node.scenario_path, encoding='utf-8') as file:
            return [[one['profile'] for one in gpu['mig']['devices']] for gpu in yaml.safe_load(file)['gpus']]

    def finish(self):
        self._stopping.set()
        self._thread.join()
        return [fault for one in self.processes for fault in one.finish('nvidia-mig-manager')]


@pytest.fixture
def operator(node, tmp_path):
    made = Operator(node, tmp_path)
    yield made
    assert not made.finish()


def test_components_are_paused_during_the_change_and_no_longer(operator):
    operator.start()
    operator.label('large')
    operator.wait_state('success')
    assert operator.devices() == [['3g.20gb'], ['1g.5gb'] * 3]
    assert operator.labels()[DEPLOY + 'device-plugin'] == 'true'  # before it is a success
    paused = {**dict.fromkeys(COMPONENTS, PAUSED), 'dcgm': 'false'}
    assert paused in operator.history and operator.labels()[DEPLOY + 'dcgm'] == 'false'
    assert operator.calls() == ['resume ', 'plan large', 'apply large']
    operator.api.wait_for(lambda: 'operator-validator' not in operator.pods())  # it runs again
    assert not [one.path for one in operator.api.requests if one.status == 403]


def test_nothing_is_paused_if_the_geometry_is_right(operator):
    operator.label('before')
    operator.start()
    operator.wait_state('success')
    assert len(operator.history) == 1


def test_the_change_waits_for_the_pods_of_the_components(operator):
    operator.stuck = {'dcgm-exporter'}
    operator.start()
    operator.label('large')
    operator.wait_state('pending', '^gpu-operator/pod-dcgm-exporter has not ended yet$')
    assert 'apply large' not in operator.calls()
    operator.stuck = set()
    operator.wait_state('success')


# NVIDIA's leaves components paused after a failure that follows a success.
def test_components_go_on_after_each_failure(operator):
    operator.start()
    operator.label('large')
    operator.wait_state('success')
    for value, reason in (('both', 'in use'), ('no-such', 'no configuration'), ('both', 'in use')):
        (operator.folder / 'fault-apply').write_text('1 GPU 1: in use', encoding='utf-8')
        operator.label(value)
        operator.wait_state('failed', reason)
        operator.wait_all_on()
    (operator.folder / 'fault-apply').unlink()
    operator.label('before')
    operator.wait_state('success')
    operator.wait_all_on()


@pytest.mark.parametrize('fault', ['plan', 'apply', 'half'])
def test_the_next_process_lets_components_go_on_whatever_this_one_was_at(operator, fault):
    first = operator.start()
    path = operator.folder / ('fault-' + fault)
    path.write_text('hang', encoding='utf-8')
    operator.label('large')
    operator.api.wait_for(lambda: ('plan' if fault == 'plan' else 'apply') + ' large' in operator.calls())
    first.kill()
    for pid in (operator.folder / 'pids').read_text(encoding='utf-8').split():
        try:
            os.kill(int(pid), 9)
        except ProcessLookupError:
            pass
    path.unlink()
    operator.start()
    operator.wait_state('success')
    operator.wait_all_on()
    assert operator.devices() == [['3g.20gb'], ['1g.5gb'] * 3]


def test_components_that_were_left_paused_go_on_at_the_start(operator):
    operator.api.patch(NODES, NAME, {'metadata': {'labels': {DEPLOY + 'device-plugin': PAUSED}}})
    operator.start()
    operator.wait_all_on()


def test_a_reboot_is_asked_for_once_and_only_where_it_is_allowed(operator):
    (operator.folder / 'fault-apply').write_text('3 pending', encoding='utf-8')
    operator.start()
    operator.label('large')
    operator.wait_state('failed', 'the node has to be rebooted')
    operator.wait_all_on()
    operator.processes[-1].stop()
    operator.start(WITH_REBOOT='true')  # the host of this test has nothing that could reboot it
    operator.wait_state('failed', "'reboot' on the host failed: ")
    operator.wait_all_on()


def test_a_node_that_was_rebooted_is_not_rebooted_again(operator):
    operator.api.patch(NODES, NAME, {'metadata': {'labels': {STATE: 'rebooting'}}})
    (operator.folder / 'fault-apply').write_text('3 pending', encoding='utf-8')
    operator.label('large')
    operator.start(WITH_REBOOT='true')
    operator.wait_state('failed', 'another reboot would be needed')


def test_the_host_service_is_told_the_configuration(operator):
    override = operator.folder / 'host' / 'etc/systemd/system/nvidia-mig-manager.service.d/override.conf'
    override.parent.mkdir(parents=True)
    override.write_text('[Service]\nEnvironment="MIG_PARTED_SELECTED_CONFIG=old"\n', encoding='utf-8')
    operator.start()
    operator.label('large')
    operator.wait_state('success')
    assert override.read_text(encoding='utf-8') == '[Service]\nEnvironment="MIG_PARTED_SELECTED_CONFIG=large"\n'


def test_a_configuration_file_that_is_not_there_ends_it(operator):
    process = operator.start(CONFIG_FILE='/none')
    process.expected_status = 1
    assert process.wait() == 1
    assert "config-file: '/none' cannot be read" in process.log()


def test_generated_configurations_are_told_in_a_configmap(operator):
    operator.start(CONFIG_FILE='', WARPSHARE_MIG_PROGRAM='', WARPSHARE_NVML_LIBRARY=operator.node.library)
    maps = '/api/v1/namespaces/gpu-operator/configmaps'
    found = operator.api.wait_for(lambda: [one for one in operator.api.all(maps) if one['metadata']['name'] == 'n1-mig-config'])[0]
    assert 'all-3g.20gb' in yaml.safe_load(found['data']['config.yaml'])['mig-configs']
    assert found['metadata']['labels'] == {'app.kubernetes.io/component': 'nvidia-mig-manager', 'nvidia.com/node-name': 'n1'}
