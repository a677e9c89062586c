# SPDX-License-Identifier: Apache-2.0
"""The commands as a person meets them: help, wrong words, and the demonstration."""
import contextlib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from node import REPORT, SIMULATOR, WARPSHARE

sys.path.insert(0, os.path.join(os.environ['WARPSHARE_SOURCE'], 'test/docs'))
from pages import Page, pattern  # noqa: E402

ESCAPE = '\x1b['


def run(*arguments, timeout=90, **environment):
    done = subprocess.run([WARPSHARE, *arguments], capture_output=True, text=True, timeout=timeout, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    assert not REPORT.search(done.stderr), done.stderr
    return done


def demo(*arguments, **environment):
    return run('demo', '--nvml-library', SIMULATOR, *arguments, **environment)


def test_the_demonstration_shows_five_screens_and_unequal_shares_first():
    done = demo()
    assert done.returncode == 0, done.stdout + done.stderr
    titles = re.findall(r'^\d+\. (.*)$', done.stdout, re.MULTILINE)
    assert len(titles) == 5 and titles[0].startswith('Unequal shares') and titles[4].startswith('Who was granted'), titles
    first = done.stdout.partition('\n2. ')[0]
    assert re.search(r'^ +█ in use +░ free +· reserved +× unhealthy$', first, re.MULTILINE), first
    assert 'All as it should be.' in done.stdout and 'Not as it should be' not in done.stdout
    assert ESCAPE not in done.stdout
    assert pattern(shown_below('README.md', 'make run')).fullmatch(done.stdout), 'README.md shows another output of make run'
    every = re.findall(r'^\d+\. (.*)$', demo('--all').stdout, re.MULTILINE)
    assert len(every) == 11 and every[:4] == titles[:4] and every[10] == titles[4], every


def test_the_demonstration_shows_what_it_promises():
    done = demo('--all')
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [int(count) for count in re.findall(r'Allocatable:(?:\n\s+nvidia.com/gpu:)?\s+(\d+)', done.stdout)]
    assert counts == [22, 18, 22, 18, 22, 80]
    assert re.search(r'notebook +nvidia\.com/gpu: 1 +GPU-\S+ +5\.0 % +1\.59 GiB', done.stdout)
    assert re.findall(r'nvidia\.com/gpu\d:  10$', done.stdout, re.MULTILINE) == ['nvidia.com/gpu%d:  10' % i for i in range(4)]
    for row in (r'device nodes +/dev/nvidia-uvm /dev/nvidiactl /dev/nvidia0 /dev/nvidia1', r'CUDA_MPS_PIPE_DIRECTORY +/mps/node/pipe',
                r'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT +16142M', r'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE +50'):
        assert re.search(r'^    %s$' % row, done.stdout, re.MULTILINE), (row, done.stdout)
    assert 'its MPS server says: 50.0 % of the threads, and of the first GPU 15.76 GiB' in done.stdout
    assert re.search(r'large +10\.0 % +18\.92 GiB .*LIMIT=0=19371M\n +CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10\n', done.stdout)
    assert re.search(r'other +5\.0 % +1\.58 GiB +nothing\n', done.stdout)
    assert re.findall(r'^  GPU-\w{8}… +ready +\d+ +70.0 % +22.07 GiB +verified$', done.stdout, re.MULTILINE)[3:]
    for pod, replicas, threads, memory in (
            ('training', 7, '70.0', r'22\.07'), ('notebook', 3, '30.0', r'9\.46'), ('inference', 2, '20.0', r'6\.31')):
        assert re.search(r'%s.*nvidia\.com/gpu: %d\b.*GPU-.*%s %%.*%s GiB' % (
            pod, replicas, re.escape(threads), memory), done.stdout), (pod, done.stdout)
    assert re.search(r'allocation +3/10 replicas, 30\.0 % of the threads, 9685 MiB, tier verified\n', done.stdout)
    assert '9384 MiB could be allocated,\n               then it was refused' in done.stdout and 'The allocation holds.\n' in done.stdout
    assert done.stdout.count('  10 unhealthy\n') == 2
    assert 'its control daemon was ended by signal 9 (Killed)' in done.stdout
    assert re.search(r'It has PID \d+ now; 1 of the 4 daemons were touched', done.stdout)
    for pod, memory, threads in (('training', 40, 55), ('notebook', 10, 30), ('inference', 8, 10)):
        assert re.search(r'^  %s +memory %dGi +threadPercentage %d +gpu-0-shared +%d\.0 %% +%d\.00 GiB$' % (
            pod, memory, threads, threads, memory), done.stdout, re.MULTILINE), (pod, done.stdout)
    assert re.findall(r'^  whole +the whole GPU +(.*)$', done.stdout, re.MULTILINE) == ['waits: cannot allocate all claims', 'gpu-0']
    assert done.stdout.count('nvidia.com/mig.config.state: success\n') == 2
    assert re.findall(r'^    nvidia\.com/(mig-1g\.10gb|mig-2g\.20gb|mig-3g\.40gb): +(\d+)$', done.stdout, re.MULTILINE) == [
        ('mig-1g.10gb', '2'), ('mig-2g.20gb', '1'), ('mig-3g.40gb', '1'), ('mig-1g.10gb', '7'), ('mig-2g.20gb', '0'), ('mig-3g.40gb', '0')]
    assert re.search(r'^  now  │1g\.10gb │1g\.10gb │-2g\.20gb +│-3g\.40gb +│\n  then │1g\.10gb │1g\.10gb │(\+1g\.10gb│){5} +│$', done.stdout, re.MULTILINE)
    end = done.stdout[done.stdout.index('$ warpshare top --once'):]
    for pod, replicas, used, memory in (('training', 7, '18.0', '22.1'), ('notebook', 3, '2.5', '9.5'), ('inference', 2, '4.5', '6.3')):
        assert re.search(r'default/%s +%d +%s GiB +%s GiB .* %d0 %%' % (pod, replicas, re.escape(used), re.escape(memory), replicas), end), end
    assert re.search(r'18\.0 of 31\.8 GiB, 7 of 10 granted, 3 reserved, busy 63 %', end), end
    assert 'All as it should be.' in done.stdout
    assert 'Not as it should be' not in done.stdout
    assert ESCAPE not in done.stdout
    command = 'kubectl exec notebook -- warpshare probe'
    probe = ' '.join(done.stdout.partition('$ ' + command)[2].partition('Here the stand-ins')[0].split())  # in lines of a small terminal there
    shown = ' '.join(word for line in shown_below('docs/mps.md', command) for word in line.split())
    assert pattern([shown]).fullmatch(probe + '\n'), 'docs/mps.md shows another output of ' + command


def shown_below(page, text):
    """Lines that the page has below a command."""
    return next(command.output for _, commands in Page(os.path.join(os.environ['WARPSHARE_SOURCE'], page)).commands()
                for command in commands if command.text == text)


def test_each_step_of_the_demonstration_fits_on_a_small_terminal():
    lines = demo('--all').stdout.splitlines()
    assert max(map(len, lines)) <= 80
    begins = [number for number, line in enumerate(lines) if re.match(r'\d+\. ', line)]
    # The first has what stands before it. Behind each stands a line that waits, with an empty one before it.
    assert max(end - begin for begin, end in zip([0, *begins[1:]], [*begins[1:], len(lines)])) + 1 <= 24, begins


def test_the_demonstration_waits_on_a_terminal_for_enter_and_ends_with_q():
    program, terminal = pty.fork()
    if program == 0:
        os.execv(WARPSHARE, [WARPSHARE, 'demo', '--nvml-library', SIMULATOR, '--pause', '3600'])
    text = b''

    def read_until(expected):
        nonlocal text
        end = time.monotonic() + 60
        while expected not in text:
            assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], text.decode()
            text += os.read(terminal, 4096)

    try:
        read_until(b'Enter: next; q: end')
        assert b'\n\x1b[1m1. ' in text and b'2. ' not in text
        text = b''
        os.write(terminal, b'\n')
        read_until(b'Enter: next; q: end')
        assert b'\n\x1b[1m2. ' in text and b'3. ' not in text
        os.write(terminal, b'q\n')
    finally:
        with contextlib.suppress(OSError):
            while text := os.read(terminal, 4096):
                assert b'3. ' not in text and b'as it should be' not in text
        assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == 0
        os.close(terminal)


