# SPDX-License-Identifier: Apache-2.0
"""warpshare uninstall: what is left on a node and at its object in the API goes, what is in use or somebody else's stays."""
import json
import os
import socket
import subprocess

import pytest

from apiserver import agent_rules
from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from node import DEADLINE, GPU, WARPSHARE, sharing, v100s

TAINT_OPTION = '--node-taint=nvidia.com/gpu-sharing=unavailable:NoSchedule'
CONDITION = '--node-condition=GPUSharingReady'
SPEC = 'k8s.device-plugin.nvidia.com-gpu.json'


@pytest.fixture
def uninstall(node):
    """Runs the command with the node's paths; (status, {what: [(outcome, where, note)]}, standard error)."""
    node.cdi_root = os.path.join(node.folder, 'cdi')

    def run(*arguments):
        done = subprocess.run(
            [WARPSHARE, 'uninstall', '--output=json', '--kubelet-socket', node.kubelet.socket, '--mps-directory', node.mps_root,
             '--pod-resources-socket', node.kubelet.pod_resources, '--cdi-root', node.cdi_root,
             '--labels-file', os.path.join(node.folder, 'gfd'), '--nvml-library', node.library,
             '--mig-state-directory', os.path.join(node.folder, 'mig'), *arguments],
            capture_output=True, text=True, timeout=2 * DEADLINE, check=False,
            env={**os.environ, 'WARPSHARE_SIM_SCENARIO': node.scenario_path})
        things = {}
        for row in json.loads(done.stdout)['things'] if done.stdout else []:
            things.setdefault(row['what'], []).append((row['outcome'], row['where'], row['note']))
        return done.returncode, things, done.stderr
    return run


def outcomes(things):
    return {what: sorted({row[0] for row in rows}) for what, rows in things.items()}


def leave_everything(node, cluster):
    """An agent that was killed with a node that is marked."""
    os.mkdir(node.cdi_root)
    for name in (SPEC, 'k8s.device-plugin.nvidia.com-mps-g12ab.json'):
        with open(os.path.join(node.cdi_root, name), 'w', encoding='ascii') as file:
            file.write('{}')
    labels = os.path.join(node.folder, 'gfd')
    node.start_all(sharing('timeSlicing', 4), TAINT_OPTION, CONDITION, '--labels-output=file', '--labels-file', labels,
                   *cluster.options())
    node.wait(lambda: os.path.exists(labels), 'the file of labels is there')
    cluster.wait_configured()
    node.scenario(v100s(lost=True), events=[{'gpu': position, 'xid': 79} for position in range(4)])
    cluster.api.wait_for(lambda: cluster.taints() and cluster.condition('GPUSharingReady'))
    node.agent.kill()
    assert node.sockets()
    cluster.api.patch(NODES, NAME, {'metadata': {'annotations': {'warpshare.dev/config': 'a', 'theirs': 'b'}}})


def test_everything_that_a_killed_agent_left_goes_and_a_second_time_there_is_nothing(node, cluster, uninstall):
    leave_everything(node, cluster)
    status, things, _ = uninstall(*cluster.options())
    assert status == 0, things
    assert {'kubelet socket': ['removed'], 'CDI specification': ['removed'], 'taint': ['removed'], 'annotations': ['removed'],
            'condition': ['removed'], 'labels file': ['removed']}.items() <= outcomes(things).items()
    assert not node.sockets() and not os.listdir(node.cdi_root) and not os.path.exists(os.path.join(node.folder, 'gfd'))
    assert not cluster.taints() and not cluster.condition('GPUSharingReady') and cluster.condition('Ready')
    assert cluster.node()['metadata']['annotations'] == {'theirs': 'b'}
    assert 'warpshare.dev/config' in things['annotations'][0][2] and not cluster.annotations().keys() - {'theirs'}
    status, things, _ = uninstall(*cluster.options())
    assert status == 0 and set(sum(outcomes(things).values(), [])) == {'absent'}


