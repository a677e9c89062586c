# SPDX-License-Identifier: Apache-2.0
"""Pods without any right, at the ports for metrics and of the dashboard: from many addresses, with words that are no tokens, or with no word at all."""
import collections
import contextlib
import http.client
import os
import signal
import socket
import ssl
import threading
import time

import pytest

from apiserver import PATIENCE, ApiServer, agent_rules
from cluster import cluster  # noqa: F401 -- a fixture
from dashboard import Dashboard
from fixtures import make_node, node, pytest_runtest_makereport, pytest_sessionfinish  # noqa: F401 -- fixtures and hooks
from node import DEADLINE, GPU, sharing, v100s


def start(node, cluster, *options, address='127.0.0.1:0'):  # noqa: F811
    """The agent; returns its port."""
    cluster.api.allow(agent_rules('authorization', 'configuration'))
    node.start_all(sharing('timeSlicing', 4), '--metrics-address=' + address, '--events=none', *options, *cluster.options())
    return node.agent.port()


def connect(port, source, host='127.0.0.1'):
    return socket.create_connection((host, port), timeout=DEADLINE, source_address=(source, 0))


def ask(port, path, source, token=None, host='127.0.0.1', context=None):
    """Status and text, or the name of what went wrong."""
    make = http.client.HTTPSConnection if context else http.client.HTTPConnection
    connection = make(host, port, timeout=5, source_address=(source, 0), **({'context': context} if context else {}))
    try:
        connection.request('GET', path, headers={'Authorization': 'Bearer ' + token} if token else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, ''
    finally:
        connection.close()


@contextlib.contextmanager
def crowd(act, threads=24):
    """|act| of 0, 1, 2 …, again and again, by so many at once; yields how often it returned what."""
    seen = collections.Counter()
    stop = threading.Event()

    def work(number):
        while not stop.is_set():
            seen[act(number)] += 1
            number += threads

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield seen
    finally:
        stop.set()
        for worker in workers:
            worker.join(PATIENCE)


def stranger(number):
    """One of 250 addresses."""
    return '127.0.2.%d' % (1 + number % 250)


# ---- who had to make room ----

def is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b''
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def make_room_of_one_that_asks(process, port, path):
    """The request of the oldest connection, and the one that it has to make room for, are there when the server looks again."""
    held = [connect(port, '127.0.3.%d' % (1 + i)) for i in range(80)]
    assert ask(port, '/livez', '127.0.0.9')[0] == 200, 'all of them were seen'
    time.sleep(0.2)
    oldest = next(one for one in held if is_open(one))
    os.kill(process, signal.SIGSTOP)
    oldest.sendall(b'GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nonsense\r\n\r\n' % path)
    held += [connect(port, '127.0.3.%d' % (101 + i)) for i in range(4)]
    time.sleep(0.2)
    os.kill(process, signal.SIGCONT)
    time.sleep(0.2)
    assert ask(port, '/livez', '127.0.0.9')[0] == 200
    return held


def test_a_request_whose_connection_had_to_make_room_does_not_abort_the_agent(node, cluster):  # noqa: F811
    port = start(node, cluster, '--metrics-authorization=all')
    cluster.api.fault('hang', verb='create', resource='tokenreviews', times=1000)
    held = make_room_of_one_that_asks(node.agent.target(), port, b'/metrics')
    assert node.agent.stop() == 0
    assert held


def test_a_request_whose_connection_had_to_make_room_does_not_abort_the_dashboard(tmp_path):
    with ApiServer(tmp_path) as api:
        api.fault('hang', verb='create', resource='tokenreviews', times=1000)
        dashboard = Dashboard(api, '--authorization', 'token')
        held = make_room_of_one_that_asks(dashboard.process.pid, dashboard.port, b'/api/v1/overview')
        dashboard.close()
        assert held


# ---- tokens that are nobody's ----

@pytest.mark.parametrize('answers_strangers', [True, False], ids=['answered', 'never-answered'])
def test_nonsense_from_250_addresses_costs_a_reader_with_a_good_token_nothing(node, cluster, answers_strangers):  # noqa: F811
    port = start(node, cluster, '--metrics-authorization=all')
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    assert ask(port, '/metrics', '127.0.0.9', reader)[0] == 200
    if not answers_strangers:
        cluster.api.fault('hang', verb='create', resource='tokenreviews', times=100000)
    silent = collections.deque(maxlen=250)

    def trouble(number):
        if number % 2:
            return ask(port, '/metrics', stranger(number), os.urandom(8).hex())[0]
        silent.append(connect(port, stranger(number)))
        return 'held'

    with crowd(trouble, threads=60) as seen:
        time.sleep(1)
        answers = []
        for _ in range(20):
            answers.append(ask(port, '/metrics', '127.0.0.9', reader)[0])
            time.sleep(0.05)
    print('to strangers:', seen, 'to the reader:', answers)
    assert sum(seen.values()) > 100
    assert answers == [200] * 20


def test_a_good_token_that_is_new_is_heard_within_a_few_tries(node, cluster):  # noqa: F811
    port = start(node, cluster, '--metrics-authorization=all')
    with crowd(lambda i: ask(port, '/metrics', stranger(i), os.urandom(8).hex())[0], threads=60) as seen:
        time.sleep(2)
        tries = []
        for number in range(5):
            reader = cluster.api.reviews.add('reader-%d' % number, ('get', '/metrics'))
            deadline = time.monotonic() + DEADLINE
            tries.append(1)
            while ask(port, '/metrics', '127.0.0.%d' % (9 + number), reader)[0] != 200 and time.monotonic() < deadline:
                tries[-1] += 1
    print('to strangers:', seen, 'tries:', tries)
    assert max(tries) <= 10


def test_a_server_that_is_flooded_writes_at_most_one_warning_a_second(node, cluster):  # noqa: F811
    """Also where the API server answers now and then, so that the trouble ends and begins again."""
    port = start(node, cluster, '--metrics-authorization=all')
    begin = time.monotonic()
    with crowd(lambda i: ask(port, '/metrics', stranger(i), os.urandom(8).hex())[0], threads=12) as seen:
        while time.monotonic() < begin + 3:
            cluster.api.fault('status', verb='create', resource='tokenreviews', code=500)
            time.sleep(0.02)
    seconds = time.monotonic() - begin
    lines = node.agent.count(' (warn|error) .*readers')
    print('to strangers:', seen, 'lines:', lines)
    assert seen[401] and seen[503]
    assert 1 <= lines <= 2 * (seconds + 1), 'two causes'


# ---- who says nothing ----

def test_the_probes_address_does_not_starve_the_probe(node, cluster):  # noqa: F811
    """A pod on the host's network has the address that kubelet's probe comes from."""
    port = start(node, cluster, '--metrics-authorization=all')
    held = collections.deque(maxlen=400)

    def hold(_):
        held.append(connect(port, '127.0.0.9'))
        time.sleep(0.005)
        return 'held'

    with crowd(hold, threads=1) as seen:
        time.sleep(1)
        answers = []
        for _ in range(20):
            answers.append(ask(port, '/livez', '127.0.0.9')[0])
            time.sleep(0.05)
    print('held:', seen, 'probes:', answers)
    assert answers == [200] * 20


@pytest.mark.parametrize('addresses', [1, 250])
def test_handshakes_that_never_end_keep_nobody_out(node, cluster, addresses):  # noqa: F811
    port = start(node, cluster, '--metrics-authorization=all', '--metrics-tls')
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    assert ask(port, '/metrics', '127.0.0.9', reader, context=context)[0] == 200
    held = collections.deque(maxlen=400)

    def begin(number):
        one = connect(port, stranger(number % addresses))
        one.sendall(b'\x16\x03\x01\x02\x00')
        held.append(one)
        return 'begun'

    with crowd(begin, threads=8) as seen:
        time.sleep(1)
        answers = []
        for _ in range(20):
            answers.append(ask(port, '/metrics', '127.0.0.9', reader, context=context)[0])
    print('begun:', seen, 'answers:', answers)
    assert answers == [200] * 20


# ---- what a pod may see ----

def outside():
    """An address of this machine that is not its loopback, as a pod's is for the agent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(('192.0.2.1', 9))  # sends nothing
        except OSError:
            pytest.skip('there is no network but the loopback')
        return one.getsockname()[0]


WHOLE = '/node?history=1&processes=1'


def start_with_a_process(node, cluster, *options):  # noqa: F811
    """A pod has a process on a GPU; returns a function that asks for a page, as a pod or on the node, and the pod's address."""
    here = outside()
    machine = os.path.join(node.folder, 'machine')
    os.makedirs(os.path.join(machine, 'proc/4711'))
    port = start(node, cluster, '--usage-interval=1s', '--system-root', machine, *options, address='0.0.0.0:0')
    node.wait_counts(16)
    node.kubelet.admit('train', GPU, 1)
    for name, text in (('comm', 'secret-train'), ('cgroup', f'0::/kubepods/burstable/pod{node.kubelet.pods["train"].uid}/{1:064}')):
        with open(os.path.join(machine, 'proc/4711', name), 'w', encoding='ascii') as file:
            file.write(text + '\n')
    gpus = v100s()
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)

    def see(path, host, token=None):
        return ask(port, path, host, token, host=host)

    node.wait(lambda: 'secret-train' in see(WHOLE, '127.0.0.1')[1], 'a local client sees the process')
    return see, here


