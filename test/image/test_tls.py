# SPDX-License-Identifier: Apache-2.0
"""What the image's libcurl, with the OpenSSL that is in it, agrees on with servers: the versions, groups, ciphers and certificates that clusters have."""
import ctypes
import http.server
import os
import pathlib
import platform
import ssl
import subprocess
import threading

import pytest

from image import ROOTFS

# Numbers of curl's ABI: curl.h.
URL, CAINFO, SSLCERT, SSLKEY, WRITEFUNCTION, NOPROXY, TIMEOUT_MS = 10002, 10065, 10025, 10087, 20011, 10177, 155
OK, PEER_FAILED_VERIFICATION = 0, 60
NAME = '127.0.0.1'
KEYS = {
    'rsa-2048': ('RSA', 'rsa_keygen_bits:2048'), 'p256': ('EC', 'ec_paramgen_curve:P-256'), 'p384': ('EC', 'ec_paramgen_curve:P-384'),
    'p521': ('EC', 'ec_paramgen_curve:P-521'), 'ed25519': ('ED25519', None)}


def openssl(*arguments):
    subprocess.run(['openssl', *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope='module')
def identities(tmp_path_factory):
    """{kind: folder with key.pem as PKCS#8, traditional.pem, and certificate.pem, which is its own authority}."""
    found = {}
    for kind, (algorithm, option) in KEYS.items():
        found[kind] = folder = tmp_path_factory.mktemp(kind)
        openssl('genpkey', '-algorithm', algorithm, *(('-pkeyopt', option) if option else ()), '-out', folder / 'key.pem')
        if algorithm != 'ED25519':
            openssl('pkey', '-in', folder / 'key.pem', '-traditional', '-out', folder / 'traditional.pem')
        openssl('req', '-x509', '-key', folder / 'key.pem', '-subj', '/CN=' + kind, '-days', '2', '-addext', 'subjectAltName=IP:' + NAME,
                '-addext', 'basicConstraints=critical,CA:true', '-out', folder / 'certificate.pem')
    return found


@pytest.fixture(scope='module')
def curl():
    path = next(pathlib.Path(ROOTFS, 'usr/lib').glob('*-linux-gnu/libcurl.so.4'))
    if platform.machine() not in path.parent.name:
        pytest.skip('the image is for another machine')
    library = ctypes.CDLL(str(path))
    library.curl_easy_init.restype = ctypes.c_void_p
    library.curl_easy_strerror.restype = ctypes.c_char_p
    return library


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((*self.connection.cipher()[:2], self.connection.getpeercert()))
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):
        pass


def get(curl, identity, configure=None, client=None, authority=None):
    """curl's result, and (cipher, version, certificate of the client) as the server had them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity / 'certificate.pem', identity / 'key.pem')
    if configure:
        configure(context)
    if client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client[0])
    server = http.server.ThreadingHTTPServer((NAME, 0), Answer)
    server.seen = []
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.01})
    thread.start()
    sink = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)(lambda _, size, n, __: size * n)
    options = {URL: 'https://%s:%d/' % (NAME, server.server_address[1]), CAINFO: os.fspath((authority or identity) / 'certificate.pem'),
               NOPROXY: '*', **({SSLCERT: os.fspath(client[0]), SSLKEY: os.fspath(client[1])} if client else {})}
    easy = ctypes.c_void_p(curl.curl_easy_init())
    try:
        for option, value in options.items():
            assert curl.curl_easy_setopt(easy, option, ctypes.c_char_p(value.encode())) == OK
        assert curl.curl_easy_setopt(easy, TIMEOUT_MS, ctypes.c_long(10000)) == OK
        assert curl.curl_easy_setopt(easy, WRITEFUNCTION, sink) == OK
        return curl.curl_easy_perform(easy), server.seen
    finally:
        curl.curl_easy_cleanup(easy)
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize('version', ['TLSv1_2', 'TLSv1_3'])
@pytest.mark.parametrize('kind', KEYS)
def test_a_server_may_have_any_usual_certificate(curl, identities, kind, version):
    def configure(context):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    result, seen = get(curl, identities[kind], configure)
    assert result == OK, curl.curl_easy_strerror(result)
    assert seen[0][1] == version.replace('_', '.')


@pytest.mark.parametrize('cipher', [
    'ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-ECDSA-AES128-SHA256'])
def test_a_server_of_tls_1_2_may_ask_for_its_cipher(curl, identities, cipher):
    def configure(context):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
    result, seen = get(curl, identities['p256'], configure)
    assert (result, [one[0] for one in seen]) == (OK, [cipher])


@pytest.mark.parametrize('version', ['TLSv1_2', 'TLSv1_3'])
@pytest.mark.parametrize('group', ['prime256v1', 'secp384r1', 'secp521r1'])
def test_a_server_may_ask_for_its_group(curl, identities, group, version):
    """X25519 is what they take otherwise."""
    def configure(context):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        context.set_ecdh_curve(group)
    result, seen = get(curl, identities['p256'], configure)
    assert (result, len(seen)) == (OK, 1)


@pytest.mark.parametrize('kind, form', [
    (kind, form) for kind in KEYS for form in ('key.pem', 'traditional.pem') if (kind, form) != ('ed25519', 'traditional.pem')])  # which is not there
def test_a_client_may_have_any_usual_certificate(curl, identities, kind, form):
    result, seen = get(curl, identities['p256'], client=(identities[kind] / 'certificate.pem', identities[kind] / form))
    assert result == OK, curl.curl_easy_strerror(result)
    assert (('commonName', kind),) in seen[0][2]['subject']


def test_a_server_whose_authority_is_another_is_refused(curl, identities):
    result, seen = get(curl, identities['p256'], authority=identities['p384'])
    assert (result, seen) == (PEER_FAILED_VERIFICATION, [])
