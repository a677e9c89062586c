# SPDX-License-Identifier: Apache-2.0
"""Warpshare on the cluster, by the manifests of deploy/manifests as docs/install.md applies them, and what of it is left.

    warpshare = Warpshare(kube, source, image, node)
    warpshare.install('simulated')
    warpshare.choose('unequal')
    warpshare.wait_counts({'nvidia.com/gpu': 22})
    warpshare.uninstall()
"""
import os
import re

import yaml

NAMESPACE = 'warpshare'
CHOICE = 'nvidia.com/device-plugin.config'
REPOSITORY = re.compile(r'registry\.example\.com/warpshare:[^ "\n]*')
CLUSTER_KINDS = {  # of the manifests' objects that no namespace takes with it
    'ClusterRole': 'rbac.authorization.k8s.io/v1/clusterroles', 'ClusterRoleBinding': 'rbac.authorization.k8s.io/v1/clusterrolebindings',
    'ValidatingAdmissionPolicy': 'admissionregistration.k8s.io/v1/validatingadmissionpolicies',
    'ValidatingAdmissionPolicyBinding': 'admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
    'DeviceClass': 'resource.k8s.io/v1/deviceclasses'}


def counts(node):
    """{resource: what kubelet lets pods have}, of NVIDIA's names; a name that is no longer served stays with 0, and is left out."""
    return {name: int(count) for name, count in node['status'].get('allocatable', {}).items()
            if name.startswith('nvidia.com/') and int(count)}


def own_marks(node):
    """Labels, annotations, taints and conditions of the node by which Warpshare can be seen."""
    own = re.compile(r'(^|\.)(warpshare\.(dev|io)/|nvidia\.com/(mig|gpu|mps|cuda|vgpu|gfd))')
    meta = node['metadata']
    return [f'label {one}' for one in meta.get('labels', {}) if own.search(one) and one != 'nvidia.com/gpu.present'] + \
        [f'annotation {one}' for one in meta.get('annotations', {}) if own.search(one)] + \
        [f'taint {one["key"]}' for one in node['spec'].get('taints', []) if 'warpshare' in one['key']] + \
        [f'condition {one["type"]}' for one in node['status'].get('conditions', []) if 'GPU' in one['type']]


