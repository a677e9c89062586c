# SPDX-License-Identifier: Apache-2.0
"""A machine without Kubernetes: `warpshare mps --standalone` shares its GPUs, `warpshare run` starts programs in shares of them."""
import json
import os
import re
import signal
import subprocess

import pytest

from mps import BIN, UUIDS, mps, wait  # noqa: F401 -- a fixture
from node import WARPSHARE
from rights import may_mount

CLIENT = os.path.join(BIN, 'warpshare-mps-sim-client')


@pytest.fixture
def machine(mps):  # noqa: F811
    mps.supervisor = mps._start(['mps', '--standalone', *(['--config-file', mps.config_path] if os.path.exists(mps.config_path) else [])])
    wait(lambda: mps.exists('.ready') and mps.exists('units.json'), 'GPUs are shared')
    return mps


def begin(machine, *arguments, **more):
    """`warpshare run` with a program that stays until its standard input ends; it is a client of MPS when this returns."""
    process = subprocess.Popen([WARPSHARE, 'run', *arguments, '--', CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=machine.environment, **more)
    machine.clients.append(process)
    process.said = ''
    while 'connected' not in process.said:
        line = process.stdout.readline()
        assert line, process.said + machine.logs()
        process.said += line
    return process


def variables(machine, *arguments):
    done = machine.run('run', *arguments, '--', 'env')
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r'^(CUDA_(?:MPS|VISIBLE)\w*|WARPSHARE_[FT]\w*|WARPSHARE_MEM\w*)=(.*)$', done.stdout, re.MULTILINE))


def rows(machine):
    """GPU, threads in all, None; or nothing, threads and program of a share: each line of --show."""
    done = machine.run('run', '--show')
    assert done.returncode == 0, done.stderr
    return [(line[:3].strip(), re.search(r'(\d+\.\d) %', line).group(1), None if line[:3].strip() else os.path.basename(line.split()[-1]))
            for line in done.stdout.splitlines()[1:]]


def end(process):
    process.communicate('leave\n', timeout=60)
    assert process.returncode == 0


# ---- a share ----

def test_a_program_gets_the_variables_of_its_share(machine):
    assert variables(machine, '--share', '0.3') == {
        'CUDA_VISIBLE_DEVICES': UUIDS[0],
        'CUDA_MPS_PIPE_DIRECTORY': machine.path(UUIDS[0], 'pipe'),
        'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '30',
        'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=9685M',
        'WARPSHARE_THREAD_PERCENTAGE': '30.0',
        'WARPSHARE_MEMORY_LIMIT_MIB': '9685',
        'WARPSHARE_FRACTION': '0.297',  # of 32,605 MiB
    }
    found = variables(machine, '--share', '12.5%', '--memory', '2Gi', '--gpu', '1')
    assert (found['CUDA_VISIBLE_DEVICES'], found['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'], found['CUDA_MPS_PINNED_DEVICE_MEM_LIMIT']) == \
        (UUIDS[1], '12.5', '0=2048M')


def test_mps_holds_a_program_to_its_share(machine):
    assert re.search(r'^connected server=\d+ percentage=30\.0 sms=24 limit=9685$', begin(machine, '--share', '0.3').said, re.MULTILINE)


def test_shares_add_up_to_no_more_than_a_gpu_has(machine):
    first, second = begin(machine, '--share', '0.6'), begin(machine, '--share', '0.4')
    third = begin(machine, '--share', '0.5')
    program = os.path.basename(CLIENT)
    found = rows(machine)
    assert (found[0], found[3:]) == (('0', '100.0', None), [('1', '50.0', None), ('', '50.0', program)])
    assert sorted(found[1:3]) == [('', '40.0', program), ('', '60.0', program)]
    done = machine.run('run', '--share', '0.51', '--', 'true')
    assert done.returncode == 1
    assert re.fullmatch(r'warpshare run: no room; GPU 0 has 0\.0 % and \d+ MiB left; GPU 1 has 50\.0 % and \d+ MiB left\n', done.stderr)
    end(first)
    assert variables(machine, '--share', '0.51')['CUDA_VISIBLE_DEVICES'] == UUIDS[0]
    end(second)
    end(third)
    assert rows(machine) == [('0', '0.0', None), ('1', '0.0', None)]


def test_a_program_that_is_killed_leaves_its_share_to_others(machine):
    first = begin(machine, '--share', '1', '--gpu', '0')
    first.kill()
    first.wait()
    assert variables(machine, '--share', '1', '--gpu', '0')['CUDA_VISIBLE_DEVICES'] == UUIDS[0]


def test_a_share_lasts_as_long_as_what_the_program_has_started(machine):
    done = machine.run('run', '--share', '1', '--gpu', '0', '--', 'sh', '-c', 'sleep 600 >/dev/null 2>&1 & echo $!')
    child = int(done.stdout)
    try:
        assert machine.run('run', '--share', '0.1', '--gpu', '0', '--', 'true').returncode == 1
    finally:
        os.kill(child, signal.SIGKILL)
    wait(lambda: machine.run('run', '--share', '1', '--gpu', '0', '--', 'true').returncode == 0, 'the share is free')


