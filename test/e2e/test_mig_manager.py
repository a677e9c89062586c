# SPDX-License-Identifier: Apache-2.0
"""The MIG manager in the agent: the node's label names a configuration, and the GPUs have it as soon as nobody is in the way."""
import os
import pathlib
import re
import signal

import pytest
import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import DEADLINE
from test_agent_metrics import value

LABEL, STATE, DRAIN = ('nvidia.com/mig.config' + end for end in ('', '.state', '.drain'))
REASON = 'warpshare.dev/mig-config.reason'
SMALL, LARGE = 'nvidia.com/mig-1g.5gb', 'nvidia.com/mig-3g.20gb'


def device(gpu, number, profile):
    return {'profile': profile, 'gi': number, 'uuid': 'MIG-0000000%d-0000-4000-8000-%012d' % (gpu, number)}


def a100(gpu, *devices):
    """Device n of GPU g always has the same UUID, so that it stays if it stays in the list."""
    return {'model': 'A100-40GB', 'uuid': 'GPU-00000000-0000-4000-8000-00000000000%d' % gpu,
            'mig': {'enabled': True, 'devices': [device(gpu, number, profile) for number, profile in devices]}}


SMALLS = [(number, '1g.5gb') for number in (7, 8, 9)]
BEFORE = [a100(0, *SMALLS), a100(1, *SMALLS)]
CONFIGURATIONS = {
    'before': BEFORE,
    'large': [a100(0, (1, '3g.20gb')), a100(1, *SMALLS)],  # all of GPU 0
    'partly': [a100(0, (7, '1g.5gb'), (1, '3g.20gb')), a100(1, *SMALLS)],  # device 7 of GPU 0 stays
    'both': [a100(0, (1, '3g.20gb')), a100(1, (1, '3g.20gb'))],
}
ALL_SMALL = ['0:7', '0:8', '0:9', '1:7', '1:8', '1:9']
MIXED = {'version': 'v1', 'flags': {'migStrategy': 'mixed'}}


def short(device_id):
    """'0:7' for device 7 of GPU 0."""
    return '%s:%d' % (device_id[11], int(device_id.partition('::')[0][-12:]))


class Manager:
    def __init__(self, node, cluster):
        self.node, self.cluster = node, cluster
        self.folder = pathlib.Path(node.folder)
        self.file = self.folder / 'mig.yaml'
        self.configurations(CONFIGURATIONS)

    def configurations(self, content):
        self.file.write_text(yaml.safe_dump(content), encoding='utf-8')

    def options(self, *more):
        return ['--mig-manager', '--mig-config-file', str(self.file), '--mig-state-directory', str(self.folder / 'mig-state'),
                '--mig-program', os.path.join(os.path.dirname(__file__), 'mig_program.py'), *self.cluster.options(), *more]

    def start(self, *more, config=None):
        self.node.scenario(BEFORE)
        kubelet = self.node.start_all(config or MIXED, *self.options(*more))
        self.node.wait(lambda: 'resume ' in self.calls(), 'the manager begins')
        return kubelet

    def start_again(self):
        return self.node.start(*self.options())

    def label(self, value, key=LABEL):
        self.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {key: value}}})

    def labels(self):
        return self.cluster.node()['metadata'].get('labels') or {}

    def reason(self):
        return self.cluster.annotations().get(REASON)

    def wait_state(self, state, reason=None):
        self.node.wait(lambda: self.labels().get(STATE) == state and (reason is None or re.search(reason, self.reason() or '')),
                       'the state is %s, %s; it is %s, %s' % (state, reason, self.labels(), self.cluster.annotations()))

    def fault(self, what, text):
        new = self.folder / 'fault.new'
        new.write_text(text, encoding='utf-8')
        new.rename(self.folder / ('fault-' + what))

    def mend(self, what):
        (self.folder / ('fault-' + what)).unlink()

    def calls(self):
        path = self.folder / 'calls'
        return path.read_text(encoding='utf-8').split('\n')[:-1] if path.exists() else []

    def wait_call(self, call):
        self.node.wait(lambda: call in self.calls(), "'%s' is called" % call)

    def end_children(self):
        """Those of an agent that was killed: in a container they go with it."""
        for pid in (self.folder / 'pids').read_text(encoding='utf-8').split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def healthy(self, resource):
        devices = self.node.kubelet.devices.get(resource) or {}
        return sorted({short(one) for one, healthy in devices.items() if healthy})

    def wait_healthy(self, resource, *devices):
        self.node.wait(lambda: self.healthy(resource) == sorted(devices), 'the healthy devices of %s are %s' % (resource, devices))

    def hold(self, *devices):
        """A pod, named as the device, for each of them."""
        kubelet = self.node.kubelet
        for number in range(len(ALL_SMALL)):
            kubelet.admit('pod-%d' % number, SMALL, 1)
        with kubelet.changed:
            for name in list(kubelet.pods):
                held, = kubelet.pods[name].held(SMALL)
                pod = kubelet.pods.pop(name)
                if short(held) in devices:
                    pod.name = short(held).replace(':', '-')
                    kubelet.pods[pod.name] = pod
            kubelet._write_checkpoint()

    def put_pods(self, *names):
        """In the API, too."""
        kubelet = self.node.kubelet
        for name in names:
            made = self.cluster.api.put('/api/v1/namespaces/default/pods', {'metadata': {'name': name}, 'spec': {}})
            with kubelet.changed:
                kubelet.pods[name].uid = made['metadata']['uid']
                kubelet._write_checkpoint()


