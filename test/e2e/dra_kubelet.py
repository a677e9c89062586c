# SPDX-License-Identifier: Apache-2.0
"""kubelet's part in dynamic resource allocation, played by grpcio: the other side of a DRA driver in these tests.

It behaves as Kubernetes 1.36 does (pkg/kubelet/pluginmanager, pkg/kubelet/cm/dra), where a driver can tell: at its start it deletes the
node's ResourceSlices; it looks for sockets in the registry, asks each with GetInfo, and tells it what became of that; it opens
NodeWatchResources at once, and again when it ends; of several instances of a driver it calls the one that registered last and is
connected; before Prepare it reads the claim itself, and what it has prepared it remembers until its restart; a claim is unprepared when
the last of its pods is gone.

Of health it takes the service that its release prefers among those that the driver has announced (|release|, HEALTH). It is stricter
than Kubernetes: 1.36 opens v1alpha1 whether that was announced or not, this one does not.

Recorded with a real kubelet 1.36.2: of pods that were deleted with a grace period of 0 the Unprepare came after the Prepare of those that
followed, in 117 of 254 cases; and a Prepare that failed was tried again only after more than a minute. So prepare() is called once, and
whoever calls it does not try again as long as a test runs; and a pod may be gone from the API server before unprepare().
"""
import contextlib
import math
import os
import stat
import threading
import time

import grpc

import dra_pb2 as dra
import pluginregistration_pb2 as watcher

SERVICES = {f'{version}.DRAPlugin': f'/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/' for version in ('v1', 'v1beta1')}
# By release: the services of health that a kubelet knows, the one that it prefers first (kubernetes#139477, pickHealthService). 1.40 is
# planned to know v1 only.
HEALTH = {'1.36': ['v1alpha1.DRAResourceHealth'],
          '1.37': ['v1.DRAResourceHealth', 'v1alpha1.DRAResourceHealth'],
          '1.40': ['v1.DRAResourceHealth']}
PATIENCE = 45  # kubelet's own, for Prepare and Unprepare
SLICES = '/apis/resource.k8s.io/v1/resourceslices'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims'


class Failed(Exception):
    """What the event of the pod would say."""


def dial(path):
    """As grpc-go does, it makes a call again that the other side says has not begun (the last stream of its GOAWAY is below)."""
    return grpc.insecure_channel('unix:' + path, options=[('grpc.use_local_subchannel_pool', 1), ('grpc.default_authority', 'localhost')])


class Driver:
    """A registered instance."""

    def __init__(self, socket, name, endpoint, service, health_service):
        self.socket, self.name, self.endpoint, self.service, self.health_service = socket, name, endpoint, service, health_service
        self.ready = threading.Event()
        self.gone = threading.Event()
        self.channel = dial(endpoint)
        self.channel.subscribe(self._on_state, try_to_connect=True)

    def _on_state(self, state):
        (self.ready.set if state == grpc.ChannelConnectivity.READY else self.ready.clear)()

    def begin(self, method, claims, answer):
        """A call that goes on: a Future, which can be cancelled."""
        request = dra.ClaimsRequest(claims=[dra.Claim(namespace=one.namespace, uid=one.uid, name=one.name) for one in claims])
        return self.channel.unary_unary(SERVICES[self.service] + method, request_serializer=dra.ClaimsRequest.SerializeToString,
                                        response_deserializer=answer.FromString).future(request, timeout=PATIENCE)

    def call(self, method, claims, answer):
        """Results by UID."""
        response = self.begin(method, claims, answer).result()
        results = {entry.key: entry.value for entry in response.claims}
        asked = {one.uid for one in claims}
        if not set(results) <= asked:
            raise Failed('%s returned claims that were not asked for: %s' % (method, sorted(set(results) - asked)))
        if set(results) != asked:
            raise Failed('%s left out %d claims' % (method, len(asked - set(results))))
        return results

    def watch(self):
        return self.channel.unary_stream(f'/{self.health_service}/NodeWatchResources',
                                         request_serializer=dra.ClaimsRequest.SerializeToString,
                                         response_deserializer=dra.WatchResponse.FromString)(dra.ClaimsRequest())

    def close(self):
        self.gone.set()
        self.channel.close()


