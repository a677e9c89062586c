# SPDX-License-Identifier: Apache-2.0
"""kubectl warpshare: the commands that look at a whole cluster, against the stand-in API server and many stand-in agents."""
import csv
import io
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time

import grpc
import pytest

from apiserver import POOL_STATUS, ApiServer
from fleet import AGENTS, GIB, Fleet, gpu, page, pod, share, unit
from node import GPU, sharing, v100s

PODS = '/api/v1/namespaces/team-a/pods'
OTHER_PODS = '/api/v1/namespaces/team-b/pods'
RULES = [  # of the ClusterRole warpshare-viewer, with what is looked at where it is allowed
    {'apiGroups': [''], 'resources': ['nodes', 'pods'], 'verbs': ['get', 'list', 'watch']},
    {'apiGroups': [''], 'resources': ['pods/proxy'], 'verbs': ['get']},
    {'apiGroups': [''], 'resources': ['events'], 'verbs': ['list']},
    {'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims'], 'verbs': ['get']}]


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        server.allow(RULES)
        yield server


@pytest.fixture(name='fleet')
def make_fleet(api):
    with Fleet(api) as fleet:
        yield fleet


@pytest.fixture(name='kubectl')
def make_kubectl(api, tmp_path):
    """Runs it as kubectl does, by the name of the plugin. Returns standard output; it must say nothing on the other one, unless |says|."""
    program = tmp_path / 'kubectl-warpshare'
    program.symlink_to(os.environ['WARPSHARE'])
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}

    def run(*words, status=0, says='', env=None, kubeconfig=True):
        flags = ['--kubeconfig', api.kubeconfig()] if kubeconfig else []
        done = subprocess.run([program, *words, *flags], capture_output=True, text=True, timeout=120, check=False,
                              env={**environment, 'KUBECONFIG': '', 'HOME': str(tmp_path / 'nobody'), **(env or {})})
        assert (done.returncode, says) == (status, done.stderr if not says else says if says in done.stderr else None), \
            (done.returncode, done.stdout, done.stderr)
        return done.stdout

    return run


@pytest.fixture(name='two_nodes')
def make_two_nodes(fleet):
    fleet.add_node('node-a', {'nvidia.com/gpu.shared': '20'}, {'nvidia.com/gpu.shared': '16'})
    fleet.add_node('node-b', {'nvidia.com/gpu.shared': '10'})
    fleet.add_node('cpu-1', agent=False)
    fleet.pages['node-a'] = page(
        'node-a', gpu('0', [share('team-a', 'train-0', 3, memoryUsed=9 * GIB, memoryPeak=11 * GIB), share('team-b', 'infer', 4, sm=0.75)], reserved=2),
        gpu('1', reserved=2), configuration='default')
    fleet.pages['node-b'] = page('node-b', gpu('0', [share('team-b', 'notebook', 9)], model='NVIDIA A100-SXM4-80GB'))


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_nodes_are_listed_with_what_they_share(two_nodes, kubectl):
    lines = rows(kubectl('nodes'))
    assert lines[0] == ['NAME', 'STATUS', 'AGENT', 'GPUS', 'MODEL', 'RESOURCE', 'REPLICAS', 'GRANTED', 'RESERVED', 'PODS', 'USED',
                        'MEMORY', 'UTIL']
    assert lines[1][:3] == ['cpu-1', 'Ready', 'none']
    assert lines[2] == ['node-a', 'Ready', 'answers', '2', 'NVIDIA', 'H100', '80GB', 'HBM3', 'nvidia.com/gpu.shared', '20', '7', '4', '2',
                        '4.0Gi', '160.0Gi', '50%']
    assert 'default' in kubectl('nodes', '-o', 'wide').splitlines()[2]
    assert [line[0] for line in rows(kubectl('nodes', 'node-b', '--no-headers'))] == ['node-b']
    assert kubectl('nodes', 'node-x', status=1, says="there is no node 'node-x'").splitlines()[1:] == []


def test_top_shows_gpus_with_their_pods_the_greatest_first(two_nodes, kubectl):
    lines = kubectl('top').splitlines()
    assert lines[0].split() == ['NODE', 'GPU', 'MODEL', '/', 'POD', 'REPLICAS', 'USED', 'OF', 'SM', 'TEMP', 'POWER']
    assert lines[1].split() == ['node-a', '0', 'NVIDIA', 'H100', '80GB', 'HBM3,', 'mps,', 'some', 'reserved', '7/10', '4.0Gi', '80.0Gi',
                                '50%', '50C', '300W']
    assert [line.split()[0] for line in lines[2:4]] == ['team-a/train-0/main', 'team-b/infer/main']
    assert lines[2].split()[1:] == ['3', '9.0Gi', '24.0Gi', '25%']
    by_sm = kubectl('top', '--sort-by', 'sm', 'node-a').splitlines()
    assert [line.split()[0] for line in by_sm[2:4]] == ['team-b/infer/main', 'team-a/train-0/main']


