# SPDX-License-Identifier: Apache-2.0
"""tools/link-order: what a list names lies together, whether the compiler gave it a section or only its object has one."""
import os
import re
import shutil
import subprocess

import pytest

TOOL = os.path.join(os.environ['WARPSHARE_SOURCE'], 'tools/link-order')
SOURCES = {
    'main.c': 'int one(int); int two(int); int three(int);\n'
              'static __attribute__((noinline)) const char *word(int n) { return n ? "often said" : "also"; }\n'
              '__attribute__((noinline)) int seldom(int n) { return n * 3; }\n'
              'int main(int n, char **v) { return one(n) + two(n) + three(n) + seldom(n) + word(n)[0] + v[0][0]; }\n',
    'one.c': 'int one(int n) { return n + 1; }\n', 'two.c': 'int two(int n) { return n + 2; }\n', 'three.c': 'int three(int n) { return n + 3; }\n'}


def run(folder, *command):
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def program(tmp_path):
    """Of a list: {section: (from, to)} and {function: address} of a program that is linked by it."""
    if not shutil.which('gcc') or 'GNU ld' not in run(tmp_path, 'ld', '--version'):
        pytest.skip('no GNU ld')
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text, encoding='utf-8')
        sections = ['-ffunction-sections', '-fdata-sections'] if name == 'main.c' else []
        run(tmp_path, 'gcc', '-O2', '-c', *sections, name)
    run(tmp_path, 'ar', 'qc', 'libsome.a', 'one.o', 'two.o', 'three.o')

    def link(text):
        (tmp_path / 'list').write_text(text, encoding='utf-8')
        (tmp_path / 'list.ld').write_text(run(tmp_path, TOOL, 'list'), encoding='utf-8')
        run(tmp_path, 'gcc', '-o', 'program', '-Wl,-T,list.ld', 'main.o', 'libsome.a')
        subprocess.run([tmp_path / 'program'], check=False, timeout=10)
        found = re.findall(r'\[ *\d+\] (\.\S+) +\w+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)', run(tmp_path, 'readelf', '-SW', 'program'))
        places = {name: (int(address, 16), int(address, 16) + int(size, 16)) for name, address, size in found}
        symbols = {name: int(address, 16) for address, name in re.findall(r'^(\w+) [tT] (\w+)$', run(tmp_path, 'nm', 'program'), re.MULTILINE)}
        return places, symbols, (tmp_path / 'program').read_bytes()
    return link


def inside(place, address):
    return place[0] <= address < place[1]


def test_functions_objects_and_their_texts_are_placed_together(program):
    places, symbols, content = program('# what runs\nword libsome.a:t*.o\nstartup.main\n')
    assert {name for name in ('one', 'two', 'three', 'word', 'main', 'seldom') if inside(places['.text.often'], symbols[name])} == {
        'two', 'three', 'word', 'main'}
    assert inside(places['.text'], symbols['seldom']) and inside(places['.text'], symbols['one'])
    assert inside(places['.rodata.often'], content.index(b'often said'))


def test_a_name_that_nothing_has_changes_nothing(program):
    places, symbols, _ = program('nobody libother.a:*\n')
    assert '.text.often' not in places and inside(places['.text'], symbols['one'])


def test_no_page_of_texts_can_be_executed(program, tmp_path):
    program('word\n')
    for line in run(tmp_path, 'readelf', '-lW', 'program').splitlines():
        assert not re.search(r'LOAD.*RWE', line)
    names = re.findall(r'^ +\d+ +(.*)$', run(tmp_path, 'readelf', '-lW', 'program').split('Segment Sections')[1], re.MULTILINE)
    assert [part for part in names if '.rodata.often' in part and '.text' in part] == []
