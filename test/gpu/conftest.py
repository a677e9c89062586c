# SPDX-License-Identifier: Apache-2.0
"""Hooks of these tests, which also run where there is a GPU and nothing but Python (tools/gpu --pack)."""
import os
import time

import pytest

try:
    from fixtures import *  # noqa: F401,F403 -- fixtures and hooks
except ImportError:  # grpcio, for the stand-in for kubelet
    collect_ignore = ['test_real_gpu.py']


def pytest_runtest_setup():
    if time.time() > float(os.environ.get('WARPSHARE_GPU_UNTIL', 'inf')):
        pytest.skip('the time was over: --minutes')
