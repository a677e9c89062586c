# SPDX-License-Identifier: Apache-2.0
"""The simulated MPS programs: that they answer as NVIDIA's do, and that servers, clients and faults behave as documented."""
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from mps import BIN, GPU, Sim, wait

FIXTURES = pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'test/fixtures/mps-control'
RECORDED = FIXTURES.parent / 'recorded/mps'
NOBODY = 65534


def can_be_two_users():
    try:
        return os.geteuid() == 0 and subprocess.run([BIN / 'warpshare-mps-sim-client', '--no-option'], user=NOBODY, check=False,
                              stderr=subprocess.DEVNULL).returncode == 2
    except OSError:
        return False


needs_root = pytest.mark.skipif(not can_be_two_users(), reason='needs root and a build folder for all, to be two users')


@pytest.fixture
def sim():
    made = Sim()
    yield made
    said = made.finish()
    assert not said


def dialogue(version):
    """(command, answer) in order, as recorded from the real program."""
    lines = (FIXTURES / ('%d.txt' % version)).read_text().splitlines(keepends=True)
    pairs = []
    for line in lines:
        if line.startswith('> '):
            pairs.append([line[2:].rstrip('\n'), ''])
        elif pairs:
            pairs[-1][1] += line
    return pairs


# ---- what the real program answers ----

@pytest.mark.parametrize('version', [535, 550])
def test_it_answers_every_recorded_command_as_the_real_program_did(sim, version):
    recorded = dialogue(version)
    assert len(recorded) > 50
    sim.scenario(version=version)
    sim.start()
    for command, answer in recorded:
        if command == 'quit' or command.startswith('quit -t'):
            continue
        assert (command, sim.run(command)) == (command, (answer, 0))


def test_commands_of_one_front_end_are_answered_in_order(sim):
    sim.start()
    assert sim.ask('get_default_active_thread_percentage\nfoo\nget_default_client_priority') == \
        '100.0\nUnknown command "foo"\n0'


def test_it_listens_to_one_front_end_at_a_time(sim):
    sim.start()
    with subprocess.Popen([BIN / 'nvidia-cuda-mps-control'], stdin=subprocess.PIPE, env=sim.environment) as first:
        sim.wait_log('NEW UI')
        assert sim.control(input=b'foo\n').stdout == b''
        first.stdin.close()
        assert first.wait(30) == 0
    assert sim.ask('get_server_list') == ''


def test_it_waits_for_a_peer_that_sends_nothing(sim):
    sim.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(str(sim.pipe / 'control'))
        sim.wait_log('Accepting connection')
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([BIN / 'nvidia-cuda-mps-control'], input=b'ps\n', env=sim.environment, timeout=1, check=False)
    wait(lambda: sim.control(input=b'foo\n').stdout, 'it answers')


@pytest.mark.parametrize('how', ['a long command', 'the pipe of its log'])
def test_it_breaks_down_where_the_real_one_does_not_check_what_comes(sim, how):
    sim.start()
    if how == 'a long command':
        sim.control(input=b'x' * 4000 + b'\n')
        assert sim.ask('get_server_list') == ''
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.connect(str(sim.pipe / 'control'))
            door.send(b'UI')
            door.send(b'CMD ' + b'x' * 4096)
            sim.daemon.wait(30)
    else:
        (sim.pipe / 'log').write_text('x')
    assert sim.daemon.wait(30) == -signal.SIGSEGV


def test_without_a_daemon_the_front_end_says_so(sim):
    sim.scenario()
    result = sim.control(input=b'ps\n')
    assert (result.returncode, result.stdout, result.stderr) == (1, b'', b'Cannot find MPS control daemon process\n')


def test_an_option_that_the_version_does_not_know_makes_it_a_front_end(sim):
    for version, options in ((535, ['-S']), (550, ['-f', '-multiuser-server']), (550, ['-d', '-S']), (590, ['-x'])):
        sim.scenario(version=version)
        result = sim.control(*options)
        assert (result.returncode, result.stderr) == (1, b'Cannot find MPS control daemon process\n')
        assert not sim.pipe.exists()


@pytest.mark.parametrize('version', [535, 550])
def test_files_have_the_names_and_modes_of_the_real_ones(sim, version):
    sim.scenario(version=version)
    assert sim.control('-d').returncode == 0
    modes = {path.name: oct(path.lstat().st_mode) for path in sim.pipe.iterdir()}
    expected = {'control': '0o140666', 'control_lock': '0o100666', 'control_privileged': '0o140755', 'log': '0o10777'}
    if version >= 550:
        expected['nvidia-cuda-mps-control.pid'] = '0o100666'
    assert modes == expected
    assert oct(sim.pipe.stat().st_mode)[-3:] == '777' and oct(sim.log.stat().st_mode)[-3:] == '700'
    assert {path.name: oct(path.stat().st_mode)[-3:] for path in sim.log.iterdir()} == \
        {'control.log': '644', 'server.log': '644'}
    assert sim.run('quit') == ('', 0)
    assert {path.name for path in sim.pipe.iterdir()} == {'control', 'control_lock', 'control_privileged'}