def test_a_dry_run_says_the_same_and_changes_nothing(node, cluster, uninstall):
    leave_everything(node, cluster)
    before = cluster.node(), node.sockets()
    status, things, _ = uninstall('--dry-run', *cluster.options())
    assert status == 0 and (cluster.node(), node.sockets()) == before
    _, done, _ = uninstall(*cluster.options())
    assert done == things


def test_it_refuses_while_an_agent_runs(node, uninstall):
    node.start_all(sharing('timeSlicing', 4))
    status, things, error = uninstall()
    assert (status, things) == (1, {})
    assert error == "an agent runs here (it has the lock on '%s'): end it first, or use --force\n" % node.directory
    assert node.sockets()
    status, things, _ = uninstall('--force')
    assert status == 1 and things['kubelet socket'] == [('left', node.directory, 'an agent runs here')]
    assert node.kubelet.admit('pod', GPU, 1)


def test_specifications_stay_while_a_container_holds_a_gpu(node, uninstall):
    os.mkdir(node.cdi_root)
    path = os.path.join(node.cdi_root, SPEC)
    with open(path, 'w', encoding='ascii') as file:
        file.write('{}')
    kubelet = node.start_all(sharing('timeSlicing', 4))
    kubelet.admit('pod', GPU, 1)
    assert node.agent.stop() == 0
    status, things, _ = uninstall()
    (outcome, where, note), = things['CDI specification']
    assert (status, outcome, where) == (1, 'left', path) and note.startswith('1 containers hold GPUs')
    kubelet.remove_pod('pod')
    assert uninstall()[0] == 0 and not os.path.exists(path)


def test_specifications_stay_where_nvidias_plugin_serves(node, uninstall):
    os.mkdir(node.cdi_root)
    path = os.path.join(node.cdi_root, SPEC)
    with open(path, 'w', encoding='ascii') as file:
        file.write('{}')
    name = os.path.join(node.directory, 'nvidia-gpu.sock')
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.bind(name)
        plugin.listen()
        status, things, _ = uninstall()
    assert status == 1 and things['CDI specification'][0][2].startswith("NVIDIA's device plugin serves on '%s'" % name)
    assert uninstall()[0] == 0 and not os.path.exists(path)  # it left its socket, and listens no more


def test_what_the_api_server_refuses_is_left_with_its_reason(node, cluster, uninstall):
    leave_everything(node, cluster)
    cluster.api.allow([])
    status, things, _ = uninstall(*cluster.options())
    (outcome, _, note), = things['taint and condition']
    assert (status, outcome) == (1, 'left') and 'forbidden' in note
    assert cluster.taints()
    cluster.api.requests.clear()


def test_outside_a_cluster_the_node_is_not_looked_at(node, uninstall):
    status, things, _ = uninstall()
    assert status == 0 and things['taint and condition'] == [('unseen', '', 'no node name: --node-name, NODE_NAME')]


def test_a_configuration_that_cannot_be_used_keeps_nothing(node, uninstall):
    node.config('version: v2\n')
    open(os.path.join(node.directory, 'warpshare-gpu-1-1.sock'), 'w', encoding='ascii').close()  # no socket: not ours
    stale = os.path.join(node.directory, 'warpshare-gpu-2-1.sock')
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.bind(stale)
    status, things, error = uninstall('--config-file', node.config_path)
    assert status == 0 and error.startswith('warpshare uninstall: without the configuration file: config ')
    assert things['kubelet socket'] == [('removed', stale, '')]
    os.unlink(os.path.join(node.directory, 'warpshare-gpu-1-1.sock'))


# ---- DRA ----

DRIVER = 'gpu.warpshare.dev'
SLICES = '/apis/resource.k8s.io/%s/resourceslices'


