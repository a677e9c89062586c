# SPDX-License-Identifier: Apache-2.0
"""The supervisor of MPS: `warpshare mps`, and the same in the place of NVIDIA's mps-control-daemon."""
import json
import os
import re
import signal
import stat
import subprocess

import pytest

import mps as mps_module
from mps import LINK, UUIDS, daemon, mps, unit, wait  # noqa: F401 -- a fixture
from node import GPU, WARPSHARE
from rights import needs_mounts

HEADER = r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} [\w.-]+:\d+\] '


def sharing(replicas, **more):
    """As admins write it: where MPS is on the host is told to the plugin alone, by its chart."""
    return {'version': 'v1', 'sharing': {'mps': {'resources': [{'name': GPU, 'replicas': replicas}], **more}}}


# ---- what is wanted ----

def test_what_is_wanted_is_started_and_its_limits_read_back(mps):
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1, threadsPermille=500, units=[unit(1, limitMib=512)]))
    first, second = peer.wait_ready(UUIDS[0]), peer.wait_ready(UUIDS[1])
    assert (first['threadsPermille'], first['limitMib']) == (25, 815)
    assert (second['threadsPermille'], second['limitMib']) == (500, 512)
    assert mps.ask(UUIDS[0], 'get_default_active_thread_percentage') == '2.5'
    assert mps.ask(UUIDS[0], 'get_default_device_pinned_mem_limit 0') == '815M'
    assert mps.ask(UUIDS[1], 'get_default_device_pinned_mem_limit 0') == '512M'
    assert first['units'] == [UUIDS[0]] and first['tier'] == 'default' and first['maxClients'] == 48
    wait(lambda: mps.exists('.ready'), 'all of it is ready')
    assert mps.exists(UUIDS[0], '.started') and mps.exists(UUIDS[1], '.started')


def test_only_what_differs_is_touched(mps):
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    pids = [peer.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]]
    peer.apply(daemon(0), daemon(1, threadsPermille=500), generation=2)
    changed = peer.wait_daemon(UUIDS[1], lambda one: one['state'] == 'ready' and one['threadsPermille'] == 500, 'changed')
    assert mps.ask(UUIDS[1], 'get_default_active_thread_percentage') == '50.0'
    assert peer.wait_ready(UUIDS[0])['pid'] == pids[0] and changed['restarts'] == 0
    peer.apply(daemon(1, threadsPermille=500), generation=3)
    peer.wait_status(lambda status: [one['name'] for one in status['daemons']] == [UUIDS[1]], 'one daemon is left')
    assert len(mps.processes()) == 1


def test_what_cannot_be_is_refused_and_what_is_stays(mps):
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    answer = peer.ask(do='apply', generation=2, daemons=[daemon(1), daemon(1)])
    assert not answer['ok'] and UUIDS[1] in answer['error']
    assert peer.wait_ready(UUIDS[0])['pid'] == pid


def test_a_peer_that_talks_nonsense_is_left_and_the_others_stay(mps):
    supervisor = mps.start()
    peer, other = mps.connect(), mps.connect()
    other.send(do='apply', id=1, daemons=[daemon(0, name='../../etc')])
    assert other.read() is None
    supervisor.wait_log('a connection to the MPS socket is closed.*daemons.0.: name: must be a relative path')
    assert peer.ask(do='ping')['ok']


def test_the_socket_is_for_root_alone(mps):
    mps.start()
    assert stat.S_IMODE(os.stat(mps.path('warpshare.sock')).st_mode) == 0o600


# ---- what happens to it ----

def test_an_agent_that_goes_and_comes_back_finds_all_as_it_was(mps):
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    peer.close()
    again = mps.connect().watch()
    again.apply(daemon(0))
    assert again.wait_ready(UUIDS[0])['pid'] == pid


