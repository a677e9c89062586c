# SPDX-License-Identifier: Apache-2.0
"""The API client against a server that does everything that servers, load balancers and proxies do to clients."""
import base64
import json
import os
import queue
import re
import resource
import shutil
import socket
import subprocess
import threading
import time

import pytest

from apiserver import PATIENCE, ApiServer

NODES = '/api/v1/nodes'
MAPS = '/api/v1/namespaces/default/configmaps'


def node(name, **labels):
    return {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': labels}, 'spec': {}, 'status': {'phase': 'x'}}


class Driver:
    """The client as a process (kube_driver.c). Events of each id are kept in order."""

    def __init__(self, kubeconfig, env=None):
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        self.process = subprocess.Popen([os.environ['WARPSHARE_KUBE_DRIVER'], kubeconfig], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**environment, **(env or {})})
        self.queues = {}
        self.lock = threading.Condition()
        self.next_id = 1
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            self.queue(event.get('id', 0)).put(event)

    def queue(self, id_):
        with self.lock:
            return self.queues.setdefault(id_, queue.Queue())

    def do(self, what, **arguments):
        id_, self.next_id = self.next_id, self.next_id + 1
        self.process.stdin.write(json.dumps({'do': what, 'id': id_, **arguments}) + '\n')
        self.process.stdin.flush()
        return id_

    def cancel(self, id_):
        self.process.stdin.write(json.dumps({'do': 'cancel', 'id': id_}) + '\n')
        self.process.stdin.flush()
        return self.until(id_, 'cancelled')

    def next(self, id_):
        return self.queue(id_).get(timeout=PATIENCE)

    def until(self, id_, *kinds):
        """All events up to the first of these kinds, which is the last of them."""
        events = []
        while not events or events[-1]['event'] not in kinds:
            events.append(self.next(id_))
        return events

    def send(self, method, path, timeout_ms=50000, **arguments):
        return self.next(self.do('send', method=method, path=path, timeout_ms=timeout_ms, **arguments))

    def edit(self, path, timeout_ms=50000, **arguments):
        return self.next(self.do('edit', path=path, timeout_ms=timeout_ms, **arguments))

    def close(self):
        """Its loop ends by itself, and nothing is left open."""
        self.process.stdin.close()
        status = self.process.wait(timeout=PATIENCE)
        self.thread.join()
        rest = [e for q in self.queues.values() for e in list(q.queue)]
        assert status == 0
        return rest


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        yield server


@pytest.fixture(name='drive')
def make_drive(api):
    drivers = []

    def start(kubeconfig=None, **kwargs):
        drivers.append(Driver(kubeconfig or api.kubeconfig(), **kwargs))
        return drivers[-1]

    yield start
    for driver in drivers:
        if driver.process.poll() is None:
            driver.close()


@pytest.fixture(name='driver')
def make_driver(drive):
    return drive()


# ---- libcurl ----

def test_a_library_that_cannot_be_loaded_now_may_be_later(api, driver):
    """For want of descriptors, or of memory. What was asked meanwhile is answered with the reason."""
    api.put(NODES, node('a'))
    driver.cancel(0)  # it has begun
    pid = driver.process.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, most))  # below all that are open
    for _ in range(2):
        answer = driver.send('GET', NODES + '/a')
        assert 'Too many open files' in answer['error'], answer
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    assert driver.send('GET', NODES + '/a')['status'] == 200


# ---- requests ----

def test_an_object_is_created_read_replaced_patched_and_deleted(api, driver):
    made = driver.send('CREATE', NODES, body=node('n1', a='1'), manager='warpshare')
    assert (made['status'], 'error' in made) == (201, False)
    again = driver.send('CREATE', NODES, body=node('n1'))
    assert (again['status'], again['reason'], again['kind']) == (409, 'AlreadyExists', 'unavailable')
    assert again['error'] == f'POST {NODES}: status 409 AlreadyExists: nodes "n1" already exists'
    read = driver.send('GET', f'{NODES}/n1')
    assert read['object']['metadata']['labels'] == {'a': '1'}
    read['object']['metadata']['labels']['b'] = '2'
    assert driver.send('REPLACE', f'{NODES}/n1', body=read['object'])['status'] == 200
    stale = driver.send('REPLACE', f'{NODES}/n1', body=read['object'] | {'spec': {'unschedulable': True}})
    assert (stale['status'], stale['reason']) == (409, 'Conflict')
    patch = {'metadata': {'labels': {'a': None, 'c': '3'}}}
    assert driver.send('MERGE_PATCH', f'{NODES}/n1', body=patch, manager='warpshare')['status'] == 200
    assert api.get(NODES, 'n1')['metadata']['labels'] == {'b': '2', 'c': '3'}
    assert driver.send('DELETE', f'{NODES}/n1')['status'] == 200
    gone = driver.send('GET', f'{NODES}/n1')
    assert (gone['status'], gone['kind']) == (404, 'not found')
    assert gone['error'] == f'GET {NODES}/n1: status 404 NotFound: nodes "n1" not found'
    assert {r.headers['User-Agent'].split('/')[0] for r in api.asked()} == {'warpshare'}


