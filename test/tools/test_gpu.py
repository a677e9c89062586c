# SPDX-License-Identifier: Apache-2.0
"""tools/gpu: its report has the rows of docs/hardware-notes.md, and only what was seen on a GPU gets into the notes."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
NOTES = (SOURCE / 'docs/hardware-notes.md').read_text(encoding='utf-8')


def load():
    loader = importlib.machinery.SourceFileLoader('tools_gpu', str(SOURCE / 'tools/gpu'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('tools_gpu', loader))
    loader.exec_module(module)
    return module


gpu = load()
TABLE = '''| # | expected | where from | test | seen |
| --- | --- | --- | --- | --- |
| 1 | one | guess | `test_a` | not measured yet |
| 2 | two | guess | the same | not measured yet; needs two GPUs |
| 3 | three | guess | `test_b` of the other file | not measured yet |
| 4 | four | guess | none: it takes two users | not measured yet |
'''
H100 = {'gpu': 'NVIDIA H100', 'driver': '580.95.05', 'capability': '9.0'}
RESULTS = {'test_a': [None, None], 'test_b': ['not run: needs root']}


def cells(text):
    return {number: seen for number, (_, _, _, seen), _ in gpu.rows_of(text)}


def test_each_row_of_the_notes_is_filled_by_the_test_that_it_names():
    sources = {path.name: path.read_text(encoding='utf-8') for path in (SOURCE / 'test/gpu').glob('*.py')}
    rows = gpu.rows_of(NOTES)
    assert [number for number, _, _ in rows] == list(range(1, len(rows) + 1)) and len(rows) >= 25
    for number, (_, _, test, _), tests in rows:
        assert tests or test == 'every test' or test.startswith('none'), number
        for name in tests:
            assert any('def %s(' % name in text for text in sources.values()), name
        fills = [text for text in sources.values() if re.search(r'\bseen\(%d, ' % number, text)]
        assert len(fills) == (0 if test.startswith('none') else 1), number


def test_the_report_says_what_was_seen_and_why_the_rest_was_not():
    facts = [H100, {'row': 1, 'text': '132'}, {'row': 1, 'text': '132'}, {'row': 1, 'text': '66 | 66'}]
    report = gpu.report_of(TABLE, facts, RESULTS)
    assert report.startswith('# NVIDIA H100, driver 580.95.05\n') and 'Simulated' not in report
    assert cells(report) == {1: '132; 66 \\| 66', 2: 'not run: the same', 3: 'not run: needs root', 4: 'not run: none: it takes two users'}


def test_a_row_has_only_the_tests_that_it_names():
    """Rows are put in another order: what stands before one says nothing about it."""
    assert [tests for _, _, tests in gpu.rows_of(TABLE)] == [['test_a'], [], ['test_b'], []]


def test_a_test_that_fails_is_named_beside_what_it_saw():
    results = {'test_a': [None, 'the test failed: AssertionError: 3 != 4'], 'test_b': ['the test failed: Boom']}
    report = gpu.report_of(TABLE, [H100, {'row': 1, 'text': '3'}], results)
    assert cells(report)[1] == '3; the test failed: AssertionError: 3 != 4'
    assert cells(report)[3] == 'the test failed: Boom'


def test_outcomes_are_read_from_pytests_own_report():
    assert gpu.results_of('''<testsuites><testsuite><testcase name="test_a[0.1]"/><testcase name="test_a[0.5]"><failure message="x = 1&#10;y"/>
        </testcase><testcase name="test_b"><skipped message="needs root"/></testcase></testsuite></testsuites>''') == {
            'test_a': [None, 'the test failed: x = 1'], 'test_b': ['not run: needs root']}


def test_what_was_seen_gets_into_the_notes_and_nothing_else():
    filled = gpu.fill(TABLE, [H100, {'row': 1, 'text': '132'}], RESULTS)
    assert cells(filled) == {**cells(TABLE), 1: '132 (NVIDIA H100, 580.95.05)'}
    a100 = {'gpu': 'NVIDIA A100', 'driver': '550.163.01', 'capability': '8.0'}
    filled = gpu.fill(filled, [a100, {'row': 1, 'text': '108'}], RESULTS)
    assert cells(filled)[1] == '132 (NVIDIA H100, 580.95.05)<br>108 (NVIDIA A100, 550.163.01)'
    again = gpu.fill(filled, [H100, {'row': 1, 'text': '131'}], RESULTS)
    assert cells(again)[1] == '108 (NVIDIA A100, 550.163.01)<br>131 (NVIDIA H100, 580.95.05)'


def test_what_is_simulated_is_marked_and_never_gets_into_the_notes():
    facts = [{**H100, 'driver': 'simulated'}, {'row': 1, 'text': '132'}]
    assert '**Simulated.**' in gpu.report_of(TABLE, facts, RESULTS)
    with pytest.raises(ValueError):
        gpu.fill(TABLE, facts, RESULTS)
    done = subprocess.run([SOURCE / 'tools/gpu', '--simulated', '--write-notes'], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and 'never written' in done.stderr


def test_throughput_becomes_a_table_and_a_picture(tmp_path):
    facts = [H100, *({'mode': mode, 'clients': clients, 'kernel': 'compute', 'grid': 'small', 'unit': 'GFLOP/s', 'rates': rates}
                     for mode, clients, rates in (('MPS', 1, [10]), ('MPS', 2, [10, 8]), ('time-slicing', 2, [5, 4])))]
    report = gpu.report_of(TABLE, facts, RESULTS)
    assert '| compute | small | 1 | 10 GFLOP/s (1.00) | not run |  |\n' in report
    assert '| compute | small | 2 | 18 GFLOP/s (0.80) | 9 GFLOP/s (0.80) | 2.00 |\n' in report
    gpu.draw(facts, str(tmp_path / 'it'))
    picture = (tmp_path / 'it.svg').read_text(encoding='utf-8')
    assert 'compute, small grid' in picture and 'SIMULATED' not in picture
    gpu.draw([{**H100, 'driver': 'simulated'}, *facts[1:]], str(tmp_path / 'it'))
    assert 'SIMULATED' in (tmp_path / 'it.svg').read_text(encoding='utf-8')


def test_what_is_packed_runs_without_this_repository(tmp_path):
    """Without a GPU it says so; that comes from the tests, by the pytest that was packed."""
    folder = tmp_path / 'carried'
    subprocess.run([SOURCE / 'tools/gpu', '--pack', folder, '--program', os.environ['WARPSHARE']], check=True)
    done = subprocess.run(
        [sys.executable, '-S', folder / 'tools/gpu'], env={'PATH': '/usr/bin:/bin', 'PYTHONNOUSERSITE': '1'}, cwd=tmp_path,
        capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 0:
        pytest.skip('there is a GPU')
    assert done.returncode == 77, done.stdout + done.stderr
    assert 'CUDA cannot be used here' in done.stdout
