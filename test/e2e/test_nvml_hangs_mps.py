# SPDX-License-Identifier: Apache-2.0
"""A call into NVML that does not return, or ends its process, in the supervisors of MPS: `warpshare mps` and `mps-control-daemon`."""
import concurrent.futures
import json
import os
import re
import signal

import pytest
import yaml

from mps import UUIDS, Mps, daemon, mps, wait  # noqa: F401 -- a fixture
from node import GPU, fast
from nvml_functions import FUNCTIONS, OF_A_GPU, crash, hang
from test_mps_daemon import sharing
from test_nvml_hangs import BLOCKED, FOR_EVER, PATIENCE


@pytest.fixture(autouse=True)
def programs_are_fast(mps):
    mps.variables = fast()


def behave(mps, *changes, gpus=2, **more):
    """What NVML does from now on; |changes|: of each GPU."""
    changes = [*changes, *[{}] * gpus]
    more = {'processDirectory': mps.folder + '/processes', **more}
    mps._write(os.path.join(mps.folder, 'gpus.yaml'), yaml.safe_dump({'gpus': [  # pylint: disable=protected-access
        {'model': 'V100-32GB', 'uuid': uuid, **changes[i]} for i, uuid in enumerate(UUIDS[:gpus])], **more}))


def list_processes(mps):
    """From now on NVML knows the memory of clients."""
    os.mkdir(mps.folder + '/processes')
    mps.scenario('process-directory: %s/processes' % mps.folder)
    behave(mps)


def modes_on_record(mps):
    """The units whose compute mode has to be put back."""
    with open(mps.path('state.json'), encoding='ascii') as file:
        return [mode['uuid'] for mode in json.load(file)['computeModes']]


def nvml_processes(supervisor):
    """Those of its children that ask NVML."""
    found = []
    with open('/proc/%d/task/%d/children' % (supervisor.pid, supervisor.pid), encoding='ascii') as file:
        children = file.read().split()
    for child in children:
        try:
            with open('/proc/%s/comm' % child, encoding='ascii') as file:
                if file.read() == 'mps-nvml\n':
                    found.append(int(child))
        except OSError:
            continue
    return found


def loads_nvml(pid):
    try:
        with open('/proc/%d/maps' % pid, encoding='utf-8') as file:
            return 'nvml' in file.read()
    except OSError:
        return False


def has_memory(peer, name):
    """The memory of its client is known."""
    peer.wait_daemon(name, lambda one: one['clients'] and one['clients'][0].get('memoryBytes') is not None, 'its memory')


def test_a_gpu_that_hangs_is_named_and_the_others_are_served(mps):
    list_processes(mps)
    supervisor = mps.start('--metrics-address=127.0.0.1:0')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    behave(mps, {'delays': {'nvmlDeviceGetMPSComputeRunningProcesses': FOR_EVER}})
    client = mps.client(UUIDS[0])
    call = 'nvmlDeviceGetMPSComputeRunningProcesses_v3 of %s' % UUIDS[0]
    # A client comes, another daemon starts meanwhile, as if nothing were.
    other = mps.client(UUIDS[0])
    peer.apply(daemon(0), daemon(1), generation=2)
    peer.wait_ready(UUIDS[1])
    mps.client(UUIDS[1])
    has_memory(peer, UUIDS[1])
    supervisor.wait_problem('^%s has not returned for ' % re.escape(call), timeout=PATIENCE)
    # It is degraded, not dead: a restart would end its clients and repair no driver.
    assert mps.run('mps', 'ping').returncode == 0 and supervisor.get('/livez')[0] == 200
    assert peer.wait_daemon(UUIDS[0], lambda one: len(one['clients']) == 2, 'both clients')['pid'] == pid
    has_memory(peer, UUIDS[1])
    behave(mps)
    wait(lambda: supervisor.problem() == '', 'all is well again')
    has_memory(peer, UUIDS[0])
    assert client.poll() is None and other.poll() is None
    assert 'without it' not in supervisor.log()


def test_a_daemon_whose_gpu_hangs_starts_without_nvml(mps):
    behave(mps, {'delays': {'nvmlDeviceGetComputeMode': FOR_EVER}})
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    peer.wait_ready(UUIDS[1])
    supervisor.wait_log('NVML does not answer: an MPS daemon is started without it name=%s' % UUIDS[0], timeout=PATIENCE)
    peer.wait_ready(UUIDS[0])
    assert modes_on_record(mps) == [UUIDS[1]]


