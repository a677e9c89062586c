# SPDX-License-Identifier: Apache-2.0
"""GPUs by DRA whose MIG geometry follows the node's label: claims are waited for, the MPS daemon ends, and the ResourceSlices follow."""
import threading

import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from dra import DRIVER, node  # noqa: F401 -- a fixture
from test_dra import FIRST, SECOND, prepare_machine, start_agent, wait_no_daemon
from test_mig_manager import DRAIN, LABEL, REASON, STATE


def share_geometry(node):
    """Between the programs of this node."""
    with open(node.scenario_path, encoding='utf-8') as file:
        scenario = yaml.safe_load(file)
    node._write(node.scenario_path, yaml.safe_dump({**scenario, 'geometryFile': node.folder + '/geometry'}, sort_keys=False))


def start(node):
    """Two GPUs that are shared by claims, and a configuration 'large' for the first."""
    prepare_machine(node, 2)
    share_geometry(node)
    with open(node.folder + '/mig.yaml', 'w', encoding='utf-8') as file:
        yaml.safe_dump({'version': 'v1', 'mig-configs': {'large': [
            {'devices': [0], 'mig-enabled': True, 'mig-devices': {'3g.40gb': 2}}]}}, file)
    node.start_mps()
    node.dra.start()
    start_agent(node, arguments=['--mig-manager', '--mig-config-file', node.folder + '/mig.yaml', '--mig-state-directory',
                                 node.folder + '/mig-state'])
    node.wait_devices('gpu-0', 'gpu-0-shared', 'gpu-1', 'gpu-1-shared')
    node.dra.wait_driver(DRIVER)


def label(node, value, key=LABEL):
    node.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {key: value}}})


def wait_success(node):
    node.cluster.api.wait_for(lambda: (node.cluster.node()['metadata'].get('labels') or {}).get(STATE) == 'success')
    node.cluster.api.wait_for(lambda: sum('gpu-0-mig-3g-40gb' in name for name in node.devices()) == 4)


def test_a_share_by_mps_is_waited_for_and_then_mig_devices_are_offered_instead(node):
    start(node)
    pods = [node.run(node.claim(name, {'memory': '10Gi', 'threadPercentage': '30'})) for name in ('train', 'serve')]
    assert [pod.client().connected()['percentage'] for pod in pods] == ['30.0'] * 2 and node.daemon(FIRST)['pid']
    label(node, 'large')
    node.wait_devices('gpu-1', 'gpu-1-shared')  # nobody new gets GPU 0
    node.cluster.api.wait_for(lambda: node.cluster.annotations().get(REASON) ==
                              f'claim default/train ({FIRST}), claim default/serve ({FIRST}) have it')
    pods[0].end()
    node.cluster.api.wait_for(lambda: node.cluster.annotations().get(REASON) == f'claim default/serve ({FIRST}) has it')
    assert node.daemon(FIRST)['state'] == 'ready'
    assert not node.cluster.api.asked('create', 'pods')
    pods[1].end()
    wait_success(node)
    wait_no_daemon(node)
    assert len(node.devices()) == 6


def test_pods_of_claims_in_the_way_are_evicted_where_the_node_says_so(node):
    start(node)
    # The second one does not fit beside the first.
    first, other = [node.run(node.claim(name, {'memory': '60Gi', 'threadPercentage': '30'})) for name in ('train', 'serve')]
    ends = threading.Thread(target=first.end)
    node.cluster.api.on_evicted = lambda namespace, name: None if ends.ident else ends.start()
    label(node, 'evict', DRAIN)
    label(node, 'large')
    wait_success(node)
    asked = node.cluster.api.asked('create', 'pods')
    assert {(one.name, one.body['deleteOptions']['preconditions']['uid']) for one in asked} == {(first.pod.name, first.pod.uid)}
    assert node.daemon(SECOND)['state'] == 'ready'
    other.end()
