# SPDX-License-Identifier: Apache-2.0
"""A node whose GPUs are given out by dynamic resource allocation, the whole path: the agent's ResourceSlices in the stand-in API server,
the scheduler, kubelet's DRA manager, a container runtime that reads CDI files, and CUDA programs in the containers.

    claim = node.claim('train', {'memory': '10Gi', 'threadPercentage': '30'})
    pod = node.run(claim)
    assert pod.client().connected()['percentage'] == '30.0'
    pod.end()
"""
import itertools
import os
import time

import pytest

from cluster import NAME, cluster  # noqa: F401 -- a fixture
from container_options import ContainerOptions
from container_runtime import Cdi, Container
from dra_kubelet import CLAIMS, SLICES, DraKubelet, Failed
from kubelet import Pod
from mps_node import MpsNode
from node import DEADLINE
from scheduler import place

DRIVER = 'gpu.warpshare.dev'
CLASSES = '/apis/resource.k8s.io/v1/deviceclasses'
SHARED = 'shared.' + DRIVER
WHOLE = DRIVER


def device_class(name, type_):
    """Of devices of that type."""
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': name}, 'spec': {'selectors': [{'cel': {
        'expression': 'device.driver == "%s" && device.attributes["%s"].type == "%s"' % (DRIVER, DRIVER, type_)}}]}}


class Unschedulable(Exception):
    """No device of the node fits: the pod waits."""


class DraPod:
    """A pod whose container runs."""

    def __init__(self, node, pod, claims, container, cdi_ids):
        self.node, self.pod, self.claims, self.container, self.cdi_ids = node, pod, claims, container, cdi_ids

    @property
    def variables(self):
        return self.container.envs

    def client(self, *arguments, **variables):
        """A CUDA program in the container; None removes a variable. It starts only where the nodes are that CUDA opens."""
        missing = {'/dev/nvidiactl', '/dev/nvidia-uvm'} - self.container.nodes
        assert not missing, 'CUDA finds no GPU in the container: there is no %s' % ', '.join(sorted(missing))
        return self.node.start_client(self.pod, {**self.variables, **variables}, self.container.mounts, arguments)

    def end(self):
        """It ends, and all that goes with it: Unprepare, and claims that nobody uses any more are not allocated any more."""
        self.node.end(self)

    def vanish(self):
        """Is deleted with a grace period of 0: the scheduler gives to others what it had, and its Unprepare is yet to come (dra_kubelet.py)."""
        self.node.vanish(self)


