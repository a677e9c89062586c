# SPDX-License-Identifier: Apache-2.0
"""kubelet's device manager, played by grpcio: the other side of the agent in these tests.

It behaves as the device manager of Kubernetes 1.25 to 1.36 does (pkg/kubelet/cm/devicemanager), where a device plugin can
tell: it calls back inside Register before it answers, follows ListAndWatch with replacing semantics, never redials, and, as
long as |keyed_by| is "name", takes the end of any stream for the end of whatever plugin has the name by then.

It also keeps what pods hold, as the device manager does: PodResourcesLister tells of it on <root>/pod-resources/kubelet.sock, and the
checkpoint is written in the directory of the plugins. That directory is where it is whatever the root is (--root-dir); by default it
is below it.

A pod that ends leaves no trace by itself. The device manager takes it out of its memory (UpdateAllocatedDevices) at the next Allocate
and at the next List, not before its sources of pods are ready, and writes the checkpoint after an Allocate and after a message of
ListAndWatch, not after a List. (Hints for the topology manager clean the memory, too; here nobody asks for them.)

From 1.37 on it also tells what a pod's object says: v1alpha1.Pods on <root>/pods-api/pods-api.sock, where |serves_pods|. Of that there is
no recording: here the status has nothing of claims unless a test says so, and a pod has fields that no reader knows.
"""
import base64
import json
import os
import random
import stat
import threading
import time
import urllib.parse
import uuid
import zlib
from concurrent import futures

import grpc

import deviceplugin_pb2 as pb
import podresources_pb2 as pods_pb
import pods_pb2 as pod_pb
from container_options import ContainerOptions

# What kubelet gives a plugin for the connection and the options, inside Register.
CALLBACK_TIMEOUT = 10


class Plugin:
    """A plugin as its caller knows it: a connection of its own to one socket."""

    def __init__(self, path, resource='', authority='localhost'):
        self.path = path
        self.resource = resource
        options = [('grpc.use_local_subchannel_pool', 1), ('grpc.enable_retries', 0)]
        if authority is not None:
            options.append(('grpc.default_authority', authority))
        self.channel = grpc.insecure_channel('unix:' + path, options=options)
        self.get_options = self._unary('GetDevicePluginOptions', pb.Empty, pb.DevicePluginOptions)
        self.allocate = self._unary('Allocate', pb.AllocateRequest, pb.AllocateResponse)
        self.prefer = self._unary(
            'GetPreferredAllocation', pb.PreferredAllocationRequest, pb.PreferredAllocationResponse)
        self.pre_start = self._unary('PreStartContainer', pb.PreStartContainerRequest, pb.PreStartContainerResponse)
        self.list_and_watch = self.channel.unary_stream(
            '/v1beta1.DevicePlugin/ListAndWatch', request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.ListAndWatchResponse.FromString)
        self.stream = None

    def _unary(self, method, request, response):
        return self.channel.unary_unary(
            '/v1beta1.DevicePlugin/' + method, request_serializer=request.SerializeToString,
            response_deserializer=response.FromString)

    def allocate_ids(self, *containers, timeout=30):
        """The container responses for one list of ids each."""
        request = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers])
        return list(self.allocate(request, timeout=timeout).container_responses)

    def prefer_ids(self, available, size, required=(), timeout=30):
        request = pb.PreferredAllocationRequest(container_requests=[pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size)])
        return list(self.prefer(request, timeout=timeout).container_responses[0].deviceIDs)

    def close(self):
        self.channel.close()


# kubelet's own (pluginapi.KubeletPreStartContainerRPCTimeoutInSecs).
PRE_START_TIMEOUT = 30


class Message:
    """One ListAndWatch message."""

    def __init__(self, resource, endpoint, response):
        self.time = time.monotonic()
        self.resource = resource
        self.endpoint = endpoint
        self.size = response.ByteSize()
        self.healthy = {device.ID: device.health == 'Healthy' for device in response.devices}
        self.numa = {device.ID: [node.ID for node in device.topology.nodes] if device.HasField('topology') else None
                     for device in response.devices}
        self.repeated_ids = len(response.devices) - len(self.healthy)