def test_what_is_not_known_of_use_is_said_once_below_the_table(fleet, two_nodes, kubectl):
    why = 'Without hostPID the agent sees who uses MPS only (chart: usage.hostPID=true)'
    assert why not in kubectl('top')
    fleet.pages['node-a']['ownersUnknown'] = why
    for command in ('top', 'shares'):
        assert kubectl(command, '-A').splitlines()[-2:] == ['', f'node-a: {why}']
    fleet.pages['node-b']['ownersUnknown'] = why
    assert kubectl('top').splitlines()[-1] == f'node-a and 1 more: {why}'
    assert kubectl('top', 'node-b').splitlines()[-1] == f'node-b: {why}'
    assert why not in kubectl('top', '--no-headers') + kubectl('shares', '-A', '-o', 'csv')


def test_one_namespace_shows_its_pods_and_their_gpus_only(two_nodes, kubectl):
    lines = rows(kubectl('top', '-n', 'team-a', '--no-headers'))
    assert [line[0] for line in lines] == ['node-a', 'team-a/train-0/main']
    assert [line[1] for line in rows(kubectl('shares', '-nteam-b', '--no-headers'))] == ['infer', 'notebook']
    assert kubectl('shares').splitlines()[1:] == []  # of the context's namespace, default
    assert len(kubectl('shares', '-A', '--no-headers').splitlines()) == 3


def test_programs_get_json_and_csv(two_nodes, kubectl):
    nodes = {node['name']: node for node in json.loads(kubectl('top', '-o', 'json'))['nodes']}
    assert nodes['node-a']['agent']['state'] == 'answers' and nodes['node-a']['ready'] is True
    assert nodes['node-a']['resources'] == {'nvidia.com/gpu.shared': {'capacity': 20, 'allocatable': 16}}
    assert nodes['node-a']['page']['gpus'][0]['units'][0]['shares'][0]['pod'] == 'train-0'
    assert 'page' not in nodes['cpu-1'] and nodes['cpu-1']['agent'] == {'state': 'none'}
    table = list(csv.DictReader(io.StringIO(kubectl('shares', '-A', '-o=csv', '--sort-by=pod'))))
    assert [(row['namespace'], row['pod'], row['node'], row['memory_used_bytes']) for row in table] == [
        ('team-a', 'train-0', 'node-a', str(9 * GIB)), ('team-b', 'infer', 'node-a', str(2 * GIB)),
        ('team-b', 'notebook', 'node-b', str(2 * GIB))]
    assert table[0]['energy_estimated_joules'] == ''  # not known


def test_what_is_watched_is_shown_again_until_nobody_reads_it(api, fleet, two_nodes, tmp_path, kubectl):
    kubectl('nodes', '-w', '--interval=0', status=2, says="interval: '0' is not a number of seconds from 1 to 3600")
    with subprocess.Popen([tmp_path / 'kubectl-warpshare', 'top', '-w', '--interval', '1', '-o', 'json', '--kubeconfig', api.kubeconfig()],
                          stdout=subprocess.PIPE, text=True) as program:
        first = json.loads(program.stdout.readline())
        assert len(first['nodes']) == 3
        fleet.pages['node-b'] = page('node-b')
        while next(n for n in json.loads(program.stdout.readline())['nodes'] if n['name'] == 'node-b')['page']['gpus']:
            pass
        program.stdout.close()
        assert program.wait(timeout=60) == 0


def test_an_agent_that_does_not_answer_is_named_and_the_rest_is_shown(fleet, two_nodes, kubectl):
    fleet.pages['node-b'] = (404, '404 page not found\n')
    text = kubectl('nodes', says='the agent of node-b: it serves no page /node (404): its version is too old')
    assert [line[2] for line in rows(text)[1:]] == ['none', 'answers', 'too-old']


def test_what_is_denied_is_said_and_nothing_at_all_is_a_failure(api, two_nodes, kubectl):
    api.allow([rule for rule in RULES if rule['resources'] != ['pods/proxy']])
    assert len(kubectl('nodes', says='pods/proxy').splitlines()) == 4
    api.allow([])
    assert kubectl('nodes', status=1, says='status 403 Forbidden') == ''


# ---- who asks ----