def test_server_side_apply_owns_what_it_says_and_no_more(api, driver):
    api.put(NODES, node('n1', theirs='1'))

    def apply(labels, manager='warpshare', **arguments):
        body = {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'labels': labels}}
        return driver.send('APPLY', f'{NODES}/n1', body=body, manager=manager, **arguments)

    assert apply({'ours': '1', 'more': '1'})['status'] == 200
    refused = apply({'theirs': '2'})
    assert (refused['status'], refused['reason']) == (409, 'Conflict')
    assert 'conflict with "test": .metadata.labels.theirs' in refused['error']
    assert api.get(NODES, 'n1')['metadata']['labels'] == {'theirs': '1', 'ours': '1', 'more': '1'}
    assert apply({'ours': '2', 'theirs': '2'}, force=True)['status'] == 200
    assert api.get(NODES, 'n1')['metadata']['labels'] == {'theirs': '2', 'ours': '2'}


def test_an_edit_that_loses_a_race_is_done_again(api, driver):
    api.put(NODES, node('n1'))
    for replace in (False, True):
        races = api.fault('status', verb='update' if replace else 'patch', code=409, times=3)
        done = driver.edit(f'{NODES}/n1', labels={'k': f'{replace}'}, replace=replace, manager='warpshare')
        assert (done['status'], 'error' in done, races.times) == (200, False, 0)
        assert api.get(NODES, 'n1')['metadata']['labels'] == {'k': f'{replace}'}
        sent = [r.body for r in api.asked('update' if replace else 'patch')]
        assert all(body['metadata']['resourceVersion'] for body in sent)
    assert 'spec' not in api.asked('patch')[0].body, 'a patch has what changed and no more'


def test_an_edit_gives_up_after_eight_conflicts_and_says_so(api, driver):
    api.put(NODES, node('n1'))
    api.fault('status', verb='patch', code=409, times=100)
    done = driver.edit(f'{NODES}/n1', labels={'k': 'v'})
    assert (done['status'], len(api.asked('patch')), len(api.asked('get'))) == (409, 8, 8)


def test_an_edit_that_changes_nothing_sends_nothing(api, driver):
    api.put(NODES, node('n1', k='v'))
    for arguments in ({'labels': {'k': 'v'}}, {'labels': {'k': 'other'}, 'refrain': True}):
        done = driver.edit(f'{NODES}/n1', **arguments)
        assert (done['status'], done['object']['metadata']['labels']) == (200, {'k': 'v'})
    assert {r.verb for r in api.asked()} == {'get'}
    assert driver.edit(f'{NODES}/none', labels={})['status'] == 404


def test_a_list_of_many_pages_is_read_completely(api, driver):
    for i in range(250):
        api.put(MAPS, {'metadata': {'name': f'm{i:03}', 'labels': {'odd': str(i % 2)}}})
    job = driver.do('list', path=MAPS)
    *objects, end = driver.until(job, 'done')
    assert [e['object']['metadata']['name'] for e in objects] == [f'm{i:03}' for i in range(250)]
    assert ('error' in end, end['version']) == (False, str(api.store.version))
    assert [r.query.get('limit') for r in api.asked('list')] == ['100'] * 3
    job = driver.do('list', path=MAPS, label='odd=1')
    assert len(driver.until(job, 'done')) == 126


def large(name, kib, **more):
    return {'metadata': {'name': name}, 'data': {'text': 'x' * (kib << 10), **more}}


def names_of(events):
    return [e['object']['metadata']['name'] for e in events]


def test_a_page_that_is_too_large_is_halved_until_it_fits(api, driver):
    for i in range(60):
        api.put(MAPS, large(f'm{i:03}', 150))
    *objects, end = driver.until(driver.do('list', path=MAPS), 'done')
    assert (names_of(objects), 'error' in end) == ([f'm{i:03}' for i in range(60)], False)
    assert [r.query['limit'] for r in api.asked('list')] == ['100', '50', '25', '25', '25']
    assert all(e['object']['data']['text'] for e in objects)


def test_pages_grow_again_behind_the_large_objects(api, driver):
    for i in range(20):
        api.put(MAPS, large(f'a{i:03}', 800))
    for i in range(300):
        api.put(MAPS, large(f'b{i:03}', 0))
    *objects, end = driver.until(driver.do('list', path=MAPS), 'done')
    assert (len(set(names_of(objects))), len(objects), 'error' in end) == (320, 320, False)
    assert len(api.asked('list')) < 30
    assert '100' in [r.query['limit'] for r in api.asked('list')][-3:]


