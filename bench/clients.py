# SPDX-License-Identifier: Apache-2.0
"""What a node full of MPS clients costs: so many simulated GPUs, 48 shares each, and in each share a program that runs.

usage: bench/clients.py BUILD [--gpus N] [--shares N] [--seconds N]      (BUILD: the folder of a build)

Prints as bench/figure.h does. kubelet, the containers' cgroups and NVIDIA's programs are the tests' (test/e2e, sim/mps); supervisor and agent are real.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
TIMES = 9
PATIENCE = 120


def say(name, unit, values):
    ordered = sorted(values)
    print(name, unit, statistics.median(ordered), ordered[-1], ordered[0], ordered[-1], len(ordered), sep='\t', flush=True)


def parse():
    parser = argparse.ArgumentParser(description='What a node full of MPS clients costs.')
    parser.add_argument('build')
    parser.add_argument('--gpus', type=int, default=16)
    parser.add_argument('--shares', type=int, default=48)
    parser.add_argument('--seconds', type=float, default=20, help='of looking at programs that do nothing')
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    sys.path[:0] = [os.path.join(SOURCE, 'test/e2e'), os.path.join(build, 'test/e2e')]
    os.environ.update(WARPSHARE=f'{build}/src/cmd/warpshare', WARPSHARE_NVML_SIM=f'{build}/sim/nvml/libwarpshare-nvml-sim.so',
                      WARPSHARE_MPS_SIM_BIN=f'{build}/sim/mps/bin', WARPSHARE_SOURCE=SOURCE)
    return options


def uuid_of(position):
    return f'GPU-{position:08x}-1111-2222-3333-444444444444'


class Seen:
    """What a process and its threads have used so far."""

    def __init__(self, pid):
        self.at, self.cpu_ns, self.switches = time.monotonic(), 0, 0
        for thread in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{thread}/schedstat', encoding='ascii') as file:
                self.cpu_ns += int(file.read().split()[0])
            with open(f'/proc/{pid}/task/{thread}/status', encoding='ascii') as file:
                self.switches += int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', file.read(), re.MULTILINE).group(1))


def private_mib(pid):
    with open(f'/proc/{pid}/smaps_rollup', encoding='ascii') as file:
        return sum(int(line.split()[1]) for line in file if line.startswith('Private_')) / 1024


def write_scenario(node, pids):
    """
    GPUs as NVML sees them, and the processes on each. The tests' way, a folder of files that the simulated MPS server writes, costs the process
    that asks more with each client and with each GPU, which is the square.
    """
    node._write(node.scenario_path, json.dumps({'driverVersion': '580.105.08', 'cudaVersion': '13.0', 'gpus': [
        {'model': 'H100-80GB', 'uuid': uuid, 'processes': [{'pid': pid, 'memory': '500MiB', 'type': 'M+C'} for pid in on_it]} for uuid, on_it in pids.items()]}))


def make_node(options):
    from mps_node import MpsNode
    from node import GPU

    node = MpsNode()
    node._write(os.path.join(node.programs.folder, 'mps.conf'), '\n'.join(
        ['version: 580', 'lifetime: 600', *(f'gpu: {uuid_of(i)} sms=132 memory=81920 cc=9 name=H100' for i in range(options.gpus)), '']))
    write_scenario(node, {uuid_of(i): [] for i in range(options.gpus)})
    node.config({'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'},
                 'sharing': {'mps': {'resources': [{'name': GPU, 'replicas': options.shares}]}}})
    node.start_mps('--metrics-address=127.0.0.1:0', '--shared-memory=node')  # no container here has a /dev/shm of its own
    node.kubelet.start()
    node.start('--metrics-address=127.0.0.1:0', '--system-root', node.system_root)
    node.wait_counts(options.gpus * options.shares, timeout=PATIENCE)
    return node


def start_clients(node, options):
    """A pod for each share, and its program; returns how long kubelet's part took for each, in milliseconds."""
    from node import GPU

    took = []
    for number in range(options.gpus * options.shares):
        begun = time.monotonic()
        node.kubelet.admit(f'pod-{number}', GPU, 1)
        took.append(1000 * (time.monotonic() - begun))
    program = os.path.join(os.environ['WARPSHARE_MPS_SIM_BIN'], 'warpshare-mps-sim-client')
    clients, pids = [], {uuid_of(i): [] for i in range(options.gpus)}
    for pod in node.kubelet.pods.values():
        environment = {**node.programs.environment, **node.variables(pod.name)}
        mounts = {mount.container_path: mount.host_path.replace('/run/nvidia/mps', node.mps_root, 1) for mount in node.answer(pod.name).mounts}
        environment['CUDA_MPS_PIPE_DIRECTORY'] = mounts[environment['CUDA_MPS_PIPE_DIRECTORY']]
        clients.append(subprocess.Popen(['sh', '-c', 'read -r go && exec "$0" "$@"', program, '--memory=500'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment))
        node._put_in_container(clients[-1].pid, pod)
        pids[node.unit(pod.name)].append(clients[-1].pid)
        clients[-1].stdin.write('go\n')
        clients[-1].stdin.flush()
        line = clients[-1].stdout.readline()
        said = iter(clients[-1].stdout.readline, '')
        if not any(line.startswith('connected') for line in said):
            raise RuntimeError(f'a client of {pod.name} is not connected\n{node.logs()}')
    write_scenario(node, pids)
    return clients, took


def port_of(process):
    return int(process.wait_log(r'metrics.* port=(\d+)').group(1))


def read_page(port, path):
    """(milliseconds, KiB)"""
    begun = time.perf_counter()
    with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=PATIENCE) as answer:
        text = answer.read()
    return 1000 * (time.perf_counter() - begun), len(text) / 1024, text


