# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

from stand_in import Cluster  # noqa: E402
from fixtures import pytest_sessionfinish  # noqa: E402,F401 -- a hook
from pretend import Pretend  # noqa: E402

SOURCE = os.environ['WARPSHARE_SOURCE']


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix='ws-kubectl-', dir='/tmp')  # short: a socket's path has 107 bytes
    yield made
    shutil.rmtree(made)


@pytest.fixture
def cluster(folder):
    made = Cluster(folder, Pretend())
    made.add_node('gpu-node-1', {'nvidia.com/gpu.present': 'true'})
    yield made
    made.close()


@pytest.fixture
def run(cluster):
    """Runs a script of the repository: its status, standard output, standard error."""

    def run_script(name, *arguments, **variables):
        done = subprocess.run([os.path.join(SOURCE, name), *arguments], env={**cluster.environment, **variables}, text=True,
                              capture_output=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
        assert 'stand-in:' not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return run_script


@pytest.fixture
def setup(run):
    return lambda *arguments, **variables: run('scripts/setup.sh', *arguments, **variables)
