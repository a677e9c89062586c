# SPDX-License-Identifier: Apache-2.0
"""What the agent of the image takes of a node's memory, alone in its container: proportional set size, and what of it is in no file.

Started by `tools/check-image --bench`, which builds the image and says where it is. 8 simulated GPUs with 48 replicas each by
time-slicing, of which pods have some; with everything on, a ninth in MIG mode belongs to DRA. A container shares no file with others on the
node, so the pages of its C library count, too. --mappings: also by file.
"""
import collections
import os
import re
import ssl
import sys
import time
import urllib.request

import yaml

sys.path[:0] = [os.path.join(os.environ['WARPSHARE_SOURCE'], 'test', folder) for folder in ('image', 'e2e')]

from image import ROOTFS  # noqa: E402
from node import GPU  # noqa: E402
from operator_node import OperatorNode  # noqa: E402

SETTLED = 12.0  # seconds after which nothing of the start is under way, and usage was read twice
SHARED = 8
SLICES = '/apis/resource.k8s.io/v1/resourceslices'
API = {'WARPSHARE_LABELS_OUTPUT': 'node'}
EVERYTHING = {
    **API, 'CONFIG_FILE': '/available-configs/everything', 'WARPSHARE_METRICS_TLS': 'true', 'WARPSHARE_METRICS_DCGM': 'true',
    'WARPSHARE_METRICS_POD_LABELS': 'team', 'WARPSHARE_METRICS_AUTHORIZATION': 'remote', 'WARPSHARE_MIG_MANAGER': 'true',
    'WARPSHARE_DRA_DYNAMIC_MIG': 'true', 'MIG_STRATEGY': 'mixed', 'MPS_ROOT': '/run/nvidia/mps', 'DEVICE_LIST_STRATEGY': 'cdi-cri'}


def figures(text):
    return [int(re.search(r'^%s:\s+(\d+)' % name, text, re.MULTILINE).group(1)) / 1024 for name in ('Pss', 'Anonymous')]


def memory(pid):
    """[PSS, of that in no file] of the process, and the same of the children that it has now, its workers."""
    own, workers = [0.0, 0.0], [0.0, 0.0]
    with open('/proc/%d/task/%d/children' % (pid, pid), encoding='ascii') as file:
        family = [pid, *(int(child) for child in file.read().split())]
    for member in family:
        try:
            with open('/proc/%d/smaps_rollup' % member, encoding='ascii') as file:
                found = figures(file.read())
        except (FileNotFoundError, ProcessLookupError):
            assert member != pid  # a worker may end meanwhile
            continue
        if member == pid:
            own = found
        else:
            workers = [a + b for a, b in zip(workers, found)]
    return own, workers


def by_mapping(pid):
    """Name of the file, or of what is in none → [PSS, of that in no file, the last by access: r-x and so on]."""
    found = collections.defaultdict(lambda: [0.0, 0.0, collections.Counter()])
    with open('/proc/%d/smaps' % pid, encoding='utf-8') as file:
        parts = re.split(r'^(?=[0-9a-f]+-[0-9a-f]+ )', file.read(), flags=re.MULTILINE)[1:]
    for part in parts:
        head = part.split('\n', 1)[0].split()
        name = os.path.basename(head[5]) if len(head) > 5 else 'none'
        pss, anonymous = figures(part)
        found[name][0] += pss
        found[name][1] += anonymous
        found[name][2][head[1][:3]] += pss
    return sorted(found.items(), key=lambda item: -item[1][0])


def read_metrics(container):
    """As Prometheus does, over TLS, since the page is made anew for it."""
    port = container.wait_log(r' metrics address=.* port=(\d+)').group(1)
    with urllib.request.urlopen('https://127.0.0.1:%s/metrics' % port, context=ssl._create_unverified_context()) as answer:
        return len(answer.read())


def drop_pages():
    """As on a node that has just started. In what sizes the kernel keeps a file depends on who wrote or read it before, and it maps whole ones."""
    for folder, _, names in os.walk(ROOTFS):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.islink(path):
                with open(path, 'rb') as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start_pods(node):
    """Their names."""
    names = ['pod-%d' % i for i in range(5)]
    for name in names:
        node.kubelet.admit(name, GPU, 1)
    return names


def measure(node, environment, before=(), also=None, settled=SETTLED):
    """What memory() says of the agent, and the PSS of the process by mapping. |before|: words before the agent's command; |also|: mounts."""
    of_dra = [{'model': 'A100-40GB', 'mig': {'enabled': True}}] if EVERYTHING.items() <= environment.items() else []
    node.write('simulation/gpus.yaml', yaml.safe_dump({
        'driverVersion': '550.163.01', 'cudaVersion': '12.4', 'gpus': [{'model': 'A100-40GB', 'count': SHARED}, *of_dra]}))
    mounts, credentials = node.cluster()
    drop_pages()
    container = node.start_as([*before, 'warpshare', 'agent'], {
        'CONFIG_FILE': '/available-configs/shared', 'WARPSHARE_METRICS_ADDRESS': '127.0.0.1:0',
        **({**credentials, 'NODE_NAME': 'n1', **environment} if environment else {})}, {
            **mounts, **(also or {}), '/available-configs': node.at('configs'), '/var/lib/kubelet/device-plugins': node.at('plugins'),
            '/mps': node.at('mps'), '/var/run/cdi': node.at('cdi'), '/var/lib/kubelet/pod-resources': node.at('pod-resources'),
            '/var/lib/kubelet/plugins': node.at('dra'), '/var/lib/kubelet/plugins_registry': node.at('registry'),
            '/var/lib/warpshare/mig': node.at('mig'), '/driver-root': node.at('driver')})
    node.wait_counts(48 * SHARED)
    ended, *running = start_pods(node)
    node.kubelet.remove_pod(ended)
    if EVERYTHING.items() <= environment.items():
        node.wait(lambda: node.api.all(SLICES), 'DRA offers its GPU')
        for _ in range(2):
            time.sleep(settled / 2)
            read_metrics(container)
    time.sleep(settled)
    pid = container.target()
    found = memory(pid), by_mapping(pid)
    assert container.stop() == 0
    for name in running:
        node.kubelet.remove_pod(name)
    return found


def prepare(node):
    for name in ('pod-resources', 'dra', 'registry', 'mig'):
        os.makedirs(node.at(name), exist_ok=True)
    node.api.serve_dra()
    shared = {'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': 48, 'devices': list(range(SHARED))}]}}}
    node.add_config('shared', shared)
    node.add_config('everything', {**shared, 'dra': {'enabled': True, 'devices': [SHARED], 'dynamicMig': True}})


def main():
    node = OperatorNode()
    try:
        prepare(node)
        for what, environment in (
                ('agent, metrics', {}), ('agent, metrics, API server, labels', API), ('agent, everything', EVERYTHING)):
            (own, workers), mappings = measure(node, environment)
            print('%-36s PSS %.1f MiB, of that in no file %.1f MiB; its workers %.1f and %.1f MiB' % (what, *own, *workers))
            if '--mappings' in sys.argv:
                for name, (pss, anonymous, access) in mappings:
                    print('        %-32s %7.2f  in no file %6.2f  %s' % (
                        name, pss, anonymous, ' '.join('%s %.2f' % item for item in access.items())))
    finally:
        node.finish()


if __name__ == '__main__':
    main()
