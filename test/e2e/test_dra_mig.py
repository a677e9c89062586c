# SPDX-License-Identifier: Apache-2.0
"""MIG devices that are made for claims, the whole path: candidates in the ResourceSlices, the scheduler, Prepare, the simulated GPU, the
container's devices, Unprepare; beside programs that change the geometry themselves."""
import concurrent.futures
import os
import random
import time

import pytest
import yaml

from cluster import cluster  # noqa: F401 -- a fixture
from dra import CLASSES, DRIVER, DraPod, Unschedulable, node  # noqa: F401 -- a fixture
from dra_kubelet import Failed
from mig_programs import LARGE, MIDDLE, SMALL, create, destroy, placements
from mps import wait
from mps_node import H100, uuid_of
from node import fast
from test_device_lists import machine, make_device_nodes, make_driver
from test_dra import config, preparing, taints
from test_dra_crash import MOMENTS, call_and_kill

GPU = uuid_of(0)
DESTROY, DESTROY_COMPUTE = 'nvmlGpuInstanceDestroy', 'nvmlComputeInstanceDestroy'
PROFILES = {SMALL: '1g.10gb', 20: '1g.10gb+me', 15: '1g.20gb', MIDDLE: '2g.20gb', LARGE: '3g.40gb', 5: '4g.40gb', 0: '7g.80gb'}


def geometry(node):
    return os.path.join(node.folder, 'geometry')


def set_gpus(node, count=1, events=(), keep_uuids=False, each=(), **changes):
    """In MIG mode, and nothing is made on them by the scenario; |changes| are of the first, |each| those of every GPU."""
    each = [*(each or [changes]), *[{}] * count]
    node.gpus(count, model=H100, events=events, changes={i: {'mig': {'enabled': True}, **each[i]} for i in range(count)})
    with open(node.scenario_path, encoding='utf-8') as file:
        scenario = yaml.safe_load(file)
    node._write(node.scenario_path, yaml.safe_dump(
        {**scenario, 'geometryFile': geometry(node), 'keepMigUuids': keep_uuids}, sort_keys=False))


def make_capabilities(node, count):
    """The minors of all instances that there can be, as the driver has them, and their device nodes."""
    folder = os.path.join(machine(node), 'proc/driver/nvidia-caps')
    os.makedirs(folder, exist_ok=True)
    minor = 3
    with open(os.path.join(folder, 'mig-minors'), 'w', encoding='ascii') as file:
        file.write('config 1\nmonitor 2\n')
        for gpu in range(count):
            for gi in range(15):
                file.write('gpu%d/gi%d/access %d\ngpu%d/gi%d/ci0/access %d\n' % (gpu, gi, minor, gpu, gi, minor + 1))
                make_device_nodes(node, '/dev/nvidia-caps/nvidia-cap%d' % minor, '/dev/nvidia-caps/nvidia-cap%d' % (minor + 1))
                minor += 2


def start_agent(node, **dra):
    return node.start_agent(config(dynamicMig=True, **dra), *node.cluster.options(), '--cdi-root=' + node.cdi_folder,
                            '--system-root=' + machine(node), '--container-driver-root=' + os.path.join(node.folder, 'driver'))


def start(node, count=1, **dra):
    set_gpus(node, count)
    make_device_nodes(node, '/dev/nvidiactl', '/dev/nvidia-uvm', *('/dev/nvidia%d' % i for i in range(count)))
    make_capabilities(node, count)
    make_driver(node)
    for profile in PROFILES.values():
        node.cluster.api.put(CLASSES, {
            'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': class_of(profile)}, 'spec': {'selectors': [
                {'cel': {'expression': ' && '.join((
                    'device.driver == "%s"' % DRIVER, 'device.attributes["%s"].type == "mig"' % DRIVER,
                    'device.attributes["%s"].profile == "%s"' % (DRIVER, profile)))}}]}})
    node.start_mps()
    node.dra.start()
    start_agent(node, **dra)
    wait_offered(node, 'gpu-0-mig-7g-80gb-at-0')
    node.dra.wait_driver(DRIVER)


def class_of(profile):
    return profile.replace('.', '-').replace('+', '-')


def claim(node, name, profile='1g.10gb', **more):
    return node.claim(name, class_=class_of(profile), **more)


def wait_offered(node, *names):
    node.cluster.api.wait_for(lambda: set(names) <= set(node.devices()))


def wait_not_offered(node, *names):
    node.cluster.api.wait_for(lambda: not set(names) & set(node.devices()))