def test_in_the_foreground_the_log_is_standard_output(sim):
    sim.start()
    sim.client().wait('connected')
    assert re.search(r'^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} Control +%d\] Starting control daemon using socket %s/control$'
                     % (sim.daemon.pid, sim.pipe), sim.logs(), re.M)
    assert re.search(r'^\[.* Server +\d+\] Server has started$', sim.logs(), re.M)
    assert list(sim.log.iterdir()) == []


def test_a_second_daemon_is_refused_and_stale_files_are_not_in_the_way(sim):
    sim.start()
    second = sim.control('-f')
    assert (second.returncode, second.stderr) == (1, b'An instance of this daemon is already running\n')
    sim.daemon.terminate()
    assert sim.daemon.wait() == -signal.SIGTERM
    assert len(list(sim.pipe.iterdir())) == 5
    sim.start()
    assert sim.ask('get_default_active_thread_percentage') == '100.0'


def test_a_pipe_directory_that_cannot_be_is_refused(sim):
    sim.scenario()
    nowhere = str(sim.folder / 'a/b')
    result = sim.control('-f', env={'CUDA_MPS_PIPE_DIRECTORY': nowhere})
    assert (result.returncode, result.stderr.decode()) == (1, 'Cannot access CUDA_MPS_PIPE_DIRECTORY=%s\n' % nowhere)
    assert sim.control('-f', env={'CUDA_MPS_PIPE_DIRECTORY': str(sim.folder / ('x' * 100))}).returncode == 1


def test_a_wrong_scenario_is_an_error_with_its_line(sim):
    sim.scenario('servr: works')
    result = sim.control('-f')
    assert result.returncode == 2
    assert result.stderr.decode().endswith("scenario '%s/scenario' line 5: not understood: servr: works\n" % sim.folder)


@pytest.mark.parametrize('gpus', ['V100', 'V100-32GB', 'V100-32GB 17', 'V100-32GB x'])
def test_gpus_of_an_unknown_model_or_too_many_are_an_error(sim, gpus):
    sim.replace('gpus: %s\n' % gpus)
    result = sim.control('-f')
    assert result.returncode == 2 and 'line 1: not understood: gpus: ' + gpus in result.stderr.decode()


def test_gpus_of_a_model_have_what_the_hardware_has(sim):
    sim.replace('version: 580\nlifetime: 300\nprocess-directory: %s\ngpus: T4 2\n' % sim.processes)
    sim.start()
    sim.ask('set_default_active_thread_percentage 50')
    client = sim.client('--memory=15361')
    assert client.value('sms') == '20'
    client.wait('allocated 0')


@needs_root
@pytest.mark.parametrize('version', [535, 550])
def test_other_users_may_ask_and_from_550_on_may_not_set(sim, version):
    sim.scenario(version=version)
    sim.start()
    told = sim.ask('set_default_active_thread_percentage 5', user=NOBODY)
    if version == 535:
        assert told == '5.0'
    else:
        assert told.startswith('Insufficient privileges for UID 65534. Control deamon settings can only be modified')
        assert sim.ask('get_default_active_thread_percentage', user=NOBODY) == '100.0'
    assert sim.ask('quit', user=NOBODY) == 'Not enough privilege to execute quit command'
    assert sim.ask('start_server -uid 0', user=NOBODY).startswith('Insufficient privileges for UID 65534')
    assert sim.ask('start_server -uid %d' % NOBODY, user=NOBODY) == ''
    sim.server()


# ---- servers and limits ----

def test_the_first_client_starts_a_server_with_the_limits_that_are_set_then(sim):
    sim.start()
    sim.ask('set_default_active_thread_percentage 33.3\nset_default_device_pinned_mem_limit 0 1630M')
    client = sim.client()
    assert (client.value('percentage'), client.value('sms'), client.value('limit')) == ('33.3', '34', '1630')
    server = sim.server()
    assert client.value('server') == str(server)
    assert sim.ask('get_server_status %d' % server) == 'ACTIVE'
    assert sim.ask('get_client_list %d' % server) == str(client.pid)
    assert sim.ask('get_device_client_list') == '%s\n%d' % (GPU[0], client.pid)
    assert sim.ask('get_device_pinned_mem_limit %d 0' % server) == '1G'
    for line in ('Active Threads Percentage set to 33.3', 'Device pinned memory limit for device 0 set to 0x65e00000 bytes'):
        assert re.search(r'^\[.* Server +%d\] %s$' % (server, line), sim.logs(), re.M)
    sim.ask('set_default_active_thread_percentage 50')
    assert sim.client().value('percentage') == '33.3', 'a default counts for servers that start later'
    head, row = sim.ask('ps -p %d' % server).splitlines()[:2]
    assert head.split() == ['PID', 'ID', 'SERVER', 'DEVICE', 'NAMESPACE', 'COMMAND']
    inode = os.stat('/proc/self/ns/pid').st_ino
    assert row.split()[:5] == [str(client.pid), '0', str(server), GPU[0][:12], str(inode)]