def test_the_demonstration_has_colours_where_they_are_asked_for():
    done = demo('--color', 'always')
    assert done.returncode == 0
    assert ESCAPE in done.stdout
    assert re.search(r'Allocatable: ' + re.escape(ESCAPE) + r'\d+m22', done.stdout)
    # docs/pictures/demo.svg was made of such an output by `make picture`.
    picture = ElementTree.parse(os.path.join(os.environ['WARPSHARE_SOURCE'], 'docs/pictures/demo.svg'))
    texts = [''.join(one.itertext()) for one in picture.iter('{http://www.w3.org/2000/svg}text')]
    scenes = re.findall(re.escape(ESCAPE) + r'1m(\d+\. .*?)' + re.escape(ESCAPE), done.stdout)
    assert [text for text in texts if re.match(r'\d+\. ', text)] == scenes, 'docs/pictures/demo.svg is stale; run: make picture'


def test_the_demonstration_leaves_nothing_behind():
    done = demo('--log')
    folder = re.search(r'"configFile": "(/tmp/[^"]+)/config.yaml"', done.stdout).group(1)
    assert not os.path.exists(folder)


def test_the_demonstration_stays_up_and_names_commands_that_work():
    with subprocess.Popen([WARPSHARE, 'demo', '--nvml-library', SIMULATOR, '--keep'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as program:
        commands = []
        for line in program.stdout:  # up to the last of what can be tried
            if line.startswith('  %s ' % WARPSHARE):
                commands.append(line.split())
            if 'tool on the simulated GPUs' in line:
                break
        outputs = [run(*words[1:]) for words in commands]
        program.send_signal(signal.SIGINT)
    assert program.returncode == 0
    assert [words[1] for words in commands] == ['top', 'mps']
    assert [output.returncode for output in outputs] == [0, 0], outputs
    assert 'default/training' in outputs[0].stdout and 'pod default/training' in outputs[1].stdout


def processes_of(text):
    """Those in whose command line or environment |text| stands, with the PID of the parent of each."""
    found = {}
    for name in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            words = b''.join(pathlib.Path('/proc', name, file).read_bytes() for file in ('cmdline', 'environ'))
            if text.encode() in words:
                found[int(name)] = int(pathlib.Path('/proc', name, 'stat').read_text('utf-8').rpartition(')')[2].split()[1])
    return found


def wait_until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def close_terminal(_program, _demo, terminal):
    os.close(terminal)


def send(number, *whom):
    def end(program, demonstration, _terminal):
        for each in whom:
            os.kill({'program': program, 'demonstration': demonstration}[each], number)
    return end


@pytest.mark.parametrize('end, status', [
    (send(signal.SIGINT, 'program'), 0),
    (send(signal.SIGTERM, 'program'), 0),
    (send(signal.SIGQUIT, 'program'), 0),
    (send(signal.SIGHUP, 'program'), 0),
    (close_terminal, 0),
    (send(signal.SIGKILL, 'program'), -signal.SIGKILL),
    (send(signal.SIGKILL, 'demonstration'), 128 + signal.SIGKILL),
], ids=['INT', 'TERM', 'QUIT', 'HUP', 'terminal', 'KILL', 'KILL of the child'])
def test_the_demonstration_that_is_ended_leaves_no_process_and_no_folder(end, status):
    program, terminal = pty.fork()
    if program == 0:
        os.execv(WARPSHARE, [WARPSHARE, 'demo', '--nvml-library', SIMULATOR, '--pause', '3600'])
    text = b''
    while b'Enter: next; q: end' not in text:
        assert select.select([terminal], [], [], 60)[0], text.decode()
        text += os.read(terminal, 4096)
    demonstration = int(pathlib.Path('/proc', str(program), 'task', str(program), 'children').read_text('utf-8'))
    agents = [pid for pid, parent in processes_of('--config-file=/tmp/warpshare-').items() if parent == demonstration]
    config = pathlib.Path('/proc', str(agents[0]), 'cmdline').read_text('utf-8').partition('--config-file=')[2].split('\0')[0]
    folder = '/'.join(config.split('/')[:3])
    assert os.path.isdir(folder)
    wait_until(lambda: len(processes_of(folder)) > 4, 'the daemons of MPS run, which have sessions of their own')
    end(program, demonstration, terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == status
    wait_until(lambda: not processes_of(folder), 'no process is left')
    wait_until(lambda: not os.path.exists(folder), 'the folder is gone')
    with contextlib.suppress(OSError):
        os.close(terminal)


def test_the_demonstration_without_a_simulator_says_so():
    done = run('demo', '--nvml-library', '/nonexistent/libnvidia-ml.so.1')
    assert done.returncode == 1
    assert '/nonexistent/libnvidia-ml.so.1' in done.stdout + done.stderr


def test_the_demonstration_that_is_not_there_is_said_to_be(tmp_path):
    """It is a program of its own, which a package of the agent alone leaves out."""
    program = shutil.copy(WARPSHARE, tmp_path)
    done = subprocess.run([program, 'demo', '--nvml-library', SIMULATOR, '--mps-programs', '/nonexistent'], capture_output=True, text=True,
                          timeout=90, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == "warpshare demo: the demonstration is not in ../lib/warpshare, seen from '%s'\n" % tmp_path


def test_help_lists_the_commands():
    done = run('--help')
    assert done.returncode == 0 and not done.stderr
    for command in ('agent', 'demo', 'doctor', 'mig', 'plan', 'nvidia-device-plugin', 'nvidia-mig-parted'):
        assert re.search(r'^  %s +\w' % command, done.stdout, re.MULTILINE)


def test_help_of_the_agent_mentions_every_option_with_its_environment_and_key():
    done = run('agent', '--help')
    assert done.returncode == 0 and not done.stderr
    for words in (('--mig-strategy', 'MIG_STRATEGY', 'flags.migStrategy'),
                  ('--fail-on-init-error', 'FAIL_ON_INIT_ERROR', 'flags.failOnInitError'),
                  ('--mps-root', 'MPS_ROOT', 'flags.mpsRoot'),
                  ('--device-id-strategy', 'DEVICE_ID_STRATEGY', 'flags.plugin.deviceIDStrategy'),
                  ('--device-list-strategy', 'DEVICE_LIST_STRATEGY', 'flags.plugin.deviceListStrategy'),
                  ('--shared-devices-allocation-policy', 'SHARED_DEVICES_ALLOCATION_POLICY'),
                  ('--config-file', 'CONFIG_FILE'), ('--kubelet-socket', 'KUBELET_SOCKET'), ('--nvml-library',),
                  ('--log-level',), ('--log-format',), ('--help',), ('--version',)):
        for word in words:
            assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize('words', [('plan',), ('mps',), ('mps', 'status'), ('uninstall',)])
def test_help_of_a_command_is_what_its_own_flag_prints(words):
    asked = run('help', *words)
    assert asked.returncode == 0 and not asked.stderr
    assert asked.stdout == run(*words, '--help').stdout


def test_help_of_the_demonstration_mentions_every_option():
    done = run('demo', '--help')
    assert done.returncode == 0 and not done.stderr
    for word in ('--keep', '--log', '--color', '--pause', '--nvml-library', '--help'):
        assert word in done.stdout


@pytest.mark.parametrize('arguments, text', [
    ((), 'usage: warpshare COMMAND'),
    (('frobnicate',), "warpshare: 'frobnicate' is not a command; 'warpshare --help' lists them"),
    (('paln',), "warpshare: 'paln' is not a command; did you mean 'plan'?"),
    (('help', 'paln'), "warpshare: 'paln' is not a command; did you mean 'plan'?"),
    (('agent', '--mps-rot', '/x'), "warpshare agent: unknown flag '--mps-rot'; did you mean '--mps-root'?"),
    (('agent', '--frobnicate'), "warpshare agent: unknown flag '--frobnicate'; --help lists all"),
    (('agent', 'now'), "warpshare agent: unexpected argument 'now'; --help lists the flags"),
    (('agent', '--config-file'), 'warpshare agent: --config-file: needs a value'),
    (('agent', '--device-id-strategy=name'),
     "warpshare agent: device-id-strategy: 'name' is not a known value, use uuid or index"),
    (('demo', '--frobnicate'), "warpshare demo: unknown flag '--frobnicate'; --help lists all"),
    (('demo', 'now'), "warpshare demo: unexpected argument 'now'; --help lists the flags"),
    (('demo', '--pause', 'long'), "warpshare demo: pause: 'long' is not a number of seconds from 0 to 3600"),
    (('demo', '--color', 'blue'), "warpshare demo: color: 'blue' is not a known value, use auto, always or never")])
def test_a_wrong_word_has_status_2_and_is_named(arguments, text):
    done = run(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert not done.stdout


def test_a_wrong_environment_variable_is_named():
    done = run('agent', FAIL_ON_INIT_ERROR='perhaps')
    assert done.returncode == 2
    assert "fail-on-init-error (environment variable FAIL_ON_INIT_ERROR): 'perhaps' is not a boolean" in done.stderr


@pytest.mark.parametrize('arguments', [('--version',), ('agent', '--version'), ('plan', '-v'), ('mps', 'status', '--version')])
def test_the_version_is_printed(arguments):
    done = run(*arguments)
    assert done.returncode == 0 and re.fullmatch(r'warpshare \d+\.\d+\.\d+\n', done.stdout)


@pytest.mark.parametrize('command', ['agent', 'nvidia-device-plugin'])
def test_a_valid_file_is_said_to_be_with_its_warnings(command, tmp_path):
    path = tmp_path / 'config.yaml'
    path.write_text('version: v1\nsharring: {}\n')
    done = run(command, '--check', '--config-file', str(path))
    assert done.returncode == 0
    assert done.stdout == "config '%s' is valid\n" % path
    assert re.fullmatch(r"warning: config '%s' line 2: sharring: .*\n" % path, done.stderr)


@pytest.mark.parametrize('command', ['agent', 'nvidia-device-plugin'])
@pytest.mark.parametrize('text, fault', [('version: v2\n', "'v2' is not a known version, use v1"), (None, 'No such file')])
def test_an_invalid_file_is_said_to_be_with_the_fault(command, text, fault, tmp_path):
    path = tmp_path / 'config.yaml'
    if text:
        path.write_text(text)
    done = run(command, '--check', CONFIG_FILE=str(path))
    assert done.returncode == 1 and not done.stdout
    assert fault in done.stderr and done.stderr.count('\n') == 1


def test_options_alone_can_be_checked_too():
    done = run('agent', '--check', MIG_STRATEGY='single')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'the configuration is valid, without a file\n', '')