def test_what_ends_the_process_that_asks_nvml_ends_nothing_else(mps):
    """By a crash of NVML itself, and from outside while a call hangs."""
    list_processes(mps)
    supervisor = mps.start()
    peer = mps.connect().watch()
    behave(mps, {'errors': {'nvmlDeviceGetComputeMode': {'kills': 'before'}}})
    peer.apply(daemon(0), daemon(1))
    peer.wait_ready(UUIDS[1])
    pid = peer.wait_ready(UUIDS[0])['pid']
    supervisor.wait_log('no NVML: the compute mode stays as it is.* name=%s .*ended in nvmlDeviceGetComputeMode' % UUIDS[0])
    assert modes_on_record(mps) == [UUIDS[1]]
    behave(mps, {'delays': {'nvmlDeviceGetMPSComputeRunningProcesses': FOR_EVER}})
    for i in range(2):
        mps.client(UUIDS[i])
    has_memory(peer, UUIDS[1])
    for one in nvml_processes(supervisor):
        os.kill(one, signal.SIGSEGV)
    supervisor.wait_log('a process that asks NVML was ended by it: the memory of clients is not known unit=%s' % UUIDS[0])
    behave(mps)
    for i in range(2):
        has_memory(peer, UUIDS[i])
    assert peer.wait_ready(UUIDS[0])['pid'] == pid and supervisor.process.poll() is None


def test_a_supervisor_does_not_load_nvml(mps):
    list_processes(mps)
    supervisor = mps.start('--grace=0')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    mps.client(UUIDS[0])
    has_memory(peer, UUIDS[0])
    assert wait(lambda: any(map(loads_nvml, nvml_processes(supervisor))), 'a process of it has NVML')
    assert not loads_nvml(supervisor.pid)
    assert supervisor.stop() == 0


def test_a_supervisor_ends_with_its_daemons_while_its_nvml_hangs(mps):
    supervisor = mps.start('--grace=0', '--metrics-address=127.0.0.1:0')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    behave(mps, {'delays': dict.fromkeys(('nvmlDeviceGetMPSComputeRunningProcesses', 'nvmlDeviceSetComputeMode'), FOR_EVER)})
    mps.client(UUIDS[0])
    supervisor.wait_problem(' has not returned for ', timeout=PATIENCE)
    assert supervisor.stop() == 0
    supervisor.wait_log('the compute mode is not put back: the next start does it unit=%s mode=DEFAULT' % UUIDS[0])
    assert not mps.processes()
    assert modes_on_record(mps) == [UUIDS[0]]
    behave(mps)
    again = mps.start()
    mps.connect().watch().wait_ready(UUIDS[0])
    assert again.stop() == 0
    assert modes_on_record(mps) == []


