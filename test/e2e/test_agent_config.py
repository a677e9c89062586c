# SPDX-License-Identifier: Apache-2.0
"""The agent chooses its configuration by the node's label: out of a mounted ConfigMap, or of one that it reads from the API server."""
import hashlib
import json
import os
import subprocess

import pytest

from apiserver import ApiServer
from configmap import MountedConfigMap, text_of
from node import GPU, WARPSHARE, sharing
from own_node_policy import policy_of

LABEL = 'nvidia.com/device-plugin.config'
NODES = '/api/v1/nodes'
MAPS = '/api/v1/namespaces/gpu/configmaps'
PREFIX = 'warpshare.dev/config'

SMALL, BIG, OTHER = (sharing('timeSlicing', replicas) for replicas in (2, 5, 3))
CONFIGS = {'small': SMALL, 'big': BIG, 'default': OTHER}
BAD = 'version: v1\nsharing: 5\n'


def rules():
    """What the agent is given in a cluster, and nothing else."""
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'deploy', 'rbac.json'), encoding='utf-8') as file:
        return json.load(file)


class Cluster:
    def __init__(self, folder):
        self.folder = str(folder)
        self.api = ApiServer(folder / 'api', namespace='gpu')
        self.api.allow(rules())
        self.api.policy = policy_of(self.api, 'n1')
        self.api.put(NODES, {'metadata': {'name': 'n1', 'labels': {LABEL: 'small'}, 'annotations': {'mine': 'stays'}}})

    def map(self, **configs):
        self.api.put(MAPS, {'metadata': {'name': 'configs'}, 'data': {name: text_of(config) for name, config in configs.items()}})

    def label(self, value):
        self.api.patch(NODES, 'n1', {'metadata': {'labels': {LABEL: value}}})

    def annotations(self):
        return self.api.get(NODES, 'n1')['metadata'].get('annotations') or {}

    def wait_status(self, status, **others):
        """The node's annotations say so: |status| is the beginning of it, |others| are by the ends of their keys."""
        expected = {PREFIX + ('-' + key if key != 'name' else ''): value for key, value in others.items()}

        def is_there():
            found = self.annotations()
            return found.get(PREFIX + '-status', '').startswith(status) and \
                all(found.get(key) == value for key, value in expected.items())

        try:
            self.api.wait_for(is_there)
        except AssertionError as error:
            raise AssertionError('%s\nthe annotations are: %s' % (error, self.annotations())) from None

    def wait_event(self, reason, words):
        """An event of the node with these |words| in its text."""
        self.api.wait_for(lambda: [event for event in self.api.all('/api/v1/namespaces/default/events')
                                   if event['reason'] == reason and words in event.get('message', event.get('note', ''))])

    def away(self):
        """Every request is refused until the fault's times are 0."""
        return self.api.fault('status', code=503, times=1000000)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.api.close()


def arguments(cluster, *more):
    return ['--kubeconfig', cluster.api.kubeconfig(), '--node-name', 'n1', *more]


def start(node, cluster, *more, source=('--config-map', 'gpu/configs')):
    if not node.agents:
        node.kubelet.start()
    return node.start(*arguments(cluster, *source, *more))


def start_late(node, kubeconfig, *more):
    """With a kubeconfig that is not there yet."""
    node.kubelet.start()
    agent = node.start('--kubeconfig', kubeconfig, '--node-name', 'n1', *more)
    agent.wait_log("error cannot use the API server, will try again error=.*open '%s'" % kubeconfig)
    return agent


def metrics(agent):
    return [line for line in agent.get('/metrics')[1].splitlines() if line.startswith('warpshare_config_')]


def status_line(status):
    return ['warpshare_config_status{status="%s"} %d' % (word, word == status) for word in ('waiting', 'accepted', 'refused')]


def short_hash(config):
    return hashlib.sha256(text_of(config).encode()).hexdigest()[:16]


# ---- a ConfigMap from the API server ----

def test_the_label_chooses_and_everybody_can_see_what(node, cluster):
    cluster.map(**CONFIGS)
    agent = start(node, cluster)
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small', source='ConfigMap gpu/configs, by label', generation='1',
                        hash=short_hash(SMALL))
    assert cluster.annotations()['mine'] == 'stays'
    assert metrics(agent) == [
        'warpshare_config_info{name="small",source="ConfigMap gpu/configs",by="label",hash="%s"} 1' % short_hash(SMALL),
        'warpshare_config_generation 1', *status_line('accepted')]
    cluster.label('big')
    node.wait_counts(20)
    cluster.wait_status('accepted', name='big', generation='2', hash=short_hash(BIG))
    cluster.wait_event('ConfigApplied', "configuration 'big' of ConfigMap gpu/configs, by label, is in force; generation 2, sha256 "
                       + short_hash(BIG))