def test_the_context_the_environment_and_home_are_those_of_kubectl(api, two_nodes, kubectl, tmp_path):
    api.kubeconfig('first')
    path = tmp_path / 'second.json'
    path.write_text(json.dumps({'contexts': [{'name': 'mine', 'context': {'cluster': 'c', 'user': 'u', 'namespace': 'team-a'}}]}))
    both = {'KUBECONFIG': f'{path}:{tmp_path / "api" / "first"}'}
    assert kubectl('shares', '--no-headers', env=both, kubeconfig=False) == ''
    assert 'train-0' in kubectl('shares', '--no-headers', '--context=mine', env=both, kubeconfig=False)
    assert kubectl('shares', '--context=none', status=1, says="has no context 'none'", env=both, kubeconfig=False) == ''
    (tmp_path / 'home' / '.kube').mkdir(parents=True)
    (tmp_path / 'home' / '.kube' / 'config').write_text((tmp_path / 'api' / 'first').read_text().replace('"ca.crt"', f'"{tmp_path}/api/ca.crt"')
                                                        .replace('"token"', f'"{tmp_path}/api/token"'))
    assert 'node-a' in kubectl('nodes', env={'HOME': str(tmp_path / 'home')}, kubeconfig=False)


def test_a_client_certificate_a_token_and_no_check_of_the_server_work(api, two_nodes, kubectl):
    folder = api.folder
    token = (folder / 'token').read_text().strip()
    server = ['--server', api.url]
    assert 'node-a' in kubectl('nodes', *server, '--certificate-authority', str(folder / 'ca.crt'), '--token', token, kubeconfig=False)
    assert 'node-a' in kubectl('nodes', *server, '--insecure-skip-tls-verify', '--client-certificate', str(folder / 'client.crt'),
                               '--client-key', str(folder / 'client.key'), kubeconfig=False)
    assert kubectl('nodes', *server, '--token', token, status=1, says='certificate', kubeconfig=False) == ''
    assert kubectl('nodes', *server, '--insecure-skip-tls-verify', status=1, says='status 401', kubeconfig=False) == ''


def test_a_program_of_the_kubeconfig_makes_the_token_again_when_it_is_refused(api, two_nodes, kubectl, tmp_path):
    script = tmp_path / 'api' / 'make-token'
    script.write_text('#!/bin/sh\necho >>"%s/runs"\nprintf \'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", '
                      '"status": {"token": "%%s"}}\' "$(cat "%s/api/token")"\n' % (tmp_path, tmp_path))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    user = {'exec': {'apiVersion': 'client.authentication.k8s.io/v1', 'command': './make-token', 'interactiveMode': 'Never'}}
    path = api.kubeconfig('exec', user=user)
    assert 'node-a' in kubectl('nodes', '--kubeconfig', path, kubeconfig=False)
    assert (tmp_path / 'runs').read_text() == '\n'
    api.fault('rotate', resource='pods')  # the old token is refused from then on
    assert 'answers' in kubectl('nodes', '--kubeconfig', path, kubeconfig=False)
    assert (tmp_path / 'runs').read_text() == '\n' * 3


def test_who_acts_as_somebody_else_says_so(api, two_nodes, kubectl):
    kubectl('nodes', '--as', 'jane', '--as-group', 'dev', '--as-group', 'ops')
    headers = api.asked('list', 'nodes')[-1].headers
    assert headers['Impersonate-User'] == 'jane' and headers['Impersonate-Group'] in ('dev', 'ops')


def test_a_server_that_does_not_answer_costs_no_more_than_the_timeout(api, two_nodes, kubectl):
    api.fault('hang', resource='nodes', times=9)
    start = time.monotonic()
    assert 'node-a' in kubectl('nodes', '--request-timeout=1500ms', says='not everything has come within --request-timeout')
    assert time.monotonic() - start < 60
    assert kubectl('nodes', '--request-timeout', '5', status=2, says="'5' is no time from 1ms to 1h") == ''


# ---- why ----

INSUFFICIENT = ('Unschedulable', '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.shared. preemption: 0/3 nodes are available: '
                                 '3 No preemption victims found for incoming pod.')

REFUSED = ("Pod was rejected: Allocate failed due to rpc error: code = InvalidArgument desc = invalid request for resource "
           "'nvidia.com/gpu.shared': 6 replicas are asked for, but maxPerRequest is 5: ask for at most 5, which is unexpected")


