# SPDX-License-Identifier: Apache-2.0
"""The dashboard as a program: what it answers, to whom. The page in a browser is browser/page's."""
import json
import os
import re
import socket
import stat
import subprocess
import time

import pytest

from apiserver import PATIENCE, ApiServer
from dashboard import Dashboard
from fleet import Fleet, gpu, page, pod, share
from node import GPU, SANITIZED, sharing, v100s

API = ['overview', 'events', 'search?q=train', 'nodes/n1', 'gpus/GPU-00000000-0000-0000-0000-000000000000', 'pods/team-a/train']


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        yield server


@pytest.fixture(name='fleet')
def make_fleet(api):
    with Fleet(api) as fleet:
        fleet.add_node('n1')
        fleet.pages['n1'] = page('n1', gpu('0', [share('team-a', 'train', replicas=3), share('team-b', 'serve', replicas=4)]),
                                 events=[{'time': 1, 'kind': 'Warning', 'reason': 'Fault', 'text': 'by team-b/serve'}])
        yield fleet


@pytest.fixture(name='start')
def make_start(api):
    running = []

    def start(*options, **more):
        running.append(Dashboard(api, *options, **more))
        return running[-1]

    yield start
    for dashboard in running:
        dashboard.close()


@pytest.fixture(name='open_')
def make_open(start, fleet):  # pylint: disable=unused-argument
    """For everybody."""
    dashboard = start('--authorization', 'proxy')
    dashboard.until_complete()
    return dashboard


@pytest.fixture(name='closed')
def make_closed(api, start, fleet):  # pylint: disable=unused-argument
    """For those whom the cluster lets in."""
    dashboard = start('--authorization', 'token')
    dashboard.until_complete(api.reviews.add('admin', ('list', 'nodes'), ('list', 'pods')))
    return dashboard


# ---- who is let in ----

def test_without_a_token_there_is_the_page_and_nothing_of_the_cluster(closed):
    assert closed.ask('/').status == 200
    for path in API:
        answer = closed.ask(f'/api/v1/{path}')
        assert (answer.status, answer.json()) == (401, {'error': 'a token of the cluster is needed: kubectl create token ACCOUNT'})


@pytest.mark.parametrize('header', ['Bearer nonsense', 'bearer', 'Basic YTpi', 'Bearer a b', 'Bearer ' + 'x' * 17000])
def test_a_token_that_the_cluster_does_not_know_is_refused(closed, header):
    for path in API[:2]:
        answer = closed.ask(f'/api/v1/{path}', Authorization=header)
        assert answer.status == 401
        assert b'n1' not in answer.body


def test_a_user_who_may_not_list_nodes_is_refused_and_told_what_is_missing(closed, api):
    token = api.reviews.add('tom', ('list', 'pods', 'team-a'))
    answer = closed.ask('/api/v1/overview', token)
    assert (answer.status, answer.json()) == (403, {
        'error': 'tom may not list nodes: bind the ClusterRole for viewers of the dashboard to it'})


def test_a_user_who_may_list_pods_everywhere_sees_all(closed, api):
    token = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    answers = [closed.ask(f'/api/v1/{path}', token) for path in API]
    assert {answer.status for answer in answers} == {200}
    overview, events, search, _, gpu_, pod_ = [answer.json() for answer in answers]
    assert overview['seesAll'] is True
    assert overview['nodes'][0]['namespaces'] == ['team-a', 'team-b']
    assert [event['text'] for event in events['events']] == ['by team-b/serve']
    assert [found['pod'] for found in search['pods']] == ['train']
    assert [share_['pod'] for share_ in gpu_['gpu']['units'][0]['shares']] == ['train', 'serve']
    assert pod_['shares'][0]['node'] == 'n1'


