# SPDX-License-Identifier: Apache-2.0
"""tools/check-layers over a tree of a few files: what goes past the layers is found, wherever it stands."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])

# What the others use, or may not use: a layer with a header and what it declares.
PLAN = {
    'src/plan/plan.h': '#pragma once\nint plan_build(int units);\nextern const int plan_most;\n',
    'src/plan/plan.c': '#include "plan/plan.h"\n\nconst int plan_most = 7;\n\nint plan_build(int units)\n{\n        return units;\n}\n',
}


@pytest.fixture
def faults():
    """A function: from files by name to what the check says of them, line by line."""
    with tempfile.TemporaryDirectory(prefix='warpshare-layers-') as name:
        root = pathlib.Path(name)

        def check(files, *words):
            for path, text in {**PLAN, **files}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding='utf-8')
            (root / 'tools').mkdir()
            (root / 'sim').mkdir()
            shutil.copy(SOURCE / 'tools/check-layers', root / 'tools')
            done = subprocess.run([root / 'tools/check-layers', *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=60, check=False)
            assert done.returncode == bool(done.stdout), done.stdout
            return [line.removeprefix('check-layers: ') for line in done.stdout.splitlines()]

        yield check


def test_what_may_be_included_is_no_fault(faults):
    assert not faults({'src/node/kubelet/plugin.c': '#include "plan/plan.h"\n'})


def test_an_include_of_a_layer_above_is_a_fault(faults):
    assert faults({'src/gpu/health.c': '#include "plan/plan.h"\n'}) == [
        'src/gpu/health.c: includes "plan/plan.h": src/gpu may not use src/plan']


def test_a_folder_in_a_layer_is_held_to_its_rule(faults):
    assert faults({'src/gpu/health/xid.c': '#include "plan/plan.h"\n'}) == [
        'src/gpu/health/xid.c: includes "plan/plan.h": src/gpu may not use src/plan']


def test_a_file_of_a_folder_in_a_layer_is_a_file_of_the_layer(faults):
    assert faults({
        'src/plan/pattern/match.h': '#pragma once\n',
        'src/plan/several.c': '#include "plan/pattern/match.h"\n',
        'src/gpu/health.c': '#include "plan/pattern/match.h"\n',
    }) == ['src/gpu/health.c: includes "plan/pattern/match.h": src/gpu may not use src/plan']


def test_a_folder_that_is_a_layer_itself_has_a_rule_of_its_own(faults):
    files = {
        'src/mps/wire/status.h': '#pragma once\n',
        'src/mps/wire/status.c': '#include "mps/supervisor/supervisor.h"\n',
        'src/mps/supervisor/supervisor.h': '#pragma once\n#include "mps/wire/status.h"\n',
    }
    assert faults(files) == ['src/mps/wire/status.c: includes "mps/supervisor/supervisor.h": src/mps/wire may not use src/mps/supervisor']


@pytest.mark.parametrize('folder', ['src/other', 'src/other/deep', 'src/mps', 'src/mps/other'])
def test_a_folder_that_belongs_to_no_layer_is_a_fault(folder, faults):
    assert faults({folder + '/file.c': ''}) == [
        folder + ': is no layer; add it to tools/check-layers and docs/architecture.md']


@pytest.mark.parametrize('declaration, name', [
    ('extern int plan_build(int units);', 'plan_build'),
    ('int plan_build(int units);', 'plan_build'),
    ('extern const int plan_most;', 'plan_most'),
])
@pytest.mark.parametrize('path', ['src/gpu/health.c', 'src/gpu/health.h', 'src/node/kubelet/plugin.c'])
def test_what_another_layer_defines_is_not_declared_past_its_header(path, declaration, name, faults):
    """Not where the header may be included, either: it would not be compared with what it declares."""
    assert faults({path: declaration + '\n'}) == [
        f'{path}: declares {name}, which src/plan defines; include its header']


def test_what_the_same_layer_or_nobody_of_us_defines_may_be_declared(faults):
    assert not faults({
        'src/plan/pattern.h': '#pragma once\nint several_read(const char *text);\n',
        'src/plan/several.c': 'extern char **environ;\n\nint several_read(const char *text)\n{\n        return *text;\n}\n',
    })


def test_what_only_looks_like_a_declaration_is_none(faults):
    """A call, a static function of the same name, a comment, a string."""
    assert not faults({
        'src/gpu/health.c': '/* extern int plan_build(int units); */\nstatic int plan_build(int units);\n\n'
                            'static const char text[] = "extern const int plan_most;";\n\n'
                            'int health(void)\n{\n        plan_build(1);\n        return text[0];\n}\n\n'
                            'static int plan_build(int units)\n{\n        return units;\n}\n'})


def test_a_header_of_a_folder_in_a_layer_has_to_compile_alone(faults):
    said = faults({'src/plan/pattern/match.h': '#pragma once\nint match(size_t length);\n'}, '--headers', 'build')
    assert said[0] == 'src/plan/pattern/match.h: does not compile alone:' and 'size_t' in '\n'.join(said)


def test_more_arrows_between_rooms_than_a_reader_can_keep_in_mind_are_a_fault(faults):
    rooms = ['base', 'net/http', 'config', 'gpu', 'plan', 'mig', 'mps/wire', 'node/cdi', 'agent', 'cluster', 'cmd']
    files = {f'src/{room}/room.h': '#pragma once\n' for room in rooms}
    files |= {f'src/{room}/all.c': ''.join(f'#include "{other}/room.h"\n' for other in rooms) for room in rooms}
    assert 'the rooms of src have 110 arrows, must be at most 45' in faults(files)


def test_a_header_called_parts_is_a_fault(faults):
    assert faults({'src/gpu/monitor_parts.h': '#pragma once\n'}) == [
        'src/gpu/monitor_parts.h: is called parts; give each concept a header of its own']


@pytest.mark.parametrize('members, said', [
    (20, []),
    (21, ['src/gpu/monitor.h: struct monitor has 21 members, must have at most 20']),
])
def test_a_struct_that_several_files_share_has_members_that_a_reader_can_keep_in_mind(members, said, faults):
    """A function pointer is one, and so is a struct in it; names after one type are as many as they are."""
    lines = ['int (*done)(int status, void *data); /* a; b; c; */', 'struct { int x; int y; } place;', 'unsigned int first, second;']
    lines += [f'int member_{i};' for i in range(members - 4)]
    assert faults({'src/gpu/monitor.h': '#pragma once\nstruct monitor {\n' + ''.join(f'        {line}\n' for line in lines) + '};\n'}) == said
