# SPDX-License-Identifier: Apache-2.0
"""The image's root as a container runtime sets it up, without one: a process and mount namespace for each pod, a mount namespace and a
root of its own for each container. Needs root; who is not root is told so and skips.

A pod's processes end with it, whatever becomes of the test.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.environ['WARPSHARE_SOURCE'], 'test', 'e2e'))

from node import DEADLINE, Process  # noqa: E402

SOURCE = os.environ['WARPSHARE_SOURCE']
ROOTFS = os.environ['WARPSHARE_ROOTFS']

# In a namespace of its own: the container's root is a read-only look at the image, with its own /tmp, /dev and what is mounted.
ENTER = r'''
set -e
root=$1 image=$2
shift 2
mount -t tmpfs -o size=64m tmpfs "$root"
mkdir "$root/lower" "$root/upper" "$root/work" "$root/root"
if mount -t overlay overlay -o "lowerdir=$image,upperdir=$root/upper,workdir=$root/work" "$root/root" 2>/dev/null; then :; else
        cp -a "$image/." "$root/root/"
fi
root=$root/root
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for name in null zero random urandom; do : >"$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/shm"
while [ "$1" != -- ]; do
        from=${1%%=*} to=$root${1#*=}
        if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}"; : >>"$to"; fi
        mount --rbind "$from" "$to"
        shift
done
shift
exec chroot "$root" "$@" >&2
'''


def can_make_containers():
    return os.geteuid() == 0 and subprocess.run(
        ['unshare', '--mount', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'],
        stderr=subprocess.DEVNULL, check=False).returncode == 0


needs_containers = pytest.mark.skipif(
    not can_make_containers(), reason='namespaces and mounts need root, and a machine that allows them')

ENVIRONMENT = {  # what the image's configuration says; test_image.py compares
    'PATH': '/usr/local/nvidia/bin:/usr/bin:/usr/sbin', 'NVIDIA_VISIBLE_DEVICES': 'all',
    'NVIDIA_DRIVER_CAPABILITIES': 'compute,utility', 'NVIDIA_DISABLE_REQUIRE': 'true'}


class Container(Process):
    """A container's process; its log is all that it writes."""

    def __init__(self, pod, arguments, environment=None, mounts=None):
        root = tempfile.mkdtemp(dir=pod.path('roots'))
        variables = {**ENVIRONMENT, **(environment or {})}
        super().__init__(
            [*pod.inside, 'unshare', '--mount', '--propagation', 'unchanged', '/bin/sh', '-c', ENTER, 'sh', root, ROOTFS,
             *('%s=%s' % (source, target) for target, source in (mounts or {}).items()),
             '--', '/usr/bin/env', '-i', *('%s=%s' % pair for pair in variables.items()), *arguments], dict(os.environ))

    def target(self):
        """The container's first process, the one that nsenter waits for, as it is called outside."""
        with open('/proc/%d/task/%d/children' % (self.process.pid, self.process.pid), encoding='ascii') as children:
            return next(map(int, children.read().split()), None)


class Pod:
    """Containers that see each other's processes, as with shareProcessNamespace; without it each has a pod of its own here.

    |host| is a folder of the node: what is mounted below it by one container is seen by the others that have it mounted.
    """

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='ws-image-', dir='/tmp')
        self.host = self.path('host')
        os.mkdir(self.host)
        os.mkdir(self.path('roots'))
        self._pause = subprocess.Popen(
            ['unshare', '--mount', '--pid', '--ipc', '--fork', '--kill-child', '--propagation', 'private', '/bin/sh', '-c',
             'mount --bind "$1" "$1"; mount --make-shared "$1"; mount -t proc proc /proc; echo ready; exec sleep infinity',
             'sh', self.host], stdout=subprocess.PIPE)
        assert self._pause.stdout.readline() == b'ready\n', 'the pod does not start'
        with open('/proc/%d/task/%d/children' % (self._pause.pid, self._pause.pid), encoding='ascii') as children:
            self.pause = int(children.read().split()[0])
        self.inside = ['nsenter', '--target', str(self.pause), '--pid', '--ipc', '--mount', '--']  # before a command
        self.containers = []

    def start(self, *arguments, environment=None, mounts=None, privileged=True, capabilities=()):
        """|mounts|: path in the container: path on the host. |privileged| and |capabilities|: for engine.py, here it has all."""
        container = Container(self, arguments, environment, mounts)
        self.containers.append(container)
        return container

    def run(self, *arguments, **how):
        """Status and output of a container that ends by itself; |how|: see start."""
        container = self.start(*arguments, **how)
        container.expected_status = container.wait()
        return container.expected_status, container.log()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def finish(self):
        """All processes of the pod end with its first one; what was wrong with them is the test's to say.

        unshare ends when the first one has, and that when all others have.
        """
        if self._pause.poll() is None:
            os.kill(self.pause, signal.SIGKILL)
        self._pause.wait(DEADLINE)
        self._pause.stdout.close()
        for container in self.containers:
            if container.process.returncode is None:
                container.wait()
        shutil.rmtree(self.folder)