def test_a_compute_mode_is_put_back_when_nvml_answers_again(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    for uuid in UUIDS[:2]:
        peer.wait_ready(uuid)
    behave(mps, {'errors': {'nvmlDeviceSetComputeMode': {'kills': 'before'}}})
    peer.apply(daemon(1), generation=2)
    supervisor.wait_log('the compute mode is not put back yet unit=%s mode=DEFAULT' % UUIDS[0])
    assert sorted(modes_on_record(mps)) == UUIDS[:2]
    behave(mps)
    wait(lambda: modes_on_record(mps) == UUIDS[1:2], 'it is put back, and not on record any more', timeout=PATIENCE)


def test_uninstall_says_that_compute_modes_stay_while_nvml_hangs_and_can_be_run_again(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    supervisor.kill()
    behave(mps, delays={'nvmlDeviceGetHandleByUUID': FOR_EVER})
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.endswith('NVML does not return: the MPS daemons are ended, but compute modes are not put back; '
                                'run this again when it does\n')
    assert modes_on_record(mps) == [UUIDS[0]] and not mps.processes()
    behave(mps)
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert '1 compute modes restored\n' in done.stdout and not os.listdir(mps.root)


# ---- each function of NVML ----

def serve_beside_faults(functions, fault):
    """A node on which each GPU but the last hangs, or crashes, in another one of |functions|. Returns the functions in which that happened."""
    node = Mps()
    try:
        lost = serve(node, functions, fault)
    finally:
        faults = node.finish()
    assert not faults, '\n'.join(faults)
    return lost


def serve(node, functions, fault):
    n_gpus = len(functions) + 1
    last = UUIDS[n_gpus - 1]
    os.mkdir(node.folder + '/processes')
    node.scenario('process-directory: %s/processes' % node.folder, gpus=n_gpus)
    behave(node, *map(fault, functions), gpus=n_gpus)
    supervisor = node.start('--metrics-address=127.0.0.1:0')
    peer = node.connect().watch()
    peer.apply(*map(daemon, range(n_gpus)))
    for uuid in (last, *UUIDS[:n_gpus - 1]):
        peer.wait_ready(uuid)
    clients = [node.client(uuid) for uuid in UUIDS[:n_gpus]]
    has_memory(peer, last)
    assert node.run('mps', 'ping').returncode == 0
    lost = {function for i, function in enumerate(functions) if does_lose(peer, supervisor, UUIDS[i], function)}
    behave(node, gpus=n_gpus)
    for uuid in UUIDS[:n_gpus]:
        has_memory(peer, uuid)
    wait(lambda: supervisor.problem() == '', 'all is well again')
    assert all(client.poll() is None for client in clients) and supervisor.process.poll() is None
    return lost


def does_lose(peer, supervisor, uuid, function):
    """Whether the function is called about this GPU, or about none, and the call was lost; if not, all is known of the GPU."""
    def was_lost():
        return re.search(r'(call="?|ended in )%s(_v\d+)?("? |( of %s)?")|%s.*ended in %s' % (function, uuid, uuid, function), supervisor.log())

    def is_known():
        peer.ask(do='ping')  # what is new comes before the answer
        one = next(one for one in peer.status['daemons'] if one['name'] == uuid)
        return one['clients'] and one['clients'][0].get('memoryBytes') is not None

    wait(lambda: was_lost() or is_known(), 'the memory of the client on %s is known, or %s is lost' % (uuid, function), PATIENCE)
    return bool(was_lost())


@pytest.mark.parametrize('fault', [hang, crash])
def test_whatever_function_of_a_gpu_hangs_or_crashes_the_others_are_served(fault):
    """A dozen GPUs at once, each with another function."""
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for i in range(0, len(OF_A_GPU), 12):
            jobs.append(pool.submit(serve_beside_faults, OF_A_GPU[i:i + 12], fault))
    lost = set().union(*(job.result() for job in jobs))
    assert lost >= {'nvmlDeviceGetComputeMode', 'nvmlDeviceSetComputeMode', 'nvmlDeviceGetMPSComputeRunningProcesses'}, lost


def serve_without_driver(function):
    """A node whose driver as a whole hangs in |function|. Returns whether a call was lost."""
    node = Mps()
    try:
        list_processes(node)
        behave(node, **hang(function))
        supervisor = node.start('--metrics-address=127.0.0.1:0')
        peer = node.connect().watch()
        peer.apply(daemon(0), daemon(1))
        for uuid in UUIDS[:2]:
            peer.wait_ready(uuid)
        clients = [node.client(uuid) for uuid in UUIDS[:2]]
        assert node.run('mps', 'ping').returncode == 0
        lost = does_lose(peer, supervisor, UUIDS[0], function)
        behave(node)
        for uuid in UUIDS[:2]:
            has_memory(peer, uuid)
        wait(lambda: supervisor.problem() == '', 'all is well again')
        assert all(client.poll() is None for client in clients) and supervisor.process.poll() is None
    finally:
        faults = node.finish()
    assert not faults, '\n'.join(faults)
    return lost


def test_whatever_function_of_the_driver_hangs_daemons_and_clients_are_served():
    functions = [name for name in FUNCTIONS if name not in OF_A_GPU]
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        lost = {function for function, is_lost in zip(functions, pool.map(serve_without_driver, functions)) if is_lost}
    assert lost == {'nvmlInit', 'nvmlSystemGetDriverVersion'}


# ---- in the place of NVIDIA's ----

def test_the_dropin_follows_its_configuration_while_a_gpu_hangs_and_ends_at_once(mps):
    mps.config(sharing(40))
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    behave(mps, {}, {'delays': {'nvmlDeviceGetMemoryInfo': FOR_EVER}})
    dropin.hang_up()
    which = ' event="%s" call="nvmlDeviceGetMemoryInfo" gpu="' + UUIDS[1]
    dropin.wait_log('"a call into NVML does not return"' + which % 'NVMLCallHangs', timeout=PATIENCE)
    mps.config(sharing(20))
    mps.connect().watch().wait_daemon(
        GPU, lambda one: one['state'] == 'ready' and one['threadsPermille'] == 50, 'the new replicas are in force')
    behave(mps)
    dropin.wait_log('"the call into NVML has returned"' + which % 'NVMLCallReturned')
    behave(mps, delays=BLOCKED)
    dropin.hang_up()
    dropin.wait_log('"a call into NVML does not return" .*call="nvmlSystemGetDriverVersion"', timeout=PATIENCE)
    assert dropin.stop() == 0
    assert not mps.processes()


def test_the_dropin_waits_for_an_nvml_that_does_not_begin(mps):
    behave(mps, init={'delay': FOR_EVER})
    mps.config(sharing(40))
    dropin = mps.start_dropin()
    dropin.wait_log('"a call into NVML does not return" .*call="nvmlInit', timeout=PATIENCE)
    assert not mps.exists('.ready') and not mps.processes()
    behave(mps)
    wait(lambda: mps.exists('.ready'), 'it is ready')
