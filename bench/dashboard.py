# SPDX-License-Identifier: Apache-2.0
"""What the dashboard takes of time and memory for a cluster of 500 nodes with 8 GPUs and 20 shares each, and when a browser shows it.

usage: bench/dashboard.py PROGRAM [--nodes=N] [--few]    (PROGRAM: a built `warpshare`; --few: each once, to try whether the benchmark itself works)

Prints as bench/figure.h does. The API server and the agents are the tests' (test/e2e), in this process.
"""
import os
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../test', folder) for folder in ('browser', 'e2e')]

import made_up  # noqa: E402
import webdriver  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from dashboard import Dashboard  # noqa: E402
from fleet import Fleet  # noqa: E402

FEW = '--few' in sys.argv
TIMES = 1 if FEW else 9
NODES = next((int(one.partition('=')[2]) for one in sys.argv if one.startswith('--nodes=')), 5 if FEW else 500)


def say(name, unit, values):
    ordered = sorted(values)
    print(name, unit, statistics.median(ordered), ordered[-1], ordered[0], ordered[-1], sep='\t', flush=True)


def timed(dashboard, path, token=None):
    """(milliseconds, bytes of the answer)"""
    start = time.perf_counter()
    answer = dashboard.ask(path, token)
    assert answer.status == 200, answer
    return 1000 * (time.perf_counter() - start), len(answer.body)


def memory(dashboard):
    """MiB: resident at most, so far."""
    with open(f'/proc/{dashboard.process.pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith('VmHWM'))


def measure_answers(dashboard, api):
    tom = api.reviews.add('tom', ('list', 'nodes'), ('list', 'pods', 'vision'))
    jane = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    start = time.perf_counter()
    version = dashboard.until_complete(jane)['version']
    say('dashboard_round', 's', [time.perf_counter() - start])
    for name, path, token in (('overview', '/api/v1/overview', jane), ('unchanged', f'/api/v1/overview?since={version}', jane),
                              ('some', '/api/v1/overview', tom), ('search', '/api/v1/search?q=vision', jane), ('events', '/api/v1/events', jane)):
        found = [timed(dashboard, path, token) for _ in range(TIMES)]
        say(f'dashboard_{name}', 'ms', [milliseconds for milliseconds, _ in found])
        say(f'dashboard_{name}_size', 'KiB', [size / 1024 for _, size in found])
    say('dashboard_memory', 'MiB', [memory(dashboard)])


def measure_browser(dashboard, folder):
    paints, drawn = [], []
    with webdriver.Browser(folder=folder) as browser:
        for _ in range(TIMES):
            browser.open('about:blank')
            browser.open(dashboard.url)
            browser.wait(lambda: browser.find('.gpu'))
            paint, done = browser.run('''return [performance.getEntriesByName("first-contentful-paint")[0].startTime,
                                         performance.getEntriesByName("drawn")[0].startTime]''')
            paints.append(paint)
            drawn.append(done)
    say('dashboard_paint', 'ms', paints)
    say('dashboard_drawn', 'ms', drawn)


def main():
    os.environ['WARPSHARE'] = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home, ApiServer(home + '/api') as api, Fleet(api) as fleet:
        made_up.large(fleet, nodes=NODES)
        with Dashboard(api, '--authorization', 'token', interval=60) as dashboard:
            measure_answers(dashboard, api)
        if not webdriver.missing():
            with Dashboard(api, '--authorization', 'proxy', interval=60) as dashboard:
                dashboard.until_complete()
                measure_browser(dashboard, home)
                say('dashboard_memory_browser', 'MiB', [memory(dashboard)])


if __name__ == '__main__':
    main()