def test_a_user_of_one_namespace_sees_whose_shares_are_there_and_how_large_the_others_are(closed, api):
    api.put('/api/v1/namespaces/team-b/pods', pod('secret-b', scheduled=('Unschedulable', 'no')))
    api.put('/api/v1/namespaces/team-a/pods', pod('later', scheduled=('Unschedulable', 'no')))
    token = api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'team-a'))
    closed.until('/api/v1/events', lambda answer: [one['name'] for one in answer['waiting']] == ['later'], token)
    answers = [closed.ask(f'/api/v1/{path}', token) for path in [*API, 'search?q=team-b', 'search?q=serve']]
    for answer in answers:
        assert answer.status == 200
        assert b'serve' not in answer.body and b'team-b' not in answer.body and b'secret-b' not in answer.body
    assert answers[0].json()['seesAll'] is False
    assert answers[0].json()['nodes'][0]['gpus'][0]['units'][0]['shares'] == [[300, 8, 25, 0], [400, 6, 25, None]]
    assert [s.get('hidden', False) for s in answers[4].json()['gpu']['units'][0]['shares']] == [False, True]
    for name in ('serve', 'secret-b', 'nobody'):
        assert closed.ask(f'/api/v1/pods/team-b/{name}', token).status == 404


def test_the_cluster_is_asked_once_a_minute_for_a_viewer(closed, api):
    token = api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'team-a'))
    before = len(api.asked('create'))
    for _ in range(5):
        assert closed.ask('/api/v1/overview', token).status == 200
    asked = api.asked('create')[before:]
    assert sorted(request.resource for request in asked) == ['subjectaccessreviews'] * 4 + ['tokenreviews']
    wishes = [request.body['spec']['resourceAttributes'] for request in asked if request.resource == 'subjectaccessreviews']
    assert sorted((wish['resource'], wish.get('namespace', '')) for wish in wishes) == [
        ('nodes', ''), ('pods', ''), ('pods', 'team-a'), ('pods', 'team-b')]


def test_a_dashboard_that_may_not_ask_for_reviews_says_so_and_lets_nobody_in(api, start, fleet):  # pylint: disable=unused-argument
    api.allow([{'apiGroups': [''], 'resources': ['nodes', 'pods', 'pods/proxy'], 'verbs': ['get', 'list', 'watch']}])
    answer = start('--authorization', 'token').ask('/api/v1/overview', api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods')))
    assert answer.status == 503
    assert 'cannot create resource "tokenreviews"' in answer.json()['error']


def test_an_api_server_that_does_not_answer_lets_nobody_in(closed, api):
    api.fault('status', verb='create', resource='tokenreviews', code=500)
    token = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    assert closed.ask('/api/v1/overview', token).status == 503
    assert closed.ask('/api/v1/overview', token).status == 200


def test_a_viewer_who_goes_while_the_cluster_is_asked_does_no_harm(closed, api):
    api.fault('hang', verb='create', resource='tokenreviews', times=3)
    for _ in range(3):
        with socket.create_connection(('127.0.0.1', closed.port)) as connection:
            connection.sendall(b'GET /api/v1/overview HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer gone\r\n\r\n')
            time.sleep(0.1)
    assert closed.ask('/api/v1/overview', api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))).status == 200


def test_nothing_in_the_log_is_a_token(closed, api):
    token = api.reviews.add('jane', ('list', 'nodes'))
    closed.ask('/api/v1/overview', token)
    closed.ask('/api/v1/overview', 'nonsense-token')
    assert token not in ''.join(closed.log) and 'nonsense-token' not in ''.join(closed.log)


