# SPDX-License-Identifier: Apache-2.0
"""What is said of an image, and signed: made for a small one, and verified by openssl as somebody else would."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest

CONTAINER = pathlib.Path(os.environ['WARPSHARE_SOURCE'], 'deploy/container')
COMMIT = '0123456789abcdef0123456789abcdef01234567'

pytestmark = pytest.mark.skipif(not shutil.which('openssl'), reason='needs openssl (Debian: openssl)')


def run(*words, data=None):
    return subprocess.run([str(word) for word in words], input=data, capture_output=True, check=False)


def make(folder, *architectures, more=()):
    """An image, its provenance and a pair of keys: the image's path. more: words for the program that makes it."""
    image = folder / 'image.tar'
    trees = []
    for architecture in architectures:
        tree = folder / architecture
        tree.mkdir()
        (tree / 'file').write_text(architecture, encoding='utf-8')
        trees.append(f'{architecture}={tree}')
        (folder / f'{architecture}.sums').write_text(
            f'{"1" * 64}  ./libc6_2.36-9+deb12u10_{architecture}.deb\n{"2" * 64}  ./libssl3_1%3a3.0_{architecture}.deb\n'
            f'{"3" * 64}  ./curl_7.88.1-10+deb12u12.dsc\n', encoding='utf-8')
    done = run(CONTAINER / 'oci', '--output', image, '--version', '1.2.3', '--revision', COMMIT, '--epoch', 1700000000, '--licences', 'MIT', *more, *trees)
    assert done.returncode == 0, done.stderr
    provenance = run(CONTAINER / 'provenance', '--image', image, '--revision', COMMIT, '--epoch', 1700000000,
                     *(f'{one}={folder / one}.sums' for one in architectures))
    assert provenance.returncode == 0, provenance.stderr
    pathlib.Path(f'{image}.provenance.json').write_bytes(provenance.stdout)
    assert run('openssl', 'ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', folder / 'key').returncode == 0
    assert run('openssl', 'ec', '-in', folder / 'key', '-pubout', '-out', folder / 'public').returncode == 0
    return image


def signed(image):
    done = run(CONTAINER / 'signature', 'sign', '--key', image.parent / 'key', '--reference', 'registry.example.com/warpshare', image)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.decode().strip())


def files_of(path):
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}


def blob(files, descriptor):
    return files['blobs/sha256/' + descriptor['digest'].removeprefix('sha256:')]


def test_who_publishes_the_image_names_the_own_addresses(tmp_path):
    files = files_of(make(tmp_path, 'amd64', more=['--url', 'https://example.com/', '--source', 'https://example.com/git']))
    manifest = json.loads(blob(files, json.loads(files['index.json'])['manifests'][0]))
    labels = json.loads(blob(files, manifest['config']))['config']['Labels']
    assert (labels['org.opencontainers.image.url'], labels['org.opencontainers.image.source']) == ('https://example.com/', 'https://example.com/git')


def refuses(image, words, key='public', action='verify'):
    done = run(CONTAINER / 'signature', action, '--key', image.parent / key, image)
    assert done.returncode == 1 and words in done.stderr.decode(), done


def openssl_takes(folder, data, signature):
    (folder / 'data').write_bytes(data)
    (folder / 'signature').write_bytes(base64.b64decode(signature))
    return run('openssl', 'dgst', '-sha256', '-verify', folder / 'public', '-signature', folder / 'signature', folder / 'data').returncode == 0


