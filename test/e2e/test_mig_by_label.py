"""The whole way from a label to another MIG geometry, with the change itself: the simulator's geometry is that of the node's programs."""
import pytest
import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import GPU
from test_mig_manager import LABEL, REASON, STATE

H100 = {'model': 'H100-80GB'}
UUIDS = ['GPU-00000000-0000-4000-8000-00000000000%d' % number for number in range(2)]
CONFIGS = {'version': 'v1', 'mig-configs': {
    'mixed': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'1g.10gb': 2, '3g.40gb': 1}}],
    'large': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'7g.80gb': 1}}],
    'too-much': [{'devices': [0], 'mig-enabled': True, 'mig-devices': {'3g.40gb': 3}}]}}
SMALL, MEDIUM, LARGE = ('nvidia.com/mig-' + profile for profile in ('1g.10gb', '2g.20gb', '7g.80gb'))
DEVICES = {'devices': [{'profile': '1g.10gb', 'start': 0}, {'profile': '2g.20gb', 'start': 4}]}


class Site:
    def __init__(self, node, cluster):
        self.node, self.cluster = node, cluster
        self.file = node.folder + '/mig.yaml'
        with open(self.file, 'w', encoding='utf-8') as file:
            yaml.safe_dump(CONFIGS, file)

    def scenario(self, *gpus):
        self.node.scenario([{**H100, 'uuid': uuid, **gpu} for uuid, gpu in zip(UUIDS, gpus)], driverVersion='580.105.08',
                           geometryFile=self.node.folder + '/geometry')

    def start(self, *arguments, file=True, config=None):
        files = ['--mig-config-file', self.file] if file else []
        return self.node.start_all(config or {'version': 'v1', 'flags': {'migStrategy': 'mixed'}}, '--mig-manager', '--mig-state-directory',
                                   self.node.folder + '/mig-state', *files, *self.cluster.options(), *arguments)

    def label(self, value):
        self.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {LABEL: value}}})

    def labels(self):
        return self.cluster.node()['metadata'].get('labels') or {}

    def wait_state(self, state):
        self.node.wait(lambda: self.labels().get(STATE) == state, 'the state is ' + state)
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


def test_a_mode_that_changes_by_a_reboot_only_stays_pending_and_the_gpu_is_offered_as_before(site):
    site.node.scenario([{'model': 'A100-40GB', 'uuid': UUIDS[0]}], driverVersion='580.105.08', geometryFile=site.node.folder + '/geometry')
    site.start(file=False)
    site.label('all-3g.20gb')
    assert site.wait_state('failed') == 'the node has to be rebooted to change the MIG mode'
    site.node.wait_counts(1)


def test_with_the_strategy_single_devices_of_another_size_take_the_place_of_all(site):
    site.scenario({'mig': {'devices': [{'profile': '1g.10gb', 'start': 0}]}})
    kubelet = site.start(config={'version': 'v1', 'flags': {'migStrategy': 'single'}})
    before = kubelet.ids(GPU, healthy=True)
    site.label('large')
    site.wait_state('success')
    site.node.wait(lambda: kubelet.allocatable(GPU) == 1 and kubelet.ids(GPU, healthy=True) != before, 'another device is there')
