# SPDX-License-Identifier: Apache-2.0
"""What is in the image, and that each of its commands starts there, with nothing else around it."""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tarfile
import urllib.parse

import pytest

from image import ENVIRONMENT, ROOTFS, SOURCE, needs_containers

ARCHIVE = os.environ['WARPSHARE_IMAGE']
BUDGET = 10e6  # bytes, compressed: DESIGN.md section 11
LINKS = ('nvidia-device-plugin', 'mps-control-daemon', 'gpu-feature-discovery', 'config-manager', 'nvidia-mig-parted', 'nvidia-mig-manager',
         'kubectl-warpshare')


@pytest.fixture(scope='module')
def blobs():
    with tarfile.open(ARCHIVE) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


def blob(blobs, descriptor):
    data = blobs['blobs/sha256/' + descriptor['digest'][len('sha256:'):]]
    assert len(data) == descriptor['size']
    return data


def manifest_of(blobs):
    return json.loads(blob(blobs, json.loads(blobs['index.json'])['manifests'][0]))


def read(*parts):
    with open(os.path.join(SOURCE, *parts), encoding='utf-8') as file:
        return file.read()


def test_the_archive_is_an_oci_layout_whose_digests_are_right(blobs):
    assert json.loads(blobs['oci-layout']) == {'imageLayoutVersion': '1.0.0'}
    for name, data in blobs.items():
        if name.startswith('blobs/'):
            assert hashlib.sha256(data).hexdigest() == os.path.basename(name)
    manifest = manifest_of(blobs)
    config = json.loads(blob(blobs, manifest['config']))
    assert config['os'] == 'linux' and len(config['rootfs']['diff_ids']) == len(manifest['layers']) == 1


def test_the_image_is_smaller_than_its_budget(blobs):
    assert sum(layer['size'] for layer in manifest_of(blobs)['layers']) < BUDGET


def test_the_configuration_asks_the_container_toolkit_for_the_driver(blobs):
    config = json.loads(blob(blobs, manifest_of(blobs)['config']))['config']
    assert dict(pair.split('=', 1) for pair in config['Env']) == ENVIRONMENT
    assert config['Entrypoint'] == ['nvidia-device-plugin']
    version = re.search(r"^  version: '(.*)',", read('meson.build'), re.MULTILINE).group(1)
    assert config['Labels']['org.opencontainers.image.version'] == version


def test_the_dockerfile_says_the_same_as_the_configuration(blobs):
    """But for the labels that are another for each commit."""
    config = json.loads(blob(blobs, manifest_of(blobs)['config']))['config']
    text = read('deploy/container/Dockerfile').replace('\\\n', ' ')
    said = {word: re.search(r'^%s (.*)' % word, text, re.MULTILINE).group(1) for word in ('ENV', 'LABEL', 'ENTRYPOINT')}
    assert shlex.split(said['ENV']) == config['Env']
    labels = dict(pair.split('=', 1) for pair in shlex.split(said['LABEL']))
    prefix = 'org.opencontainers.image.'
    assert labels == {prefix + name: config['Labels'][prefix + name] for name in ('title', 'description', 'licenses')}
    assert json.loads(said['ENTRYPOINT']) == config['Entrypoint']
    assert 'WORKDIR %s\n' % config['WorkingDir'] in text[text.index('FROM scratch'):]


SOURCES = '''Types: deb
# http://snapshot.debian.org/archive/debian/%(date)s
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
# http://snapshot.debian.org/archive/debian-security/%(date)s
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
'''


def dockerfile_pins():
    """The base, the date of the packages, and the step that sets apt to it."""
    text = read('deploy/container/Dockerfile').replace('\\\n', ' ')
    return [re.search(pattern, text, re.MULTILINE).group(1) for pattern in (r'^ARG BASE=(.*)', r'^ARG SNAPSHOT=(.*)', r'^RUN (\[ -z "\$SNAPSHOT".*)')]


