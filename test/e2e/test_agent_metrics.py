# SPDX-License-Identifier: Apache-2.0
"""The metrics of the agent, over HTTP as a client of the Python library reads them."""
import datetime
import http.client
import os
import re
import socket
import ssl
import time

import pytest

from apiserver import agent_rules
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cluster import cluster  # noqa: F401 -- a fixture
from node import DEADLINE, GPU, sharing, v100s


def fetch(connection, path, headers):
    connection.request('GET', path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def value(text, name, **labels):
    """The one sample of this name with at least these labels."""
    found = [line for line in text.splitlines() if line.startswith(name + '{')
             and all('%s="%s"' % pair in line for pair in labels.items())]
    assert len(found) == 1, (name, labels, found)
    return float(found[0].rsplit(' ', 1)[1])


def start(node, config):
    return node.start_all(config, '--metrics-address=127.0.0.1:0')


def test_devices_are_counted_as_kubelet_has_them(node):
    start(node, sharing('timeSlicing', 20))
    node.wait_counts(80)
    status, text = node.agent.get('/metrics')
    assert status == 200
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='healthy') == 80
    gpus = v100s()
    gpus[1]['lost'] = True
    node.scenario(gpus, events=[{'gpu': 1, 'xid': 79}])
    node.wait_counts(60, 80)
    text = node.agent.get('/metrics')[1]
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='healthy') == 60
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='unhealthy') == 20


def test_metrics_have_a_containers_share_with_its_name(node):
    kubelet = start(node, sharing('mps', 20, provisioning='weighted', maxPerRequest=5))
    node.wait_counts(68, 80)
    kubelet.admit('train', GPU, 3)

    def is_named():
        return re.search(r'^warpshare_container_info\{share="(\w+)"[^}]*pod="train"[^}]*\} 1$', node.agent.get('/metrics')[1], re.MULTILINE)

    node.wait(is_named, 'the grant is told with its pod')
    share = is_named().group(1)
    text = node.agent.get('/metrics')[1]
    assert value(text, 'warpshare_container_replicas', share=share) == 3
    assert value(text, 'warpshare_container_active_thread_ratio', share=share) == 0.15


def keys(text):
    return sorted(line.rsplit(' ', 1)[0] for line in text.splitlines() if not line.startswith('#'))


