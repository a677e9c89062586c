"""What the agent of the image takes of a node's memory, alone in its container: proportional set size, and what of it is in no file.

Started by `tools/check-image --bench`, which builds the image and says where it is. 8 simulated GPUs with 48 replicas each by
time-slicing. A container shares no file with others on the node, so the pages of its C library count, too.
"""
import os
import re
import sys
import time

import yaml

sys.path[:0] = [os.path.join(os.environ['WARPSHARE_SOURCE'], 'test', folder) for folder in ('image', 'e2e')]

from node import GPU  # noqa: E402
from operator_node import OperatorNode  # noqa: E402

SETTLED = 5.0  # seconds after which nothing of the start is under way


def memory(container):
    with open('/proc/%d/smaps_rollup' % container.pid_inside(), encoding='ascii') as file:
        text = file.read()
    return [int(re.search(r'^%s:\s+(\d+)' % name, text, re.MULTILINE).group(1)) / 1024 for name in ('Pss', 'Anonymous')]


def measure(node, environment):
    cluster, credentials = node.cluster()
    container = node.start_as(['warpshare', 'agent'], {
        'CONFIG_FILE': '/available-configs/shared', 'WARPSHARE_METRICS_ADDRESS': '127.0.0.1:0',
        **({**credentials, 'NODE_NAME': 'n1', **environment} if environment else {})}, {
            **cluster, '/available-configs': node.at('configs'), '/var/lib/kubelet/device-plugins': node.at('plugins'),
            '/mps': node.at('mps')})
    node.wait_counts(384)
    time.sleep(SETTLED)
    found = memory(container)
    assert container.stop() == 0
    return found


def main():
    node = OperatorNode()
    try:
        node.write('simulation/gpus.yaml', yaml.safe_dump({
            'driverVersion': '550.163.01', 'cudaVersion': '12.4', 'gpus': [{'model': 'A100-40GB', 'count': 8}]}))
        node.add_config('shared', {'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': 48}]}}})
        for what, environment in (
                ('agent, metrics', {}),
                ('agent, metrics, API server, labels', {'WARPSHARE_LABELS_OUTPUT': 'node'})):
            print('%-36s PSS %.1f MiB, of that in no file %.1f MiB' % (what, *measure(node, environment)))
    finally:
        node.finish()


main()