def test_a_supervisor_that_is_killed_leaves_its_daemons_to_the_next(mps):
    first = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    client = mps.client(UUIDS[0])
    first.kill()
    assert mps.processes() and client.poll() is None
    mps.start()
    peer = mps.connect().watch()  # nobody says again what is wanted
    adopted = peer.wait_ready(UUIDS[0])
    assert adopted['pid'] == pid and adopted['adopted']
    peer.wait_daemon(UUIDS[0], lambda one: [c['pid'] for c in one['clients']] == [client.pid], 'the client is still there')
    assert client.poll() is None and mps.exists('.ready')


def children(pid):
    with open('/proc/%d/task/%d/children' % (pid, pid), encoding='ascii') as file:
        return [int(word) for word in file.read().split()]


def start_kept(mps):
    """A supervisor that its parent starts again, with a daemon and a client: both processes, the daemon's PID and the client."""
    parent = mps.start('--restart-after-crash=always')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    client = mps.client(UUIDS[0])
    first, = children(parent.pid)
    return parent, first, pid, client


def test_in_a_container_a_supervisor_that_is_killed_is_started_again_and_clients_live(mps):
    """Its parent keeps the container, and with it the daemons."""
    parent, first, pid, client = start_kept(mps)
    os.kill(first, signal.SIGKILL)
    parent.wait_log('the supervisor was ended by a signal, and is started again signal=Killed times=1')
    mps.wait_socket(parent)
    peer = mps.connect().watch()
    adopted = peer.wait_ready(UUIDS[0])
    assert adopted['pid'] == pid and adopted['adopted']
    peer.wait_daemon(UUIDS[0], lambda one: [c['pid'] for c in one['clients']] == [client.pid], 'the client is still there')
    os.kill(pid, signal.SIGKILL)  # a child of the parent's now
    peer.wait_daemon(UUIDS[0], lambda one: one['state'] == 'ready' and one['pid'] != pid, 'another daemon')
    wait(lambda: not os.path.exists('/proc/%d' % pid), 'the dead one is reaped')
    os.kill(parent.pid, signal.SIGTERM)
    assert parent.wait() == 0 and not mps.processes()


def test_a_daemon_that_dies_is_started_again_and_the_other_is_not_touched(mps):
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    pids = [peer.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]]
    wait(lambda: mps.exists('.ready'), 'all of it is ready')
    os.kill(pids[0], signal.SIGKILL)
    fault = peer.wait_state(UUIDS[0], 'fault')
    assert fault['reason']
    wait(lambda: not mps.exists('.ready') or mps.exists(UUIDS[0], '.started'), 'it is not ready, or is again')
    back = peer.wait_daemon(UUIDS[0], lambda one: one['state'] == 'ready' and one['pid'] != pids[0], 'back')
    assert back['restarts'] == 1
    assert peer.wait_ready(UUIDS[1])['pid'] == pids[1]
    wait(lambda: mps.exists('.ready'), 'all of it is ready again')


def test_a_daemon_that_does_not_answer_is_a_fault_and_comes_back(mps):
    mps.start()
    peer = mps.connect().watch()
    mps.scenario('daemon: exits 1')
    peer.apply(daemon(0))
    fault = peer.wait_state(UUIDS[0], 'fault')
    assert fault['reason'] and not mps.exists('.ready') and not mps.exists(UUIDS[0], '.started')
    status = mps.run('mps', 'status')
    assert status.returncode == 1 and fault['state'] in status.stdout
    mps.scenario()
    peer.wait_ready(UUIDS[0])


# ---- its own end ----

@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it_with_all_its_daemons(mps, number):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    for uuid in UUIDS[:2]:
        peer.wait_ready(uuid)
    wait(lambda: mps.exists('.ready'), 'all of it is ready')
    inode = os.stat(mps.path(UUIDS[0], 'pipe')).st_ino
    supervisor.signal(number)
    assert supervisor.wait() == 0
    assert not mps.processes()
    assert not mps.exists('.ready') and not mps.exists(UUIDS[0], '.started') and not mps.exists('warpshare.sock')
    assert os.stat(mps.path(UUIDS[0], 'pipe')).st_ino == inode  # it may be mounted in tenants


