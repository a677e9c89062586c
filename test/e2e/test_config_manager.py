# SPDX-License-Identifier: Apache-2.0
"""The program in the place of NVIDIA's config manager: beside the plugin as the GPU Operator starts it, against an API server."""
import os
import signal
import subprocess
import sys
import threading
import uuid

import pytest

import node as node_module
from apiserver import ApiServer
from configmap import MountedConfigMap
from node import DEADLINE, GPU, Agent, sharing

LABEL = 'nvidia.com/device-plugin.config'
NODES = '/api/v1/nodes'
# All that the operator's role has.
RULES = [{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['get', 'list', 'watch']}]

SMALL, BIG, OTHER = (sharing('timeSlicing', replicas) for replicas in (2, 5, 3))
CONFIGS = {'small': SMALL, 'big': BIG, 'default': OTHER}

LISTENER = '''
import os, signal, sys
signal.signal(signal.SIGHUP, lambda *_: os.write(1, b"hup\\n"))
os.write(1, b"ready\\n")
while True:
    signal.pause()
'''


class Listener:
    """Stands for the plugin: a process of a name that nobody else has, which tells each SIGHUP."""

    def __init__(self):
        self.name = 'plugin-' + uuid.uuid4().hex  # not even that of the same test in another build folder
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(['/somewhere/' + self.name, '-c', LISTENER], executable=sys.executable,
                                        stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()
        self.wait_for(1)

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()

    def wait_for(self, lines):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.lines) >= lines, DEADLINE), self.lines

    @property
    def signals(self):
        with self.changed:
            return len(self.lines) - 1

    def wait_signals(self, count):
        self.wait_for(1 + count)
        assert self.signals == count

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Bench:
    """What the pod of the plugin has: an API server that knows the node n1, the mounted ConfigMap and the folder for the chosen one."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.api = ApiServer(folder / 'api')
        self.api.allow(RULES)
        self.api.put(NODES, {'metadata': {'name': 'n1', 'labels': {LABEL: 'small', 'other': 'x'}}})
        self.api.put(NODES, {'metadata': {'name': 'n2', 'labels': {LABEL: 'big'}}})
        self.configs = MountedConfigMap(os.path.join(self.folder, 'available-configs'), **CONFIGS)
        self.place = os.path.join(self.folder, 'config', 'config.yaml')
        os.mkdir(os.path.dirname(self.place))
        self.listener = Listener()
        self.managers = []

    def start(self, oneshot=False, **environment):
        """With the variables of the operator."""
        variables = {
            'ONESHOT': 'true' if oneshot else 'false', 'KUBECONFIG': self.api.kubeconfig(), 'NODE_NAME': 'n1',
            'NODE_LABEL': LABEL, 'CONFIG_FILE_SRCDIR': self.configs.folder, 'CONFIG_FILE_DST': self.place,
            'DEFAULT_CONFIG': '', 'FALLBACK_STRATEGIES': 'empty', 'SEND_SIGNAL': 'false' if oneshot else 'true',
            'SIGNAL': '' if oneshot else '1', 'PROCESS_TO_SIGNAL': '/usr/bin/' + self.listener.name,
            **{name: value for name, value in os.environ.items()
               if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_', 'PATH', 'LD_LIBRARY_PATH'))},
            **environment}
        manager = Agent(['config-manager'], variables)
        self.managers.append(manager)
        return manager

    def run(self, expected_status=0, **environment):
        """As init container, to its end; returns its log."""
        manager = self.start(oneshot=True, **environment)
        manager.expected_status = expected_status
        assert manager.wait() == expected_status, manager.log()
        return manager.log()

    def label(self, value):
        self.api.patch(NODES, 'n1', {'metadata': {'labels': {LABEL: value}}})

    def content(self):
        with open(self.place, encoding='utf-8') as file:
            return file.read()

    def has(self, name, content=None):
        """The place holds that configuration, as the ConfigMap has it or has had it."""
        if content is None:
            with open(self.configs.path(name), encoding='utf-8') as file:
                content = file.read()
        return os.path.exists(self.place) and self.content() == content

    def wait_updated(self, name, count=1):
        self.managers[-1].wait_log(r'] Successfully updated to config: %s$' % name, count)
        assert self.has(name)

    def wait_settled(self):
        """The newest manager has found in its place what it chose, which it says as NVIDIA's does."""
        self.managers[-1].wait_log('Already configured. Skipping update...')

    def finish(self):
        faults = [fault for manager in self.managers for fault in manager.finish('config-manager')]
        self.listener.stop()
        self.api.close()
        return faults


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults + [manager.log() for manager in made.managers]), pytrace=False)