@pytest.mark.parametrize('at, kib, more', [('a', 5000, {}), ('m5', 5000, {}), ('z', 5000, {}), ('m5', 0, {'list': [''] * 200001})],
                         ids=['first', 'within', 'last', 'many-values'])
def test_one_object_that_is_too_large_fails_the_list_by_its_name_or_is_left_out(api, driver, at, kib, more):
    for i in range(20):
        api.put(MAPS, large(f'm{i}', 1))
    api.put(MAPS, large(f'{at}-huge', kib, **more))
    *_, end = driver.until(driver.do('list', path=MAPS), 'done')
    assert (end['kind'], end['error']) == (
        'invalid', f"list {MAPS}: the object 'default/{at}-huge' alone has more than 4194304 bytes or 200000 values")
    *objects, end = driver.until(driver.do('list', path=MAPS, leave=True), 'done')
    assert 'error' not in end
    assert names_of(e for e in objects if e['event'] == 'left out') == [f'{at}-huge']
    assert sorted(names_of(e for e in objects if e['event'] == 'present')) == sorted(f'm{i}' for i in range(20))


def test_metadata_alone_is_asked_for_where_nothing_else_is_read(api, driver):
    for i in range(3):
        api.put(MAPS, large(f'm{i}', 3000))
    *objects, _ = driver.until(driver.do('list', path=MAPS, metadata=True), 'done')
    assert [(e['object']['metadata']['name'], 'data' in e['object']) for e in objects] == [(f'm{i}', False) for i in range(3)]
    watch = driver.do('watch', path=MAPS, metadata=True)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.put(MAPS, large('later', 3000))
    event = driver.next(watch)
    assert (event['object']['metadata']['name'], 'data' in event['object']) == ('later', False)
    assert len(api.asked('list')) == 2


# ---- being told to wait ----

@pytest.mark.parametrize('code', [429, 503])
def test_a_server_that_says_later_is_left_alone_that_long(api, driver, code):
    api.put(NODES, node('n1'))
    api.fault('status', code=code, retry_after=1)
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    first, second = api.asked('get')
    assert second.at - first.at >= 1.0


def test_those_that_are_told_later_at_once_do_not_come_back_at_once(api, driver):
    """Priority and fairness says the same to everybody."""
    api.put(NODES, node('n1'))
    api.fault('status', code=429, retry_after=4, times=20)
    jobs = [driver.do('send', method='GET', path=f'{NODES}/n1', timeout_ms=50000) for _ in range(20)]
    assert [driver.next(job)['status'] for job in jobs] == [200] * 20
    again = [one.at for one in api.asked('get') if one.status == 200]
    assert max(again) - min(again) >= 0.5


def test_later_than_the_deadline_is_an_answer(api, driver):
    api.fault('status', code=429, retry_after=30, times=2)
    answer = driver.send('GET', f'{NODES}/n1', timeout_ms=20000)
    assert (answer['status'], answer['retry_after_ms'], len(api.asked())) == (429, 30000, 1)


# ---- credentials ----

def test_a_token_is_read_for_each_request(api, driver):
    api.put(NODES, node('n1'))
    for _ in range(3):
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200
        api.rotate_token()
    assert len({r.headers['Authorization'] for r in api.asked()}) == 3


def test_a_token_that_is_replaced_on_the_way_is_no_failure(api, driver):
    """The server knows the new one only, when the request with the old one arrives."""
    api.put(NODES, node('n1'))
    api.fault('rotate', verb='get')
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert [r.status for r in api.asked('get')] == [401, 200]
    api.fault('rotate', verb='watch')
    watch = driver.do('watch', path=NODES)
    assert [e['event'] for e in driver.until(watch, 'synced')] == ['present', 'synced']
    api.wait_for(lambda: api.watches)
    assert [r.status for r in api.asked('watch')] == [401, 200]
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watch)['event'] == 'present'


def test_an_unknown_token_is_a_denial(api, drive):
    driver = drive(api.kubeconfig(user={'token': 'stranger'}))
    answer = driver.send('GET', f'{NODES}/n1')
    assert (answer['status'], answer['kind'], len(api.asked())) == (401, 'denied', 1)


def test_a_token_file_that_is_gone_fails_the_request_and_not_the_client(api, driver):
    api.put(NODES, node('n1'))
    api.token_file.rename(api.folder / 'elsewhere')
    answer = driver.send('GET', f'{NODES}/n1')
    assert (answer['status'], answer['kind']) == (0, 'not found')
    (api.folder / 'elsewhere').rename(api.token_file)
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200


