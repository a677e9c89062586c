"""The source archive is enough: it builds where there is no repository, and is the same whenever it is made."""
import hashlib
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile

import pytest
import yaml

SOURCE = os.environ['WARPSHARE_SOURCE']


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, (words, done.stdout[-4000:])
    return done.stdout


@pytest.fixture
def folder():
    """pytest keeps its own of the last runs; a build is too large for that."""
    with tempfile.TemporaryDirectory(prefix='warpshare-dist-') as path:
        yield pathlib.Path(path)


@pytest.fixture(scope='module')
def archive(tmp_path_factory):
    if subprocess.run(['git', '-C', SOURCE, 'rev-parse', 'HEAD'], capture_output=True, check=False).returncode:
        pytest.skip('no repository to make an archive of')
    folder = tmp_path_factory.mktemp('dist')
    return run(os.path.join(SOURCE, 'tools/dist'), str(folder)).splitlines()[-1]


def version():
    with open(os.path.join(SOURCE, 'meson.build'), encoding='utf-8') as file:
        return re.search(r"^  version: '([^']+)'", file.read(), re.MULTILINE).group(1)


def chart_of(archive):
    return os.path.join(os.path.dirname(archive), f'warpshare-{version()}.tgz')


def test_the_chart_is_packed_as_helm_packs_it(archive):
    with tarfile.open(chart_of(archive)) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar.getmembers() if one.isfile()}
    root = os.path.join(SOURCE, 'deploy/helm')
    tracked = run('git', '-C', root, 'ls-tree', '-r', '--name-only', 'HEAD', 'warpshare').splitlines()
    assert set(files) == set(tracked) and 'warpshare/Chart.yaml' in files
    for name, content in files.items():
        assert content.decode() == run('git', '-C', root, 'show', f'HEAD:./{name}'), name
    with open(chart_of(archive), 'rb') as file, open(chart_of(archive) + '.sha256', encoding='ascii') as named:
        assert named.read().split()[0] == hashlib.sha256(file.read()).hexdigest()


def test_who_publishes_the_chart_names_the_own_addresses(tmp_path):
    dist = os.path.join(SOURCE, 'tools/dist')
    run(dist, '--home', 'https://example.com/', '--source', 'https://example.com/git', str(tmp_path))
    with tarfile.open(tmp_path / f'warpshare-{version()}.tgz') as tar:
        chart = yaml.safe_load(tar.extractfile('warpshare/Chart.yaml'))
    assert (chart['home'], chart['sources']) == ('https://example.com/', ['https://example.com/git'])
    assert chart['icon'].startswith('data:image/svg+xml;base64,')
    for words in (('--home', 'example.com'), ('--to', 'https://example.com/')):
        assert subprocess.run([dist, *words, str(tmp_path)], capture_output=True, check=False).returncode == 2
    assert subprocess.run([dist, '--hom'], capture_output=True, check=False).returncode == 2
    assert 'usage: tools/dist [--home URL]' in run(dist, '--help')


def test_the_archive_is_named_by_the_version_and_has_its_sum(archive):
    assert os.path.basename(archive) == 'warpshare-%s.tar.xz' % version()
    with open(archive, 'rb') as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(archive + '.sha256', encoding='ascii') as file:
        assert file.read() == '%s  %s\n' % (digest, os.path.basename(archive))


def test_the_archive_is_the_same_each_time(archive, tmp_path):
    again = run(os.path.join(SOURCE, 'tools/dist'), str(tmp_path)).splitlines()[-1]
    for first, second in ((archive, again), (chart_of(archive), chart_of(again))):
        with open(first, 'rb') as one, open(second, 'rb') as other:
            assert one.read() == other.read()


def test_the_archive_builds_without_a_repository(archive, folder):
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        tar.extractall(folder)
    root = folder / ('warpshare-' + version())
    assert {name.split('/')[0] for name in names} == {root.name}
    assert not (root / '.git').exists() and not (root / 'build').exists()
    for name in ('CHANGELOG.md', 'LICENSE', 'README.md', 'docs/architecture.md'):
        assert (root / name).is_file(), name
    # As deep as where we stand ourselves, so that ccache, where there is one, knows the objects.
    environment = {**os.environ, 'CCACHE_NOHASHDIR': 'yes'}
    run('meson', 'setup', 'build/main', cwd=root, env=environment)
    run('ninja', '-C', 'build/main', 'src/cmd/warpshare', 'src/cmd/nvidia-device-plugin', 'tools/manual/man1', cwd=root,
        env=environment)
    assert run(str(root / 'build/main/src/cmd/warpshare'), '--version') == 'warpshare %s\n' % version()
    commit = run('git', '-C', SOURCE, 'rev-parse', 'HEAD').strip()
    assert run(str(root / 'build/main/src/cmd/nvidia-device-plugin'), '--version').splitlines()[1] == 'commit: ' + commit


def test_the_changelog_knows_the_version():
    with open(os.path.join(SOURCE, 'CHANGELOG.md'), encoding='utf-8') as file:
        newest = re.search(r'^## (\S+)', file.read(), re.MULTILINE).group(1)
    assert newest == version()
