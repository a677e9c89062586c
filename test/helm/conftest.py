import os

import chart
import pytest


@pytest.fixture(scope='session')
def program():
    if chart.missing():
        pytest.skip(chart.missing())
    chart.build(os.environ['WARPSHARE_HELM_RENDER'])
    return os.environ['WARPSHARE_HELM_RENDER']