# ---- the init container ----

def test_the_init_container_puts_what_the_label_names_in_its_place(bench):
    log = bench.run(DEFAULT_CONFIG='big')
    assert bench.has('small') and not bench.listener.signals
    assert '] Successfully updated to config: small' in log
    # Again, as after a restart of the pod: nothing to do.
    assert '] "Already configured. Skipping update..." config="small"' in bench.run(DEFAULT_CONFIG='big')
    assert {request.verb for request in bench.api.asked()} <= {'list', 'watch'}


@pytest.mark.parametrize('label, environment, expected', [
    (None, {'DEFAULT_CONFIG': 'big'}, 'big'),
    ('nonsense', {'DEFAULT_CONFIG': 'big'}, 'big'),
    ('nonsense', {'DEFAULT_CONFIG': 'gone', 'FALLBACK_STRATEGIES': 'named,empty'}, 'default'),
    (None, {'FALLBACK_STRATEGIES': 'single,named'}, 'default'),
    (None, {}, None),
])
def test_a_node_without_a_label_that_leads_anywhere_falls_back(bench, label, environment, expected):
    bench.label(label)
    log = bench.run(**environment)
    if expected:
        assert bench.has(expected)
    else:
        assert os.readlink(bench.place) == '/dev/null'
    assert ('falling back' in log) == (label is not None)


def test_a_fallback_that_is_not_known_is_ignored_with_a_warning(bench):
    bench.label(None)
    log = bench.run(DEFAULT_CONFIG='big', FALLBACK_STRATEGIES='bogus')
    assert bench.has('big')
    assert "\"fallback strategy ignored\" error=\"'bogus' is not a known value, use named, single or empty\"" in log
    assert bench.run(FALLBACK_STRATEGIES='bogus,named') and bench.has('default')


def test_a_node_that_is_not_there_has_no_label(bench):
    bench.run(NODE_NAME='n3', DEFAULT_CONFIG='big')
    assert bench.has('big')


@pytest.mark.parametrize('environment, text', [
    ({'FALLBACK_STRATEGIES': ''}, 'no configuration can be chosen.*the node has no label, no default is set'),
    ({'CONFIG_FILE_SRCDIR': '/nonexistent'}, "open '/nonexistent': No such file or directory"),
    ({'CONFIG_FILE_DST': '/nonexistent/config.yaml'}, "make the folder '/nonexistent/.config.yaml.d'"),
    ({'KUBECONFIG': '/nonexistent'}, "cannot start.*/nonexistent"),
])
def test_an_init_container_that_cannot_put_anything_in_its_place_fails(bench, environment, text):
    bench.label(None if 'FALLBACK_STRATEGIES' in environment else 'small')
    manager = bench.start(oneshot=True, **environment)
    manager.fails(text)
    assert not os.path.lexists(bench.place)


def test_the_label_is_waited_for_and_not_taken_for_missing(bench):
    fault = bench.api.fault('status', resource='nodes', code=503, times=1000000)
    manager = bench.start(oneshot=True, DEFAULT_CONFIG='big')
    manager.wait_log("the node's label cannot be read, will try again")
    assert not os.path.lexists(bench.place)
    fault.times = 0
    assert manager.wait() == 0
    assert bench.has('small')


def test_without_the_api_server_an_init_container_keeps_what_lies_there(bench):
    bench.run()
    bench.api.fault('status', resource='nodes', code=503, times=1000000)
    log = bench.run(DEFAULT_CONFIG='big')
    assert '"the previous configuration stays"' in log and bench.has('small')


