# SPDX-License-Identifier: Apache-2.0
"""tools/check over a project of fake tests: which failures make it fail, and which it only names."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])

# Each counts its runs in the file that bears its name, and gets the count as $run.
STEADY = 'exit 0'
BROKEN = 'echo "FAILED test_broken.py::test_it"; exit 1'
UNSTABLE = 'echo "FAILED test_late.py::test_it - at run $run"; [ $run -gt 1 ]'
RARE = 'echo "not ok 1 - at run $run"; [ $run = 2 ] || [ $run = 3 ]'  # fails, then passes twice only
ABSENT = 'exit 77'
CURED_BY_A_SKIP = '[ $run = 1 ] && exit 1; exit 77'


class Project:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / 'tools').mkdir()
        for name in ['check', 'meson_tests.py', 'asan.ini']:
            shutil.copy(SOURCE / 'tools' / name, self.folder / 'tools' / name)
        for name in ['fetch-nonfree', 'fetch-promtool', 'lint']:
            self.write(f'tools/{name}', '#!/bin/sh\n')
        self.write('tools/changed', '#!/bin/sh\n[ $1 = passed ] && echo "$@" >>recorded || cat $1.list 2>/dev/null || :\n')
        self.write('HACKING.md', '## Unstable tests\n\n- `fake/known`: an example\n\n## Words\n\n- `fake/late` is not listed here\n')
        self.meson = ''
        self.write('meson_options.txt', "option('fuzz', type: 'boolean', value: false)\n")

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding='utf-8')
        path.chmod(0o755)

    def add(self, name, body, **more):
        counter = self.folder / f'{name}.runs'
        self.write(name + '.sh', f'#!/bin/sh\necho >>"{counter}"\nrun=$(wc -l <"{counter}")\n{body}\n')
        self.meson += f"test('fake/{name}', find_program('./{name}.sh')" + \
            ''.join(f', {key}: {value}' for key, value in {'suite': "'unit'", **more}.items()) + ')\n'

    def runs(self, name):
        counter = self.folder / f'{name}.runs'
        return len(counter.read_text(encoding='utf-8')) if counter.exists() else 0

    def check(self, *words):
        """Its status, last line, and all that it said."""
        language = ", 'c'" if 'asan' in words else ''  # of which the sanitizers are an option
        self.write('meson.build', f"project('fake'{language})\n{self.meson}")
        done = subprocess.run(['tools/check', *(words or ['plain'])], cwd=self.folder, text=True, stdout=subprocess.PIPE, timeout=120,
                              stderr=subprocess.STDOUT, check=False, env={**os.environ, 'CI': '', 'MESON_TESTTHREADS': '2'})
        lines = done.stdout.rstrip().split('\n')
        assert re.fullmatch(r'\d+ passed, \d+ failed, \d+ skipped', lines[-1]), done.stdout
        print(done.stdout)
        return done.returncode, lines[-1], done.stdout


@pytest.fixture
def project():
    with tempfile.TemporaryDirectory(prefix='warpshare-check-') as folder:
        yield Project(folder)


def test_all_pass(project):
    project.add('steady', STEADY)
    project.add('absent', ABSENT)
    status, last, said = project.check()
    assert (status, last) == (0, '1 passed, 0 failed, 1 skipped')
    assert project.runs('steady') == 1
    assert 'unstable' not in said


def test_what_passes_three_times_alone_is_named_as_unstable(project):
    project.add('steady', STEADY)
    project.add('late', UNSTABLE)
    project.add('known', UNSTABLE)
    status, last, said = project.check()
    assert (status, last) == (0, '3 passed, 0 failed, 0 skipped')
    assert [project.runs(name) for name in ['steady', 'late', 'known']] == [1, 4, 4]
    end = said[said.index('Unstable'):]
    assert end == '''\
Unstable: these failed, then passed three times alone. Each is a fault to be found before the next feature.
  plain: fake/known FAIL
      FAILED test_late.py::test_it - at run 1
  plain: fake/late FAIL, not in the list of HACKING.md yet
      FAILED test_late.py::test_it - at run 1

3 passed, 0 failed, 0 skipped
'''


def test_what_fails_again_fails_the_run(project):
    project.add('broken', BROKEN)
    project.add('rare', RARE)
    project.add('late', UNSTABLE)
    status, last, said = project.check()
    assert (status, last) == (1, '1 passed, 2 failed, 0 skipped')
    assert project.runs('broken') == 2  # not a third time
    assert project.runs('rare') == 4
    assert '''
Failed:
  plain: fake/broken FAIL
      FAILED test_broken.py::test_it
  plain: fake/rare FAIL
      not ok 1 - at run 1

Unstable: ''' in said


def test_a_skip_is_no_pass(project):
    project.add('moody', CURED_BY_A_SKIP)
    status, last, _ = project.check()
    assert (status, last) == (1, '0 passed, 1 failed, 0 skipped')


def test_a_test_runs_alone_the_second_time(project):
    """Two that disturb each other pass when run one by one."""
    for name in ['one', 'other']:
        project.add(name, f'''
            mkdir "{project.folder}/taken" || exit 1
            trap 'rmdir "{project.folder}/taken"' EXIT
            if [ $run = 1 ]; then sleep 1; exit 1; fi''')
    status, last, _ = project.check()
    assert (status, last) == (0, '2 passed, 0 failed, 0 skipped')


def test_a_hang_is_a_failure(project):
    project.add('hangs', 'exec sleep 60', timeout=1)
    status, last, said = project.check()
    assert (status, last) == (1, '0 passed, 1 failed, 0 skipped')
    assert 'plain: fake/hangs TIMEOUT' in said


def test_a_failed_build_is_never_unstable(project):
    project.add('steady', STEADY)
    project.write('once.sh', '#!/bin/sh\n[ -e built ] || { touch built; exit 1; }\ntouch "$1"\n')
    project.meson += "custom_target('once', output: 'once', command: [find_program('./once.sh'), '@OUTPUT@'], build_by_default: true)\n"
    status, last, said = project.check()
    assert (status, last) == (1, '0 passed, 1 failed, 0 skipped')
    assert '\nFailed:\n  plain: the build FAILED\n' in said
    assert project.runs('steady') == 0


def test_failed_lint_is_never_unstable(project):
    project.add('steady', STEADY)
    project.write('tools/lint', '#!/bin/sh\n[ -e linted ] || { touch linted; exit 1; }\n')
    status, last, said = project.check('plain', 'lint')
    assert (status, last) == (1, '1 passed, 1 failed, 0 skipped')
    assert '\nFailed:\n  lint FAILED\n' in said


@pytest.mark.parametrize('said, status, last, failure', [
    ('  fuzz-a  ok  12 runs\n  fuzz-b  ok  3 runs\n', 0, '2 passed, 0 failed, 0 skipped', None),
    ('  fuzz-a  ok  12 runs\n  fuzz-b  FINDING  build/fuzz/findings/fuzz-b\nit crashed\n', 1, '1 passed, 1 failed, 0 skipped',
     '  fuzz: fuzz-b  FINDING  build/fuzz/findings/fuzz-b\n'),
    ('ninja: undefined reference\n', 1, '0 passed, 1 failed, 0 skipped', '  fuzz: the build FAILED\n'),
    ('', 0, '0 passed, 1 failed, 0 skipped', '  fuzz: the build FAILED\n'),
])
def test_findings_of_the_fuzz_targets_fail_the_run(project, said, status, last, failure):
    project.write('tools/fuzz', f"#!/bin/sh\nprintf '%s' '{said}'\nexit {status}\n")
    done = project.check('fuzz')
    assert done[:2] == (status or int(bool(failure)), last)
    assert not failure or '\nFailed:\n' + failure in done[2]


def test_results_of_an_earlier_run_count_for_nothing(project):
    project.add('steady', STEADY)
    assert project.check()[:2] == (0, '1 passed, 0 failed, 0 skipped')
    meson = shutil.which('meson')
    project.write('meson', f'#!/bin/sh\n[ "$1" = test ] && exit 3\nexec {meson} "$@"\n')
    path = f'{project.folder}:{os.environ["PATH"]}'
    done = subprocess.run(['tools/check', 'plain'], cwd=project.folder, text=True, capture_output=True, timeout=120, check=False,
                          env={**os.environ, 'CI': '', 'PATH': path})
    assert (done.returncode, done.stdout.rstrip().split('\n')[-1]) == (1, '0 passed, 1 failed, 0 skipped')


def test_what_comes_later_is_prepared_while_the_tests_run(project):
    """The test of the first part passes only once the source was read and the sanitizers' build was made."""
    wanted = [f'[ -e "{project.folder}/{name}" ]' for name in ('linted', 'build/asan/made')]
    project.add('waits', f'for i in $(seq 600); do {" && ".join(wanted)} && exit 0; sleep 0.1; done; exit 1')
    project.meson += "custom_target('made', output: 'made', command: ['touch', '@OUTPUT@'], build_by_default: true)\n"
    project.write('tools/lint', '#!/bin/sh\necho read >>linted\necho "  all of it ok"\n')
    status, last, said = project.check('plain', 'asan', 'lint')
    assert (status, last) == (0, '3 passed, 0 failed, 0 skipped')
    assert said.index('== lint') < said.index('all of it ok')
    assert (project.folder / 'linted').read_text(encoding='utf-8') == 'read\n'  # once


