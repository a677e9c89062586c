"""A supervisor with one daemon that is ready, for tenants to come to."""
import pytest

from mps import UUIDS, daemon, mps  # noqa: F401 -- a fixture

FIRST = UUIDS[0]


@pytest.fixture
def served(mps):  # noqa: F811
    mps.scenario(gpus=1)
    mps.supervisor = mps.start()
    mps.agent = mps.connect()
    mps.agent.apply(daemon(0))
    mps.agent.watch()
    mps.first = mps.agent.wait_ready(FIRST)['pid']
    return mps
