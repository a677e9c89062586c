# SPDX-License-Identifier: Apache-2.0
"""`warpshare top` on a terminal: a pseudo-terminal, and pyte as who looks at it."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from node import GPU, WARPSHARE, sharing, v100s
from test_usage import GIB, Machine, only_share, start


class Terminal:
    def __init__(self, arguments, columns=130, lines=30, **environment):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.written = b''
        environment = {**os.environ, 'TERM': 'xterm-256color', 'LC_ALL': 'C.UTF-8', **environment}
        self.master, slave = pty.openpty()
        self._set_size(columns, lines)
        self.process = subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def _set_size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def _read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            some = os.read(self.master, 65536)
        except OSError:
            return False
        self.written += some
        self.stream.feed(some)
        return bool(some)

    def text(self):
        return '\n'.join(self.screen.display)

    def wait(self, is_true, what):
        until = time.monotonic() + 30
        while not is_true(self.text()):
            assert time.monotonic() < until, '%s; the screen is:\n%s' % (what, self.text())
            if not self._read(0.1):
                raise AssertionError('%s; it ended, and the screen is:\n%s' % (what, self.text()))

    def shows(self, text):
        self.wait(lambda screen: text in screen, 'no %r' % text)

    def hides(self, text):
        self.wait(lambda screen: text not in screen, 'still %r' % text)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def colour_of(self, text):
        for y, line in enumerate(self.screen.display):
            if text in line:
                return self.screen.buffer[y][line.index(text)].fg
        raise AssertionError('%r is not on the screen:\n%s' % (text, self.text()))

    def end(self):
        until = time.monotonic() + 30
        while self._read(0.1):
            assert time.monotonic() < until, 'it does not end'
            if self.process.poll() is not None and not select.select([self.master], [], [], 0)[0]:
                break
        return self.process.wait(30)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal():
    made = []

    def make(*arguments, **more):
        made.append(Terminal([WARPSHARE, 'top', *arguments], **more))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def agent(node):
    """Of a node where a pod uses a GPU: the argument that names it."""
    machine = Machine(node)
    kubelet = start(node, sharing('timeSlicing', 4), machine)
    kubelet.admit('train', GPU, 1, namespace='team-a')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['train'].uid, 1))
    with open(os.path.join(machine.root, 'proc/4711/comm'), 'w', encoding='ascii') as file:
        file.write('python3\n')
    gpus = v100s()
    gpus[0]['memoryUsed'] = '31GiB'
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB', 'utilization': 40}]
    node.scenario(gpus)
    node.wait(lambda: only_share(node).get('memoryUsed') == 3 * GIB, 'the memory of the pod is told')
    return '--metrics-address=127.0.0.1:%s' % node.agent.port()


def test_a_screen_follows_the_node_until_somebody_quits(node, agent, terminal):
    screen = terminal(agent, '--interval=1')
    for text in 'team-a/train', 'GPU 3', 'q quit', '3.0 GiB':
        screen.shows(text)
    screen.wait(lambda text: any(block in text for block in '▁▂▃▄▅▆▇█'), 'the last hour is drawn')
    assert screen.colour_of('####') == 'red', 'nearly all memory is in use'
    gpus = v100s()
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '7GiB', 'utilization': 40}]
    node.scenario(gpus)
    screen.shows('7.0 GiB')
    screen.press('q')
    assert screen.end() == 0
    assert screen.written.rstrip().endswith(b'\x1b[?1049l') or b'\x1b[?1049l' in screen.written, 'the terminal is given back'


def test_keys_do_what_help_says(agent, terminal):
    screen = terminal(agent, '--interval=1')
    screen.shows('team-a/train')
    assert 'python3' not in screen.text()
    screen.press('p')
    screen.shows('4711  python3')
    screen.press('h')
    screen.shows('quit')
    screen.hides('team-a/train')
    screen.press('\x1b')
    screen.shows('team-a/train')
    screen.press('/nobody')
    screen.shows('no such pod')
    screen.press('\x1b')
    screen.shows('team-a/train')
    screen.press('u')
    screen.shows('3072 MiB')
    screen.press('e')
    screen.shows('nothing has happened')
    screen.press('e')
    screen.shows('team-a/train')
    screen.press('q')
    assert screen.end() == 0


def test_a_terminal_may_change_its_size(agent, terminal):
    screen = terminal(agent, '--interval=3600')
    screen.shows('MEM BUSY')
    screen.resize(40, 6)
    screen.hides('MEM BUSY')
    screen.hides('GPU 3')
    screen.press('\x1b[6~' * 8)
    screen.shows('GPU 3')
    screen.resize(130, 30)
    screen.shows('GPU 0')
    screen.press('q')
    assert screen.end() == 0


def test_an_agent_that_ends_leaves_what_was_known(node, agent, terminal):
    screen = terminal(agent, '--interval=1', columns=200)
    screen.shows('team-a/train')
    node.agent.stop()
    screen.shows('no agent answers at 127.0.0.1')
    screen.shows('team-a/train')
    screen.process.send_signal(signal.SIGINT)
    screen.end()
    assert b'\x1b[?1049l' in screen.written, 'the terminal is given back'


def test_colours_are_turned_off_by_no_color(agent, terminal):
    screen = terminal(agent, NO_COLOR='1')
    screen.shows('q quit')
    assert screen.colour_of('####') == 'default'
    screen.press('q')
    assert screen.end() == 0


@pytest.mark.parametrize('environment, error', [({'TERM': 'dumb'}, None), ({'TERM': ''}, None), ({'TERM': 'no-such-terminal'}, 'TERM')])
def test_a_terminal_without_a_screen_gets_the_table_or_an_error(agent, terminal, environment, error):
    screen = terminal(agent, **environment)
    if error:
        screen.shows('the type of this terminal is not known: TERM')
        assert screen.end() != 0
    else:
        assert screen.end() == 0
        assert 'team-a/train' in screen.text() and 'q quit' not in screen.text()
        assert b'\x1b[?1049h' not in screen.written


@pytest.mark.parametrize('way', ['timeSlicing', 'mps'])
def test_two_pods_with_one_device_have_a_line_each(node, terminal, way):
    """kubelet gave it twice; the second one is as real as the first."""
    machine = Machine(node)
    kubelet = start(node, sharing(way, 4), machine)
    kubelet.admit('one', GPU, 1, namespace='team')
    kubelet.admit_again('two', 'one')
    machine.put(4711, '/kubepods/burstable/pod%s/%064d' % (kubelet.pods['two'].uid, 1))  # whose that is the agent asks kubelet
    gpus = v100s()
    gpus[0]['processes'] = [{'pid': 4711, 'memory': '3GiB'}]
    node.scenario(gpus)
    node.agent.wait_log('kubelet has given one device to two pods')
    screen = terminal('--metrics-address=127.0.0.1:%s' % node.agent.port(), '--interval=1')
    screen.shows('team/one')
    screen.shows('team/two')
    units = [line for line in screen.text().splitlines() if line.startswith('GPU 0')]
    assert len(units) == 1, screen.text()
    screen.press('q')
    assert screen.end() == 0


def test_once_prints_the_table_on_a_terminal(agent, terminal):
    screen = terminal(agent, '--once', columns=60)
    assert screen.end() == 0
    assert 'team-a/train' in screen.text() and b'\x1b[?1049h' not in screen.written
    assert b'\x1b[31m####' in screen.written, 'with colours'