@pytest.fixture
def manager(node, cluster):
    return Manager(node, cluster)


def test_a_label_changes_the_geometry_and_everything_follows(manager):
    manager.start()
    manager.wait_healthy(SMALL, *ALL_SMALL)
    manager.label('large')
    manager.wait_state('success')
    manager.wait_healthy(LARGE, '0:1')
    manager.wait_healthy(SMALL, '1:7', '1:8', '1:9')
    assert manager.reason() is None
    assert manager.cluster.wait_event('MIGChangeCompleted')['message'] == "the GPUs have the MIG configuration 'large'"
    assert manager.calls() == ['resume ', 'plan large', 'apply large']
    assert not manager.cluster.refused()
    assert not (manager.folder / 'mig-state' / 'manager.json').exists()


def test_a_node_without_the_label_is_left_alone(manager):
    kubelet = manager.start()
    manager.node.agent.wait_log('MIG configuration config=- phase=idle')
    assert STATE not in manager.labels() and manager.calls() == ['resume ']
    assert len(kubelet.messages_of(SMALL)) == 1


def test_a_default_counts_where_there_is_no_label(manager):
    manager.start('--mig-default', 'large')
    manager.wait_healthy(LARGE, '0:1')
    manager.wait_state('success')
    manager.label('before')
    manager.wait_healthy(SMALL, *ALL_SMALL)


def test_a_geometry_that_is_right_is_success_and_touches_nothing(manager):
    manager.label('before')
    kubelet = manager.start()
    manager.wait_state('success')
    assert manager.calls() == ['resume ', 'plan before']
    assert len(kubelet.messages_of(SMALL)) == 1


def test_who_holds_a_unit_is_waited_for_and_the_other_gpu_never_notices(manager):
    kubelet = manager.start()
    manager.hold('0:7', '1:7')
    with kubelet.changed:
        since = len(kubelet.messages)
    manager.label('large')
    manager.wait_state('pending', r'^default/0-7/main \(MIG-00000000-0000-4000-8000-000000000007\) has it$')
    assert 'default/0-7/main' in manager.cluster.wait_event('MIGChangePending')['message']
    manager.wait_healthy(SMALL, '0:7', '1:7', '1:8', '1:9')  # held, and nobody can get the rest of GPU 0
    manager.node.stays(lambda: manager.calls() == ['resume ', 'plan large'], 'it waits', 4)
    kubelet.remove_pod('0-7')
    manager.wait_state('success')
    manager.wait_healthy(LARGE, '0:1')
    with kubelet.changed:
        others = [{short(one) for one, healthy in message.healthy.items() if healthy and short(one)[0] == '1'}
                  for message in kubelet.messages[since:] if message.resource == SMALL]
    assert others and all(one == {'1:7', '1:8', '1:9'} for one in others)


