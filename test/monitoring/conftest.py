# SPDX-License-Identifier: Apache-2.0
"""Hooks and the simulated node of the end-to-end tests."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

from fixtures import pytest_sessionfinish  # noqa: E402,F401 -- a hook
