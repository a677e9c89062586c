# SPDX-License-Identifier: Apache-2.0
"""tools/site: the manual as a site. Its links are followed in what it has made, and a link that leads nowhere makes none."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])

pytest.importorskip('markdown_it', reason='Debian: python3-markdown-it')


def make(folder, source=SOURCE):
    return subprocess.run([SOURCE / 'tools/site', folder], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, 'WARPSHARE_SOURCE': str(source)})


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp('site') / 'site'
    done = make(folder)
    assert done.returncode == 0 and done.stdout == f'{folder}/index.html\n', done.stderr
    return folder


class Links(html.parser.HTMLParser):
    """loaded: what a browser fetches by itself; links: where it may go; ids: where one may come to."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.ids, self.menu, self.in_menu = [], [], set(), set(), False
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.in_menu = self.in_menu or tag == 'nav'
        self.ids.add(attributes.get('id'))
        if tag == 'a':
            self.links.append(attributes['href'])
            if self.in_menu:
                self.menu.add(attributes['href'])
        elif 'src' in attributes or tag == 'link':
            self.loaded.append(attributes.get('src') or attributes['href'])

    def handle_endtag(self, tag):
        self.in_menu = self.in_menu and tag != 'nav'


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Links(path) for path in site.rglob('*.html')}
    assert len(pages) > 25
    for path, page in pages.items():
        assert len(page.loaded) >= 3
        for target in page.loaded:
            assert (path.parent / target).is_file(), (path, target)
        for target in page.links:
            if target.startswith(('http://', 'https://')):
                continue
            name, _, anchor = target.partition('#')
            there = (path.parent / name).resolve() if name else path
            assert there.is_file(), (path, target)
            assert not anchor or anchor in pages[there].ids, (path, target)


def test_every_page_is_in_the_menu_of_every_page(site):
    pages = {path.relative_to(site) for path in site.rglob('*.html')}
    assert len(pages) == len(list((SOURCE / 'docs').rglob('*.md'))) + 1  # CHANGELOG.md
    for path in pages:
        found = {(site / path.parent / target).resolve().relative_to(site.resolve()) for target in Links(site / path).menu}
        assert found == pages, path


@pytest.mark.skipif(not shutil.which('node'), reason='needs node, which runs the search as a browser does')
@pytest.mark.parametrize('query, page', [
    ('hostPID usage', 'metrics.html'), ('UNHEALTHY xid', 'health.html'), ('helm rollback', 'upgrade.html'), ('maxPerRequest', 'mps.html')])
def test_the_search_finds_what_has_every_word(site, query, page):
    program = f'{(site / "index.js").read_text()}{(site / "search.js").read_text()}' \
        f'console.log(JSON.stringify([search(sections, {json.dumps(query)}, 20), search(sections, "no such words zzz", 20), search(sections, " ", 20)]));'
    found, nothing, blank = json.loads(subprocess.run(['node', '-'], input=program, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert page in {one[0] for one in found} and not nothing and not blank
    for section in found:
        assert all(word in ' '.join(section).lower() for word in query.lower().split())


@pytest.mark.parametrize('text, fault', [
    ('[x](gone.md)', 'docs/a.md: there is no gone.md'), ('[x](README.md#no)', 'docs/a.md: docs/README.md has no heading #no'),
    ('[x](#no)', 'docs/a.md: docs/a.md has no heading #no'), ('![x](gone.svg)', 'docs/a.md: there is no gone.svg'),
    ('[x](../docs)', 'docs/a.md: ../docs is a folder, which a site cannot show'), ('[x](README.md#yes) and [y](https://example.com/)', None)])
def test_a_link_that_leads_nowhere_is_named(tmp_path, text, fault):
    (tmp_path / 'source/docs/site').mkdir(parents=True)
    for name in ('search.js', 'style.css'):
        shutil.copy(SOURCE / 'docs/site' / name, tmp_path / 'source/docs/site')
    for name, content in (('meson.build', "  version: '1.2.3',\n"), ('CHANGELOG.md', '# Changes\n'), ('docs/a.md', f'# A\n\n{text}\n'),
                          ('docs/README.md', '# Manual\n\n## Yes\n\n| page |\n| --- |\n| [a.md](a.md) |\n')):
        (tmp_path / 'source' / name).write_text(content, encoding='utf-8')
    done = make(tmp_path / 'site', tmp_path / 'source')
    assert (done.returncode, done.stderr.strip()) == ((1, fault) if fault else (0, ''))
    assert (tmp_path / 'site').exists() == (not fault)
    (tmp_path / 'source/docs/b.md').write_text('# B\n', encoding='utf-8')
    assert 'docs/README.md does not name docs/b.md' in make(tmp_path / 'other', tmp_path / 'source').stderr