def test_the_content_of_the_configmap_is_followed(node, cluster):
    cluster.map(**CONFIGS)
    agent = start(node, cluster)
    node.wait_counts(8)
    cluster.map(**{**CONFIGS, 'big': OTHER})  # not ours
    cluster.map(**{**CONFIGS, 'small': BIG})
    node.wait_counts(20)
    cluster.wait_status('accepted', name='small', generation='2', hash=short_hash(BIG))
    assert agent.count('the configuration changed') == 1


def test_a_resource_that_the_new_configuration_does_not_touch_sees_no_message(node, cluster):
    def config(replicas):
        return {'version': 'v1', 'sharing': {'timeSlicing': {'resources': [
            {'name': GPU, 'rename': 'nvidia.com/gpu.few', 'devices': ['0'], 'replicas': 2},
            {'name': GPU, 'rename': 'nvidia.com/gpu.many', 'devices': ['1'], 'replicas': replicas}]}}}

    cluster.map(small=config(4), big=config(9))
    start(node, cluster)
    node.wait_counts(4, resource='nvidia.com/gpu.many')
    node.wait_counts(2, resource='nvidia.com/gpu.few')
    cluster.label('big')
    node.wait_counts(9, resource='nvidia.com/gpu.many')
    cluster.wait_status('accepted', name='big')
    assert len(node.kubelet.messages_of('nvidia.com/gpu.few')) == 1 and len(node.kubelet.messages_of(GPU)) == 1
    assert not node.kubelet.ended


def test_a_label_that_names_nothing_falls_back_and_does_not_end_the_agent(node, cluster):
    cluster.map(**CONFIGS)
    start(node, cluster, '--config-default', 'default')
    cluster.wait_status('accepted', name='small')
    cluster.label('nonsense')
    node.wait(lambda: node.kubelet.allocatable(GPU) == 12, 'the default serves')
    cluster.wait_status('accepted', name='default', source='ConfigMap gpu/configs, by default')
    cluster.wait_event('ConfigFallback', "names 'nonsense', which is not there; there are: big, default, small; using 'default'")
    cluster.label('big')
    node.wait_counts(20)
    cluster.label(None)
    node.wait_counts(12, 20)


def test_a_fallback_with_a_long_list_is_reported_once(node, cluster):
    """What says that the label misleads is longer than what is remembered of it."""
    many = {('%02d-' % i).ljust(63, 'x'): OTHER for i in range(20)}
    cluster.map(**many, default=SMALL)
    cluster.label('nonsense')
    start(node, cluster, '--config-default', 'default')
    node.wait_counts(8)
    cluster.wait_event('ConfigFallback', "names 'nonsense'")
    cluster.map(**many, default=BIG)
    cluster.wait_event('ConfigApplied', "configuration 'default' ")
    cluster.wait_event('ConfigApplied', 'generation 2')
    told = [event for event in cluster.api.all('/api/v1/namespaces/default/events') if event['reason'] == 'ConfigFallback']
    assert [event['count'] for event in told] == [1]


@pytest.mark.parametrize('word', ['waiting', 'refused'])
def test_what_cannot_be_chosen_or_read_stays_so_after_a_hang_up(node, cluster, word):
    cluster.map(**CONFIGS)
    agent = start(node, cluster)
    node.wait_counts(8)
    if word == 'waiting':
        cluster.api.delete(MAPS, 'configs')
    else:
        cluster.map(small='#' * (1 << 20) + '\n')  # one byte more than is taken
    cluster.wait_status(word + ': ', name='small')
    agent.reload()
    assert metrics(agent)[-3:] == status_line(word)
    cluster.map(**CONFIGS)
    cluster.wait_status('accepted', name='small')


def test_a_bad_configuration_is_refused_and_the_last_good_one_serves(node, cluster):
    cluster.map(**{**CONFIGS, 'bad': BAD})
    agent = start(node, cluster)
    node.wait_counts(8)
    cluster.label('bad')
    cluster.wait_status("refused: config 'bad' line 2: sharing: ", name='small', generation='1', hash=short_hash(SMALL))
    cluster.wait_event('ConfigRefused', "config 'bad' line 2: sharing: ")
    assert metrics(agent)[1:] == ['warpshare_config_generation 1', *status_line('refused')]
    assert node.kubelet.allocatable(GPU) == 8 and len(node.kubelet.messages) == 1
    assert agent.count('configuration refused, the one in force stays') == 1
    # An agent that starts now has it, too, and tells the same.
    assert agent.stop() == 0
    agent = start(node, cluster)
    node.wait(lambda: len(node.kubelet.registered) == 2 and node.kubelet.allocatable(GPU) == 8, 'it serves again')
    agent.wait_problem("newest configuration is refused: config 'bad' line 2: sharing: ")
    cluster.map(**{**CONFIGS, 'bad': BIG})
    node.wait_counts(20)
    cluster.wait_status('accepted', name='bad', generation='2', hash=short_hash(BIG))