def b64(api, name):
    return base64.b64encode((api.folder / name).read_bytes()).decode()


def test_a_client_certificate_is_a_user(api, drive):
    api.put(NODES, node('n1'))
    by_file = drive(api.kubeconfig('a', user={'client-certificate': 'client.crt', 'client-key': 'client.key'}))
    by_data = drive(api.kubeconfig('b', user={'client-certificate-data': b64(api, 'client.crt'),
                                              'client-key-data': b64(api, 'client.key')},
                                   certificate_authority=None, certificate_authority_data=b64(api, 'ca.crt')))
    for driver in (by_file, by_data):
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert {r.user for r in api.asked()} == {'system:node:client'}


FILES = {'client-certificate': 'client.crt', 'client-key': 'client.key'}


def test_a_client_certificate_that_rotates_is_shown_on_a_new_connection(api, drive):
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(user=FILES))
    watch = driver.do('watch', path=NODES)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    for _ in range(2):
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200
        api.rotate_certificate()
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert len({r.port for r in api.asked('get')}) == 3
    # What stands is not asked again who it is.
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watch)['event'] == 'present'
    assert len(api.asked('watch')) == 1


def test_a_client_certificate_that_is_replaced_on_the_way_is_no_failure(api, drive):
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(user=FILES))
    api.fault('rotate', verb='get')
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert [r.status for r in api.asked('get')] == [401, 200]
    api.fault('rotate', verb='watch')
    watch = driver.do('watch', path=NODES)
    assert [e['event'] for e in driver.until(watch, 'synced')] == ['present', 'synced']
    api.wait_for(lambda: api.watches)
    assert [r.status for r in api.asked('watch')] == [401, 200]


def test_a_connection_that_answered_401_is_not_used_again(api, drive):
    """Another one may lead to another server, or be somebody else by its certificate."""
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(user={'client-certificate-data': b64(api, 'client.crt'), 'client-key-data': b64(api, 'client.key')}))
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    api.fault('status', code=401)
    assert driver.send('GET', f'{NODES}/n1')['status'] == 401
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    ports = [r.port for r in api.asked('get')]
    assert (ports[0] == ports[1], ports[1] == ports[2]) == (True, False)


def test_a_client_certificate_that_is_gone_fails_the_request_and_not_the_client(api, drive):
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(user=FILES))
    (api.folder / 'client.crt').rename(api.folder / 'elsewhere')
    answer = driver.send('GET', f'{NODES}/n1')
    assert (answer['status'], answer['kind']) == (0, 'not found')
    assert answer['error'].startswith(f"GET {NODES}/n1: client certificate: open '{api.folder}/client.crt'")
    (api.folder / 'elsewhere').rename(api.folder / 'client.crt')
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200


def test_an_authority_that_is_replaced_in_the_file_counts_for_the_next_connection(api, drive):
    """libcurl would keep what it has read for a day."""
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig())
    for count in range(1, 4):
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200
        assert len({r.port for r in api.asked('get')}) == count
        api.rotate_authority()
        api.cut()


def test_a_server_whose_certificate_names_no_host_is_not_believed(tmp_path, drive):
    """Its common name counts for nothing: Go, and so every other client of the cluster, has not read it since 2020."""
    with ApiServer(tmp_path / 'nameless', certificate='nameless') as server:
        answer = drive(server.kubeconfig()).send('GET', f'{NODES}/n1')
        assert (answer['status'], answer['kind'], server.asked()) == (0, 'unavailable', [])
        assert 'subject alternative name' in answer['error']


def test_a_server_with_the_wrong_identity_gets_no_token(api, drive):
    for cluster in ({'certificate_authority': 'stranger.crt'}, {'tls_server_name': 'other.cluster.test'}):
        answer = drive(api.kubeconfig(**cluster)).send('GET', f'{NODES}/n1')
        assert (answer['status'], answer['kind']) == (0, 'unavailable')
        assert 'certificate' in answer['error'] or 'SSL' in answer['error']
    assert not api.asked()


def test_the_name_in_the_certificate_can_be_said(api, drive):
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(tls_server_name='api.cluster.test'))
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert api.asked()[0].headers['Host'] == f'127.0.0.1:{api.port}'


def test_only_an_explicit_option_trusts_every_certificate(api, drive):
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(certificate_authority=None, insecure_skip_tls_verify=True))
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert drive(api.kubeconfig(certificate_authority=None)).send('GET', f'{NODES}/n1')['status'] == 0


# ---- proxies ----

