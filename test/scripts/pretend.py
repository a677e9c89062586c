"""Nodes whose agent and supervisor do what they are told to: for the branches of the scripts. The real ones are in test_simulated.py."""
import yaml

LABEL = 'nvidia.com/device-plugin.config'


class Pretend:
    def __init__(self):
        self.cluster = None
        self.gpus = 4
        self.is_stuck = False       # the agent tells nothing
        self.refuses = None         # why the agent refuses the configuration
        self.lost = 0               # so many replicas cannot be used
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
        if labels['app.kubernetes.io/name'] == 'warpshare-uninstall':
            self.started.append(pod)
            self.cluster.set_status(pod, phase=self.phase)
            return
        self.running[node, labels['app.kubernetes.io/component']] = pod
        self.cluster.set_status(pod, phase='Running', containerStatuses=[{'ready': self.pods_are_ready}])

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

    def settle(self):
        for node in self.cluster.all('Node'):
            name = node['metadata']['name']
            if self.counts:
                gone = {key: None for key in node['status']['capacity'] if key.startswith('nvidia.com/')}
                self.cluster.patch('Node', name, {'status': {key: {**gone, **self.counts} for key in ('capacity', 'allocatable')}}, status=True)
                continue
            capacity = {key: '0' for key in node['status']['capacity'] if key.startswith('nvidia.com/')}
            allocatable = dict(capacity)
            if (name, 'agent') in self.running and not self.is_stuck:
                config, mps = self.config(node)
                if not config:
                    continue
                self.cluster.patch('Node', name, {'metadata': {'annotations': {
                    'warpshare.dev/config': None if self.refuses else config, 'warpshare.dev/config-source': 'ConfigMap, by label',
                    'warpshare.dev/config-status': f'refused: {self.refuses}' if self.refuses else 'accepted'}}})
                if (name, 'mps') in self.running and not self.refuses:
                    replicas = mps['resources'][0]['replicas']
                    count = {f'nvidia.com/gpu{i}': replicas for i in range(self.gpus)} if mps.get('scope') == 'individual' else {
                        'nvidia.com/gpu': replicas * self.gpus}
                    capacity.update({key: str(value) for key, value in count.items()})
                    allocatable.update({key: str(value - self.lost) for key, value in count.items()})
            self.cluster.patch('Node', name, {'status': {'capacity': capacity, 'allocatable': allocatable}}, status=True)

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
