# SPDX-License-Identifier: Apache-2.0
"""A real cluster, by kubectl: what a person would type, and its API for what is asked often.

    with Kube(kubeconfig, folder) as kube:
        kube.kubectl('apply', '-f', '-', text=manifest)
        node = kube.get('/api/v1/nodes/n1')

The API is asked through `kubectl proxy` on a socket in |folder|, so that kubectl deals with whatever credentials the file has.
"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time


class Failed(Exception):
    """kubectl, or the API server, said no: the text is theirs."""

    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Kube:
    def __init__(self, kubeconfig, folder, timeout=180):
        self.kubeconfig = os.path.abspath(kubeconfig)
        self.folder = str(folder)
        self.timeout = timeout  # seconds that a wait may take
        self.socket = os.path.join(self.folder, 'api.sock')
        self.local = threading.local()  # a connection for each thread
        if not shutil.which('kubectl'):
            raise Failed('kubectl is not on the PATH')
        self.environment = {**os.environ, 'KUBECONFIG': self.kubeconfig, 'PATH': f'{self.folder}:{os.environ["PATH"]}'}
        self.proxy = subprocess.Popen(['kubectl', 'proxy', f'--unix-socket={self.socket}'], env=self.environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.proxy.stdout.readline()
        if not said.startswith('Starting'):
            self.close()
            raise Failed(f'kubectl proxy: {said}')

    def close(self):
        self.proxy.terminate()
        self.proxy.wait()
        self.proxy.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    # ---- kubectl ----

    def run(self, *words, text=None):
        """The command as it ended."""
        return subprocess.run(['kubectl', *words], input=text if text is not None else '', env=self.environment, text=True,
                              capture_output=True, check=False, timeout=self.timeout + 60)

    def kubectl(self, *words, text=None):
        """What it prints."""
        done = self.run(*words, text=text)
        if done.returncode:
            raise Failed(f'kubectl {" ".join(words)}: {done.stderr.strip() or done.stdout.strip()}')
        return done.stdout

    def child(self, *words):
        """A command that goes on: the caller ends it."""
        return subprocess.Popen(['kubectl', *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    # ---- the API ----

    def request(self, method, path, body=None, kind='application/json'):
        for is_last in (False, True):
            connection = getattr(self.local, 'connection', None) or Connection(self.socket)
            self.local.connection = connection
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': kind})
                answer = connection.getresponse()
                said = answer.read()
                break
            except (http.client.HTTPException, OSError):  # a connection that was closed meanwhile
                connection.close()
                self.local.connection = None
                if is_last:
                    raise
        if answer.status >= 300:
            try:
                message = json.loads(said)['message']
            except (ValueError, KeyError, TypeError):
                message = said.decode(errors='replace')
            raise Failed(f'{method} {path}: {answer.status}: {message}', answer.status)
        return json.loads(said)

    def get(self, path):
        return self.request('GET', path)

    def find(self, path):
        """None if there is no such object."""
        try:
            return self.get(path)
        except Failed as failed:
            if failed.status == 404:
                return None
            raise

    def items(self, path):
        """Of a list; none where the cluster does not know the kind."""
        return (self.find(path) or {}).get('items') or []

    # ---- waiting ----

    def wait(self, what, question, seconds=None):
        """The first answer of |question| that is true. It may return text instead of a value as the last thing that was seen: (False, text)."""
        deadline = time.monotonic() + (seconds or self.timeout)
        while True:
            answer = question()
            seen = ''
            if isinstance(answer, tuple):
                answer, seen = answer
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(f'{what}: not after {seconds or self.timeout} s{"; seen: " if seen else ""}{seen}')
            time.sleep(0.3)