@pytest.mark.parametrize('architectures, digests', [(['amd64'], 1), (['amd64', 'arm64'], 3)])
def test_each_digest_has_a_signature_and_a_provenance_where_cosign_looks(tmp_path, architectures, digests):
    image = make(tmp_path, *architectures)
    files = files_of(signed(image))
    found = {one['annotations']['org.opencontainers.image.ref.name']: one for one in json.loads(files['index.json'])['manifests']}
    top, = json.loads(files_of(image)['index.json'])['manifests']
    name = top['digest'].replace(':', '-')
    assert len(found) == 2 * digests and {f'{name}.sig', f'{name}.att'} <= found.keys()
    for name, descriptor in found.items():
        digest, kind = name.removeprefix('sha256-').split('.')
        layer, = json.loads(blob(files, descriptor))['layers']
        data = blob(files, layer)
        if kind == 'sig':
            assert layer['mediaType'] == 'application/vnd.dev.cosign.simplesigning.v1+json'
            assert json.loads(data)['critical'] == {
                'identity': {'docker-reference': 'registry.example.com/warpshare'}, 'image': {'docker-manifest-digest': f'sha256:{digest}'},
                'type': 'cosign container image signature'}
            assert openssl_takes(tmp_path, data, layer['annotations']['dev.cosignproject.cosign/signature'])
            assert not openssl_takes(tmp_path, data + b' ', layer['annotations']['dev.cosignproject.cosign/signature'])
        else:
            envelope = json.loads(data)
            payload = base64.b64decode(envelope['payload'])
            assert payload == pathlib.Path(f'{image}.provenance.json').read_bytes()
            kind = b'application/vnd.in-toto+json'
            assert openssl_takes(tmp_path, b'DSSEv1 %d %s %d %s' % (len(kind), kind, len(payload), payload), envelope['signatures'][0]['sig'])
    done = run(CONTAINER / 'signature', 'verify', '--key', tmp_path / 'public', image)
    assert done.returncode == 0 and done.stdout.decode().count(f': signed, built from commit {COMMIT}\n') == digests, done


def test_the_provenance_says_what_the_image_is_of(tmp_path):
    image = make(tmp_path, 'amd64', 'arm64')
    statement = json.loads(pathlib.Path(f'{image}.provenance.json').read_bytes())
    assert (statement['_type'], statement['predicateType']) == ('https://in-toto.io/Statement/v1', 'https://slsa.dev/provenance/v1')
    built = statement['predicate']['buildDefinition']
    assert built['externalParameters']['platforms'] == ['linux/amd64', 'linux/arm64']
    assert [one.get('uri') for one in built['resolvedDependencies']] == [
        None, 'pkg:deb/debian/curl@7.88.1-10%2Bdeb12u12?arch=source', 'pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64',
        'pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=arm64', 'pkg:deb/debian/libssl3@1%3A3.0?arch=amd64', 'pkg:deb/debian/libssl3@1%3A3.0?arch=arm64']


def test_only_signatures_differ_from_one_time_to_the_next(tmp_path):
    made = []
    for name in ('one', 'two'):
        (tmp_path / name).mkdir()
        image = make(tmp_path / name, 'amd64')
        made.append((image.read_bytes(), pathlib.Path(f'{image}.provenance.json').read_bytes()))
    assert made[0] == made[1]


def test_what_was_changed_is_found(tmp_path):
    image = make(tmp_path, 'amd64')
    refuses(image, 'image.tar.signed.tar')  # there is none yet
    signed(image)

    run('openssl', 'ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', tmp_path / 'other-key')
    run('openssl', 'ec', '-in', tmp_path / 'other-key', '-pubout', '-out', tmp_path / 'other')
    refuses(image, 'openssl dgst: ', key='other')

    files = files_of(image)
    layer, = json.loads(blob(files, json.loads(files['index.json'])['manifests'][0]))['layers']
    content = image.read_bytes()
    at = content.index(blob(files, layer)) + 20
    image.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
    refuses(image, f'the blob {layer["digest"]} has other bytes')

    (tmp_path / 'amd64' / 'file').write_text('changed', encoding='utf-8')
    run(CONTAINER / 'oci', '--output', image, '--version', '1.2.3', '--revision', COMMIT, '--epoch', 1700000000, '--licences', 'MIT',
        f'amd64={tmp_path / "amd64"}')
    refuses(image, 'nothing is signed for sha256:')
    refuses(image, 'is about another image', key='key', action='sign')


def test_another_curve_is_refused(tmp_path):
    image = make(tmp_path, 'amd64')
    run('openssl', 'ecparam', '-genkey', '-name', 'secp384r1', '-noout', '-out', tmp_path / 'key')
    refuses(image, "is none of the curve prime256v1", key='key', action='sign')