def there(node, gpu=GPU):
    return placements(geometry(node), gpu)


def versions(node):
    return {one['metadata']['name']: one['metadata']['resourceVersion'] for one in node.slices()}


def test_a_mig_device_is_made_for_a_claim_and_destroyed_after_it(node):
    start(node)
    before = versions(node)
    assert there(node) == set()
    first = node.run(claim(node, 'first'))
    second = node.run(claim(node, 'second', '3g.40gb'))
    names = [node.device_of(pod.claims[0]) for pod in (first, second)]
    assert names == ['gpu-0-mig-1g-10gb-at-6', 'gpu-0-mig-3g-40gb-at-0']
    assert there(node) == {(SMALL, 6), (LARGE, 0)}
    for pod in (first, second):
        caps = {path for path in pod.container.nodes if 'nvidia-cap' in path}
        assert {'/dev/nvidia0', '/dev/nvidiactl'} < pod.container.nodes and len(caps) == 2
        status, = node.cluster.api.wait_for(lambda pod=pod: node.status_of(pod.claims[0]))
        assert status['data']['uuid'].startswith('MIG-') and pod.cdi_ids[0].endswith('=' + status['data']['uuid'])
    assert not first.container.nodes & second.container.nodes & {path for path in first.container.nodes if 'nvidia-cap' in path}
    first.end()
    assert there(node) == {(LARGE, 0)}
    second.end()
    assert there(node) == set()
    assert versions(node) == before, 'what Prepare makes is no news for the scheduler'
    assert not [device for device in node.cdi_devices() if device.startswith(DRIVER)]


def test_a_mig_device_that_is_made_again_may_have_the_uuid_of_the_one_before(node):
    start(node)
    set_gpus(node, keep_uuids=True)
    seen = []
    for name in ('first', 'second', 'third'):
        pod = node.run(claim(node, name))
        status, = node.cluster.api.wait_for(lambda pod=pod: node.status_of(pod.claims[0]))
        seen.append((node.device_of(pod.claims[0]), status['data']['uuid']))
        assert there(node) == {(SMALL, 6)} and pod.cdi_ids[0].endswith('=' + status['data']['uuid'])
        assert {'/dev/nvidia0', '/dev/nvidiactl'} < pod.container.nodes
        pod.end()
        assert there(node) == set()
        assert not [device for device in node.cdi_devices() if device.startswith(DRIVER)]
    assert len(set(seen)) == 1


def test_a_claim_for_two_mig_devices_has_both_and_what_does_not_fit_waits(node):
    start(node)
    both = node.run(node.claim('both', requests={'small': (None, '1g-10gb'), 'large': (None, '3g-40gb')}))
    assert there(node) == {(SMALL, 6), (LARGE, 0)}
    assert len([path for path in both.container.nodes if 'nvidia-cap' in path]) == 4
    with pytest.raises(Unschedulable):
        node.admit(claim(node, 'large', '3g.40gb'))
    both.end()
    node.run(claim(node, 'again', '3g.40gb'))
    assert len(there(node)) == 1


def test_whatever_the_scheduler_gives_out_can_be_made(node):
    start(node, 2)
    chance, pods, n_waiting = random.Random(14), [], 0
    for i in range(60):
        if pods and chance.random() < 0.4:
            pods.pop(chance.randrange(len(pods))).end()
        profile = chance.choice(list(PROFILES.values())[:-1] if i % 20 else ['7g.80gb'])
        try:
            pods.append(node.run(claim(node, 'claim-%d' % i, profile)))
        except Unschedulable:
            n_waiting += 1
        given = sorted(node.device_of(pod.claims[0]) for pod in pods)
        assert given == sorted('gpu-%d-mig-%s-at-%d' % (gpu, class_of(PROFILES[id_]), at)
                               for gpu in range(2) for id_, at in there(node, uuid_of(gpu)))
    assert 10 < n_waiting < 50
    for pod in pods:
        pod.end()
    assert not there(node) and not there(node, uuid_of(1))


def test_what_another_program_made_is_left_alone_and_its_place_is_not_offered(node):
    start(node)
    pod = node.run(claim(node, 'first'))
    made = create(node.scenario_path, GPU, SMALL, 0)
    wait_not_offered(node, 'gpu-0-mig-1g-10gb-at-0', 'gpu-0-mig-2g-20gb-at-0', 'gpu-0-mig-3g-40gb-at-0', 'gpu-0-mig-7g-80gb-at-0')
    wait_offered(node, 'gpu-0-mig-1g-10gb-gi%d-ci0' % made, 'gpu-0-mig-1g-10gb-at-6', 'gpu-0-mig-3g-40gb-at-4')
    pod.end()
    assert there(node) == {(SMALL, 0)}
    destroy(node.scenario_path, GPU, made)
    wait_offered(node, 'gpu-0-mig-7g-80gb-at-0')