def test_why_says_what_is_in_the_way_on_each_node(api, two_nodes, kubectl):
    api.put(PODS, pod('big', count=12, scheduled=INSUFFICIENT))
    assert kubectl('why', 'big', '-n', 'team-a').splitlines() == [
        'team-a/big waits: it asks for 12 nvidia.com/gpu.shared in one container, and the largest share of one GPU is 10',
        '  do: ask for at most 10, or for whole GPUs; or configure fewer, larger replicas',
        '  node-a, node-b: the largest share of one GPU is 10',
        '  the scheduler says: ' + INSUFFICIENT[1]]
    api.put(PODS, pod('more', count=10, scheduled=INSUFFICIENT))
    assert kubectl('why', 'more', '-n', 'team-a').splitlines()[:4] == [
        'team-a/more waits: it asks for 10 nvidia.com/gpu.shared; 2 nodes have it: on 2 too few replicas are free',
        '  do: wait until a pod ends, or end one of those that have them',
        '  node-a: 9 of 16 are free; taken by team-b/infer (4) and team-a/train-0 (3)',
        '  node-b: 1 of 10 is free; taken by team-b/notebook (9)']


def test_why_names_the_nodes_for_each_of_many_reasons_and_counts_the_rest(api, fleet, kubectl):
    for number in range(30):
        fleet.add_node(f'n{number:02}', capacity={'nvidia.com/gpu.shared': str(number + 1)}, unschedulable=number >= 24)
        fleet.pages[f'n{number:02}'] = page(f'n{number:02}', gpu('0', [share('team-b', f'p{number}', replicas=number + 1)], replicas=number + 1))
    api.put(PODS, pod('small', count=1, scheduled=INSUFFICIENT))
    lines = kubectl('why', 'small', '-n', 'team-a').splitlines()
    assert lines[2] == '  n24, n25, n26, n27 and 2 more: is cordoned (kubectl uncordon)'
    assert lines[22:24] == ['  and 5 more reasons of other nodes: -o json has them all', '  the scheduler says: ' + INSUFFICIENT[1]]
    assert len(json.loads(kubectl('why', 'small', '-n', 'team-a', '-o', 'json'))['nodes']) == 30


def test_why_translates_what_kubelet_said(api, two_nodes, kubectl):
    api.put(PODS, pod('refused', count=3, phase='Failed', reason='UnexpectedAdmissionError', node='node-a', message=REFUSED))
    told = json.loads(kubectl('why', 'refused', '-n', 'team-a', '-o', 'json'))
    assert (told['state'], told['pod']) == ('refused', 'refused')
    assert told['sentence'] == ('team-a/refused was refused by kubelet on node-a: it asks for more in one container than the '
                                'configuration allows (maxPerRequest)')
    assert told['said'].startswith('invalid request for resource')


def test_why_of_a_pod_that_starts_has_the_newest_warning(api, two_nodes, kubectl):
    api.put(PODS, pod('starts', node='node-a'))
    for number, (time_, reason, message) in enumerate([
            ('2026-11-26T10:00:02Z', 'FailedCreatePodContainer', 'the newest'), ('2026-11-26T10:00:01Z', 'FailedMount', 'an older one')]):
        api.put('/api/v1/namespaces/team-a/events', {'metadata': {'name': f'e{number}'}, 'type': 'Warning', 'reason': reason,
                                                     'message': message, 'lastTimestamp': time_,
                                                     'involvedObject': {'kind': 'Pod', 'name': 'starts'}})
    assert kubectl('why', 'starts', '-n', 'team-a').splitlines() == [
        'team-a/starts is on node-a, and its containers do not run yet', '  last warning: the newest']


def test_why_of_a_pod_that_runs_says_what_it_has_and_claims_are_looked_up(api, two_nodes, kubectl):
    api.put(PODS, pod('train-0', count=3, phase='Running', node='node-a'))
    assert kubectl('why', 'train-0', '-n', 'team-a') == 'team-a/train-0 runs on node-a with 3 of 10 replicas of GPU 0, 24.0 GiB\n'
    api.put(PODS, pod('claims', count=0, scheduled=('Unschedulable', 'resourceclaim "mine" not found'),
                      resourceClaims=[{'name': 'gpu', 'resourceClaimName': 'mine'}]))
    assert kubectl('why', 'claims', '-n', 'team-a').startswith('team-a/claims waits: its ResourceClaim mine is not there\n')


def test_without_a_name_all_that_wait_or_were_refused_are_explained(api, two_nodes, kubectl):
    assert kubectl('why', '-A') == 'no pod waits for a GPU, and none was refused\n'
    api.put(PODS, pod('big', count=12, scheduled=INSUFFICIENT))
    api.put(OTHER_PODS, pod('small', count=1, scheduled=INSUFFICIENT))
    api.put(OTHER_PODS, pod('runs', count=1, phase='Running', node='node-a'))
    assert [line.split(':')[0] for line in kubectl('why', '-A').splitlines()] == ['team-a/big waits', 'team-b/small waits']
    assert len(kubectl('why', '-n', 'team-b').splitlines()) == 1
    assert [told['pod'] for told in json.loads(kubectl('why', '-A', '-o', 'json'))] == ['big', 'small']


