import pytest

from image import Pod


@pytest.fixture
def pod():
    pod = Pod()
    yield pod
    pod.finish()
