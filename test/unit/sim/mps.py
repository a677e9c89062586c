# SPDX-License-Identifier: Apache-2.0
"""The simulated MPS programs in a folder of their own: what a test starts, asks and ends."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ['MPS_SIM_BIN'])
GPU = ['GPU-%08x-0000-4000-8000-000000000000' % n for n in range(1, 5)]
PATIENCE = 30.0


class Client:
    """A CUDA program as far as MPS sees one."""

    def __init__(self, sim, arguments, variables):
        environment = {**sim.environment, **variables}
        self.output = sim.folder / ('client-%d' % len(sim.clients))
        with open(self.output, 'w', encoding='utf-8') as output:
            self.process = subprocess.Popen([BIN / 'warpshare-mps-sim-client', *arguments], env=environment,
                                            stdin=subprocess.PIPE, stdout=output, stderr=output, text=True)
        self.pid = self.process.pid

    def said(self, text):
        return text in self.output.read_text()

    def wait(self, text):
        wait(lambda: self.said(text) or self.process.poll() is not None, text)
        assert self.said(text), self.output.read_text()
        return self

    def value(self, key):
        """Of the line "connected server=… percentage=… sms=… limit=…"."""
        self.wait('connected')
        line = next(line for line in self.output.read_text().splitlines() if line.startswith('connected'))
        return dict(word.split('=') for word in line.split()[1:])[key]

    def tell(self, order):
        self.process.stdin.write(order + '\n')
        self.process.stdin.flush()

    def leave(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ends()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ends(self):
        return self.process.wait(PATIENCE)


def wait(is_true, what):
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end, 'waited in vain: %s' % what
        time.sleep(0.01)


class Sim:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='warpshare-mps-'))
        self.folder.chmod(0o755)
        self.pipe = self.folder / 'pipe'
        self.log = self.folder / 'log'
        self.processes = self.folder / 'processes'
        self.processes.mkdir()
        self.processes.chmod(0o777)
        self.clients = []
        self.daemon = None
        self.environment = {'PATH': '%s:/usr/bin:/bin' % BIN, 'CUDA_MPS_PIPE_DIRECTORY': str(self.pipe),
                            'CUDA_MPS_LOG_DIRECTORY': str(self.log), 'WARPSHARE_MPS_SIM': str(self.folder / 'scenario')}
        for name in ('ASAN_OPTIONS', 'UBSAN_OPTIONS'):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def scenario(self, text='', version=550, gpus=1, sms=108):
        lines = ['version: %d' % version, 'lifetime: 300', 'process-directory: %s' % self.processes]
        lines += ['gpu: %s sms=%d memory=40960 cc=8 name=A100' % (uuid, sms) for uuid in GPU[:gpus]]
        owner = '' if 'owner:' in text else 'owner: %d\n' % os.getpid()  # last: tests count lines
        self.replace('\n'.join(lines) + '\n' + text + '\n' + owner)

    def edit(self, old, new):
        self.replace((self.folder / 'scenario').read_text().replace(old, new, 1))

    def replace(self, text):
        """By renaming, so that nobody reads half of it."""
        new = self.folder / 'scenario.new'
        new.write_text(text)
        new.chmod(0o644)  # the programs are also another user's
        new.rename(self.folder / 'scenario')

    def control(self, *arguments, **options):
        return subprocess.run([BIN / 'nvidia-cuda-mps-control', *arguments], env={**self.environment, **options.pop('env', {})},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
                              stdin=subprocess.DEVNULL if 'input' not in options else None, **options)

    def start(self, *options, **variables):
        """In the foreground; returns when it answers."""
        if not (self.folder / 'scenario').exists():
            self.scenario()
        (self.folder / 'daemon.log').touch()
        before = self.count('Starting control daemon using socket')
        with open(self.folder / 'daemon.log', 'a', encoding='utf-8') as log:
            self.daemon = subprocess.Popen([BIN / 'nvidia-cuda-mps-control', '-f', *options], stdin=subprocess.DEVNULL,
                                           env={**self.environment, **variables}, stdout=log, stderr=log)
        self.wait_log('Starting control daemon using socket', before + 1)
        return self

    def run(self, command, **options):
        """One command: the answer, as printed, and the status."""
        result = self.control(input=command.encode() + b'\n', **options)
        assert result.stderr == b'', result.stderr
        return result.stdout.decode(), result.returncode

    def ask(self, command, **options):
        answer, status = self.run(command, **options)
        assert status == 0
        return answer.rstrip('\n')

    def do(self, *words):
        """A command of interface 3: what it prints, its status must be 0."""
        result = self.control(*words)
        assert result.returncode == 0, result.stderr
        return result.stdout.decode()

    def server(self):
        """The PID of the one server, once it is ready."""
        wait(lambda: self.count('NEW SERVER') and self.ask('get_server_list'), 'a server')
        return int(self.ask('get_server_list'))

    def client(self, *arguments, **variables):
        made = Client(self, arguments, variables)
        self.clients.append(made)
        return made

    def logs(self):
        return (self.folder / 'daemon.log').read_text()

    def count(self, text):
        return self.logs().count(text)

    def wait_log(self, text, count=1):
        wait(lambda: self.count(text) >= count or self.daemon.poll() is not None, text)
        assert self.count(text) >= count, self.logs()

    def memory_of(self, pid):
        """In MiB, as NVML is told; None: not shown."""
        for path in self.processes.glob('*.%d' % pid):
            return int(path.read_text().split()[2]) >> 20
        return None

    def ours(self):
        """PIDs of all processes that were started for this folder, however they were orphaned."""
        mark = b'CUDA_MPS_PIPE_DIRECTORY=%s\0' % bytes(self.pipe)
        for entry in pathlib.Path('/proc').iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / 'environ').read_bytes() + b'\0':
                    yield int(entry.name)
            except OSError:
                pass

    def finish(self):
        """Ends what is left; what a sanitizer said."""
        said = [line for path in self.folder.glob('**/*') if path.is_file() and path.name != 'scenario'
                for line in path.read_text(errors='replace').splitlines() if 'Sanitizer' in line or 'runtime error' in line]
        for pid in self.ours():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in [client.process for client in self.clients] + ([self.daemon] if self.daemon else []):
            process.kill()  # one of another user is not among ours() where root may not trace
            process.wait(PATIENCE)
            if process.stdin:
                process.stdin.close()
        shutil.rmtree(self.folder)
        return said
