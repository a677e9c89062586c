# SPDX-License-Identifier: Apache-2.0
"""docs/evidence.md: each belief has a level and a source that is there, and what was recorded is believed and tested."""
import os
import re

import pytest

SOURCE = os.environ['WARPSHARE_SOURCE']
RECORDED = 'test/fixtures/recorded'
HEAD = ['belief', 'used by', 'level', 'source']
LEVELS = ('recorded', 'documented', 'inferred')
# They stand in for a program of ours, and for the time of day.
NO_BELIEF = ('test/e2e/mig_program.py', 'sim/clock')
# A path in code marks: of this repository, not of Kubernetes' or NVIDIA's.
PATH = r'`((?:src|sim|test|deploy|docs|scripts)/[\w./-]+)`'


def read(path):
    with open(os.path.join(SOURCE, path), encoding='utf-8') as file:
        return file.read()


def rows():
    """The cells of each belief; '|' inside of a cell has a '\\' before it."""
    tables = [re.split(r' *(?<!\\)\| *', line)[1:-1] for line in read('docs/evidence.md').splitlines() if line.startswith('|')]
    return [cells for cells in tables if cells != HEAD and set(cells) != {'---'} and len(cells) != 3]


def recorded_files():
    """By their paths in the repository."""
    for folder, _, names in os.walk(os.path.join(SOURCE, RECORDED)):
        yield from (os.path.relpath(os.path.join(folder, name), SOURCE) for name in names if name != 'README.md')


def sources_of_tests():
    """The text of all that is compiled or run as a test."""
    texts = []
    for folder, folders, names in os.walk(os.path.join(SOURCE, 'test')):
        folders[:] = [name for name in folders if name != 'fixtures']
        texts += [read(os.path.join(folder, name)) for name in names
                  if name.endswith(('.c', '.h', '.py', 'meson.build')) and name != os.path.basename(__file__)]
    return '\n'.join(texts)


def paths(cell):
    return re.findall(PATH, cell)


def test_each_belief_has_a_level_and_says_who_uses_it_and_how_it_is_known():
    assert len(rows()) > 70
    for cells in rows():
        assert len(cells) == 4 and all(cells), cells
        assert cells[2] in LEVELS, cells
        assert paths(cells[1]), "no file is named that uses it: '%s'" % cells[0]


def test_each_file_that_a_belief_names_is_there():
    for belief, used_by, _, source in rows():
        for path in paths(used_by) + paths(source):
            assert os.path.exists(os.path.join(SOURCE, path)), "'%s', of: %s" % (path, belief)


def test_what_is_called_recorded_names_its_fixture():
    for belief, _, level, source in rows():
        if level == 'recorded':
            assert any(path.startswith('test/fixtures/') for path in paths(source)), belief


def models():
    """(key, product) of each GPU that the simulator can be."""
    return re.findall(r'\.key = "([^"]+)",\s+\.product = "([^"]+)"', read('sim/hardware/models.c'))


@pytest.mark.parametrize('key, product', models())
def test_what_nobody_recorded_of_a_model_is_called_inferred(key, product):
    """Who has no row in gpus.csv has values that are somebody's conclusion."""
    recorded = [line.split(',')[0] for line in read(RECORDED + '/gpu/gpus.csv').splitlines()]
    inferred = [belief for belief, used_by, level, _ in rows() if level == 'inferred' and 'sim/hardware/models.c' in paths(used_by)]
    assert product in recorded or any(re.search(r'(?<![\w-])%s(?![\w-])' % re.escape(key), belief) for belief in inferred)


@pytest.mark.parametrize('path', sorted(recorded_files()))
def test_each_recorded_file_is_believed_and_read_by_a_test(path):
    assert any(path in paths(source) for _, _, _, source in rows()), "no row of docs/evidence.md names '%s'" % path
    inside = os.path.relpath(path, RECORDED)
    names = (inside, os.path.basename(inside))
    assert any('/%s"' % name in text or '"%s"' % name in text or "'%s'" % name in text or "/%s'" % name in text
               for text in [sources_of_tests()] for name in names), 'no test opens it'


def stand_ins():
    """Files and folders that docs/stand-ins.md names as stand-ins: of the simulators and of the end-to-end tests."""
    text = read('docs/stand-ins.md')
    named = re.findall(r'`(sim/\w+)`', text) + re.findall(r'`(test/e2e/\w+\.py)`', text)
    named += ['test/e2e/' + name for name in re.findall(r'`((?!test_)\w+\.py)`', text)
              if os.path.exists(os.path.join(SOURCE, 'test/e2e', name))]
    return sorted(set(named) - set(NO_BELIEF))


@pytest.mark.parametrize('path', stand_ins())
def test_what_a_stand_in_does_is_believed_somewhere(path):
    assert any(one == path or one.startswith(path + '/') for _, used_by, _, _ in rows() for one in paths(used_by)), path


def test_each_number_of_the_hardware_notes_is_there_once_and_in_order():
    numbers = [int(number) for number in re.findall(r'^\| (\d+) \|', read('docs/hardware-notes.md'), re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
