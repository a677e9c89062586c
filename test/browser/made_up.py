# SPDX-License-Identifier: Apache-2.0
"""Clusters that are made up, to look at and to measure with: many shares of many kinds, the same each time."""
import random
import time

from fleet import GIB, gpu, page, pod, share, unit

TEAMS = ['vision', 'speech', 'search', 'robotics', 'llm-serving', 'ads', 'notebooks', 'ci', 'research', 'fraud']
JOBS = ['train', 'infer', 'notebook', 'embed', 'eval', 'batch']
HOUR = 60


class Maker:
    def __init__(self, seed=7):
        self.random = random.Random(seed)

    def hexadecimal(self, digits):
        return f'{self.random.randrange(16 ** digits):0{digits}x}'

    def uuid(self, kind='GPU'):
        return f'{kind}-{"-".join(self.hexadecimal(digits) for digits in (8, 4, 4, 4, 12))}'

    def history(self, mean):
        return [round(min(1, max(0, mean + self.random.uniform(-0.1, 0.1))), 3) for _ in range(HOUR)]

    def share(self, replicas, of, memory):
        limit = memory * replicas // of
        used = int(limit * self.random.choice([0, 0.2, 0.45, 0.6, 0.8, 0.97]) * self.random.uniform(0.9, 1))
        sm = round(self.random.uniform(0, replicas / of), 3) if used and self.random.random() < 0.8 else 0
        idle = {} if sm or not used else {'idleSince': int(time.time()) - self.random.randrange(60, 90000)}
        return share(self.random.choice(TEAMS), f'{self.random.choice(JOBS)}-{self.hexadecimal(5)}-{self.hexadecimal(4)}', replicas=replicas,
                     memoryLimit=limit, memoryUsed=used, memoryPeak=min(limit, int(used * 1.2)), sm=sm, threadPercent=100 * replicas / of,
                     seconds=self.random.randrange(90000) if used else 0, smSeconds=1000, energy=self.random.randrange(10 ** 7) if used else 0, history=self.history(sm) if sm else [0] * HOUR, **idle)

    def shares(self, of, memory, fill, sizes):
        found, left = [], of
        while left > 0 and self.random.random() < fill:
            found.append(self.share(min(left, self.random.choice(sizes)), of, memory))
            left -= found[-1]['replicas']
        return found, left

    def gpu(self, index, of=10, memory=80 * GIB, model='NVIDIA H100 80GB HBM3', fill=0.93, sizes=(1, 1, 1, 2, 2, 3, 4), reserve=1, **more):
        uuid = self.uuid()
        shares, left = self.shares(of, memory, fill, sizes)
        used = sum(one['memoryUsed'] for one in shares) + GIB // 2
        sm = min(1, sum(one['sm'] for one in shares))
        return {**gpu(str(index), uuid=uuid, model=model, units=[unit(
            uuid, str(index), shares, replicas=of, reserved=min(left, reserve), memory=memory, memoryUsed=used, utilization=sm,
            history=self.history(sm), others=[{'by': 'mps-server', 'memoryUsed': GIB // 2, 'sm': 0.0}], **more)]),
            'memory': memory, 'memoryUsed': used, 'utilization': sm, 'temperature': 35 + int(40 * sm), 'power': 90 + 500 * sm}

    def mig_gpu(self, index):
        units = []
        for position, (size, of) in enumerate([(3, 4), (2, 1), (1, 1), (1, 1)]):
            memory = 10 * size * GIB
            shares, _ = self.shares(of, memory, 0.8, (1,))
            units.append(unit(self.uuid('MIG'), f'{index}:{position}', shares, resource=f'nvidia.com/mig-{size}g.{10 * size}gb',
                              sharing='mps' if of > 1 else 'none', replicas=of, memory=memory, profile=f'{size}g.{10 * size}gb',
                              memoryUsed=sum(one['memoryUsed'] for one in shares)))
        return {**gpu(str(index), uuid=self.uuid(), model='NVIDIA A100-SXM4-80GB', units=units), 'memoryUsed': sum(
            one['memoryUsed'] for one in units), 'utilization': 0.3}


def large(fleet, nodes=500, gpus=8, shares=20):
    """Every replica of every GPU is another pod's."""
    maker = Maker()
    for number in range(nodes):
        name = f'gpu-{number:03}'
        fleet.add_node(name, capacity={'nvidia.com/gpu.shared': str(gpus * shares)})
        fleet.pages[name] = page(name, *[maker.gpu(index, of=shares, fill=1, sizes=(1,)) for index in range(gpus)])


def small(api, fleet):
    """Fourteen nodes of three kinds; a GPU is lost, an MPS server had a fault, an agent is missing and another does not start; two pods wait."""
    maker, now = Maker(), time.time()
    for number in range(1, 15):
        name = f'gpu-{number:02}'
        resources = {'nvidia.com/mig-1g.10gb': '8'} if number in (4, 5) else {'nvidia.com/gpu.shared': '16' if number in (6, 7, 8) else '80'}
        fleet.add_node(name, capacity=resources, unschedulable=number == 9,
                       taints=[{'key': 'nvidia.com/gpu', 'effect': 'NoSchedule'}])
        if number in (4, 5):
            gpus = [maker.mig_gpu(index) for index in range(4)]
        elif number in (6, 7, 8):
            gpus = [maker.gpu(index, of=4, memory=24 * GIB, model='NVIDIA L4', fill=0.85, sharing='time-slicing', reserve=0)
                    for index in range(4)]
        else:
            gpus = [maker.gpu(index) for index in range(8)]
        events = [{'time': now - 5000 - 60 * number, 'kind': 'Normal', 'reason': 'ConfigurationApplied', 'text': 'configuration default is in force'}]
        if number == 2:
            gpus[3]['units'][0].update(healthy=False, reason='Xid 79: the GPU has fallen off the bus')
            events.append({'time': now - 640, 'kind': 'Warning', 'reason': 'GpuUnhealthy', 'unit': gpus[3]['uuid'],
                           'text': 'Xid 79: the GPU has fallen off the bus; its 10 replicas are unhealthy'})
        if number == 11:
            events += [{'time': now - 2400, 'kind': 'Warning', 'reason': 'MpsServerFault', 'unit': gpus[1]['uuid'],
                        'text': 'the MPS server had a fault; it was started again after 1.4 s'},
                       {'time': now - 2398, 'kind': 'Normal', 'reason': 'MpsRepaired', 'unit': gpus[1]['uuid'], 'text': 'the MPS daemon serves again'}]
        fleet.pages[name] = page(name, *gpus, events=events, configuration='default')
    fleet.add_node('gpu-15', agent=False, capacity={'nvidia.com/gpu': '8'})
    fleet.add_node('gpu-16', agent=False, ready='Unknown')
    fleet.put_agent('gpu-16', 'agent-gpu-16', 9400, state={'waiting': {'reason': 'ImagePullBackOff'}}, ready=False, phase='Pending')
    for namespace, name, count, why in (('llm-serving', 'chat-70b-x2k4', 96, '16 Insufficient nvidia.com/gpu.shared'),
                                        ('ci', 'gpu-test-1', 1, "16 node(s) didn't match Pod's node affinity/selector")):
        one = pod(name, count=count, scheduled=('Unschedulable', f'0/16 nodes are available: {why}.'))
        one['spec']['tolerations'] = [{'key': 'nvidia.com/gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}]
        if name.startswith('gpu-test'):
            one['spec']['nodeSelector'] = {'zone': 'ci'}
        api.put(f'/api/v1/namespaces/{namespace}/pods', one)