def test_a_place_that_another_program_has_taken_meanwhile_is_refused_and_left_to_it(node):
    start(node)
    taken = claim(node, 'first')
    pod = node.admit(taken)
    made = create(node.scenario_path, GPU, SMALL, 6)
    with pytest.raises(Failed, match='another program .* has made 1g.10gb at 6|this node does not offer it now'):
        node.prepare(pod, taken)
    wait_not_offered(node, 'gpu-0-mig-1g-10gb-at-6')
    node.dra.unprepare(pod)
    assert there(node) == {(SMALL, 6)}
    destroy(node.scenario_path, GPU, made)


def test_a_mig_device_is_made_where_the_one_of_the_claim_before_is_still_to_be_destroyed(node):
    start(node)
    first = node.run(claim(node, 'first'))
    first.vanish()
    with preparing(node, claim(node, 'second', '7g.80gb')) as call:
        node.dra.unprepare(first.pod)
        assert call.result()
    assert there(node) == {(0, 0)}


def test_a_mig_device_that_a_process_uses_is_destroyed_when_that_has_ended(node):
    start(node)
    pod = node.run(claim(node, 'first'))
    made, = (line.split() for line in open(geometry(node), encoding='ascii') if line.startswith('gi '))
    set_gpus(node, processes=[{'pid': os.getpid(), 'memory': '1GiB', 'gi': int(made[2]), 'ci': 0}])
    with pytest.raises(Failed, match='a process uses it'):
        node.dra.unprepare(pod.pod)
    assert there(node) == {(SMALL, 6)}
    set_gpus(node)
    pod.end()
    assert there(node) == set()


def test_a_handle_that_somebody_keeps_holds_up_its_own_mig_device_alone_and_says_who_it_may_be(node):
    """NVIDIA/DCGM#276: a program that watches GPUs never closes the MIG device, and nvidia-smi lists no process."""
    start(node)
    first = node.run(claim(node, 'first'))
    set_gpus(node, errors={DESTROY_COMPUTE: 'IN_USE'})
    for _ in range(2):
        with pytest.raises(Failed, match=r'destroy 1g.10gb at 6: .*if it lists none, a program that watches GPUs keeps it opened \(DCGM, '
                                         r'dcgm-exporter, another agent\): restart that'):
            node.dra.unprepare(first.pod)
    second = node.run(claim(node, 'second'))
    assert there(node) == {(SMALL, 6), (SMALL, 4)}
    first.vanish()
    third = claim(node, 'third')
    with preparing(node, third) as call:
        assert node.device_of(third) == 'gpu-0-mig-1g-10gb-at-6', 'the scheduler gives out what the deleted pod still has'
        set_gpus(node)
        node.dra.unprepare(first.pod)
        assert call.result()
    assert there(node) == {(SMALL, 6), (SMALL, 4)}
    second.end()
    assert there(node) == {(SMALL, 6)}


def test_a_reset_that_destroys_everything_leaves_nothing_to_release(node):
    start(node)
    pod = node.run(claim(node, 'first'))
    set_gpus(node, resets=1)
    pod.end()
    again = node.run(claim(node, 'second'))
    assert there(node) == {(SMALL, 6)}
    again.end()


def test_the_taint_of_a_gpu_reaches_its_candidates(node):
    start(node, 2)
    events = [{'gpu': 0, 'xid': 79}]
    set_gpus(node, 2, events=events, lost=True)
    node.cluster.api.wait_for(lambda: taints(node, 'gpu-0-mig-1g-10gb-at-6') == [('xid-79', 'NoSchedule')])
    assert taints(node, 'gpu-1-mig-1g-10gb-at-6') == []
    node.run(claim(node, 'first'))
    assert there(node, uuid_of(1)) == {(SMALL, 6)}


def test_an_agent_that_comes_back_knows_what_it_has_made(node):
    start(node)
    pod = node.run(claim(node, 'first'))
    node.agent.kill()
    start_agent(node)
    node.dra.wait_driver(DRIVER)
    node.dra.prepare_again()
    second = node.run(claim(node, 'second'))
    assert there(node) == {(SMALL, 6), (SMALL, 4)}
    assert not [name for name in node.devices() if '-gi' in name], 'a device of its own is nobody else\'s to have'
    pod.end()
    second.end()
    assert there(node) == set()


