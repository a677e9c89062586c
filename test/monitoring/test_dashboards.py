# SPDX-License-Identifier: Apache-2.0
"""The dashboards: up to date, sound, and each query finds something in a real Prometheus that scrapes a simulated node."""
import glob
import json
import os
import re
import subprocess

import pytest
import yaml

from mps import wait
from mps_node import H100, MpsNode, share
from node import GPU, Node, sharing
from prometheus import Prometheus
from source import FILES, SOURCE, program, query_faults, read, rules

ABOUT = yaml.safe_load(read('deploy/monitoring/dashboards.yaml'))
# What a person chooses on top of the page, one node or the other.
NODES = ['by-mps', 'by-turns']
CHOSEN = {'namespace': 'team', 'resource': '.*', 'pod': '.*'}
# Nothing brings these about here: there is no DRA, no call into NVML hangs, no change waits. Their metrics and labels are compared with the
# manual all the same.
NEVER_SEEN = {('node', 'Devices in ResourceSlices'), ('node', 'Claims in an hour'), ('node', 'Claims'), ('tenant', 'Claims'),
              ('node', 'Calls into the driver that hang'), ('node', 'Replicas that a change waits for')}


def panels(name):
    for row in ABOUT[name]['rows']:
        yield from row['panels']


PANELS = [(name, panel) for name in ABOUT for panel in panels(name)]
IDS = [f'{name}: {panel["title"]}' for name, panel in PANELS]


def queries(panel):
    return [one['query'] for one in panel.get('queries') or [panel]]


def chosen(query, node=NODES[0]):
    return re.sub(r'\$(\w+)', lambda found: {**CHOSEN, 'node': node}[found.group(1)], query)


@pytest.mark.parametrize('name', ABOUT)
def test_it_is_what_the_description_makes(name, tmp_path):
    subprocess.run([f'{SOURCE}/tools/dashboards', tmp_path], check=True, timeout=60)
    assert {os.path.basename(path) for path in glob.glob(f'{FILES}/dashboards/*')} == {f'{one}.json' for one in ABOUT}
    assert (tmp_path / f'{name}.json').read_text(encoding='utf-8') == read(f'{FILES}/dashboards/{name}.json'), 'run: make manifests'


@pytest.mark.parametrize('name', ABOUT)
def test_its_panels_have_places_and_numbers_of_their_own(name):
    dashboard = json.loads(read(f'{FILES}/dashboards/{name}.json'))
    assert dashboard['uid'] == f'warpshare-{name}' and dashboard['id'] is None
    numbers = [panel['id'] for panel in dashboard['panels']]
    assert len(set(numbers)) == len(numbers)
    taken = [(x, y) for place in (panel['gridPos'] for panel in dashboard['panels'])
             for x in range(place['x'], place['x'] + place['w']) for y in range(place['y'], place['y'] + place['h'])]
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24
    for panel in dashboard['panels']:
        assert panel['type'] == 'row' or panel['datasource']['uid'] == '${datasource}'


def without_datasources(dashboard):
    """What both forms have in common."""
    kept = {key: value for key, value in dashboard.items() if not key.startswith('__')}
    kept['templating'] = {'list': [one for one in kept['templating']['list'] if one['type'] != 'datasource']}
    return json.dumps(kept, sort_keys=True).replace('${DS_PROMETHEUS}', '${datasource}')


@pytest.mark.parametrize('name', ABOUT)
def test_the_form_for_an_import_asks_for_the_prometheus_and_is_the_same_otherwise(name, tmp_path):
    subprocess.run([f'{SOURCE}/tools/dashboards', '--export', tmp_path], check=True, timeout=60)
    text = (tmp_path / f'{name}.json').read_text(encoding='utf-8')
    made = json.loads(text)
    asked, = made['__inputs']
    # Each question of the import is used, and nothing is left that only a page with a choice of its own would know.
    assert asked['pluginId'] == 'prometheus' and asked['type'] == 'datasource'
    assert set(re.findall(r'"uid": "\$\{(\w+)\}"', text)) == {asked['name']}
    used = {panel['type'] for panel in made['panels']} - {'row'}
    assert {one['id'] for one in made['__requires']} == {'grafana', 'prometheus', *used}
    assert without_datasources(made) == without_datasources(json.loads(read(f'{FILES}/dashboards/{name}.json')))


