# SPDX-License-Identifier: Apache-2.0
"""What nobody builds rots: each target of the Makefile, and each command of HACKING.md, has its place in `make check`."""
import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
MAKEFILE = (SOURCE / 'Makefile').read_text(encoding='utf-8')
HACKING = (SOURCE / 'HACKING.md').read_text(encoding='utf-8')
CHECK = (SOURCE / 'tools/check').read_text(encoding='utf-8')

# Where `make check` does what a target does: a configuration of tools/check, or a test of the plain one.
DONE_BY = {
    'all': 'plain', 'asan': 'asan', 'bench': 'bench/rehearsal', 'bootstrap': 'check', 'check': 'check', 'clean': None, 'cluster': 'cluster/parts', 'coverage': 'tools/others', 'dist': 'package/dist',
    'fmt': 'lint', 'fuzz': 'fuzz', 'gpu': 'e2e/gpu_rehearsal', 'help': 'tools/others', 'image': 'image/image', 'lint': 'lint', 'manifests': 'helm/chart',
    'picture': 'e2e/commands', 'plain': 'plain', 'release-check': 'tools/others', 'run': 'docs/pages', 'site': 'docs/site', 'soak': 'soak/everything', 'unit': 'plain',
    'valgrind': 'soak/valgrind',
}


# `make check` runs these tests from a recipe: what that make hands down would make each make below a sub-make, with words of its own.
ALONE = {name: value for name, value in os.environ.items() if name not in ('MAKEFLAGS', 'MAKELEVEL', 'MFLAGS')}


def targets():
    return re.search(r'^\.PHONY: (.*)', MAKEFILE, re.MULTILINE).group(1).split()


def names_of_tests():
    """The names in the files that Meson reads, and those that it puts together from its list of end-to-end tests."""
    listed = {'e2e/' + path.stem.removeprefix('test_') for path in (SOURCE / 'test/e2e').glob('test_*.py')}
    return listed | {name for path in SOURCE.glob('*/**/meson.build')
            for name in re.findall(r"^ *test\('([\w/]+)'", path.read_text(encoding='utf-8'), re.MULTILINE)}


def configurations():
    """What tools/check does without arguments."""
    return set(re.findall(r"'(\w+)'(?=: \[)", re.search(r'^COMMANDS = (.*?)\}$', CHECK, re.MULTILINE | re.DOTALL).group(1)))


def test_each_target_has_its_place_in_the_check():
    assert set(targets()) == set(DONE_BY)
    assert set(re.findall(r'^([a-z-]+):', MAKEFILE, re.MULTILINE)) == set(targets())
    places = {place for place in DONE_BY.values() if place} - {'check'}
    assert places <= configurations() | names_of_tests() | {'tools/check', 'tools/others'}


def test_help_names_each_target():
    said = subprocess.run(['make', 'help'], cwd=SOURCE, env=ALONE, capture_output=True, text=True, timeout=60, check=True).stdout
    assert {line.split()[0] for line in said.splitlines()} == set(targets())


@pytest.mark.parametrize('target', targets())
def test_make_knows_how_to_make_it(target):
    subprocess.run(['make', '--dry-run', target], cwd=SOURCE, env=ALONE, capture_output=True, timeout=60, check=True)


def test_the_commands_of_the_manual_for_developers():
    loop = re.search(r'^## The loop\n(.*?)^## ', HACKING, re.MULTILINE | re.DOTALL).group(1)
    words = re.findall(r'^make +([a-z-]+)\b', loop, re.MULTILINE)
    assert words and set(words) <= set(targets())
    program, name = re.search(r'`build/main/(test/unit/\S+)`,\s+or `meson test -C build/main (\S+)`', loop).groups()
    folder, test = program.rsplit('/', 1)
    assert f"'{name.rsplit('/', 1)[1]}'" in (SOURCE / folder / 'meson.build').read_text(encoding='utf-8')
    assert test == 'test-' + name.replace('/', '-')


def fuzz_targets():
    """By their sources: those of their own, and the models among the unit tests (test/unit/chance.h). No name has the room of the node."""
    sources = [path.relative_to(SOURCE / 'test/fuzz') for path in (SOURCE / 'test/fuzz').glob('*/*.c')]
    models = [path.relative_to(SOURCE / 'test/unit') for path in (SOURCE / 'test/unit').glob('**/*.c')
              if 'FUZZ_MODEL(' in path.read_text(encoding='utf-8')]
    return {'-'.join(path.with_suffix('').parts).removeprefix('node-').replace('_', '-') for path in sources + models}


def test_each_fuzz_target_is_listed():
    """A source that no list names would never be built."""
    assert fuzz_targets() == set(re.findall(r"^    '([a-z-]+)': \[", (SOURCE / 'test/fuzz/meson.build').read_text(encoding='utf-8'), re.MULTILINE))


def test_each_fuzz_target_has_something_to_begin_with():
    assert {path.name for path in (SOURCE / 'test/fuzz/corpus').iterdir()} == {
        name for name in fuzz_targets() if not name.startswith('rpc-')}  # its seeds are what kubelet sent
