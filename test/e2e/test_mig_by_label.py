# SPDX-License-Identifier: Apache-2.0
"""The whole way from a label to another MIG geometry, with the change itself: the simulator's geometry is that of the node's programs."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import DEADLINE, GPU, WARPSHARE
from test_mig_manager import LABEL, REASON, STATE

H100 = {'model': 'H100-80GB'}
UUIDS = ['GPU-00000000-0000-4000-8000-00000000000%d' % number for number in range(2)]
CONFIGS = {'version': 'v1', 'mig-configs': {
    'mixed': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'1g.10gb': 2, '3g.40gb': 1}}],
    'large': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'7g.80gb': 1}}],
    'second': [{'devices': [1], 'mig-enabled': True, 'mig-devices': {'7g.80gb': 1}}],
    'too-much': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'3g.40gb': 3}}]}}
# A GPU that is back before the agent has missed it causes no event: the plan that failed without it is made again after half a minute.
UNNOTICED = DEADLINE + 30.0
SMALL, MEDIUM, LARGE = ('nvidia.com/mig-' + profile for profile in ('1g.10gb', '2g.20gb', '7g.80gb'))
DEVICES = {'devices': [{'profile': '1g.10gb', 'start': 0}, {'profile': '2g.20gb', 'start': 4}]}


class Site:
    def __init__(self, node, cluster):
        self.node, self.cluster = node, cluster
        self.file = node.folder + '/mig.yaml'
        with open(self.file, 'w', encoding='utf-8') as file:
            yaml.safe_dump(CONFIGS, file)

    def scenario(self, *gpus):
        self.node.scenario([{**H100, 'uuid': uuid, **gpu} for uuid, gpu in zip(UUIDS, gpus) if gpu is not None], driverVersion='580.105.08',
                           geometryFile=self.node.folder + '/geometry')

    def start(self, *arguments, file=True, config=None):
        files = ['--mig-config-file', self.file] if file else []
        return self.node.start_all(config or {'version': 'v1', 'flags': {'migStrategy': 'mixed'}}, '--mig-manager', '--mig-state-directory',
                                   self.node.folder + '/mig-state', *files, *self.cluster.options(), *arguments)

    def label(self, value):
        self.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {LABEL: value}}})

    def labels(self):
        return self.cluster.node()['metadata'].get('labels') or {}

    def wait_state(self, state, timeout=DEADLINE):
        self.node.wait(lambda: self.labels().get(STATE) == state, 'the state is ' + state, timeout)
        return self.cluster.annotations().get(REASON)


@pytest.fixture
def site(node, cluster):
    return Site(node, cluster)


def test_a_device_that_stays_keeps_its_pod_and_the_others_follow_the_label(site):
    site.scenario({'mig': DEVICES}, {'mig': DEVICES})
    kubelet = site.start('--labels-output=node')
    site.node.wait_counts(2, resource=SMALL)
    held = {kubelet.admit('pod-%d' % number, SMALL, 1)[0][0] for number in range(2)}
    site.label('mixed')
    assert site.wait_state('success') is None
    # GPU 0 has one more small device, and a large one for the medium one; GPU 1 is as it was.
    site.node.wait_counts(3, resource=SMALL)
    site.node.wait_counts(1, resource='nvidia.com/mig-3g.40gb')
    site.node.wait(lambda: site.node.kubelet.allocatable(MEDIUM) == 1, 'that of GPU 1 is left')
    assert held <= set(kubelet.ids(SMALL, healthy=True))
    site.node.wait(lambda: site.labels().get('nvidia.com/mig-3g.40gb.count') == '1', 'the labels say so')
    assert not site.cluster.refused()


def test_a_configuration_that_does_not_fit_is_told_before_anything_is_touched(site):
    site.scenario({'mig': DEVICES})
    kubelet = site.start()
    site.node.wait_counts(1, resource=SMALL)
    site.label('too-much')
    assert '3 of 3g.40gb do not fit' in site.wait_state('failed')
    assert len(kubelet.messages_of(SMALL)) == 1


def test_a_process_that_no_pod_explains_keeps_the_geometry_as_it_was(site):
    site.scenario({'mig': DEVICES, 'processes': [{'pid': 4711, 'memory': '1GiB', 'gi': 5, 'ci': 0}]})
    site.start()
    site.label('large')
    assert 'used by process 4711' in site.wait_state('failed')
    site.node.wait_counts(1, resource=SMALL)
    site.node.wait_counts(1, resource=MEDIUM)


def test_what_fails_is_taken_back_and_offered_again(site):
    site.scenario({'mig': DEVICES})
    site.start()
    site.node.scenario([{**H100, 'uuid': UUIDS[0], 'mig': DEVICES}], driverVersion='580.105.08', geometryFile=site.node.folder + '/geometry',
                       errors={'nvmlGpuInstanceCreateComputeInstance': {'error': 'UNKNOWN', 'times': 1}})
    site.label('large')
    assert 'the geometry is as before' in site.wait_state('failed')
    site.node.wait_counts(1, resource=SMALL)
    site.node.wait_counts(1, resource=MEDIUM)


def test_whole_gpus_become_mig_devices_and_whole_again_by_the_generated_configurations(site):
    site.scenario({}, {})
    kubelet = site.start(file=False)
    site.node.wait_counts(2)
    kubelet.admit('pod', GPU, 1)
    site.label('all-1g.10gb')
    site.wait_state('pending')
    site.node.wait(lambda: 'default/pod/main' in site.cluster.annotations().get(REASON, ''), 'it is told who is in the way')
    kubelet.remove_pod('pod')
    site.wait_state('success')
    site.node.wait_counts(14, resource=SMALL)
    assert kubelet.allocatable(GPU) == 0
    site.label('all-disabled')
    site.node.wait_counts(2)
    site.wait_state('success')
    assert kubelet.allocatable(SMALL) == 0


def test_a_gpu_that_comes_later_gets_the_configuration_too(site):
    site.scenario({})
    site.start()
    site.label('second')
    assert site.wait_state('failed').startswith("the configuration 'second' is for none of this node's GPUs")
    site.scenario({}, {})
    site.node.agent.hang_up()
    site.node.wait_counts(1, resource=LARGE)
    site.wait_state('success')
    # It was never offered as a whole.
    site.node.wait_counts(1)
    assert ids_ever(site, GPU) == {UUIDS[0]}


def ids_ever(site, resource):
    """Every id that kubelet was ever told of the resource."""
    return {id for message in site.node.kubelet.messages_of(resource) for id in message.healthy}


# ---- a node that comes up with a configuration: what it is to be is known a moment after it has GPUs ----

@pytest.mark.parametrize('late', [0, 12], ids=['the API server answers', 'the API server is late'])
@pytest.mark.parametrize('by', ['label', 'default'])
def test_a_node_that_comes_up_with_a_configuration_offers_no_whole_gpu_before(site, late, by):
    site.scenario({}, {})
    if by == 'label':
        site.label('all-1g.10gb')
    if late:
        site.cluster.api.fault('status', code=503, times=late)
    site.start(*(['--mig-default', 'all-1g.10gb'] if by == 'default' else []), file=False,
               config={'version': 'v1', 'flags': {'migStrategy': 'single'}})
    site.node.wait_counts(14)
    assert not ids_ever(site, GPU) & set(UUIDS)


def test_what_a_pod_holds_is_served_before_the_label_is_known_and_the_rest_is_not(site):
    site.scenario({}, {})
    kubelet = site.start()
    site.node.wait_counts(2)
    [held] = kubelet.admit('pod', GPU, 1)[0]
    site.node.agent.stop()
    fault = site.cluster.api.fault('status', code=503, times=1000000)
    seen = len(kubelet.messages_of(GPU))
    site.node.start('--mig-manager', '--mig-state-directory', site.node.folder + '/mig-state', *site.cluster.options())
    # Several readings of the label have failed, and NVML has been read.
    site.node.agent.wait_log("the node's MIG configuration cannot be read")
    site.node.wait(lambda: kubelet.messages_of(GPU)[seen:], 'the agent has said what it has')
    assert kubelet.ids(GPU, healthy=True) == [held]
    fault.times = 0
    site.node.wait_counts(2)
    assert all(message.healthy[held] for message in kubelet.messages_of(GPU)[seen:])


def test_gpus_that_cannot_have_mig_wait_for_no_label(site):
    site.node.scenario([{'model': 'T4', 'uuid': UUIDS[0]}])
    site.cluster.api.fault('status', code=503, times=1000000)
    site.start()
    site.node.wait_counts(1)


def test_while_a_gpu_is_away_an_index_changes_no_other_one(site):
    site.scenario({}, {})
    site.start()
    site.node.wait_counts(2)
    site.scenario(None, {})
    site.label('large')  # the first GPU: now it is the second that has its index
    assert site.wait_state('failed').startswith('NVML shows 1 GPUs, and the node had 2: an index of the configuration may mean another GPU.')
    site.scenario({}, {})
    site.wait_state('success', UNNOTICED)
    site.node.wait_counts(1, resource=LARGE)
    assert site.node.kubelet.ids('nvidia.com/gpu', healthy=True) == [UUIDS[1]]


def test_a_gpu_that_was_away_for_a_moment_gets_the_configuration_too(site):
    site.scenario({}, {})
    site.start()
    site.node.wait_counts(2)
    site.scenario({}, None)
    site.label('second')
    assert site.wait_state('failed')
    site.scenario({}, {})
    site.wait_state('success', UNNOTICED)
    site.node.wait_counts(1, resource=LARGE)


PROGRAM = """#!/bin/sh
[ "$2" != plan ] || [ -e planned ] || { touch planned; export WARPSHARE_SIM_SCENARIO=%(one_gpu)s; }
exec %(program)s "$@"
"""


def test_a_gpu_that_comes_after_the_plan_and_before_the_agent_has_read_any_gets_the_configuration_too(site):
    folder = pathlib.Path(site.node.folder)
    site.scenario({}, None)
    shutil.copy(site.node.scenario_path, folder / 'one-gpu.yaml')
    site.node.scenario([{**H100, 'uuid': uuid} for uuid in UUIDS], driverVersion='580.105.08', geometryFile=site.node.folder + '/geometry',
                       init={'delay': '3s'})
    program = folder / 'mig-program'
    program.write_text(PROGRAM.replace('planned', str(folder / 'planned')) % {'one_gpu': folder / 'one-gpu.yaml', 'program': WARPSHARE},
                       encoding='utf-8')
    program.chmod(0o755)
    site.label('second')
    site.start('--mig-program', str(program))
    site.node.wait_counts(1, resource=LARGE)
    site.wait_state('success')


# ---- a mode that changes by a reset only ----

# Whoever has NVML open has the simulator's code mapped, and a GPU that somebody has opened is not reset. (The thread sanitizer maps tables
# of each library, and keeps them.)
NVIDIA_SMI = """#!/bin/sh
cd %(folder)s
! grep -q 'r-xp .*nvml-sim' /proc/$(cat agent)/maps || exit 7
[ ! -e wait-before ] || { touch waits; while [ -e wait-before ]; do sleep 0.1; done; }
sed 's/^gpus:$/&/; s/^- model: A100-40GB$/&\\n  resets: 1/' %(scenario)s > reset.yaml && mv reset.yaml %(scenario)s
[ ! -e wait-after ] || { touch waits; while [ -e wait-after ]; do sleep 0.1; done; }
"""


class Ampere(Site):
    def __init__(self, node, cluster):
        super().__init__(node, cluster)
        self.folder = pathlib.Path(node.folder)
        self.write_smi(NVIDIA_SMI % {'folder': node.folder, 'scenario': node.scenario_path})
        node.environment['PATH'] = '%s:%s' % (self.folder / 'bin', os.environ['PATH'])
        self.node.scenario([{'model': 'A100-40GB', 'uuid': UUIDS[0]}], driverVersion='580.105.08', geometryFile=node.folder + '/geometry')

    def write_smi(self, text):
        path = self.folder / 'bin/nvidia-smi'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding='utf-8')
        path.chmod(0o755)

    def start(self, *arguments, **more):
        kubelet = super().start(*arguments, file=False, **more)
        self.note_agent()
        return kubelet

    def note_agent(self):
        (self.folder / 'agent').write_text(str(self.node.agent.process.pid), encoding='ascii')

    def kill_all(self):
        """The agent with its children, as when its container ends."""
        first = self.node.agent.process.pid
        family = subprocess.run(['ps', '-e', '-o', 'pid=,ppid='], capture_output=True, text=True, check=True).stdout
        parents = dict(map(int, line.split()) for line in family.splitlines())

        def is_below(pid):
            while pid in parents and pid != first:
                pid = parents[pid]
            return pid == first
        below = [pid for pid in parents if is_below(pid) and pid != first]
        self.node.agent.kill()
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


@pytest.fixture
def ampere(node, cluster):
    return Ampere(node, cluster)


def test_the_agent_closes_nvml_while_a_gpu_is_reset_and_goes_on_afterwards(ampere):
    ampere.start()
    ampere.node.wait_counts(1)
    ampere.label('all-3g.20gb')
    assert ampere.wait_state('success') is None
    ampere.node.wait_counts(2, resource='nvidia.com/mig-3g.20gb')
    ampere.label('all-disabled')
    # The other way round, with what the first reset has left.
    scenario = pathlib.Path(ampere.node.scenario_path)
    ampere.write_smi((NVIDIA_SMI % {'folder': ampere.node.folder, 'scenario': scenario}).split('sed')[0]
                     + "sed 's/resets: 1/resets: 2/' %s > reset.yaml && mv reset.yaml %s" % (scenario, scenario))
    ampere.node.wait_counts(1)
    ampere.wait_state('success')


def test_a_reset_that_is_refused_leaves_the_mode_pending_with_the_reason_and_the_gpu_is_offered_as_before(ampere):
    ampere.write_smi('#!/bin/sh\nexit 7\n')
    ampere.start()
    ampere.label('all-3g.20gb')
    assert re.match('the node has to be rebooted to change the MIG mode: nvidia-smi --gpu-reset --id GPU-[^ ]* failed with status 7: a process uses',
                    ampere.wait_state('failed'))
    ampere.node.wait_counts(1)
    # NVML is open again: what happens to the GPU is heard.
    with open(ampere.node.scenario_path, encoding='utf-8') as file:
        scenario = yaml.safe_load(file)
    scenario['gpus'][0]['lost'] = True
    ampere.node._write(ampere.node.scenario_path, yaml.safe_dump({**scenario, 'events': [{'gpu': 0, 'xid': 79}]}, sort_keys=False))
    ampere.node.wait_counts(0, 1)


def test_where_mps_serves_other_gpus_no_reset_is_tried(ampere):
    ampere.node.scenario([{'model': 'A100-40GB', 'uuid': uuid} for uuid in UUIDS], driverVersion='580.105.08',
                         geometryFile=ampere.node.folder + '/geometry')
    with open(ampere.file, 'w', encoding='utf-8') as file:
        yaml.safe_dump({'version': 'v1', 'mig-configs': {'first': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'3g.20gb': 2}}]}}, file)
    ampere.start('--mig-config-file', ampere.file, config={
        'version': 'v1', 'flags': {'migStrategy': 'mixed', 'mpsRoot': '/run/nvidia/mps'},
        'sharing': {'mps': {'resources': [{'name': 'nvidia.com/gpu', 'replicas': 4}]}}})
    ampere.node.wait_counts(8)
    ampere.label('first')
    assert ampere.wait_state('failed') == 'the node has to be rebooted to change the MIG mode: no reset is tried while MPS serves other GPUs ' \
        'of the node'


@pytest.mark.parametrize('moment', ['before', 'after'])
def test_an_agent_that_is_killed_while_a_gpu_is_reset_is_no_harm(ampere, moment):
    (ampere.folder / ('wait-' + moment)).touch()
    ampere.start()
    ampere.label('all-3g.20gb')
    ampere.node.wait((ampere.folder / 'waits').exists, 'it is being reset')
    ampere.kill_all()
    (ampere.folder / ('wait-' + moment)).unlink()
    ampere.node.start('--mig-manager', '--mig-state-directory', ampere.node.folder + '/mig-state', *ampere.cluster.options())
    ampere.note_agent()
    if moment == 'after':
        ampere.wait_state('success')
        ampere.node.wait_counts(2, resource='nvidia.com/mig-3g.20gb')
    else:
        assert ampere.wait_state('failed').startswith('the node has to be rebooted to change the MIG mode')
        ampere.node.wait_counts(1)


def test_with_the_strategy_single_devices_of_another_size_take_the_place_of_all(site):
    site.scenario({'mig': {'devices': [{'profile': '1g.10gb', 'start': 0}]}})
    kubelet = site.start(config={'version': 'v1', 'flags': {'migStrategy': 'single'}})
    before = kubelet.ids(GPU, healthy=True)
    site.label('large')
    site.wait_state('success')
    site.node.wait(lambda: kubelet.allocatable(GPU) == 1 and kubelet.ids(GPU, healthy=True) != before, 'another device is there')