def test_the_dockerfiles_base_is_one_image_of_debian_and_its_packages_are_of_the_same_day():
    base, date, _ = dockerfile_pins()
    day, = re.fullmatch(r'docker\.io/library/debian:bookworm-(\d{8})-slim@sha256:[0-9a-f]{64}', base).groups()
    assert date == day + 'T000000Z'
    assert re.findall(r'^FROM (\S+)', read('deploy/container/Dockerfile'), re.MULTILINE) == ['${BASE}', 'scratch']


@pytest.mark.parametrize('snapshot', ['20261005T000000Z', ''])
def test_all_sources_of_apt_are_of_that_day_or_as_they_were(tmp_path, snapshot):
    before = SOURCES % {'date': '20261005T000000Z'}
    sources, conf = tmp_path / 'sources.list.d/debian.sources', tmp_path / 'apt.conf.d/snapshot'
    for path in (sources, conf):
        path.parent.mkdir()
    sources.write_text(before)
    step = dockerfile_pins()[2].replace('/etc/apt', str(tmp_path))
    subprocess.run(['sh', '-c', step], env={**os.environ, 'SNAPSHOT': snapshot}, check=True)
    if not snapshot:
        assert sources.read_text() == before and not conf.exists()
        return
    archive = 'http://snapshot.debian.org/archive/'
    assert re.findall('^URIs: (.*)', sources.read_text(), re.MULTILINE) == [archive + 'debian/' + snapshot, archive + 'debian-security/' + snapshot]
    found = subprocess.run(['apt-config', '-c', str(conf), 'dump', 'Acquire::Check-Valid-Until'], capture_output=True, text=True, check=True).stdout
    assert found == 'Acquire::Check-Valid-Until "false";\n'
    sources.write_text(before + '\nTypes: deb\nURIs: http://mirror.example.com/debian\nSuites: bookworm\nComponents: main\n')
    assert subprocess.run(['sh', '-c', step], env={**os.environ, 'SNAPSHOT': snapshot}, check=False).returncode != 0  # not all of it would be


def test_the_same_files_make_the_same_archive(tmp_path):
    copy = tmp_path / 'copy'
    shutil.copytree(ROOTFS, copy, symlinks=True)
    for path in (ROOTFS, copy):
        subprocess.run(
            [os.path.join(SOURCE, 'deploy/container/oci'), '--output', tmp_path / (os.path.basename(path) + '.tar'), '--version', '1',
             '--revision', 'r', '--epoch', '1700000000', '--licences', 'MIT', 'amd64=%s' % path], check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / 'rootfs.tar').read_bytes() == (tmp_path / 'copy.tar').read_bytes()


def test_everything_inside_has_its_licence_and_its_line_in_the_bill_of_materials(blobs):
    with open(os.path.join(ROOTFS, 'usr/share/doc/warpshare/sbom.spdx.json'), encoding='utf-8') as file:
        document = json.load(file)
    names = {package['name'] for package in document['packages']}
    rows = [line.split() for line in read('deploy/container/packages').splitlines() if line and not line.startswith('#')]
    assert names == {row[2] if row[0] == 'source' else row[1] for row in rows if row[0] != 'build'} | {'warpshare'}
    assert all(package['versionInfo'] for package in document['packages'])
    for name in names:
        assert os.path.getsize(os.path.join(ROOTFS, 'usr/share/doc', name, 'copyright')) > 0
    for package in document['packages']:
        if package['name'] != 'warpshare':  # what scanners look a package up by
            assert re.fullmatch(r'pkg:deb/debian/[a-z0-9.+-]+@[^?]+\?arch=(amd64|arm64|all)&distro=debian-\d+&upstream=[a-z0-9.+-]+',
                                package['externalRefs'][0]['referenceLocator']), package
            assert package['downloadLocation'].startswith('https://snapshot.debian.org/package/')
    licences = {package['licenseDeclared'] for package in document['packages']}
    assert ' AND '.join(sorted(licences)) == json.loads(blob(blobs, manifest_of(blobs)['config']))['config']['Labels'][
        'org.opencontainers.image.licenses']
    identifiers = {package['SPDXID'] for package in document['packages']}
    assert {link['relatedSpdxElement'] for link in document['relationships']} == identifiers