@pytest.fixture
def driver(node, cluster):
    """What a driver that was killed has left, beside what belongs to others; (options, paths of ours, paths of a claim, paths of others)."""
    registry, plugins = os.path.join(node.folder, 'registry'), os.path.join(node.folder, 'plugins')
    node.cdi_root = os.path.join(node.folder, 'cdi')
    for folder in (registry, os.path.join(plugins, DRIVER, 'metadata'), node.cdi_root):
        os.makedirs(folder)
    ours = [f'{registry}/{DRIVER}-reg.sock', f'{registry}/{DRIVER}-6f1a-reg.sock', f'{plugins}/{DRIVER}/dra-6f1a.sock',
            f'{plugins}/{DRIVER}/dra.sock']
    claims = [f'{node.cdi_root}/{DRIVER}-claim_15ebfed7.json', f'{plugins}/{DRIVER}/prepared.json', f'{plugins}/{DRIVER}/metadata/15ebfed7_gpu.json']
    others = [f'{registry}/{DRIVER}.example.com-reg.sock', f'{registry}/gpu.nvidia.com-reg.sock', f'{plugins}/{DRIVER}/else.json',
              f'{node.cdi_root}/gpu.nvidia.com-claim_15ebfed7.json', f'{node.cdi_root}/{DRIVER}-claim_.json']
    for path in ours + claims + others:
        open(path, 'w', encoding='ascii').close()
    return ['--dra', '--mps-root=/run/nvidia/mps', '--kubelet-plugins-registry', registry, '--kubelet-plugins', plugins,
            *cluster.options()], ours, claims, others


def publish(cluster, version='v1'):
    cluster.api.serve_dra(version)
    for name, driver_name, node_name in (('ours-0', DRIVER, NAME), ('ours-1', DRIVER, NAME), ('of-another-driver', 'gpu.nvidia.com', NAME),
                                         ('of-another-node', DRIVER, 'elsewhere')):
        cluster.api.put(SLICES % version, {'apiVersion': f'resource.k8s.io/{version}', 'kind': 'ResourceSlice', 'metadata': {'name': name}, 'spec': {
            'driver': driver_name, 'nodeName': node_name, 'pool': {'name': node_name, 'generation': 1, 'resourceSliceCount': 1}}})


def slices(cluster, version='v1'):
    return {one['metadata']['name'] for one in cluster.api.all(SLICES % version)}


@pytest.mark.parametrize('version', ['v1', 'v1beta2', 'v1beta1'])
def test_slices_and_sockets_of_the_driver_go_and_what_is_prepared_stays(cluster, uninstall, driver, version):
    options, ours, claims, others = driver
    units = os.path.join(os.path.dirname(claims[0]), SPEC)  # whose devices the specification of a claim names
    open(units, 'w', encoding='ascii').close()
    publish(cluster, version)
    status, things, _ = uninstall(*options)
    (outcome, where, note), = things['CDI specification']
    assert (outcome, where) == ('left', units) and 'DRA claims are prepared' in note
    assert status == 1 and slices(cluster, version) == {'of-another-driver', 'of-another-node'}
    assert sorted(things['ResourceSlice']) == [('removed', 'ours-0', ''), ('removed', 'ours-1', '')]
    assert {one.form for one in cluster.api.asked('list', 'resourceslices')} == {'PartialObjectMetadataList'}
    assert sorted(row[:2] for row in things['DRA socket']) == sorted(('removed', path) for path in ours)
    (outcome, where, note), = things['CDI specification of a claim']
    assert (outcome, where) == ('left', claims[0]) and 'end its pods' in note
    (outcome, where, note), = things['device metadata of a claim']
    assert (outcome, where) == ('left', claims[2]) and 'end its pods' in note
    assert not any(map(os.path.exists, ours)) and all(map(os.path.exists, claims + others)) and 'record of claims' not in things
    status, things, _ = uninstall('--force', *options)
    assert status == 0 and things['CDI specification of a claim'] == [('removed', claims[0], '')]
    assert things['CDI specification'] == [('removed', units, '')]
    assert things['device metadata of a claim'] == [('removed', claims[2], '')] and not os.path.exists(os.path.dirname(claims[2]))
    assert things['record of claims'] == [('removed', claims[1], '')] and not any(map(os.path.exists, claims))
    assert things['ResourceSlice'] == [('absent', DRIVER, '')] and {row[0] for row in things['DRA socket']} == {'absent'}
    assert all(map(os.path.exists, others))


