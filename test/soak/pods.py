# SPDX-License-Identifier: Apache-2.0
"""Pods of a soak, and the CUDA programs in them. A pod's own thread does what kubelet does for it: it tries until it succeeds, or the pod
is to end. What is found wrong is said at once (Scene.wrong)."""
import os
import shutil
import threading
import time
from fractions import Fraction

from container_options import ContainerOptions
from container_runtime import Container, Unresolvable
from dra_kubelet import Failed
from expected import Share
from node import GPU

MIB = 1 << 20
RETRY = 0.2  # seconds between kubelet's attempts
MIG = 'nvidia.com/mig-'  # and the profile: a resource
USED = 0.4  # of its memory, by a pod's first program
USED_BY_ANOTHER = 0.1


class Program:
    """A client of MPS."""

    def __init__(self, client, is_brief):
        self.client = client
        self.started = time.monotonic()
        self.is_expected_to_end = is_brief
        self.is_connected = False

    def is_alive(self):
        return self.client.is_alive()


class SoakPod:
    """What is common to both kinds. Subclasses say what its container has: _admit(), _environment(), _leave()."""

    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.share = None
        self.programs = []
        self.problem = 'not tried yet'  # why it is not yet, or still, what it is to be
        self.is_ending = threading.Event()
        self.has_ended = threading.Event()
        self.is_busy = False
        self._orders = []  # of programs that are to be started
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._live, daemon=True, name=name)

    def start(self):
        self._thread.start()

    def end(self):
        self.is_ending.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, seconds):
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ---- its thread ----

    def _live(self):
        try:
            self._retry(self._admit, lambda: self.share or self.is_ending.is_set())
            while not self.is_ending.is_set():
                with self._changed:
                    while not self._orders and not self.is_ending.is_set():
                        self._changed.wait(1)
                    order = self._orders.pop(0) if self._orders else None
                    self.is_busy = bool(order)
                if order and not self.is_ending.is_set():
                    self._run(is_first=order == 'first')
                self.is_busy = False
            with self._changed:
                programs, self.programs = self.programs, []
            for program in programs:
                self._finish(program)
            self._retry(self._leave, self.has_ended.is_set)
        except Exception as error:  # pylint: disable=broad-except
            self.scene.wrong('rig', 'pod %s: %s: %s' % (self.name, type(error).__name__, error))

    def _retry(self, try_, is_done):
        while not is_done() and not self.scene.is_over.is_set():
            try:
                try_()
                self.problem = None
                return
            except (Failed, Unresolvable, ValueError) as failed:  # ValueError: of a channel that was closed meanwhile
                self.problem = str(failed)
            self.scene.is_over.wait(RETRY)

    # ---- programs ----

    def order(self, which='another'):
        with self._changed:
            self._orders.append(which)
            self._changed.notify_all()

    def has_orders(self):
        with self._changed:
            return bool(self._orders) or self.is_busy

    def first(self):
        """The program that is to run as long as the pod, None where there is none now."""
        with self._changed:
            return next((program for program in self.programs if program.is_connected and program.is_alive()), None)

    def _run(self, is_first):
        """A program, up to where it has its memory; compares what it got with what the pod was given."""
        share = self.share
        if not share or not share.is_shared:
            return
        options = [] if is_first else ['--brief', '--memory=%d' % (share.memory * USED_BY_ANOTHER)]
        program = Program(self._client(*options), is_brief=not is_first)
        with self._changed:
            self.programs.append(program)
        if self._check(program, share, is_first) and is_first:
            program.is_connected = True  # from here on take_dead() may take it
            return
        with self._changed:
            self.programs.remove(program)
        self._finish(program)

    def _check(self, program, share, is_first):
        try:
            got = program.client.connected()
        except AssertionError as error:
            self.scene.said('no program of %s could connect: %s' % (self.name, str(error).splitlines()[0]))
            return False
        if (Fraction(got['percentage']), int(got['limit'])) != (share.threads, share.memory):
            self.scene.wrong('granted', '%s was given %s %% and %d MiB of %s, and its program got %s %% and %s MiB' % (
                self.name, float(share.threads), share.memory, share.unit, got['percentage'], got['limit']))
        if is_first:
            wanted = int(share.memory * USED)
            try:
                allocated = program.client.allocate(wanted)
            except (AssertionError, OSError):
                return False  # it ended meanwhile, which is looked at elsewhere
            if allocated != wanted:
                self.scene.wrong('memory', '%s was given %d MiB of %s, and its only program got %d of %d MiB' % (
                    self.name, share.memory, share.unit, allocated, wanted))
        return True

    def _finish(self, program):
        program.is_expected_to_end = True
        program.client.end()
        node = self.scene.node
        shutil.rmtree(os.path.join(node.system_root, 'proc', str(program.client.pid)), ignore_errors=True)
        if program.client in node.clients:
            node.clients.remove(program.client)

    def take_dead(self):
        """Programs that have ended; they are forgotten."""
        with self._changed:
            found = [program for program in self.programs if program.is_connected and not program.is_alive()]
            self.programs = [program for program in self.programs if program not in found]
        for program in found:
            was_expected = program.is_expected_to_end
            self._finish(program)
            program.is_expected_to_end = was_expected
        return found