def measure(node, options):
    processes = {'agent': node.agent, 'supervisor': node.supervisor}
    ports = {name: port_of(process) for name, process in processes.items()}
    for name, process in processes.items():
        say(f'{name}_before', 'MiB', [private_mib(process.pid)])
    clients, took = start_clients(node, options)
    say('allocate', 'ms', took)
    try:
        deadline = time.monotonic() + PATIENCE
        while read_page(ports['agent'], '/metrics')[2].count(b'\nwarpshare_container_info{') < len(clients):
            if time.monotonic() > deadline:
                raise RuntimeError('the page of metrics never had all containers\n' + node.logs()[-3000:])
            time.sleep(1)
        before = {name: Seen(process.pid) for name, process in processes.items()}
        time.sleep(options.seconds)
        for name, process in processes.items():
            now, then = Seen(process.pid), before[name]
            say(f'{name}_cpu', '%', [(now.cpu_ns - then.cpu_ns) / 1e7 / (now.at - then.at)])
            say(f'{name}_wakeups', '/s', [(now.switches - then.switches) / (now.at - then.at)])
        for name, process in processes.items():
            then = Seen(process.pid)
            pages = [read_page(ports[name], '/metrics') for _ in range(TIMES)]
            say(f'{name}_page_cpu', 'ms', [(Seen(process.pid).cpu_ns - then.cpu_ns) / 1e6 / TIMES])
            say(f'{name}_page', 'ms', [page[0] for page in pages])
            say(f'{name}_page_size', 'KiB', [pages[-1][1]])
        asked, then = [], Seen(node.supervisor.pid)
        for _ in range(TIMES):
            peer = node.programs.connect()
            begun = time.perf_counter()
            peer.watch().read()
            asked.append(1000 * (time.perf_counter() - begun))
            peer.close()
        say('status_cpu', 'ms', [(Seen(node.supervisor.pid).cpu_ns - then.cpu_ns) / 1e6 / TIMES])
        say('status', 'ms', asked)
        for name, process in processes.items():
            say(f'{name}_private', 'MiB', [private_mib(process.pid)])
    finally:
        for client in clients:
            client.kill()
        for client in clients:
            client.communicate()


def main():
    options = parse()
    node = make_node(options)
    try:
        measure(node, options)
    finally:
        faults = node.finish()
    if faults:
        sys.exit('\n'.join(faults)[-3000:])


if __name__ == '__main__':
    main()
