# SPDX-License-Identifier: Apache-2.0
"""scripts/verify-mps-setup.sh, with every branch taken."""
import pytest
import yaml

from answers import LABEL, NODE, REPO, badly


@pytest.fixture
def node(cluster, run):
    """One that is set up with 20 replicas a GPU."""
    assert run('scripts/setup.sh', '20', NODE, REPO)[0] == 0
    return cluster


@pytest.fixture
def verify(run):
    return lambda *arguments, **variables: run('scripts/verify-mps-setup.sh', *arguments, **variables)


ALL_IS_WELL = '''gpu-node-1
  ok      configuration: mps.aggregate.20 (ConfigMap, by label)
  ok      resources: nvidia.com/gpu: 80
  ok      agent: pod warpshare-agent-gpu-node-1 is ready
  ok      MPS supervisor: pod warpshare-mps-gpu-node-1 is ready
  ok      MPS control daemons:
            DAEMON  STATE
            GPU-0   ready
  ok      memory per replica:
            Set device pinned memory limit: device=0, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630
            Set device pinned memory limit: device=1, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630
            Set device pinned memory limit: device=2, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630
            Set device pinned memory limit: device=3, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630
all is well
'''


def test_everything_that_is_fine_is_listed_line_by_line(node, verify):
    before = node.changes()
    assert verify(NODE) == verify() == (0, ALL_IS_WELL, '')
    assert node.changes() == before


def test_each_node_with_an_agent_is_looked_at(node, run, verify):
    node.add_node('other', {'nvidia.com/gpu.present': 'true'})
    node.add_node('without')
    run('scripts/setup.sh', '3', 'individual', 'other', REPO)
    status, out, _ = verify()
    assert status == 0 and 'without' not in out
    assert '\nother\n' in out and 'resources: nvidia.com/gpu0: 3, nvidia.com/gpu1: 3, nvidia.com/gpu2: 3, nvidia.com/gpu3: 3\n' in out


def test_a_resource_that_was_offered_before_is_reported_and_no_failure(node, run, verify):
    run('scripts/setup.sh', '5', 'individual', NODE, REPO)
    status, out, _ = verify(NODE)
    assert status == 0 and '  -       of a previous plugin, until kubelet restarts: nvidia.com/gpu: 0\n' in out


@pytest.mark.parametrize('trouble, words', [
    ({'lost': 20}, 'FAILED  resources: nvidia.com/gpu: 20 of 80 are unhealthy; kubectl describe node gpu-node-1'),
    ({'behind': 20}, 'FAILED  resources: nvidia.com/gpu: kubelet counts 60, and the agent offers 80; kubelet may need 10 seconds;'),
    ({'gpus': 0}, 'FAILED  resources: nvidia.com/gpu: the agent offers none'),
    ({'gpus': 0, 'is_mute': True}, 'FAILED  resources: nvidia.com/gpu: 0: none can be used'),
    ({'refuses': 'too many'}, 'FAILED  configuration: refused: too many'),
    ({'daemons': (1, 'DAEMON  STATE\nGPU-0   fault\n')}, 'FAILED  MPS control daemons:\n            DAEMON  STATE\n            GPU-0   fault\n  ok'),
    ({'memory': 'Set device pinned memory limit: device=0, total_memory_gb=1, replicas=7, limit_per_replica_mib=1\n'},
     'FAILED  memory per replica, wanted are 20 replicas: a daemon with clients changes when the last one leaves\n'),
])
def test_what_is_wrong_is_reported_with_the_reason_or_the_way_out(node, verify, trouble, words):
    for key, value in trouble.items():
        setattr(node.runtime, key, value)
    said = badly(verify(NODE))
    assert words in said and 'warpshare doctor looks deeper' in said


RESERVED = '  ok      resources: nvidia.com/gpu: 53 of 80 (27 reserved so that every request finds one GPU with room)\n'


def test_what_the_agent_reserves_is_no_failure(cluster, run, verify):
    assert run('scripts/setup.sh', '--strict', '20', NODE, REPO)[0] == 0
    status, out, _ = verify(NODE)
    assert status == 0 and RESERVED in out and 'ok      configuration: mps.aggregate.20.strict (' in out


def test_nor_is_it_with_a_configuration_of_ones_own(node, verify):
    """README's: weighted shares, 10 at most, the reserve by default."""
    node.patch('ConfigMap', 'warpshare-setup', {'data': {'default': yaml.safe_dump({'version': 'v1', 'sharing': {'mps': {
        'provisioning': 'weighted', 'maxPerRequest': 10, 'resources': [{'name': 'nvidia.com/gpu', 'replicas': 20}]}}})}})
    node.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'default'}}})
    status, out, _ = verify(NODE)
    assert status == 0 and RESERVED in out
    node.runtime.is_mute = True
    status, out, _ = verify(NODE)
    assert status == 0 and '  -       resources: nvidia.com/gpu: kubelet counts 53 of 80; whether the others are reserved or unhealthy' in out
    assert 'cannot be read: Error from server (ServiceUnavailable): error trying to reach service' in out


