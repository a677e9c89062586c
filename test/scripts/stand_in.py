# SPDX-License-Identifier: Apache-2.0
"""A cluster for scripts that speak to it by kubectl: objects, a stand-in for kubectl, and the DaemonSet controller.

    cluster = Cluster(folder, runtime)
    cluster.add_node('n1', {'nvidia.com/gpu.present': 'true'})
    subprocess.run(['scripts/setup.sh', ...], env=cluster.environment)

|runtime| is what kubelet and the containers do: start(pod), stop(pod), logs(pod), exec(pod, words) → (status, text), and settle(), which is
called before each command. An error of the cluster is ordered by fail(pattern, text).
"""
import fnmatch
import json
import os
import re
import socketserver
import sys
import threading

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

from apiserver import selected  # noqa: E402
from apistore import Refused, Store, merge  # noqa: E402
from daemonsets import lands  # noqa: E402
from templates import go_template, jsonpath  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RESOURCES = {  # kind: (group's path, plural, is in a namespace)
    'Namespace': ('/api/v1', 'namespaces', False), 'Node': ('/api/v1', 'nodes', False), 'Pod': ('/api/v1', 'pods', True),
    'ConfigMap': ('/api/v1', 'configmaps', True), 'Secret': ('/api/v1', 'secrets', True),
    'ServiceAccount': ('/api/v1', 'serviceaccounts', True), 'DaemonSet': ('/apis/apps/v1', 'daemonsets', True),
    'ClusterPolicy': ('/apis/nvidia.com/v1', 'clusterpolicies', False),
    'ClusterRole': ('/apis/rbac.authorization.k8s.io/v1', 'clusterroles', False),
    'ClusterRoleBinding': ('/apis/rbac.authorization.k8s.io/v1', 'clusterrolebindings', False),
    'Role': ('/apis/rbac.authorization.k8s.io/v1', 'roles', True),
    'RoleBinding': ('/apis/rbac.authorization.k8s.io/v1', 'rolebindings', True),
    'ValidatingAdmissionPolicy': ('/apis/admissionregistration.k8s.io/v1', 'validatingadmissionpolicies', False),
    'ValidatingAdmissionPolicyBinding': ('/apis/admissionregistration.k8s.io/v1', 'validatingadmissionpolicybindings', False)}
SHORT = {'DaemonSet': 'ds', 'ConfigMap': 'cm'}
FLAGS = {  # of kubectl that are known here: True with a value
    '--namespace': True, '-n': True, '-l': True, '-o': True, '--field-selector': True, '-f': True, '--tail': True, '-c': True, '--context': True,
    '--timeout': True, '--for': True, '--raw': True, '--type': True, '--patch': True, '--all-namespaces': False, '--ignore-not-found': False, '--overwrite': False, '--dry-run=client': False,
    '--wait=false': False}


class Failed(Exception):
    """kubectl ends with status 1, and says so."""


def kind_of(word):
    for kind, (_, plural, _) in RESOURCES.items():
        if word.split('.')[0] in (plural, kind.lower(), SHORT.get(kind)):
            return kind
    raise Failed(f'error: the server doesn\'t have a resource type "{word}"')


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        words, _, text = self.rfile.read().decode().partition('\1')
        answer = self.server.cluster.answer(words.split('\0'), text)
        out = answer['out'].encode()
        self.wfile.write(b'%d %d\n' % (answer['status'], len(out)) + out + answer['err'].encode())


class Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Cluster:
    def __init__(self, folder, runtime, store=None):
        self.store = store or Store()
        self.runtime = runtime
        self.commands = []  # every command line, as one string
        self.templates = []  # every (form, template, object) that was asked for
        self.faults = []  # (pattern of a command line, what kubectl says)
        self.lock = threading.RLock()
        self.pods = {}  # (namespace, name) of what the runtime has started → the pod as started
        self.seen = 0  # the store's version
        runtime.cluster = self
        socket = os.path.join(folder, 'kubectl.sock')
        programs = os.path.join(folder, 'bin')
        os.makedirs(programs)
        os.symlink(os.path.join(HERE, 'kubectl'), os.path.join(programs, 'kubectl'))
        self.programs = programs
        self.environment = {'PATH': f'{programs}:/usr/bin:/bin', 'KUBECTL_CLUSTER': socket, 'HOME': folder, 'LC_ALL': 'C.UTF-8'}
        self.server = Listener(socket, Conversation)
        self.server.cluster = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True)
        self.thread.start()
        self.apply({'kind': 'Namespace', 'metadata': {'name': 'default'}})

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for pod in list(self.pods.values()):
            self.runtime.stop(pod)

    def fail(self, pattern, text, times=1):
        """The next commands that fit end with |text|."""
        self.faults += [(pattern, text)] * times

    def changes(self):
        """The commands that may change something."""
        return [one for one in self.commands if not re.search(r'(^| )(get|logs|exec)( |$)|--dry-run=client', one)]

    # ---- objects ----

    def collection(self, kind, namespace):
        group, plural, is_inside = RESOURCES[kind]
        return f'{group}/namespaces/{namespace}/{plural}' if is_inside else f'{group}/{plural}'

    def collections(self, kind):
        group, plural, is_inside = RESOURCES[kind]
        pattern = f'{group}/namespaces/*/{plural}' if is_inside else f'{group}/{plural}'
        return sorted(name for name in self.store.collections if fnmatch.fnmatch(name, pattern))

    def get(self, kind, name, namespace='warpshare'):
        with self.store.lock:
            found = self.store.collections.get(self.collection(kind, namespace), {}).get(name)
            return json.loads(json.dumps(found)) if found else None

    def all(self, kind):
        with self.store.lock:
            return json.loads(json.dumps([one for collection in self.collections(kind)
                                          for one in self.store.collections[collection].values()]))

    def apply(self, wanted):
        """'created', 'configured' or 'unchanged'."""
        kind, name = wanted['kind'], wanted['metadata']['name']
        namespace = wanted['metadata'].get('namespace', 'default')
        with self.store.lock:
            if RESOURCES[kind][2] and not self.store.collections.get('/api/v1/namespaces', {}).get(namespace):
                raise Failed(f'Error from server (NotFound): error when creating "STDIN": namespaces "{namespace}" not found')
            before = self.get(kind, name, namespace)
            after, _ = self.store.apply(self.collection(kind, namespace), name, wanted, 'kubectl', True,
                                        namespace if RESOURCES[kind][2] else None)
            if before is None:
                return 'created'
            return 'unchanged' if before['metadata']['resourceVersion'] == after['metadata']['resourceVersion'] else 'configured'

    def patch(self, kind, name, patch, namespace='warpshare', status=False):
        with self.store.lock:
            collection = self.collection(kind, namespace)
            self.store.write(collection, name, merge(self.store.find(collection, name), patch), 'kubelet', 'status' if status else None)

    def delete(self, kind, name, namespace='warpshare'):
        with self.store.lock:
            self.store.delete(self.collection(kind, namespace), name)
            if kind == 'Namespace':
                for collection in list(self.store.collections):
                    if f'/namespaces/{name}/' in collection:
                        for inner in list(self.store.collections[collection]):
                            self.store.delete(collection, inner)

    def add_node(self, name, labels=None, **status):
        self.apply({'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': labels or {}}, 'status': {
            'allocatable': {'cpu': '4'}, 'capacity': {'cpu': '4'}, **status}})

    def add_pod(self, name, node, namespace='default', limits=None):
        self.apply({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'namespace': namespace}, 'spec': {
            'nodeName': node, 'containers': [{'name': 'main', 'resources': {'limits': limits or {}}}]}, 'status': {'phase': 'Running'}})

    # ---- the DaemonSet controller, and kubelet ----

    def reconcile(self):
        """As long as there is something to do."""
        while self.seen != self.store.version:
            self.seen = self.store.version
            self.place_pods()
            self.run_pods()
            self.runtime.settle()

    def place_pods(self):
        wanted = {}
        nodes = self.all('Node')
        for one in self.all('DaemonSet'):
            template = one['spec']['template']
            for node in nodes:
                if lands(template['spec'], node['metadata'].get('labels', {})):
                    name = f"{one['metadata']['name']}-{node['metadata']['name']}"
                    wanted[one['metadata']['namespace'], name] = (one, node)
        for pod in self.all('Pod'):
            key = pod['metadata']['namespace'], pod['metadata']['name']
            if pod['metadata'].get('annotations', {}).get('made-by') != 'daemonset':
                continue
            is_old = key in wanted and wanted[key][0]['spec']['updateStrategy']['type'] == 'RollingUpdate' and \
                pod['metadata']['annotations']['template'] != json.dumps(wanted[key][0]['spec']['template'])
            if key not in wanted or is_old:
                self.delete('Pod', key[1], key[0])
        for key, (one, node) in wanted.items():
            if self.get('Pod', key[1], key[0]):
                continue
            template = one['spec']['template']
            self.apply({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {
                'name': key[1], 'namespace': key[0], 'labels': template['metadata']['labels'],
                'annotations': {'made-by': 'daemonset', 'template': json.dumps(template)}}, 'spec': {
                    **template['spec'], 'nodeName': node['metadata']['name']}, 'status': {'phase': 'Pending'}})

    def run_pods(self):
        there = {(pod['metadata']['namespace'], pod['metadata']['name']): pod for pod in self.all('Pod')}
        for key, pod in list(self.pods.items()):
            if key not in there or there[key]['metadata']['uid'] != pod['metadata']['uid']:
                del self.pods[key]
                self.runtime.stop(pod)
        for key, pod in there.items():
            volumes = [one['configMap']['name'] for one in pod['spec'].get('volumes', []) if 'configMap' in one]
            is_ours = pod['metadata'].get('labels', {}).get('app.kubernetes.io/name', '').startswith('warpshare')
            if is_ours and key not in self.pods and all(self.get('ConfigMap', name, key[0]) for name in volumes):
                self.pods[key] = pod
                self.runtime.start(pod)

    def set_status(self, pod, **status):
        """Of a pod that is there still."""
        key = pod['metadata']['name'], pod['metadata']['namespace']
        if self.get('Pod', *key):
            self.patch('Pod', key[0], {'status': status}, key[1], status=True)

    # ---- kubectl ----

    def answer(self, words, text):
        with self.lock:
            self.commands.append(' '.join(words))
            try:
                fault = next((one for one in self.faults if re.search(one[0], self.commands[-1])), None)
                if fault:
                    self.faults.remove(fault)
                    raise Failed(fault[1])
                self.runtime.settle()
                self.reconcile()
                out = self.carry_out(words, text)
                status = 0
                if isinstance(out, tuple):
                    status, out = out
                self.reconcile()
                return {'status': status, 'out': out, 'err': f'command terminated with exit code {status}\n' if status else ''}
            except Refused as refused:
                return {'status': 1, 'out': '', 'err': f'Error from server ({refused.reason}): {refused.message}\n'}
            except Failed as failed:
                return {'status': 1, 'out': '', 'err': f'{failed}\n'}
            except Exception as error:  # for the test's output: the stand-in does not know this
                return {'status': 99, 'out': '', 'err': f'stand-in: {type(error).__name__}: {error}\n'}

    def carry_out(self, words, text):
        flags, rest, words = {}, [], list(words)
        while words:
            word = words.pop(0)
            if word == '--':
                rest += ['--'] + words
                break
            name, equals, value = word.partition('=')
            if not word.startswith('-'):
                rest.append(word)
            elif word in FLAGS:
                flags[word] = words.pop(0) if FLAGS[word] else True
            elif equals and FLAGS.get(name):
                flags[name] = value
            else:
                raise Failed(f'error: unknown flag: {word}')
        if '-n' in flags:
            flags['--namespace'] = flags.pop('-n')
        verb = rest.pop(0)
        return getattr(self, 'do_' + verb)(flags, rest, text)

    def names(self, flags, rest):
        """The objects that a command line means: (kind, namespace, name), and whether it is one that was named."""
        if '/' in rest[0]:
            kind, names = kind_of(rest[0].split('/')[0]), [rest[0].split('/')[1]]
        else:
            kind, names = kind_of(rest[0]), [one for one in rest[1:2] if '=' not in one and not one.endswith('-')]
        namespace = flags.get('--namespace', 'default')
        if names:
            return kind, [(namespace, names[0])], True
        found = []
        query = {'labelSelector': flags.get('-l', ''), 'fieldSelector': ''}
        for one in self.all(kind):
            inside = one['metadata'].get('namespace', namespace)
            if '--all-namespaces' not in flags and inside != namespace:
                continue
            fields = flags.get('--field-selector', '')
            unlike = re.findall(r'([\w.]+)!=(\w+)', fields)
            query['fieldSelector'] = ','.join(re.findall(r'[\w.]+=[^,!]+(?=,|$)', fields))
            if selected(one, query) and not any(str(jsonpath('{.%s}' % path, one)) == value for path, value in unlike):
                found.append((inside, one['metadata']['name']))
        return kind, found, False

    def get_raw(self, path):
        """Only what a pod answers, through the API server."""
        found = re.fullmatch(r'/api/v1/namespaces/([^/]+)/pods/([^/:]+):(\d+)/proxy/metrics', path)
        assert found, path
        pod = self.get('Pod', found[2], found[1])
        if not pod:
            raise Refused(404, 'NotFound', f'pods "{found[2]}" not found')
        ports = [port['containerPort'] for one in pod['spec']['containers'] for port in one.get('ports', [])]
        text = self.runtime.metrics(pod) if int(found[3]) in ports else None
        if text is None:
            raise Failed('Error from server (ServiceUnavailable): error trying to reach service: dial tcp: connect: connection refused')
        return text

    def do_get(self, flags, rest, _):
        if '--raw' in flags:
            return self.get_raw(flags['--raw'])
        kind, found, is_one = self.names(flags, rest)
        objects = [self.get(kind, name, namespace) for namespace, name in found]
        if is_one and objects == [None]:
            if '--ignore-not-found' in flags:
                return ''
            raise Refused(404, 'NotFound', f'{RESOURCES[kind][1]} "{found[0][1]}" not found')
        value = objects[0] if is_one else {'kind': 'List', 'items': objects}
        output = flags.get('-o', '')
        if output == 'name':
            return ''.join(f'{kind.lower()}/{one["metadata"]["name"]}\n' for one in objects)
        if output == 'yaml':
            return yaml.safe_dump(value, width=100000)
        form, _, template = output.partition('=')
        self.templates.append((form, template, value))
        return {'jsonpath': jsonpath, 'go-template': go_template}[form](template, value)

    def read(self, flags, text):
        if flags['-f'] != '-':
            with open(flags['-f'], encoding='utf-8') as file:
                text = file.read()
        return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]

    def do_apply(self, flags, _, text):
        said = ''
        for one in self.read(flags, text):
            namespace = one['metadata'].get('namespace', 'default')
            if '--dry-run=client' in flags:
                done = ('configured' if self.get(one['kind'], one['metadata']['name'], namespace) else 'created') + ' (dry run)'
            else:
                done = self.apply(one)
            group = RESOURCES[one['kind']][0].split('/')[2] if RESOURCES[one['kind']][0].startswith('/apis') else ''
            said += f"{one['kind'].lower()}{'.' if group else ''}{group}/{one['metadata']['name']} {done}\n"
        return said

    def do_delete(self, flags, rest, text):
        if '-f' in flags:
            found = [(one['kind'], one['metadata'].get('namespace', 'default'), one['metadata']['name'])
                     for one in self.read(flags, text)]
        else:
            kind, names, _ = self.names(flags, rest)
            found = [(kind, *one) for one in names]
        said = ''
        for kind, namespace, name in found:
            if self.get(kind, name, namespace):
                self.delete(kind, name, namespace)
                said += f'{kind.lower()} "{name}" deleted\n'
            elif '--ignore-not-found' not in flags:
                raise Refused(404, 'NotFound', f'{RESOURCES[kind][1]} "{name}" not found')
        return said

    def put_metadata(self, flags, rest, field, done):
        kind, ((namespace, name),), is_one = self.names(flags, rest)
        assert is_one
        before = self.get(kind, name, namespace)
        if before is None:
            raise Refused(404, 'NotFound', f'{RESOURCES[kind][1]} "{name}" not found')
        had = before['metadata'].get(field, {})
        changes = {}
        for pair in rest[2:]:
            key, equals, value = pair.partition('=')
            if not equals:
                changes[key[:-1]] = None
            elif key in had and had[key] != value and '--overwrite' not in flags:
                raise Failed(f"error: '{key}' already has a value ({had[key]}), and --overwrite is false")
            else:
                changes[key] = value
        self.patch(kind, name, {'metadata': {field: changes}}, namespace)
        return f'{kind.lower()}/{name} {done}\n'

    def do_patch(self, flags, rest, _):
        """A merge, of one object."""
        kind, ((namespace, name),), is_one = self.names(flags, rest)
        assert is_one and flags['--type'] == 'merge'
        if not self.get(kind, name, namespace):
            raise Refused(404, 'NotFound', f'{RESOURCES[kind][1]} "{name}" not found')
        self.patch(kind, name, json.loads(flags['--patch']), namespace)
        return f'{kind.lower()}/{name} patched\n'

    def do_label(self, flags, rest, _):
        return self.put_metadata(flags, rest, 'labels', 'labeled')

    def do_annotate(self, flags, rest, _):
        return self.put_metadata(flags, rest, 'annotations', 'annotated')

    def do_describe(self, flags, rest, _):
        """Of a node: what people look for there."""
        kind, ((_, name),), is_one = self.names(flags, rest)
        assert kind == 'Node' and is_one
        node = self.get(kind, name)
        if node is None:
            raise Refused(404, 'NotFound', f'nodes "{name}" not found')
        pods = [one for one in self.all('Pod') if one['spec'].get('nodeName') == name]
        tables = ''.join(f'{field.capitalize()}:\n' + ''.join(f'  {key}:  {value}\n' for key, value in sorted(node['status'][field].items()))
                         for field in ('capacity', 'allocatable'))
        return (f'Name:  {name}\nLabels:  ' + '\n         '.join(f'{key}={value}' for key, value in node['metadata']['labels'].items()) +
                f'\n{tables}Non-terminated Pods:  ({len(pods)} in total)\nAllocated resources:\n  Resource  Requests  Limits\n')

    def do_rollout(self, flags, rest, _):
        """Of a DaemonSet whose pods are all there; kubectl would wait."""
        assert rest[0] in ('status', 'restart')
        _, ((namespace, name),), _ = self.names(flags, rest[1:])
        found = self.get('DaemonSet', name, namespace)
        if found is None:
            raise Refused(404, 'NotFound', f'daemonsets.apps "{name}" not found')
        if rest[0] == 'restart':
            self.patch('DaemonSet', name, {'spec': {'template': {'metadata': {'annotations': {
                'kubectl.kubernetes.io/restartedAt': str(self.store.version)}}}}}, namespace)
            return f'daemonset.apps/{name} restarted\n'
        if found['spec']['updateStrategy']['type'] != 'RollingUpdate':
            raise Failed('error: rollout status is only available for RollingUpdate strategy type')
        return f'daemon set "{name}" successfully rolled out\n'

    def do_wait(self, flags, rest, _):
        _, found, _ = self.names(flags, rest)
        if not found:
            raise Failed('error: no matching resources found')
        return ''.join(f'pod/{name} condition met\n' for _, name in found)

    def pod(self, flags, rest):
        kind, _, name = rest[0].rpartition('/')
        namespace = flags.get('--namespace', 'default')
        if kind in ('ds', 'daemonset'):  # one pod of it
            rest = [next((one['metadata']['name'] for one in self.all('Pod') if one['metadata']['namespace'] == namespace and
                          one['metadata']['name'].startswith(name + '-')), name), *rest[1:]]
        pod = self.get('Pod', rest[0], namespace)
        if not pod:
            raise Refused(404, 'NotFound', f'pods "{rest[0]}" not found')
        containers = [one['name'] for one in pod['spec']['containers']]
        if flags.get('-c', containers[0]) not in containers:
            raise Failed(f"error: container {flags['-c']} is not valid for pod {rest[0]}")
        return pod

    def do_logs(self, flags, rest, _):
        """Of one pod all lines; of those that a label selects the last ten of each, unless told otherwise."""
        names = rest[:1]
        if '-l' in flags:
            assert not rest
            names = [name for _, name in self.names(flags, ['pods'])[1]]
        tail = int(flags.get('--tail', 10 if '-l' in flags else -1))
        lines = [self.runtime.logs(self.pod(flags, [name])).splitlines(keepends=True) for name in names]
        return ''.join(''.join(one if tail < 0 else one[-tail:]) for one in lines)

    def do_exec(self, flags, rest, _):
        status, text = self.runtime.exec(self.pod(flags, rest), rest[rest.index('--') + 1:])
        return status, text
