# SPDX-License-Identifier: Apache-2.0
"""Names, scope and MIG layout change while pods hold devices, and the agent is replaced in the middle of it."""
import pytest

from change import NEW, OLD, OTHER, Watch, change, config, free, share, wait_settled
from node import GPU, Node

SLICES = 'timeSlicing'
UNTOUCHED = share(SLICES, (OTHER, 4, [3]))
MIG = 'nvidia.com/mig-3g.20gb'


@pytest.fixture(scope='module')
def named_node():
    made = Node()
    yield made
    faults = made.finish()
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


def begin(node, content, name):
    if not node.agents:
        node.start_all(content)
        node.in_force = content
    elif node.in_force != content:
        change(node, content)
    node.wait(lambda: node.kubelet.allocatable(name) and node.kubelet.allocatable(OTHER), 'both resources are there')
    if 'elsewhere' not in node.kubelet.pods:
        node.kubelet.admit('elsewhere', OTHER, 1)
    return node.kubelet


def named(name, replicas=4, **more):
    return config(share(SLICES, (name, replicas, [0, 1, 2]), **more), UNTOUCHED)


def test_a_new_name_has_what_the_old_one_leaves_and_the_old_one_goes_with_its_last_pod(named_node):
    node = named_node
    kubelet = begin(node, named(OLD), OLD)
    watch = Watch(node, [OTHER])
    kubelet.admit('pod', OLD, 3)
    watch.remember('pod', OLD)
    change(node, named(NEW))
    node.wait(lambda: kubelet.newest.get(NEW) and kubelet.allocatable(NEW) == 9, 'the new name has the rest')
    node.wait(lambda: kubelet.allocatable(OLD) == 0, 'the old one gives nothing')
    assert OLD in kubelet.newest and set(watch.answers['pod'][1]) <= set(kubelet.ids(OLD))
    kubelet.remove_pod('pod')
    node.wait(lambda: kubelet.allocatable(NEW) == 12 and OLD not in kubelet.newest, 'the old name is gone')
    wait_settled(node)
    print('gaps of untouched resources: %d' % watch.check())


def test_names_of_single_gpus_take_over_one_by_one(named_node):
    node = named_node
    kubelet = begin(node, named(NEW), NEW)
    watch = Watch(node, [OTHER])
    kubelet.admit('pod', NEW, 1)
    watch.remember('pod', NEW)
    gpu = watch.answers['pod'][1][0].split('::')[0]
    index = [line.split('index=')[1][0] for line in node.agent.log().splitlines() if 'gpu=%s ' % gpu in line][0]
    names = ['nvidia.com/gpu%d' % i for i in range(3)]
    # The untouched entry has a section of its own name in either case, so its scope must not change: it has one GPU less to name.
    change(node, config(share(SLICES, (None, 4, [0, 1, 2]), scope='individual')))
    node.wait(lambda: all(kubelet.allocatable(name) == 4 - (name[-1] == index) for name in names),
              'each GPU has its own')
    kubelet.remove_pod('pod')
    node.wait(lambda: all(kubelet.allocatable(name) == 4 for name in names), 'all of each')
    change(node, named(NEW))
    node.wait(lambda: kubelet.allocatable(NEW) == 12, 'and back')


def test_an_agent_that_starts_in_the_middle_goes_on_where_the_one_before_was(named_node):
    node = named_node
    kubelet = begin(node, named(NEW), NEW)
    kubelet.admit('pod', NEW, 2)
    kubelet.admit('other', NEW, 1)
    ids = set().union(*(pod.held(NEW) for pod in kubelet.pods.values()))
    change(node, named(OLD, replicas=2))
    node.wait(lambda: kubelet.newest.get(OLD) and free(kubelet, OLD) == 3, 'the new name has the rest')
    assert node.agent.stop() == 0
    node.start()
    node.wait(lambda: OLD in kubelet.newest and NEW in kubelet.newest and kubelet.allocatable(OLD) == 3, 'it is as before')
    node.wait(lambda: ids <= set(kubelet.ids(NEW)), 'no id that is held is missing')
    assert kubelet.allocatable(NEW) == 0
    for pod in ('pod', 'other'):
        kubelet.remove_pod(pod)
    node.wait(lambda: kubelet.allocatable(OLD) == 6 and NEW not in kubelet.newest, 'all of it')


def gpus(profile, *numbers):
    devices = [{'profile': profile, 'gi': number, 'uuid': 'MIG-%s0000000-0000-4000-8000-%012d' % (profile[0], number)}
               for number in numbers]
    return [{'model': 'A100-40GB', 'uuid': 'GPU-%08d-0000-4000-8000-00000000000a' % i,
             'mig': {'enabled': True, 'devices': devices} if i == 0 else {'enabled': False}} for i in range(2)]


def test_ids_of_mig_devices_that_are_gone_stay_until_their_pods_end(node):
    node.scenario(gpus('3g.20gb', 1, 2))
    node.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})
    kubelet = node.start_all()
    node.wait(lambda: kubelet.allocatable(MIG) == 2 and kubelet.allocatable(GPU) == 1, 'MIG devices and a GPU')
    kubelet.admit('whole', GPU, 1)
    watch = Watch(node, [GPU])
    kubelet.admit('pod', MIG, 1)
    watch.remember('pod', MIG)
    node.scenario(gpus('2g.10gb', 3, 4, 5))
    node.agent.hang_up()
    node.wait(lambda: kubelet.allocatable('nvidia.com/mig-2g.10gb') == 3, 'the new layout is there')
    node.wait(lambda: kubelet.allocatable(MIG) == 0, 'nobody new gets what is gone')
    assert set(watch.answers['pod'][1]) <= set(kubelet.ids(MIG))
    assert node.agent.stop() == 0
    node.start()
    node.wait(lambda: kubelet.allocatable('nvidia.com/mig-2g.10gb') == 3 and set(watch.answers['pod'][1]) <= set(
        kubelet.ids(MIG)), 'a new agent has both')
    kubelet.remove_pod('pod')
    node.wait(lambda: MIG not in kubelet.newest, 'the name goes with its last pod')
