"""GPUs by DRA whose MIG geometry follows the node's label: claims are waited for, the MPS daemon ends, and the ResourceSlices follow."""
import yaml

from cluster import NAME, NODES, cluster  # noqa: F401 -- a fixture
from dra import DRIVER, node  # noqa: F401 -- a fixture
from test_dra import FIRST, prepare_machine, start_agent, wait_no_daemon
from test_mig_manager import LABEL, REASON, STATE


def share_geometry(node):
    """Between the programs of this node."""
    with open(node.scenario_path, encoding='utf-8') as file:
        scenario = yaml.safe_load(file)
    node._write(node.scenario_path, yaml.safe_dump({**scenario, 'geometryFile': node.folder + '/geometry'}, sort_keys=False))


def test_a_share_by_mps_is_waited_for_and_then_mig_devices_are_offered_instead(node):
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
    pods = [node.run(node.claim(name, {'memory': '10Gi', 'threadPercentage': '30'})) for name in ('train', 'serve')]
    assert [pod.client().connected()['percentage'] for pod in pods] == ['30.0'] * 2 and node.daemon(FIRST)['pid']
    node.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {LABEL: 'large'}}})
    node.wait_devices('gpu-1', 'gpu-1-shared')  # nobody new gets GPU 0
    node.cluster.api.wait_for(lambda: node.cluster.annotations().get(REASON) ==
                              f'claim default/train ({FIRST}), claim default/serve ({FIRST}) have it')
    pods[0].end()
    node.cluster.api.wait_for(lambda: node.cluster.annotations().get(REASON) == f'claim default/serve ({FIRST}) has it')
    assert node.daemon(FIRST)['state'] == 'ready'
    pods[1].end()
    node.cluster.api.wait_for(lambda: (node.cluster.node()['metadata'].get('labels') or {}).get(STATE) == 'success')
    wait_no_daemon(node)
    node.cluster.api.wait_for(lambda: len(node.devices()) == 6 and sum('gpu-0-mig-3g-40gb' in name for name in node.devices()) == 4)
