# SPDX-License-Identifier: Apache-2.0
"""What this machine lets its tests do: root of an ordinary container, for one, may not mount."""
import ctypes
import functools
import os
import subprocess

import pytest


@functools.lru_cache(maxsize=None)
def may_mount():
    return os.geteuid() == 0 and subprocess.run(['unshare', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'], check=False,
                                                capture_output=True).returncode == 0


def may_copy_descriptors():
    """pidfd_getfd(), by which the supervisor closes a connection of its daemon: Linux 5.6."""
    own = os.pidfd_open(os.getpid())
    copy = ctypes.CDLL(None).syscall(438, own, own, 0)
    for fd in (own, copy):
        if fd >= 0:
            os.close(fd)
    return copy >= 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason='to mount takes root with CAP_SYS_ADMIN')