def test_metrics_say_what_the_change_waits_for_and_what_became_of_it(manager):
    kubelet = manager.start('--metrics-address=127.0.0.1:0')

    def sample(name, **labels):
        return value(manager.node.agent.get('/metrics')[1].replace(f'{name} ', f'{name}{{}} '), name, **labels)
    manager.hold('0:7', '0:8')
    manager.label('large')
    manager.wait_state('pending', 'have it$')
    assert sample('warpshare_mig_config_state', config='large', state='pending') == 1
    assert sample('warpshare_mig_phase', phase='waiting') == 1
    assert (sample('warpshare_mig_withdrawn_gpus'), sample('warpshare_mig_holders')) == (1, 2)
    for name in list(kubelet.pods):
        kubelet.remove_pod(name)
    manager.wait_state('success')
    assert sample('warpshare_mig_config_state', config='large', state='success') == 1
    assert sample('warpshare_mig_changes_total', result='applied') == 1
    assert (sample('warpshare_mig_withdrawn_gpus'), sample('warpshare_mig_holders')) == (0, 0)


def test_all_who_hold_a_unit_are_named_and_once(manager):
    manager.start()
    manager.hold('0:7', '0:8', '0:9')
    manager.label('large')
    reason = ', '.join('default/0-%d/main (MIG-00000000-0000-4000-8000-00000000000%d)' % (i, i) for i in (7, 8, 9)) + ' have it'
    manager.wait_state('pending', '^%s$' % re.escape(reason))
    manager.node.stays(lambda: manager.calls() == ['resume ', 'plan large'], 'it waits', 6)
    assert manager.node.logs().count('phase=waiting reason="default/') == 1


def test_who_holds_what_stays_is_not_waited_for(manager):
    kubelet = manager.start()
    manager.hold('0:7')
    with kubelet.changed:
        since = len(kubelet.messages)
    manager.label('partly')
    manager.wait_state('success')
    manager.wait_healthy(LARGE, '0:1')
    manager.wait_healthy(SMALL, '0:7', '1:7', '1:8', '1:9')
    with kubelet.changed:
        assert all({'0:7', '1:7'} <= {short(one) for one, healthy in message.healthy.items() if healthy}
                   for message in kubelet.messages[since:] if message.resource == SMALL)


def test_without_kubelets_list_nobody_is_taken_for_ended(manager):
    manager.node.kubelet.list_refusal = None
    manager.start('--pod-resources-socket=')
    manager.hold('0:7')
    manager.label('large')
    manager.wait_state(
        'pending', "has it; kubelet's pod-resources list, which says which pods have ended, is not available$")
    manager.node.stays(lambda: 'apply large' not in manager.calls(), 'it waits', 3)


def test_pods_are_evicted_where_the_node_says_so(manager):
    kubelet = manager.start()
    manager.hold('0:7', '0:8', '1:7')
    manager.put_pods('0-7', '0-8', '1-7')
    manager.cluster.api.on_evicted = lambda namespace, name: kubelet.remove_pod(name)
    manager.label('large')
    manager.wait_state('pending', '0-[78]')
    assert not manager.cluster.api.asked('create', 'pods')
    manager.label('evict', DRAIN)
    manager.wait_state('success')
    assert set(kubelet.pods) == {'1-7'}
    assert {one.name for one in manager.cluster.api.asked('create', 'pods')} == {'0-7', '0-8'}


def test_an_eviction_that_is_refused_is_told_and_tried_again(manager):
    kubelet = manager.start()
    manager.hold('0:7')
    manager.put_pods('0-7')
    manager.cluster.api.on_evicted = lambda namespace, name: kubelet.remove_pod(name)
    manager.cluster.api.fault('status', verb='create', resource='pods', code=429)
    manager.label('evict', DRAIN)
    manager.label('large')
    manager.wait_state('pending', 'default/0-7 cannot be evicted: .*429')
    manager.wait_state('success')


