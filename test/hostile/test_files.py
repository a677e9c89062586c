# SPDX-License-Identifier: Apache-2.0
"""What tenants put where a control daemon makes its files, if they may write in its pipe directory: no file of the node is opened for it."""
import os

import pytest

from mps import mps  # noqa: F401 -- a fixture
from node_files import Watch
from served import FIRST, Away, expect_service, mounted, served_by_each, wait_for_another  # noqa: F401 -- fixtures
from tenant import ROOT, hears, needs_root, tenants  # noqa: F401 -- a fixture

pytestmark = needs_root

NAMES = ['control', 'control_lock', 'nvidia-cuda-mps-control.pid', 'log']


@pytest.fixture
def precious(served_by_each):  # noqa: F811
    """A file of the node: nobody opens it, and it stays as it is."""
    path = os.path.join(served_by_each.folder, 'precious')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('of the node')
    os.chmod(path, 0o600)
    watch = Watch(path)
    yield path
    assert watch.seen() == []
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, encoding='utf-8') as file:
        assert file.read() == 'of the node'


@pytest.mark.parametrize('kind', ['link', 'fifo', 'folder'])
def test_files_of_others_where_a_daemon_makes_its_own_are_not_touched(served_by_each, precious, kind):  # noqa: F811
    """While the daemon is away; then it starts all the same."""
    served = served_by_each
    with Away(served):
        os.kill(served.first, 9)
        served.agent.wait_daemon(FIRST, lambda one: 'there is no nvidia-cuda-mps-control' in (one.get('reason') or ''), 'it is away')
        for path in (served.path(FIRST, 'pipe', name) for name in NAMES):
            if os.path.lexists(path):
                os.unlink(path)
            if kind == 'link':
                os.symlink(precious, path)
            elif kind == 'fifo':
                os.mkfifo(path)
            else:
                os.makedirs(os.path.join(path, 'with something in it'))
    wait_for_another(served, served.first)
    expect_service(served)


PLANT = '''
say('plants')
while True:
    try:
        os.symlink(sys.argv[1], sys.argv[2])
    except OSError:
        pass
'''


@pytest.mark.parametrize('name', NAMES)
def test_a_link_that_is_planted_while_a_daemon_starts_is_not_followed(served_by_each, precious, tenants, name):  # noqa: F811
    """Again and again, so that there is one when the daemon comes to it. It may not start then; it does when the tenant has ended."""
    served = served_by_each
    hears(tenants.start(ROOT, PLANT, precious, '/mnt/' + name, prefix=mounted(served, writable=True)), 'plants')
    for starts in (2, 3):
        for pid in served.processes():
            os.kill(pid, 9)
        served.supervisor.wait_log(r'state=starting(?:.*\n)+?.*state=(?:ready|fault)', starts)
    tenants.finish()
    wait_for_another(served, served.first)
    expect_service(served)