def test_who_asks_for_openmetrics_gets_the_same_samples_in_that_form(node):
    """Read by the strict parser of Prometheus' own client; with DCGM's names, whose counters have no _total."""
    parser = pytest.importorskip('prometheus_client.openmetrics.parser', reason='Debian: python3-prometheus-client')
    kubelet = node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--metrics-dcgm')
    kubelet.admit('train', GPU, 1)
    node.wait(lambda: 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{' in node.agent.get('/metrics')[1], 'the GPUs are read')
    text = node.agent.get('/metrics')[1]
    status, strict = node.agent.get('/metrics', Accept='application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3')
    assert status == 200 and strict.endswith('\n# EOF\n') and '# EOF' not in text
    assert keys(strict) == keys(text)
    found = list(parser.text_string_to_metric_families(strict))
    assert sum(len(family.samples) for family in found) == len(keys(text))
    assert {family.type for family in found} == {'gauge', 'counter', 'unknown'}
    unknown = {family.name for family in found if family.type == 'unknown'}
    assert 'warpshare_limit_violations_total' in unknown and all(name.startswith('DCGM_') for name in unknown - {'warpshare_limit_violations_total'})


def test_an_agent_that_does_not_know_the_gpus_yet_is_alive_and_not_ready(node):
    node.scenario(v100s(), init={'delay': '300s'})
    node.config(sharing('timeSlicing', 20))
    node.kubelet.start()
    node.start('--metrics-address=127.0.0.1:0')
    assert node.agent.get('/livez')[0] == 200
    assert node.agent.get('/healthz') == (503, 'the GPUs are not known yet: NVML has not answered\n')
    assert node.agent.stop() == 0


def test_a_refused_file_is_seen_by_a_probe(node):
    start(node, sharing('timeSlicing', 20))
    assert node.agent.get('/healthz')[0] == 200
    node.config('version: v2\n')
    node.agent.wait_problem('newest configuration is refused')
    assert node.agent.get('/healthz')[0] == 503
    node.config(sharing('timeSlicing', 10))
    node.wait(lambda: node.agent.get('/healthz')[0] == 200, 'all is well again')


PAGES = ('/metrics', '/node')


def start_asking(node, cluster, whom='all'):  # noqa: F811
    cluster.api.allow(agent_rules('authorization', 'configuration'))
    node.start_all(sharing('timeSlicing', 20), '--metrics-address=127.0.0.1:0', '--metrics-authorization=' + whom, '--events=none', *cluster.options())


def test_pages_are_for_those_that_the_api_server_lets_read_them(node, cluster):  # noqa: F811
    start_asking(node, cluster)
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    other = cluster.api.reviews.add('other', ('get', 'pods'))
    for _ in range(3):
        assert [node.agent.get(path, Authorization='Bearer ' + reader)[0] for path in PAGES] == [200, 403]
        assert [node.agent.get(path, Authorization='Bearer ' + other)[0] for path in PAGES] == [403, 403]
        assert [node.agent.get(path, Authorization='Bearer guessed')[0] for path in PAGES] == [401, 401]
        assert [node.agent.get(path)[0] for path in PAGES] == [401, 401]
    assert len(cluster.api.asked('create', 'tokenreviews')) == 3 and len(cluster.api.asked('create', 'subjectaccessreviews')) == 4
    assert node.agent.get('/healthz')[0] == 200 and node.agent.get('/livez')[0] == 200
    assert reader not in node.agent.log()


def test_while_the_api_server_does_not_answer_nobody_reads_metrics(node, cluster):  # noqa: F811
    start_asking(node, cluster)
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    cluster.api.fault('status', verb='create', resource='tokenreviews', code=500)
    status, text = node.agent.get('/metrics', Authorization='Bearer ' + reader)
    assert (status, text) == (503, 'the API server does not say who may read this\n')
    node.agent.wait_log('metrics are refused: the API server cannot authorize readers')
    assert node.agent.get('/livez')[0] == 200
    assert node.agent.get('/metrics', Authorization='Bearer ' + reader)[0] == 200


def test_local_clients_need_no_token_where_only_remote_ones_are_asked(node, cluster):  # noqa: F811
    start_asking(node, cluster, 'remote')
    assert node.agent.get('/metrics')[0] == 200


def test_without_an_api_server_nobody_is_let_in(node):
    node.start_all(sharing('timeSlicing', 20), '--metrics-address=127.0.0.1:0', '--metrics-authorization=all')
    status, text = node.agent.get('/metrics', Authorization='Bearer x')
    assert (status, text) == (503, 'the API server, which authorizes readers, is not used\n')


# ---- TLS ----

def port_of(node):
    return node.agent.port()


def start_tls(node, *arguments):
    node.start_all(sharing('timeSlicing', 20), '--metrics-address=127.0.0.1:0', '--metrics-tls', *arguments)


def over_tls(node, path='/metrics', context=None):
    """Status, text, and the certificate that was shown."""
    context = context or ssl._create_unverified_context()  # pylint: disable=protected-access
    connection = http.client.HTTPSConnection('127.0.0.1', port_of(node), timeout=DEADLINE, context=context)
    connection.connect()
    shown = connection.sock.getpeercert(binary_form=True)
    return (*fetch(connection, path, {}), shown)


def write_certificate(folder, name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.utcnow()
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(
        x509.random_serial_number()).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), False).sign(key, hashes.SHA256())
    for file, content in (('tls.crt', made.public_bytes(serialization.Encoding.PEM)), ('tls.key', key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))):
        with open(os.path.join(folder, file + '.new'), 'wb') as to:
            to.write(content)
        os.rename(os.path.join(folder, file + '.new'), os.path.join(folder, file))
    return made.public_bytes(serialization.Encoding.DER)