class Warpshare:
    def __init__(self, kube, source, image, node):
        self.kube, self.source, self.image, self.node = kube, source, image, node
        self.manifest = None
        self.objects = []

    # ---- what it says ----

    def look(self):
        return self.kube.get(f'/api/v1/nodes/{self.node}')

    def counts(self):
        return counts(self.look())

    def wait_counts(self, expected):
        def question():
            found = self.counts()
            return found == expected, f'{found}, {self.annotations()}'
        self.kube.wait(f'kubelet counts {expected}', question)

    def annotations(self):
        return {key.removeprefix('warpshare.dev/'): value for key, value in self.look()['metadata'].get('annotations', {}).items()
                if key.startswith('warpshare.dev/')}

    def pods(self, component):
        """Those of the node that are not about to end."""
        found = self.kube.items(f'/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component={component}')
        return [one for one in found if one['spec'].get('nodeName') == self.node and not one['metadata'].get('deletionTimestamp')]

    def pod(self, component):
        """The one that is ready."""
        def question():
            found = self.pods(component)
            ready = [one for one in found if any(condition['type'] == 'Ready' and condition['status'] == 'True'
                                                 for condition in one['status'].get('conditions', []))]
            return len(ready) == 1 and ready[0], self.states(found)
        return self.kube.wait(f'one pod of the {component} is ready', question)

    @staticmethod
    def states(pods):
        return str([(one['metadata']['name'], one['status'].get('message'), [
            status.get('state') for field in ('initContainerStatuses', 'containerStatuses') for status in one['status'].get(field, [])])
                    for one in pods])

    def execute(self, component, *words):
        return self.kube.kubectl('-n', NAMESPACE, 'exec', self.pod(component)['metadata']['name'], '--', *words)

    def logs(self, component):
        return self.kube.kubectl('-n', NAMESPACE, 'logs', self.pod(component)['metadata']['name'])

    # ---- to install ----

    def text(self, path):
        with open(os.path.join(self.source, 'deploy', path), encoding='utf-8') as file:
            return REPOSITORY.sub(self.image, file.read())

    def apply(self, name):
        self.kube.kubectl('apply', '-f', '-', text=self.text(f'manifests/{name}.yaml'))

    def install(self, name):
        self.manifest = self.text(f'manifests/{name}.yaml')
        self.objects = list(yaml.safe_load_all(self.manifest))
        self.kube.kubectl('apply', '-f', '-', text=self.manifest)
        self.kube.kubectl('-n', NAMESPACE, 'rollout', 'status', 'daemonset/warpshare-agent', f'--timeout={self.kube.timeout}s')
        for component in ('agent', 'mps'):
            self.pod(component)

    def choose(self, name):
        """The configuration of that name, by the node's label; None: none."""
        self.kube.kubectl('label', 'node', self.node, '--overwrite', f'{CHOICE}={name}' if name else f'{CHOICE}-')

    # ---- and to remove, as docs/uninstall.md says ----

    def clean_node(self):
        """What the node's own pod of `warpshare uninstall` says."""
        self.kube.kubectl('-n', NAMESPACE, 'delete', 'daemonset', 'warpshare-agent', f'--timeout={self.kube.timeout}s')
        self.kube.kubectl('-n', NAMESPACE, 'delete', 'daemonset', 'warpshare-mps', f'--timeout={self.kube.timeout}s')
        self.kube.wait('the pods have ended', lambda: not self.kube.items(
            f'/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name=warpshare'))
        pod = yaml.safe_load(self.text('workloads/uninstall.yaml').replace('nodeName: NODE', f'nodeName: {self.node}'))
        del pod['spec']['imagePullSecrets'], pod['spec']['runtimeClassName']  # both are for nodes that have them
        if 'DeviceClass' in {one['kind'] for one in self.objects}:
            pod['spec']['containers'][0]['env'].append({'name': 'WARPSHARE_DRA', 'value': 'true'})
        path = f'/api/v1/namespaces/{NAMESPACE}/pods'
        self.kube.request('POST', path, pod)
        ended = self.kube.wait('warpshare uninstall has ended', lambda: next(
            (one for one in [self.kube.get(f'{path}/warpshare-uninstall')] if one['status'].get('phase') in ('Succeeded', 'Failed')), None))
        return ended['status']['phase'], self.kube.kubectl('-n', NAMESPACE, 'logs', 'warpshare-uninstall')

    def delete(self):
        if self.manifest:
            self.kube.kubectl('delete', '--ignore-not-found', f'--timeout={self.kube.timeout}s', '-f', '-', text=self.manifest)
            self.manifest = None

    def left(self):
        """What the cluster still has of it, each as one text."""
        found = [f'{kind} {one["metadata"]["name"]}' for kind, path in CLUSTER_KINDS.items() for one in self.kube.items(f'/apis/{path}')
                 if 'warpshare' in one['metadata']['name']]
        found += [f'ResourceSlice {one["metadata"]["name"]}' for one in self.kube.items('/apis/resource.k8s.io/v1/resourceslices')
                  if one['spec']['driver'].endswith('warpshare.dev')]
        for kind in ('roles', 'rolebindings'):
            found += [f'{kind} {one["metadata"]["namespace"]}/{one["metadata"]["name"]}'
                      for one in self.kube.items(f'/apis/rbac.authorization.k8s.io/v1/{kind}') if 'warpshare' in one['metadata']['name']]
        if self.kube.find(f'/api/v1/namespaces/{NAMESPACE}'):
            found.append(f'Namespace {NAMESPACE}')
        found += [f'{self.node}: {one}' for one in own_marks(self.look())]
        return found + [f'{self.node}: {name} {count}' for name, count in self.counts().items()]