class Proxy:
    """CONNECT to whatever name, which leads to |port| here."""

    def __init__(self, port):
        self.port, self.asked = port, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.tunnel, args=(client,), daemon=True).start()

    def tunnel(self, client):
        head = b''
        while b'\r\n\r\n' not in head:
            head += client.recv(4096)
        self.asked.append(head.split(b'\r\n')[0].decode())
        server = socket.create_connection(('127.0.0.1', self.port))
        client.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
        threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
        self.pump(server, client)

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_a_proxy_is_used_as_kubeconfig_and_environment_say(api, drive):
    api.put(NODES, node('n1'))
    proxy = Proxy(api.port)
    named = f'https://api.cluster.test:{api.port}'
    config = api.kubeconfig(server=named)
    by_environment = drive(config, env={'HTTPS_PROXY': proxy.url})
    assert by_environment.send('GET', f'{NODES}/n1')['status'] == 200
    assert proxy.asked == [f'CONNECT api.cluster.test:{api.port} HTTP/1.1']
    excepted = drive(config, env={'HTTPS_PROXY': proxy.url, 'NO_PROXY': '.cluster.test'})
    assert excepted.send('GET', f'{NODES}/n1')['status'] == 0
    by_file = drive(api.kubeconfig('b', server=named, proxy_url=proxy.url), env={'NO_PROXY': '*'})
    assert by_file.send('GET', f'{NODES}/n1')['status'] == 200
    assert len(proxy.asked) == 2
    loopback = drive(api.kubeconfig('c'), env={'HTTPS_PROXY': proxy.url})
    assert loopback.send('GET', f'{NODES}/n1')['status'] == 200
    assert len(proxy.asked) == 2
    proxy.listener.close()


# ---- what goes wrong ----

def test_a_connection_is_not_inherited_by_children(api, driver):
    api.put(NODES, node('n1'))
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    table = subprocess.run(['ss', '-Htnp', 'dport', '=', f':{api.port}'], capture_output=True, text=True, check=True).stdout
    descriptors = re.findall(rf'pid={driver.process.pid},fd=(\d+)', table)
    assert descriptors, table
    for fd in descriptors:
        with open(f'/proc/{driver.process.pid}/fdinfo/{fd}', encoding='ascii') as info:
            assert int(re.search(r'flags:\s*(\d+)', info.read()).group(1), 8) & os.O_CLOEXEC


@pytest.mark.parametrize('fault, kind', [({'action': 'drop'}, 'unavailable'), ({'action': 'drop', 'after': 200}, 'unavailable'),
                                         ({'action': 'rubbish'}, 'invalid'), ({'action': 'endless'}, 'invalid'),
                                         ({'action': 'status', 'code': 500}, 'unavailable')])
def test_a_bad_answer_fails_one_request_and_the_next_succeeds(api, driver, fault, kind):
    api.put(NODES, node('n1'))
    for _ in range(2):  # on a new connection, and on one that was used; libcurl tries the latter once more by itself
        api.fault(**fault, times=2 if fault['action'] == 'drop' and not fault.get('after') else 1)
        assert driver.send('GET', f'{NODES}/n1')['kind'] == kind
        api.faults.clear()
        assert driver.send('GET', f'{NODES}/n1')['status'] == 200


def test_a_server_that_does_not_answer_is_a_timeout(api, driver):
    api.fault('hang')
    answer = driver.send('GET', f'{NODES}/n1', timeout_ms=500)
    assert (answer['status'], answer['kind']) == (0, 'timeout')


def test_what_is_cancelled_or_closed_never_calls_back(api, driver):
    api.fault('hang', times=4)
    jobs = [driver.do('send', method='GET', path=f'{NODES}/n{i}') for i in range(3)]
    jobs.append(driver.do('list', path=NODES))
    api.wait_for(lambda: len(api.requests) == 4)
    for job in jobs[:2]:
        assert [e['event'] for e in driver.cancel(job)] == ['cancelled']
    watch = driver.do('watch', path=MAPS)
    driver.until(watch, 'synced')
    assert [e['event'] for e in driver.close()] == ['closed']


def test_a_server_that_is_not_there_is_unavailable(api, drive):
    with socket.create_server(('127.0.0.1', 0)) as closed:
        port = closed.getsockname()[1]
    answer = drive(api.kubeconfig(server=f'https://127.0.0.1:{port}')).send('GET', f'{NODES}/n1')
    assert (answer['status'], answer['kind']) == (0, 'unavailable')


# ---- watches ----

QUICK = {'wait_ms': 20}


def names(events, kind='present'):
    return [e['object']['metadata']['name'] for e in events if e['event'] == kind]


def test_a_watch_reports_what_is_there_and_what_changes(api, driver):
    api.put(NODES, node('n1'))
    api.put(NODES, node('n2'))
    watch = driver.do('watch', path=NODES)
    assert names(driver.until(watch, 'synced')) == ['n1', 'n2']
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watch)['object']['metadata']['labels'] == {'a': '1'}
    api.delete(NODES, 'n2')
    assert names([driver.next(watch)], 'gone') == ['n2']


