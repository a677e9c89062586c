# SPDX-License-Identifier: Apache-2.0
"""`warpshare dashboard` as a process, and questions to it.

    with Dashboard(api, '--authorization', 'proxy') as dashboard:
        assert dashboard.ask('/api/v1/overview').json()['nodes'] == []
"""
import dataclasses
import http.client
import json
import os
import re
import subprocess
import threading
import time

from apiserver import PATIENCE


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict  # by name in lower case
    body: bytes

    def json(self):
        return json.loads(self.body)


class Dashboard:
    """|api| None: it finds the kubeconfig itself, by |variables|."""

    def __init__(self, api, *options, interval=1, program=None, variables=None):
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        environment.update(variables or {})
        self.log = []
        self.process = subprocess.Popen(
            [program or os.environ['WARPSHARE'], 'dashboard', '--address', '127.0.0.1:0', *(['--kubeconfig', str(api.kubeconfig())] if api else []),
             '--interval', str(interval), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.port = int(self.wait_log(r'dashboard address=\S+ port=(\d+)')[1])
        self.url = f'http://127.0.0.1:{self.port}/'
        self.prefix = ''
        if self.wait_log(r'authorization=(\w+)')[1] == 'own':
            for line in self.process.stdout:
                found = re.search(r'http://127\.0\.0\.1:\d+(/[0-9a-f]{32})/$', line)
                if found:
                    self.url, self.prefix = found[0].strip(), found[1]
                    break

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.log.append(line)
                self.changed.notify_all()

    def wait_log(self, pattern):
        deadline = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                found = re.search(pattern, ''.join(self.log))
                if found:
                    return found
                assert time.monotonic() < deadline and self.process.poll() is None, ''.join(self.log)
                self.changed.wait(0.2)

    def ask(self, path, token=None, method='GET', **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=PATIENCE)
        try:
            if token:
                headers['Authorization'] = f'Bearer {token}'
            connection.request(method, path, headers={key.replace('_', '-'): value for key, value in headers.items()})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def until(self, path, condition, token=None):
        """The first answer of which the condition is true, as JSON."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.ask(self.prefix + path, token)
            if answer.status == 200 and condition(answer.json()):
                return answer.json()
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)

    def until_complete(self, token=None):
        return self.until('/api/v1/overview', lambda answer: answer['isComplete'], token)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        assert status == 0, ''.join(self.log)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()
