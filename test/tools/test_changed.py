# SPDX-License-Identifier: Apache-2.0
"""tools/changed: what differs from how it passed is named, and nothing else."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])


class Project:
    """The tool beside the files of its parts and three sources."""

    def __init__(self, folder):
        self.folder = folder
        (folder / 'tools').mkdir()
        shutil.copy(SOURCE / 'tools/changed', folder / 'tools/changed')
        subprocess.run(['git', 'init', '--quiet', folder], check=True)
        self.write('.clang-tidy', 'Checks: all')
        self.write('src/base/error.h', '#include "base/text.h"')
        self.write('src/base/text.h', '')
        self.write('src/base/error.c', '#include "base/error.h"')
        self.write('src/base/list.c', '')
        self.write('sim/clock/library.c', '#include "clock.h"')
        self.write('sim/clock/clock.h', '')
        for path in re.findall(r"'([^' ]+)'", re.search(r'^PARTS = \{(.*?)^\}', (folder / 'tools/changed').read_text(encoding='utf-8'), re.M | re.S).group(1)):
            if not path.startswith('part-') and not (folder / path).exists():
                self.write(path if pathlib.PurePath(path).suffix or (SOURCE / path).is_file() else path + '/file', '')

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')

    def changed(self, *words):
        """The names of the lines that it says."""
        return {line.split()[0] for line in self.lines(*words)}

    def lines(self, *words):
        return subprocess.run([self.folder / 'tools/changed', *words], check=True, capture_output=True, text=True).stdout.splitlines()

    def passed(self, *names):
        self.lines('passed', *[line for kind in ('parts', 'sources') for line in self.lines('all', kind) if line.split()[0] in names])


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_what_never_passed_is_changed(project):
    assert project.changed('parts') == project.changed('all', 'parts') >= {'part-bench', 'part-image'}
    assert project.changed('sources') == project.changed('all', 'sources') == {'src/base/error.c', 'src/base/list.c', 'sim/clock/library.c'}


def test_what_passed_is_not_changed_until_one_of_its_files_is(project):
    project.passed('part-bench', 'part-image')
    others = project.changed('all', 'parts') - {'part-bench', 'part-image'}
    assert project.changed('parts') == others
    project.write('bench/another', 'not added to git yet')
    assert project.changed('parts') == others | {'part-bench'}
    (project.folder / 'bench/another').unlink()
    assert project.changed('parts') == others
    (project.folder / 'bench/file').unlink()
    (project.folder / 'bench/other').touch()  # the same text by another name
    assert project.changed('parts') == others | {'part-bench'}


@pytest.mark.parametrize('name, sources', [
    ('src/base/list.c', {'src/base/list.c'}),
    ('src/base/error.h', {'src/base/error.c'}),
    ('sim/clock/clock.h', {'sim/clock/library.c'}),
    ('.clang-tidy', {'src/base/error.c', 'src/base/list.c', 'sim/clock/library.c'}),
])
def test_a_source_changes_with_the_headers_that_it_includes(project, name, sources):
    project.passed(*project.changed('sources'))
    assert project.changed('sources') == set()
    project.write(name, 'int changed;')
    assert project.changed('sources') == sources


@pytest.mark.parametrize('text, is_changed', [
    ('/* another\n * comment */\n\nconst char text[] =\n    "/* text */";\n', False),
    ('/* comment */ const char text[] = "/* another text */";', True),
    ('/* NOLINT(cert-err34-c) */ const char text[] = "/* text */";', True),
])
def test_a_comment_or_the_form_of_a_source_is_no_change_and_a_text_is(project, text, is_changed):
    project.write('src/base/list.c', '/* comment */ const char text[] = "/* text */";')
    project.passed(*project.changed('sources'))
    project.write('src/base/list.c', text)
    assert project.changed('sources') == ({'src/base/list.c'} if is_changed else set())


def test_what_passed_earlier_stays_and_what_is_gone_does_not(project):
    project.passed('src/base/error.c', 'src/base/list.c')
    (project.folder / 'src/base/list.c').unlink()
    project.passed('part-gpu')
    lines = (project.folder / 'tools/passed').read_text(encoding='utf-8').splitlines()
    assert [line.split()[0] for line in lines] == ['part-gpu', 'src/base/error.c']


def test_the_lines_of_two_branches_may_stand_together(project):
    """Git joins them (.gitattributes)."""
    project.passed('part-gpu')
    one = (project.folder / 'tools/passed').read_text(encoding='utf-8')
    project.write('tools/gpu', 'changed')
    project.passed('part-gpu')
    project.write('tools/passed', one + (project.folder / 'tools/passed').read_text(encoding='utf-8'))
    assert 'part-gpu' not in project.changed('parts')
    project.write('tools/gpu', 'changed again')
    assert 'part-gpu' in project.changed('parts')


def test_what_is_edited_while_it_runs_has_not_passed(project):
    before = project.lines('sources')
    project.write('src/base/list.c', 'int edited_meanwhile;')
    project.lines('passed', *before)
    assert project.changed('sources') == {'src/base/list.c'}


def test_a_list_that_names_no_file_is_a_fault(project):
    shutil.rmtree(project.folder / 'bench')
    done = subprocess.run([project.folder / 'tools/changed', 'parts'], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "tools/changed: 'bench' does not exist; correct its list\n")


def test_each_part_is_a_suite(project):
    suites = {suite for path in SOURCE.glob('*/**/meson.build') for suite in re.findall(r"'(part-\w+)'", path.read_text(encoding='utf-8'))}
    assert suites == project.changed('all', 'parts')
