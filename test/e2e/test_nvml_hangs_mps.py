"""A call into NVML that does not return, or ends its process, in the supervisors of MPS: `warpshare mps` and `mps-control-daemon`."""
import json
import os
import signal

import yaml

from mps import UUIDS, daemon, mps, wait  # noqa: F401 -- a fixture
from node import GPU
from test_agent_metrics import get
from test_mps_daemon import sharing
from test_nvml_hangs import BLOCKED, FOR_EVER, PATIENCE


def behave(mps, *changes, **more):
    """What NVML does from now on; |changes|: of each GPU."""
    changes = [*changes, {}, {}]
    more = {'processDirectory': mps.folder + '/processes', **more}
    mps._write(os.path.join(mps.folder, 'gpus.yaml'), yaml.safe_dump({'gpus': [  # pylint: disable=protected-access
        {'model': 'V100-32GB', 'uuid': uuid, **changes[i]} for i, uuid in enumerate(UUIDS[:2])], **more}))


def list_processes(mps):
    """From now on NVML knows the memory of clients."""
    os.mkdir(mps.folder + '/processes')
    mps.scenario('process-directory: %s/processes' % mps.folder)
    behave(mps)


def ailment(supervisor):
    status, text = get(supervisor, '/healthz')
    return text if status != 200 else ''


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
    supervisor.wait_log('a call into NVML does not return and was given up call="%s" seconds=1' % call, timeout=PATIENCE)
    assert ailment(supervisor).startswith(call + ' has not returned for ')
    # It is degraded, not dead: a restart would end its clients and repair no driver.
    assert mps.run('mps', 'ping').returncode == 0 and get(supervisor, '/livez')[0] == 200
    assert peer.wait_daemon(UUIDS[0], lambda one: len(one['clients']) == 2, 'both clients')['pid'] == pid
    has_memory(peer, UUIDS[1])
    behave(mps)
    supervisor.wait_log('NVML answers again call="%s" seconds=' % call)
    wait(lambda: ailment(supervisor) == '', 'all is well again')
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
    supervisor = mps.start('--grace=0')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    behave(mps, {'delays': dict.fromkeys(('nvmlDeviceGetMPSComputeRunningProcesses', 'nvmlDeviceSetComputeMode'), FOR_EVER)})
    mps.client(UUIDS[0])
    supervisor.wait_log('a call into NVML does not return', timeout=PATIENCE)
    assert supervisor.stop() == 0
    supervisor.wait_log('the compute mode is not put back: the next start does it unit=%s mode=DEFAULT' % UUIDS[0])
    assert not mps.processes()
    assert modes_on_record(mps) == [UUIDS[0]]
    behave(mps)
    again = mps.start()
    mps.connect().watch().wait_ready(UUIDS[0])
    assert again.stop() == 0
    again.wait_log('compute mode restored unit=%s mode=DEFAULT' % UUIDS[0])
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
    supervisor.wait_log('compute mode restored unit=%s mode=DEFAULT' % UUIDS[0], timeout=PATIENCE)
    wait(lambda: modes_on_record(mps) == UUIDS[1:2], 'it is not on record any more')


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
