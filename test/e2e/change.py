# SPDX-License-Identifier: Apache-2.0
"""A change of the configuration while pods run, and what kubelet sees of it, message for message.

Of every resource it is known what it should have; a *gap* is a message in which a resource that the change does not touch has less
than that. There must be none, and no message at all.
"""
from node import GPU

OLD, NEW = 'nvidia.com/gpu.old', 'nvidia.com/gpu.new'
OTHER = 'nvidia.com/gpu.other'


def share(kind, *entries, **more):
    """|entries|: of a name, replicas and GPUs by index."""
    return {kind: {'resources': [
        {'name': GPU, **({'rename': name} if name else {}), 'devices': [str(index) for index in indices], 'replicas': replicas}
        for name, replicas, indices in entries], **more}}


def config(*sections, **flags):
    """The sections of |sharing| in one configuration."""
    whole = {'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps', **flags}}
    for section in sections:
        for kind, content in section.items():
            known = whole.setdefault('sharing', {}).setdefault(kind, {**content, 'resources': []})
            known['resources'] = known['resources'] + content['resources']
    return whole


class Watch:
    """What kubelet is told from now on, and whether anybody lost anything."""

    def __init__(self, node, untouched):
        self.node = node
        self.kubelet = node.kubelet
        with self.kubelet.changed:
            self.start = len(self.kubelet.messages)
            self.ended = len(self.kubelet.ended)
            self.right = {resource: sum(self.kubelet.devices[resource].values()) for resource in untouched}
        self.answers = {}

    def remember(self, pod, resource):
        """What the pod holds; from here on it must not change."""
        container, = self.kubelet.pods[pod].containers.values()
        self.answers[pod] = (resource, list(container.devices[resource]))

    def messages(self):
        with self.kubelet.changed:
            return self.kubelet.messages[self.start:]

    def check(self):
        """Untouched resources have heard nothing, and no message has lost an id that is held. The number of gaps."""
        gaps = 0
        for message in self.messages():
            if message.resource in self.right:
                gaps += sum(message.healthy.values()) < self.right[message.resource]
            for pod, (resource, ids) in self.answers.items():
                if message.resource == resource and pod in self.kubelet.pods:
                    missing = set(ids) - set(message.healthy)
                    assert not missing, '%s holds %s, which %s lost\n%s' % (pod, missing, resource, self.node.logs())
        heard = [message.resource for message in self.messages() if message.resource in self.right]
        assert not heard, 'untouched, and told something: %s\n%s' % (heard, self.node.logs())
        with self.kubelet.changed:
            for resource, right in self.right.items():
                gaps += sum(self.kubelet.devices[resource].values()) < right
        assert gaps == 0, self.node.logs()
        return gaps


def free(kubelet, resource):
    """What kubelet could give now, as the scheduler sees it: allocatable less what pods asked for."""
    with kubelet.changed:
        held = sum(len(pod.held(resource)) for pod in kubelet.pods.values())
        return max(0, sum(kubelet.devices.get(resource, {}).values()) - held)


def change(node, content):
    before = node.agent.count('resource name=')
    node.config(content)
    node.agent.hang_up()
    node.wait(lambda: node.agent.count('resource name=') > before, 'the change is looked at')
    node.in_force = content


def wait_settled(node):
    """All that was pending is carried out, or withdrawn."""
    node.wait(lambda: node.agent.count('change pending') == node.agent.count('event=ChangeCompleted'), 'nothing is pending')
