# SPDX-License-Identifier: Apache-2.0
"""Another version takes over from the one before, and back, while pods run.

The files that earlier builds left are in test/fixtures/state. They are put in the place of what this build has written, with its values,
so each is as an earlier build would have written it here. A program of an earlier version, if WARPSHARE_BEFORE names one, is run itself.
"""
import json
import os

import pytest

import node as node_module
from cluster import cluster  # noqa: F401 -- a fixture
from dra import DRIVER, DraNode
from mps_node import MpsNode, share, uuid_of
from node import GPU, WARPSHARE, sharing
from test_dra import start as start_dra, start_agent as start_dra_agent

STATE = os.path.join(os.environ['WARPSHARE_SOURCE'], 'test/fixtures/state')
BEFORE = os.environ.get('WARPSHARE_BEFORE')
FIRST = uuid_of(0)
CONFIG = share(20, provisioning='weighted')


@pytest.fixture(name='node')
def mps_node():
    made = MpsNode()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@pytest.fixture(name='dra_node')
def node_with_claims(cluster):  # noqa: F811
    made = DraNode(cluster)
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def recordings(name):
    """The builds that have left such a file."""
    return sorted(build for build in os.listdir(STATE) if os.path.exists(os.path.join(STATE, build, name)))


def as_before(before, now, where='the file'):
    """What |now| says, in the fields of |before|. It has to have each of them, of the same type: else an earlier version could not read it."""
    if isinstance(before, dict):
        missing = before.keys() - now.keys()
        assert not missing, f'{where} has no {", ".join(sorted(missing))} any more, which earlier versions read'
        return {key: as_before(value, now[key], f'{where}.{key}') for key, value in before.items()}
    if isinstance(before, list):
        assert isinstance(now, list), where
        return [as_before(before[0], one, f'{where}[]') for one in now] if before else now
    assert isinstance(now, type(before)), f'{where}: {now} is no {type(before).__name__}, which earlier versions read'
    return now


def leave_as(build, name, path):
    """Puts the file of that build in the place of this one's."""
    with open(os.path.join(STATE, build, name), encoding='utf-8') as file:
        before = json.load(file)
    with open(path, encoding='utf-8') as file:
        made = as_before(before, json.load(file))
    os.unlink(path)
    with open(os.path.join(os.path.dirname(path), name), 'w', encoding='utf-8') as file:
        json.dump(made, file)
    os.chmod(file.name, 0o600)


def ledger(node):
    """What the ledger says: devices and time of each allocation, by its id. Empty while there is none."""
    path = os.path.join(node.mps_root, 'allocations-nvidia.com_gpu.json')
    if not os.path.exists(path):
        return {}
    with open(path, encoding='utf-8') as file:
        return {one['id']: (len(one['devices']), one['since']) for one in json.load(file)['grants']}


def run_pods(node, config=CONFIG):
    """Two pods, and a program of the first."""
    node.gpus(1)
    node.start_all(config)
    node.wait_counts(20)
    node.kubelet.admit('large', GPU, 7)
    node.kubelet.admit('small', GPU, 2)
    client = node.client('large')
    client.connected()
    return client


def check_pods(node, client):
    """The program lives, and both pods have what they had."""
    assert client.is_alive() and client.allocate(100) == 100
    assert [node.client(pod).connected()['percentage'] for pod in ('large', 'small')] == ['35.0', '10.0']


# ---- files of earlier builds ----

@pytest.mark.parametrize('build', recordings('allocations-nvidia.com_gpu.json'))
def test_the_ledger_of_an_earlier_build_is_continued(node, build):
    client = run_pods(node)
    assert node.agent.stop() == 0
    path = os.path.join(node.mps_root, 'allocations-nvidia.com_gpu.json')
    with open(path, encoding='utf-8') as file:
        written = json.load(file)
    for one in written['grants']:
        one['since'] = 1700000000 + len(one['devices'])
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(written, file)
    before = ledger(node)
    assert sorted(before.values()) == [(2, 1700000002), (7, 1700000007)]
    leave_as(build, os.path.basename(path), path)
    leave_as(build, 'terms.json', os.path.join(node.mps_root, 'terms.json'))

    node.start()
    node.wait_counts(20)
    node.kubelet.admit('last', GPU, 11)
    check_pods(node, client)
    node.wait(lambda: len(ledger(node)) == 3 and before.items() <= ledger(node).items(), 'what was recorded stays on record')