def test_a_watch_of_one_object_reports_no_other(api, driver):
    api.put(NODES, node('n1'))
    api.put(NODES, node('n2'))
    watch = driver.do('watch', path=NODES, field='metadata.name=n1')
    assert names(driver.until(watch, 'synced')) == ['n1']
    api.patch(NODES, 'n2', {'metadata': {'labels': {'a': '1'}}})
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert names([driver.next(watch)]) == ['n1']


@pytest.mark.parametrize('order', ['end', 'drop'])
def test_a_watch_that_ends_goes_on_where_it_was(api, driver, order):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    for i in range(3):
        api.wait_for(lambda: api.watches)
        with api.store.lock:  # what happens while nobody watches
            api.order_watches(order)
            api.patch(NODES, 'n1', {'metadata': {'labels': {'i': str(i)}}})
        assert driver.until(watch, 'present')[-1]['object']['metadata']['labels'] == {'i': str(i)}
    assert len(api.asked('list')) == 1


@pytest.mark.parametrize('order', ['end', 'drop'])
def test_a_watch_that_stands_again_after_it_was_cut_says_so(api, driver, order):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.order_watches(order)
    assert driver.next(watch)['event'] == 'resumed'


def test_a_watch_whose_time_is_over_was_not_cut(api, driver):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, seconds=1, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: len([r for r in api.requests if r.verb == 'watch']) >= 2)
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watch)['event'] == 'present'


def test_a_half_open_watch_is_dropped_after_its_time(api, driver):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, seconds=1, margin_ms=200, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    with api.store.lock:
        assert api.order_watches('freeze') == 1
        api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watch)['object']['metadata']['labels'] == {'a': '1'}
    assert len(api.asked('list')) == 1


def test_bookmarks_keep_a_quiet_watch_young(api, driver):
    api.bookmark_interval = 0.05
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.put(MAPS, {'metadata': {'name': 'm'}})
    api.compact()
    newest = api.store.version
    api.wait_for(lambda: api.watches and api.watches[0]['bookmark'] >= newest)
    api.order_watches('end')
    again = api.wait_for(lambda: [r for r in api.requests if r.verb == 'watch'][1:])
    assert int(again[0].query['resourceVersion']) >= newest
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert [e['event'] for e in driver.until(watch, 'present')] == ['resumed', 'present']
    assert len(api.asked('list')) == 1


def test_a_version_that_is_too_old_lists_again_and_reports_the_difference(api, driver):
    for name in ('n1', 'n2', 'n3'):
        api.put(NODES, node(name))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    with api.store.lock:
        api.order_watches('drop')
        api.delete(NODES, 'n2')
        api.patch(NODES, 'n3', {'metadata': {'labels': {'a': '1'}}})
        api.compact()
    events = driver.until(watch, 'synced')
    assert (names(events), names(events, 'gone')) == (['n3'], ['n2'])
    assert 'trouble' not in [e['event'] for e in events]


def test_410_as_an_answer_is_understood_as_well(api, driver):
    api.put(NODES, node('n1'))
    api.fault('gone', verb='watch')
    watch = driver.do('watch', path=NODES, **QUICK)
    assert [e['event'] for e in driver.until(watch, 'synced')] == ['present', 'synced']
    assert [e['event'] for e in driver.until(watch, 'synced')] == ['synced']
    assert len(api.asked('list')) == 2


@pytest.mark.parametrize('raw', [b'{"type":"MODIFIED","object":[]}\n', b'}}}}\n', b'\x00' * 100 + b'\n', b' ' * (5 << 20)],
                         ids=['no-object', 'no-json', 'zeroes', 'too-long'])
def test_rubbish_in_a_watch_is_trouble_and_a_new_list(api, driver, raw):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.order_watches(raw=raw)
    trouble, synced = driver.until(watch, 'synced')
    assert (trouble['event'], trouble['kind'], synced['event']) == ('trouble', 'invalid', 'synced')
    assert len(api.asked('list')) == 2


@pytest.mark.parametrize('objects', [[('a' * 600, '7')], [('n2', '7' * 300)], [('n2', '7'), ('n3', '8')]],
                         ids=['long-name', 'long-version', 'too-many'])
def test_events_cannot_fill_the_memory(api, driver, objects):
    """A server that heeds no selector, or makes objects up, is not remembered without end."""
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, objects=2, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.order_watches(raw=b''.join(
        json.dumps({'type': 'ADDED', 'object': {'metadata': {'name': name, 'resourceVersion': version}}}).encode() + b'\n'
        for name, version in objects))
    trouble = driver.until(watch, 'trouble')[-1]
    assert trouble['kind'] == 'invalid'
    assert 'longer than' in trouble['error'] or 'more than 2 objects' in trouble['error']
    assert driver.until(watch, 'synced')[-1]['event'] == 'synced'
    assert len(api.asked('list')) == 2


