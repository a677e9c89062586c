# SPDX-License-Identifier: Apache-2.0
"""Files that somebody else serves, and does not: whoever looks at a tenant's processes must not wait with them."""
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from fixtures import make_node, node  # noqa: F401 -- fixtures
from mps import daemon, mps, wait  # noqa: F401 -- a fixture
from node import GPU, SANITIZED, SIMULATOR, WARPSHARE, sharing, v100s
from served import FIRST, served  # noqa: F401 -- a fixture
from tenant import USER, as_tenant, needs_root

HERE = os.path.dirname(os.path.abspath(__file__))

pytestmark = needs_root


class Withheld:
    """One file, which is served until |withhold| is called."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix='ws-withheld-', dir='/tmp')
        os.chmod(self.folder, 0o755)
        self.file = os.path.join(self.folder, 'file')
        self._server = subprocess.Popen([sys.executable, os.path.join(HERE, 'withheld_fs.py'), self.folder, program],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.is_there = self._server.stdout.readline() == 'mounted\n'

    def withhold(self, what):
        self._server.stdin.write(what + '\n')
        self._server.stdin.flush()
        self.wait('withholds')

    def wait(self, word):
        line = self._server.stdout.readline()
        assert line == word + '\n', line

    def finish(self):
        """Whoever waits goes on with an error."""
        self._server.kill()
        self._server.wait()
        subprocess.run(['umount', '-l', self.folder], check=False, capture_output=True)
        os.rmdir(self.folder)


@pytest.fixture
def withheld():
    made = []

    def make(program):
        made.append(Withheld(program))
        if not made[-1].is_there:
            pytest.skip('no file system can be mounted through /dev/fuse here')
        return made[-1]
    yield make
    for one in made:
        one.finish()


@pytest.mark.skipif(SANITIZED, reason='the sanitizers want to be loaded first')
def test_a_client_whose_memory_map_is_locked_does_not_stop_the_supervisor(served, withheld):  # noqa: F811
    """/proc/<pid>/environ lies in its memory: who reads it waits for the lock."""
    files = withheld('/bin/sh')
    client = served.client(FIRST, prefix=[*as_tenant(USER), 'env', 'LD_PRELOAD=' + os.environ['WARPSHARE_WITHHOLD']],
                           WITHHELD_FILE=files.file)
    served.agent.wait_daemon(FIRST, lambda one: len(one['clients']) == 1, 'it is known as a client')
    files.withhold('content')
    client.send_signal(signal.SIGUSR1)
    files.wait('asked')
    client.send_signal(signal.SIGUSR1)
    # The environments of known clients are read again now and then.
    wait(lambda: 'it lets its reader hang' in served.logs(), 'the supervisor has met it')
    served.connect().ask(do='ping')
    served.client(FIRST, prefix=as_tenant(USER))  # of the same user: MPS serves the clients of one at a time
    served.agent.wait_daemon(FIRST, lambda one: len(one['clients']) == 2, 'who comes now is seen')
    assert served.logs().count('it lets its reader hang') == 1


@pytest.fixture
def stopped(withheld):
    """A tenant's program, on a file system that has stopped since it began."""
    files = withheld('/bin/sleep')
    process = subprocess.Popen([*as_tenant(USER), files.file, '600'])
    wait(lambda: os.path.exists('/proc/%d/exe' % process.pid) and os.readlink('/proc/%d/exe' % process.pid) == files.file, 'it runs')
    files.withhold('attributes')
    yield process
    process.kill()
    process.wait()


def test_a_program_on_a_stopped_file_system_does_not_keep_the_supervisor_from_starting(mps, stopped):  # noqa: F811
    mps.scenario(gpus=1)
    mps.start()
    agent = mps.connect()
    agent.apply(daemon(0))
    agent.watch()
    agent.wait_ready(FIRST)


def test_a_program_on_a_stopped_file_system_does_not_keep_mps_from_being_uninstalled(served, stopped):  # noqa: F811
    served.supervisor.kill()
    done = served.run('mps', 'uninstall')
    assert done.returncode == 0, done


@pytest.fixture
def computing(node, stopped):  # noqa: F811
    """The stopped program computes on a GPU."""
    gpus = v100s(2)
    gpus[0]['processes'] = [{'pid': stopped.pid, 'memory': '1GiB', 'utilization': 40}]
    node.scenario(gpus)
    return node


def test_a_program_on_a_stopped_file_system_does_not_keep_the_agent_from_telling_what_is_used(computing):
    computing.start_all(sharing('timeSlicing', 4), '--metrics-address=127.0.0.1:0', '--usage-interval=1s')
    computing.wait_counts(8)
    used = 'warpshare_unit_other_memory_bytes'
    computing.wait(lambda: any(float(line.split()[-1]) >= 1 << 30 for line in computing.agent.get('/metrics')[1].splitlines()
                               if line.startswith(used)), 'what it uses is told')
    computing.kubelet.admit('pod', GPU, 1)


COMMANDS = (['top', '--once', '--processes'], ['labels'], ['mig', 'export'], ['doctor', '--deadline', '20'])


@pytest.mark.parametrize('words', COMMANDS, ids=lambda words: words[0])
def test_a_program_on_a_stopped_file_system_stops_no_command(computing, words):
    done = subprocess.run([WARPSHARE, *words], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, 'WARPSHARE_NVML_LIBRARY': SIMULATOR, 'WARPSHARE_SIM_SCENARIO': computing.scenario_path})
    assert 'did not end in time' not in done.stdout + done.stderr
    assert words[0] == 'doctor' or done.returncode == 0, done
