# SPDX-License-Identifier: Apache-2.0
import pytest

from engine import ARCHIVE, Engine
from image import Pod


@pytest.fixture
def pod():
    pod = Pod()
    yield pod
    pod.finish()


@pytest.fixture
def engine():
    """containerd with the image."""
    engine = Engine()
    try:
        engine.boot()
        engine.load(ARCHIVE)
        yield engine
    finally:
        engine.finish()