def test_clients_have_their_time(mps):
    supervisor = mps.start('--grace=600')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    client = mps.client(UUIDS[0])
    peer.wait_daemon(UUIDS[0], lambda one: len(one['clients']) == 1, 'a client')
    supervisor.signal(signal.SIGTERM)
    peer.wait_state(UUIDS[0], 'draining')
    assert not mps.exists('.ready')
    client.communicate('leave\n', timeout=mps_module.DEADLINE)
    assert supervisor.wait() == 0


def test_clients_that_stay_are_ended_with_their_daemon(mps):
    supervisor = mps.start('--grace=0')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    client = mps.client(UUIDS[0])
    peer.wait_daemon(UUIDS[0], lambda one: len(one['clients']) == 1, 'a client')
    assert supervisor.stop() == 0
    assert client.wait(mps_module.DEADLINE) != 0 and not mps.processes()


def test_sighup_logs_the_state_of_all_daemons(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    supervisor.hang_up()
    supervisor.wait_log(r'info +MPS daemon name=%s state=ready .*servers=0 clients=0 reason=-' % UUIDS[0])


def test_there_is_one_supervisor_a_root(mps):
    mps.start()
    second = mps._start(['mps'])
    second.fails("another MPS supervisor runs with '%s'" % mps.root)


def test_it_works_as_the_first_process_of_a_container(mps):
    unshare = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']
    if subprocess.run([*unshare, 'true'], capture_output=True, check=False).returncode != 0:
        pytest.skip('a PID namespace cannot be made here')
    supervisor = mps.start(prefix=unshare)
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    with open('/proc/%d/task/%d/children' % (supervisor.pid, supervisor.pid), encoding='ascii') as file:
        first = int(file.read())
    os.kill(first, signal.SIGTERM)
    assert supervisor.wait() == 0
    assert not mps.processes()


# ---- what people ask ----

def test_status_shows_a_table_json_and_metrics(mps):
    mps.start()
    peer = mps.connect().watch()
    empty = mps.run('mps', 'status')
    assert (empty.returncode, empty.stdout) == (0, 'no MPS daemon is wanted on this node\n')
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    mps.client(UUIDS[0])
    peer.wait_daemon(UUIDS[0], lambda one: len(one['clients']) == 1, 'a client')
    table = mps.run('mps', 'status')
    assert table.returncode == 0
    head, row = table.stdout.splitlines()
    assert head.split() == ['DAEMON', 'UNIT', 'STATE', 'SINCE', 'SERVERS', 'CLIENTS', 'MEMORY', 'TIER', 'REASON']
    assert re.fullmatch(r'%s +%s +ready +\d+s +1 +1/48 +\d+ MiB +default' % (UUIDS[0], UUIDS[0]), row)
    assert json.loads(mps.run('mps', 'status', '--output', 'json').stdout)['daemons'][0]['state'] == 'ready'
    metrics = mps.run('mps', 'status', '--output=metrics').stdout
    assert 'warpshare_mps_unit_clients{daemon="%s",resource="nvidia.com/gpu",unit="%s"} 1\n' % (UUIDS[0], UUIDS[0]) in metrics


def test_status_without_a_supervisor_says_so(mps):
    done = mps.run('mps', 'status')
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("no MPS supervisor with '%s': connect to " % mps.root)


@pytest.mark.parametrize('arguments, text', [
    (['--frobnicate'], "warpshare mps: unknown flag '--frobnicate'; --help lists all\n"),
    (['--mps-director', 'x'], "warpshare mps: unknown flag '--mps-director'; did you mean '--mps-directory'?\n"),
    (['--kubelet-socket=x'], "warpshare mps: unknown flag '--kubelet-socket'; --help lists all\n"),
    (['--grace'], 'warpshare mps: --grace: needs a value\n'),
    (['--grace=soon'], "warpshare mps: grace: 'soon' is not a number of seconds from 0 to 86400\n"),
    (['--config-file', 'x'], 'warpshare mps: --config-file: only with --standalone; without it, the agent says which '
                             'daemons there are\n'),
    (['start'], "warpshare mps: 'start' is not a command; 'warpshare mps --help' lists them\n"),
    (['stauts'], "warpshare mps: 'stauts' is not a command; did you mean 'status'?\n"),
    (['status', '--output=xml'], None),
    (['uninstall', '--yes'], "warpshare mps uninstall: unknown flag '--yes'; --help lists all\n"),
])
def test_a_wrong_command_line_is_refused_with_what_is_wrong(mps, arguments, text):
    done = mps.run('mps', *arguments)
    assert done.returncode == 2 and not done.stdout
    assert text is None or done.stderr == text


@pytest.mark.parametrize('arguments', [['mps'], ['mps', 'status'], ['mps', 'uninstall'], ['mps', 'mount-shm'],
                                       ['mps-control-daemon'], ['mps-control-daemon', 'mount-shm']])
def test_help_teaches(mps, arguments):
    done = mps.run(*arguments, '--help')
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith('usage: ') and '--mps-directory PATH' in done.stdout


# ---- the shared memory ----

def test_mount_shm_without_the_right_to_says_what_is_missing(mps):
    more = {}
    if os.geteuid() == 0:
        os.mkdir(mps.path('shm'))
        os.chmod(mps.folder, 0o755)
        more = {'user': 65534, 'group': 65534, 'extra_groups': []}
    done = mps.run('mps', 'mount-shm', **more)
    assert done.returncode == 1 and not done.stdout
    assert "mount a tmpfs at '%s': not permitted; the container has to be privileged" % mps.path('shm') in done.stderr


def private(script, mps):
    """The script as root of a mount namespace of its own."""
    prefix = ['unshare', '--mount', '--propagation', 'private']
    if subprocess.run([*prefix, 'sh', '-c', 'mount -t tmpfs x /mnt'], capture_output=True, check=False).returncode != 0:
        pytest.skip('nothing can be mounted here')
    done = mps.run(*prefix[1:], 'sh', '-ec', script, 'sh', WARPSHARE, mps.root, program=prefix[0])
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize('program', ['"$1" mps mount-shm', '"$1" mps-control-daemon mount-shm'])
def test_mount_shm_mounts_once_and_never_takes_it_away(mps, program):
    output = private('%s; touch "$2/shm/in-use"; %s; ls "$2/shm"; stat -f -c "%%b %%S %%c" "$2/shm"; grep "$2/shm" /proc/self/mountinfo'
                     % (program, program), mps)
    first, second, listing, sizes, mount = output.splitlines()
    assert first == "mounted a tmpfs at '%s/shm'" % mps.root
    assert second == "a tmpfs is mounted at '%s/shm' already, and stays" % mps.root
    assert listing == 'in-use'
    assert re.search(r' rw,nosuid,nodev,noexec,relatime .*- tmpfs shm rw', mount)
    # mountinfo leaves out a size that is the kernel's own default, so the file system is asked: half of the memory, 65,536 files.
    blocks, block, files = map(int, sizes.split())
    with open('/proc/meminfo', encoding='ascii') as meminfo:
        half = int(re.search(r'MemTotal: +(\d+) kB', meminfo.read()).group(1)) * 1024 // 2
    assert 0 <= blocks * block - half < block and files == 65536


def test_uninstall_unmounts_the_shared_memory(mps):
    output = private('"$1" mps mount-shm; "$1" mps uninstall; ! grep "$2/shm" /proc/self/mountinfo; ls -A "$2"', mps)
    assert output.splitlines() == ["mounted a tmpfs at '%s/shm'" % mps.root,
                                   "1 files and folders of MPS were removed below '%s'" % mps.root]


# ---- a /dev/shm for each daemon ----

def has_as_shm(pid, folder):
    """The process and the folder have the same tmpfs."""
    theirs, ours = os.stat('/proc/%d/root/dev/shm' % pid), os.stat(folder)
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


@needs_mounts
def test_each_daemon_has_a_shared_memory_of_its_own(mps):
    mps.start('--shared-memory-size=32')
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    pids = [peer.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]]
    folders = [mps.path(uuid, 'shm') for uuid in UUIDS[:2]]
    assert [[has_as_shm(pid, folder) for folder in folders] for pid in pids] == [[True, False], [False, True]]
    told = peer.wait_daemon(UUIDS[0], lambda one: one['sharedMemory']['sizeBytes'], 'its size is told')['sharedMemory']
    assert (told['sizeBytes'], told['filesMax'], told['full']) == (32 << 20, 65536, False)
    for folder in folders:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o1777
    assert mps.client(UUIDS[0]).poll() is None


