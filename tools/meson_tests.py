# SPDX-License-Identifier: Apache-2.0
"""Runs suites of Meson's in a folder that is built, and what failed three times more, alone. For tools/check."""
import json
import os
import pathlib
import re
import subprocess


def meson_test(folder, log, *words):
    """The status, and for each test what Meson's log says of it."""
    path = pathlib.Path(folder, 'meson-logs', log + '.json')
    path.unlink(missing_ok=True)  # what an earlier run left counts for nothing
    status = subprocess.call(  # with patience: a loaded machine is not a hang
        ['meson', 'test', '-C', folder, '--no-rebuild', '--timeout-multiplier', '3', '--logbase', log, *words],
        stdout=subprocess.DEVNULL if log == 'again' else None)
    tests = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()] if path.exists() else []
    return status, sorted(tests, key=lambda test: test['name'])


def telling_lines(test):
    """The lines of a test's output that tell most, each indented."""
    said = (test.get('stdout') or '') + (test.get('stderr') or '')
    lines = re.findall(r'^(?:(?:FAILED|ERROR|not ok|SUMMARY: .*Sanitizer:?) .*|.*: runtime error: .*)', said, re.MULTILINE)
    return ''.join(f'\n      {line[:200]}' for line in (lines or said.strip().splitlines()[-1:])[:8])


def passes_alone(folder, name):
    """A test that passes three times alone is unstable: it is named, but the run may pass. A skip is not a pass."""
    print(f'-- {name} failed; three times more, alone', flush=True)
    return all([test['result'] for test in meson_test(folder, 'again', '--num-processes', '1', name)[1]] == ['OK'] for _ in range(3))


def run(part, folder, suites):
    """The tests that passed and those that were skipped, a text for each failure and each unstable test; and the suites all of which passed."""
    # Most tests wait nearly all of the time, so more of them run at once than there are cores. Meson starts those with a priority first.
    processes = os.environ.get('MESON_TESTTHREADS') or str(4 * os.cpu_count())
    status, tests = meson_test(folder, 'testlog', '--print-errorlogs', '--num-processes', processes, *(f'--suite={suite}' for suite in suites))
    listed = pathlib.Path('HACKING.md').read_text(encoding='utf-8').partition('## Unstable tests\n')[2].partition('\n## ')[0]
    passed, skipped, failed, unstable = [], [], [], []
    whole = set(suites)
    for test in tests:
        suite, name = re.fullmatch(r'(?:.*:(.*) / )?(.*)', test['name']).groups()  # 'warpshare:e2e / e2e/dra'
        result = test['result']
        if result == 'OK':
            passed.append(name)
        elif result == 'SKIP':
            skipped.append(name)
        elif passes_alone(folder, name):
            note = '' if f'- `{name}`:' in listed else ', not in the list of HACKING.md yet'
            unstable.append(f'{part}: {name} {result}{note}{telling_lines(test)}')
        else:
            failed.append(f'{part}: {name} {result}{telling_lines(test)}')
        if result != 'OK':
            whole -= {suite}
    if not tests or status != 0 and not failed + unstable:
        failed.append(f'{part}: meson test ended with status {status}, and its log names no failure')
        whole = set()
    return (passed, skipped, failed, unstable), whole
