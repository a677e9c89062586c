# SPDX-License-Identifier: Apache-2.0
import os
import sys

import admission
import pytest

sys.path.insert(0, str(admission.SOURCE / 'test/helm'))
import chart  # noqa: E402, pylint: disable=wrong-import-position


@pytest.fixture(scope='session', autouse=True)
def cel():
    if admission.missing():
        pytest.skip(admission.missing())
    admission.install()


@pytest.fixture(scope='session')
def program():
    if chart.missing():
        pytest.skip(chart.missing())
    chart.build(os.environ['WARPSHARE_HELM_RENDER'])
    return os.environ['WARPSHARE_HELM_RENDER']