@needs_mounts
def test_shared_memory_stays_over_all_restarts(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    pid = peer.wait_ready(UUIDS[0])['pid']
    mark = mps.path(UUIDS[0], 'shm', 'of-a-container')
    with open(mark, 'w', encoding='ascii'):
        pass
    supervisor.kill()
    mps.start()
    peer = mps.connect().watch()
    assert peer.wait_ready(UUIDS[0])['adopted']
    assert peer.wait_daemon(UUIDS[0], lambda one: 'sharedMemory' in one, 'it is its own still')['pid'] == pid
    os.kill(pid, signal.SIGKILL)
    again = peer.wait_daemon(UUIDS[0], lambda one: one['state'] == 'ready' and one['pid'] != pid, 'started again')
    assert has_as_shm(again['pid'], mps.path(UUIDS[0], 'shm')) and os.path.exists(mark)


@needs_mounts
def test_containers_of_before_keep_the_shared_memory_of_the_node(mps):
    """Their daemon's folder was made when all had one in common, and they have that mounted."""
    os.makedirs(mps.path(UUIDS[0], 'pipe'))
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    old, new = peer.wait_ready(UUIDS[0]), peer.wait_ready(UUIDS[1])
    assert has_as_shm(old['pid'], '/dev/shm') and 'sharedMemory' not in old
    assert has_as_shm(new['pid'], mps.path(UUIDS[1], 'shm')) and 'sharedMemory' in new


def test_all_daemons_may_have_one_shared_memory(mps):
    mps.start('--shared-memory=node')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    assert 'sharedMemory' not in peer.wait_ready(UUIDS[0]) and not mps.exists(UUIDS[0], 'shm')
    assert mps.client(UUIDS[0]).poll() is None


@needs_mounts
def test_a_change_of_shared_memory_that_cuts_off_running_containers_is_logged(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    assert supervisor.stop() == 0
    supervisor = mps.start('--shared-memory=node')
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    assert has_as_shm(peer.wait_ready(UUIDS[0])['pid'], '/dev/shm')
    supervisor.wait_log('containers that started before cannot connect any more.* name=' + UUIDS[0])


@needs_mounts
def test_a_mount_that_the_host_would_not_see_is_not_made(mps):
    """As in a container whose volume has no mountPropagation."""
    supervisor = mps.start(prefix=['unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
                                   'mount --bind "$0" "$0"; exec "$@"', mps.root])
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    assert 'sharedMemory' not in peer.wait_ready(UUIDS[0])
    supervisor.wait_log('all MPS daemons use one shared memory of the node')


@pytest.mark.parametrize('size', ['-1', 'much', '1073741825'])
def test_a_wrong_size_of_the_shared_memory_is_refused(mps, size):
    done = mps.run('mps', '--shared-memory-size=' + size)
    assert done.returncode == 2
    assert "shared-memory-size: '%s' is not a number of MiB from 0 to 1073741824" % size in done.stderr


@needs_mounts
def test_uninstall_unmounts_what_daemons_had(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0))
    peer.wait_ready(UUIDS[0])
    folder = mps.path(UUIDS[0], 'shm')
    supervisor.kill()
    in_use = subprocess.Popen([*mps_module.with_shm(folder), 'sleep', 'infinity'])
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 1 and 'process %d has it as /dev/shm' % in_use.pid in done.stderr + done.stdout
    assert os.path.ismount(folder)
    in_use.kill()
    in_use.wait()
    told = json.loads(mps.run('uninstall', '--dry-run', '--output=json', '--kubelet-socket', os.path.join(mps.folder, 'kubelet.sock'),
                              '--cdi-root', mps.folder, '--mig-state-directory', mps.path('mig')).stdout)
    assert {thing['where']: thing['outcome'] for thing in told['things']}.items() >= {folder: 'removed', mps.path(UUIDS[0]): 'removed'}.items()
    assert os.path.ismount(folder)
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert not os.path.exists(mps.path(UUIDS[0]))


# ---- the record is lost ----

@pytest.mark.parametrize('record', [None, '', '{"generation": tr'], ids=['gone', 'empty', 'cut off'])
def test_a_daemon_that_is_neither_wanted_nor_on_record_ends_with_its_last_client(mps, record):
    """What is wanted on its GPU waits for it; the other daemon goes on."""
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1))
    pids = [peer.wait_ready(uuid)['pid'] for uuid in UUIDS[:2]]
    client = mps.client(UUIDS[0])
    supervisor.kill()
    os.unlink(mps.path('state.json'))
    if record is not None:
        with open(mps.path('state.json'), 'w', encoding='ascii') as file:
            file.write(record)
    mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0, name='nvidia.com/gpu'), daemon(1))
    found = peer.wait_daemon(UUIDS[0], lambda one: one['state'] == 'draining' and len(one.get('clients', [])) == 1, 'drains')
    assert found['pid'] == pids[0] and client.poll() is None
    peer.wait_daemon('nvidia.com/gpu', lambda one: "it waits for the daemon '%s' to end" % UUIDS[0] in (one.get('reason') or ''), 'waits')
    assert peer.wait_ready(UUIDS[1])['pid'] == pids[1]
    client.communicate('leave\n', timeout=mps_module.DEADLINE)
    peer.wait_ready('nvidia.com/gpu')
    assert pids[0] not in mps.processes()