def test_the_variables_of_a_client_only_lower(sim):
    sim.start()
    sim.ask('set_default_active_thread_percentage 40\nset_default_device_pinned_mem_limit 0 4G')
    lower = sim.client(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='20', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=1G')
    higher = sim.client(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='80', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='%s=9G' % GPU[0])
    assert (lower.value('percentage'), lower.value('limit')) == ('20.0', '1024')
    assert (higher.value('percentage'), higher.value('limit')) == ('40.0', '4096')


def test_a_server_can_be_given_more_than_the_default_for_later_clients(sim):
    sim.start()
    sim.ask('set_default_device_pinned_mem_limit 0 1G')
    first = sim.client('--memory=2000').wait('allocated 0')
    server = sim.server()
    sim.ask('set_device_pinned_mem_limit %d 0 3G' % server)
    assert sim.ask('set_active_thread_percentage %d 50' % server) == '50.0'
    second = sim.client('--memory=2000').wait('allocated 2000')
    assert second.value('percentage') == '50.0' and first.value('percentage') == '100.0'
    first.tell('allocate 1024')
    first.wait('allocated 1024')
    first.tell('allocate 1')
    wait(lambda: first.output.read_text().count('allocated 0') == 2, 'no more')
    sim.wait_log('set to 0xc0000000 bytes')


def test_the_environment_of_the_daemon_limits_every_server(sim):
    sim.start(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='25', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=2G')
    client = sim.client()
    assert (client.value('percentage'), client.value('limit')) == ('25.0', '2048')
    assert sim.ask('get_default_active_thread_percentage\nget_default_device_pinned_mem_limit 0') == '25.0'


def test_memory_ends_with_the_gpu_and_contexts_count(sim):
    sim.scenario('context-memory: 300')
    sim.start()
    first = sim.client('--memory=40000').wait('allocated 40000')
    second = sim.client('--memory=361').wait('allocated 0')
    second.tell('allocate 360')
    second.wait('allocated 360')
    wait(lambda: (sim.memory_of(first.pid), sim.memory_of(second.pid)) == (40300, 660), 'NVML is told')
    assert sim.client().ends() == 3, 'no room for a third context'
    server = sim.server()
    assert sim.memory_of(server) == 30
    assert first.leave() == 0
    wait(lambda: sim.memory_of(first.pid) is None, 'the first one has gone')


def test_ordinals_are_those_of_the_daemons_visible_devices(sim):
    sim.scenario(gpus=3)
    sim.start(CUDA_VISIBLE_DEVICES='%s,%s' % (GPU[2], GPU[0]))
    sim.ask('set_default_device_pinned_mem_limit 1 2G')
    assert sim.client(CUDA_VISIBLE_DEVICES=GPU[2]).value('limit') == '0'
    assert sim.client(CUDA_VISIBLE_DEVICES=GPU[0]).value('limit') == '2048'
    refused = sim.client(CUDA_VISIBLE_DEVICES=GPU[1])
    assert refused.ends() == 3 and refused.said('error 100 CUDA_ERROR_NO_DEVICE')


def test_a_uuid_clears_the_limit_of_device_0_up_to_550(sim):
    sim.start()
    sim.ask('set_default_device_pinned_mem_limit 0 2G')
    assert sim.ask('set_default_device_pinned_mem_limit %s 1G' % GPU[0]) == ''
    assert sim.ask('get_default_device_pinned_mem_limit 0') == ''


def form_of(line):
    """A line of server.log without what differs from run to run; "Server 4711: Server has started"."""
    kind, text = re.fullmatch(r'\[[\d-]+ [\d:.]+ (\w+(?: \w+)*?) +\d+\] (.*)', line).groups()
    text = re.sub(r'\(uuid .*?\)', '(uuid)', text)
    text = re.sub(r'Device .* \(uuid\)', 'Device NAME (uuid)', text)
    text = re.sub(r'(device \d+) \(.*\)', r'\1 (NAME)', text)
    text = re.sub(r'(socket: |region ).*', r'\1PLACE', text)
    return '%s: %s' % (kind, re.sub(r'0x[0-9a-f]+|\d+(\.\d+)?', lambda number: '1.0' if number.group(1) else '1', text))


@pytest.mark.parametrize('version, recorded', [(470, '460-470'), (535, '535-550'), (550, '535-550'), (580, '580')])
def test_a_server_writes_the_lines_that_are_recorded_of_its_release_and_no_others(sim, version, recorded):
    forms = {form_of(line) for line in (RECORDED / ('%s.log' % recorded)).read_text().splitlines()}
    # No recording of 535 to 575 has a client that leaves; they say what 460 says, which names nobody.
    forms.add('Server: Receive command failed, assuming client exit')
    sim.scenario(version=version)
    sim.start()
    if version >= 535:
        sim.ask('set_default_active_thread_percentage 33\nset_default_device_pinned_mem_limit 0 1630M')
    client = sim.client().wait('connected')
    server = sim.server()
    client.leave()
    wait(lambda: 'assuming client' in sim.logs(), 'the server knows that it left')
    lines = [line for line in sim.logs().splitlines() if re.match(r'\[[^]]* %d\]' % server, line)]
    assert len(lines) > 7
    assert {form_of(line) for line in lines} - forms == set()


@pytest.mark.parametrize('version, cc, most', [(535, 6, 16), (580, 8, 48), (590, 8, 60)])
def test_one_client_too_many_is_refused(sim, version, cc, most):
    sim.scenario(version=version)
    sim.edit('cc=8', 'cc=%d' % cc)
    sim.start()
    clients = [sim.client() for _ in range(most)]
    for client in clients:
        client.wait('connected')
    refused = sim.client()
    assert refused.ends() == 3 and refused.said('error 808 CUDA_ERROR_MPS_MAX_CLIENTS_REACHED')
    clients[0].leave()
    wait(lambda: re.search(r'assuming client (?:{PID: %d, Context ID: \d+} )?exit$' % clients[0].pid, sim.logs(), re.M), 'its place is free')
    sim.client().wait('connected')


# ---- users ----

@needs_root
def test_a_second_user_waits_until_the_last_client_of_the_first_has_left(sim):
    sim.start()
    first = sim.client().wait('connected')
    server = sim.server()
    other = sim.client('--uid=%d' % NOBODY)
    sim.wait_log('NEW CLIENT %d from user %d' % (other.pid, NOBODY))
    third = sim.client()
    sim.wait_log('NEW CLIENT %d from user 0: Server is not ready, push client to pending list' % third.pid)
    assert sim.ask('get_client_list %d' % server) == str(first.pid)
    first.leave()
    assert other.value('server') != str(server)
    assert not third.said('connected')
    other.leave()
    third.wait('connected')
    assert sim.count('Starting new server') == 3


@needs_root
def test_a_multi_user_server_is_for_everybody(sim):
    sim.scenario(version=580)
    sim.start('-multiuser-server')
    first = sim.client()
    assert first.value('server') == sim.client('--uid=%d' % NOBODY).value('server')


# ---- ends and faults ----

def test_a_client_is_terminated_politely(sim):
    sim.start()
    victim, other = sim.client().wait('connected'), sim.client().wait('connected')
    server = sim.server()
    assert sim.ask('terminate_client %d %d' % (server, victim.pid)) == '0'
    assert victim.ends() == 4 and victim.said('error 810 CUDA_ERROR_MPS_CLIENT_TERMINATED')
    assert sim.ask('get_client_list %d' % server) == str(other.pid)
    assert sim.ask('terminate_client %d 1' % server).endswith('\n1')


def test_a_fault_reaches_all_clients_that_share_a_gpu_even_through_others(sim):
    sim.scenario(gpus=4)
    sim.start()
    a = sim.client(CUDA_VISIBLE_DEVICES=GPU[0]).wait('connected')
    b = sim.client('--stubborn', CUDA_VISIBLE_DEVICES='%s,%s' % (GPU[0], GPU[1])).wait('connected')
    c = sim.client(CUDA_VISIBLE_DEVICES=GPU[1]).wait('connected')
    d = sim.client(CUDA_VISIBLE_DEVICES=GPU[2]).wait('connected')
    server = sim.server()
    os.kill(a.pid, signal.SIGUSR1)
    assert (a.ends(), c.ends()) == (6, 6)
    b.wait('error 719')
    assert sim.ask('get_server_status %d' % server) == 'FAULT'
    late = sim.client()
    assert late.ends() == 3 and late.said('error 807 CUDA_ERROR_MPS_SERVER_NOT_READY')
    b.kill()
    wait(lambda: sim.ask('get_server_status %d' % server) == 'ACTIVE', 'the server recovers')
    assert sim.ask('get_client_list %d' % server) == str(d.pid)
    sim.client().wait('connected')


@pytest.mark.parametrize('outcome, status', [('contained', None), ('fault', 6)])
def test_a_client_that_is_killed_takes_others_along_if_the_scenario_says_so(sim, outcome, status):
    sim.scenario('killed-client: %s' % outcome)
    sim.start()
    victim, other = sim.client().wait('connected'), sim.client().wait('connected')
    server = sim.server()
    victim.kill()
    wait(lambda: str(victim.pid) not in sim.ask('get_client_list %d' % server).split(), 'it is gone')
    if status:
        assert other.ends() == status
    else:
        assert other.leave() == 0


def test_a_server_stays_in_fault_until_the_scenario_changes(sim):
    sim.start()
    client = sim.client().wait('connected')
    server = sim.server()
    sim.scenario('server: fault')
    assert client.ends() == 6
    wait(lambda: sim.ask('get_server_status %d' % server) == 'FAULT', 'fault')
    assert sim.client().ends() == 3
    sim.scenario()
    wait(lambda: sim.ask('get_server_status %d' % server) == 'ACTIVE', 'active')
    sim.client().wait('connected')


def test_a_gpu_that_is_lost_under_a_server_faults_its_clients_alone(sim):
    sim.scenario(gpus=2)
    sim.start()
    victim = sim.client(CUDA_VISIBLE_DEVICES=GPU[0]).wait('connected')
    other = sim.client(CUDA_VISIBLE_DEVICES=GPU[1]).wait('connected')
    server = sim.server()
    sim.edit('name=A100', 'name=A100 lost')
    assert victim.ends() == 6
    assert sim.ask('get_server_status %d' % server) == 'FAULT'
    assert other.leave() == 0
    sim.edit(' lost', '')
    wait(lambda: sim.ask('get_server_status %d' % server) == 'ACTIVE', 'the GPU is back')


def test_quit_waits_for_clients_and_with_a_timeout_does_not(sim):
    sim.start()
    client = sim.client().wait('connected')
    waiting = subprocess.Popen([BIN / 'nvidia-cuda-mps-control'], stdin=subprocess.PIPE, env=sim.environment)
    waiting.stdin.write(b'quit\n')
    waiting.stdin.close()
    sim.wait_log('Cmd:quit')
    late = sim.client()
    assert late.ends() == 3 and late.said('error 805 CUDA_ERROR_MPS_CONNECTION_FAILED')
    assert waiting.poll() is None and sim.daemon.poll() is None
    client.leave()
    assert (waiting.wait(30), sim.daemon.wait(30)) == (0, 0)
    sim.start()
    held = sim.client().wait('connected')
    assert sim.run('quit -t 0')[1] == signal.SIGKILL
    assert held.ends() == 5 and held.said('error 806')


def test_a_server_that_is_killed_leaves_its_clients_without_connection(sim):
    sim.start()
    client = sim.client().wait('connected')
    server = sim.server()
    os.kill(server, signal.SIGKILL)
    assert client.ends() == 5
    sim.wait_log('Server %d exited with status 9' % server)
    assert sim.client().value('server') != str(server)


def test_shutdown_server_waits_for_clients_unless_forced(sim):
    sim.start()
    client = sim.client().wait('connected')
    server = sim.server()
    sim.ask('shutdown_server %d' % server)
    assert sim.ask('get_client_list %d' % server) == str(client.pid)
    sim.ask('shutdown_server %d -f' % server)
    assert client.ends() == 5
    wait(lambda: sim.ask('get_server_list') == '', 'no server')


@pytest.mark.parametrize('orphan', ['stays', 'exits'])
def test_a_daemon_that_is_killed_leaves_the_server_as_the_scenario_says(sim, orphan):
    sim.scenario('orphaned-server: %s' % orphan)
    sim.start()
    client = sim.client().wait('connected')
    server = sim.server()
    sim.daemon.kill()
    sim.daemon.wait()
    if orphan == 'exits':
        assert client.ends() == 5
        return
    client.tell('allocate 100')
    client.wait('allocated 100')
    sim.start()
    assert sim.ask('get_server_list') == '', 'another daemon does not know it'
    assert sim.client().value('server') != str(server)


def test_a_client_without_a_daemon_runs_without_mps(sim):
    client = sim.client().wait('without MPS')
    assert client.leave() == 0


@pytest.mark.parametrize('memory, last', [((), r'connected .* limit=\d+'), (('--memory=100',), 'allocated 100')])
def test_a_brief_client_leaves_when_it_has_what_it_asked_for(sim, memory, last):
    sim.start()
    client = sim.client('--brief', *memory)
    assert client.ends() == 0
    assert re.fullmatch(last, client.output.read_text().splitlines()[-1])
    wait(lambda: 'assuming client exit' in sim.logs(), 'the server knows that it left')


# ---- what a scenario can do to a supervisor ----

def test_a_server_that_cannot_start_is_tried_five_times(sim):
    sim.scenario('server: exits 3')
    sim.start()
    client = sim.client()
    assert client.ends() == 3 and client.said('error 805')
    assert sim.count('exited with status 3') == 5
    assert sim.ask('start_server -uid %d' % os.geteuid()) == '', 'nothing is said'
    sim.wait_log('exited with status 3', 6)
    sim.scenario()
    sim.client().wait('connected')


@pytest.mark.parametrize('visible, lost', [('GPU-99', ''), (GPU[0], ' lost')])
def test_a_gpu_that_is_not_there_or_lost_stops_the_server_from_starting(sim, visible, lost):
    sim.scenario()
    sim.edit('name=A100', 'name=A100' + lost)
    sim.start(CUDA_VISIBLE_DEVICES=visible)
    assert sim.client().ends() == 3
    assert sim.count('no CUDA-capable device is detected') == 5


def test_a_server_that_hangs_at_its_start_is_busy_and_goes_on_when_the_scenario_changes(sim):
    sim.scenario('server: hangs')
    sim.start()
    client = sim.client()
    sim.wait_log('Initializing server process')
    server = int(sim.ask('get_server_list'))
    assert sim.ask('get_server_status %d' % server) == 'INITIALIZING'
    assert sim.ask('get_active_thread_percentage %d' % server) == ''
    assert sim.ask('ps') == 'Server not found'
    sim.wait_log('Server %d is <busy>' % server, 2)
    sim.scenario()
    assert client.value('server') == str(server)


def test_a_server_that_is_not_in_the_path_is_not_found(sim):
    sim.scenario()
    sim.start(PATH='/usr/bin:/bin')
    assert sim.client().ends() == 3
    assert sim.count('exited with status 1') == 5


def test_commands_answer_late_wrongly_or_not_at_all(sim):
    sim.scenario('on get_server_list: delay 300\non ps: answer nonsense 1 2 3\n'
                 'on set_default_active_thread_percentage: ignore\non get_default_client_priority: hang')
    sim.start()
    assert sim.ask('get_server_list') == ''
    assert sim.ask('ps') == 'nonsense 1 2 3'
    assert sim.ask('set_default_active_thread_percentage 40') == ''
    assert sim.ask('get_default_active_thread_percentage') == '100.0'
    with subprocess.Popen([BIN / 'nvidia-cuda-mps-control'], stdin=subprocess.PIPE, env=sim.environment) as hanging:
        hanging.stdin.write(b'get_default_client_priority\n')
        hanging.stdin.flush()
        sim.wait_log('Cmd:get_default_client_priority')
        other = sim.client().wait('connected')
        assert hanging.poll() is None and other.leave() == 0, 'clients are served meanwhile'
        hanging.kill()


def test_a_daemon_can_ignore_quit_talk_nonsense_start_late_or_end_at_once(sim):
    sim.scenario('on quit: ignore')
    sim.start()
    assert sim.run('quit') == ('', 0)
    assert sim.ask('get_default_active_thread_percentage') == '100.0'
    sim.scenario('daemon: garbage')
    wait(lambda: b'\xff\xfe' in sim.control(input=b'ps\n').stdout, 'garbage')
    sim.daemon.kill()
    sim.scenario('daemon: exits 7')
    assert sim.control('-f').returncode == 7
    sim.scenario('daemon: slow 200')
    sim.start()
    assert sim.ask('get_default_active_thread_percentage') == '100.0'


def test_a_file_beside_the_pipe_directory_is_for_that_daemon_alone(sim):
    sim.scenario('on ps: answer common')
    sim.start()
    assert sim.ask('ps') == 'common'
    (sim.folder / 'other.sim').write_text('on lspart: answer other\n')
    (sim.folder / 'pipe.sim').write_text('on lspart: answer own\n')
    wait(lambda: sim.ask('lspart') == 'own', 'its own file')
    assert sim.ask('ps') == 'common'


def test_a_deaf_daemon_is_there_and_never_answers(sim):
    sim.scenario('daemon: deaf')
    sim.start()
    with subprocess.Popen([BIN / 'nvidia-cuda-mps-control'], stdin=subprocess.PIPE, env=sim.environment) as front_end:
        front_end.stdin.write(b'ps\n')
        front_end.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            front_end.wait(0.3)
        front_end.kill()


def test_nonsense_on_the_sockets_affects_no_client(sim):
    sim.start()
    for text in (b'', b'x', b'CMD', b'CLIENT' + b' devices=' + b'9,' * 5000, b'SERVER', b'MODULE', b'END', b'\0\xff' * 999,
                 b'UI'):
        for name in ('control', 'control_privileged'):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.connect(str(sim.pipe / name))
                peer.send(text)
    wait(lambda: sim.control(input=b'get_default_active_thread_percentage\n').stdout == b'100.0\n', 'it answers')
    sim.client().wait('connected')


def test_nothing_outlives_its_lifetime(sim):
    sim.scenario()
    sim.edit('lifetime: 300', 'lifetime: 1')
    sim.start()
    client = sim.client()
    assert sim.daemon.wait(30) == 1
    assert client.ends() in (3, 5)
    wait(lambda: not list(sim.ours()), 'all have gone')


def test_nothing_outlives_the_process_that_it_is_for(sim):
    with subprocess.Popen(['sleep', '60']) as owner:
        sim.scenario('owner: %d' % owner.pid)
        sim.start()
        client = sim.client()
        client.wait('connected')
        assert sim.daemon.poll() is None
        owner.kill()
    assert sim.daemon.wait(30) == 1
    assert client.ends() in (3, 5)
    wait(lambda: not list(sim.ours()), 'all have gone')


def test_an_entry_for_a_gpu_that_a_client_does_not_see_lifts_every_limit_of_memory_as_recorded(sim):
    text = (pathlib.Path(__file__).parents[2] / 'fixtures/recorded/mps/615-v3.txt').read_text()
    entries = re.search(r'for a GPU that the process does not see \("(\S+)" with one GPU\): no limit at all', text).group(1)
    sim.scenario(version=615)
    sim.start('-p', '3')
    sim.do('server', 'create', 'gpu_0', '--allowed-devices=' + GPU[0], '--pinned-memory-limit', '0=8G')
    sim.do('namespace', 'create', 'pod_1', '--server', 'gpu_0', '--active-thread-percentage=25', '--pinned-memory-limit=0=2G')

    def limits(**variables):
        client = sim.client(CUDA_MPS_PIPE_DIRECTORY=str(sim.pipe / 'gpu_0/pod_1'), CUDA_VISIBLE_DEVICES=GPU[0], **variables)
        return client.value('percentage'), client.value('limit')
    assert limits() == ('25.0', '2048')
    assert limits(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=entries) == ('25.0', '0'), 'threads stay limited'
    assert limits(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='1G') == ('25.0', '1024'), 'one limit for every GPU'


# ---- static partitions, r590 ----

def test_with_static_partitions_every_client_names_its_own(sim):
    sim.scenario(version=590)
    sim.start('-S')
    one = sim.ask('sm_partition add %s 7' % GPU[0])
    assert re.fullmatch('Partition %s/\\S+ created' % GPU[0], one)
    one = one.split()[1]
    two = sim.ask('sm_partition add GPU-0000000 20').split()[1]
    assert sim.ask('sm_partition add %s 1' % GPU[0]) == \
        'Failed to fulfill the requested SM partition of 1 chunks, error CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION'
    refused = sim.client()
    assert refused.ends() == 3 and refused.said('error 915 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION')
    assert sim.client(CUDA_MPS_SM_PARTITION='GPU-x/y').ends() == 3
    first = sim.client(CUDA_MPS_SM_PARTITION=one, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='10')
    assert first.value('sms') == '28', 'seven chunks of four; percentages do not count'
    assert sim.client(CUDA_MPS_SM_PARTITION=two).value('sms') == '80'
    short = [partition.split('/', 1)[1] for partition in (one, two)]
    head, units, *rows = [line.split() for line in sim.ask('lspart').splitlines()]
    assert (head, units) == ('GPU Partition free used free used clients'.split(), 'chunks chunks SM SM'.split())
    assert [(row[0], row[1], row[-1]) for row in rows] == \
        [(GPU[0][:12], '-', '-'), (GPU[0][:12], short[0], 'Yes'), (GPU[0][:12], short[1], 'Yes')]
    assert sim.ask('sm_partition rm %s %s' % (GPU[0], one)) == 'Partition %s not found' % one, 'the whole is refused'
    assert sim.ask('sm_partition rm %s %s' % (GPU[0], short[0])) == \
        'Partition %s in use. Terminate all clients before removing.', 'with the %s, as recorded'
    first.leave()
    wait(lambda: sim.ask('sm_partition rm %s %s' % (GPU[0], short[0])) == '', 'it is removed')
    assert sim.ask('sm_partition add %s 7' % GPU[0]) != one


def test_a_gpu_has_as_many_chunks_as_recorded_though_more_sms_count_as_free(sim):
    text = (pathlib.Path(__file__).parents[2] / 'fixtures/recorded/mps/590-595-sm-partitions.txt').read_text()
    sms, chunks, each, free = re.search(r'(\d+) SMs: (\d+) chunks of (\d+), free SM of an empty GPU (\d+)', text).groups()
    a10_chunks, a10_each, a10_sms = re.search(r'A10: (\d+) chunks of (\d+) SMs = (\d+)', text).groups()
    sim.scenario('gpu: GPU-hopper sms=%s cc=9\ngpu: GPU-a10 sms=%s cc=8\ngpu: GPU-less sms=132 chunks=13 cc=9' % (sms, a10_sms),
                 version=590)
    sim.start('-S')
    rows = {line.split()[0]: line.split()[2:6] for line in sim.ask('lspart').splitlines()[2:]}
    assert rows['GPU-hopper'] == [chunks, '0', free, '0']
    assert rows['GPU-a10'] == [a10_chunks, '0', a10_sms, '0']
    assert rows['GPU-less'] == ['13', '0', '132', '0']
    for _ in range(int(chunks)):
        assert sim.ask('sm_partition add GPU-hopper 1').endswith(' created')
    assert 'CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION' in sim.ask('sm_partition add GPU-hopper 1')
    partition = sim.ask('sm_partition add GPU-a10 1').split()[1]
    assert sim.client(CUDA_MPS_SM_PARTITION=partition).value('sms') == a10_each
    assert each == '8' and sim.ask('lspart').splitlines()[4].split()[-2] == each


def test_partitions_need_the_mode_and_the_version(sim):
    sim.scenario(version=590)
    sim.start()
    assert sim.ask('sm_partition add %s 7' % GPU[0]) == 'Static partitioning is not enabled'
    sim.scenario(version=580)
    wait(lambda: sim.ask('sm_partition') == 'Unknown command "sm_partition"', 'the version changed')


# ---- interface 3, r615 ----

def test_what_is_set_while_a_server_starts_counts_when_it_has_started(sim):
    sim.scenario('server: hangs', version=615)
    sim.start('-p', '3')
    sim.do('server', 'create', 'gpu_0', '--uid=%d' % os.geteuid())
    wait(lambda: 'Initializing server process' in sim.logs(), 'it was told what to begin with')
    sim.do('server', 'set', 'gpu_0', '--active-thread-percentage=25', '--pinned-memory-limit=0=2G')
    sim.scenario(version=615)
    client = sim.client(CUDA_MPS_PIPE_DIRECTORY=str(sim.pipe / 'gpu_0'))
    assert (client.value('percentage'), client.value('limit')) == ('25.0', '2048')


def test_servers_and_namespaces_limit_their_clients(sim):
    sim.scenario(version=615)
    sim.start('-p', '3')
    sim.do('server', 'create', 'gpu_0', '--allowed-devices=' + GPU[0], '--pinned-memory-limit', '0=8G')
    sim.do('namespace', 'create', 'pod_1', '--server', 'gpu_0', '--active-thread-percentage=25', '--pinned-memory-limit=0=2G')
    inside = sim.client(CUDA_MPS_PIPE_DIRECTORY=str(sim.pipe / 'gpu_0/pod_1'), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='10')
    assert (inside.value('percentage'), inside.value('limit')) == ('25.0', '2048')
    beside = sim.client(CUDA_MPS_PIPE_DIRECTORY=str(sim.pipe / 'gpu_0'))
    assert (beside.value('percentage'), beside.value('limit')) == ('100.0', '8192')
    assert beside.value('server') == inside.value('server')
    rows = sim.do('server', 'list', '--format=csv,noheader').splitlines()
    assert [row.split(',')[:4] for row in rows] == [['gpu_0', str(os.geteuid()), inside.value('server'), 'Ready']]
    assert sim.do('namespace', 'list', '--format=csv') == \
        'name,server,server-status,pinned-memory-limit,active-thread-percentage,client-priority,pipe-directory\n' \
        'pod_1,gpu_0,Ready,2G,25.00,-,%s\n' % (sim.pipe / 'gpu_0/pod_1')
    assert sim.do('namespace', 'get', 'pod_1', 'gpu_0', 'pinned-memory-limit') == '2G\n'
    assert sim.do('namespace', 'get', 'default', 'gpu_0', 'pinned-memory-limit') == '8192M\n'
    assert sim.do('client', 'get', str(inside.pid), 'server') == 'gpu_0\n'
    assert sim.control('client', 'get', '1', 'server').returncode == 1
    rows = [row.split(',', 4)[:4] for row in sim.do('client', 'list', '--all', '--format=csv,noheader').splitlines()]
    assert sorted(rows) == sorted([[str(inside.pid), 'gpu_0', GPU[0], 'gpu_0/pod_1 (0)'],
                                    [str(beside.pid), 'gpu_0', GPU[0], 'gpu_0/default (0)']]), 'as 615.71.09 says it'
    assert sim.control('namespace', 'delete', 'pod_1', '--server=gpu_0').returncode == 1, 'it has a client'
    sim.do('client', 'terminate', str(inside.pid))
    assert inside.ends() == 4
    assert sim.ask('get_server_list') == 'The running daemon speaks protocol 3'
    sim.do('namespace', 'delete', 'pod_1', '--server=gpu_0')
    assert not (sim.pipe / 'gpu_0/pod_1').exists()
    assert sim.control('server', 'delete', 'gpu_0').returncode == 1, 'it has a client'
    sim.do('server', 'delete', 'gpu_0', '--force')
    assert beside.ends() == 5 and not (sim.pipe / 'gpu_0').exists()


def test_what_clients_of_one_cgroup_have_together_is_limited(sim):
    """The limit as the simulated NVML leaves it; cgroups of clients as the kernel would tell them."""
    system = sim.folder / 'system'
    cgroup = system / 'sys/fs/cgroup/kubepods/pod-1/container'
    cgroup.mkdir(parents=True)
    (cgroup / ('warpshare-sim-limit.' + GPU[0])).write_text('0 %d\n' % (2048 << 20))
    sim.scenario('system-root: %s' % system)
    sim.start()
    first, second, beside = (sim.client().wait('connected') for _ in range(3))
    for client, path in ((first, 'container'), (second, 'container/made-by-the-tenant'), (beside, 'other')):
        (system / 'proc' / str(client.pid)).mkdir(parents=True)
        (system / 'proc' / str(client.pid) / 'cgroup').write_text('0::/kubepods/pod-1/%s\n' % path)
    first.tell('allocate 1500')
    first.wait('allocated 1500')
    second.tell('allocate 549')
    second.wait('allocated 0')
    second.tell('allocate 548')
    second.wait('allocated 548')
    beside.tell('allocate 4000')
    beside.wait('allocated 4000')


@needs_root
def test_users_do_not_wait_for_each_other_with_interface_3(sim):
    sim.scenario(version=615)
    sim.start(CUDA_MPS_PROTOCOL_VERSION='3')
    first, second = sim.client(), sim.client('--uid=%d' % NOBODY)
    assert first.value('server') != second.value('server')
    assert {row.split(',')[0] for row in sim.do('server', 'list', '--format=csv,noheader').splitlines()} == \
        {'uid_0', 'uid_%d' % NOBODY}


def test_commands_of_interface_3_can_be_hit_too(sim):
    sim.scenario('on server list: answer nonsense\non server create: ignore\non device list: delay 200', version=615)
    sim.start('-p', '3')
    assert sim.do('server', 'list') == 'nonsense\n'
    assert sim.do('server', 'create', 's') == '' and not (sim.pipe / 's').exists()
    assert GPU[0] in sim.do('device', 'list')


def test_a_partition_of_interface_3_prints_the_variable(sim):
    sim.scenario(version=615)
    sim.start('-p', '3')
    sim.do('server', 'create', 's')
    told = sim.do('sm-partition', 'create', 'p', '--server=s', '--device=' + GPU[0], '--chunks=2')
    variable, value = told.strip().split('=', 1)
    assert variable == 'CUDA_MPS_SM_PARTITION'
    client = sim.client(CUDA_MPS_PIPE_DIRECTORY=str(sim.pipe / 's'), CUDA_MPS_SM_PARTITION=value)
    assert client.value('sms') == '8'
    assert sim.control('sm-partition', 'delete', 'p').returncode == 1
    client.leave()
    wait(lambda: sim.control('sm-partition', 'delete', 'p').returncode == 0, 'it is deleted')


@pytest.mark.parametrize('words, error', [
    (['server', 'create', 'Bad-Name'], 'Error: Invalid server name: Bad-Name\n'),
    (['namespace', 'create', 'n', '--server', 'x'], 'Error: Server x not found\n'),
    (['server', 'create', 's', '--active-thread-percentage=0'], 'Error: active-thread-percentage must be between 1 and 100\n'),
    (['server', 'explode'], 'Error: Unknown command: server explode\n')])
def test_interface_3_says_what_is_wrong_with_status_1(sim, words, error):
    sim.scenario(version=615)
    sim.start('-p', '3')
    result = sim.control(*words)
    assert (result.returncode, result.stderr.decode()) == (1, error)
    assert sim.do('server', 'list', '--format=csv,noheader') == ''