def test_a_bad_configuration_is_refused_and_what_lies_there_stays(bench):
    bad = 'version: v1\nsharing: 5\n'
    bench.configs.swap(**{**CONFIGS, 'small': bad})
    assert "configuration refused, the previous one stays" in bench.run(expected_status=1)
    assert not os.path.lexists(bench.place)
    bench.configs.swap(**CONFIGS)
    bench.run()
    before = bench.content()
    bench.configs.swap(**{**CONFIGS, 'small': bad})
    assert "config 'small' line 2: sharing: " in bench.run()
    assert bench.content() == before


def test_sharing_by_mps_needs_no_variable_of_the_plugin_here(bench):
    mps = {'version': 'v1', 'sharing': {'mps': {'resources': [{'name': GPU, 'replicas': 4}]}}}
    bench.configs.swap(small=mps)
    bench.run()
    assert bench.has('small')


# ---- the sidecar ----

def test_the_sidecar_follows_the_label_and_signals_each_change_once(bench):
    bench.run(DEFAULT_CONFIG='default')
    manager = bench.start(DEFAULT_CONFIG='default')
    bench.wait_settled()
    for i, (label, name) in enumerate([('big', 'big'), ('nonsense', 'default'), ('small', 'small'), (None, 'default')]):
        bench.label(label)
        bench.wait_updated(name, count=2 if i == 3 else 1)
        bench.listener.wait_signals(i + 1)
    assert manager.count('falling back.*names \'nonsense\', which is not there; there are: big, default, small') == 1


def test_other_changes_of_nodes_and_of_the_configmap_are_no_reason_for_a_signal(bench):
    bench.run()
    bench.start()
    bench.wait_settled()
    bench.api.patch(NODES, 'n1', {'metadata': {'labels': {'other': 'y'}}})
    bench.api.patch(NODES, 'n2', {'metadata': {'labels': {LABEL: 'small'}}})
    bench.configs.swap(**{**CONFIGS, 'big': OTHER, 'more': BIG})
    bench.label('more')  # what comes after all of it
    bench.wait_updated('more')
    bench.listener.wait_signals(1)


def test_the_sidecar_follows_the_content_of_the_configmap(bench):
    bench.run()
    manager = bench.start()
    bench.wait_settled()
    before = bench.content()
    bench.configs.swap(**{**CONFIGS, 'small': BIG})
    bench.wait_updated('small')
    bench.listener.wait_signals(1)
    assert bench.content() != before
    bench.configs.swap(**{**CONFIGS, 'small': 'version: v2\n'})
    manager.wait_log("configuration refused, the previous one stays.*config 'small' line 1: version: 'v2'")
    with open(bench.configs.path('small'), encoding='utf-8') as file:
        assert bench.content() != file.read()
    bench.configs.swap(**{**CONFIGS, 'small': OTHER})
    bench.wait_updated('small', count=2)
    bench.listener.wait_signals(2)


def test_what_the_label_names_may_go_and_come(bench):
    bench.run()
    manager = bench.start()
    bench.wait_settled()
    bench.configs.swap(big=BIG, default=OTHER)
    manager.wait_log(r'] Successfully updated to config: \(empty\)$')  # the operator's fallback
    assert os.readlink(bench.place) == '/dev/null'
    bench.configs.swap()
    manager.wait_log('no configuration can be chosen, the previous one stays.*there is no configuration at all')
    bench.configs.swap(**CONFIGS)
    bench.wait_updated('small')
    bench.listener.wait_signals(2)


def test_what_nvidias_config_manager_left_is_taken_over_without_a_signal(bench):
    os.symlink(bench.configs.path('small'), bench.place)
    bench.start()
    bench.wait_settled()
    assert bench.has('small') and not os.readlink(bench.place).startswith('/')
    bench.label('big')
    bench.wait_updated('big')
    bench.listener.wait_signals(1)


def test_a_watch_that_is_dropped_and_a_token_that_is_replaced_cost_no_change(bench):
    manager = bench.start()
    bench.wait_updated('small')
    bench.listener.wait_signals(1)
    bench.api.wait_for(lambda: bench.api.watches)
    bench.api.rotate_token()
    bench.api.order_watches('drop')
    bench.label('big')
    bench.wait_updated('big')
    bench.listener.wait_signals(2)
    bench.api.wait_for(lambda: bench.api.watches)
    bench.api.order_watches('drop')
    bench.api.compact()
    bench.label(None)
    manager.wait_log(r'] Successfully updated to config: \(empty\)$')