class Claim:
    """What kubelet remembers of one."""

    def __init__(self, namespace, name, uid, drivers):
        self.namespace, self.name, self.uid, self.drivers = namespace, name, uid, drivers
        self.pods = set()  # UIDs
        self.is_prepared = False
        self.turn = threading.Lock()  # one call at a time is about it
        self.devices = {}  # driver → the devices that it answered with

    def cdi_ids(self, request=None):
        """For a container that names the claim, or a request of it."""
        return [id_ for devices in self.devices.values() for device in devices for id_ in device.cdi_device_ids
                if request is None or not device.request_names or request in device.request_names]


class DraKubelet:
    """|api| is the stand-in for the API server (apiserver.py); sockets are in |folder|, whose path must be short."""

    def __init__(self, api, node, folder):
        self.api, self.node = api, node
        self.registry = os.path.join(folder, 'plugins_registry')
        self.plugins = os.path.join(folder, 'plugins')
        for path in (self.registry, self.plugins):
            os.makedirs(path, exist_ok=True)
        self.release = '1.36'  # of HEALTH; a new one holds from the next start() on
        self.rewatch_delay = 5.0  # seconds from the end of a stream of health to the next
        self.look = 1.0  # seconds between two looks of its plugin watcher
        self.wipe_delay = 30.0  # seconds without a connected instance of a driver after which its slices are deleted
        self.changed = threading.Condition()
        # Guarded by |changed|:
        self.drivers = []  # in the order of their registration
        self.told = []  # (driver, None or why it was refused) of each registration
        self.health = {}  # driver → {(pool, device): DeviceHealth} of the newest message
        self.health_services = {}  # driver → the service that the newest message came by
        self.claims = {}  # UID → Claim
        self.calls = []  # (method, UIDs) of each call that was answered
        self._lonely = {}  # driver → since when no instance of it is connected
        self._stopping = threading.Event()
        self._threads = []

    # ---- life ----

    def start(self):
        """Registers whoever is there; pods that run are looked at when their drivers are back: prepare_again()."""
        self._stopping = threading.Event()
        self.wipe(lambda spec: True)
        self._run(self._watch_registry, self._stopping)

    def stop(self):
        self._stopping.set()
        with self.changed:
            drivers, self.drivers = self.drivers, []
            self.health.clear()
            self.health_services.clear()
            self._lonely.clear()
            self.changed.notify_all()
        for driver in drivers:
            driver.close()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._threads = []
        for claim in self.claims.values():  # the checkpoint brings the rest back
            claim.is_prepared = False

    def restart(self):
        """As after an upgrade: pods run on, and their claims are prepared again as soon as the driver is there."""
        names = {driver.name for driver in self.drivers}
        self.stop()
        self.start()
        for name in names:
            self.wait_driver(name)
        self.prepare_again()

    def _run(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()  # first: stop() joins what is listed
        self._threads.append(thread)

    def wipe(self, is_meant):
        """Deletes slices of the node."""
        for slice_ in self.api.all(SLICES):
            if slice_['spec'].get('nodeName') == self.node and is_meant(slice_['spec']):
                with contextlib.suppress(Exception):  # somebody else was quicker
                    self.api.delete(SLICES, slice_['metadata']['name'])

    # ---- the plugin watcher ----

    def _sockets(self):
        """Path → what tells a socket from the next one of that name."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.registry):
                with contextlib.suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISSOCK(state.st_mode) and not entry.name.startswith('.'):
                        found[entry.path] = (state.st_ino, state.st_ctime_ns)
        return found

    def _watch_registry(self, stopping):
        known = {}  # path → identity
        retries = {}  # path → (when, pause)
        while not stopping.wait(self.look):
            there = self._sockets()
            for path in [path for path, identity in known.items() if there.get(path) != identity]:
                del known[path]
                self._deregister(path)
            for path, identity in there.items():
                when, pause = retries.get(path, (0, 0.5))
                if path in known or time.monotonic() < when:
                    continue
                if self._register(path, stopping):
                    known[path] = identity
                    retries.pop(path, None)
                else:
                    retries[path] = (time.monotonic() + pause, min(2 * pause, 122))
            self._look_for_lonely()

    def _register(self, path, stopping):
        """False: to be tried again. A driver that does not take the news that it is registered is not."""
        with dial(path) as channel:
            def call(method, request, answer):
                return channel.unary_unary('/pluginregistration.Registration/' + method, request_serializer=type(request).SerializeToString,
                                           response_deserializer=answer.FromString)(request, timeout=PATIENCE)

            try:
                info = call('GetInfo', watcher.InfoRequest(), watcher.PluginInfo)
                service = next((version for version in info.supported_versions if version in SERVICES), None)
                refusal = self._refusal(info, service)
                if not refusal:
                    health_service = next((known for known in HEALTH[self.release] if known in info.supported_versions), None)
                    driver = Driver(path, info.name, info.endpoint or path, service, health_service)
                    with self.changed:
                        self.drivers.append(driver)
                    if health_service:
                        self._run(self._watch_health, driver, stopping)
                call('NotifyRegistrationStatus', watcher.RegistrationStatus(plugin_registered=not refusal, error=refusal or ''),
                     watcher.RegistrationStatusResponse)
            except grpc.RpcError:
                self._deregister(path)
                return False
        with self.changed:
            self.told.append((info.name, refusal))
            self.changed.notify_all()
        return not refusal

    def _refusal(self, info, service):
        if info.type != 'DRAPlugin':
            return 'no handler registered for plugin type: %s' % info.type
        if not service:
            return 'plugin validation failed with err: none of the versions %s are supported' % list(info.supported_versions)
        with self.changed:
            if any((driver.name, driver.endpoint) == (info.name, info.endpoint) for driver in self.drivers):
                return 'endpoint %s already registered for DRA driver plugin %s' % (info.endpoint, info.name)
        return None

    def _deregister(self, path):
        with self.changed:
            gone = [driver for driver in self.drivers if driver.socket == path]
            self.drivers = [driver for driver in self.drivers if driver.socket != path]
            self.changed.notify_all()
        for driver in gone:
            driver.close()

    def _look_for_lonely(self):
        with self.changed:
            connected = {driver.name for driver in self.drivers if driver.ready.is_set()}
            for name in {name for name, refusal in self.told if not refusal}:
                if name in connected:
                    self._lonely.pop(name, None)
                else:
                    self._lonely.setdefault(name, time.monotonic())
            due = [name for name, since in self._lonely.items() if time.monotonic() > since + self.wipe_delay]
            self._lonely.update((name, math.inf) for name in due)  # once
        for name in due:
            self.wipe(lambda spec, name=name: spec['driver'] == name)

    def driver(self, name):
        """The instance that would be called, None where there is none."""
        with self.changed:
            ours = [driver for driver in self.drivers if driver.name == name]
        return next((driver for driver in reversed(ours) if driver.ready.is_set()), ours[-1] if ours else None)

    def wait(self, is_true, what, patience=PATIENCE):
        """What |is_true|() returns as soon as it is something."""
        deadline = time.monotonic() + patience
        with self.changed:
            while not (found := is_true()):
                assert time.monotonic() < deadline, 'kubelet still not sees: %s; registrations: %s' % (what, self.told)
                self.changed.wait(0.1)
            return found

    def wait_driver(self, name):
        """Until an instance is registered and connected."""
        def found():
            driver = self.driver(name)
            return driver if driver and driver.ready.is_set() else None

        return self.wait(found, 'DRA driver %s' % name)

    # ---- health ----

    def _watch_health(self, driver, stopping):
        while not stopping.is_set() and not driver.gone.is_set():
            with contextlib.suppress(grpc.RpcError, ValueError):  # it ended, or the channel was closed before the call was made
                for message in driver.watch():
                    with self.changed:
                        self.health[driver.name] = {(one.device.pool_name, one.device.device_name): one for one in message.devices}
                        self.health_services[driver.name] = driver.health_service
                        self.changed.notify_all()
            with self.changed:
                self.health.pop(driver.name, None)
                self.health_services.pop(driver.name, None)
                self.changed.notify_all()
            driver.gone.wait(self.rewatch_delay)

    def wait_health(self, driver, device, health):
        """The entry of the device, as soon as it says so: 'HEALTHY', 'UNHEALTHY'."""
        def found():
            one = self.health.get(driver, {}).get((f'{self.node}/{driver}', device))
            return one if one and one.health == dra.HealthStatus.Value(health) else None

        return self.wait(found, '%s is %s' % (device, health))

    # ---- claims ----

    def _read(self, pod, namespace, name):
        object_ = self.api.get(CLAIMS % namespace, name)
        if not object_:
            raise Failed('failed to fetch ResourceClaim %s referenced by pod %s: resourceclaims.resource.k8s.io "%s" not found' % (
                name, pod.name, name))
        status = object_.get('status') or {}
        if not status.get('allocation'):
            raise Failed('ResourceClaim %s not allocated' % name)
        if pod.uid not in [user['uid'] for user in status.get('reservedFor', [])]:
            raise Failed('pod %s(%s) is not allowed to use ResourceClaim %s(%s)' % (
                pod.name, pod.uid, name, object_['metadata']['uid']))
        with self.changed:
            drivers = sorted({result['driver'] for result in status['allocation']['devices']['results']})
            claim = self.claims.setdefault(object_['metadata']['uid'], Claim(namespace, name, object_['metadata']['uid'], drivers))
            claim.pods.add(pod.uid)
        return claim

    def _call(self, method, claims, answer):
        """Of each driver of these claims; returns [(driver, claim, result)]."""
        results = []
        for name in sorted({name for claim in claims for name in claim.drivers}):
            driver = self.driver(name)
            if not driver:
                raise Failed('plugin name %s not found in the list of registered DRA plugins' % name)
            batch = [claim for claim in claims if name in claim.drivers]
            try:
                answered = driver.call(method, batch, answer)
            except grpc.RpcError as error:
                raise Failed('%s failed: %s: %s' % (method, error.code(), error.details())) from None
            with self.changed:
                self.calls.append((method, [claim.uid for claim in batch]))
            for claim in batch:
                if answered[claim.uid].error:
                    raise Failed('%s failed for ResourceClaim %s: %s' % (method, claim.name, answered[claim.uid].error))
            results += [(name, claim, answered[claim.uid]) for claim in batch]
        return results

    def prepare(self, pod, claims):
        """|claims| are (namespace, name). Returns what is remembered of them; raises Failed: kubelet would try again later."""
        claims = [self._read(pod, *claim) for claim in claims]
        self._prepare(claims)
        return claims

    def begin_prepare(self, driver, claim):
        """Of a pod that will be gone before the answer: nothing of it is remembered. Returns the call, to be cancelled."""
        metadata = claim['metadata']
        return self.driver(driver).begin('NodePrepareResources', [Claim(metadata['namespace'], metadata['name'], metadata['uid'], [driver])],
                                         dra.PrepareResponse)

    @contextlib.contextmanager
    def _turns(self, claims):
        with contextlib.ExitStack() as stack:
            for claim in sorted(claims, key=lambda one: one.uid):
                stack.enter_context(claim.turn)
            yield

    def _prepare(self, claims):
        """Those that are not, and that nobody has given back meanwhile."""
        with self._turns(claims):
            with self.changed:
                claims = [claim for claim in claims if not claim.is_prepared and self.claims.get(claim.uid) is claim]
            for driver, claim, result in self._call('NodePrepareResources', claims, dra.PrepareResponse):
                claim.devices[driver] = list(result.devices)
            for claim in claims:
                claim.is_prepared = True

    def prepare_again(self):
        """What a kubelet does for pods that run when it starts."""
        with self.changed:
            claims = [claim for claim in self.claims.values() if not claim.is_prepared]
        self._prepare(claims)

    def unprepare(self, pod):
        """The pod has ended. Raises Failed as prepare() does."""
        with self.changed:
            last = [claim for claim in self.claims.values() if claim.pods == {pod.uid}]
        with self._turns(last):
            self._call('NodeUnprepareResources', last, dra.UnprepareResponse)
            with self.changed:
                for claim in self.claims.values():
                    claim.pods.discard(pod.uid)
                self.claims = {uid: claim for uid, claim in self.claims.items() if claim.pods}