def test_the_rights_that_the_chart_gives_are_enough(api, start, fleet):  # pylint: disable=unused-argument
    api.allow([{'apiGroups': [''], 'resources': ['nodes', 'pods'], 'verbs': ['list', 'watch']},
               {'apiGroups': ['authentication.k8s.io'], 'resources': ['tokenreviews'], 'verbs': ['create']},
               {'apiGroups': ['authorization.k8s.io'], 'resources': ['subjectaccessreviews'], 'verbs': ['create']},
               {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get'], 'namespace': 'warpshare'}])
    token = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    answer = start('--authorization', 'token', '--agent-namespace', 'warpshare').until_complete(token)
    assert (answer['troubles'], [node['state'] for node in answer['nodes']]) == ([], ['answers'])


# ---- for oneself ----

def test_on_a_loopback_address_who_has_the_address_needs_no_token_and_sees_all(start, fleet):  # pylint: disable=unused-argument
    dashboard = start()
    assert dashboard.until_complete()['seesAll'] is True
    assert b'<title>' in dashboard.ask(f'{dashboard.prefix}/').body and dashboard.ask(f'{dashboard.prefix}/script.js').status == 200
    for path in API:
        assert dashboard.ask(f'{dashboard.prefix}/api/v1/{path}').status == 200
    assert dashboard.ask(f'{dashboard.prefix}/healthz').body == b'ok\n'
    assert dashboard.prefix[1:] not in ''.join(dashboard.log)


def test_who_does_not_have_the_address_gets_nothing_by_the_port_alone(start, fleet, api):  # pylint: disable=unused-argument
    """As another user of the machine, to whom the port of a loopback address is open."""
    dashboard = start()
    dashboard.until_complete()
    token = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    secret = dashboard.prefix[1:]
    wrong = [secret[:-1] + ('0' if secret[-1] != '0' else '1'), secret[:-1], secret[1:], secret.upper() + 'x', '0' * 32, '', '%00' + secret[1:]]
    for path in [*(f'/{prefix}/api/v1/overview' for prefix in wrong), '/', '/script.js', '/api/v1/overview', '/healthz', '/livez', f'/x/{secret}/']:
        answer = dashboard.ask(path, token)
        assert (answer.status, answer.json()) == (404, {
            'error': "the address has a secret part: open the one that 'warpshare dashboard' has printed"}), path
    assert dashboard.ask(dashboard.prefix).json() == {'error': "the address ends with '/': open it with that"}
    assert start().prefix != dashboard.prefix


def test_a_page_of_another_site_gets_nothing_even_with_the_address(start, fleet):  # pylint: disable=unused-argument
    dashboard = start()
    dashboard.until_complete()
    overview = f'{dashboard.prefix}/api/v1/overview'
    own = f'127.0.0.1:{dashboard.port}'
    assert dashboard.ask(overview, Host='evil.example').status == 421
    for headers, status in (({'Sec_Fetch_Site': 'cross-site'}, 403), ({'Origin': 'https://evil.example'}, 403), ({'Origin': 'null'}, 403),
                            ({'Origin': 'http://127.0.0.1:1'}, 403), ({'Origin': f'http://{own}'}, 200)):
        assert dashboard.ask(overview, **headers).status == status, headers


def test_an_address_of_the_network_is_for_tokens_and_refused_to_oneself(start, api):
    done = subprocess.run([os.environ['WARPSHARE'], 'dashboard', '--kubeconfig', str(api.kubeconfig()), '--address', '0.0.0.0:0',
                           '--authorization', 'own'], stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and "'0.0.0.0:0' is not a loopback address" in done.stderr
    dashboard = start('--address', '0.0.0.0:0')
    assert dashboard.wait_log(r'authorization=(\w+)')[1] == 'token'
    assert dashboard.ask('/api/v1/overview').status == 401


def with_program(api, tmp_path):
    """A kubeconfig whose program makes the token, and counts how often it ran."""
    script = tmp_path / 'api' / 'make-token'
    script.write_text('#!/bin/sh\necho >>"%s/runs"\nprintf \'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", '
                      '"status": {"token": "%%s"}}\' "$(cat "%s/api/token")"\n' % (tmp_path, tmp_path))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return api.kubeconfig('exec', user={'exec': {'apiVersion': 'client.authentication.k8s.io/v1', 'command': './make-token',
                                                 'interactiveMode': 'Never'}})


@pytest.mark.parametrize('where', ['~/.kube/config', 'KUBECONFIG'])
def test_it_finds_the_kubeconfig_as_kubectl_does_with_a_program_that_makes_the_token(api, fleet, tmp_path, where):  # pylint: disable=unused-argument
    path = with_program(api, tmp_path)
    variables = {'KUBECONFIG': f'{tmp_path}/none:{path}', 'HOME': str(tmp_path)}
    if where != 'KUBECONFIG':
        (tmp_path / '.kube').mkdir()
        (tmp_path / '.kube' / 'config').symlink_to(path)
        for name in ('make-token', 'ca.crt'):
            (tmp_path / '.kube' / name).symlink_to(tmp_path / 'api' / name)
        variables['KUBECONFIG'] = ''
    with Dashboard(None, variables=variables) as dashboard:
        assert [node['state'] for node in dashboard.until_complete()['nodes']] == ['answers']
        time.sleep(2)  # more questions to the same agent
        assert (tmp_path / 'runs').read_text() == '\n'
        api.rotate_token()
        fleet.add_node('n2')
        fleet.pages['n2'] = page('n2', gpu('0'))
        dashboard.until('/api/v1/overview', lambda answer: [node['state'] for node in answer['nodes']] == ['answers', 'answers'])
        assert len((tmp_path / 'runs').read_text()) > 1


def test_as_a_plugin_of_kubectl_it_is_the_same_with_kubectls_flags(api, fleet, tmp_path):  # pylint: disable=unused-argument
    (tmp_path / 'kubectl-warpshare').symlink_to(os.environ['WARPSHARE'])
    with Dashboard(api, '--as', 'jane', '--context', 'test', program=tmp_path / 'kubectl-warpshare') as dashboard:
        dashboard.until_complete()
    assert api.asked('list', 'nodes')[-1].headers['Impersonate-User'] == 'jane'


# ---- what every answer has ----

def test_answers_may_not_be_framed_stored_or_mixed_with_what_others_serve(open_):
    for path in ['/', '/script.js', '/nothing', '/api/v1/overview', '/api/v1/nothing']:
        headers = open_.ask(path).headers
        assert headers['content-security-policy'] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
        assert headers['x-content-type-options'] == 'nosniff'
        assert headers['x-frame-options'] == 'DENY'
        assert headers['referrer-policy'] == 'no-referrer'
        assert headers['cross-origin-resource-policy'] == 'same-origin'
        assert headers['cache-control'] == ('no-cache' if path in ('/', '/script.js') else 'no-store')
        assert 'set-cookie' not in headers and 'access-control-allow-origin' not in headers and 'server' not in headers


@pytest.mark.parametrize('method', ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])
def test_nothing_but_get_and_head_is_taken(open_, method):
    for path in ('/', '/api/v1/overview'):
        assert open_.ask(path, method=method).status == 405
    head = open_.ask('/api/v1/overview', method='HEAD')
    assert (head.status, head.body) == (200, b'')


@pytest.mark.parametrize('site, status', [('cross-site', 403), ('same-site', 403), ('anything', 403), ('same-origin', 200), ('none', 200)])
def test_the_page_of_another_site_is_refused(open_, site, status):
    assert open_.ask('/api/v1/overview', Sec_Fetch_Site=site).status == status


@pytest.mark.parametrize('host', ['evil.example', 'evil.example:8080', 'localhost.evil.example', 'gpus.example.com'])
def test_a_name_that_is_not_known_as_the_dashboards_is_refused(open_, host):
    """Its owner may let it point here, so that the page of that site may read this one (DNS rebinding)."""
    for path in ('/', '/script.js', '/api/v1/overview', '/nothing'):
        answer = open_.ask(path, Host=host)
        assert (answer.status, answer.json()) == (421, {
            'error': f"'{host}' is no known name of this dashboard: --allowed-hosts, in the chart dashboard.allowedHosts, makes it one"})
    assert open_.ask('/healthz', Host=host).status == 200 and open_.ask('/livez', Host=host).status == 200


@pytest.mark.parametrize('host', ['localhost:8080', '127.0.0.1', '[::1]:8080', '10.0.0.7:6443', 'GPUs.example.com', 'api.example.com:6443'])
def test_addresses_localhost_and_names_of_the_list_are_known(start, fleet, host):  # pylint: disable=unused-argument
    """kubectl port-forward says localhost, an ingress its own name, and the API server's proxy passes on what the API server is called."""
    dashboard = start('--authorization', 'proxy', '--allowed-hosts', 'gpus.example.com,api.example.com')
    for path in ('/', '/api/v1/overview'):
        assert dashboard.ask(path, Host=host).status == 200


def test_a_list_with_something_else_than_names_is_refused(api):
    done = subprocess.run([os.environ['WARPSHARE'], 'dashboard', '--kubeconfig', str(api.kubeconfig()), '--allowed-hosts', 'https://x'],
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "--allowed-hosts: 'https://x' is no name of a host, without scheme and port, as gpus.example.com" in done.stderr


def test_files_that_the_browser_has_are_not_sent_again(open_):
    first = open_.ask('/script.js')
    again = open_.ask('/script.js', If_None_Match=first.headers['etag'])
    assert (again.status, again.body) == (304, b'')
    assert open_.ask('/script.js', If_None_Match='"x"').body == first.body


@pytest.mark.parametrize('path', ['/..%2fetc/passwd', '//script.js', '/script.js/', '/api/v1', '/api/v1/', '/api/v1/nodes/', '/api/v1/pods/a',
                                  '/api/v1/pods/', '/api/v1/gpus/%00', '/api/v1/nodes/..', '/api/v2/overview', '/metrics', '/%ff'])
def test_paths_that_lead_nowhere_are_not_found(open_, path):
    answer = open_.ask(path)
    assert answer.status == 404
    assert set(answer.json()) == {'error'}


# ---- what it shows ----

def test_what_changes_is_sent_and_nothing_else(open_, fleet):
    fleet.add_node('n2')
    fleet.pages['n2'] = page('n2', gpu('0'))
    first = open_.until('/api/v1/overview', lambda answer: [(node['name'], node['state']) for node in answer['nodes']] == [
        ('n1', 'answers'), ('n2', 'answers')])
    time.sleep(1.5)  # a round of questions in which nothing changes
    second = open_.ask(f'/api/v1/overview?since={first["version"]}').json()
    assert (second['full'], second['nodes'], second['gone']) == (False, [], [])
    fleet.pages['n2'] = page('n2', gpu('0', [share('team-a', 'new')]))
    third = open_.until(f'/api/v1/overview?since={first["version"]}', lambda answer: answer['nodes'])
    assert [node['name'] for node in third['nodes']] == ['n2']


def test_an_agent_that_falls_silent_keeps_its_last_page_and_says_why(open_, fleet):
    fleet.pages['n1'] = (500, 'broken')
    node = open_.until('/api/v1/overview', lambda answer: answer['nodes'][0]['state'] == 'silent')['nodes'][0]
    assert '500' in node['reason']
    assert node['pageTime'] > time.time() - PATIENCE - 60
    assert len(node['gpus'][0]['units'][0]['shares']) == 2


def test_a_pod_that_waits_has_the_sentence_of_why_by_the_rights_of_the_chart(api, start, fleet):  # pylint: disable=unused-argument
    """For which the pod itself is read: its tolerations and its selector are not in the list of those that wait."""
    api.allow([{'apiGroups': [''], 'resources': ['nodes', 'pods'], 'verbs': ['list', 'watch']},
               {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get'], 'namespace': 'warpshare'}])
    fleet.add_node('n1', capacity={'nvidia.com/gpu.shared': '10'}, labels={'zone': 'a'})
    for name, zone in (('later', 'a'), ('elsewhere', 'b')):
        one = pod(name, count=4, scheduled=('Unschedulable', 'no'))
        one['spec']['nodeSelector'] = {'zone': zone}
        api.put('/api/v1/namespaces/team-c/pods', one)
    dashboard = start('--authorization', 'proxy')
    dashboard.until('/api/v1/events', lambda answer: len(answer['waiting']) == 2)
    dashboard.until('/api/v1/nodes/n1', lambda answer: answer.get('resources'))
    assert dashboard.ask('/api/v1/pods/team-c/later').json()['why'] == {
        'sentence': 'team-c/later waits: it asks for 4 nvidia.com/gpu.shared; 1 node has it: on 1 too few replicas are free',
        'todo': 'wait until a pod ends, or end one of those that have them',
        'nodes': [{'names': 'n1', 'reason': '3 of 10 are free; taken by team-b/serve (4) and team-a/train (3)'}]}
    assert dashboard.ask('/api/v1/pods/team-c/elsewhere').json()['why']['sentence'].endswith('1 is not selected by it')
    api.fault('hang', verb='list', resource='pods')
    answer = dashboard.ask('/api/v1/pods/team-c/later')
    assert answer.status == 200 and 'why' not in answer.json()


def test_pods_and_namespaces_are_of_those_that_the_viewer_may_know(closed, api):
    token = api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'team-a'))
    answer = closed.ask('/api/v1/pods', token)
    assert [(one['name'], one['pods']) for one in answer.json()['namespaces']] == [('team-a', 1)]
    assert [one['pod'] for one in answer.json()['pods']] == ['train'] and b'team-b' not in answer.body
    assert closed.ask('/api/v1/pods?namespace=team-b', token).json()['pods'] == []
    everything = closed.ask('/api/v1/pods?namespace=team-b', api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))).json()
    assert [one['pod'] for one in everything['pods']] == ['serve'] and len(everything['namespaces']) == 2


def test_the_last_hour_is_asked_for_when_somebody_looks_at_it(open_, fleet):
    fleet.pages['n1'] = page('n1', gpu('0', [share('team-a', 'train', history=[0.1, 0.2])]))
    open_.until('/api/v1/nodes/n1', lambda answer: len(answer['gpus'][0]['units'][0]['shares']) == 1)
    assert '/node?history=1' not in fleet.asked
    assert open_.ask(f'/api/v1/{API[4]}').json()['gpu']['units'][0]['shares'][0]['history'] == [0.1, 0.2]
    assert open_.ask(f'/api/v1/{API[5]}').json()['shares'][0]['share']['history'] == [0.1, 0.2]
    assert fleet.asked.count('/node?history=1') == 2
    fleet.pages['n1'] = lambda query: (500, 'broken') if query else page('n1', gpu('0', [share('team-a', 'train')]))
    answer = open_.ask(f'/api/v1/{API[4]}')
    assert (answer.status, answer.json()['gpu']['units'][0]['shares'][0].get('history')) == (200, None)
    fleet.pages['n1'] = lambda query: page('other' if query else 'n1', gpu('0', [share('team-a', 'stranger' if query else 'train')]))
    assert b'stranger' not in open_.ask(f'/api/v1/{API[4]}').body


def test_who_may_not_know_a_share_does_not_see_its_last_hour(closed, api, fleet):
    fleet.pages['n1'] = page('n1', gpu('0', [share('team-a', 'train', history=[0.1]), share('team-b', 'serve', history=[0.12345])]))
    answer = closed.ask(f'/api/v1/{API[4]}', api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'team-a')))
    assert b'0.12345' not in answer.body and b'serve' not in answer.body
    assert [one.get('history') for one in answer.json()['gpu']['units'][0]['shares']] == [[0.1], None]


def test_a_denied_list_is_said_on_the_page_in_the_log_and_by_the_probe(api, start):
    api.allow([{'apiGroups': [''], 'resources': ['pods', 'pods/proxy'], 'verbs': ['get', 'list', 'watch']}])
    dashboard = start('--authorization', 'proxy')
    answer = dashboard.until('/api/v1/overview', lambda answer: answer['troubles'])
    assert any('nodes is forbidden' in trouble for trouble in answer['troubles'])
    dashboard.wait_log('the cluster is not known as a whole')
    assert dashboard.ask('/healthz').status == 503
    assert dashboard.ask('/livez').status == 200


def test_a_probe_of_a_dashboard_that_is_well_is_answered(open_):
    assert (open_.ask('/healthz').status, open_.ask('/healthz').body) == (200, b'ok\n')


def test_many_connections_that_say_nothing_keep_nobody_out(open_):
    silent = [socket.create_connection(('127.0.0.1', open_.port)) for _ in range(60)]
    try:
        assert open_.ask('/api/v1/overview').status == 200
    finally:
        for connection in silent:
            connection.close()


def test_what_others_say_reaches_a_page_as_it_looks(api, start, fleet):
    """Of a pod that waits, a GPU, a share, an event and an agent that does not answer."""
    hostile = 'a\x1b[2J\u202eb\u200b\ufeff\u2066\U000e0041\x9bz'
    fleet.pages['n1'] = page('n1', gpu('0', [share('team-a', hostile)], model=hostile), events=[
        {'time': 1, 'kind': 'Warning', 'reason': 'Fault', 'text': hostile}])
    fleet.add_node('n2')
    fleet.pages['n2'] = (500, hostile)
    api.put('/api/v1/namespaces/team-a/pods', pod('waits', scheduled=('Unschedulable', hostile)))
    dashboard = start('--authorization', 'proxy')
    dashboard.until('/api/v1/overview', lambda answer: {node['state'] for node in answer['nodes']} == {'answers', 'silent'})
    dashboard.until('/api/v1/events', lambda answer: answer['waiting'])
    for path in ('overview', 'events', 'search?q=a', 'nodes/n1', API[4], 'pods/team-a/waits'):
        text = json.dumps(dashboard.ask(f'/api/v1/{path}').json(), ensure_ascii=False)
        assert 'a?[2J?b?????z' in text, path
        assert not set(hostile) - set('a?[2Jbz') & set(text), path


# ---- large objects, and many of them ----

def bombs(api):
    """What one tenant may make: pods that fill an answer, one that is more than an answer, and more pods than are kept."""
    mallory = '/api/v1/namespaces/mallory/pods'
    for number in range(220):
        api.put(mallory, pod(f'w{number:03}', scheduled=('Unschedulable', 'no')))
    for number in range(17):
        one = pod(f'a{number:02}', scheduled=('Unschedulable', 'no'))
        one['metadata']['annotations'] = {'a': 'x' * 250000}
        api.put(mallory, one)
    one = pod('bomb', scheduled=('Unschedulable', 'no'))
    one['spec']['containers'][0]['args'] = [''] * 200001
    api.put(mallory, one)


def test_pods_of_one_namespace_hide_nobody_elses(api, start, fleet):  # pylint: disable=unused-argument
    bombs(api)
    api.put('/api/v1/namespaces/team-a/pods', pod('train', scheduled=('Unschedulable', '0/1 nodes are available')))
    dashboard = start('--authorization', 'proxy')
    overview = dashboard.until('/api/v1/overview', lambda answer: answer['waiting'] == 238)
    assert overview['troubles'] == ['list /api/v1/pods: left out, for more than 4194304 bytes or 200000 values: mallory/bomb']
    assert dashboard.ask('/healthz').status == 200
    dashboard.wait_log('the cluster is not known as a whole.*mallory/bomb')
    events = dashboard.ask('/api/v1/events').json()
    assert events['leftOut'] == {'mallory': 37}
    assert [one['name'] for one in events['waiting'] if one['namespace'] == 'team-a'] == ['train']
    assert {len(one.get('message', '')) for one in events['waiting']} == {len('no'), len('0/1 nodes are available')}


def test_pods_that_cost_much_memory_for_their_bytes_cost_little(api, start):
    """Two bytes are a value, and each value costs memory while it is read."""
    for number in range(8):
        for key, value in ('args', ['']), ('ports', [{}]):
            one = pod(f'{key}{number}', scheduled=('Unschedulable', 'no'))
            one['spec']['containers'][0][key] = value * 99000
            api.put('/api/v1/namespaces/mallory/pods', one)
    dashboard = start('--authorization', 'proxy')
    dashboard.until('/api/v1/overview', lambda answer: answer['waiting'] == 16)
    with open(f'/proc/{dashboard.process.pid}/status', encoding='ascii') as file:
        peak = int(re.search(r'VmHWM:\s+(\d+) kB', file.read())[1])
    assert peak < (64 << 10) or SANITIZED


def test_who_sees_one_namespace_hears_nothing_of_what_is_too_large_or_left_out_in_another(api, start, fleet):  # pylint: disable=unused-argument
    bombs(api)
    api.put('/api/v1/namespaces/team-a/pods', pod('train', scheduled=('Unschedulable', 'no')))
    dashboard = start('--authorization', 'token')
    token = api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'team-a'))
    dashboard.until_complete(token)
    for path in ('overview', 'events'):
        answer = dashboard.ask(f'/api/v1/{path}', token)
        assert answer.status == 200 and b'mallory' not in answer.body
    assert answer.json()['leftOut'] == {} and len(answer.json()['waiting']) == 1


