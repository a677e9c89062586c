# SPDX-License-Identifier: Apache-2.0
"""tools/check-spdx over a repository of a few files: what says no licence is named, with the line that it lacks."""
import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
LINE = 'SPDX-License-Identifier: Apache-2.0'


@pytest.fixture
def faults(tmp_path):
    """A function: from files by name to what the check says of them, line by line."""
    def check(files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding='utf-8')
        (tmp_path / 'tools').mkdir(exist_ok=True)
        shutil.copy(SOURCE / 'tools/check-spdx', tmp_path / 'tools')
        subprocess.run(['git', 'init', '--quiet', tmp_path], check=True)
        subprocess.run(['git', '-C', tmp_path, 'add', '--all'], check=True)
        done = subprocess.run([tmp_path / 'tools/check-spdx'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        assert done.returncode == bool(done.stdout), done.stdout
        return [line.removeprefix('check-spdx: ') for line in done.stdout.splitlines()]
    return check


SOUND = {
    'src/a.c': f'// {LINE}\nint a;\n', 'tools/run': f'#!/bin/sh\n# {LINE}\ntrue\n', 'page.html': f'<!doctype html>\n<!-- {LINE} -->\n',
    'page.css': f'/* {LINE} */\n', 'deploy/helm/x/templates/a.yaml': f'{{{{- /* {LINE} */ -}}}}\nkind: Pod\n',
    'a.yaml': f'# {LINE}\na: 1\n'}


def test_each_kind_of_file_says_its_licence_in_its_own_form(faults):
    assert not faults(SOUND)


@pytest.mark.parametrize('path', SOUND)
def test_a_file_without_the_line_is_named_with_the_line(faults, path):
    lines = SOUND[path].splitlines(keepends=True)
    line = next(one for one in lines if LINE in one)
    found, = faults({**SOUND, path: ''.join(one for one in lines if one != line)})
    assert found == f"{path}: has no line '{line.strip()}' among its first 3"


@pytest.mark.parametrize('text', ['int a;\n' * 3 + f'// {LINE}\n', '// SPDX-License-Identifier: MIT\n', f'# {LINE}\n'])
def test_a_line_that_is_too_late_or_another_is_none(faults, text):
    assert len(faults({'src/a.c': text})) == 1


def test_recordings_and_what_is_made_say_none(faults):
    assert not faults({'test/fixtures/a.yaml': 'a: 1\n', 'test/fuzz/corpus/x/map': 'b', 'deploy/manifests/mps.yaml': 'a: 1\n', 'a.md': '# A\n',
                       'a.json': '{}\n'})


def test_a_kind_that_is_not_known_is_a_fault_and_not_exempt(faults):
    found, = faults({'src/a.zig': 'const a = 1;\n'})
    assert found.startswith('src/a.zig: is of a kind that is not known')