class DraNode(MpsNode):
    pool = f'{NAME}/{DRIVER}'  # of our slices

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster
        self.cdi_folder = os.path.join(self.programs.folder, 'cdi')
        os.mkdir(self.cdi_folder)
        self.set_kubelet_root(self.programs.folder)
        self._names = itertools.count(1)
        cluster.api.serve_dra()
        for name, type_ in ((WHOLE, 'gpu'), (SHARED, 'shared-gpu')):
            cluster.api.put(CLASSES, device_class(name, type_))

    def set_kubelet_root(self, root):
        """kubelet's --root-dir, before anything starts."""
        self.kubelet.root = root
        self.dra = DraKubelet(self.cluster.api, NAME, root)

    # ---- what is published ----

    def slices(self):
        return [one for one in self.cluster.api.all(SLICES) if one['spec']['driver'] == DRIVER]

    def devices(self):
        """Name → device, of all slices."""
        return {device['name']: device for one in self.slices() for device in one['spec'].get('devices', [])}

    def wait_devices(self, *names):
        """Until these are published, and no others."""
        return self.cluster.api.wait_for(lambda: set(self.devices()) == set(names))

    # ---- claims ----

    def claim_of(self, name, namespace='default', **devices):
        """A ResourceClaim as its user writes it."""
        return self.cluster.api.put(CLAIMS % namespace, {
            'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name}, 'spec': {'devices': devices}})

    def claim(self, name, capacity=None, class_=SHARED, namespace='default', requests=None, config=None, admin=False):
        """One with one request, or with |requests|: name → (capacity, class). |admin|: by admin access."""
        requests = requests or {'gpu': (capacity, class_)}
        wanted = [
            {'name': request, 'exactly': {'deviceClassName': of, **({'adminAccess': True} if admin else {}),
                                          **({'capacity': {'requests': capacity}} if capacity else {})}}
            for request, (capacity, of) in requests.items()]
        return self.claim_of(name, namespace, requests=wanted, **({'config': config} if config else {}))

    def look(self, claim):
        """The claim as it is now; None: it was deleted."""
        return self.cluster.api.get(CLAIMS % claim['metadata']['namespace'], claim['metadata']['name'])

    def results(self, claim):
        """What it is given."""
        return self.look(claim)['status']['allocation']['devices']['results']

    def device_of(self, claim):
        result, = self.results(claim)
        return result['device']

    def status_of(self, claim):
        """What the driver says of its devices."""
        return self.look(claim)['status'].get('devices', [])

    def _write_status(self, claim, **fields):
        metadata = claim['metadata']
        return self.cluster.api.patch(CLAIMS % metadata['namespace'], metadata['name'], {'status': fields}, 'kube-scheduler', 'status')

    def _placed(self, claim):
        """The allocation that the scheduler finds, None where nothing fits."""
        api = self.cluster.api
        return place(claim, NAME, DRIVER, api.all(SLICES), api.all(CLASSES), api.all(CLAIMS % claim['metadata']['namespace']), api.release)

    def fits(self, claim):
        """The scheduler would give it something now."""
        return self._placed(self.look(claim)) is not None

    def schedule(self, claim, pod):
        """Allocates the claim if it is not, and reserves it for the pod. Raises Unschedulable."""
        claim = self.look(claim)
        status = claim.get('status') or {}
        if not status.get('allocation'):
            allocation = self._placed(claim)
            if allocation is None:
                raise Unschedulable('cannot allocate all claims: %s' % claim['metadata']['name'])
            self._write_status(claim, allocation=allocation)
        self.reserve(claim, pod)

    def reserve(self, claim, pod, allocation=None):
        """For the pod, allocated so if it is not yet."""
        user = {'resource': 'pods', 'name': pod.name, 'uid': pod.uid}
        reserved = (self.look(claim).get('status') or {}).get('reservedFor', [])
        self._write_status(claim, reservedFor=[*reserved, user], **({'allocation': allocation} if allocation else {}))

    def release(self, claim, pod):
        """As the controller of claims does when the pod is gone."""
        claim = self.look(claim)
        if claim is None:
            return
        left = [user for user in claim['status'].get('reservedFor', []) if user['uid'] != pod.uid]
        self._write_status(claim, reservedFor=left, **({} if left else {'allocation': None}))

    # ---- pods ----

    def create(self, *claims, request=None):
        """A pod that uses these claims, or only this request of each; nothing has become of it yet."""
        part = {'request': request} if request else {}
        namespace = claims[0]['metadata']['namespace']
        made = self.cluster.api.put('/api/v1/namespaces/%s/pods' % namespace, {
            'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'pod-%d' % next(self._names)}, 'spec': {
                'nodeName': NAME, 'resourceClaims': [
                    {'name': 'claim-%d' % i, 'resourceClaimName': claim['metadata']['name']} for i, claim in enumerate(claims)],
                'containers': [{'name': 'main', 'image': 'x', 'resources': {'claims': [
                    {'name': 'claim-%d' % i, **part} for i in range(len(claims))]}}]}})
        pod = Pod(made['metadata']['name'], namespace)
        pod.uid = made['metadata']['uid']
        pod.object = made
        if self.kubelet.serves_pods:
            self.kubelet.pods[pod.name] = pod
        return pod

    def admit(self, *claims, request=None):
        """A pod that the scheduler has put here."""
        pod = self.create(*claims, request=request)
        for claim in claims:
            self.schedule(claim, pod)
        return pod

    def admit_replica(self, pod):
        """One with a replica of the device plugin's."""
        return super().admit(pod)

    def prepare(self, pod, *claims):
        """One attempt of kubelet's; raises Failed with what the pod's event says."""
        return self.dra.prepare(pod, [(pod.namespace, claim['metadata']['name']) for claim in claims])

    def run(self, *claims):
        """A pod with a container that has these claims, by one attempt of kubelet's."""
        return self.run_pod(self.admit(*claims), *claims)

    def run_pod(self, pod, *claims):
        try:
            known = self.prepare(pod, *claims)
        except Failed as failed:
            pytest.fail('%s\n%s' % (failed, self.logs()))
        ids = [id_ for claim in known for id_ in claim.cdi_ids()]
        made = DraPod(self, pod, claims, self.container_of(ids), ids)
        made.claims_known = known
        return made

    def container_of(self, cdi_ids):
        """What the runtime makes of these names now, also when a container of the pod starts anew."""
        options = ContainerOptions({})
        options.cdi_devices = cdi_ids
        return Container(options, self.cdi_folder)

    def refusal(self, *claims):
        """Why kubelet's first attempt fails. The pod goes, and frees what it was given."""
        pod = self.admit(*claims)
        with pytest.raises(Failed) as raised:
            self.prepare(pod, *claims)
        self.end(DraPod(self, pod, claims, None, []))
        return str(raised.value)

    def end(self, pod):
        for client in self.clients:
            if client.pod is pod.pod:
                client.end()
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                self.dra.unprepare(pod.pod)
                break
            except Failed as failed:
                assert time.monotonic() < deadline, '%s\n%s' % (failed, self.logs())
                time.sleep(0.1)
        self.vanish(pod)

    def vanish(self, pod):
        self.cluster.api.delete('/api/v1/namespaces/%s/pods' % pod.pod.namespace, pod.pod.name)
        for claim in pod.claims:
            self.release(claim, pod.pod)

    def cdi_devices(self):
        """The names that the files of the folder have."""
        return sorted(Cdi(self.cdi_folder).devices)

    # ---- the end ----

    def finish(self):
        faults = super().finish()
        self.dra.stop()
        return faults


@pytest.fixture
def node(cluster):  # noqa: F811
    made = DraNode(cluster)
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)
