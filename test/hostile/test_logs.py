"""What a tenant makes the control daemon write: the node's memory is not his to fill, and nothing he writes becomes a fact."""
import os
import threading

import pytest

from mps import mps  # noqa: F401 -- a fixture
from served import FIRST, served  # noqa: F401 -- a fixture
from tenant import ROOT, USER, hears, needs_root, tenants  # noqa: F401 -- a fixture

MIB = 1 << 20

pytestmark = needs_root

FLOOD = '''
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(sys.argv[1])
door.send(b'UI')
say('floods')
while True:
    door.send(b'CMD ' + b'x' * 30000)
    try:
        while door.recv(65536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        pass
'''


class Scale:
    """Weighs a folder all the time."""

    def __init__(self, folder):
        self.folder = folder
        self.most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._weigh)
        self._thread.start()

    def _weigh(self):
        while not self._done.wait(0.005):
            self.most = max(self.most, sum(os.stat(os.path.join(self.folder, name)).st_size for name in os.listdir(self.folder)))

    def finish(self):
        self._done.set()
        self._thread.join()
        return self.most


@pytest.mark.parametrize('uid', [ROOT, USER])
def test_a_flood_of_commands_does_not_fill_the_node(served, tenants, uid):  # noqa: F811
    scale = Scale(served.path(FIRST, 'log'))
    flood = tenants.start(uid, FLOOD, served.path(FIRST, 'pipe', 'control'))
    hears(flood, 'floods')
    try:
        served.agent.wait_daemon(FIRST, lambda one: 'flooded' in (one.get('notice') or ''), 'told')
    finally:
        most = scale.finish()
    assert most < 128 * MIB
    assert served.agent.wait_ready(FIRST)['pid'] == served.first