def test_a_place_that_cannot_be_written_is_tried_again(bench):
    folder = os.path.dirname(bench.place)
    os.rmdir(folder)
    manager = bench.start()
    manager.wait_log('the configuration cannot be put in its place, the previous one stays')
    os.mkdir(folder)
    bench.wait_updated('small')
    bench.listener.wait_signals(1)


def test_a_process_that_is_not_there_is_no_error(bench):
    manager = bench.start(PROCESS_TO_SIGNAL=bench.listener.name + '-not')
    bench.wait_updated('small')
    manager.wait_log('there is no process to signal; it will start with the new configuration')
    bench.label('big')
    bench.wait_updated('big')
    assert bench.listener.signals == 0


def test_another_signal_can_be_sent_or_none(bench):
    manager = bench.start(SIGNAL='0xa', PROCESS_TO_SIGNAL=bench.listener.name)  # SIGUSR1, which ends the listener
    manager.wait_log('Successfully sent signal')
    assert bench.listener.process.wait(DEADLINE) == -signal.SIGUSR1


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_the_sidecar_with_status_0(bench, number):
    manager = bench.start()
    bench.wait_updated('small')
    manager.signal(number)
    assert manager.wait() == 0


def test_a_hang_up_makes_it_look_again(bench):
    manager = bench.start()
    bench.wait_updated('small')
    manager.reload()
    bench.label('big')
    bench.wait_updated('big')


@pytest.mark.parametrize('environment, text', [
    ({'NODE_NAME': ''}, 'node-name: is needed, use --node-name or NODE_NAME'),
    ({'CONFIG_FILE_SRCDIR': ''}, 'config-file-srcdir: is needed, use --config-file-srcdir or CONFIG_FILE_SRCDIR'),
    ({'CONFIG_FILE_DST': ''}, 'config-file-dst: is needed, use --config-file-dst or CONFIG_FILE_DST'),
    ({'NODE_LABEL': ''}, 'node-label: is needed, use --node-label or NODE_LABEL'),
    ({'SIGNAL': '65'}, "signal: '65' is not a number from 1 to 64"),
])
def test_a_wrong_environment_shows_the_usage_and_has_status_1(bench, environment, text):
    log = bench.run(expected_status=1, **environment)
    assert log.startswith('usage: config-manager [OPTION...]\n') and log.endswith('\nconfig-manager: %s\n' % text)


# ---- with the plugin ----

def test_the_plugin_beside_it_serves_what_the_label_says(bench, node):
    bench.run()
    program = os.path.join(bench.folder, 'nvidia-device-plugin')  # a name that no other test's plugin has
    os.symlink(os.path.realpath(node_module.WARPSHARE), program)
    node.environment['CONFIG_FILE'] = bench.place
    node.kubelet.start()
    node.agents.append(Agent([], {
        'WARPSHARE_SIM_SCENARIO': node.scenario_path, 'WARPSHARE_NVML_LIBRARY': node.library,
        'KUBELET_SOCKET': node.kubelet.socket, 'WARPSHARE_MPS_DIRECTORY': node.mps_root,
        'WARPSHARE_POD_RESOURCES_SOCKET': node.kubelet.pod_resources, 'CONFIG_FILE': bench.place,
        **{name: value for name, value in os.environ.items() if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_'))},
    }, ['/bin/sh', '-c', 'exec "%s"' % program]))
    node.wait_counts(8)
    manager = bench.start(PROCESS_TO_SIGNAL=program)
    bench.wait_settled()
    bench.label('big')
    node.wait_counts(20)
    node.agent.wait_log('"signal received" signal="Hangup"')
    # The content changes, and is bad: the plugin does not even see it.
    bench.configs.swap(**{**CONFIGS, 'big': 'version: v2\n'})
    manager.wait_log('configuration refused, the previous one stays')
    bench.label('small')
    node.wait_counts(8, 20)
    assert node.agent.count('configuration refused') == 0
    assert len(node.kubelet.registered) == 1 and not node.kubelet.ended
