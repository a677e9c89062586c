# SPDX-License-Identifier: Apache-2.0
"""Hooks that the end-to-end tests have, too, and their stand-ins; a browser, and a dashboard of a small cluster."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))

import webdriver  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from dashboard import Dashboard  # noqa: E402
from fixtures import pytest_sessionfinish  # noqa: E402,F401 -- a hook
from fleet import Fleet  # noqa: E402


@pytest.fixture(scope='module', name='chromium')
def make_chromium(tmp_path_factory):
    if webdriver.missing():
        pytest.skip(webdriver.missing())
    with webdriver.Browser(folder=tmp_path_factory.mktemp('browser')) as browser:
        yield browser


@pytest.fixture(name='browser')
def make_browser(chromium):
    """In which nothing goes wrong that a page's author would see: no error, and nothing that its policy refuses."""
    chromium.open('about:blank')
    chromium.resize(1280, 900)
    chromium.set_dark(False)
    chromium.log()
    yield chromium
    said = [line['message'] for line in chromium.log() if '/api/v1/' not in line['message']]  # a 401 or 404 that a test wants
    assert not said


@pytest.fixture(name='api')
def make_api(tmp_path):
    with ApiServer(tmp_path / 'api') as server:
        yield server


@pytest.fixture(name='fleet')
def make_fleet(api):
    with Fleet(api) as fleet:
        yield fleet


@pytest.fixture(name='start')
def make_start(api):
    running = []

    def start(*options):
        running.append(Dashboard(api, *options))
        return running[-1]

    yield start
    for dashboard in running:
        dashboard.close()
