# SPDX-License-Identifier: Apache-2.0
"""containerd with runc, as on a node, in the namespaces of a Pod: with a /run of its own, and control groups under a name of its own.

Its containers are started as those of a Pod are, each with namespaces of its own; it ends as a Pod does, whatever becomes of the test.
"""
import contextlib
import glob
import json
import os
import shutil
import subprocess
import time
import uuid

import pytest

from image import ROOTFS, Pod, can_make_containers

from node import DEADLINE, Process

PROGRAMS = ('containerd', 'containerd-shim-runc-v2', 'ctr', 'runc')
ARCHIVE = os.environ['WARPSHARE_IMAGE']

CONFIG = '''version = 2
root = "%(folder)s/root"
state = "%(folder)s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "%(folder)s/socket"
[plugins."io.containerd.internal.v1.opt"]
path = "%(folder)s/opt"
'''

# What containerd gives a container unless it is told otherwise; the manifests' agent drops all.
CAPABILITIES = ('CHOWN', 'DAC_OVERRIDE', 'FSETID', 'FOWNER', 'MKNOD', 'NET_RAW', 'SETGID', 'SETUID', 'SETFCAP', 'SETPCAP',
                'NET_BIND_SERVICE', 'SYS_CHROOT', 'KILL', 'AUDIT_WRITE')

missing = [name for name in PROGRAMS if shutil.which(name) is None]
needs_engine = pytest.mark.skipif(
    bool(missing) or not can_make_containers(),
    reason='needs %s (tools/fetch-engine), root, and a machine that allows mounts' % ', '.join(PROGRAMS))


class Engine(Pod):
    def __init__(self):
        super().__init__()
        self.image = None
        self.name = 'ws-image-' + uuid.uuid4().hex  # containerd takes no name that ends with '_', as a folder's may
        with open(self.path('containerd.toml'), 'w', encoding='utf-8') as file:
            file.write(CONFIG % {'folder': self.folder})

    def call(self, *command, can_fail=False):
        """Its output. Who takes too long ends with the pod."""
        result = subprocess.run([*self.inside, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors='replace', timeout=2 * DEADLINE, check=False)
        if can_fail:
            return result.returncode, result.stdout
        assert result.returncode == 0, '%s:\n%s' % (' '.join(command), result.stdout)
        return result.stdout

    def ctr(self, *arguments):
        return self.call('ctr', '--address', self.path('socket'), '--namespace', self.name, *arguments)

    def skip_where_runc_cannot(self):
        """Says so of the machine before anything is said of the image: runc's own example, with one program."""
        bundle = self.path('bundle')
        os.makedirs(bundle + '/rootfs')
        shutil.copy(os.path.join(ROOTFS, 'usr/bin/busybox'), bundle + '/rootfs/true')
        self.call('runc', 'spec', '--bundle', bundle)
        with open(bundle + '/config.json', encoding='utf-8') as file:
            spec = json.load(file)
        spec['process'].update(terminal=False, args=['/true'])
        spec['root']['readonly'] = False
        spec['linux']['cgroupsPath'] = '/%s/bundle' % self.name
        with open(bundle + '/config.json', 'w', encoding='utf-8') as file:
            json.dump(spec, file)
        status, output = self.call('runc', 'run', '--bundle', bundle, 'bundle', can_fail=True)
        if status != 0:
            pytest.skip('runc can make no container on this machine: ' + output.strip().rpartition('\n')[2])

    def boot(self):
        self.call('mount', '-t', 'tmpfs', 'tmpfs', '/run')  # containerd and runc have fixed places there, too
        self.skip_where_runc_cannot()
        daemon = Process([*self.inside, 'containerd', '--config', self.path('containerd.toml')], dict(os.environ))
        self.containers.append(daemon)
        daemon.wait_log('containerd successfully booted')

    def load(self, archive):
        """As the page on the image says."""
        self.ctr('images', 'import', '--snapshotter', 'native', archive)
        names = self.ctr('images', 'list', '--quiet').split()
        assert len(names) == 1, names
        self.image = names[0]

    def start(self, *arguments, environment=None, mounts=None, privileged=False, capabilities=()):
        """A container with a read-only root; without |arguments| it is the image's entry point. With |privileged| it may do
        what the node's root may, and what it mounts in |mounts| is seen by others; without, it has these |capabilities| alone.
        """
        options = ['--privileged'] if privileged else ['--seccomp', *('--cap-drop=CAP_' + one for one in CAPABILITIES if one not in capabilities)]
        propagation = 'rshared' if privileged else 'rprivate'
        identifier = 'c%d' % len(self.containers)
        container = EngineContainer(self, identifier, [
            *(['--env=%s=%s' % pair for pair in (environment or {}).items()]),
            *('--mount=type=bind,src=%s,dst=%s,options=rbind:rw:%s' % (source, target, propagation)
              for target, source in (mounts or {}).items()),
            *options, self.image, identifier, *arguments])
        self.containers.append(container)
        return container

    def finish(self):
        super().finish()
        deadline = time.monotonic() + DEADLINE
        for root in ('/sys/fs/cgroup/', '/sys/fs/cgroup/*/'):
            for group in sorted(glob.glob(root + self.name + '/**/', recursive=True), key=len, reverse=True):
                while os.path.isdir(group):
                    with contextlib.suppress(OSError):
                        os.rmdir(group)
                        break
                    assert time.monotonic() < deadline, 'control group %s is still used' % group
                    time.sleep(0.05)


class EngineContainer(Process):
    """What `ctr run` shows of a container."""

    def __init__(self, engine, identifier, arguments):
        self.engine = engine
        self.identifier = identifier
        super().__init__([
            *engine.inside, '/bin/sh', '-c', 'exec "$@" >&2', 'sh', 'ctr', '--address', engine.path('socket'), '--namespace', engine.name,
            'run', '--rm', '--snapshotter', 'native', '--read-only', *arguments], dict(os.environ))

    def signal(self, number):
        self.engine.ctr('tasks', 'kill', '--signal', str(int(number)), self.identifier)