# ---- the other side is the real one ----

def test_a_real_agent_shows_its_shares_and_a_gpu_that_is_lost(api, start, node):
    machine = os.path.join(node.folder, 'machine')
    os.makedirs(os.path.join(machine, 'proc/4711'))
    kubelet = node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', machine)
    node.wait_counts(16)
    port = node.agent.port()
    kubelet.admit('train', GPU, 1)
    with open(os.path.join(machine, 'proc/4711/cgroup'), 'w', encoding='ascii') as file:
        file.write(f'0::/kubepods/burstable/pod{kubelet.pods["train"].uid}/{1:064}\n')
    gpus = v100s()
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    with Fleet(api) as fleet:
        fleet.add_node('n1', agent=False)
        fleet.put_agent('n1', 'agent-n1', port)
        dashboard = start('--authorization', 'proxy')
        dashboard.until('/api/v1/search?q=default/train', lambda answer: answer['pods'])
        shares = dashboard.until('/api/v1/pods/default/train', lambda answer: any(
            row['share'].get('memoryUsed') == 3 << 30 for row in answer['shares']))['shares']
        assert {(row['node'], row['unit']['sharing'], row['unit']['replicas']) for row in shares} == {('n1', 'time-slicing', 4)}
        gpus[3]['lost'] = True
        node.scenario(gpus, events=[{'gpu': 3, 'xid': 79}])
        unhealthy = dashboard.until('/api/v1/overview', lambda answer: [
            unit['unhealthy'] for gpu_ in answer['nodes'][0]['gpus'] for unit in gpu_['units'] if 'unhealthy' in unit])
        reasons = [unit['unhealthy'] for gpu_ in unhealthy['nodes'][0]['gpus'] for unit in gpu_['units'] if 'unhealthy' in unit]
        assert len(reasons) == 1 and '79' in reasons[0]


# ---- the command ----

def run(*options):
    done = subprocess.run([os.environ['WARPSHARE'], 'dashboard', *options], capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={k: v for k, v in os.environ.items() if not k.startswith('KUBE')})
    return done.returncode, done.stderr


def test_wrong_options_are_named_with_what_is_right(api):
    assert run('--interval', '0') == (2, "warpshare dashboard: interval: '0' is not a number of seconds from 1 to 3600\n")
    status, text = run('--authorization', 'none')
    assert status == 2 and 'token' in text and 'proxy' in text
    status, text = run('--address', 'localhost:80', '--kubeconfig', str(api.kubeconfig()))
    assert status == 1 and "'localhost:80' is no IP address with a port" in text


def test_where_the_port_is_taken_it_says_how_to_get_another(api):
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        address = '127.0.0.1:%d' % other.getsockname()[1]
        status, text = run('--address', address, '--kubeconfig', str(api.kubeconfig()))
    assert (status, text.splitlines()[-1]) == (1, f"warpshare dashboard: listen at '{address}': Address already in use; "
                                                  "--address 127.0.0.1:0 takes a port that is free")


def test_without_an_api_server_it_says_how_to_name_one():
    status, text = run()
    assert status == 1 and '--kubeconfig' in text