def test_without_the_switch_what_is_there_stays_the_claims_and_nothing_is_made(node):
    start(node)
    pod = node.run(claim(node, 'first'))
    node.config(config(dynamicMig=False))
    wait_not_offered(node, 'gpu-0-mig-1g-10gb-at-6')
    assert not node.devices(), 'what was made for a claim is offered to nobody else'
    pod.end()
    assert there(node) == set()


def come_back(node):
    set_gpus(node)
    start_agent(node)
    node.dra.wait_driver(DRIVER)


# Where NVML stands still when the agent is killed: what is called then is not done any more.
CREATE, COMPUTE = 'nvmlDeviceCreateGpuInstanceWithPlacement', 'nvmlGpuInstanceCreateComputeInstance'
DESTROY, DESTROY_COMPUTE = 'nvmlGpuInstanceDestroy', 'nvmlComputeInstanceDestroy'


def stand_still(node, call):
    set_gpus(node, delays={call: '600s'})


def in_a_call(node):
    """Waits until a process that makes or destroys MIG devices has been there for a while, so that it is where it stands still."""
    wait(lambda: node.agent.has_child('dra-nvml'), 'a process with NVML')
    time.sleep(1)


def test_a_call_that_hangs_fails_the_claims_of_its_gpu_and_no_others(node):
    node.environment.update(fast())
    start(node, 2)
    wanted, behind = claim(node, 'first'), claim(node, 'second')
    pod, waits = node.admit(wanted), node.admit(behind)
    assert node.device_of(wanted).startswith('gpu-0-') and node.device_of(behind).startswith('gpu-0-')
    set_gpus(node, 2, delays={CREATE: '600s'})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(node.prepare, *one) for one in ((pod, wanted), (waits, behind))]
        in_a_call(node)
        whole = node.run(claim(node, 'other', '7g.80gb'))
        assert node.device_of(whole.claims[0]).startswith('gpu-1-') and there(node, uuid_of(1)) == {(0, 0)}
        for answer in answers:
            with pytest.raises(Failed, match='can neither be made nor destroyed: %s of %s does not return: it was given up after 1. s' % (
                    CREATE, GPU)):
                answer.result()
    node.agent.wait_log('does not return and was given up')
    assert there(node) == set()
    set_gpus(node, 2)
    node.run_pod(pod, wanted)
    node.run_pod(waits, behind)
    assert there(node) == {(SMALL, 6), (SMALL, 4)}
    node.agent.wait_log('NVML answers again')


@pytest.mark.parametrize('ends', [False, True], ids=['runs', 'ends'])
@pytest.mark.parametrize('call', [CREATE, COMPUTE])
def test_who_is_killed_while_it_makes_a_mig_device_leaves_it_to_the_next(node, call, ends):
    start(node)
    wanted = claim(node, 'first')
    pod = node.admit(wanted)
    stand_still(node, call)
    call_and_kill(node, lambda: node.prepare(pod, wanted), lambda: in_a_call(node))
    come_back(node)
    if ends:
        node.end(DraPod(node, pod, [wanted], None, []))
    else:
        running = node.run_pod(pod, wanted)
        assert there(node) == {(SMALL, 6)}
        running.end()
    assert there(node) == set()


@pytest.mark.parametrize('call', [DESTROY_COMPUTE, DESTROY])
def test_who_is_killed_while_it_destroys_a_mig_device_leaves_it_to_the_next(node, call):
    start(node)
    pod = node.run(claim(node, 'first'))
    stand_still(node, call)
    call_and_kill(node, lambda: node.dra.unprepare(pod.pod), lambda: in_a_call(node))
    come_back(node)
    pod.end()
    assert there(node) == set()


def test_a_mig_device_is_the_claims_at_whatever_moment_the_agent_is_killed(node):
    start(node)
    for i, moment in enumerate(MOMENTS):
        wanted = claim(node, 'first-%d' % i)
        pod = node.admit(wanted)
        call_and_kill(node, lambda pod=pod, wanted=wanted: node.prepare(pod, wanted), lambda moment=moment: time.sleep(moment))
        come_back(node)
        running = node.run_pod(pod, wanted)
        assert there(node) == {(SMALL, 6)}
        call_and_kill(node, lambda running=running: node.dra.unprepare(running.pod), lambda moment=moment: time.sleep(moment))
        come_back(node)
        running.end()
        assert there(node) == set()