# ---- uninstall ----

def test_uninstall_ends_what_a_killed_supervisor_left_and_removes_its_files(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1, name='nvidia.com/gpu'))
    peer.wait_ready(UUIDS[0])
    peer.wait_ready('nvidia.com/gpu')
    refused = mps.run('mps', 'uninstall')
    assert refused.returncode == 1 and refused.stderr == "an MPS supervisor runs with '%s': end it first\n" % mps.root
    supervisor.kill()
    assert len(mps.processes()) == 2
    for name in ('notes.txt', 'allocations-nvidia.com_gpu.json'):
        with open(mps.path(name), 'w', encoding='ascii'):
            pass
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert 'MPS daemons: 2 on record, 2 compute modes restored\n' in done.stdout
    assert not mps.processes() and os.listdir(mps.root) == ['notes.txt']
    again = mps.run('mps', 'uninstall')
    assert (again.returncode, again.stdout) == (0, "nothing of MPS is left below '%s'\n" % mps.root)


def test_uninstall_ends_daemons_whose_record_is_lost(mps):
    supervisor = mps.start()
    peer = mps.connect().watch()
    peer.apply(daemon(0), daemon(1, name='nvidia.com/gpu'))
    peer.wait_ready(UUIDS[0])
    peer.wait_ready('nvidia.com/gpu')
    supervisor.kill()
    os.unlink(mps.path('state.json'))
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert 'MPS daemons: 0 on record, 2 not on record, 0 compute modes restored\n' in done.stdout
    assert not mps.processes() and not os.listdir(mps.root)


