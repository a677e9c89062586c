# SPDX-License-Identifier: Apache-2.0
"""The node of a soak, and how each step is carried out on it: four H100s, two of them shared by the device plugin, two given out by DRA;
agent and supervisor with a parent that starts them again, as in their containers; the stand-ins for kubelet and the API server with exactly
the rights of deploy/rbac.json."""
import collections
import contextlib
import json
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import grpc
import yaml

import expected
import mps as mps_module
from cluster import NAME, NODES, Cluster
from dra import DRIVER, WHOLE, DraNode, Unschedulable
from faults import GONE, Faults
from hits import Hits
from mps_node import H100, uuid_of
from node import GPU, REPORT
from pods import MIG, ClaimPod, DevicePod, PluginPod
from resourceslices import quantity
from steps import DRA_GPUS, GEOMETRIES, GPUS, MIG_GPU, PLUGIN_GPUS, REPLICAS
from test_device_lists import CONTROL_NODES, machine, make_device_nodes, make_driver

LIFETIME = 7 * 86400  # seconds, of simulated daemons
DYING = 30.0  # seconds that programs may live on after that
EXCUSE = 60.0  # seconds after something happened to a unit or a process in which an Allocate may be refused
PROCESSES = ('agent', 'supervisor', 'kubelet', 'away')  # away: the API server
DISK = 32  # MiB of each file system that may be full
REMEMBERED_LINES = 2000  # of a log