def test_a_dry_run_leaves_the_driver_as_it_is(cluster, uninstall, driver):
    options, ours, _, _ = driver
    publish(cluster)
    _, things, _ = uninstall('--dry-run', *options)
    assert len(slices(cluster)) == 4 and all(map(os.path.exists, ours))
    assert [row[0] for row in things['ResourceSlice']] == ['removed'] * 2 and len(things['DRA socket']) == len(ours)


def test_slices_that_the_rights_keep_are_left_with_the_reason(cluster, uninstall, driver):
    publish(cluster)
    cluster.api.allow(agent_rules('events: node'))
    status, things, _ = uninstall(*driver[0])
    (outcome, where, note), = things['ResourceSlice']
    assert (status, outcome, where) == (1, 'left', DRIVER) and 'forbidden' in note
    cluster.api.requests.clear()


def test_without_an_api_for_dra_and_without_dra_no_slice_is_looked_for(cluster, uninstall, driver):
    _, things, _ = uninstall(*driver[0])
    assert things['ResourceSlice'] == [('absent', DRIVER, '')]
    cluster.api.requests.clear()
    _, things, _ = uninstall(*cluster.options())
    assert not {'ResourceSlice', 'DRA socket', 'CDI specification of a claim'} & things.keys()
    assert not [one for one in cluster.api.requests if 'resourceslices' in one.path]


def test_the_table_is_for_people(node, uninstall):
    done = subprocess.run([WARPSHARE, 'uninstall', '--dry-run', '--kubelet-socket', node.kubelet.socket, '--cdi-root',
                           node.cdi_root, '--mps-directory', node.folder + '/none', '--labels-file', node.folder + '/gfd'],
                          capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout.splitlines()[0].split() == ['WHAT', 'OUTCOME', 'WHERE', 'NOTE']
    assert ['kubelet', 'socket', 'was', 'not', 'there', node.directory, '-'] in [line.split() for line in done.stdout.splitlines()]


# ---- MIG ----

def leave_mig(node, *names):
    os.mkdir(node.folder + '/mig')
    for name in names:
        with open(f'{node.folder}/mig/{name}', 'w', encoding='ascii') as file:
            file.write('{}')


def tell_state(cluster, manager):
    labels = {'nvidia.com/mig.config': 'all-1g.10gb', 'nvidia.com/mig.config.state': 'pending'}
    cluster.api.patch(NODES, NAME, {'metadata': {'labels': labels}}, manager=manager)


def test_the_record_of_what_a_mig_change_withdraws_goes_with_its_folder_and_the_state(node, cluster, uninstall):
    leave_mig(node, 'manager.json')
    tell_state(cluster, 'warpshare-mig')
    cluster.api.allow(agent_rules('mig', 'labels: nodefeature'))
    status, things, _ = uninstall('--dry-run', *cluster.options())
    assert status == 0 and ('removed', node.folder + '/mig/manager.json', '') in things['record of a MIG change']
    assert os.path.exists(node.folder + '/mig/manager.json')
    status, done, _ = uninstall(*cluster.options())
    assert (status, done) == (0, things) and not os.path.exists(node.folder + '/mig')
    assert done['label nvidia.com/mig.config.state'] == [('removed', NAME, '')]


def test_an_unfinished_mig_change_stays_unless_it_is_forced(node, uninstall):
    leave_mig(node, 'change.json', 'manager.json')
    status, things, _ = uninstall()
    (outcome, where, note), _ = things['record of a MIG change']
    assert (status, outcome, where) == (1, 'left', node.folder + '/mig/change.json') and 'warpshare mig apply --resume' in note
    assert os.listdir(node.folder + '/mig') == ['change.json']
    assert uninstall('--force')[0] == 0 and not os.path.exists(node.folder + '/mig')


def test_a_mig_state_that_nvidias_manager_told_stays(node, cluster, uninstall):
    tell_state(cluster, 'nvidia-mig-manager')
    cluster.api.allow(agent_rules('mig', 'labels: nodefeature'))
    status, things, _ = uninstall(*cluster.options())
    assert (status, things['label nvidia.com/mig.config.state']) == (0, [('absent', NAME, 'another MIG manager has set it')])
