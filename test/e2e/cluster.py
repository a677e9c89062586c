# SPDX-License-Identifier: Apache-2.0
"""A node in a cluster: the stand-in API server, with exactly the rights of deploy/rbac.json and the policy that ties writes to the node,
and the node's object in it."""
import pytest

from apiserver import ApiServer, agent_rules
from kubelet import Pod
from own_node_policy import policy_of

NODES = '/api/v1/nodes'
NAME = 'n1'


class Cluster:
    def __init__(self, folder):
        self.api = ApiServer(folder)
        self.api.allow(agent_rules())
        self.api.policy = policy_of(self.api, NAME)
        self.register()

    def register(self):
        """As kubelet does when the node is not there."""
        self.api.put(NODES, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': NAME}, 'spec': {}, 'status': {
            'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'KubeletReady'}]}}, manager='kubelet')

    def make_anew(self):
        """Somebody deleted the node, and kubelet registers again: another object of that name."""
        self.api.delete(NODES, NAME)
        self.register()

    def options(self, **identity):
        """Of an agent that is in it; |identity|: ApiServer.kubeconfig()."""
        return ['--kubeconfig', self.api.kubeconfig(**identity), '--node-name', NAME]

    def node(self):
        return self.api.get(NODES, NAME)

    def create_pod(self, kubelet, name, namespace='default', annotations=None, env=None, labels=None, mounts=()):
        """As its user wrote it; kubelet knows it by its UID, and admits its container main later."""
        made = self.api.put('/api/v1/namespaces/%s/pods' % namespace, {
            'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'annotations': annotations or {}, 'labels': labels or {}},
            'spec': {'nodeName': NAME, 'containers': [{'name': 'main', 'image': 'x', 'env': [
                {'name': key, 'value': value} for key, value in (env or {}).items()], 'volumeMounts': [
                    {'name': 'volume-%d' % i, 'mountPath': path} for i, path in enumerate(mounts)]}]}})
        kubelet.pods[name] = Pod(name, namespace)
        kubelet.pods[name].uid = made['metadata']['uid']
        kubelet.pods[name].object = made

    def events(self, reason=None, namespace='default', kind=None):
        return [event for event in self.api.all('/api/v1/namespaces/%s/events' % namespace)
                if reason in (None, event['reason']) and kind in (None, event['involvedObject']['kind'])]

    def wait_event(self, reason, namespace='default', kind='Node', count=1):
        """The newest event of that reason, as soon as there are so many of them."""
        return self.api.wait_for(lambda: (self.events(reason, namespace, kind)[count - 1:] or [None])[-1])

    def condition(self, type_):
        found = [one for one in self.node()['status']['conditions'] if one['type'] == type_]
        assert len(found) <= 1
        return found[0] if found else None

    def taints(self):
        return self.node()['spec'].get('taints') or []

    def annotations(self):
        """Of the node, but those that tell its configuration."""
        return {key: value for key, value in (self.node()['metadata'].get('annotations') or {}).items()
                if not key.startswith('warpshare.dev/config')}

    def edits(self):
        """Requests that change the node by what was read of it: those of its taints."""
        return [one for one in self.api.asked('patch', 'nodes') if one.content_type == 'application/merge-patch+json']

    def wait_configured(self):
        """Until its configuration is told, so that nothing more is heard of it."""
        self.api.wait_for(lambda: 'warpshare.dev/config-status' in (self.node()['metadata'].get('annotations') or {}))

    def refused(self):
        """Requests that the rights did not allow."""
        return [(one.verb, one.path) for one in self.api.requests if one.status == 403]


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    refused = made.refused()
    made.api.close()
    assert not refused, 'deploy/rbac.json or the policy does not allow: %s' % refused