def test_an_endless_line_is_cut_off(api, driver):
    api.put(NODES, node('n1'))
    api.fault('endless', verb='watch')
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    trouble = driver.next(watch)
    assert (trouble['event'], trouble['kind']) == ('trouble', 'invalid')
    assert driver.next(watch)['event'] == 'synced'


def test_an_object_that_grows_too_large_stays_as_it_was_and_is_named_until_it_is_small_again(api, driver):
    api.put(MAPS, large('small', 1))
    api.put(MAPS, large('grows', 1))
    watch = driver.do('watch', path=MAPS, leave=True, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.put(MAPS, large('grows', 5000))
    api.put(MAPS, large('new', 5000))
    events = driver.until(watch, 'left out')
    while 'more' not in events[-1]['error']:  # the one may have been listed before the other was there
        events += driver.until(watch, 'left out')
    assert events[-1]['error'] == (
        f'list {MAPS}: left out, for more than 4194304 bytes or 200000 values: default/grows and 1 more')
    assert not [e for e in events if e['event'] in ('gone', 'present')]
    api.wait_for(lambda: api.watches)
    api.put(MAPS, large('small', 2))
    assert names_of(driver.until(watch, 'present')[-1:]) == ['small']
    api.delete(MAPS, 'new')
    api.put(MAPS, large('grows', 2))
    events = driver.until(watch, 'present')
    assert names_of(events[-1:]) == ['grows']
    assert 'gone' not in [e['event'] for e in events]


@pytest.mark.parametrize('verb', ['list', 'watch'])
def test_trouble_is_reported_once_and_so_is_its_end(api, driver, verb):
    api.put(NODES, node('n1'))
    fault = api.fault('status', verb=verb, code=500, times=1000)
    watch = driver.do('watch', path=NODES, **QUICK)
    api.wait_for(lambda: fault.times <= 996)
    fault.times = 0
    events = driver.until(watch, 'trouble')
    events += driver.until(watch, 'synced')
    assert [e['event'] for e in events].count('trouble') == 1
    assert events[-2]['event'] == ('trouble' if verb == 'watch' else 'present')


def test_a_watch_that_is_not_allowed_is_a_denial_until_it_is(api, driver):
    api.put(NODES, node('n1'))
    api.allow([{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['list'], 'resourceNames': ['n1']}])
    watch = driver.do('watch', path=NODES, field='metadata.name=n1', **QUICK)
    trouble = driver.until(watch, 'trouble')[-1]
    assert (trouble['kind'], 'cannot watch resource "nodes"' in trouble['error']) == ('denied', True)
    api.allow([{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['list', 'watch']}])
    assert driver.next(watch)['event'] == 'synced'


def test_a_watch_waits_as_long_as_the_server_says(api, driver):
    api.fault('status', verb='watch', code=429, retry_after=1)
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'trouble')
    assert driver.next(watch)['event'] == 'synced'
    first, second = api.asked('watch')
    assert second.at - first.at >= 1.0


@pytest.mark.parametrize('order', ['end', 'drop'])
def test_watches_that_end_together_do_not_begin_together(api, driver, order):
    """So it is when an API server restarts, for the watches of all nodes. Here a wait is half a second, and they may take ten times as long."""
    api.put(NODES, node('n1'))
    watches = [driver.do('watch', path=NODES, wait_ms=500) for _ in range(20)]
    for watch in watches:
        driver.until(watch, 'synced')
    api.wait_for(lambda: len(api.watches) == len(watches))
    time.sleep(0.5)  # none of them ended at once
    begun = time.monotonic()
    assert api.order_watches(order) == len(watches)
    api.wait_for(lambda: len(api.asked('watch')) == 2 * len(watches))
    again = [one.at - begun for one in api.asked('watch')[len(watches):]]
    assert max(again) - min(again) >= 2


def test_a_watch_whose_time_is_over_goes_on_at_once(api, driver):
    """Each has a time of its own. Here who waits does so for half a minute at least."""
    api.put(NODES, node('n1'))
    watches = [driver.do('watch', path=NODES, seconds=1, wait_ms=60000) for _ in range(5)]
    for watch in watches:
        driver.until(watch, 'synced')
    api.wait_for(lambda: len(api.asked('watch')) == 10)
    asked = [one.at for one in api.asked('watch')]
    assert asked[5] - asked[0] < 15


def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_pause(api, driver):
    """Each wait is at least half of the one meant, and they double: the tenth comes no earlier than the sum says."""
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.order_watches('drop') >= 0 and len([r for r in api.requests if r.verb == 'watch']) >= 6)
    asked = api.asked('watch')
    assert asked[5].at - asked[0].at >= 5 * 0.010