class Container:
    """What one container has: for each resource its devices, and the plugin's answer."""

    def __init__(self, name, init, restartable):
        self.name = name
        self.init = init
        self.restartable = restartable      # of an init container: it goes on running beside the others
        self.devices = {}                   # resource -> ids
        self.responses = {}                 # resource -> ContainerAllocateResponse

    @property
    def is_listed(self):
        """kubelet says nothing of init containers that end."""
        return not self.init or self.restartable


class Pod:
    def __init__(self, name, namespace):
        self.name = name
        self.namespace = namespace
        self.uid = str(uuid.uuid4())
        self.object = {}                    # as the API server has it
        self.containers = {}                # name -> Container, in the order of their admission
        self.reusable = {}                  # resource -> ids of init containers, for the containers that come after

    def held(self, resource=None):
        return {device for container in self.containers.values() for name, ids in container.devices.items()
                if resource in (None, name) for device in ids}


def _varint(number):
    low = [number & 0x7f | 0x80]
    while number := number >> 7:
        low.append(number & 0x7f | 0x80)
    low[-1] &= 0x7f
    return bytes(low)


class Kubelet:
    CHECKPOINT = 'kubelet_internal_checkpoint'

    def __init__(self, directory, authority='localhost', keyed_by='name'):
        self.directory = directory
        self.socket = os.path.join(directory, 'kubelet.sock')
        self.keyed_by = keyed_by        # "name": kubelet 1.25 to 1.36; "path": the later ones
        self.cleanup_delay = 0.0        # from the end of a stream to what kubelet does about it
        self.register_delay = 0.0       # before a Register is looked at
        self.answer_delay = 0.0         # from the opening of the stream to the answer of Register
        self.refusal = None             # the text Register fails with
        self.opens_stream = True
        self.authority = authority      # "path": the raw socket path; "escaped": percent-encoded
        self.changed = threading.Condition()
        # Guarded by |changed|:
        self.attempts = []              # (time, endpoint, resource) of every Register, refused ones included
        self.registered = []            # the same, of those that were answered
        self.options = {}               # resource -> DevicePluginOptions of the newest
        self.newest = {}                # resource -> Plugin
        self.peers = []                 # every Plugin that is connected
        self.devices = {}               # resource -> {id: healthy}
        self.messages = []
        self.ended = []                 # (time, endpoint, grpc status) of every ended stream
        self.numa = {}                  # resource -> {id: NUMA nodes, or None}
        self.pods = {}                  # name -> Pod, of those that are active
        self.unnoticed = []             # pods that have ended, and that the device manager still has in its memory
        self.filed = []                 # pods that the checkpoint has
        self.sources_ready = True       # False: kubelet has just started, and does not know its pods yet
        self.list_calls = 0             # of PodResourcesLister/List, refused ones included
        self.list_refusal = None        # (grpc status, text) List fails with
        self.list_delay = 0.0           # before List is answered
        self.serves_pods = False        # from 1.37 on
        self.pod_calls = []             # UIDs of each Pods/GetPod, refused ones included
        self.pod_refusal = None         # (grpc status, text) GetPod fails with
        self.pod_delay = 0.0            # before GetPod is answered
        self.pod_change = bytes         # what becomes of an answer's bytes
        self.tells_claims = False       # the status that GetPod tells has the names of claims
        self.root = os.path.dirname(directory.rstrip('/'))
        self._server = None
        self._pods_server = None
        self._objects_server = None
        self._stopping = threading.Event()
        self._threads = []
        self._generation = 0

    @property
    def pod_resources(self):
        return os.path.join(self.root, 'pod-resources', 'kubelet.sock')

    @property
    def pods_api(self):
        return os.path.join(self.root, 'pods-api', 'pods-api.sock')

    # ---- life ----

    def start(self, clean=True):
        """Empties the directory as a starting kubelet does, and serves on a new kubelet.sock.

        The socket is made elsewhere and moved in: grpcio removes its sockets by name, at a time of its own choosing.
        """
        self._generation += 1
        self._stopping = threading.Event()
        if clean:
            self.clean_directory()
        with self.changed:  # the checkpoint is its memory
            self.unnoticed = [pod for pod in self.filed if self.pods.get(pod.name) is not pod]
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('v1beta1.Registration', {
            'Register': grpc.unary_unary_rpc_method_handler(
                self._register, request_deserializer=pb.RegisterRequest.FromString,
                response_serializer=pb.Empty.SerializeToString)})])
        self._pods_server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        self._pods_server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('v1.PodResourcesLister', {
            'List': grpc.unary_unary_rpc_method_handler(
                self._list_pods, request_deserializer=pods_pb.ListPodResourcesRequest.FromString,
                response_serializer=pods_pb.ListPodResourcesResponse.SerializeToString),
            'GetAllocatableResources': grpc.unary_unary_rpc_method_handler(
                self._list_allocatable, request_deserializer=pods_pb.AllocatableResourcesRequest.FromString,
                response_serializer=pods_pb.AllocatableResourcesResponse.SerializeToString)})])
        self._serve(self._pods_server, self.pod_resources, 'p')
        self.serve_pods()
        self._serve(self._server, self.socket, 'k')
        return self

    def serve_pods(self):
        if not self.serves_pods:
            return
        self._objects_server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        self._objects_server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('v1alpha1.Pods', {
            'GetPod': grpc.unary_unary_rpc_method_handler(
                self._get_pod, request_deserializer=pod_pb.GetPodRequest.FromString, response_serializer=bytes)})])
        self._serve(self._objects_server, self.pods_api, 'o')

    def _serve(self, server, socket, letter):
        assert len(socket) <= 107, 'kubelet could not listen on ' + socket
        os.makedirs(os.path.dirname(socket), 0o750, exist_ok=True)
        path = '%s.%s%d' % (self.directory.rstrip('/'), letter, self._generation)
        if not server.add_insecure_port('unix:' + path):
            raise OSError('cannot listen on ' + path)
        server.start()
        os.rename(path, socket)

    def clean_directory(self):
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
            except FileNotFoundError:
                pass

    def stop(self, remove_socket=True):
        """As if the process died: every connection breaks at once."""
        self._stopping.set()
        for socket in (self.socket, self.pod_resources, self.pods_api):
            try:
                if remove_socket:
                    os.unlink(socket)
            except FileNotFoundError:
                pass
        with self.changed:
            peers = list(self.peers)
        for peer in peers:
            peer.close()
        for server in (self._server, self._pods_server, self._objects_server):
            if server:
                server.stop(0).wait()
        self._server = self._pods_server = self._objects_server = None
        for thread in self._threads:
            thread.join(20)
        self._threads = []
        with self.changed:
            self.newest.clear()
            self.peers.clear()
            # The checkpoint brings the names back, without devices.
            self.devices = {resource: {} for resource in self.devices}
            self.changed.notify_all()

    def restart(self, gone=0.0):
        self.stop()
        if gone:
            time.sleep(gone)
        return self.start()

    # ---- Registration ----

    def _authority_for(self, path):
        if self.authority == 'path':
            return path
        if self.authority == 'escaped':
            return urllib.parse.quote(path, safe='')
        return self.authority

    def _register(self, request, context):
        stopping = self._stopping
        with self.changed:
            self.attempts.append((time.monotonic(), request.endpoint, request.resource_name))
            self.changed.notify_all()
        if request.version != 'v1beta1':
            context.abort(grpc.StatusCode.UNKNOWN, 'requested API version "%s" is not supported by kubelet. '
                          'Supported version is ["v1beta1"]' % request.version)
        if self.refusal:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        if self.register_delay and stopping.wait(self.register_delay):
            context.abort(grpc.StatusCode.UNAVAILABLE, 'kubelet is stopping')
        path = os.path.join(self.directory, request.endpoint)
        if not os.path.exists(path):
            # kubelet would try for its ten seconds, and then say so.
            context.abort(grpc.StatusCode.UNKNOWN, 'failed to dial device plugin: %s' % path)
        plugin = Plugin(path, request.resource_name, self._authority_for(path))
        try:
            grpc.channel_ready_future(plugin.channel).result(CALLBACK_TIMEOUT)
            options = plugin.get_options(pb.Empty(), timeout=CALLBACK_TIMEOUT)
        except (grpc.RpcError, grpc.FutureTimeoutError) as error:
            plugin.close()
            context.abort(grpc.StatusCode.UNKNOWN, 'failed to get device plugin options: %s' % error)
        with self.changed:
            self.options[plugin.resource] = options
            self.newest[plugin.resource] = plugin
            self.peers.append(plugin)
            self.devices.setdefault(plugin.resource, {})
            self.registered.append((time.monotonic(), request.endpoint, request.resource_name))
            self.changed.notify_all()
        if self.opens_stream:
            thread = threading.Thread(target=self._watch, args=(plugin, stopping), daemon=True)
            thread.start()  # first: stop() joins what is listed
            self._threads.append(thread)
        stopping.wait(self.answer_delay)
        return pb.Empty()

    # ---- ListAndWatch ----

    def _watch(self, plugin, stopping):
        endpoint = os.path.basename(plugin.path)
        status = grpc.StatusCode.OK
        try:
            plugin.stream = plugin.list_and_watch(pb.Empty())
            for response in plugin.stream:
                message = Message(plugin.resource, endpoint, response)
                with self.changed:
                    self.messages.append(message)
                    # Whichever stream it came from: kubelet does not ask.
                    self.devices[plugin.resource] = dict(message.healthy)
                    self.numa[plugin.resource] = message.numa
                    self._write_checkpoint()
                    self.changed.notify_all()
        except grpc.RpcError as error:
            status = error.code()
        except ValueError:
            status = grpc.StatusCode.CANCELLED  # the channel was closed before the call was made
        with self.changed:
            self.ended.append((time.monotonic(), endpoint, status))
            self.changed.notify_all()
        if not stopping.wait(self.cleanup_delay):
            self._clean_up(plugin)

    def _clean_up(self, plugin):
        """What kubelet does when a stream has ended."""
        with self.changed:
            newest = self.newest.get(plugin.resource)
            victim = newest if self.keyed_by == 'name' else plugin
            if plugin in self.peers:
                self.peers.remove(plugin)
            if victim is not None and victim is newest:
                del self.newest[plugin.resource]
                self.devices[plugin.resource] = {device: False for device in self.devices[plugin.resource]}
            self.changed.notify_all()
        if victim is not None:
            victim.close()

    def close_stream(self, resource):
        """Cancels the stream of the newest plugin, for no reason."""
        with self.changed:
            plugin = self.newest.get(resource)
        if plugin is not None and plugin.stream is not None:
            plugin.stream.cancel()

    # ---- what the node would say ----

    def capacity(self, resource):
        with self.changed:
            return len(self.devices.get(resource, {}))

    def allocatable(self, resource):
        with self.changed:
            return sum(self.devices.get(resource, {}).values())

    def ids(self, resource, healthy=None):
        with self.changed:
            return [device for device, state in self.devices.get(resource, {}).items()
                    if healthy is None or state == healthy]

    def plugin(self, resource):
        with self.changed:
            return self.newest[resource]

    def messages_of(self, resource):
        with self.changed:
            return [message for message in self.messages if message.resource == resource]

    def wait(self, is_true, timeout):
        """True as soon as |is_true|(), asked after every change; False when the time is over."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while not is_true():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(min(left, 0.5))
            return True

    # ---- admission ----

    def admit(self, pod, resource, count, timeout=30, container='main', namespace='default', init=False,
              restartable=False):
        """Devices for a container, as kubelet picks and allocates them: (ids, response). Raises what the plugin raised.

        A pod of several containers is admitted one after the other, the init containers first. As in kubelet, what such a
        one held goes to the containers after it before anything else does; a |restartable| one keeps it.
        """
        with self.changed:
            self._update_allocated_devices()
            known = self.pods.get(pod) or Pod(pod, namespace)
            plugin = self.newest[resource]
            reusable = known.reusable.setdefault(resource, set())
            chosen = random.sample(sorted(reusable), min(count, len(reusable)))
            needed = count - len(chosen)
            taken = set().union(*(other.held(resource) for other in [*self.pods.values(), *self.unnoticed]))
            free = [device for device, healthy in self.devices[resource].items() if healthy and device not in taken]
        if needed > len(free):
            raise RuntimeError('requested number of devices unavailable for %s. Requested: %d, Available: %d'
                               % (resource, needed, len(free)))
        if needed:
            chosen += self._choose(plugin, free, chosen, needed, timeout)
        random.shuffle(chosen)
        responses = plugin.allocate_ids(chosen, timeout=timeout)
        if not responses:
            raise RuntimeError('no containers return in allocation response')
        with self.changed:
            self._enter(known, Container(container, init, restartable), resource, chosen, responses[0])
            self.changed.notify_all()
        return chosen, responses[0]

    def admit_again(self, pod, other):
        """What never is to happen: |pod| gets what |other| has."""
        with self.changed:
            twin = Pod(pod, self.pods[other].namespace)
            for container in self.pods[other].containers.values():
                for resource, ids in container.devices.items():
                    twin.reusable.setdefault(resource, set())
                    self._enter(twin, Container(container.name, container.init, container.restartable), resource, ids,
                                container.responses[resource])

    def _choose(self, plugin, free, held, needed, timeout):
        """The plugin's preference as far as it is one of the free devices; then any."""
        random.shuffle(free)
        preferred = []
        if self.options[plugin.resource].get_preferred_allocation_available:
            preferred = plugin.prefer_ids(free + held, len(held) + needed, required=held, timeout=timeout)
        offered = set(free)
        chosen = [device for device in preferred if device in offered][:needed]
        return chosen + [device for device in free if device not in chosen][:needed - len(chosen)]

    def _enter(self, pod, container, resource, ids, response):
        self.pods[pod.name] = pod
        container = pod.containers.setdefault(container.name, container)
        container.devices[resource] = list(ids)
        container.responses[resource] = response
        if container.init and not container.restartable:
            pod.reusable[resource] |= set(ids)
        else:
            pod.reusable[resource] -= set(ids)
        self._write_checkpoint()

    def run_options(self, pod, container='main'):
        """What the container is started with: the answers of all its resources, joined.

        Before that, at each start, the plugins that want it are told: one call a resource, with the container's own ids of it. A plugin
        that refuses keeps the container from starting, and so does one that is not there.
        """
        with self.changed:
            known = self.pods[pod].containers[container]
            asked = [(self.newest[resource], ids) for resource, ids in known.devices.items()
                     if self.options[resource].pre_start_required]
        random.shuffle(asked)
        for plugin, ids in asked:
            plugin.pre_start(pb.PreStartContainerRequest(devices_ids=random.sample(ids, len(ids))),
                             timeout=PRE_START_TIMEOUT)
        return ContainerOptions(known.responses)

    def remove_pod(self, pod):
        """It has ended. Its devices are free as soon as somebody asks, and in the checkpoint until that is written."""
        with self.changed:
            ended = self.pods.pop(pod, None)
            if ended:
                self.unnoticed.append(ended)
            self.changed.notify_all()

    def _update_allocated_devices(self):
        if self.sources_ready:
            self.unnoticed = []

    # ---- who holds what ----

    def _list_pods(self, _, context):
        with self.changed:
            self.list_calls += 1
            refusal = self.list_refusal
            self.changed.notify_all()
        if self.list_delay:
            self._stopping.wait(self.list_delay)
        if refusal:
            context.abort(*refusal)
        with self.changed:
            self._update_allocated_devices()
            if not self.sources_ready:
                return pods_pb.ListPodResourcesResponse()
            return pods_pb.ListPodResourcesResponse(pod_resources=[
                pods_pb.PodResources(name=pod.name, namespace=pod.namespace, containers=[
                    pods_pb.ContainerResources(name=container.name, devices=self._list_devices(container.devices))
                    for container in pod.containers.values() if container.is_listed])
                for pod in random.sample(list(self.pods.values()), len(self.pods))])  # in another order each time, as kubelet's

    # ---- what a pod's object says ----

    def _get_pod(self, request, context):
        with self.changed:
            self.pod_calls.append(request.podUID)
            pod = next((one for one in self.pods.values() if one.uid == request.podUID), None)
            refusal = self.pod_refusal
            self.changed.notify_all()
        if self.pod_delay:
            self._stopping.wait(self.pod_delay)
        if refusal:
            context.abort(*refusal)
        if not self.sources_ready:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, 'kubelet sources are not ready')
        if not pod:
            context.abort(grpc.StatusCode.NOT_FOUND, 'pod with UID %s not found' % request.podUID)
        return self.pod_change(self._pod_answer(pod))

    def _pod_answer(self, pod):
        spec = pod.object.get('spec', {})
        status = pod.object.get('status', {}) if self.tells_claims else {}
        made = pod_pb.Pod(
            metadata=pod_pb.ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid,
                                       annotations=pod.object.get('metadata', {}).get('annotations') or {}),
            spec=pod_pb.PodSpec(
                containers=[self._container_answer(one) for one in spec.get('containers', [])],
                initContainers=[self._container_answer(one) for one in spec.get('initContainers', [])],
                resourceClaims=[pod_pb.PodResourceClaim(**one) for one in spec.get('resourceClaims', [])]),
            status=pod_pb.PodStatus(resourceClaimStatuses=[
                pod_pb.PodResourceClaimStatus(**one) for one in status.get('resourceClaimStatuses', [])]))
        # Fields that no reader here knows: a text of field 99, and a phase of the status.
        raw = made.SerializeToString() + b'\x9a\x06\x03new' + b'\x1a\x09\x0a\x07Running'
        return b'\x0a' + _varint(len(raw)) + raw

    def _container_answer(self, container):
        return pod_pb.Container(
            name=container['name'],
            env=[pod_pb.EnvVar(name=one['name'], value=one.get('value', ''), **(
                {'valueFrom': pod_pb.EnvVarSource()} if 'valueFrom' in one else {})) for one in container.get('env', [])],
            envFrom=[pod_pb.EnvFromSource() for _ in container.get('envFrom', [])],
            volumeMounts=[pod_pb.VolumeMount(mountPath=one['mountPath']) for one in container.get('volumeMounts', [])],
            resources=pod_pb.ResourceRequirements(
                limits={name: pod_pb.Quantity() for name in container.get('resources', {}).get('limits', {})},
                claims=[pod_pb.ResourceClaim(**one) for one in container.get('resources', {}).get('claims', [])]))

    def _list_allocatable(self, _, context):
        with self.changed:
            return pods_pb.AllocatableResourcesResponse(devices=self._list_devices({
                resource: [device for device, healthy in devices.items() if healthy]
                for resource, devices in self.devices.items()}))

    def _list_devices(self, devices):
        """An entry a device and NUMA node."""
        entries = []
        for resource, ids in devices.items():
            for device in ids:
                nodes = self.numa.get(resource, {}).get(device)
                for node in nodes or [None]:
                    topology = None if node is None else pods_pb.TopologyInfo(nodes=[pods_pb.NUMANode(ID=node)])
                    entries.append(pods_pb.ContainerDevices(
                        resource_name=resource, device_ids=[device], topology=topology))
        return entries

    def _write_checkpoint(self):
        """The device manager's, in kubelet's form; read by whoever wants the UIDs of pods, which List does not tell.

        kubelet sums a dump of its own structs in Go; nobody else can check that, so here it is any number.
        """
        entries = []
        self.filed = [*self.pods.values(), *self.unnoticed]
        for pod in self.filed:
            for container in pod.containers.values():
                for resource, ids in container.devices.items():
                    by_node = {}
                    for device in ids:
                        for node in self.numa.get(resource, {}).get(device) or [-1]:
                            by_node.setdefault(str(node), []).append(device)
                    entries.append({
                        'PodUID': pod.uid, 'ContainerName': container.name, 'ResourceName': resource,
                        'DeviceIDs': by_node,
                        'AllocResp': base64.b64encode(
                            container.responses[resource].SerializeToString()).decode('ascii')})
        data = {'PodDeviceEntries': entries or None, 'RegisteredDevices': {
            resource: [device for device, healthy in devices.items() if healthy]
            for resource, devices in self.devices.items()}}
        text = json.dumps({'Data': data, 'Checksum': zlib.crc32(json.dumps(data).encode())}, separators=(',', ':'))
        path = os.path.join(self.directory, self.CHECKPOINT)
        try:
            with open(path + '.new', 'w', encoding='utf-8') as file:
                file.write(text)
            os.rename(path + '.new', path)
        except FileNotFoundError:
            pass  # the directory was removed, as some tests do
