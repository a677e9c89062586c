# SPDX-License-Identifier: Apache-2.0
"""What is known of a cluster (src/cluster), as a program: nodes, agents through the API server's proxy, pods that wait."""
import json
import os
import queue
import socket
import subprocess
import threading
import time

import pytest

from apiserver import PATIENCE, ApiServer
from fleet import AGENTS, NODES, Fleet, gpu, page, pod, share

PODS = '/api/v1/namespaces/team-a/pods'


class Driver:
    """cluster_driver.c. The views are kept in order."""

    def __init__(self, api, **options):
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        self.process = subprocess.Popen([os.environ['WARPSHARE_CLUSTER_DRIVER'], api.kubeconfig(), json.dumps(options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.views, self.all = queue.Queue(), []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.views.put(json.loads(line))

    def until(self, condition, patience=PATIENCE):
        """The first view, from now on, of which the condition is true."""
        deadline = time.monotonic() + patience
        while True:
            view = self.views.get(timeout=max(0.1, deadline - time.monotonic()))
            self.all.append(view)
            if condition(view):
                return view

    def node(self, name, **wanted):
        """As soon as the node is like that."""
        found = self.until(lambda view: any(n['name'] == name and all(n[k] == v for k, v in wanted.items()) for n in view['nodes']))
        return next(n for n in found['nodes'] if n['name'] == name)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self.thread.join()


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        yield server


@pytest.fixture(name='fleet')
def make_fleet(api):
    with Fleet(api) as fleet:
        yield fleet


@pytest.fixture(name='drive')
def make_drive(api):
    drivers = []

    def start(**options):
        drivers.append(Driver(api, **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def complete(view):
    return view['complete']


def states(view):
    return {n['name']: n['state'] for n in view['nodes']}


def test_one_look_asks_each_agent_once(fleet, drive):
    for name in ('n2', 'n1', 'n3'):
        fleet.add_node(name)
        fleet.pages[name] = page(name, gpu('0', [share('team-a', 'train')]), gpu('1'))
    fleet.add_node('cpu', agent=False)
    view = drive().until(complete)
    assert [n['name'] for n in view['nodes']] == ['cpu', 'n1', 'n2', 'n3']
    assert states(view) == {'cpu': 'none', 'n1': 'answers', 'n2': 'answers', 'n3': 'answers'}
    assert {(n['page'] or {}).get('shares') for n in view['nodes']} == {None, 1}
    time.sleep(0.3)
    assert fleet.asked == ['/node'] * 3
    assert view['nodes_trouble'] is view['agents_trouble'] is view['pods_trouble'] is None


def test_many_nodes_are_asked_at_the_same_time_and_not_too_many(fleet, drive):
    """And the answers of a page of pods each: lists have several pages."""
    for number in range(130):
        fleet.add_node(f'n{number:03}')
        fleet.pages[f'n{number:03}'] = page(f'n{number:03}', gpu('0'))
    fleet.delay, fleet.crowd = 0.2, 9
    view = drive().until(complete)
    assert set(states(view).values()) == {'answers'} and len(view['nodes']) == 130
    assert 9 <= fleet.peak <= 32


def test_agents_are_asked_again_and_what_they_say_is_new(fleet, drive):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0'))
    driver = drive(interval_ms=100)
    first = driver.until(complete)
    fleet.pages['n1'] = page('n1', gpu('0', [share('team-a', 'train')]))
    later = driver.until(lambda view: view['nodes'][0]['page']['shares'] == 1)
    assert later['version'] > first['version'] and later['nodes'][0]['version'] > first['nodes'][0]['version']


def test_a_pod_that_looks_like_an_agent_in_another_namespace_is_not_believed(fleet, drive):
    """Labels are free: whoever may make pods could say what the admin sees of a node."""
    for name in ('n1', 'n2'):
        fleet.add_node(name)
        fleet.pages[name] = page(name, gpu('0'))
    driver = drive(interval_ms=200)
    driver.until(lambda view: complete(view) and set(states(view).values()) == {'answers'})
    fleet.put_agent('n1', 'impostor', 1, collection=PODS)
    view = driver.until(lambda view: set(states(view).values()) == {'silent'})
    why = "pods in the namespaces 'team-a' and 'warpshare' have the labels of agents: name the agents' namespace (--agent-namespace)"
    assert view['agents_trouble'] == why
    assert [(n['reason'], n['page']) for n in view['nodes']] == [(why, None)] * 2
    assert set(states(drive(agent_namespace='warpshare').until(complete)).values()) == {'answers'}
    fleet.api.delete(PODS, 'impostor')
    view = driver.until(lambda view: set(states(view).values()) == {'answers'})
    assert view['agents_trouble'] is None


TOO_LONG = b'{"version": 1, "node": "n1", "x": "' + b'x' * (5 << 20) + b'"}'


@pytest.mark.parametrize('answer, state, reason', [
    ((404, '404 page not found\n'), 'too-old', 'it serves no page /node (404): its version is too old'),
    ((401, 'no'), 'silent', 'it asks for a token (401), and the API server passes none on: --metrics-authorization'),
    ((403, 'no'), 'silent', 'its page is for clients on the node itself (403): metrics.nodePage: open in the chart, or --metrics-node-page=open, opens it'),
    ((500, 'broken \033[2J'), 'silent', 'it answers with status 500: broken ?[2J'),
    ('{"version": 1', 'silent', None), ('[]', 'silent', None), (b'\xff\x00', 'silent', None),
    ({'version': 1, 'node': 'n1', 'time': 'now'}, 'silent', None),
    (TOO_LONG, 'silent', None),
], ids=['no-such-page', 'refused', 'for-local-clients', 'broken', 'cut', 'no-object', 'no-text', 'no-number', 'too-long'])
def test_an_agent_that_answers_badly_is_named_with_the_reason_and_the_others_are_there(fleet, drive, answer, state, reason):
    for name in ('n1', 'n2'):
        fleet.add_node(name)
        fleet.pages[name] = page(name, gpu('0'))
    fleet.pages['n1'] = answer
    view = drive().until(complete)
    bad, good = view['nodes']
    assert (bad['state'], good['state']) == (state, 'answers')
    assert bad['reason'] == reason if reason else bad['reason']
    assert abs(bad['since'] - time.time()) < 60


def test_an_agent_that_falls_silent_keeps_its_last_page_and_comes_back(fleet, drive):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0'))
    driver = drive(interval_ms=100)
    driver.node('n1', state='answers')
    fleet.pages['n1'] = (503, 'later')
    bad = driver.node('n1', state='silent')
    assert bad['page']['gpus'] == 1
    fleet.pages['n1'] = page('n1', gpu('0'), gpu('1'))
    assert driver.node('n1', state='answers')['page']['gpus'] == 2


def test_a_pod_that_cannot_be_reached_is_what_the_api_server_says(fleet, drive):
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        port = nobody.getsockname()[1]
        fleet.add_node('n1', agent=False)
        fleet.put_agent('n1', 'agent-n1', port)
        node = drive().until(complete)['nodes'][0]
    assert node['state'] == 'silent'
    assert 'status 503 ServiceUnavailable: error trying to reach service: dial tcp 127.0.0.1:' in node['reason']


def test_an_agent_that_hangs_has_a_deadline(fleet, drive):
    for name in ('n1', 'n2'):
        fleet.add_node(name)
        fleet.pages[name] = page(name, gpu('0'))
    fleet.delay = 30
    view = drive(deadline_ms=300).until(complete)
    assert states(view) == {'n1': 'silent', 'n2': 'silent'}
    assert 'timed out' in view['nodes'][0]['reason'].lower()


def test_an_agent_that_does_not_run_is_not_asked(fleet, drive):
    fleet.add_node('n1')
    fleet.add_agent('n1', phase='Pending', ready=False, state={'waiting': {'reason': 'ImagePullBackOff'}})
    view = drive().until(complete)
    assert view['nodes'][0]['state'] == 'silent' and view['nodes'][0]['reason'] == 'its container waits: ImagePullBackOff'
    assert fleet.asked == []


def test_while_one_agent_replaces_another_the_one_that_is_ready_is_asked(api, fleet, drive):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0'))
    driver = drive(interval_ms=100)
    driver.node('n1', state='answers', agent='agent-n1')
    fleet.add_agent('n1', name='agent-new', ready=False)
    fleet.add_agent('n1', name='agent-new', ready=True)
    api.delete(AGENTS, 'agent-n1')
    driver.node('n1', state='answers', agent='agent-new')
    assert all(n['page'] for view in driver.all for n in view['nodes'] if n['agent'] == 'agent-new')
    api.delete(AGENTS, 'agent-new')
    gone = driver.node('n1', state='none')
    assert gone['page'] is None and gone['has_object']
    api.delete(NODES, 'n1')
    driver.until(lambda view: view['nodes'] == [])


def test_pods_that_wait_or_were_refused_are_known_until_they_run(api, fleet, drive):
    fleet.add_node('n1', agent=False)
    api.put(PODS, pod('waits', scheduled=('Unschedulable', '0/1 nodes are available')))
    api.put(PODS, pod('refused', phase='Failed', reason='UnexpectedAdmissionError', message='Allocate failed'))
    api.put(PODS, pod('failed', phase='Failed'))
    api.put(PODS, pod('runs', phase='Running'))
    api.put(PODS, pod('other', count=0))
    driver = drive()
    assert driver.until(complete)['pods'] == ['team-a/refused', 'team-a/waits']
    api.patch(PODS, 'waits', {'status': {'phase': 'Running'}}, subresource='status')
    driver.until(lambda view: view['pods'] == ['team-a/refused'])
    api.delete(PODS, 'refused')
    driver.until(lambda view: view['pods'] == [])


# ---- large objects, and many of them ----

def waiting(name, **metadata):
    one = pod(name, scheduled=('Unschedulable', '0/1 nodes are available'))
    one['metadata'].update(metadata)
    return one


def test_annotations_as_large_as_kubernetes_takes_them_hide_no_pod(api, drive):
    """256 KiB for each of them, so that a few fill what an answer may have."""
    for number in range(20):
        api.put('/api/v1/namespaces/mallory/pods', waiting(f'bomb-{number:02}', annotations={'a': 'x' * 250000}))
    api.put(PODS, waiting('train'))
    view = drive().until(complete)
    assert view['pods_trouble'] is None and view['too_large'] == []
    assert view['pods'] == [f'mallory/bomb-{number:02}' for number in range(20)] + ['team-a/train']


def test_nodes_as_large_as_they_are_with_node_feature_discovery_are_all_there(api, fleet, drive):
    """Fifty images, 250 labels and who manages them: 48 KB each."""
    features = [f'feature.node.kubernetes.io/cpu-cpuid.{number}' for number in range(250)]
    for number in range(100):
        api.put(NODES, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {
            'name': f'n{number:03}', 'labels': {feature: 'true' for feature in features},
            'annotations': {'nfd.node.kubernetes.io/feature-labels': ','.join(features)}}, 'status': {'images': [
                {'names': [f'registry.example.com/image-{image}@sha256:{image:064}', f'registry.example.com/image-{image}:v1'], 'sizeBytes': 1}
                for image in range(50)]}})
    assert len(json.dumps(api.all(NODES))) > 4 << 20
    view = drive().until(complete)
    assert view['nodes_trouble'] is None and len(view['nodes']) == 100


@pytest.mark.parametrize('env', [{'name': 'A', 'value': '\x01' * (800 << 10)}, {'args': [''] * 200001}], ids=['as-json', 'many-values'])
def test_a_pod_that_is_too_large_alone_is_named_and_hides_no_other(api, drive, env):
    """etcd bounds what the server keeps, not what that is as JSON, nor what it takes in memory."""
    bomb = waiting('bomb')
    bomb['spec']['containers'][0].update({'args': env['args']} if 'args' in env else {'env': [env]})
    api.put('/api/v1/namespaces/mallory/pods', bomb)
    api.put(PODS, waiting('train'))
    driver = drive()
    view = driver.until(lambda view: complete(view) and view['too_large'])
    assert (view['pods'], view['pods_trouble']) == (['team-a/train'], None)
    assert view['too_large'] == ['list /api/v1/pods: left out, for more than 4194304 bytes or 200000 values: mallory/bomb']
    api.delete('/api/v1/namespaces/mallory/pods', 'bomb')
    driver.until(lambda view: not view['too_large'])


def test_of_one_namespace_so_many_pods_are_kept_and_the_others_are_counted_and_come_in_when_there_is_room(api, drive):
    many = '/api/v1/namespaces/many/pods'
    for number in range(203):
        api.put(many, waiting(f'w{number:03}'))
    api.put(PODS, waiting('train'))
    driver = drive()
    view = driver.until(complete)
    assert view['pods'] == [f'many/w{number:03}' for number in range(200)] + ['team-a/train']
    assert view['more'] == {'many': 3}
    api.patch(many, 'w007', {'status': {'phase': 'Running'}}, subresource='status')
    view = driver.until(lambda view: view['more'] == {'many': 2})
    assert 'many/w200' in view['pods'] and 'many/w007' not in view['pods'] and len(view['pods']) == 201
    api.delete(many, 'w202')
    view = driver.until(lambda view: view['more'] == {'many': 1})
    assert len(view['pods']) == 201
    for number in range(100):
        api.delete(many, f'w{number:03}') if number != 7 else None
    view = driver.until(lambda view: view['more'] == {} and len(view['pods']) == 103)
    assert 'many/w201' in view['pods']


def test_all_pods_are_kept_where_those_of_one_namespace_are_wanted(api, drive):
    for number in range(203):
        api.put(PODS, waiting(f'w{number:03}'))
    view = drive(pod_namespace='team-a').until(complete)
    assert (len(view['pods']), view['more']) == (203, {})


RULES = [{'apiGroups': [''], 'resources': ['nodes', 'pods'], 'verbs': ['list', 'watch']},
         {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get']}]


@pytest.mark.parametrize('resource, trouble, names', [
    ('nodes', 'nodes_trouble', ['n1']), ('pods', 'agents_trouble', ['n1', 'n2']), ('pods/proxy', None, ['n1', 'n2'])])
def test_what_is_denied_is_named_and_the_rest_is_there(api, fleet, drive, resource, trouble, names):
    fleet.add_node('n1')
    fleet.add_node('n2', agent=False)
    fleet.pages['n1'] = page('n1', gpu('0'))
    api.allow([{**rule, 'resources': [r for r in rule['resources'] if r != resource]} for rule in RULES])
    view = drive().until(complete)
    assert [n['name'] for n in view['nodes']] == names
    if trouble:
        assert 'status 403 Forbidden' in view[trouble]
    else:
        assert 'status 403 Forbidden' in view['nodes'][0]['reason']


def test_list_and_watch_of_nodes_and_pods_and_their_proxy_are_enough(api, fleet, drive):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0'))
    api.allow(RULES)
    view = drive().until(complete)
    assert states(view) == {'n1': 'answers'}
    assert view['nodes_trouble'] is view['agents_trouble'] is view['pods_trouble'] is None


def test_an_api_server_that_goes_away_leaves_what_was_known(api, fleet, drive):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0'))
    driver = drive(interval_ms=100)
    driver.until(complete)
    api.fault('status', verb='*', resource='nodes', code=500, times=10**9)
    api.order_watches('drop')
    view = driver.until(lambda view: view['nodes_trouble'])
    assert [n['name'] for n in view['nodes']] == ['n1']
    api.faults.clear()
    driver.until(lambda view: not view['nodes_trouble'])


def test_only_one_node_where_one_is_wanted(fleet, drive):
    for name in ('n1', 'n2'):
        fleet.add_node(name)
        fleet.pages[name] = page(name, gpu('0'))
    assert states(drive(node='n2').until(complete)) == {'n2': 'answers'}
    assert len(fleet.asked) == 1
