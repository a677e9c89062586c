# SPDX-License-Identifier: Apache-2.0
"""Pods of the test's own, in a namespace of its own, which takes them all with it."""
from kube import Failed

NAMESPACE = 'warpshare-cluster-test'
TELL = ['sh', '-c', 'env; echo --; exec sleep 3600']  # its environment into its log, then nothing


class Pods:
    def __init__(self, kube, image):
        self.kube, self.image = kube, image
        self.path = f'/api/v1/namespaces/{NAMESPACE}/pods'

    def start(self, name, limits=None, command=None, role='test', claims=None, annotations=None):
        """|claims|: {name in the pod: ResourceClaimTemplate}."""
        container = {'name': 'main', 'image': self.image, 'imagePullPolicy': 'IfNotPresent', 'command': command or TELL,
                     'resources': {'limits': {key: str(value) for key, value in (limits or {}).items()}}}
        spec = {'restartPolicy': 'Never', 'terminationGracePeriodSeconds': 1, 'automountServiceAccountToken': False,
                'tolerations': [{'operator': 'Exists'}], 'containers': [container]}
        if claims:
            container['resources']['claims'] = [{'name': one} for one in claims]
            spec['resourceClaims'] = [{'name': one, 'resourceClaimTemplateName': template} for one, template in claims.items()]
        return self.kube.request('POST', self.path, {
            'apiVersion': 'v1', 'kind': 'Pod', 'spec': spec,
            'metadata': {'name': name, 'labels': {'role': role}, 'annotations': annotations or {}}})

    def all(self):
        """Those of start(), and not those of a DaemonSet."""
        return self.kube.items(f'{self.path}?labelSelector=role')

    def get(self, name):
        return self.kube.get(f'{self.path}/{name}')

    def wait(self, name, *phases):
        def look():
            pod = self.get(name)
            status = pod['status']
            return status.get('phase') in phases and pod, f'{status.get("phase")} {status.get("reason", "")} {status.get("message", "")} ' \
                f'{[one.get("message") for one in status.get("conditions", [])]} ' \
                f'{[one.get("state") for one in status.get("containerStatuses", [])]}'
        return self.kube.wait(f'pod {name} is {" or ".join(phases)}', look)

    def run(self, name, limits=None, **more):
        """Started, and running: its environment."""
        self.start(name, limits, **more)
        self.wait(name, 'Running')
        return self.environment(name)

    def environment(self, name):
        def look():
            lines = self.kube.kubectl('-n', NAMESPACE, 'logs', name).split('\n')
            return '--' in lines and dict(line.split('=', 1) for line in lines[:lines.index('--')] if '=' in line)
        return self.kube.wait(f'pod {name} tells its environment', look)

    def shell(self, name, command):
        return self.kube.kubectl('-n', NAMESPACE, 'exec', name, '--', 'sh', '-c', command)

    def delete(self, name, wait=True, grace=1):
        try:
            self.kube.request('DELETE', f'{self.path}/{name}', {'gracePeriodSeconds': grace})
        except Failed as failed:
            if failed.status != 404:
                raise
        if wait:
            self.kube.wait(f'pod {name} is gone', lambda: not self.kube.find(f'{self.path}/{name}'))

    def clear(self):
        for pod in self.all():
            self.delete(pod['metadata']['name'], wait=False)
        self.kube.wait('no pods of the test', lambda: (not self.all(), str([pod['metadata']['name'] for pod in self.all()])))
