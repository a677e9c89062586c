# SPDX-License-Identifier: Apache-2.0
"""tools/release-check: a commit that may become a release, and one thing at a time that is missing."""
import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
READY = {
    'meson.build': "project('x',\n  version: '1.2.3',\n)\nrelease_date = '2026-12-24' # of the version above\n",
    'deploy/helm/warpshare/Chart.yaml': 'name: warpshare\nversion: 1.2.3\nappVersion: "1.2.3"\n',
    'CHANGELOG.md': '# Changes\n\n## 1.2.3 (2026-12-24)\n\n- All.\n\n## 1.2.2 (2026-12-01)\n',
    'docs/upgrade.md': '# Upgrade\n\n## To 1.2.3\n\nNothing.\n',
    'README.md': '**Status: 1.2.3.**\n',
    'LICENSE': 'Free.\n',
    'deploy/monitoring/dashboards.yaml': '{}\n',
    'HACKING.md': '## Unstable tests\n\nNone is known.\n\n## Commands\n',
}


class Project:
    def __init__(self, folder):
        self.folder = folder
        (folder / 'tools').mkdir()
        for name in ('release-check', 'dist', 'dashboards'):
            shutil.copy(SOURCE / 'tools' / name, folder / 'tools' / name)
        for name, text in READY.items():
            self.write(name, text)
        self.git('init', '--quiet')
        self.commit()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')

    def git(self, *arguments):
        subprocess.run(['git', '-C', self.folder, '-c', 'user.name=A', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false',
                        '-c', 'tag.gpgsign=false', *arguments], check=True, capture_output=True)

    def commit(self):
        self.git('add', '--all')
        self.git('commit', '--quiet', '--message', 'one')

    def check(self):
        """Its status, and what failed."""
        done = subprocess.run([self.folder / 'tools/release-check'], capture_output=True, text=True, check=False, timeout=120)
        lines = done.stdout.splitlines()
        assert not done.stderr and len([line for line in lines if line.startswith(('ok ', 'FAILED '))]) == 9, done
        assert ('git tag -s v1.2.3' in done.stdout) == (done.returncode == 0)
        return done.returncode, [line.removeprefix('FAILED  ') for line in lines if line.startswith('FAILED')]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_commit_that_is_ready_passes_and_the_next_commands_are_named(project):
    project.git('tag', 'v1.2.2', '--message', 'before')
    project.write('README.md', '**Status: 1.2.3.** More.\n')
    project.commit()
    assert project.check() == (0, [])


@pytest.mark.parametrize('name, old, new, failed', [
    ('deploy/helm/warpshare/Chart.yaml', 'appVersion: "1.2.3"', 'appVersion: 1.2.2', ['the chart has that version']),
    ('CHANGELOG.md', '## 1.2.3 (2026-12-24)', '## 1.2.3 (unreleased)', ['the newest entry', 'its date']),
    ('CHANGELOG.md', '2026-12-24', '2026-12-25', ['its date is that of meson.build']),
    ('docs/upgrade.md', '## To 1.2.3', '## To 1.2.2', ['docs/upgrade.md says what to do']),
    ('README.md', '1.2.3.', '1.2.3, not released.', ['README.md does not call it unreleased']),
    ('HACKING.md', 'None is known.', '- `e2e/x`: fails', ['no test is unstable']),
])
def test_what_is_missing_is_named(project, name, old, new, failed):
    project.write(name, READY[name].replace(old, new))
    project.commit()
    status, found = project.check()
    assert status == 1 and [line for line, begin in zip(found, failed) if line.startswith(begin)] == found and len(found) == len(failed), found


def test_what_is_not_committed_or_has_its_tag_already_is_no_release(project):
    project.write('new', 'x')
    assert project.check()[1] == ['everything is committed: commit it, or put it away']
    project.commit()
    project.git('tag', 'v1.2.3', '--message', 'it')
    assert project.check()[1][0].startswith('a version of its own: 1.2.3, after v1.2.3: raise it')
