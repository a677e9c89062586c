# SPDX-License-Identifier: Apache-2.0
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


def commit():
    return run('git', '-C', SOURCE, 'rev-parse', 'HEAD').strip()


@pytest.fixture
def image(tmp_path):
    """The folder of an image with what tools/dist takes of it: a program of each platform, which prints the commit, and the texts."""
    with open(os.path.join(SOURCE, 'deploy/container/packages'), encoding='utf-8') as file:
        linked = [line.split()[1] for line in file if line.startswith('link ')]
    for architecture in ('amd64', 'arm64'):
        root = tmp_path / 'image' / architecture / 'rootfs/usr'
        for name, text in {'bin/warpshare': f'#!/bin/sh\necho {architecture} {commit()}\n', 'share/doc/warpshare/THIRD-PARTY': 'libx 1\n',
                           **{f'share/doc/{one}/copyright': f'of {one}\n' for one in linked}}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding='utf-8')
        (root / 'bin/warpshare').chmod(0o755)
    return tmp_path / 'image'


# What kubernetes-sigs/krew checks of a manifest (internal/index/validation): the keys it must have, and those that select.
def test_krew_installs_the_plugin_of_each_platform_by_its_sum(image, tmp_path):
    folder = tmp_path / 'dist'
    run(os.path.join(SOURCE, 'tools/dist'), '--image', str(image), '--downloads', 'https://example.com/get/', str(folder))
    manifest = yaml.safe_load((folder / 'plugins/warpshare.yaml').read_text(encoding='utf-8'))
    assert (manifest['apiVersion'], manifest['kind']) == ('krew.googlecontainertools.github.com/v1alpha2', 'Plugin')
    assert manifest['metadata'] == {'name': 'warpshare'} and manifest['spec']['version'] == 'v' + version()
    assert len(manifest['spec']['shortDescription'].splitlines()) == 1 and manifest['spec']['homepage'].startswith('https://')
    assert [one['selector']['matchLabels'] for one in manifest['spec']['platforms']] == [
        {'os': 'linux', 'arch': architecture} for architecture in ('amd64', 'arm64')]
    for platform in manifest['spec']['platforms']:
        base, name = os.path.split(platform['uri'])
        content = (folder / name).read_bytes()
        assert base == 'https://example.com/get' and platform['sha256'] == hashlib.sha256(content).hexdigest()
        assert platform['sha256'] in (folder / (name + '.sha256')).read_text(encoding='ascii')
        # What krew does: unpack, move what a pattern finds into one folder, link its bin.
        unpacked, installed = tmp_path / name, tmp_path / (name + '.installed')
        installed.mkdir()
        with tarfile.open(folder / name) as tar:
            tar.extractall(unpacked)
        for move in platform['files']:
            assert move['to'] == '.'
            for path in unpacked.glob(move['from']):
                path.rename(installed / path.name)
        assert run(str(installed / platform['bin'])) == f"{platform['selector']['matchLabels']['arch']} {commit()}\n"
        assert {'LICENSE', 'THIRD-PARTY', 'copyright'} < {path.name for path in installed.iterdir()}
        assert (installed / 'copyright/libuv1-dev').read_text(encoding='utf-8') == 'of libuv1-dev\n'


def test_a_plugin_of_another_commit_or_of_no_image_is_none(image, tmp_path):
    dist = os.path.join(SOURCE, 'tools/dist')
    (image / 'arm64/rootfs/usr/bin/warpshare').write_text('#!/bin/sh\necho old\n', encoding='utf-8')
    for folder, said in ((image, 'is of another commit than'), (tmp_path / 'none', 'has no image: make image')):
        done = subprocess.run([dist, '--image', folder, tmp_path / 'dist'], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and said in done.stderr
        assert not (tmp_path / 'dist/plugins').exists()


def test_artifact_hub_gets_the_id_that_it_gave_and_no_other_text(tmp_path):
    dist = os.path.join(SOURCE, 'tools/dist')
    run(dist, '--artifacthub', '0123abcd-0000-4000-8000-0123456789ab', str(tmp_path))
    assert yaml.safe_load((tmp_path / 'artifacthub-repo.yml').read_text(encoding='utf-8')) == {
        'repositoryID': '0123abcd-0000-4000-8000-0123456789ab'}
    assert {path.name for path in (tmp_path / 'dashboards').iterdir()} == {'cluster.json', 'node.json', 'tenant.json'}
    assert subprocess.run([dist, '--artifacthub', 'x\nowners: []', tmp_path], capture_output=True, check=False).returncode == 2


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