def test_who_waits_gets_room_when_there_is_some(machine):
    first = begin(machine, '--share', '1', '--gpu', '0')
    second = subprocess.Popen([WARPSHARE, 'run', '--share', '0.2', '--gpu', '0', '--wait', '300', '--', 'echo', 'here'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=machine.environment)
    assert second.stderr.readline() == 'warpshare run: no room; GPU 0 has 0.0 % and 0 MiB left; waiting\n'
    end(first)
    assert second.communicate(timeout=60) == ('here\n', '')


def test_many_at_once_get_no_more_than_there_is(machine):
    programs = [subprocess.Popen([WARPSHARE, 'run', '--share', '0.1', '--gpu', '0', '--', 'cat'], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=machine.environment) for _ in range(15)]

    def counts():
        ended = sum(program.poll() is not None for program in programs)
        return ended == 5 and rows(machine)[0] == ('0', '100.0', None)

    wait(counts, 'ten have the GPU, and five have nothing')
    for program in programs:
        program.communicate('')
    assert sorted(program.returncode for program in programs) == [0] * 10 + [1] * 5


# ---- who runs it ----

@pytest.mark.skipif(os.geteuid() != 0, reason='needs root, to be somebody else')
def test_every_user_of_the_machine_may_take_a_share(machine):
    done = subprocess.run([WARPSHARE, 'run', '--share', '0.3', '--', WARPSHARE, 'run', '--show'], env=machine.environment, user=65534, group=65534,
                          extra_groups=[], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r' 30\.0 % +\d+ MiB +\d+ +65534 +\S+$', done.stdout, re.MULTILINE), done.stdout


def test_without_a_supervisor_nothing_is_started(machine):
    machine.supervisor.process.terminate()
    machine.supervisor.process.wait(timeout=60)
    done = machine.run('run', '--share', '0.3', '--', 'echo', 'without limits')
    assert (done.returncode, done.stdout) == (1, '')
    assert 'the MPS daemon of GPU 0 is not ready' in done.stderr


def test_an_ended_supervisor_is_named(machine):
    machine.supervisor.process.terminate()
    machine.supervisor.process.wait(timeout=60)
    assert "GPU 0 is not ready (the supervisor has ended: start 'warpshare mps --standalone' as root)" in \
        machine.run('run', '--share', '0.3', '--', 'true').stderr


def test_the_fault_of_a_daemon_is_named(mps):  # noqa: F811
    mps.programs = mps.folder  # without NVIDIA's
    mps.variables['WARPSHARE_MPS_CONTROL'] = 'no-such-control'
    mps._start(['mps', '--standalone'])
    wait(lambda: mps.exists('units.json'), 'GPUs are known')

    def says_fault():
        done = mps.run('run', '--share', '0.3', '--', 'true')
        assert done.returncode == 1
        return 'the MPS daemon of GPU 0 is not ready (fault: MPS control program: there is no no-such-control in the PATH' in done.stderr

    wait(says_fault, 'any user sees what the supervisor knows')


def test_what_can_never_be_does_not_wait(machine):
    first = begin(machine, '--share', '1', '--gpu', '0')
    done = machine.run('run', '--share', '0.3', '--memory', '100Gi', '--wait', '3600', '--', 'true')
    assert (done.returncode, done.stdout) == (1, '')
    assert re.fullmatch(r'warpshare run: no GPU can ever have such a share; GPU 0 has 0\.0 % and 0 MiB left, 32285 MiB in all, and 102400 are '
                        r'asked for; GPU 1 has 100\.0 % and 32285 MiB left, 32285 MiB in all, and 102400 are asked for\n', done.stderr), done.stderr
    end(first)


def test_a_folder_without_a_supervisor_is_named(mps):  # noqa: F811
    done = mps.run('run', '--share', '0.3', '--', 'true')
    assert done.returncode == 1
    assert done.stderr == "warpshare run: no GPU is shared by '%s': start 'warpshare mps --standalone' as root, or name its folder by " \
        '--mps-directory\n' % mps.root


def test_a_configuration_says_what_is_shared(mps):  # noqa: F811
    mps.config({'version': 'v1', 'sharing': {'mps': {'provisioning': 'weighted', 'daemonScope': 'gpu', 'maxPerRequest': 2, 'resources': [
        {'name': 'nvidia.com/gpu', 'replicas': 4, 'devices': [1]}]}}})
    mps._start(['mps', '--standalone', '--config-file', mps.config_path])
    wait(lambda: mps.exists('.ready') and mps.exists('units.json'), 'a GPU is shared')
    assert [row[0] for row in rows(mps)] == ['1']
    assert variables(mps, '--share', '0.5')['CUDA_VISIBLE_DEVICES'] == UUIDS[1]
    assert 'GPU 1 has 100.0 % and' in mps.run('run', '--share', '0.6', '--', 'true').stderr
    assert 'one program at most 50.0 %' in mps.run('run', '--share', '0.6', '--', 'true').stderr


@pytest.mark.parametrize('arguments, status, text', [
    ((), 2, 'how much of a GPU? --share 0.3 for 30 % of threads and memory, or --threads and --memory'),
    (('--share', '0.3'), 2, "which program? 'warpshare run --share 0.3 -- PROGRAM'"),
    (('--share', '1.1', '--', 'true'), 2, "share: '1.1' is no part of a GPU, which is above 0 and at most 1: 0.3, or 30%"),
    (('--share', '0', '--', 'true'), 2, "share: '0' is no part of a GPU, which is above 0 and at most 1: 0.3, or 30%"),
    (('--share', 'nan', '--', 'true'), 2, "share: 'nan' is no part of a GPU, which is above 0 and at most 1: 0.3, or 30%"),
    (('--threads', '101', '--', 'true'), 2, "threads: '101' is no percentage above 0 and at most 100, as 30 or 33.3"),
    (('--share', '1', '--memory', '10X', '--', 'true'), 2, "memory: '10X' is no quantity of at least 256Mi, which a CUDA program needs for itself, as 10Gi or 512Mi"),
    (('--share', '1', '--memory', '255Mi', '--', 'true'), 2,
     "memory: '255Mi' is no quantity of at least 256Mi, which a CUDA program needs for itself, as 10Gi or 512Mi"),
    (('--share', '0.001', '--gpu', '1', '--', 'true'), 1, 'no GPU can ever have such a share; GPU 1 has 100.0 % and 32285 MiB left, and the '
     'share would have 32 MiB, but a CUDA program needs 256: --memory 256Mi gives it these'),
    (('--share', '1', '--wait', 'long', '--', 'true'), 2, "wait: 'long' is not a number of seconds from 0 to 604800"),
    (('--share', '1', 'true'), 2, "unexpected argument 'true'; --help lists the flags"),
    (('--share', '1', '--gpu', '7', '--', 'true'), 1, "GPU '7' is not shared here; 'warpshare run --show' lists those that are"),
    (('--share', '1', '--', '/nonexistent'), 127, "start '/nonexistent': No such file or directory"),
    (('--share', '1', '--', '/'), 126, "start '/': Permission denied"),
])
def test_what_cannot_be_is_said(machine, arguments, status, text):
    done = machine.run('run', *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (status, '', 'warpshare run: %s\n' % text)


# ---- a machine as it is installed ----

ON_A_MACHINE = """
mount -t tmpfs none /run && unset WARPSHARE_MPS_DIRECTORY
"$1" mps uninstall
"$1" mps --standalone 2>/run/log &
for turn in $(seq 600); do [ -e /run/nvidia/mps/.ready ] && [ -e /run/nvidia/mps/units.json ] && break; sleep 0.1; done
"$1" mps status && "$1" mps ping && "$1" mps uninstall
"$1" doctor --output=json >/run/doctor
"$1" uninstall --dry-run
"$1" run --share 0.3 -- sh -c 'sleep 600 >/dev/null & echo $! >/run/sleeper'
kill $! && wait $!
"$1" run --share 0.5 -- true
echo STOPPED
[ "$2" = whole ] || "$1" mps uninstall
[ "$2" = mps ] || "$1" uninstall | grep /run/nvidia
kill "$(cat /run/sleeper)"
find /run
echo
cat /run/doctor
"""


@pytest.mark.skipif(not may_mount(), reason='needs a /run of its own')
@pytest.mark.parametrize('which', ['mps', 'whole'])
def test_without_options_all_commands_find_the_root_and_nothing_is_left(mps, which):  # noqa: F811
    done = subprocess.run(['unshare', '--mount', '--propagation', 'private', 'sh', '-c', ON_A_MACHINE, 'sh', WARPSHARE, which],
                          env=mps.environment, capture_output=True, text=True, timeout=120, check=False)
    running, stopped = done.stdout.split('STOPPED\n')
    assert running.startswith("neither '/mps' nor '/run/nvidia/mps' is there: nothing to do\n"), done
    assert len(re.findall(r'^GPU-\S+ +GPU-\S+ +ready ', running, re.MULTILINE)) == 2, done
    assert "an MPS supervisor runs with '/run/nvidia/mps': end it first" in done.stderr
    assert re.search(r'^MPS +left +/run/nvidia/mps ', running, re.MULTILINE), done
    listed, _, findings = stopped.partition('\n\n')
    assert sorted(re.findall(r'^/run.*', listed, re.MULTILINE)) == ['/run', '/run/doctor', '/run/log', '/run/nvidia', '/run/sleeper'], done
    found = {finding['check']: finding for finding in json.loads(findings)['findings']}
    assert found['mps-root']['found'] == "'/run/nvidia/mps'"
    assert {found[check]['verdict'] for check in ('mps-root', 'mps-parents', 'shm', 'mps-daemons')} == {'ok'}