def test_uninstall_says_what_to_do_with_a_record_that_cannot_be_read(mps):
    """It knows what was before, so it is not for this program to throw away."""
    with open(mps.path('state.json'), 'w', encoding='ascii') as file:
        file.write('{"generation": tr')
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 1 and mps.exists('state.json')
    assert done.stderr == ("what was before MPS cannot be read, and nothing was removed; to uninstall without putting back compute modes "
                           "and memory limits, remove that file: '%s': no JSON: invalid token near 'tr'\n" % mps.path('state.json'))


def test_uninstall_takes_memory_limits_of_containers_away(mps, tmp_path):
    """The record of a supervisor that was killed; its path leads out of the kernel's cgroups, which take no such file."""
    mps._write(os.path.join(mps.folder, 'gpus.yaml'),  # pylint: disable=protected-access
               'driverVersion: 615.10.01\ngpus: [{model: A100-40GB, uuid: %s}]\n' % UUIDS[0])
    limit = tmp_path / ('warpshare-sim-limit.' + UUIDS[0])
    limit.write_text('0 %d\n' % (2048 << 20))
    with open(mps.path('state.json'), 'w', encoding='ascii') as file:
        json.dump({'generation': 1, 'daemons': [], 'containerLimits': [
            {'unit': UUIDS[0], 'cgroup': '/../../..%s' % tmp_path, 'grant': 'g1', 'limitMib': 2048}]}, file)
    done = mps.run('mps', 'uninstall')
    assert done.returncode == 0 and not limit.exists(), done
    assert 'memory limits of containers: 1 removed\n' in done.stdout


