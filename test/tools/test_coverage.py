# SPDX-License-Identifier: Apache-2.0
"""tools/coverage: the table that it makes of what LLVM counts, without running anything."""
import importlib.machinery
import importlib.util
import os
import pathlib

LOADER = importlib.machinery.SourceFileLoader('coverage_table', str(pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'tools/coverage'))
TOOL = importlib.util.module_from_spec(importlib.util.spec_from_loader('coverage_table', LOADER))
LOADER.exec_module(TOOL)

BOTH = {'plan/plan.c': (100, 90), 'plan/share.c': (50, 50), 'mps/wire/message.c': (10, 5), 'mps/client/link.c': (10, 0)}
UNIT = {'plan/plan.c': (100, 80), 'plan/share.c': (50, 40), 'mps/wire/message.c': (10, 5)}
FUZZ = {'plan/plan.c': (100, 10), 'plan/share.c': (50, 50)}


def test_lines_are_added_up_by_layer_and_the_worst_files_are_named():
    assert TOOL.table(UNIT, FUZZ, BOTH)[2:] == [
        '| mps/client | 10 | 0 % | 0 % | 0 % | `link.c` 10 |',
        '| mps/wire | 10 | 50 % | 0 % | 50 % | `message.c` 5 |',
        '| plan | 150 | 80 % | 40 % | 93 % | `plan.c` 10 |',
        '| all | 170 | 73 % | 35 % | 85 % |  |',
    ]


def test_no_more_files_are_named_than_help():
    both = {f'gpu/{name}.c': (10, 10 - at) for at, name in enumerate('abcdef')}
    assert TOOL.table({}, {}, both)[2].endswith('| 75 % | `f.c` 5, `e.c` 4, `d.c` 3 |')


def test_a_folder_in_a_room_is_a_layer_of_its_own_but_a_commands():
    assert [TOOL.layer_of(path) for path in ('mps/wire/status.c', 'node/dra/driver.c', 'cmd/plan/plan.c', 'base/map.h')] == ['mps/wire', 'node/dra', 'cmd', 'base']
