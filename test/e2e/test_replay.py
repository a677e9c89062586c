# SPDX-License-Identifier: Apache-2.0
"""warpshare plan --replay against the real agent: the same requests, and the same of them are refused."""
import json
import os
import random
import subprocess

import grpc
import pytest
import yaml

from mps_node import node, share  # noqa: F401 -- a fixture
from node import GPU, WARPSHARE, fast

PODS, REPLICAS, MOST = 30, 10, 7


def requests_of(seed):
    """(start, end, replicas) in the order of the starts; no two moments are the same."""
    chance = random.Random(seed)
    moments = chance.sample(range(1, 2000), 2 * PODS)
    return sorted((*sorted(moments[2 * i:2 * i + 2]), chance.randint(1, MOST)) for i in range(PODS))


def replay(folder, config, requests):
    trace, file = os.path.join(folder, 'trace.csv'), os.path.join(folder, 'config.yaml')
    with open(trace, 'w', encoding='utf-8') as out:
        out.write('start,end,replicas\n' + ''.join('%d,%d,%d\n' % one for one in requests))
    with open(file, 'w', encoding='utf-8') as out:
        yaml.safe_dump(config, out)
    done = subprocess.run([WARPSHARE, 'plan', '--replay', trace, '--candidates=', '--model', 'V100-32GB', '--gpus', '2', '--output', 'json', file],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)['configurations'][0]


class Churn:
    """The node under a scheduler that only counts: who is refused is not created again."""

    def __init__(self, node, advertised):
        self.node, self.left = node, advertised
        self.waiting, self.ends, self.refused, self.waited = [], [], [], set()

    def held(self):
        return sum(unit.get('granted', 0) for gpu in self.node.agent.page()['gpus'] for unit in gpu['units'])

    def settle(self):
        """The agent hears of a pod's end by kubelet's list, some seconds late; the replay knows at once."""
        held = sum(count for _, _, count in self.ends)
        self.node.wait(lambda: self.held() == held, '%d replicas are held' % held)

    def admit(self, name, now, length, count):
        self.settle()
        try:
            self.node.kubelet.admit(name, GPU, count)
        except grpc.RpcError as error:
            assert 'has %d free replicas' % count in error.details(), error.details()
            self.refused.append(name)
            return
        self.left -= count
        self.ends.append((now + length, name, count))

    def end_until(self, moment):
        while self.ends and min(self.ends)[0] <= moment:
            now, name, count = min(self.ends)
            self.ends.remove((now, name, count))
            self.node.kubelet.remove_pod(name)
            self.left += count
            for one in list(self.waiting):
                if one[2] <= self.left:
                    self.waiting.remove(one)
                    self.admit(one[0], now, one[1], one[2])

    def run(self, requests):
        for i, (start, end, count) in enumerate(requests):
            self.end_until(start)
            if count <= self.left and not any(one[2] == count for one in self.waiting):
                self.admit('pod-%d' % i, start, end - start, count)
            else:
                self.waited.add('pod-%d' % i)
                self.waiting.append(('pod-%d' % i, end - start, count))
        self.end_until(float('inf'))
        assert not self.waiting


@pytest.mark.parametrize('reserve', ['none', 'strict'])
def test_a_replay_refuses_as_many_as_the_node_does(node, tmp_path, reserve):
    config = share(REPLICAS, provisioning='weighted', failRequestsGreaterThanOne=False, maxPerRequest=MOST, reserve=reserve)
    requests = requests_of(5)
    expected = replay(str(tmp_path), config, requests)
    assert expected['unfit'] == 0 and (expected['refused'] > 0) == (reserve == 'none'), expected
    node.environment.update(fast())
    node.start_all(config)
    advertised = 2 * REPLICAS - (MOST - 1 if reserve == 'strict' else 0)
    node.wait(lambda: node.healthy_replicas() == advertised, 'all that is advertised is healthy')
    churn = Churn(node, advertised)
    churn.run(requests)
    assert (len(churn.refused), len(churn.waited.difference(churn.refused))) == (expected['refused'], expected['waited'])
