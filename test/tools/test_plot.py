# SPDX-License-Identifier: Apache-2.0
"""tools/plot: figures as a picture. And each picture in docs/pictures that was drawn of figures is what they are drawn as today."""
import json
import os
import pathlib
import subprocess
from xml.etree import ElementTree

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
PICTURES = SOURCE / 'docs/pictures'
SVG = '{http://www.w3.org/2000/svg}'


def plot(*arguments):
    return subprocess.run([SOURCE / 'tools/plot', *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def drawn(folder, **picture):
    (folder / 'data.json').write_text(json.dumps(picture), encoding='utf-8')
    done = plot(folder / 'data.json')
    assert done.returncode == 0, done.stderr
    return ElementTree.fromstring(done.stdout)


def texts(tree):
    return [one.text for one in tree.iter(SVG + 'text')]


def heights(tree, kind):
    """The y of each mark that is a circle of this class."""
    return [float(one.get('cy')) for one in tree.iter(SVG + 'circle') if one.get('class') == kind]


LINES = {'title': 'Start', 'x': {'title': 'devices'}, 'y': {'title': 'ms'}, 'lines': [{'name': 'a', 'points': [[0, 0], [50, 10], [100, 20]]}]}


def test_equal_steps_of_values_are_equal_steps_of_pixels(tmp_path):
    _, first, second, third = heights(drawn(tmp_path, charts=[LINES]), 'c0')  # the first mark is the legend's
    assert first > second > third and first - second == pytest.approx(second - third)


def test_equal_factors_are_equal_steps_on_a_logarithmic_axis(tmp_path):
    chart = {'title': 'x', 'y': {'log': True}, 'lines': [{'name': 'a', 'points': [[1, 1], [2, 10], [3, 100]]}]}
    _, first, second, third = heights(drawn(tmp_path, charts=[chart]), 'c0')
    assert first > second > third and first - second == pytest.approx(second - third)


def test_a_limit_is_inside_the_picture_with_its_name(tmp_path):
    tree = drawn(tmp_path, charts=[{**LINES, 'limits': [{'name': 'budget', 'at': 90}]}])
    assert 'budget' in texts(tree) and '100' in texts(tree)


def test_a_bar_is_as_long_as_its_value_and_says_it(tmp_path):
    tree = drawn(tmp_path, charts=[{'title': 'x', 'bars': [{'name': 'a', 'values': {'one': 1500}}, {'name': 'b', 'values': {'one': [3000, 2900, 3100]}}]}])
    short, long = [float(one.get('width')) for one in tree.iter(SVG + 'rect') if one.get('class').startswith('bar')]
    assert long == pytest.approx(2 * short, rel=0.01)
    assert {'1,500', '3,000', 'a', 'b', 'one'} <= set(texts(tree))


def test_what_was_not_measured_is_no_bar_of_zero(tmp_path):
    tree = drawn(tmp_path, charts=[{'title': 'x', 'bars': [{'name': 'a', 'values': {'one': 5}}, {'name': 'b', 'values': {'one': None}}]}])
    assert 'not measured' in texts(tree)
    assert len([one for one in tree.iter(SVG + 'rect') if one.get('class').startswith('bar')]) == 1


def test_a_name_has_one_colour_in_all_charts(tmp_path):
    other = {'title': 'y', 'lines': [{'name': 'b', 'points': [[1, 1]]}, {'name': 'a', 'points': [[2, 2]]}]}
    tree = drawn(tmp_path, charts=[LINES, other])
    assert len(heights(tree, 'c0')) == 4 + 2  # with the legends'


def test_a_table_is_a_chart_of_lines(tmp_path):
    (tmp_path / 'data.csv').write_text('nodes,before,after\n10,5,3\n20,10,\n', encoding='utf-8')
    done = plot('--title', 'Herd', '--y', 'requests/s', tmp_path / 'data.csv')
    assert done.returncode == 0, done.stderr
    assert {'Herd', 'requests/s', 'nodes', 'before', 'after'} <= set(texts(ElementTree.fromstring(done.stdout)))


def test_zero_has_no_place_on_a_logarithmic_axis(tmp_path):
    (tmp_path / 'data.json').write_text(json.dumps({'charts': [{'title': 'x', 'y': {'log': True}, 'lines': [{'name': 'a', 'points': [[1, 0]]}]}]}))
    done = plot(tmp_path / 'data.json')
    assert done.returncode == 1 and 'logarithmic' in done.stderr


@pytest.mark.parametrize('name', sorted(path.stem for path in PICTURES.glob('*.json')))
def test_the_picture_of_figures_is_as_they_are(name):
    data = PICTURES / f'{name}.json'
    assert data.with_suffix('.svg').read_text(encoding='utf-8') == plot(data).stdout, f'stale; run: tools/plot docs/pictures/{name}.json >docs/pictures/{name}.svg'
