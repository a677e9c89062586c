# SPDX-License-Identifier: Apache-2.0
"""A tenant that means harm: a process with what a container has, and no more.

Its user is root of the container without any capability, or user 1000; neither gets a right back by executing anything. It
reaches what is mounted into a container with a share: the pipe directory, the shared memory, its own environment.
"""
import os
import signal
import subprocess
import sys

import pytest

from node import DEADLINE
from rights import may_mount

ROOT, USER = 0, 1000

# What a tenant does is one function in Python, with the names that these lines make.
PROLOGUE = '''
import fcntl, os, signal, socket, struct, subprocess, sys, time

def say(text):
    print(text, flush=True)

def stay():
    while True:
        time.sleep(3600)
'''

needs_root = pytest.mark.skipif(not may_mount(), reason='tenants beside a supervisor take root with CAP_SYS_ADMIN')


def as_tenant(uid):
    return ['setpriv', '--reuid=%d' % uid, '--regid=%d' % uid, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all',
            '--no-new-privs', '--pdeathsig=KILL']


class Tenants:
    def __init__(self):
        self.processes = []

    def start(self, uid, body, *arguments, environment=None, prefix=()):
        """A tenant that does |body|; sys.argv[1:] are |arguments|."""
        process = subprocess.Popen(
            [*prefix, *as_tenant(uid), sys.executable, '-c', PROLOGUE + body, *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}, start_new_session=True)
        self.processes.append(process)
        return process

    def run(self, uid, words, environment=None):
        """A program that a tenant runs to its end; its standard output."""
        return subprocess.run([*as_tenant(uid), *words], env={**os.environ, **(environment or {})}, capture_output=True,
                              text=True, timeout=DEADLINE, check=False).stdout

    def finish(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()


def hears(process, word):
    """Waits until the tenant has said it."""
    while True:
        line = process.stdout.readline()
        assert line, 'the tenant has ended before it said %s' % word
        if line.strip() == word:
            return


@pytest.fixture
def tenants():
    made = Tenants()
    yield made
    made.finish()
