"""The MIG manager in the agent: the node's label names a configuration, and the GPUs have it as soon as nobody is in the way."""
import os
import pathlib
import re

import pytest
import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture

LABEL, STATE, DRAIN = ('nvidia.com/mig.config' + end for end in ('', '.state', '.drain'))
REASON = 'warpshare.dev/mig-config.reason'
SMALL, LARGE = 'nvidia.com/mig-1g.5gb', 'nvidia.com/mig-3g.20gb'


def device(gpu, number, profile):
    return {'profile': profile, 'gi': number, 'uuid': 'MIG-0000000%d-0000-4000-8000-%012d' % (gpu, number)}


def a100(gpu, *profiles, enabled=True):
    """Device n of GPU g always has the same UUID, so that it stays if it stays in the list."""
    mig = {'enabled': True, 'devices': [device(gpu, number, profile) for number, profile in profiles]} if enabled else {'enabled': False}
    return {'model': 'A100-40GB', 'uuid': 'GPU-00000000-0000-4000-8000-00000000000%d' % gpu, 'mig': mig}


SMALLS = [(number, '1g.5gb') for number in (7, 8, 9)]
BEFORE = [a100(0, *SMALLS), a100(1, *SMALLS)]
CONFIGURATIONS = {
    'before': BEFORE,
    'large': [a100(0, (1, '3g.20gb')), a100(1, *SMALLS)],  # all of GPU 0
    'partly': [a100(0, (7, '1g.5gb'), (1, '3g.20gb')), a100(1, *SMALLS)],  # device 7 of GPU 0 stays
    'both': [a100(0, (1, '3g.20gb')), a100(1, (1, '3g.20gb'))],
}


class Manager:
    def __init__(self, node, cluster):
        self.node, self.cluster = node, cluster
        self.folder = pathlib.Path(node.folder)
        self.file = self.folder / 'mig.yaml'
        self.file.write_text(yaml.safe_dump(CONFIGURATIONS), encoding='utf-8')

    def options(self, *more):
        return ['--mig-manager', '--mig-config-file', str(self.file), '--mig-state-directory', str(self.folder / 'mig-state'),
                '--mig-program', os.path.join(os.path.dirname(__file__), 'mig_program.py'), *self.cluster.options(), *more]

    def start(self, *more, gpus=None, config=None):
        self.node.scenario(gpus or BEFORE)
        return self.node.start_all(config or {'version': 'v1', 'flags': {'migStrategy': 'mixed'}}, *self.options(*more))

    def label(self, value, key=LABEL):
        self.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {key: value}}})

    def labels(self):
        return self.cluster.node()['metadata'].get('labels') or {}

    def reason(self):
        return self.cluster.annotations().get(REASON)

    def wait_state(self, state, reason=None):
        self.cluster.api.wait_for(lambda: self.labels().get(STATE) == state and (reason is None or re.search(reason, self.reason() or '')))

    def wait_phase(self, phase, count=1):
        self.node.agent.wait_log('MIG configuration .*phase=%s' % phase, count)

    def fault(self, what, text):
        (self.folder / ('fault-' + what)).write_text(text, encoding='utf-8')

    def mend(self, what):
        (self.folder / ('fault-' + what)).unlink()

    def calls(self):
        path = self.folder / 'calls'
        return path.read_text(encoding='utf-8').split('\n')[:-1] if path.exists() else []

    def healthy(self, resource):
        return {one.split('-')[1][-1] + ':' + one[-2:].lstrip('0') for one in self.node.kubelet.ids(resource, healthy=True)} \
            if resource in self.node.kubelet.devices else set()

    def wait_healthy(self, resource, *devices):
        self.node.wait(lambda: self.healthy(resource) == set(devices), '%s are the healthy devices of %s' % (devices, resource))


@pytest.fixture
def manager(node, cluster):
    return Manager(node, cluster)


ALL_SMALL = ['0:7', '0:8', '0:9', '1:7', '1:8', '1:9']


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


def test_a_node_without_the_label_is_left_alone(manager):
    manager.start()
    manager.wait_phase('idle')
    assert STATE not in manager.labels() and manager.calls() == ['resume ']


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


def test_who_holds_a_unit_is_waited_for_and_others_never_notice(manager):
    kubelet = manager.start()
    held = kubelet.admit('holder', SMALL, 1, namespace='team')
    kubelet.admit('other', SMALL, 1)
    others = [one for one in kubelet.pods['other'].held(SMALL)]
    gpu = list(kubelet.pods['holder'].held(SMALL))[0]
    manager.label('both' if False else 'large')
    del held
    if gpu[len('MIG-')+7] == '0':
        manager.wait_state('pending', r'team/holder/main \(MIG-')
        manager.wait_phase('waiting')
    del others


def test_an_unknown_configuration_fails_with_the_reason_and_withdraws_nothing(manager):
    kubelet = manager.start()
    manager.label('no-such')
    manager.wait_state('failed', "there is no configuration 'no-such'")
    assert 'no-such' in manager.cluster.wait_event('MIGChangeFailed')['message']
    assert len(kubelet.messages_of(SMALL)) == 1
    # The file is read again as soon as it has it.
    manager.file.write_text(yaml.safe_dump({**CONFIGURATIONS, 'no-such': CONFIGURATIONS['large']}), encoding='utf-8')
    manager.wait_state('success')
    assert manager.reason() is None