def test_the_notices_name_each_part_with_its_version_and_licence():
    folder = pathlib.Path(ROOTFS, 'usr/share/doc/warpshare')
    text = (folder / 'THIRD-PARTY').read_text(encoding='utf-8')
    parts = json.loads((folder / 'sbom.spdx.json').read_text(encoding='utf-8'))['packages']
    assert len(parts) > 10
    for part in parts:
        if part['name'] != 'warpshare':
            assert f"\n{part['name']} {part['versionInfo']}\n  licence: {part['licenseDeclared']}\n" in text


def test_the_texts_that_licences_point_to_are_inside():
    pointed = set()
    for path in pathlib.Path(ROOTFS, 'usr/share/doc').glob('*/copyright'):
        pointed |= set(re.findall(r'/usr/share/common-licenses/([A-Za-z0-9-]+(?:\.\d)?)', path.read_text(encoding='utf-8', errors='replace')))
    assert {'GPL-2', 'LGPL-2.1'} <= pointed
    for name in pointed:
        assert os.path.getsize(os.path.join(ROOTFS, 'usr/share/common-licenses', name)) > 500, name


def test_the_provenance_is_about_this_image_and_names_what_went_into_it(blobs):
    with open(ARCHIVE + '.provenance.json', encoding='utf-8') as file:
        statement = json.load(file)
    manifest, = json.loads(blobs['index.json'])['manifests']
    assert [one['digest'] for one in statement['subject']] == [{'sha256': manifest['digest'].removeprefix('sha256:')}]
    built = statement['predicate']['buildDefinition']
    labels = json.loads(blob(blobs, manifest_of(blobs)['config']))['config']['Labels']
    assert built['externalParameters']['source']['digest'] == {'gitCommit': labels['org.opencontainers.image.revision']}
    used = {one['uri'].split('@')[0] for one in built['resolvedDependencies'] if 'uri' in one}
    for row in (line.split() for line in read('deploy/container/packages').splitlines() if line and not line.startswith('#')):
        assert f'pkg:deb/debian/{row[1]}' in used or row[1] == 'openssl'  # whose source the mirror may lack
        assert row[0] != 'source' or f'pkg:deb/debian/{row[2]}' in used
    assert all(re.fullmatch('[0-9a-f]{64}', one['digest']['sha256']) for one in built['resolvedDependencies'] if 'uri' in one)


def test_the_openssl_inside_is_the_one_of_the_bill_of_materials():
    """And not one that is installed on the machine that builds. The bill says whether it is Debian's library or was built from its source."""
    with open(os.path.join(ROOTFS, 'usr/share/doc/warpshare/sbom.spdx.json'), encoding='utf-8') as file:
        listed, how = next((one['versionInfo'], one['sourceInfo']) for one in json.load(file)['packages'] if one['name'] == 'libssl-dev')
    with open(ARCHIVE + '.provenance.json', encoding='utf-8') as file:
        sources = re.findall(r'pkg:deb/debian/openssl@([^?"]+)\?arch=source', file.read())
    assert ('built from' in how, 'linked statically' in how) == (bool(sources), not sources)
    assert all(urllib.parse.unquote(source) == listed for source in sources)
    library = next(pathlib.Path(ROOTFS, 'usr/lib').glob('*/libcurl.so.4')).read_bytes()
    assert re.search(rb'OpenSSL (\d[0-9.]*) ', library).group(1).decode() == listed.split('-')[0]


def test_no_program_needs_a_library_that_is_not_inside():
    there = {name for _, _, names in os.walk(os.path.join(ROOTFS, 'usr')) for name in names}
    looked_at = 0
    for folder, _, names in os.walk(os.path.join(ROOTFS, 'usr')):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.islink(path):
                continue
            with open(path, 'rb') as file:
                if file.read(4) != b'\x7fELF':
                    continue
            text = subprocess.run(['readelf', '-d', path], stdout=subprocess.PIPE, text=True, check=True).stdout
            needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', text))
            assert needed <= there, '%s needs %s' % (path, ', '.join(sorted(needed - there)))
            looked_at += 1
    assert looked_at >= 5


