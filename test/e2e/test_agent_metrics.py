"""The metrics of the agent, over HTTP as a client of the Python library reads them."""
import http.client
import re

from apiserver import agent_rules
from cluster import cluster  # noqa: F401 -- a fixture
from node import DEADLINE, GPU, sharing, v100s


def get(agent, path, **headers):
    port = int(agent.wait_log(r'metrics.* port=(\d+)').group(1))
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=DEADLINE)
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
    status, text = get(node.agent, '/metrics')
    assert status == 200
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='healthy') == 80
    gpus = v100s()
    gpus[1]['lost'] = True
    node.scenario(gpus, events=[{'gpu': 1, 'xid': 79}])
    node.wait_counts(60, 80)
    text = get(node.agent, '/metrics')[1]
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='healthy') == 60
    assert value(text, 'warpshare_resource_devices', resource=GPU, health='unhealthy') == 20


def test_metrics_have_a_containers_share_with_its_name(node):
    kubelet = start(node, sharing('mps', 20, provisioning='weighted', maxPerRequest=5))
    node.wait_counts(68, 80)
    kubelet.admit('train', GPU, 3)

    def is_named():
        return re.search(r'^warpshare_container_info\{share="(\w+)"[^}]*pod="train"[^}]*\} 1$', get(node.agent, '/metrics')[1], re.MULTILINE)

    node.wait(is_named, 'the grant is told with its pod')
    share = is_named().group(1)
    text = get(node.agent, '/metrics')[1]
    assert value(text, 'warpshare_container_replicas', share=share) == 3
    assert value(text, 'warpshare_container_active_thread_ratio', share=share) == 0.15


def test_an_agent_that_does_not_know_the_gpus_yet_is_alive_and_not_ready(node):
    node.scenario(v100s(), init={'delay': '300s'})
    node.config(sharing('timeSlicing', 20))
    node.kubelet.start()
    node.start('--metrics-address=127.0.0.1:0')
    assert get(node.agent, '/livez')[0] == 200
    assert get(node.agent, '/healthz') == (503, 'the GPUs are not known yet: NVML has not answered\n')
    assert node.agent.stop() == 0


def test_a_refused_file_is_seen_by_a_probe(node):
    start(node, sharing('timeSlicing', 20))
    assert get(node.agent, '/healthz')[0] == 200
    node.config('version: v2\n')
    node.agent.wait_log('configuration refused, the one in force stays')
    status, text = get(node.agent, '/healthz')
    assert status == 503 and 'the newest configuration is refused' in text
    node.config(sharing('timeSlicing', 10))
    node.wait(lambda: get(node.agent, '/healthz')[0] == 200, 'all is well again')


PAGES = ('/metrics', '/node')


def start_asking(node, cluster, whom='all'):  # noqa: F811
    cluster.api.allow(agent_rules('authorization', 'configuration'))
    node.start_all(sharing('timeSlicing', 20), '--metrics-address=127.0.0.1:0', '--metrics-authorization=' + whom, '--events=none', *cluster.options())


def test_pages_are_for_those_that_the_api_server_lets_read_them(node, cluster):  # noqa: F811
    start_asking(node, cluster)
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    other = cluster.api.reviews.add('other', ('get', 'pods'))
    for _ in range(3):
        assert [get(node.agent, path, Authorization='Bearer ' + reader)[0] for path in PAGES] == [200, 403]
        assert [get(node.agent, path, Authorization='Bearer ' + other)[0] for path in PAGES] == [403, 403]
        assert [get(node.agent, path, Authorization='Bearer guessed')[0] for path in PAGES] == [401, 401]
        assert [get(node.agent, path)[0] for path in PAGES] == [401, 401]
    assert len(cluster.api.asked('create', 'tokenreviews')) == 3 and len(cluster.api.asked('create', 'subjectaccessreviews')) == 4
    assert get(node.agent, '/healthz')[0] == 200 and get(node.agent, '/livez')[0] == 200
    assert reader not in node.agent.log()


def test_while_the_api_server_does_not_answer_nobody_reads_metrics(node, cluster):  # noqa: F811
    start_asking(node, cluster)
    reader = cluster.api.reviews.add('prometheus', ('get', '/metrics'))
    cluster.api.fault('status', verb='create', resource='tokenreviews', code=500)
    status, text = get(node.agent, '/metrics', Authorization='Bearer ' + reader)
    assert (status, text) == (503, 'the API server does not say who may read this\n')
    node.agent.wait_log('nobody can read metrics: who may is not known')
    assert get(node.agent, '/livez')[0] == 200
    assert get(node.agent, '/metrics', Authorization='Bearer ' + reader)[0] == 200


def test_local_clients_need_no_token_where_only_remote_ones_are_asked(node, cluster):  # noqa: F811
    start_asking(node, cluster, 'remote')
    assert get(node.agent, '/metrics')[0] == 200


def test_without_an_api_server_nobody_is_let_in(node):
    node.start_all(sharing('timeSlicing', 20), '--metrics-address=127.0.0.1:0', '--metrics-authorization=all')
    status, text = get(node.agent, '/metrics', Authorization='Bearer x')
    assert (status, text) == (503, 'there is no API server that could say who may read this\n')