class Scene(Faults, Hits):
    quantity = staticmethod(quantity)

    def __init__(self, folder, say):
        """|folder| is for the stand-in API server; |say| is called with each line of the story."""
        Faults.__init__(self)
        Hits.__init__(self)
        self.say = say
        self.cluster = Cluster(folder)
        self.node = DraNode(self.cluster)
        self.replicas = REPLICAS[0]
        self.pods = {}
        self.is_over = threading.Event()
        self.found = collections.OrderedDict()  # what is wrong → text
        self.agents_made = 0
        self.restarts = 0  # of agents by their parent, of which the log says so
        self._dooms = {}  # unit → when something deadly happened to it
        self._touched = {}  # unit or process → when something happened to it
        self._lock = threading.Lock()
        self._ports = {}  # agent → where it serves its metrics
        self.geometry = 'mixed'
        self.clock = self._path('clock')
        self.certificate_paths = [os.path.join(self.node.folder, 'tls.' + name) for name in ('key', 'crt')]
        self.certificate = b''

    # ---- what is found ----

    def wrong(self, what, text):
        with self._lock:
            is_new = self.found.setdefault(what, text) is text
        if is_new:
            self.said('WRONG (%s): %s' % (what, text))

    def said(self, text):
        self.say(text)

    def _touch(self, *whats, is_deadly=False):
        for what in whats:
            self._touched[what] = time.monotonic()
            if is_deadly:
                self._dooms[what] = time.monotonic()

    def is_excused(self, *whats):
        """Something happened to one of them a moment ago, or is wrong with it now."""
        recently = time.monotonic() - EXCUSE
        return any(self._touched.get(what, 0) > recently for what in whats) or any(where in whats for _, where in self._places())

    def _places(self):
        """What is wrong now, and where: a unit or a process."""
        return [(what, uuid_of(int(where)) if where.isdigit() else where) for what, where in list(self.faults)]

    def may_die(self, unit, started):
        """Something happened to the unit that no program survives, since the program was started or shortly before."""
        return self._dooms.get(unit, 0) > started - DYING or any(what in GONE and where == unit for what, where in self._places())

    def check_programs(self):
        """No program ends but by what happened to its unit."""
        for pod in list(self.pods.values()):
            share = pod.share
            for program in pod.take_dead():
                if share and not program.is_expected_to_end and not self.may_die(share.unit, program.started):
                    self.wrong('program', 'a program of %s on %s has ended with status %s although nothing happened to that unit' % (
                        pod.name, share.unit, program.client.process.returncode))

    # ---- begin and end ----

    def start(self):
        node = self.node
        self._disks = [node.mps_root, node.cdi_folder, node.dra.plugins]
        for folder in self._disks:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=%dm' % DISK, 'tmpfs', folder], check=True)
            subprocess.run(['mount', '--make-shared', folder], check=True)
        make_device_nodes(node, *CONTROL_NODES, *('/dev/nvidia%d' % i for i in (*GPUS, MIG_GPU)))
        make_driver(node)
        self._write_gpus()
        self.write_config()
        with open(self._path('mig.yaml'), 'w', encoding='utf-8') as file:
            yaml.safe_dump({'version': 'v1', 'mig-configs': {name: [{'devices': [MIG_GPU], 'mig-enabled': True, 'mig-devices': devices}]
                                                             for name, devices in GEOMETRIES.items()}}, file)
        self._do_geometry(self.geometry)
        self.write_clock(0)
        self.renew_certificate()
        for variables in (node.environment, node.programs.variables):
            variables.update(LD_PRELOAD=os.environ['WARPSHARE_CLOCK_SIM'], WARPSHARE_SIM_CLOCK=self.clock)
        node.start_mps('--restart-after-crash=never')
        node.kubelet.start()
        node.dra.start()
        self.start_agent()

    def _path(self, name):
        """Of a file that agent and simulated driver have."""
        return os.path.join(self.node.programs.folder, name)

    def start_agent(self):
        """One by a token, the next by a client's certificate."""
        self.agents_made += 1
        node = self.node
        identity = {} if self.agents_made % 2 else {
            'name': 'kubeconfig-certificate', 'user': {'client-certificate': 'client.crt', 'client-key': 'client.key'}}
        return node.start(
            *self.cluster.options(**identity), '--restart-after-crash=always', '--log-level=info', '--metrics-address=127.0.0.1:0',
            '--metrics-tls', '--metrics-tls-key=' + self.certificate_paths[0], '--metrics-tls-certificate=' + self.certificate_paths[1],
            '--mig-manager', '--mig-config-file=' + self._path('mig.yaml'), '--mig-state-directory=' + self._path('mig'),
            '--cdi-root=' + node.cdi_folder, '--system-root=' + machine(node), '--container-driver-root=' + os.path.join(node.folder, 'driver'),
            '--kubelet-plugins=' + node.dra.plugins, '--kubelet-plugins-registry=' + node.dra.registry, '--dra-instance=a%d' % self.agents_made)

    def finish(self):
        """Stops all of it; returns what was wrong with the end."""
        self.is_over.set()
        for pod in self.pods.values():
            pod.end()
        for pod in self.pods.values():
            pod.join(10)
        faults = self.node.finish()
        refused = self.cluster.refused()
        self.cluster.api.close()
        return [fault for fault in faults if not fault.startswith('---- ')] + \
            (['deploy/rbac.json does not allow: %s' % refused] if refused else [])

    def write_config(self):
        self.node.config({'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps', 'migStrategy': 'mixed'}, 'dra': {'enabled': True, 'devices': [uuid_of(gpu) for gpu in DRA_GPUS]},
                          'sharing': {'mps': {'provisioning': 'weighted', 'maxPerRequest': expected.MAX_PER_REQUEST, 'guard': 'report',
                                              'resources': [{'name': GPU, 'replicas': self.replicas}]}}})

    def _write_gpus(self):
        changes = collections.defaultdict(dict)
        fields = {'lost': lambda call: {'lost': True}, 'absent': lambda call: {'present': False},
                  'failing': lambda call: {'errors': {call: 'UNKNOWN'}}, 'hanging': lambda call: {'delays': {call: '600s'}}}
        for (what, where), call in self.faults.items():
            if what in fields:
                changes[int(where)].update(fields[what](call))
        changes[MIG_GPU]['mig'] = {'devices': [{'profile': '1g.10gb', 'count': 3}, {'profile': '3g.40gb'}]}
        self.node.gpus(len(GPUS) + 1, 'lifetime: %d' % LIFETIME, model=H100, changes=changes, events=self.events,
                       visible=[(uuid_of(gpu), H100['sms'], H100['memory']) for gpu in GPUS], geometryFile=self._path('geometry'))
        self._bind([gpu for gpu in (*GPUS, MIG_GPU) if ('absent', str(gpu)) not in self.faults])

    def _bind(self, gpus):
        """The kernel's driver has these, from now on."""
        folder = os.path.join(machine(self.node), 'sys/bus/pci/drivers/nvidia')
        os.makedirs(folder, exist_ok=True)
        wanted = {'0000:%02x:00.0' % (0x10 + gpu) for gpu in gpus}
        there = set(os.listdir(folder))
        for name in there - wanted:
            os.unlink(os.path.join(folder, name))
        for name in wanted - there:
            with open(os.path.join(folder, name), 'w', encoding='ascii'):
                pass

    # ---- names ----

    def unit_of(self, device):
        """'gpu-2-shared' → its UUID."""
        return uuid_of(int(re.match(r'gpu-(\d+)', device).group(1)))

    @property
    def agent(self):
        return self.node.agents[-1]

    # ---- steps ----

    def do(self, step):
        verb, *words = step.words
        self.revive()
        getattr(self, '_do_' + verb)(*words)

    def _do_pod(self, name, count):
        if self._admit(name, GPU, int(count), [uuid_of(gpu) for gpu in PLUGIN_GPUS]):
            self._add(PluginPod(self, name))

    def _do_device(self, name, profile):
        if self._admit(name, MIG + profile, 1, ['geometry']):
            self._add(DevicePod(self, name, profile))

    def _admit(self, name, resource, count, where):
        """As the scheduler and kubelet do it: what is allocatable and not in use is enough, and then it has to work."""
        kubelet = self.node.kubelet
        with kubelet.changed:
            held = sum(len(pod.held(resource)) for pod in kubelet.pods.values())
            is_enough = resource in kubelet.newest and sum(kubelet.devices.get(resource, {}).values()) - held >= count
            messages = len(kubelet.messages)
        if not is_enough:
            return False
        try:
            kubelet.admit(name, resource, count)
        except (grpc.RpcError, RuntimeError, KeyError, ValueError) as error:
            self._refused(name, error, messages, where)
            return False
        return True

    def _refused(self, name, error, messages, where):
        text = error.details() if isinstance(error, grpc.RpcError) else '%s: %s' % (type(error).__name__, error)
        with self.node.kubelet.changed:
            is_news = len(self.node.kubelet.messages) != messages
        if is_news or self.is_excused('agent', 'supervisor', 'kubelet', *where):
            self.said('%s is refused: %s' % (name, text))
        else:
            self.wrong('refused', '%s was admitted by the scheduler, and refused although nothing is wrong: %s' % (name, text))

    def _add(self, pod):
        self.pods[pod.name] = pod
        pod.start()
        pod.order('first')

    def _claim(self, name, kind, **more):
        claim = self.node.claim(name, **more)
        pod = self.node.create(claim)
        try:
            self.node.schedule(claim, pod)
        except Unschedulable:
            self.cluster.api.delete('/api/v1/namespaces/default/pods', pod.name)
            self.forget_claim(claim)
            return
        self._add(ClaimPod(self, name, kind, claim, pod))

    def forget_claim(self, claim):
        self.cluster.api.delete('/apis/resource.k8s.io/v1/namespaces/default/resourceclaims', claim['metadata']['name'])

    def _do_share(self, name, memory, percentage):
        self._claim(name, 'share', capacity={'memory': memory + 'Gi', 'threadPercentage': percentage})

    def _do_whole(self, name):
        self._claim(name, 'whole', class_=WHOLE)

    def _do_program(self, name):
        if name in self.pods:
            self.pods[name].order()

    def _do_end(self, name):
        if name in self.pods:
            self.pods[name].end()
        self.reap()

    def reap(self):
        """Forgets pods that have ended."""
        for name, pod in list(self.pods.items()):
            if pod.has_ended.is_set() and pod.join(0):
                del self.pods[name]
                if isinstance(pod, ClaimPod):
                    self.cluster.api.delete('/api/v1/namespaces/default/pods', pod.pod.name)
                    self.forget_claim(pod.claim)

    def _do_pause(self, milliseconds):
        self.is_over.wait(int(milliseconds) / 1000)

    def _do_geometry(self, name):
        self._touch('geometry')
        self.geometry = name
        self.cluster.api.patch(NODES, NAME, {'metadata': {'labels': {'nvidia.com/mig.config': name}}})

    def _do_config(self, replicas):
        self.replicas = int(replicas)
        self.write_config()

    # ---- what there is ----

    def status(self):
        """What the supervisor says; None: nothing."""
        try:
            peer = mps_module.Socket(self.node.programs)
        except OSError:
            return None
        try:
            peer.send(do='watch')
            message = peer.read()
            while message is not None and 'status' not in message:
                message = peer.read()
            return message and message['status']
        except (OSError, AssertionError):
            return None
        finally:
            peer.close()

    def daemons(self):
        return {one['name']: one for one in (self.status() or {'daemons': []})['daemons']}

    def ended(self, process):
        """By itself: nobody stopped it."""
        status = process.process.returncode
        if status not in (None, process.expected_status) and not self.may_have_aborted(process, status):
            self.wrong('end', 'a process ended by itself, with %d: %s' % (status, process.log()[-500:]))

    def read_log(self, process):
        """The lines that are new. What only a soak makes long does not stay in memory."""
        lines = process.take_lines(REMEMBERED_LINES)
        self.restarts += sum('event=AgentRestarted' in line for line in lines)
        self.exhausted += sum(line == 'out of memory\n' for line in lines if process in self.node.agents)
        for line in lines:
            port = re.search(r'metrics.* port=(\d+)', line)
            if port:
                self._ports[process] = int(port.group(1))
            if REPORT.match(line):
                self.wrong('report', line.strip())
            if re.search('event=MPSLimitViolated violation=claim |event=MPSClientUnknown ', line) and self.is_excused(*PROCESSES):
                continue  # nobody may know yet whose a process is, or what is known of it is old
            if re.search('event=(MPSLimitViolated|MPSClientUnknown|MPSClientTerminated) ', line):
                self.wrong('violation', line.strip())
        return lines

    def healthz(self):
        """What is wrong in the agent's own eyes; '' where nothing is."""
        if self.agent not in self._ports:
            return 'it does not serve'
        try:
            context = ssl._create_unverified_context()  # pylint: disable=protected-access
            with urllib.request.urlopen('https://127.0.0.1:%d/healthz' % self._ports[self.agent], timeout=10, context=context) as answer:
                answer.read()
            shown = ssl.get_server_certificate(('127.0.0.1', self._ports[self.agent]), timeout=10)
            return '' if shown.encode() == self.certificate else 'its port shows a certificate of before'
        except urllib.error.HTTPError as error:
            return error.read().decode().strip()
        except OSError as error:
            return str(error)

    def marks(self):
        object_ = self.cluster.node()
        bad = [one['type'] for one in object_['status']['conditions'] if one['type'] != 'Ready' and one['status'] != 'False']
        return tuple([taint['key'] for taint in object_['spec'].get('taints') or []] + bad)

    def shares(self):
        return [share for pod in list(self.pods.values()) if (share := pod.share)]

    def mig_devices(self):
        """That the simulated driver has, since somebody asked it for the first time."""
        with contextlib.suppress(FileNotFoundError), open(self._path('geometry'), encoding='ascii') as file:
            return set(re.findall(r'^ci .* (\S+)$', file.read(), re.MULTILINE))
        return set()

    def facts(self):
        kubelet, node = self.node.kubelet, self.node
        shares = self.shares()
        with kubelet.changed:
            devices = dict(kubelet.devices.get(GPU, {})) if GPU in kubelet.newest else {}
            mig = {name.removeprefix(MIG): dict(kubelet.devices.get(name, {})) for name in kubelet.newest if name.startswith(MIG)}
        return expected.Facts(
            shares=shares, mig=mig, geometry=self.mig_devices(), memory={uuid_of(gpu): H100['memory'] for gpu in GPUS}, devices=devices,
            lost={where for what, where in self._places() if what in GONE}, replicas=self.replicas,
            plugin_units=tuple(map(uuid_of, PLUGIN_GPUS)), dra_units={uuid_of(gpu): 'gpu-%d' % gpu for gpu in DRA_GPUS},
            published={name: [taint['key'] for taint in device.get('taints', [])] for name, device in node.devices().items()})

    def all_facts(self):
        """With what takes time to find out."""
        facts, node = self.facts(), self.node
        driver = node.dra.driver(DRIVER)
        status = self.status()
        facts.record = self.record()
        facts.daemons = status and {one['name']: one['state'] for one in status['daemons']}
        facts.is_driver_connected = bool(driver and driver.ready.is_set())
        facts.waiting = {pod.name: pod.problem for pod in list(self.pods.values()) if pod.problem}
        facts.cdi_devices = tuple(name for name in node.cdi_devices() if name.startswith(DRIVER))
        facts.sockets = tuple(name for name in node.sockets() if name.startswith('warpshare-gpu-'))
        facts.mig_wanted = GEOMETRIES[self.geometry]
        facts.mig_state = self.cluster.node()['metadata']['labels'].get('nvidia.com/mig.config.state', '')
        facts.marks, facts.health = self.marks(), self.healthz()
        return facts

    def record(self):
        """The ledger on disk; None: it cannot be read."""
        try:
            with open(os.path.join(self.node.mps_root, 'allocations-%s.json' % GPU.replace('/', '_')), encoding='utf-8') as file:
                return {grant['id']: grant['unit'] for grant in json.load(file)['grants']}
        except FileNotFoundError:
            return {}
        except ValueError:
            return None