def test_of_a_namespace_in_which_many_wait_so_many_are_explained_and_the_rest_is_counted(api, two_nodes, kubectl):
    for number in range(203):
        api.put(PODS, pod(f'w{number:03}', count=1, scheduled=INSUFFICIENT))
    api.put(OTHER_PODS, pod('small', count=1, scheduled=INSUFFICIENT))
    lines = kubectl('why', '-A', says="3 more pods of the namespace 'team-a' are left out: --namespace shows up to 5000 of one").splitlines()
    assert (len(lines), lines[-1].split(':')[0]) == (201, 'team-b/small waits')
    assert len(kubectl('why', '-n', 'team-a').splitlines()) == 203


def test_a_pod_that_is_too_large_is_named_and_the_others_are_explained(api, two_nodes, kubectl):
    bomb = pod('bomb', count=1, scheduled=INSUFFICIENT)
    bomb['spec']['containers'][0]['args'] = [''] * 200001
    api.put(PODS, bomb)
    api.put(OTHER_PODS, pod('small', count=1, scheduled=INSUFFICIENT))
    text = kubectl('why', '-A', says='left out, for more than 4194304 bytes or 200000 values: team-a/bomb')
    assert text.startswith('team-b/small waits')


def test_a_tenant_with_rights_in_one_namespace_only_still_gets_an_answer(api, two_nodes, kubectl):
    api.put(PODS, pod('big', count=12, scheduled=INSUFFICIENT))
    api.allow([{'apiGroups': [''], 'resources': ['pods', 'events'], 'verbs': ['get', 'list', 'watch'], 'namespace': 'team-a'}])
    text = kubectl('why', 'big', '-n', 'team-a', says='nodes: ')
    assert text.splitlines()[0] == 'team-a/big waits: it asks for 12 nvidia.com/gpu.shared, which no node has'
    assert text.splitlines()[-1] == '  the scheduler says: ' + INSUFFICIENT[1]


def test_a_pod_that_is_not_there_is_said(two_nodes, kubectl):
    assert kubectl('why', 'nobody', '-n', 'team-a', status=1, says="there is no pod 'nobody' in the namespace 'team-a'") == ''


# ---- what is not seen ----

HOSTILE = 'a\x1b[2J\u202eb\u200b\ufeff\u2066\U000e0041\x9b\u061cz'  # what a terminal obeys, turns round or does not show
CLEAN = 'a?[2J?b??????z'
HIDDEN = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]')


def test_what_others_say_reaches_a_terminal_as_it_looks(api, fleet, two_nodes, kubectl):
    """Of pods, events, nodes, agents and the programs in containers; with each command, also on standard error, and as JSON and CSV."""
    bad = {'type': 'Bad', 'status': 'True', 'reason': HOSTILE, 'message': HOSTILE}
    fleet.add_node('node-c', {'nvidia.com/gpu.shared': '10'}, labels={'nvidia.com/gpu.product': HOSTILE}, conditions=[bad])
    fleet.pages['node-c'] = page('node-c', gpu('0', [share('team-a', HOSTILE, 3, container=HOSTILE)], model=HOSTILE), driver=HOSTILE)
    fleet.others['node-c', '/healthz'] = (503, HOSTILE)
    fleet.add_node('node-d')
    fleet.pages['node-d'] = (500, HOSTILE)
    api.put(PODS, pod('waits', count=12, scheduled=('Unschedulable', HOSTILE)))
    api.put(PODS, pod('starts', node='node-c'))
    api.put('/api/v1/namespaces/team-a/events', {'metadata': {'name': 'e'}, 'type': 'Warning', 'reason': 'Failed', 'message': HOSTILE,
                                                 'involvedObject': {'kind': 'Pod', 'name': 'starts'}, 'lastTimestamp': '2026-11-22T13:00:00Z'})
    said = [kubectl(*words, says='node-d') for words in (
        ['nodes', '-o', 'wide'], ['nodes', '-o', 'json'], ['top'], ['shares', '-A'], ['shares', '-A', '-o', 'json'], ['shares', '-A', '-o', 'csv'])]
    said += [kubectl('why', pod_, '-n', 'team-a', says='node-d') for pod_ in ('waits', 'starts')]
    said += [kubectl('doctor', 'node-c', status=1)]
    assert all(CLEAN in text for text in said), [text for text in said if CLEAN not in text]
    assert not [text for text in said if HIDDEN.search(text)]
    assert kubectl('nodes', says=f'it answers with status 500: {CLEAN}')