class PluginPod(SoakPod):
    """One with replicas of the device plugin, which kubelet has admitted already: it admits one pod after the other."""
    resource = GPU

    def __init__(self, scene, name):
        super().__init__(scene, name)
        self.share = self._share(scene.node.answer(name, self.resource))
        self.problem = None

    def _share(self, response):
        name = self.name
        said = dict(response.envs)
        taken, of = map(int, said['WARPSHARE_REPLICAS'].split('/'))
        container, = self.scene.node.kubelet.pods[name].containers.values()
        return Share(name, said['NVIDIA_VISIBLE_DEVICES'], 'pod', int(said['WARPSHARE_MEMORY_LIMIT_MIB']),
                     Fraction(said['WARPSHARE_THREAD_PERCENTAGE']), tuple(container.devices[GPU]), Fraction(taken, of), of,
                     said['WARPSHARE_GRANT'])

    def _admit(self):
        pass

    def _client(self, *arguments):
        return self.scene.node.client(self.name, *arguments)

    def _leave(self):
        self.share = None  # before somebody else gets it
        self.scene.node.kubelet.remove_pod(self.name)
        self.has_ended.set()


class DevicePod(PluginPod):
    """One with a MIG device, which kubelet has admitted already."""

    def __init__(self, scene, name, profile):
        self.profile, self.resource = profile, MIG + profile
        super().__init__(scene, name)

    def _share(self, response):
        id_ = dict(response.envs)['NVIDIA_VISIBLE_DEVICES']
        return Share(self.name, id_, 'device', ids=(id_,), of=self.profile)

class ClaimPod(SoakPod):
    """One with a claim that the scheduler has allocated."""

    def __init__(self, scene, name, kind, claim, pod):
        super().__init__(scene, name)
        self.kind, self.claim, self.pod = kind, claim, pod
        self.container = None

    def _admit(self):
        node = self.scene.node
        known = node.prepare(self.pod, self.claim)
        options = ContainerOptions({})
        options.cdi_devices = [id_ for claim in known for id_ in claim.cdi_ids()]
        self.container = Container(options, node.cdi_folder)
        said = self.container.envs
        unit = self.scene.unit_of(node.device_of(self.claim))
        if self.kind == 'whole':
            self.share = Share(self.name, unit, 'whole')
            return
        limit = said['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'].removeprefix('0=').removesuffix('M')
        self.share = Share(self.name, unit, 'share', int(limit), Fraction(said['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE']))
        self._check_claim()

    def _check_claim(self):
        """It has what the scheduler has booked."""
        result, = self.scene.node.results(self.claim)
        wanted = self.scene.quantity(result['consumedCapacity']['memory']) // MIB, int(result['consumedCapacity']['threadPercentage'])
        if (self.share.memory, self.share.threads) != wanted:
            self.scene.wrong('granted', '%s has a claim of %d MiB and %d %%, and its container got %d MiB and %s %%' % (
                self.name, *wanted, self.share.memory, float(self.share.threads)))

    def _client(self, *arguments):
        return self.scene.node.start_client(self.pod, self.container.envs, self.container.mounts, arguments)

    def _leave(self):
        node = self.scene.node
        node.dra.unprepare(self.pod)
        self.share = None
        node.release(self.claim, self.pod)
        self.has_ended.set()