def test_a_new_pod_of_the_same_name_is_not_evicted(manager):
    kubelet = manager.start()
    manager.hold('0:7')
    # The one that kubelet has is gone from the API, and its name is another pod's.
    manager.cluster.api.put('/api/v1/namespaces/default/pods', {'metadata': {'name': '0-7'}, 'spec': {}})
    evicted = []
    manager.cluster.api.on_evicted = lambda namespace, name: evicted.append(name)
    manager.label('evict', DRAIN)
    manager.label('large')
    manager.wait_state('pending', 'has it$')
    manager.cluster.api.wait_for(lambda: manager.cluster.api.asked('create', 'pods'))
    manager.node.stays(lambda: not evicted, 'nobody is evicted', 2)
    kubelet.remove_pod('0-7')
    manager.wait_state('success')


def test_an_unknown_configuration_fails_with_the_reason_and_withdraws_nothing(manager):
    kubelet = manager.start()
    manager.label('no-such')
    manager.wait_state('failed', "^there is no configuration 'no-such'$")
    assert 'no-such' in manager.cluster.wait_event('MIGChangeFailed')['message']
    assert len(kubelet.messages_of(SMALL)) == 1
    # The file is read again as soon as it has it.
    manager.configurations({**CONFIGURATIONS, 'no-such': CONFIGURATIONS['large']})
    manager.wait_state('success')
    assert manager.reason() is None


def test_a_change_that_fails_gives_everything_back(manager):
    manager.start()
    manager.fault('apply', '1 GPU 0: process 4711 has it opened')
    manager.label('large')
    manager.wait_state('failed', '^GPU 0: process 4711 has it opened$')
    manager.wait_healthy(SMALL, *ALL_SMALL)
    manager.mend('apply')
    manager.configurations({**CONFIGURATIONS, 'more': BEFORE})  # it is looked at again
    manager.wait_state('success')
    manager.wait_healthy(LARGE, '0:1')


def test_a_change_that_dies_half_way_is_resumed_before_anything_is_offered(manager):
    manager.start()
    manager.fault('half', 'die')
    manager.fault('resume', '1 another one is at work')
    manager.label('large')
    manager.wait_state('failed', '^another one is at work$')
    manager.wait_healthy(SMALL, '1:7', '1:8', '1:9')  # nobody knows what GPU 0 has
    manager.mend('half')
    manager.mend('resume')
    assert manager.calls()[-1] == 'resume '


def test_a_reboot_that_is_needed_is_told(manager):
    manager.start()
    manager.fault('apply', '3 pending')
    manager.label('large')
    manager.wait_state('failed', '^the node has to be rebooted to change the MIG mode$')
    manager.wait_healthy(SMALL, *ALL_SMALL)


def test_values_that_come_meanwhile_count_afterwards_and_only_the_newest(manager):
    manager.start()
    manager.fault('half', 'wait')
    manager.label('large')
    manager.wait_call('apply large')
    for value in ('both', 'no-such', 'before'):
        manager.label(value)
    manager.node.stays(lambda: manager.calls()[-1] == 'apply large', 'nothing is interrupted', 1)
    manager.mend('half')
    manager.wait_call('apply before')
    manager.wait_state('success')
    manager.wait_healthy(SMALL, *ALL_SMALL)
    assert manager.calls() == ['resume ', 'plan large', 'apply large', 'plan before', 'apply before']


def test_a_label_that_is_removed_while_it_waits_gives_everything_back(manager):
    manager.start()
    manager.hold('0:7')
    manager.label('large')
    manager.wait_state('pending')
    manager.label(None)
    manager.wait_healthy(SMALL, *ALL_SMALL)
    manager.node.wait(lambda: STATE not in manager.labels() and manager.reason() is None, 'there is no state')
    assert manager.calls() == ['resume ', 'plan large']


