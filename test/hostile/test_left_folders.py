# SPDX-License-Identifier: Apache-2.0
"""What tenants leave in their folders goes, folders in folders and large files included, in one run; and nothing else does, whatever they put
there, links for example, and whatever they do meanwhile."""
import os
import subprocess
import sys

import pytest

from mps import mps, wait  # noqa: F401 -- a fixture
from node import WARPSHARE
from served import FIRST, served  # noqa: F401 -- a fixture
from tenant import ROOT, USER, as_tenant, hears, needs_root, tenants  # noqa: F401 -- a fixture

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
    nest(USER, served.shm_of(FIRST))
    line = served.supervisor.wait_log(r'files that ended containers left .* files=(\d+)', timeout=PATIENCE)
    assert int(line.group(1)) == DEPTH + 2
    assert os.listdir(served.shm_of(FIRST)) == []
    assert served.agent.wait_ready(FIRST)['pid'] == served.first


@pytest.mark.parametrize('name', ['pipe', 'log'])
def test_uninstall_removes_folders_in_folders(served, name):  # noqa: F811
    nest(ROOT, served.path(FIRST, name))
    served.supervisor.kill()
    done = served.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert os.listdir(served.root) == []


# ---- uninstall ----

@pytest.fixture
def of_the_node(served):  # noqa: F811
    """A folder of the node with a folder and a file in it, which stay as they are."""
    folder = os.path.join(served.folder, 'node')
    os.makedirs(os.path.join(folder, 'below'))
    os.chmod(folder, 0o777)  # nothing but the program's care protects it
    with open(os.path.join(folder, 'below', 'file'), 'w', encoding='utf-8') as file:
        file.write('of the node')
    yield folder
    assert os.listdir(folder) == ['below'] and os.listdir(os.path.join(folder, 'below')) == ['file']


def places(served):  # noqa: F811
    return [served.path(FIRST, name) for name in ('pipe', 'log', 'shm')]


def expect_that_all_goes(served):  # noqa: F811
    served.supervisor.kill()
    done = served.run('mps', 'uninstall')
    assert done.returncode == 0, done
    assert os.listdir(served.root) == []


def test_uninstall_follows_no_link_that_a_tenant_has_left(served, of_the_node):  # noqa: F811
    for place in places(served):
        os.symlink(of_the_node, os.path.join(place, 'link'))
        os.symlink(os.path.join(of_the_node, 'below', 'file'), os.path.join(place, 'link to a file'))
    expect_that_all_goes(served)


SWAP = '''
folder, target = sys.argv[1] + '/swapped', sys.argv[2]
os.symlink(target, folder + ' link')
os.makedirs(folder + '/below')
for i in range(2000):
    os.makedirs(sys.argv[1] + '/%d/below' % i)
libc = __import__('ctypes').CDLL(None)
def swap():
    libc.renameat2(-100, folder.encode(), -100, (folder + ' link').encode(), 2)
swap()
say('swaps')
while os.path.lexists(folder) or os.path.lexists(folder + ' link'):
    swap()
'''


def test_uninstall_comes_to_no_folder_that_is_swapped_for_a_link_meanwhile(served, of_the_node, tenants):  # noqa: F811
    for place in (served.path(FIRST, name) for name in ('pipe', 'log')):
        hears(tenants.start(ROOT, SWAP, place, of_the_node), 'swaps')
    expect_that_all_goes(served)


FILL = '''
import os, sys
for i in range(30000):
    open(sys.argv[1] + '/%d' % i, 'w').close()
'''


def test_uninstall_goes_on_where_another_one_was_ended_and_a_tenant_decides_nothing_of_it(served, of_the_node):  # noqa: F811
    """A daemon's folder is known as long as a tenant's files are in it, and what a tenant makes like one is never taken for one."""
    pipe = served.path(FIRST, 'pipe')
    os.unlink(os.path.join(pipe, 'log'))
    for name in ('pipe', 'log'):
        os.mkdir(os.path.join(pipe, name))
    os.symlink('/dev/shm', os.path.join(pipe, 'shm'))
    os.symlink(of_the_node, os.path.join(pipe, 'log', 'link'))
    subprocess.run([*as_tenant(ROOT), sys.executable, '-c', FILL, pipe], check=True)
    served.supervisor.kill()
    first = subprocess.Popen([WARPSHARE, 'mps', 'uninstall'], env=served.environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    wait(lambda: len(os.listdir(pipe)) < 29000, 'it has begun')
    first.kill()
    first.wait()
    assert os.listdir(pipe), 'it was ended too late'
    assert os.path.isdir(served.path(FIRST, 'log'))
    expect_that_all_goes(served)


def test_uninstall_leaves_what_is_mounted_from_the_same_file_system(served, of_the_node):  # noqa: F811
    """Mounted by the node itself, in a folder of a tenant; it is told, and goes with the next run, when it is unmounted."""
    point = os.path.join(served.path(FIRST, 'pipe'), 'd', 'd')
    os.makedirs(point)
    served.supervisor.kill()
    subprocess.run(['mount', '--bind', of_the_node, point], check=True)
    try:
        done = served.run('mps', 'uninstall')
    finally:
        subprocess.run(['umount', point], check=True)
    assert done.returncode == 1 and 'something is mounted in' in done.stdout, done
    assert os.path.isdir(point)
    expect_that_all_goes(served)
