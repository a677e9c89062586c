# SPDX-License-Identifier: Apache-2.0
"""What a cluster's API server hears of so many nodes: at work, and when it comes back after a restart.

usage: bench/nodes.py PROGRAM LIBRARY [--nodes N] [--calm SECONDS] [--outage SECONDS] [--after SECONDS] [--most N] [--curve FILE]
       (PROGRAM: a built `warpshare`; LIBRARY: the simulated NVML)

Each node is a real agent with everything that talks to the API server switched on: its configuration from a ConfigMap, labels as a NodeFeature, condition
and taint, events, labels of pods, and DRA for half of its GPUs. None has a kubelet; nothing is ever changed, and
who uses the GPUs is not read, which is none of the server's business. Prints as bench/figure.h does. First
the requests and bytes of a calm time. Then the server restarts: once gracefully, when all its watches end at one moment and another server is there at
once; once by a crash, when it is away for a while. In what second how much is asked goes to FILE, as CSV. With --most it answers so many requests in a
second, and 429 to the others, as API priority and fairness does.
"""
import argparse
import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(0, os.path.join(SOURCE, 'test/e2e'))
os.environ.setdefault('WARPSHARE_SOURCE', SOURCE)

from busy_api import BusyApi  # noqa: E402

NODES = '/api/v1/nodes'
MAPS = '/api/v1/namespaces/warpshare/configmaps'
DRIVER = '580.105.08'
WATCHES = 4  # of a node: itself, its ConfigMap, its pods, its ResourceSlices
CONFIG = '''version: v1
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 10}
dra: {devices: ["4", "5", "6", "7"], mps: false}
'''
SCENARIO = f'driverVersion: {DRIVER}\ncudaVersion: "13.0"\ngpus:\n' + ''.join(
    f'- {{model: H100-80GB, uuid: GPU-{i:08d}-1111-2222-3333-444444444444}}\n' for i in range(8))
INOTIFY_USER = 200000  # the kernel gives a user 128 instances of inotify, and each agent takes one: each is a user of its own, from this one on
PATIENCE = 300
WINDOW = 60  # seconds of the curve


