# SPDX-License-Identifier: Apache-2.0
"""A node in a temporary folder: simulated GPUs, a configuration, kubelet's directory, and the agent as a process.

Nothing here sleeps where an event can be waited for, and every wait has a deadline whose message shows the agent's log.
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socketserver
import subprocess
import tempfile
import threading
import time

import yaml

import kubelet as kubelet_module

WARPSHARE = os.environ['WARPSHARE']
SIMULATOR = os.environ['WARPSHARE_NVML_SIM']
GPU = 'nvidia.com/gpu'
# What every agent is given that a test tells nothing else: a port, at which the test asks for what it knows, and no readings beside that.
ASKED = {'WARPSHARE_METRICS_ADDRESS': '127.0.0.1:0', 'WARPSHARE_USAGE_INTERVAL': 'off'}

# Far beyond what anything takes on a loaded machine under a sanitizer: only a hang gets here.
DEADLINE = 30.0

# The agent's thread waits a second in NVML for events, and ends, or comes to a request, only then.
LONGEST_WAIT = '50ms'


def fast():
    """The variables under which the monotonic clock of a program goes four times as fast (sim/clock), so that the ten seconds that a call of NVML
    has are two and a half of ours. Not for what has less than four seconds, nor for a time that somebody else keeps: kubelet, a tenant."""
    return {'LD_PRELOAD': os.environ['WARPSHARE_CLOCK_SIM'], 'WARPSHARE_SIM_SPEED': '4'}


def _is_sanitized():
    with open(WARPSHARE, 'rb') as program:
        return re.search(rb'__asan_init', program.read()) is not None


# Times are part of a promise only where nothing slows the program down on purpose.
SANITIZED = _is_sanitized()

# The same, for the reports of the sanitizers themselves.
REPORT = re.compile(r'^.*(Sanitizer|runtime error:|Assertion .* failed|==\d+== ).*$', re.MULTILINE)


def v100s(count=4, **more):
    return [dict(model='V100-32GB', numa=i * 2 // count, **more) for i in range(count)]


def sharing(kind, replicas, **more):
    """The configuration that shares every GPU in |replicas|; |more| goes into the section."""
    config = {'version': 'v1', 'sharing': {kind: {'resources': [{'name': GPU, 'replicas': replicas}], **more}}}
    if kind == 'mps':
        config['flags'] = {'mpsRoot': '/run/nvidia/mps'}
    return config


def listens(pid, number):
    try:
        with open('/proc/%s/status' % pid, encoding='ascii') as status:
            masks = re.findall(r'^Sig(?:Blk|Cgt):\t([0-9a-f]+)$', status.read(), re.MULTILINE)
    except OSError:
        return False
    return any(int(mask, 16) >> number - 1 & 1 for mask in masks)


class Process:
    """A process whose standard error is read all the time, so that lines can be waited for."""

    commands = []  # of all that were started

    def __init__(self, command, environment):
        self.commands.append(command)
        self.started = time.monotonic()
        self._lines = []
        self._taken = 0
        self._changed = threading.Condition(threading.RLock())
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors='replace')
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.expected_status = 0

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with self._changed:
            return ''.join(self._lines)

    def story(self):
        """The log without the configuration, which is as long as all the rest, and known."""
        return re.sub(r'^.*Running with config:\n(?s:.*?)^}\n', '', self.log(), flags=re.MULTILINE)

    def take_lines(self, keep):
        """The lines since the last call. Of those before, the newest |keep| stay in the log, for runs of hours."""
        with self._changed:
            lines = self._lines[self._taken:]
            del self._lines[:-keep]
            self._taken = len(self._lines)
            return lines

    def count(self, pattern):
        return len(re.findall(pattern, self.log(), re.MULTILINE))

    def wait_log(self, pattern, count=1, timeout=DEADLINE):
        """Waits for the |count|th match in the log and returns it."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = list(re.finditer(pattern, ''.join(self._lines), re.MULTILINE))
                if len(found) >= count:
                    return found[count - 1]
                left = deadline - time.monotonic()
                assert left > 0, 'the agent did not log /%s/ %d times; its log:\n%s' % (
                    pattern, count, self.story())
                if self.process.poll() is not None and not self._reader.is_alive():
                    raise AssertionError('the agent ended with %d and never logged /%s/; its log:\n%s' % (
                        self.process.returncode, pattern, self.story()))
                self._changed.wait(min(left, 0.5))

    def target(self):
        """The process that signals are for; None: it is not there yet."""
        return self.pid

    def has_child(self, name):
        try:
            for child in pathlib.Path('/proc/%d/task/%d/children' % (self.pid, self.pid)).read_text(encoding='ascii').split():
                if pathlib.Path('/proc/%s/comm' % child).read_text(encoding='utf-8') == name + '\n':
                    return True
        except OSError:  # one has just ended
            pass
        return False

    def _listens(self, number):
        """The target's handler is there, or the signal is held back for it: a program that has just begun any signal kills."""
        target = self.target()
        if not target or number == signal.SIGKILL:
            return bool(target)
        try:
            with open('/proc/%d/task/%d/children' % (target, target), encoding='ascii') as file:
                children = file.read().split()
        except OSError:
            return False
        return any(listens(pid, number) for pid in (target, *children))  # a parent that waits for signals shows none

    def signal(self, number):
        deadline = time.monotonic() + DEADLINE
        while self.process.poll() is None and not self._listens(number):
            assert time.monotonic() < deadline, 'the agent does not listen to signal %d; its log:\n%s' % (number, self.story())
            time.sleep(0.001)
        if self.process.poll() is None:
            os.kill(self.target(), number)

    def wait(self, timeout=DEADLINE):
        """The exit status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError('the agent does not end; its log:\n' + self.story()) from None
        self._reader.join(DEADLINE)
        self.process.stderr.close()
        return status

    def fails(self, pattern):
        """It ends by itself with status 1, and its log has said why: the match."""
        self.expected_status = 1
        assert self.wait() == 1, self.story()
        found = re.search(pattern, self.log(), re.MULTILINE)
        assert found, 'the agent did not log /%s/; its log:\n%s' % (pattern, self.story())
        return found

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.expected_status = -signal.SIGKILL
        self.signal(signal.SIGKILL)
        return self.wait()

    def finish(self, name):
        """Ends it if it runs; returns what was wrong with it or its end."""
        faults = []
        if self.process.returncode is None:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            try:
                self.wait()
            except AssertionError as error:
                faults.append(str(error))
                self.kill()
        if self.process.returncode != self.expected_status:
            faults.append('%s with pid %d ended with %d instead of %d' % (
                name, self.pid, self.process.returncode, self.expected_status))
        report = REPORT.search(self.log())
        if report:
            faults.append('%s with pid %d was caught by a sanitizer: %s' % (name, self.pid, report.group(0)))
        return faults

    def hang_up(self):
        self.signal(signal.SIGHUP)

    def reload(self):
        """SIGHUP, and returns when it was received: what is done next comes after it for the agent, too."""
        received = self.count('signal received')
        self.hang_up()
        self.wait_log('signal received', received + 1)

    def memory_kib(self, what='VmRSS'):
        with open('/proc/%d/status' % self.pid, encoding='ascii') as status:
            return int(re.search(r'^%s:\s+(\d+) kB' % what, status.read(), re.MULTILINE).group(1))


class Agent(Process):
    """A process of the program. What it knows is asked of its port for metrics; its log is read where a line of it is what is tested."""

    def __init__(self, arguments, environment, prefix=()):
        super().__init__([*prefix, WARPSHARE, *arguments], environment)

    def port(self):
        return int(self.wait_log(r'metrics"? .*port="?(\d+)').group(1))

    def get(self, path, **headers):
        """Status and text of a page."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port(), timeout=DEADLINE)
        connection.request('GET', path, headers=headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def page(self):
        """What the agent knows of its node (docs/node-page.md)."""
        return json.loads(self.get('/node')[1])

    def units(self, resource=None):
        """GPUs and MIG devices of the page: all, or those of one resource, by index."""
        return [unit for gpu in self.page()['gpus'] for unit in gpu['units'] if resource in (None, unit.get('resource'))]

    def problem(self):
        """Why all is not well; empty: it is."""
        status, text = self.get('/healthz')
        return text if status != 200 else ''

    def wait_until(self, is_true, what, timeout=DEADLINE):
        """Asks again and again until the answer is true, and returns it."""
        deadline = time.monotonic() + timeout
        while not (answer := is_true()):
            assert self.process.poll() is None, 'the agent ended with %s before %s\n%s' % (self.process.returncode, what, self.story())
            assert time.monotonic() < deadline, 'after %.1f s still not: %s\n%s' % (timeout, what, self.story())
            time.sleep(0.02)
        return answer

    def wait_plan(self, devices, resource=GPU):
        """Its plan has so many devices of the resource, whether it serves or waits until it may."""
        return self.wait_until(lambda: sum(unit.get('replicas', 0) for unit in self.units(resource)) == devices,
                               'the plan has %d of %s' % (devices, resource))

    def wait_problem(self, pattern, timeout=DEADLINE):
        return self.wait_until(lambda: re.search(pattern, self.problem()), 'it says what is wrong: ' + pattern, timeout)

    def wait_event(self, reason, words='', timeout=DEADLINE):
        """The text of an event about the node, which the page has whether the API server is spoken to or not."""
        return self.wait_until(lambda: next((event['text'] for event in self.page().get('events', [])
                                             if event['reason'] == reason and re.search(words, event['text'])), None),
                               'event %s: %s' % (reason, words), timeout)


class _MpsConversation(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            if request['do'] == 'watch':
                self.server.owner.watch(self)
            else:
                self.say({'id': request['id'], 'ok': True})
            if request['do'] == 'apply':
                self.server.owner.apply(request)

    def say(self, answer):
        try:
            self.wfile.write(json.dumps(answer).encode() + b'\n')
        except OSError:
            pass  # who watched is gone

    def finish(self):
        self.server.owner.forget(self)


class WellMps:
    """`warpshare mps` on a good day, for tests that are about something else: what is wanted is ready at once."""

    def __init__(self, root):
        self._lock = threading.Lock()
        self._watchers = []
        self._status = {'generation': 0, 'daemons': []}
        self._server = socketserver.ThreadingUnixStreamServer(
            os.path.join(root, 'warpshare.sock'), _MpsConversation, bind_and_activate=True)
        self._server.daemon_threads = True
        self._server.owner = self
        threading.Thread(target=self._server.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True).start()

    def watch(self, watcher):
        with self._lock:
            self._watchers.append(watcher)
            watcher.say({'status': self._status})

    def forget(self, watcher):
        with self._lock:
            self._watchers = [other for other in self._watchers if other is not watcher]

    @property
    def generation(self):
        """The last that somebody wanted."""
        with self._lock:
            return self._status['generation']

    def apply(self, request):
        with self._lock:
            self._status = {'generation': request['generation'], 'daemons': [
                {'name': daemon['name'], 'resource': daemon['resource'], 'state': 'ready', 'tier': 'verified',
                 'units': [unit['uuid'] for unit in daemon['units']], 'servers': [], 'clients': []}
                for daemon in request['daemons']]}
            for watcher in self._watchers:
                watcher.say({'status': self._status})

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


class Node:
    """|has_mps|: somebody answers in the MPS root; else the test brings its own."""

    def __init__(self, has_mps=True):
        self.folder = tempfile.mkdtemp(prefix='ws-e2e-', dir='/tmp')
        self.directory = os.path.join(self.folder, 'device-plugins')
        self.scenario_path = os.path.join(self.folder, 'gpus.yaml')
        self.config_path = os.path.join(self.folder, 'config.yaml')
        self.library = SIMULATOR
        self.environment = {}
        self.agents = []
        self.kubelet = kubelet_module.Kubelet(self.directory)
        self.mps_root = os.path.join(self.folder, 'mps')
        os.mkdir(self.directory, 0o750)
        os.mkdir(self.mps_root)
        self.mps = WellMps(self.mps_root) if has_mps else None
        self.scenario(v100s())

    # ---- files ----

    def _write(self, path, text):
        with open(path + '.new', 'w', encoding='utf-8') as file:
            file.write(text)
        os.rename(path + '.new', path)

    def scenario(self, gpus, **more):
        """Replaces the GPUs; the simulator sees it at once."""
        self._write(self.scenario_path, yaml.safe_dump(
            {'driverVersion': '550.163.01', 'cudaVersion': '12.4', 'longestWait': LONGEST_WAIT, 'gpus': gpus, **more},
            sort_keys=False))

    def config(self, content):
        self._write(self.config_path, content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))

    # ---- the agent ----

    def start(self, *arguments, prefix=()):
        environment = {name: value for name, value in os.environ.items()
                       if name.startswith(('ASAN_', 'UBSAN_', 'LSAN_', 'PATH', 'LD_LIBRARY_PATH'))}
        environment['WARPSHARE_SIM_SCENARIO'] = self.scenario_path
        environment.update(self.environment)
        if not any(str(word).startswith('--metrics-address') for word in arguments):
            environment = {**ASKED, **environment}
        arguments = ['agent', '--kubelet-socket', self.kubelet.socket, '--mps-directory', self.mps_root,
                     '--kubelet-root', self.kubelet.root, *arguments]
        if self.library is not None:
            arguments += ['--nvml-library', self.library]
        if os.path.exists(self.config_path):
            arguments += ['--config-file', self.config_path]
        agent = Agent(arguments, environment, prefix)
        self.agents.append(agent)
        return agent

    @property
    def agent(self):
        return self.agents[-1]

    def start_all(self, config=None, *arguments):
        """kubelet and the agent, up to the moment at which the node's GPUs are allocatable."""
        if config is not None:
            self.config(config)
        self.kubelet.start()
        self.start(*arguments)
        self.wait(lambda: self.kubelet.newest and all(
            self.kubelet.allocatable(resource) for resource in self.kubelet.newest), 'a resource is allocatable')
        return self.kubelet

    def logs(self):
        return '\n'.join('---- log of agent %d (pid %d) ----\n%s' % (i + 1, agent.pid, agent.story())
                         for i, agent in enumerate(self.agents))

    def wait(self, is_true, what, timeout=DEADLINE):
        start = time.monotonic()

        def is_true_or_hopeless():
            if is_true():
                return True
            for agent in self.agents:
                assert agent.process.poll() in (None, 0, agent.expected_status), \
                    'the agent ended with %d before %s\n%s' % (agent.process.returncode, what, self.logs())
            return False

        if not self.kubelet.wait(is_true_or_hopeless, timeout):
            raise AssertionError('after %.1f s still not: %s\n%s\n%s' % (timeout, what, self.counts(), self.logs()))
        return time.monotonic() - start

    def counts(self):
        return 'kubelet counts: ' + (', '.join(
            '%s %d/%d' % (name, self.kubelet.allocatable(name), self.kubelet.capacity(name))
            for name in self.kubelet.devices) or 'nothing')

    def wait_counts(self, allocatable, capacity=None, resource=GPU, timeout=DEADLINE):
        capacity = allocatable if capacity is None else capacity
        return self.wait(
            lambda: (self.kubelet.allocatable(resource), self.kubelet.capacity(resource)) == (allocatable, capacity),
            '%d of %d %s are allocatable' % (allocatable, capacity, resource), timeout)

    def stays(self, is_true, what, duration=2.0):
        """That nothing changes can only be seen by looking for a while."""
        assert not self.kubelet.wait(lambda: not is_true(), duration), 'did not last: %s\n%s\n%s' % (
            what, self.counts(), self.logs())

    def sockets(self):
        return sorted(name for name in os.listdir(self.directory) if name.startswith('warpshare-'))

    # ---- the end ----

    def finish(self):
        """Stops all of it; returns what was wrong with the end."""
        faults = []
        ended_well = True
        for agent in self.agents:
            faults += agent.finish('agent')
            ended_well = ended_well and agent.process.returncode == 0
        self.kubelet.stop()
        if self.mps:
            self.mps.stop()
        if ended_well and os.path.isdir(self.directory) and self.sockets():
            faults.append('sockets were left behind: %s' % ', '.join(self.sockets()))
        shutil.rmtree(self.folder, ignore_errors=True)
        if faults:
            faults.append(self.logs())
        return faults