@needs_containers
def test_every_command_starts_in_the_bare_root(pod):
    status, output = pod.run('warpshare', '--help')
    assert status == 0
    commands = re.findall(r'^  ([a-z-]+) ', output, re.MULTILINE)
    assert {'agent', 'mps', 'plan', 'doctor', 'probe', *LINKS} <= set(commands)
    # All in one container, since each costs a root.
    status, output = pod.run(
        '/bin/sh', '-c', 'for one; do warpshare $one --help >/tmp/help || exit 1; grep -q "^usage: " /tmp/help || exit 1; done; '
        'for one in %s; do $one --help >/tmp/help || exit 1; grep -q $one /tmp/help || exit 1; done; echo all' % ' '.join(LINKS),
        'sh', *commands)
    assert (status, output) == (0, 'all\n')


@needs_containers
def test_the_shell_has_what_the_operators_scripts_call(pod):
    status, output = pod.run(
        '/bin/sh', '-c', 'set -e; for one in cat sleep lsmod grep mount umount tail [ test; do command -v $one; done >/dev/null; '
        'lsmod 2>/dev/null | head -n 1 >/dev/null; [ "$(echo 3 | tail -n 1)" = 3 ]; sleep 0; mount | grep -q " / "; echo fine')
    assert (status, output) == (0, 'fine\n')


@needs_containers
def test_a_plan_for_simulated_gpus_is_made_inside(pod):
    status, output = pod.run(
        '/bin/sh', '-c', 'echo "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 20}]}}}" >/tmp/config; '
        'warpshare plan --model H200 --gpus 4 --config-file /tmp/config --mps-root /run/nvidia/mps')
    assert status == 0 and 'nvidia.com/gpu: 80\n' in output, output


@needs_containers
def test_the_libraries_that_are_loaded_when_needed_are_found(pod):
    """The agent with metrics, and with credentials for an API server that is not there."""
    path = os.path.join(pod.host, 'kubeconfig')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({
            'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c',
            'contexts': [{'name': 'c', 'context': {'cluster': 'c', 'user': 'u'}}],
            'clusters': [{'name': 'c', 'cluster': {'server': 'https://127.0.0.1:1'}}],
            'users': [{'name': 'u', 'user': {'token': 'x'}}]}, file)
    status, output = pod.run(
        '/bin/sh', '-c', 'mkdir /tmp/kubelet; warpshare agent --metrics-address 127.0.0.1:0 '
        '--kubelet-socket /tmp/kubelet/kubelet.sock --node-name n1 --kubeconfig /kubeconfig --fail-on-init-error=false & '
        'agent=$!; for library in libmicrohttpd.so.12 libcurl.so.4; do '
        'until grep -q $library /proc/$agent/maps; do [ -e /proc/$agent ] || exit 1; sleep 0.1; done; done; '
        'kill $agent; wait $agent && echo both are loaded', mounts={'/kubeconfig': path})
    assert status == 0 and output.endswith('both are loaded\n'), output


@needs_containers
def test_the_entry_point_shows_the_demonstration(pod):
    """As `docker run --rm IMAGE demo` does."""
    container = pod.start('nvidia-device-plugin', 'demo')
    assert container.wait(timeout=300) == 0, container.log()
    assert 'Allocatable: 22 of 40' in container.log() and 'three pods ask for' in container.log()
    assert 'All as it should be.' in container.log()


@needs_containers
def test_the_screen_of_top_has_its_library_and_its_terminals(pod):
    status, output = pod.run('/bin/sh', '-c', 'LD_PRELOAD=libncursesw.so.6 warpshare --version')
    assert status == 0 and 'cannot be preloaded' not in output, output
    for terminal in 'linux', 'screen-256color', 'tmux-256color', 'vt100', 'xterm', 'xterm-256color':
        path = os.path.join(ROOTFS, 'lib/terminfo', terminal[0], terminal)
        assert os.path.getsize(os.path.realpath(path)) > 500, terminal