def test_a_configuration_that_these_gpus_cannot_have_is_refused(node, cluster):
    cluster.map(**CONFIGS, many=sharing('mps', 49))
    start(node, cluster)
    node.wait_counts(8)
    cluster.label('many')
    cluster.wait_status("refused: ", name='small', generation='1')
    assert '49' in cluster.annotations()[PREFIX + '-status']
    assert node.kubelet.allocatable(GPU) == 8
    cluster.label('small')
    cluster.wait_status('accepted', name='small', generation='1')


def test_a_configmap_that_is_deleted_takes_nothing_away(node, cluster):
    cluster.map(**CONFIGS)
    agent = start(node, cluster)
    node.wait_counts(8)
    cluster.wait_status('accepted')
    cluster.api.delete(MAPS, 'configs')
    cluster.wait_status('waiting: ConfigMap gpu/configs: there is none', name='small')
    assert node.kubelet.allocatable(GPU) == 8
    cluster.map(**CONFIGS)
    cluster.wait_status('accepted', name='small', generation='1')
    assert len(node.kubelet.messages) == 1 and agent.count('the configuration changed') == 0


@pytest.mark.parametrize('source', [('--config-map', 'gpu/configs'), ()], ids=['by name', 'one file'])
def test_annotations_that_go_come_back_with_the_node_or_without(node, cluster, source):
    cluster.map(**CONFIGS)
    if not source:
        node.config(SMALL)
    start(node, cluster, source=source)
    cluster.wait_status('accepted', hash=short_hash(SMALL))
    cluster.api.patch(NODES, 'n1', {'metadata': {'annotations': {PREFIX + '-hash': 'mine', PREFIX + '-status': None}}})
    cluster.wait_status('accepted', hash=short_hash(SMALL))
    cluster.api.delete(NODES, 'n1')
    cluster.api.put(NODES, {'metadata': {'name': 'n1', 'labels': {LABEL: 'small'}}})
    cluster.wait_status('accepted', hash=short_hash(SMALL), generation='1')
    node.agent.wait_log("the Node object was created anew")


# ---- while the API server is away ----

def test_an_agent_that_starts_without_the_api_server_serves_the_last_good_configuration(node, cluster):
    cluster.map(**CONFIGS)
    start(node, cluster)
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small')
    assert node.agent.stop() == 0
    fault = cluster.away()
    agent = start(node, cluster, '--config-default', 'default')
    node.wait(lambda: len(node.kubelet.registered) == 2 and node.kubelet.allocatable(GPU) == 8, 'it serves again')
    assert 'by="last good"' in metrics(agent)[0]
    fault.times = 0
    cluster.wait_status('accepted', name='small', source='ConfigMap gpu/configs, by label', generation='1')
    assert agent.count('the configuration changed') == 0
    cluster.label('big')
    node.wait_counts(20)
    cluster.wait_status('accepted', name='big', generation='2')


def test_without_anything_to_begin_with_it_waits_and_says_so(node, cluster):
    cluster.map(**CONFIGS)
    fault = cluster.away()
    agent = start(node, cluster)
    agent.wait_log('waiting for a configuration .*ConfigMap gpu/configs: the API server has not answered yet')
    agent.wait_until(lambda: agent.page()['gpus'], 'its GPUs are known')
    assert not node.kubelet.attempts
    assert metrics(agent) == ['warpshare_config_generation 0', *status_line('waiting')]
    fault.times = 0
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small')


def test_watches_that_end_and_tokens_that_change_cost_nothing(node, cluster):
    cluster.map(**CONFIGS)
    start(node, cluster)
    node.wait_counts(8)
    cluster.api.wait_for(lambda: len(cluster.api.watches) == 2)
    cluster.api.rotate_token()
    cluster.api.order_watches('drop')
    cluster.label('big')
    node.wait_counts(20)
    cluster.map(**{**CONFIGS, 'big': OTHER})
    node.wait_counts(12, 20)
    cluster.wait_status('accepted', name='big', generation='3')


