# SPDX-License-Identifier: Apache-2.0
import os
import sys

import chart
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))


@pytest.fixture(scope='session')
def program():
    if chart.missing():
        pytest.skip(chart.missing())
    chart.build(os.environ['WARPSHARE_HELM_RENDER'])
    return os.environ['WARPSHARE_HELM_RENDER']