def test_a_watch_may_be_closed_by_its_own_callback(api, driver):
    api.put(NODES, node('n1'))
    api.put(NODES, node('n2'))
    watch = driver.do('watch', path=NODES, once=True)
    assert names([driver.next(watch)]) == ['n1']
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    assert driver.close() == [{'event': 'closed'}]


def test_a_token_that_rotates_ends_no_watch_and_starts_the_next(api, driver):
    api.put(NODES, node('n1'))
    watch = driver.do('watch', path=NODES, **QUICK)
    driver.until(watch, 'synced')
    api.wait_for(lambda: api.watches)
    api.rotate_token()
    with api.store.lock:
        api.order_watches('end')
        api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert 'trouble' not in [e['event'] for e in driver.until(watch, 'present')]


# ---- HTTP/2 ----

@pytest.fixture(name='http2')
def make_http2(tmp_path):
    """A server, and nghttpx before it: HTTP/2 over TLS in front, HTTP/1.1 in clear behind."""
    program = shutil.which('nghttpx') or '/usr/sbin/nghttpx'
    if not os.path.exists(program):
        pytest.skip('nghttpx is not installed (Debian: nghttp2-proxy)')
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    api = ApiServer(tmp_path / 'api', tls=False)
    log = open(tmp_path / 'nghttpx.log', 'w', encoding='utf-8')
    process = subprocess.Popen(
        [program, '--conf=/dev/null', f'--frontend=127.0.0.1,{port}', f'--backend=127.0.0.1,{api.port}', '--workers=1',
         str(api.folder / 'server.key'), str(api.folder / 'server.crt')], stdout=log, stderr=log)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(('127.0.0.1', port)).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / 'nghttpx.log').read_text()
            time.sleep(0.05)
    yield api, f'https://127.0.0.1:{port}'
    process.terminate()
    process.wait()
    log.close()
    api.close()


def test_one_http2_connection_carries_watches_and_requests(drive, http2):
    api, url = http2
    api.put(NODES, node('n1'))
    driver = drive(api.kubeconfig(server=url))
    watches = [driver.do('watch', path=NODES), driver.do('watch', path=MAPS)]
    for watch in watches:
        driver.until(watch, 'synced')
    api.wait_for(lambda: len(api.watches) == 2)
    assert driver.send('GET', f'{NODES}/n1')['status'] == 200
    connections = subprocess.run(['ss', '-Htnp', 'state', 'established', 'dport', '=', f':{url.rsplit(":", 1)[1]}'],
                                 capture_output=True, text=True, check=True).stdout
    ours = [line for line in connections.splitlines() if f'pid={driver.process.pid},' in line]
    assert len(ours) == 1, connections
    api.patch(NODES, 'n1', {'metadata': {'labels': {'a': '1'}}})
    assert driver.next(watches[0])['object']['metadata']['labels'] == {'a': '1'}
    driver.cancel(watches[0])
    api.put(MAPS, {'metadata': {'name': 'm'}})
    assert names([driver.next(watches[1])]) == ['m']


# ---- events ----

def test_an_event_that_is_never_taken_is_given_up_when_others_were_often_enough(api, driver):
    def events(namespace):
        return [event['involvedObject']['name'] for event in api.all(f'/api/v1/namespaces/{namespace}/events')]

    def tries():
        return [one for one in api.asked('create', 'events') if one.namespace == 'bad']

    api.fault('status', verb='create', resource='events', namespace='bad', code=500, times=1000000)
    driver.do('tell', namespace='bad', name='never', retry_ms=50)
    api.wait_for(tries)
    for count in range(8):
        driver.do('tell', namespace='good', name=f'pod-{count}')
        api.wait_for(lambda: f'pod-{count}' in events('good'))
        seen = len(tries())
        api.wait_for(lambda: len(tries()) > seen or not driver.queue(0).empty())
    given_up = driver.next(0)
    assert (given_up['event'], given_up['name']) == ('given up', 'never')
    assert given_up['error'].startswith('POST /api/v1/namespaces/bad/events: status 500')
    seen = len(tries())
    driver.do('tell', namespace='good', name='last')
    api.wait_for(lambda: 'last' in events('good'))
    assert len(tries()) == seen and not events('bad')


def test_an_outage_loses_no_event(api, driver):
    fault = api.fault('status', verb='create', resource='events', code=503, times=1000000)
    for count in range(20):
        driver.do('tell', namespace='good', name=f'pod-{count}', retry_ms=5)
    api.wait_for(lambda: len(api.asked('create', 'events')) >= 100)
    fault.times = 0
    api.wait_for(lambda: len(api.all('/api/v1/namespaces/good/events')) == 20)