def test_annotations_that_cannot_be_written_are_written_later(node, cluster):
    cluster.map(**CONFIGS)
    fault = cluster.api.fault('status', verb='patch', resource='nodes', code=500, times=1)
    agent = start(node, cluster)
    node.wait_counts(8)
    agent.wait_log("the node's annotations cannot be written, will try again")
    cluster.wait_status('accepted', name='small')
    assert fault.times == 0


# ---- a mounted ConfigMap ----

@pytest.fixture
def mounted(cluster):
    return MountedConfigMap(os.path.join(cluster.folder, 'available-configs'), **CONFIGS)


def test_a_mounted_configmap_is_followed_as_well(node, cluster, mounted):
    agent = start(node, cluster, source=('--config-dir', mounted.folder))
    node.wait_counts(8)
    mounted.swap(**{**CONFIGS, 'small': BIG})
    node.wait_counts(20)
    cluster.wait_status('accepted', name='small', source="folder '%s', by label" % mounted.folder, generation='2')
    mounted.swap(**{**CONFIGS, 'small': BAD})
    cluster.wait_status("refused: config 'small' line 2: sharing: ", name='small', generation='2')
    cluster.label('default')
    node.wait_counts(12, 20)
    assert agent.count('configuration refused, the one in force stays') == 1


def test_a_mounted_configmap_is_followed_where_the_label_may_not_be_read(node, cluster, mounted):
    cluster.api.allow([rule for rule in rules() if 'nodes' not in rule['resources']])
    agent = start(node, cluster, '--config-default', 'default', source=('--config-dir', mounted.folder))
    agent.wait_log("the node's label cannot be read, will try again.*403 Forbidden")
    node.wait_counts(12)
    mounted.swap(**{**CONFIGS, 'default': BIG})
    node.wait_counts(20)
    mounted.swap(**{**CONFIGS, 'default': BAD})
    agent.wait_problem("newest configuration is refused: config 'default' line 2: sharing: ")
    mounted.swap(**{**CONFIGS, 'default': SMALL})
    agent.hang_up()
    node.wait_counts(8, 20)
    assert agent.count('configuration refused') == 1
    mounted.swap(small=SMALL)
    agent.wait_log("no configuration can be chosen, the one in force stays.*has no 'default' any more, and the node's label cannot be")


def test_the_last_good_configuration_follows_the_folder_while_the_api_server_is_away(node, cluster, mounted):
    agent = start(node, cluster, source=('--config-dir', mounted.folder))
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small')
    agent.stop()
    fault = cluster.away()
    mounted.swap(**{**CONFIGS, 'small': BIG})
    start(node, cluster, source=('--config-dir', mounted.folder))
    node.wait_counts(20)
    fault.times = 0
    cluster.wait_status('accepted', name='small', source="folder '%s', by label" % mounted.folder, generation='2')


def test_with_a_mounted_default_the_start_does_not_wait_for_the_api_server(node, cluster, mounted):
    fault = cluster.away()
    agent = start(node, cluster, '--config-default', 'default', source=('--config-dir', mounted.folder))
    node.wait_counts(12)
    assert 'by="default"' in metrics(agent)[0]
    fault.times = 0
    node.wait_counts(8, 12)
    cluster.wait_status('accepted', name='small', generation='2')


def test_an_api_server_that_does_not_answer_is_not_waited_for_either(node, cluster, mounted):
    cluster.api.fault('hang', resource='nodes', times=1000000)
    agent = start(node, cluster, '--config-default', 'default', source=('--config-dir', mounted.folder))
    node.wait_counts(12)
    assert 'by="default"' in metrics(agent)[0]


def test_without_credentials_the_node_counts_as_one_without_a_label(node, cluster, mounted):
    node.environment.update(CONFIG_FILE_SRCDIR=mounted.folder, DEFAULT_CONFIG='', FALLBACK_STRATEGIES='named')
    node.kubelet.start()
    agent = node.start()
    agent.wait_log("the node's label cannot be read: there are no credentials")
    node.wait_counts(12)


def test_the_nodes_label_is_read_when_the_credentials_come(node, cluster, mounted):
    late = cluster.api.folder / 'late'
    start_late(node, late, '--config-dir', mounted.folder, '--config-default', 'default')
    node.wait_counts(12)
    cluster.api.kubeconfig(late.name)
    node.wait_counts(8, 12)
    cluster.wait_status('accepted', name='small', source="folder '%s', by label" % mounted.folder)


