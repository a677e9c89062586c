"""A tenant leaves folders in folders, as many as it may make, and ends: they go as its files do, the large ones included, in one run."""
import os
import subprocess
import sys

import pytest

from mps import mps  # noqa: F401 -- a fixture
from served import FIRST, served  # noqa: F401 -- a fixture
from tenant import ROOT, USER, as_tenant, needs_root

pytestmark = needs_root

DEPTH = int(os.environ.get('WARPSHARE_DEPTH', '5000'))  # a tenant may make 65,000
PATIENCE = 240  # what has changed within a minute stays, and once a minute somebody looks

NEST = '''
import os, sys
os.chdir(sys.argv[1])
for _ in range(int(sys.argv[2])):
    os.mkdir('d')
    os.chdir('d')
os.symlink('/', 'link')
os.posix_fallocate(os.open('large', os.O_CREAT | os.O_RDWR), 0, 64 << 20)
'''


def nest(uid, folder):
    subprocess.run([*as_tenant(uid), sys.executable, '-c', NEST, folder, str(DEPTH)], check=True)


def test_folders_in_folders_go_in_one_run(served):  # noqa: F811
    def threads():
        return len(os.listdir('/proc/%d/task' % served.supervisor.process.pid))

    before = threads()
    nest(USER, served.shm_of(FIRST))
    line = served.supervisor.wait_log(r'files that ended containers left .* files=(\d+)', timeout=PATIENCE)
    assert int(line.group(1)) == DEPTH + 2
    assert os.listdir(served.shm_of(FIRST)) == []
    assert served.agent.wait_ready(FIRST)['pid'] == served.first
    assert threads() <= before + 1, 'one closes large files'


@pytest.mark.parametrize('name', ['pipe', 'log'])
def test_uninstall_removes_folders_in_folders(served, name):  # noqa: F811
    nest(ROOT, served.path(FIRST, name))
    served.supervisor.kill()
    done = served.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert os.listdir(served.root) == []
