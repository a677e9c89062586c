"""What this machine lets its tests do: root of an ordinary container, for one, may not mount."""
import functools
import os
import subprocess

import pytest


@functools.lru_cache(maxsize=None)
def may_mount():
    return os.geteuid() == 0 and subprocess.run(['unshare', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'], check=False,
                                                capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason='to mount takes root with CAP_SYS_ADMIN')