def test_a_configmap_is_read_when_the_credentials_come(node, cluster):
    cluster.map(**CONFIGS)
    late = cluster.api.folder / 'late'
    agent = start_late(node, late, '--config-map', 'gpu/configs')
    agent.wait_until(lambda: agent.page()['gpus'], 'its GPUs are known')
    assert not node.kubelet.attempts
    cluster.api.kubeconfig(late.name)
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small', generation='1')


def test_a_bad_first_configuration_is_waited_out(node, cluster, mounted):
    mounted.swap(small=BAD)
    agent = start(node, cluster, source=('--config-dir', mounted.folder))
    cluster.wait_status("refused: config 'small' line 2: ")
    agent.wait_until(lambda: agent.page()['gpus'], 'its GPUs are known')
    assert not node.kubelet.attempts
    mounted.swap(small=SMALL)
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small', generation='1')


def test_a_record_that_is_broken_counts_as_none(node, cluster, mounted):
    with open(os.path.join(node.mps_root, 'configuration.json'), 'w', encoding='utf-8') as file:
        file.write('{"generation": 3')
    agent = start(node, cluster, source=('--config-dir', mounted.folder))
    agent.wait_log("the last good configuration cannot be used.*configuration.json' is not a record of a configuration")
    node.wait_counts(8)
    cluster.wait_status('accepted', name='small', generation='1')


def test_a_hang_up_tries_what_was_refused_once_more(node, cluster, mounted):
    agent = start(node, cluster, source=('--config-dir', mounted.folder))
    node.wait_counts(8)
    mounted.swap(small=BAD)
    agent.wait_problem('newest configuration is refused')
    agent.hang_up()
    agent.wait_log('configuration refused, the one in force stays', count=2)
    assert node.kubelet.allocatable(GPU) == 8


# ---- one file ----

def test_one_file_for_all_nodes_is_reported_too(node, cluster):
    node.config(SMALL)
    agent = start(node, cluster, source=())
    node.wait_counts(8)
    cluster.wait_status('accepted', name=node.config_path, source='file, by file', generation='1', hash=short_hash(SMALL))
    node.config(BAD)
    cluster.wait_status("refused: config '%s' line 2: sharing: " % node.config_path, generation='1')
    node.config(BIG)
    node.wait_counts(20)
    cluster.wait_status('accepted', generation='2', hash=short_hash(BIG))
    assert not cluster.api.asked('watch', 'configmaps') and not os.path.exists(os.path.join(node.mps_root, 'configuration.json'))
    assert agent.count('Running with config:') == 2


@pytest.mark.parametrize('options, text', [
    (('--config-dir', '/x', '--config-map', 'a/b'), 'config-file, config-dir and config-map exclude each other'),
    (('--config-map', 'configs'), "config-map: 'configs' is not a ConfigMap, must be its namespace and name: gpu/configs"),
    (('--config-map', 'Gpu/configs'), "config-map: 'Gpu/configs' is not a ConfigMap"),
    (('--config-dir', '/x', '--config-label', ''), 'config-label: must not be empty'),
])
def test_options_that_cannot_be_end_the_start(node, options, text):
    agent = node.start(*options)
    agent.fails('cannot start.*' + text)


def test_the_command_line_beats_another_source_in_the_environment(node, mounted):
    node.environment['WARPSHARE_CONFIG_DIR'] = mounted.folder
    node.config(BIG)
    node.kubelet.start()
    node.start()
    node.wait_counts(20)


# ---- other commands ----

def test_all_configurations_of_a_folder_can_be_checked_at_once(mounted):
    command = [WARPSHARE, 'agent', '--check', '--config-dir', mounted.folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "config 'big' is valid\nconfig 'default' is valid\nconfig 'small' is valid\n"
    mounted.swap(**{**CONFIGS, 'big': BAD})
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "config 'big' line 2: sharing: 5, must be a mapping\n"
    assert done.stdout == "config 'default' is valid\nconfig 'small' is valid\n"


def test_plan_in_the_agents_container_shows_what_is_in_force(node, cluster, mounted):
    start(node, cluster, source=('--config-dir', mounted.folder))
    node.wait_counts(8)
    cluster.wait_status('accepted')
    done = subprocess.run(
        [WARPSHARE, 'plan', '--mps-directory', node.mps_root, '--nvml-library', node.library], capture_output=True, text=True,
        check=True, env={**os.environ, 'WARPSHARE_CONFIG_DIR': mounted.folder, 'WARPSHARE_SIM_SCENARIO': node.scenario_path})
    assert "config 'small'" in done.stdout and '\nnvidia.com/gpu: 8\n' in done.stdout, done.stdout