def test_a_state_that_somebody_else_writes_is_put_back(manager):
    manager.label('before')
    manager.start()
    manager.wait_state('success')
    manager.label('failed', STATE)
    manager.wait_state('success')


@pytest.mark.parametrize('phase, is_killed', [('planning', True), ('waiting', True), ('applying', True), ('half', True), ('waiting', False),
                                              ('half', False)])
def test_the_next_agent_goes_on_from_any_phase(manager, phase, is_killed):
    manager.start()
    if phase == 'waiting':
        manager.hold('0:7')
    else:
        manager.fault({'planning': 'plan', 'applying': 'apply', 'half': 'half'}[phase], 'hang')
    manager.label('large')
    if phase == 'waiting':
        manager.wait_state('pending', 'has it$')
    else:
        manager.wait_call('plan large' if phase == 'planning' else 'apply large')
    if phase == 'half':
        manager.node.wait(lambda: len(yaml.safe_load(pathlib.Path(manager.node.scenario_path).read_text())['gpus'][0]['mig']['devices']) == 0,
                          'half of it is done')
    if is_killed:
        manager.node.agent.kill()
        manager.end_children()
    else:
        assert manager.node.agent.stop() == 0
    if phase == 'waiting':
        manager.node.kubelet.remove_pod('0-7')
    else:
        manager.mend({'planning': 'plan', 'applying': 'apply', 'half': 'half'}[phase])
    # Nothing is offered before that is resumed and the label's configuration planned: the node may have been rebooted, and GPU 1 be whole.
    manager.fault('resume', 'wait')
    since = len(manager.node.kubelet.messages)
    manager.start_again()
    manager.node.wait(lambda: manager.calls().count('resume ') == 2, 'it resumes')
    if phase != 'waiting':  # there kubelet's record still has the pod, whose device is offered
        assert len(manager.node.kubelet.messages) == since
    manager.mend('resume')
    manager.wait_state('success')
    manager.wait_healthy(LARGE, '0:1')
    manager.wait_healthy(SMALL, '1:7', '1:8', '1:9')


def test_an_agent_that_takes_over_late_knows_the_label(manager):
    folder = manager.folder / 'configs'
    folder.mkdir()
    (folder / 'only').write_text(yaml.safe_dump(MIXED), encoding='utf-8')
    manager.node.scenario(BEFORE)
    manager.node.kubelet.start()
    arguments = manager.options('--config-dir', str(folder), '--config-default', 'only')  # it follows a label of the node from its start
    first = manager.node.start(*arguments)
    manager.wait_healthy(SMALL, *ALL_SMALL)
    lists = len(manager.cluster.api.asked('list', 'nodes'))
    manager.node.start(*arguments)
    manager.node.agent.wait_log('GPUs found')
    manager.cluster.api.wait_for(lambda: len(manager.cluster.api.asked('list', 'nodes')) > lists)
    manager.fault('plan', 'wait')
    manager.label('large')
    manager.wait_call('plan large')
    assert first.stop() == 0
    manager.mend('plan')
    manager.wait_state('success')  # though nothing of the node has changed since it serves
    manager.wait_healthy(LARGE, '0:1')


def test_mps_daemons_of_what_goes_end_before_the_change(manager):
    manager.start(config={**MIXED, 'flags': {'migStrategy': 'mixed', 'mpsRoot': '/run/nvidia/mps'}, 'sharing': {'mps': {
        'resources': [{'name': name, 'replicas': 4} for name in (SMALL, LARGE)]}}})
    manager.fault('apply', 'wait')
    manager.label('large')
    manager.wait_call('apply large')
    units = {unit for daemon in manager.node.mps._status['daemons'] for unit in daemon['units']}
    assert {short(unit) for unit in units} == {'1:7', '1:8', '1:9'}
    manager.mend('apply')
    manager.wait_state('success')
    manager.node.wait_counts(4, resource=LARGE, timeout=DEADLINE)
    units = {unit for daemon in manager.node.mps._status['daemons'] for unit in daemon['units']}
    assert {short(unit) for unit in units} == {'0:1', '1:7', '1:8', '1:9'}