def say(name, unit, value):
    print(name, unit, f'{value:.9g}', f'{value:.9g}', f'{value:.9g}', f'{value:.9g}', 1, sep='\t', flush=True)


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Node:
    def __init__(self, number, folder, options, api):
        self.name = f'n{number:04d}'
        own = os.path.join(folder, self.name)
        for part in ('kubelet', 'registry', 'plugins', 'mps', 'cdi', 'mig'):
            os.makedirs(os.path.join(own, part))
        for path, folders, _ in os.walk(own):
            for one in (path, *(os.path.join(path, part) for part in folders)):
                if os.geteuid() == 0:
                    os.chown(one, INOTIFY_USER + number, INOTIFY_USER + number)
        api.put(NODES, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': self.name}, 'spec': {}, 'status': {
            'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'KubeletReady'}]}}, manager='kubelet')
        driver = os.path.join(folder, 'driver')
        command = [options.program, 'agent', f'--nvml-library={options.library}', f'--kubelet-socket={own}/kubelet/kubelet.sock',
                   '--pod-resources-socket=', f'--driver-root={driver}', f'--driver-root-ctr-path={driver}', f'--system-root={driver}',
                   f'--cdi-root={own}/cdi', f'--mig-state-directory={own}/mig', f'--mps-root={own}/mps', f'--mps-directory={own}/mps',
                   f'--kubeconfig={api.path}', f'--node-name={self.name}', '--config-map=warpshare/configs', '--config-default=default',
                   '--labels-output=nodefeature', '--node-condition=GPUSharingReady', '--node-taint=warpshare.io/not-ready=true:NoSchedule',
                   '--events=node', '--metrics-pod-labels=team', '--metrics-address=127.0.0.1:0', '--usage-interval=off', '--dra',
                   f'--kubelet-plugins-registry={own}/registry', f'--kubelet-plugins={own}/plugins', '--log-level=error']
        user = {'user': INOTIFY_USER + number, 'group': INOTIFY_USER + number, 'extra_groups': []} if os.geteuid() == 0 else {}
        environment = {'PATH': os.environ['PATH'], 'WARPSHARE_SIM_SCENARIO': os.path.join(folder, 'gpus.yaml')}
        self.log_path = os.path.join(folder, self.name + '.log')
        with open(self.log_path, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **user)

    def log(self):
        with open(self.log_path, encoding='utf-8') as log:
            return log.read()[-2000:]

    def private_kib(self):
        with open(f'/proc/{self.process.pid}/smaps_rollup', encoding='ascii') as file:
            return sum(int(line.split()[1]) for line in file if line.startswith('Private_'))


def end(nodes):
    for node in nodes:
        node.process.kill()
    for node in nodes:
        node.process.wait()


async def until(what, is_true, nodes):
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        ended = [node for node in nodes if node.process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f'{what}: not in {PATIENCE} s, or agents ended ({len(ended)}); the log of one:\n{(ended or nodes)[0].log()}')
        await asyncio.sleep(0.2)


def kinds(asked):
    """How many of each: reads, lists, watches, writes that succeeded, and what was refused."""
    counted = collections.Counter()
    for one in asked:
        if one.status == 429:
            counted['refused'] += 1
        elif one.verb in ('get', 'list', 'watch'):
            counted[one.verb] += 1
        else:
            counted[f'write {one.resource}'] += 1
            counted['write'] += 1
    return counted


async def start(options, folder, api, stack):
    """As a DaemonSet comes up, a few at a time; until little is asked any more."""
    nodes = []
    stack.callback(end, nodes)
    for number in range(options.nodes):
        nodes.append(Node(number, folder, options, api))
        if number % 20 == 19:
            progress(f'{number + 1} nodes, {len(api.asked)} requests')
            # Whoever starts wants a core: no more of them at a time than there is room for.
            await until('the agents watch', lambda: api.watches_now() >= WATCHES * (len(nodes) - 20), nodes)
    await until('all watches', lambda: api.watches_now() == WATCHES * options.nodes, nodes)
    before = -PATIENCE
    while len(api.asked) - before > options.nodes / 50:  # whoever came first has begun to write at intervals
        before = len(api.asked)
        await asyncio.sleep(3)
    return nodes


async def measure_calm(options, api):
    begun, since, before = time.monotonic(), len(api.asked), (api.bytes_in, api.bytes_out)
    while time.monotonic() - begun < options.calm:
        await asyncio.sleep(1)
    hours = (time.monotonic() - begun) / 3600 * options.nodes
    counted = kinds(api.asked[since:])
    for name, count in sorted(counted.items()):
        say(f'nodes_calm_{name.replace(" ", "_")}', '/node/h', count / hours)
    say('nodes_calm_requests', '/node/h', (len(api.asked) - since) / hours)
    say('nodes_calm_sent', 'KiB/node/h', (api.bytes_in - before[0]) / 1024 / hours)
    say('nodes_calm_received', 'KiB/node/h', (api.bytes_out - before[1]) / 1024 / hours)


def busiest(times, width):
    """The most of them in any |width| seconds."""
    times, first, most = sorted(times), 0, 0
    for last, at in enumerate(times):
        while times[first] < at - width:
            first += 1
        most = max(most, last - first + 1)
    return most


async def measure_restart(options, api, nodes, graceful, curves):
    name = 'graceful' if graceful else 'crash'
    connections, since = len(api.opened), len(api.asked)
    await api.restart(options.outage, graceful)
    back = time.monotonic()
    await asyncio.sleep(0.1)
    await until('all watches again', lambda: api.watches_now() == WATCHES * options.nodes, nodes)
    all_back = time.monotonic() - back
    await asyncio.sleep(options.after)
    asked = [one for one in api.asked[since:] if one.at >= back - 0.5]
    counted = kinds(asked)
    say(f'nodes_{name}_requests', '', len(asked))
    say(f'nodes_{name}_refused', '', counted['refused'])
    say(f'nodes_{name}_busiest_second', 'requests', busiest([one.at for one in asked], 1))
    say(f'nodes_{name}_busiest_tenth', 'requests', busiest([one.at for one in asked], 0.1))
    say(f'nodes_{name}_connections', '/s', busiest(api.opened[connections:], 1))
    say(f'nodes_{name}_back', 's', all_back)
    curves[name] = collections.Counter(int((one.at - back) // 1) for one in asked)


async def measure(options):
    curves = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='warpshare-nodes-'))
        os.chmod(folder, 0o755)
        os.makedirs(f'{folder}/driver/usr/lib64')
        os.makedirs(f'{folder}/driver/proc')
        for path, text in (('driver/usr/lib64/libcuda.so.' + DRIVER, ''), ('gpus.yaml', SCENARIO)):
            with open(os.path.join(folder, path), 'w', encoding='utf-8') as file:
                file.write(text)
        async with BusyApi(folder + '/api', options.most) as api:
            api.path = api.kubeconfig(user={})
            api.put(MAPS, {'metadata': {'name': 'configs'}, 'data': {'default': CONFIG}})
            nodes = await start(options, folder, api, stack)
            say('nodes_start_requests', '/node', len(api.asked) / options.nodes)
            say('nodes_private', 'MiB', sum(node.private_kib() for node in nodes) / 1024 / options.nodes)
            if options.calm:
                await measure_calm(options, api)
            for graceful in (True, False):
                progress('the server ends all watches' if graceful else f'the server is away for {options.outage} s')
                await measure_restart(options, api, nodes, graceful, curves)
    if options.curve:
        with open(options.curve, 'w', encoding='utf-8') as file:
            file.write('second,graceful,crash\n')
            file.writelines(f'{second},{curves["graceful"][second]},{curves["crash"][second]}\n' for second in range(WINDOW))


def main():
    parser = argparse.ArgumentParser(description='What an API server hears of so many nodes.')
    parser.add_argument('program')
    parser.add_argument('library')
    parser.add_argument('--nodes', type=int, default=1000)
    parser.add_argument('--calm', type=float, default=0, metavar='SECONDS', help='how long requests of a calm time are counted')
    parser.add_argument('--outage', type=float, default=2, metavar='SECONDS')
    parser.add_argument('--after', type=float, default=10, metavar='SECONDS', help='how long it is looked at after all watches stand again')
    parser.add_argument('--most', type=int, metavar='N', help='requests that are answered in a second')
    parser.add_argument('--curve', metavar='FILE')
    options = parser.parse_args()
    options.program, options.library = os.path.abspath(options.program), os.path.abspath(options.library)
    if os.geteuid() != 0 and options.nodes > 50:
        parser.error(f'--nodes: {options.nodes} need to be users of their own, since inotify is given out by user: run it as root, or 50 at most')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the agents end, too
    asyncio.run(measure(options))


if __name__ == '__main__':
    main()