@pytest.mark.parametrize('build', recordings('state.json'))
def test_what_an_earlier_supervisor_left_is_continued(node, build):
    """Its daemon, and the compute mode that it will put back, which only the record knows."""
    client = run_pods(node)
    pid = node.daemon(FIRST)['pid']
    node.supervisor.kill()
    state = os.path.join(node.mps_root, 'state.json')
    leave_as(build, 'state.json', state)
    node.gpus(1, changes={0: {'computeMode': 'exclusive-process'}})
    node.start_mps()
    found = node.daemon(FIRST)
    assert found['pid'] == pid and found['adopted']
    node.wait_counts(20)
    check_pods(node, client)
    with open(state, encoding='utf-8') as file:
        assert json.load(file)['computeModes'] == [{'uuid': FIRST, 'before': 0}]


@pytest.mark.parametrize('build', recordings('configuration.json'))
def test_the_last_good_configuration_of_an_earlier_build_is_in_force(node, cluster, build):  # noqa: F811
    """With an API server that does not answer."""
    map_of = '/api/v1/namespaces/default/configmaps'
    cluster.api.put(map_of, {'metadata': {'name': 'configs'}, 'data': {'default': json.dumps(sharing('timeSlicing', 3))}})
    node.gpus(1)
    arguments = ('--config-map', 'default/configs', '--config-default', 'default', *cluster.options())
    node.kubelet.start()
    agent = node.start(*arguments)
    node.wait_counts(3)
    record = os.path.join(node.mps_root, 'configuration.json')
    node.wait(lambda: os.path.exists(record), 'it is recorded')
    assert agent.stop() == 0
    leave_as(build, 'configuration.json', record)
    cluster.api.fault('status', code=503, times=1000000)
    node.start(*arguments)
    node.wait_counts(3)


@pytest.mark.parametrize('build', recordings('prepared.json'))
def test_claims_that_an_earlier_driver_prepared_stay_and_can_be_released(dra_node, build):
    node = dra_node
    start_dra(node)
    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    client = pod.client()
    assert client.connected()['percentage'] == '30.0'
    assert node.agent.stop() == 0
    leave_as(build, 'prepared.json', os.path.join(node.dra.plugins, DRIVER, 'prepared.json'))
    start_dra_agent(node)
    node.dra.wait_driver(DRIVER)
    known, = node.prepare(pod.pod, claim)  # kubelet asks again for a pod whose container restarts
    assert known.cdi_ids() == pod.cdi_ids
    assert client.allocate(9000) == 9000
    pod.end()
    node.watch().wait_status(lambda status: not status['daemons'], 'no daemon is left')
    assert not [device for device in node.cdi_devices() if device.startswith(DRIVER)]


# ---- a program of an earlier version ----

def is_runnable(program):
    return bool(program) and os.access(program, os.X_OK)


@pytest.mark.skipif(not is_runnable(BEFORE), reason='needs a program of an earlier version, by WARPSHARE_BEFORE')
def test_pods_run_on_through_an_upgrade_and_back(node, monkeypatch):
    """First the agent, then the supervisor, which is killed: one that is stopped ends its clients, whatever version follows."""

    def use(program):
        monkeypatch.setattr(node_module, 'WARPSHARE', program)

    use(BEFORE)
    client = run_pods(node)
    pid = node.daemon(FIRST)['pid']
    for program in (WARPSHARE, BEFORE):
        use(program)
        assert node.agent.stop() == 0
        node.start()
        node.wait_counts(20)
        check_pods(node, client)
        node.supervisor.kill()
        node.start_mps()
        found = node.daemon(FIRST)
        assert found['pid'] == pid and found['adopted'], program
        node.wait_counts(20)
        node.kubelet.admit('new-%d' % (program == WARPSHARE), GPU, 1)
        check_pods(node, client)