# ---- the page ----

def test_the_page_shows_what_is_printed(api, fleet, two_nodes, kubectl):
    """docs/kubectl.md, on this cluster; a filter behind the command is its reader's."""
    sys.path.insert(0, os.path.join(os.environ['WARPSHARE_SOURCE'], 'test/docs'))
    from pages import Page, pattern  # beside the tests of all other pages
    fleet.others['node-b', '/healthz'] = 'ok\n'
    api.put(PODS, pod('big', count=12, scheduled=INSUFFICIENT))
    api.put(PODS, pod('more', count=10, scheduled=INSUFFICIENT))
    api.put(PODS, pod('train-0', count=3, phase='Running', node='node-a'))
    api.put(PODS, pod('refused', count=3, phase='Failed', reason='UnexpectedAdmissionError', node='node-a', message=REFUSED))
    shown = 0
    for _, commands in Page(os.path.join(os.environ['WARPSHARE_SOURCE'], 'docs/kubectl.md')).commands():
        for command in commands:
            if not command.text.startswith('kubectl warpshare '):
                continue
            words, _, reader = command.text.partition(' | ')
            said = kubectl(*shlex.split(words)[2:])
            if reader:
                said = subprocess.run(['sh', '-c', reader], input=said, capture_output=True, text=True, check=True).stdout
            while command.output and not command.output[-1].strip():
                command.output.pop()
            assert pattern(command.output).fullmatch(said), (command.text, said)
            shown += 1
    assert shown >= 8


# ---- doctor ----

def findings(text):
    return [(f['verdict'], f['check'], f['found']) for f in json.loads(text)['findings']]


def test_the_doctor_finds_nothing_wrong_with_a_good_node(fleet, two_nodes, kubectl):
    fleet.others['node-b', '/healthz'] = 'ok\n'
    text = kubectl('doctor', 'node-b')
    assert text.splitlines()[-1] == 'Nothing is wrong; wrong: 0, notes: 0'
    assert [line.split()[1] for line in text.splitlines()[:5]] == ['node', 'agent', 'health', 'gpus', 'resources']


def test_the_doctor_names_what_is_wrong(api, fleet, kubectl):
    fleet.add_node('bad', {'nvidia.com/gpu.shared': '20'}, {'nvidia.com/gpu.shared': '0'}, unschedulable=True,
                   labels={'nvidia.com/device-plugin.config': 'large'},
                   taints=[{'key': 'gpu', 'effect': 'NoSchedule'}],
                   conditions=[{'type': 'GPUSharingReady', 'status': 'False', 'reason': 'GPUsUnavailable', 'message': 'no driver'}])
    fleet.pages['bad'] = page('bad', gpu('0', healthy=False, reason='Xid 79'), gpu('1', resource='nvidia.com/gpu.big', reserved=5),
                              configuration='default', events=[
                                  {'time': time.time() - 120, 'kind': 'Warning', 'reason': 'GPUUnhealthy', 'text': 'Xid 79 on GPU 0'},
                                  {'time': time.time() - 99999, 'kind': 'Warning', 'reason': 'Old', 'text': 'long ago'}])
    fleet.others['bad', '/healthz'] = (503, 'the newest configuration is refused: replicas: 0\n')
    api.put(PODS, pod('refused', phase='Failed', reason='UnexpectedAdmissionError', node='bad', message='Allocate failed'))
    found = findings(kubectl('doctor', 'bad', '-o', 'json', status=1))
    assert [f for f in found if f[0] == 'wrong'] == [
        ('wrong', 'conditions', 'GPUSharingReady is False: no driver'),
        ('wrong', 'health', 'the newest configuration is refused: replicas: 0'),
        ('wrong', 'configuration', "the node's label names 'large', in force is 'default'"),
        ('wrong', 'gpus', 'GPU 0 (GPU-00000000-0000-0000-0000-000000000000) is unhealthy: Xid 79'),
        ('wrong', 'resources', 'nvidia.com/gpu.big: the agent has 10, and kubelet counts none')]
    assert [f[1:] for f in found if f[0] == 'note'] == [
        ('node', 'is cordoned'), ('taints', 'gpu:NoSchedule'),
        ('resources', 'nvidia.com/gpu.big: 5 of 10 replicas are reserved, more than a third'),
        ('events', '2 min ago, GPUUnhealthy: Xid 79 on GPU 0'), ('pods', 'kubelet refused team-a/refused: Allocate failed')]


