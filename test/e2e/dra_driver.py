# SPDX-License-Identifier: Apache-2.0
"""The DRA service as a process (dra_driver.c), which asks the test what to answer kubelet."""
import os
import queue
import subprocess
import threading

DRIVER = 'gpu.warpshare.dev'
PATIENCE = 60


class Driver:
    """dra_driver.c as a process."""

    def __init__(self, folder, instance='', timeout_ms=30000, retry_ms=60000):
        self.registry = os.path.join(folder, 'plugins_registry')
        self.plugins = os.path.join(folder, 'plugins')
        dash = '-' + instance if instance else ''
        self.first = f'{self.registry}/{DRIVER}{dash}-reg.sock'
        self.second = f'{self.plugins}/{DRIVER}/dra{dash}.sock'
        self.process = subprocess.Popen(
            [os.environ['WARPSHARE_DRA_DRIVER'], self.registry, self.plugins, DRIVER, instance, str(timeout_ms), str(retry_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip('\n'))

    def says(self):
        return self.lines.get(timeout=PATIENCE)

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        return status