@pytest.mark.parametrize('path', ['/node', WHOLE, '/node?history=1', '/node?processes=1'])
def test_a_pod_sees_nothing_of_the_page_of_the_node(node, cluster, path):  # noqa: F811
    see, here = start_with_a_process(node, cluster)
    assert see(path, here) == (
        403, 'this page is for clients on the node itself: --metrics-node-page=open, in the chart metrics.nodePage, opens it\n')
    status, text = see('/metrics', here)
    assert status == 200 and 'secret-train' not in text


def test_an_open_page_has_no_names_of_processes(node, cluster):  # noqa: F811
    see, here = start_with_a_process(node, cluster, '--metrics-node-page=open')
    status, text = see(WHOLE, here)
    assert status == 200 and 'memoryHistory' in text
    assert 'secret-train' not in text and 'processes' not in text and '4711' not in text
    assert 'memoryHistory' not in see('/node', here)[1]


def test_who_has_the_right_sees_all_of_the_page(node, cluster):  # noqa: F811
    see, here = start_with_a_process(node, cluster, '--metrics-authorization=remote')
    reader = cluster.api.reviews.add('jane', ('get', '/node'))
    other = cluster.api.reviews.add('tom', ('get', '/metrics'))
    status, text = see(WHOLE, here, reader)
    assert status == 200 and 'secret-train' in text and 'memoryHistory' in text
    assert [see(WHOLE, here, token)[0] for token in (other, 'nonsense', None)] == [403, 401, 401]