def test_the_doctor_of_a_node_whose_agent_is_silent_or_missing_says_so(api, fleet, kubectl):
    fleet.add_node('n1')
    fleet.add_agent('n1', phase='Pending', ready=False, state={'waiting': {'reason': 'CrashLoopBackOff'}})
    said = kubectl('doctor', 'n1', status=1, says='its container waits: CrashLoopBackOff')
    assert 'wrong    agent            warpshare/agent-n1: its container waits: CrashLoopBackOff' in said
    api.delete(AGENTS, 'agent-n1')
    assert 'wrong    agent            no agent is there' in kubectl('doctor', 'n1', status=1)
    assert kubectl('doctor', 'n2', status=1, says="there is no node 'n2'") == ''
    assert kubectl('doctor', status=2, says='needs the name of a node') == ''


def test_units_of_mig_have_lines_of_their_own(fleet, kubectl):
    fleet.add_node('n1')
    fleet.pages['n1'] = page('n1', gpu('0', units=[
        unit('MIG-1', '0:0', profile='3g.40gb', sharing='none', replicas=1), unit('MIG-2', '0:1', profile='3g.40gb', healthy=False)]))
    lines = [line.split() for line in kubectl('top', '--no-headers').splitlines()]
    assert [line[1:4] for line in lines] == [['0:0', '3g.40gb,', 'none'], ['0:1', '3g.40gb,', 'mps,']]
    assert lines[1][4] == 'unhealthy'


# ---- the other side is the real one ----

def test_the_agent_says_what_the_commands_show(api, fleet, kubectl, node):
    """The page is the agent's own, and so is kubelet's refusal."""
    machine = os.path.join(node.folder, 'machine')
    os.makedirs(os.path.join(machine, 'proc/4711'))
    kubelet = node.start_all(sharing('timeSlicing', 4, failRequestsGreaterThanOne=True), '--metrics-address=127.0.0.1:0', '--usage-interval=1s', '--system-root', machine)
    node.wait_counts(16)
    port = node.agent.port()
    kubelet.admit('train', GPU, 1)
    with open(os.path.join(machine, 'proc/4711/cgroup'), 'w', encoding='ascii') as file:
        file.write('0::/kubepods/burstable/pod%s/%064d\n' % (kubelet.pods['train'].uid, 1))
    gpus = v100s()
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    fleet.add_node('n1', {GPU: '16'}, agent=False)
    fleet.put_agent('n1', 'agent-n1', port)

    def is_there():
        return 'default/train' in kubectl('top', '--no-headers')

    node.wait(is_there, 'the agent names the pod')
    lines = rows(kubectl('nodes', '--no-headers'))
    assert lines[0][:4] == ['n1', 'Ready', 'answers', '4'] and GPU in lines[0]
    node.wait(lambda: sum('1/4' in line for line in rows(kubectl('top', '--no-headers'))) == 1, 'kubelet has said what it holds')
    assert ['default/train/main', '1', '3.0Gi', '-', '40%'] in rows(kubectl('top', '--no-headers'))
    shares = list(csv.DictReader(io.StringIO(kubectl('shares', '-A', '-o', 'csv'))))
    assert [(row['namespace'], row['pod'], row['node'], row['sharing'], row['resource']) for row in shares] == [
        ('default', 'train', 'n1', 'time-slicing', GPU)]
    with pytest.raises(grpc.RpcError) as refused:
        kubelet.plugin(GPU).allocate_ids(kubelet.ids(GPU)[:2])
    api.put(PODS, pod('greedy', resource=GPU, count=2, phase='Failed', reason='UnexpectedAdmissionError', node='n1',
                      message='Pod was rejected: Allocate failed due to rpc error: code = InvalidArgument desc = '
                              f'{refused.value.details()}, which is unexpected'))
    assert 'team-a/greedy was refused by kubelet on n1: it asks for several replicas of one that is shared' in \
        kubectl('why', 'greedy', '-n', 'team-a')
    assert kubectl('doctor', 'n1').splitlines()[-1].startswith('Nothing is wrong')


def test_an_agent_that_wants_tls_is_asked_over_tls(api, fleet, kubectl, node):
    """As its probe is, by which the chart says so. The API server's proxy looks at no certificate of a pod, so one of its own will do."""
    node.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--metrics-tls')
    port = node.agent.port()
    fleet.add_node('n1', {GPU: '16'}, agent=False)
    fleet.put_agent('n1', 'agent-n1', port, probe='HTTPS')
    assert rows(kubectl('nodes', '--no-headers'))[0][:4] == ['n1', 'Ready', 'answers', '4']
    assert {request.name for request in api.asked('get', 'pods') if request.subresource == 'proxy'} == {f'https:agent-n1:{port}'}