def test_metrics_come_over_tls_with_a_certificate_of_its_own(node):
    start_tls(node)
    status, text, shown = over_tls(node)
    assert status == 200 and value(text, 'warpshare_resource_units', resource=GPU) == 4
    made = x509.load_der_x509_certificate(shown)
    assert made.subject == made.issuer and made.serial_number > 0
    assert over_tls(node, '/healthz')[:2] == (200, 'ok\n')
    assert over_tls(node)[2] == shown, 'the same as long as the agent runs'


def test_old_versions_of_tls_are_refused(node):
    start_tls(node)
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers('ALL:@SECLEVEL=0')
    with pytest.raises(ssl.SSLError):
        over_tls(node, context=context)


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_connection_that_has_ended_leaves_nothing_in_the_agent(node, version):
    """OpenSSL keeps a session for each, by default 20,000 of them for two hours: whoever connects often would have its memory."""
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    context.minimum_version = context.maximum_version = version
    start_tls(node)
    before = None
    for _ in range(2):
        with socket.create_connection(('127.0.0.1', port_of(node)), timeout=10) as plain, \
                context.wrap_socket(plain, server_hostname='node', session=before) as connection:
            connection.sendall(b'GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n')
            while connection.recv(4096):  # tickets come with the answer
                pass
            assert not connection.session_reused
            before = connection.session


def test_a_local_client_may_leave_tls_out(node):
    start_tls(node)
    assert node.agent.get('/metrics')[0] == 200


def test_a_renewed_certificate_is_used_without_a_restart_and_a_wrong_one_never(node):
    first = write_certificate(node.folder, 'a.example')
    start_tls(node, '--metrics-tls-certificate', os.path.join(node.folder, 'tls.crt'), '--metrics-tls-key', os.path.join(node.folder, 'tls.key'))
    assert over_tls(node)[2] == first
    with open(os.path.join(node.folder, 'tls.crt'), 'w', encoding='ascii') as file:
        file.write('nothing\n')
    node.wait(lambda: over_tls(node)[2] == first and node.agent.count('the new certificate for metrics cannot be used'), 'it is looked at')
    second = write_certificate(node.folder, 'b.example')
    node.wait(lambda: over_tls(node)[2] == second, 'the new one is shown')


def test_silent_and_slow_clients_of_tls_keep_nobody_out(node):
    start_tls(node)
    port = port_of(node)
    silent = [socket.create_connection(('127.0.0.1', port)) for _ in range(100)]
    with socket.create_connection(('127.0.0.1', port), source_address=('127.0.0.2', 0)) as junk:
        junk.sendall(b'\x16\x03\x01\xff\xffjunk')
        junk.recv(4096)
    start_time = time.monotonic()
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    connection = http.client.HTTPSConnection('127.0.0.1', port, timeout=DEADLINE, context=context, source_address=('127.0.0.3', 0))
    assert fetch(connection, '/livez', {}) == (200, 'ok\n') and time.monotonic() - start_time < DEADLINE
    for one in silent:
        one.settimeout(DEADLINE)
        assert one.recv(1) == b'', 'it is let go at its deadline'
        one.close()


def test_a_certificate_that_comes_later_is_waited_for(node):
    """As that of cert-manager, whose Secret may be mounted before it has one. Meanwhile GPUs are served."""
    names = [os.path.join(node.folder, name) for name in ('tls.crt', 'tls.key')]
    start_tls(node, '--metrics-tls-certificate', names[0], '--metrics-tls-key', names[1])
    assert node.agent.count('metrics cannot be served, will try again.*tls.crt') == 1
    shown = write_certificate(node.folder, 'node')
    assert over_tls(node)[2] == shown
    assert node.agent.count('metrics cannot be served') == 1


def test_a_certificate_that_is_not_there_is_named(node):
    node.config(sharing('timeSlicing', 20))
    node.kubelet.start()
    node.scenario(v100s())
    node.start('--metrics-address=127.0.0.1:0', '--metrics-tls', '--metrics-tls-certificate=/nowhere/tls.crt', '--metrics-tls-key=/nowhere/tls.key')
    node.agent.wait_log('metrics cannot be served.*/nowhere/tls.crt')