def test_a_resource_that_kubelet_does_not_know_is_reported(node, verify):
    node.runtime.is_stuck = True
    node.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'mine'}, 'annotations': {'warpshare.dev/config': 'mine'}}})
    node.runtime.counts = {'nvidia.com/gpu.small': '7'}
    node.runtime.offered_too = {'nvidia.com/gpu.large': (2, 0, 0)}
    said = badly(verify(NODE))
    assert 'FAILED  resources: nvidia.com/gpu.large: kubelet counts none, and the agent offers 2;' in said
    assert '  ok      resources: nvidia.com/gpu.small: 7\n' in said


def test_a_log_without_limits_is_no_failure(node, verify):
    node.runtime.memory = ''
    status, out, _ = verify(NODE)
    assert status == 0 and "  -       memory per replica: the supervisor's log has none (any more)\n" in out


@pytest.mark.parametrize('annotations, words', [
    ({'config': None, 'config-status': None}, 'the agent has told none (the node has no annotation warpshare.dev/config-status)'),
    ({'config-status': 'waiting: for the label'}, 'waiting: for the label; in force is mps.aggregate.20'),
    ({'config': 'mps.aggregate.10'}, 'in force is mps.aggregate.10, the label wants mps.aggregate.20: a minute may pass'),
])
def test_a_configuration_that_is_not_the_wanted_one_is_reported(node, verify, annotations, words):
    node.runtime.is_stuck = True
    node.patch('Node', NODE, {'metadata': {'annotations': {f'warpshare.dev/{key}': value for key, value in annotations.items()}}})
    assert f'FAILED  configuration: {words}' in badly(verify(NODE))


@pytest.mark.parametrize('config, counts, words', [
    ('mps.aggregate.20', {'nvidia.com/gpu': '81'}, 'nvidia.com/gpu: 81, which is no multiple of 20'),
    ('mps.individual.20', {'nvidia.com/gpu0': '20', 'nvidia.com/gpu1': '10'},
     'nvidia.com/gpu0: 20, nvidia.com/gpu1: 10, wanted are 20 each'),
    ('mps.individual.20', {'nvidia.com/gpu': '20'}, 'kubelet counts none of them'),
    ('mine', {'cpu': '20'}, 'kubelet counts none of them'),
])
def test_counts_that_do_not_fit_the_configuration_are_reported(node, verify, config, counts, words):
    node.runtime.is_stuck = True
    node.patch('Node', NODE, {'metadata': {'labels': {LABEL: config}, 'annotations': {'warpshare.dev/config': config}}})
    node.runtime.counts = counts
    assert f'FAILED  resources: {words}' in badly(verify(NODE))


def test_a_configuration_of_ones_own_is_looked_at_as_far_as_can_be(node, verify):
    node.runtime.is_stuck = True
    node.patch('Node', NODE, {'metadata': {'labels': {LABEL: 'mine'}, 'annotations': {'warpshare.dev/config': 'mine'}}})
    node.runtime.counts = {'nvidia.com/gpu.small': '7', 'nvidia.com/gpu': '2'}
    node.runtime.memory = ''
    status, out, _ = verify(NODE)
    assert status == 0 and '  ok      resources: nvidia.com/gpu: 2, nvidia.com/gpu.small: 7\n' in out


def test_a_missing_pod_and_one_that_is_not_ready_are_reported(node, verify):
    node.patch('Pod', f'warpshare-agent-{NODE}', {'status': {'containerStatuses': [{'ready': False}]}}, status=True)
    said = badly(verify(NODE))
    assert f'FAILED  agent: pod warpshare-agent-{NODE} is not ready; kubectl --namespace warpshare describe pod' in said
    node.delete('DaemonSet', 'warpshare-mps')
    assert 'FAILED  MPS supervisor: no pod on this node\n' in badly(verify(NODE))


def test_colours_are_for_terminals_only(node, verify):
    assert '\x1b' not in verify(NODE)[1]


@pytest.mark.parametrize('arguments, words', [
    (('--namespace',), '--namespace needs a value'), (('--some',), "'--some' is no option"), (('a', 'b'), 'one node, or none')])
def test_a_wrong_command_line_is_an_error_before_any_request(cluster, verify, arguments, words):
    assert words in badly(verify(*arguments), 2)
    assert cluster.commands == []


def test_help_is_a_text_for_people(verify):
    status, out, _ = verify('-h')
    assert status == 0 and out.startswith('usage: scripts/verify-mps-setup.sh ')


def test_what_is_not_there_is_named(cluster, verify):
    assert "there is no node 'nowhere'" in badly(verify('nowhere'))
    assert "namespace 'gpu' has no pod of the agent; scripts/setup.sh installs it" in badly(verify('--namespace', 'gpu'))
    assert "namespace 'own' has no pod" in badly(verify(WARPSHARE_NAMESPACE='own'))
    cluster.fail('get pods', 'no connection')
    assert "the pods of 'warpshare' cannot be listed" in badly(verify())


def test_without_kubectl_it_says_so(verify, tmp_path):
    for name in ('bash', 'dirname', 'env'):
        (tmp_path / name).symlink_to(f'/usr/bin/{name}')
    assert 'kubectl is not on the PATH' in badly(verify(PATH=str(tmp_path)))