def test_uninstall_of_nothing_is_no_error(mps):
    mps.unmount()
    os.rmdir(mps.root)
    done = mps.run('mps', 'uninstall')
    assert (done.returncode, done.stdout) == (0, "'%s' is not there: nothing to do\n" % mps.root)


# ---- in the place of NVIDIA's ----

def test_the_dropin_lays_out_what_nvidias_does(mps):
    mps.config(sharing(40))
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    assert mps.exists('nvidia.com/gpu/.started') and os.path.isdir(mps.path('nvidia.com/gpu/log'))
    assert mps.ask(GPU, 'get_default_active_thread_percentage') == '2.0'
    assert mps.ask(GPU, 'get_default_device_pinned_mem_limit 0') == '815M'
    assert mps.ask(GPU, 'get_default_device_pinned_mem_limit 1') == '815M'
    # What the charts let the config manager look for, though they start it by its bare name.
    with open('/proc/%d/cmdline' % dropin.pid, 'rb') as file:
        assert file.read() == b'/usr/bin/mps-control-daemon\0'
    dropin.wait_log('Set device pinned memory limit: device=1, total_memory_gb=31.84, replicas=40, limit_per_replica_mib=815')
    assert dropin.stop() == 0
    assert not mps.exists('.ready') and not mps.exists('nvidia.com/gpu/.started') and not mps.processes()
    lines = re.sub('(?<=Running with config:\n){(?s:.*?)^}\n', '', dropin.log(), flags=re.MULTILINE).splitlines()
    assert not [line for line in lines if not re.match(HEADER, line)]


def test_the_dropin_has_its_own_plan_and_takes_no_other(mps):
    mps.config(sharing(40))
    mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    peer = mps.connect().watch()
    answer = peer.ask(do='apply', generation=5, daemons=[])
    assert not answer['ok'] and answer['kind'] == 'unsupported'
    assert peer.wait_ready(GPU)['units'] == UUIDS[:2]


def test_the_dropin_with_a_daemon_for_each_gpu(mps):
    mps.config(sharing(40, daemonScope='gpu'))
    mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    peer = mps.connect().watch()
    assert [peer.wait_ready(uuid)['units'] for uuid in UUIDS[:2]] == [[UUIDS[0]], [UUIDS[1]]]


def two_resources(replicas):
    return {'version': 'v1', 'flags': {'mpsRoot': '/run/nvidia/mps'}, 'sharing': {'mps': {'resources': [
        {'name': GPU, 'rename': 'nvidia.com/gpu.a', 'devices': ['0'], 'replicas': 40},
        {'name': GPU, 'rename': 'nvidia.com/gpu.b', 'devices': ['1'], 'replicas': replicas}]}}}


def test_a_changed_file_touches_only_the_daemons_that_differ(mps):
    mps.config(two_resources(40))
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    peer = mps.connect().watch()
    before = [peer.wait_ready(name)['pid'] for name in ('nvidia.com/gpu.a', 'nvidia.com/gpu.b')]
    mps.config(two_resources(20))
    peer.wait_daemon('nvidia.com/gpu.b', lambda one: one['state'] == 'ready' and one['threadsPermille'] == 50, 'changed')
    assert peer.wait_ready('nvidia.com/gpu.a')['pid'] == before[0]
    mps.config('version: v2\n')
    dropin.wait_log('configuration refused, the one in force stays')
    assert peer.wait_ready('nvidia.com/gpu.a')['pid'] == before[0]
    mps.config(two_resources(49))
    dropin.wait_log('change refused, the daemons in force stay')
    assert peer.wait_ready('nvidia.com/gpu.a')['pid'] == before[0]