def test_kubectl_itself_finds_the_plugin(api, two_nodes, kubectl, tmp_path):
    if not shutil.which('kubectl') or subprocess.run(['kubectl', 'version', '--client'], capture_output=True, check=False).returncode:
        pytest.skip('no kubectl here')
    environment = {'PATH': f'{tmp_path}:{os.environ["PATH"]}', 'KUBECONFIG': api.kubeconfig(), 'HOME': str(tmp_path)}
    done = subprocess.run(['kubectl', 'warpshare', 'nodes', '-o', 'json', 'node-a'], capture_output=True, text=True, timeout=120,
                          check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, '')
    assert [one['name'] for one in json.loads(done.stdout)['nodes']] == ['node-a']
    assert subprocess.run(['kubectl', 'warpshare', 'nodes', 'node-x'], capture_output=True, timeout=120, check=False,
                          env=environment).returncode == 1


@pytest.mark.parametrize('words, says', [
    ([], 'needs a command'), (['tops'], "did you mean 'top'"), (['top', '--nampespace', 'x'], "did you mean '--namespace'"),
    (['why', 'a', 'b'], "unexpected argument 'b'")])
def test_wrong_words_are_refused(kubectl, words, says):
    assert kubectl(*words, status=2, says=says, kubeconfig=False) == ''


# ---- what the scheduler counts ----

POOLS_RULE = [{'apiGroups': ['resource.k8s.io'], 'resources': ['resourcepoolstatusrequests'], 'verbs': ['create', 'get', 'delete']}]


def recorded_pool_status():
    with open(os.path.join(os.environ['WARPSHARE_SOURCE'], 'test/fixtures/kube-apiserver-1.36/pool-status.http'), encoding='utf-8') as file:
        return json.loads(file.read().split('\n\n', 1)[1])['status']


def with_summary(status):
    """As 1.37 has it besides (k8s.io/api, July 2026)."""
    summary = {'fullyAvailableDevices': 3, 'partiallyAvailableDevices': 1, 'capacity': [
        {'name': 'memory', 'total': '320Gi', 'consumed': '10Gi', 'available': '310Gi'},
        {'name': 'threadPercentage', 'total': '400', 'consumed': '30', 'available': '370'}]}
    return {**status, 'pools': [{**pool, 'shareableSummary': summary} for pool in status['pools']]}


def left_requests(api):
    return api.all(POOL_STATUS)


def test_pools_shows_what_a_real_server_counted_and_leaves_nothing(api, kubectl):
    api.allow(RULES + POOLS_RULE)
    api.serve_pool_status(recorded_pool_status())
    assert rows(kubectl('pools')) == [
        ['POOL', 'NODE', 'DEVICES', 'ALLOCATED', 'AVAILABLE', 'UNAVAILABLE'],
        ['node1/gpu.warpshare.dev', 'node1', '8', '1', '7', '0']]
    asked, = [r for r in api.asked('create', 'resourcepoolstatusrequests')]
    assert asked.body['spec'] == {'driver': 'gpu.warpshare.dev', 'limit': 1000}
    assert left_requests(api) == []


def test_pools_shows_free_memory_and_threads_where_the_server_says_them(api, kubectl):
    api.allow(RULES + POOLS_RULE)
    api.serve_pool_status(with_summary(recorded_pool_status()))
    lines = kubectl('pools').splitlines()
    assert re.split(r'  +', lines[0])[-2:] == ['MEMORY FREE', 'THREADS FREE']
    assert re.split(r'  +', lines[1])[-2:] == ['310Gi of 320Gi', '370 of 400']
    assert json.loads(kubectl('pools', '-o', 'json'))[0]['shareableSummary']['capacity'][0]['available'] == '310Gi'


def test_pools_says_what_is_missing(api, kubectl):
    api.allow(RULES + POOLS_RULE)
    kubectl('pools', status=1, says='this API server does not count: it takes Kubernetes 1.36 or newer')
    api.serve_pool_status(None)
    kubectl('pools', '--request-timeout=1s', status=1, says='within --request-timeout')
    assert left_requests(api) == []
    api.serve_pool_status({'conditions': [{'type': 'Failed', 'status': 'True', 'message': 'too many pools'}]})
    kubectl('pools', status=1, says='the API server could not count: too many pools')
    assert left_requests(api) == []
    api.serve_pool_status({'poolCount': 0, 'conditions': [{'type': 'Complete', 'status': 'True'}]})
    assert kubectl('pools', '--driver=gpu.example.com', says="the driver 'gpu.example.com' has no pools") == ''
    api.allow(RULES)
    kubectl('pools', status=1, says='forbidden')