def test_the_sanitizers_build_is_made_beside_the_first_build(project):
    """The first build ends only once the other one is made."""
    project.write('made.sh', '''#!/bin/sh
case $PWD in */main) for i in $(seq 600); do [ -e ../asan/made ] && break; sleep 0.1; done; [ -e ../asan/made ] || exit 1;; esac
touch "$1"
''')
    project.add('steady', STEADY)
    project.meson += "custom_target('made', output: 'made', command: [find_program('./made.sh'), '@OUTPUT@'], build_by_default: true)\n"
    assert project.check('plain', 'asan')[:2] == (0, '2 passed, 0 failed, 0 skipped')


def test_each_suite_runs_in_its_builds(project):
    for suite in ['unit', 'both', 'e2e', 'package', 'part-slow']:
        project.add(suite, STEADY, suite=f"'{suite}'")
    assert project.check('plain')[:2] == (0, '3 passed, 0 failed, 0 skipped')
    assert project.check('asan')[:2] == (0, '3 passed, 0 failed, 0 skipped')
    assert [project.runs(name) for name in ['unit', 'both', 'e2e', 'package', 'part-slow']] == [2, 2, 1, 1, 0]


def test_a_part_that_changed_runs_and_is_recorded_when_all_of_it_passed(project):
    project.add('one', STEADY, suite="'part-whole'")
    project.add('two', STEADY, suite="'part-skipped'")
    project.add('three', ABSENT, suite="'part-skipped'")
    project.add('four', BROKEN, suite="'part-broken'")
    project.write('parts.list', 'part-whole 1\npart-skipped 2\npart-broken 3\n')
    assert project.check()[:2] == (1, '2 passed, 1 failed, 1 skipped')
    assert (project.folder / 'recorded').read_text(encoding='utf-8') == 'passed part-whole 1\n'


def test_all_parts_run_if_that_is_asked_for(project):
    project.add('one', STEADY, suite="'part-one'")
    project.write('all.list', 'part-one\n')
    assert project.check('plain')[0] == 1  # no test at all
    assert project.check('--all', 'plain')[:2] == (0, '1 passed, 0 failed, 0 skipped')