def test_a_hang_up_reads_again_and_touches_nothing_that_is_as_it_was(mps):
    mps.config(sharing(40))
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    peer = mps.connect().watch()
    pid = peer.wait_ready(GPU)['pid']
    generation = peer.status['generation']
    dropin.hang_up()
    peer.wait_status(lambda status: status['generation'] > generation, 'the GPUs were read again')
    assert peer.wait_ready(GPU)['pid'] == pid


def test_without_mps_in_the_file_the_dropin_is_ready_and_waits(mps):
    mps.config({'version': 'v1', 'sharing': {'timeSlicing': {'resources': [{'name': GPU, 'replicas': 4}]}}})
    dropin = mps.start_dropin()
    dropin.wait_log(HEADER + 'No devices are configured for MPS sharing; Waiting indefinitely.$')
    wait(lambda: mps.exists('.ready'), 'it is ready')
    assert not mps.processes()
    mps.config(sharing(40))
    mps.wait_socket(dropin)
    mps.connect().watch().wait_ready(GPU)


def test_the_dropin_waits_for_nvml(mps):
    mps.library = os.path.join(mps.folder, 'libnvidia-ml.so.1')
    mps.config({**sharing(40), 'flags': {'mpsRoot': '/run/nvidia/mps', 'migStrategy': 'mixed'}})
    dropin = mps.start_dropin()
    dropin.wait_log('NVML cannot be used, will try again')
    assert not mps.exists('.ready')
    os.symlink(mps_module.SIMULATOR, mps.library)
    wait(lambda: mps.exists('.ready'), 'it is ready')
    assert mps.exists('nvidia.com/gpu/.started')


def test_too_many_replicas_are_refused_and_the_next_file_takes_effect(mps):
    mps.config(sharing(49))
    dropin = mps.start_dropin()
    dropin.wait_log('no plan can be made; waiting for another configuration.*49, at most 48')
    assert not mps.exists('.ready')
    mps.config(sharing(40))
    wait(lambda: mps.exists('nvidia.com/gpu/.started'), 'it is started')


def test_a_wrong_file_ends_the_start_with_status_1(mps):
    mps.config('version: v2\n')
    dropin = mps.start_dropin()
    dropin.fails('configuration refused')


def test_the_daemons_log_is_echoed_at_level_debug_only(mps):
    mps.config(sharing(40))
    dropin = mps.start_dropin(WARPSHARE_LOG_LEVEL='debug')
    dropin.wait_log(r'"control.log" daemon="nvidia.com/gpu" line=".*Starting control daemon using socket')
    assert dropin.stop() == 0
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    assert dropin.stop() == 0
    assert 'control.log' not in dropin.log()


def test_a_dropin_that_is_killed_leaves_its_daemons_to_the_next(mps):
    mps.config(sharing(40))
    dropin = mps.start_dropin()
    wait(lambda: mps.exists('.ready'), 'it is ready')
    pid = mps.connect().watch().wait_ready(GPU)['pid']
    dropin.kill()
    again = mps.start_dropin()
    mps.wait_socket(again)
    adopted = mps.connect().watch().wait_ready(GPU)
    assert adopted['pid'] == pid and adopted['adopted']


def test_the_config_manager_finds_the_dropin_under_its_full_name_too():
    done = subprocess.run([LINK, '--version'], capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r'MPS Control Daemon version \d+\.\d+\.\d+\ncommit: ([0-9a-f]{40}|unknown)\n', done.stdout)


def test_a_wrong_flag_of_the_dropin_shows_the_usage_and_has_status_1():
    done = subprocess.run([LINK, '--frobnicate'], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith('usage: mps-control-daemon [OPTION...]\n')
    assert done.stderr.endswith("\nmps-control-daemon: unknown flag '--frobnicate'; --help lists all\n")