def test_the_form_for_an_import_is_never_written_into_the_chart():
    done = subprocess.run([f'{SOURCE}/tools/dashboards', '--export'], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and '--export needs a folder' in done.stderr


@pytest.mark.parametrize('name, panel', PANELS, ids=IDS)
def test_a_panel_asks_for_metrics_and_labels_that_the_manual_has(name, panel):
    for query in queries(panel):
        assert not list(query_faults(query))
        assert set(re.findall(r'\$(\w+)', query)) <= ABOUT[name].get('variables', {}).keys()


# Three GPUs of 40 GiB: one with two MIG devices that use 5 and 1 GiB, one in MIG mode without any, and one of which 7 GiB are used. As the
# agent writes them.
MEMORY_OF_MIG = {
    ('GPU-0', '0'): (40960, 6144), ('MIG-00', '0:0'): (20096, 5120), ('MIG-01', '0:1'): (4864, 1024), ('GPU-1', '1'): (40960, 0),
    ('GPU-2', '2'): (40960, 7168)}


def test_memory_of_a_gpu_with_mig_devices_counts_once(tmp_path):
    series = [{'series': f'warpshare_unit_memory_{what}_bytes{{unit="{unit}",index="{index}",node="a",instance="b"}}',
               'values': f'{values[number] << 20}x5'}
              for number, what in enumerate(['capacity', 'used']) for (unit, index), values in MEMORY_OF_MIG.items()]
    [panel] = [panel for panel in panels('cluster') if panel['title'] == 'Memory: all, limits, used']
    wanted = {'all': 3 * 40960 << 20, 'used': (6144 + 7168) << 20}
    found = [{'expr': one['query'], 'eval_time': '1m', 'exp_samples': [{'labels': '{}', 'value': wanted[one['legend']]}]}
             for one in panel['queries'] if one['legend'] in wanted]
    assert len(found) == 2
    path = tmp_path / 'test.yaml'
    path.write_text(yaml.safe_dump({'rule_files': [], 'evaluation_interval': '1m', 'tests': [
        {'interval': '1m', 'input_series': series, 'promql_expr_test': found}]}), encoding='utf-8')
    done = subprocess.run([program('promtool'), 'test', 'rules', str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Watched:
    """A node with two GPUs in shares by MPS and a pod on each, one with a GPU in turns, whose driver says what a process does, and a Prometheus."""

    def __init__(self, folder):
        prometheus = program('prometheus')
        self.node, self.turns = MpsNode(), Node()
        self.prometheus = None
        try:
            self._start_node()
            self._start_turns()
            self.prometheus = Prometheus(prometheus, folder, {name: node.agent.port()
                                                              for name, node in zip(NODES, (self.node, self.turns))})
        except BaseException:
            self.finish()
            raise

    def _start_node(self):
        node = self.node
        node.gpus(2, model=H100)
        node.start_all(share(20, provisioning='weighted', maxPerRequest=11, guard='report'), '--metrics-address=127.0.0.1:0', '--usage-interval=1s',
                       '--system-root', node.system_root)
        node.wait_counts(30, 40)  # a quarter is reserved
        node.admit('greedy', 11, namespace='team')
        node.admit('other', 11, namespace='team')
        assert node.unit('greedy') != node.unit('other')
        self.clients = [node.client('greedy'), node.client('other')]
        for client in self.clients:
            client.connected()

    def _start_turns(self):
        node = self.turns
        root = os.path.join(node.folder, 'machine')
        folder = os.path.join(root, 'proc', '4711')
        os.makedirs(folder)
        node.scenario([self.a100()])
        node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', root)
        node.kubelet.admit('turn', GPU, 1, namespace='team')
        with open(os.path.join(folder, 'cgroup'), 'w', encoding='ascii') as file:
            file.write('0::/kubepods/burstable/pod%s/%064d\n' % (node.kubelet.pods['turn'].uid, 1))

    @staticmethod
    def a100(**more):
        return {'model': 'A100-40GB', 'energy': 1000, 'processes': [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}], **more}

    def without_data(self, panel_queries):
        return [query for query in panel_queries if not any(self.prometheus.query(chosen(query, node)) for node in NODES)]

    def wait_data(self, wanted):
        """Until each of these queries has something; what has not is named."""
        missing = list(wanted)

        def is_complete():
            missing[:] = self.without_data(missing)
            return not missing

        try:
            wait(is_complete, 'data')
        except AssertionError:
            raise AssertionError('no data for:\n' + '\n'.join(missing) + '\n' + self.node.logs()) from None

    def active(self):
        """Alerts that fire, or will if it lasts."""
        return {name for name, rule in self.prometheus.rules().items() if rule['state'] != 'inactive'}

    def wait_active(self, expected):
        """These and no others in the end; a daemon that is at fault becomes an alert at some time, too."""
        try:
            wait(lambda: self.active() - {'WarpshareMPSDaemonFault'} == expected, 'these alerts')
        except AssertionError:
            assert self.active() == expected, 'these alerts, for a long time'
            raise

    def trouble(self):
        """One pod takes twice its share, the GPU of the other is lost, a configuration is wrong; on the other node memory is defective."""
        node = self.node
        second = node.client('greedy')
        second.connected()
        assert self.clients[0].allocate(40000) == 40000 and second.allocate(35000) == 35000
        node.agent.wait_log('limit violated event=MPSLimitViolated violation=memory .*pod=team/greedy')
        position = int(node.unit('other')[4])
        node.gpus(2, model=H100, changes={position: {'lost': True}}, events=[{'gpu': position, 'xid': 79}])
        node.agent.wait_event('MPSDaemonFault', node.unit('other'))
        node.config('version: v2\n')
        node.agent.wait_problem('newest configuration is refused')
        self.turns.scenario([self.a100(remappedRows={'pending': True, 'failure': True}, ecc={'enabled': True, 'uncorrected': {'aggregate': 3}})],
                            events=[{'gpu': 0, 'xid': 64}])
        self.turns.wait_counts(0, 4)

    def finish(self):
        faults = self.prometheus.finish() if self.prometheus else []
        return faults + self.node.finish() + self.turns.finish()


@pytest.fixture
def watched(tmp_path):
    made = Watched(str(tmp_path))
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def test_every_query_has_data_and_alerts_follow_what_happens(watched):
    watched.wait_data([query for _, panel in PANELS for query in queries(panel) if 'empty' not in panel])
    for name, about in ABOUT.items():
        for variable in about.get('variables', {}).values():
            metric, label = re.fullmatch(r'label_values\((.*), (\w+)\)', chosen(variable['query'])).groups()
            assert watched.prometheus.label_values(metric, label), (name, variable)

    # All is well: each rule can be evaluated, and none has anything to say.
    wait(lambda: all(rule['health'] == 'ok' for rule in watched.prometheus.rules().values()), 'each rule is evaluated')
    assert watched.prometheus.rules().keys() == rules().keys()
    watched.wait_active(set())

    watched.trouble()
    watched.wait_data([query for name, panel in PANELS for query in queries(panel) if (name, panel['title']) not in NEVER_SEEN])
    # One fault of a daemon is no series of repairs.
    expected = {'WarpshareGPUUnhealthy', 'WarpshareLimitViolated', 'WarpshareConfigRefused', 'WarpshareXidReset', 'WarpshareECCUncorrected',
                'WarpshareRowRemapPending', 'WarpshareRowRemapFailed', 'WarpshareShareTooSmall'}
    watched.wait_active(expected)
