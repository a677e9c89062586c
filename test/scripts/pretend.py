# SPDX-License-Identifier: Apache-2.0
"""Nodes whose agent and supervisor do what they are told to: for the branches of the scripts. The real ones are in test_simulated.py.

As kubelet does, it starts no container of an image whose name is none, or that it cannot have: the pod waits, and its status says why. It
counts what the agent offers: under a reserve fewer than there are, each of which the agent's metrics name.
"""
import re

import yaml

COMPONENT = r'[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*'
IMAGE = re.compile(  # as container runtimes read a name: https://github.com/distribution/reference
    rf'(?:(?=[^/]*[.:]|localhost/)[A-Za-z0-9.-]+(?::\d+)?/)?{COMPONENT}(?:/{COMPONENT})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?'
    r'(?:@sha256:[0-9a-f]{64})?')

LABEL = 'nvidia.com/device-plugin.config'


class Pretend:
    def __init__(self):
        self.cluster = None
        self.gpus = 4
        self.is_stuck = False       # the agent tells nothing
        self.refuses = None         # why the agent refuses the configuration
        self.lost = 0               # so many replicas are unhealthy
        self.behind = 0             # so many healthy replicas kubelet has not heard of
        self.unusable = {}          # image: (reason, message) of the container that waits for it
        self.is_mute = False        # the agent's metrics cannot be had
        self.offered_too = {}       # with |counts|: what the agent offers beside them
        self.offered = {}           # node: {resource: its healthy, reserved and unhealthy devices}, as the agent says
        self.counts = None          # what kubelet counts, instead of what follows
        self.pods_are_ready = True
        self.pods_stay = False      # those that are to end do not
        self.phase = 'Succeeded'    # of the pod that cleans up
        self.daemons = (0, 'DAEMON  STATE\nGPU-0   ready\n')
        self.memory = None          # the supervisor's log, instead of the usual
        self.running = {}           # (node, component): pod
        self.started = []           # pods of `warpshare uninstall`, as applied

    def start(self, pod):
        labels, node = pod['metadata']['labels'], pod['spec']['nodeName']
        if self.is_waiting(pod):
            return
        if labels['app.kubernetes.io/name'] == 'warpshare-uninstall':
            self.started.append(pod)
            self.cluster.set_status(pod, phase=self.phase)
            return
        self.running[node, labels['app.kubernetes.io/component']] = pod
        self.cluster.set_status(pod, phase='Running', containerStatuses=[{'ready': self.pods_are_ready}])

    def is_waiting(self, pod):
        """For an image: the first container whose image is not to be had, as the status of the pod says it."""
        for field, statuses in (('initContainers', 'initContainerStatuses'), ('containers', 'containerStatuses')):
            for one in pod['spec'].get(field, []):
                image = one['image']
                trouble = self.unusable.get(image) if IMAGE.fullmatch(image) else (
                    'InvalidImageName', f'Failed to apply default image tag "{image}": couldn\'t parse image name')
                if trouble:
                    state = {'name': one['name'], 'image': image, 'ready': False, 'restartCount': 0,
                             'state': {'waiting': {'reason': trouble[0], 'message': trouble[1]}}}
                    later = [{'name': after['name'], 'ready': False, 'state': {'waiting': {'reason': 'PodInitializing'}}}
                             for after in pod['spec']['containers'] if field == 'initContainers']
                    self.cluster.set_status(pod, phase='Pending', **{'containerStatuses': later, statuses: [state]})
                    return True
        return False

    def stop(self, pod):
        labels, node = pod['metadata']['labels'], pod['spec']['nodeName']
        if self.running.pop((node, labels.get('app.kubernetes.io/component')), None) and self.pods_stay:
            self.cluster.apply({key: value for key, value in pod.items() if key != 'metadata'} | {'metadata': {
                'name': pod['metadata']['name'], 'namespace': pod['metadata']['namespace'], 'labels': labels}})

    def config(self, node):
        name = node['metadata'].get('labels', {}).get(LABEL, 'default')
        pod = self.running[node['metadata']['name'], 'agent']
        volume, = (one for one in pod['spec']['volumes'] if one['name'] == 'configs')
        found = self.cluster.get('ConfigMap', volume['configMap']['name'], pod['metadata']['namespace'])
        return (name, yaml.safe_load(found['data'][name])['sharing']['mps']) if found and name in found['data'] else (None, None)

    def operator_plugin(self, node):
        """{resource: count} of the plugin that the GPU Operator runs, with the image that kind has loaded; None without an operator."""
        policy = self.cluster.get('ClusterPolicy', 'cluster-policy')
        if not policy:
            return None
        plugin = policy['spec']['devicePlugin']
        if not re.fullmatch(r'docker\.io/library/warpshare:\d+\.\d+\.\d+', '{repository}/{image}:{version}'.format(**plugin)) or \
                node['metadata']['name'].endswith('-control-plane'):
            return {}
        named = plugin.get('config', {})
        key = node['metadata'].get('labels', {}).get(LABEL, named.get('default'))
        found = self.cluster.get('ConfigMap', named['name'], 'gpu-operator') if named.get('name') else None
        sharing = yaml.safe_load(found['data'][key])['sharing']['timeSlicing'] if found and key in found['data'] else None
        if not sharing:
            return {'nvidia.com/gpu': self.gpus}
        entry, = sharing['resources']
        return {entry['name'] + ('.shared' if sharing.get('renameByDefault') else ''): self.gpus * entry['replicas']}

    def offer(self, mps):
        """{resource: its healthy, reserved and unhealthy devices}; the formula is that of docs/mps.md."""
        replicas, is_individual = mps['resources'][0]['replicas'], mps.get('scope') == 'individual'
        units = 1 if is_individual else self.gpus
        reserve = mps.get('reserve', 'auto')
        is_strict = reserve == 'strict' or reserve == 'auto' and mps.get('provisioning', 'uniform') != 'uniform'
        most = min(mps.get('maxPerRequest') or (replicas + 1) // 2, replicas)
        reserved = max(units - 1, 0) * (most - 1) if is_strict else 0
        count = (units * replicas - reserved - self.lost, reserved, self.lost)
        return {f'nvidia.com/gpu{i}': count for i in range(self.gpus)} if is_individual else {'nvidia.com/gpu': count}

    def settle(self):
        for node in self.cluster.all('Node'):
            name = node['metadata']['name']
            if self.counts:
                self.offered[name] = {key: (int(value), 0, 0) for key, value in self.counts.items()} | self.offered_too
                gone = {key: None for key in node['status']['capacity'] if key.startswith('nvidia.com/')}
                self.cluster.patch('Node', name, {'status': {key: {**gone, **self.counts} for key in ('capacity', 'allocatable')}}, status=True)
                continue
            capacity = {key: '0' for key in node['status']['capacity'] if key.startswith('nvidia.com/')}
            allocatable = dict(capacity)
            self.offered[name] = {}
            for resource, count in (self.operator_plugin(node) or {}).items():
                capacity[resource] = allocatable[resource] = str(count)
            if (name, 'agent') in self.running and not self.is_stuck:
                config, mps = self.config(node)
                if not config:
                    continue
                self.cluster.patch('Node', name, {'metadata': {'annotations': {
                    'warpshare.dev/config': None if self.refuses else config, 'warpshare.dev/config-source': 'ConfigMap, by label',
                    'warpshare.dev/config-status': f'refused: {self.refuses}' if self.refuses else 'accepted'}}})
                if (name, 'mps') in self.running and not self.refuses:
                    self.offered[name] = self.offer(mps)
                    for resource, (healthy, reserved, unhealthy) in self.offered[name].items():
                        capacity[resource] = str(healthy + reserved + unhealthy)
                        allocatable[resource] = str(healthy - self.behind)
            self.cluster.patch('Node', name, {'status': {'capacity': capacity, 'allocatable': allocatable}}, status=True)

    def metrics(self, pod):
        """As the agent prints them; None if nobody answers there."""
        if self.is_mute or (pod['spec']['nodeName'], 'agent') not in self.running:
            return None
        return '# TYPE warpshare_resource_devices gauge\n' + ''.join(
            f'warpshare_resource_devices{{resource="{name}",health="{health}"}} {count}\n'
            for name, counts in self.offered.get(pod['spec']['nodeName'], {}).items()
            for health, count in zip(('healthy', 'reserved', 'unhealthy'), counts)) + \
            'warpshare_other{resource="x"} 1\n'

    def logs(self, pod):
        if pod['metadata']['labels']['app.kubernetes.io/name'] == 'warpshare-uninstall':
            return 'WHAT  WHERE  OUTCOME\nMPS   /mps   removed\n'
        if self.memory is not None:
            return self.memory
        _, mps = self.config(self.cluster.get('Node', pod['spec']['nodeName']))
        line = 'info  Set device pinned memory limit: device=%d, total_memory_gb=31.84, replicas=%d, limit_per_replica_mib=%d'
        replicas = mps['resources'][0]['replicas']
        return 'something else\n' + ''.join(line % (i, 7, 1) + '\n' + line % (i, replicas, 32605 // replicas) + '\n'
                                            for i in range(self.gpus))

    def exec(self, pod, words):
        assert words == ['warpshare', 'mps', 'status'] and pod['metadata']['labels']['app.kubernetes.io/component'] == 'mps'
        return self.daemons
