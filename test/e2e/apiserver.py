# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API server: TLS, tokens that rotate, objects, watches, RBAC, and every fault that a client has to live with.

    server = ApiServer(folder)
    server.put('/api/v1/nodes', {'metadata': {'name': 'n1'}})
    start_agent('--kubeconfig', server.kubeconfig(), '--node-name', 'n1')
    server.wait_for(lambda: 'nvidia.com/gpu.count' in server.get('/api/v1/nodes', 'n1')['metadata'].get('labels', {}))

What it keeps is in apistore.py. Faults wait for the next request that they fit:

    server.fault('status', verb='watch', resource='nodes', code=429, retry_after=1)
"""
import base64
import contextlib
import dataclasses
import datetime
import fnmatch
import functools
import http.server
import ipaddress
import json
import os
import pathlib
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import resourceclaims
import resourceslices
import reviews
from apistore import Refused, Store, merge, now

CLIENT = 'system:node:client'  # the user of the client certificate
METADATA_FORMS = ('PartialObjectMetadata', 'PartialObjectMetadataList')
POOL_STATUS = '/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests'
PATIENCE = 60  # seconds that a condition may take on a loaded machine


# ---- certificates ----

def pem_of(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_of_key(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def make_certificate(name, issuer=None, hosts=()):
    """(certificate, key) of |name|, signed by |issuer| of the same form, or by itself; with no subject alternative name but |hosts|."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.datetime.utcnow() - datetime.timedelta(days=1)
    builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer[0].subject if issuer else subject)
               .public_key(key.public_key()).serial_number(x509.random_serial_number())
               .not_valid_before(start).not_valid_after(start + datetime.timedelta(days=30))
               .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True))
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


@functools.lru_cache(maxsize=1)
def authority():
    return make_certificate('test authority')


def server_hosts():
    return [x509.DNSName('localhost'), x509.DNSName('api.cluster.test'), x509.IPAddress(ipaddress.ip_address('127.0.0.1')),
            x509.IPAddress(ipaddress.ip_address('::1'))]


@functools.lru_cache(maxsize=1)
def certificates():
    """Made once a process: {file name: PEM}."""
    made = {'ca': authority(), 'server': make_certificate('kube-apiserver', authority(), server_hosts()),
            'client': make_certificate(CLIENT, authority()), 'stranger': make_certificate('stranger'),
            'nameless': make_certificate('127.0.0.1', authority())}  # of a server, without a subject alternative name
    files = {}
    for name, (certificate, key) in made.items():
        files[f'{name}.crt'] = pem_of(certificate)
        files[f'{name}.key'] = pem_of_key(key)
    return files


def agent_rules(*switches):
    """What the agent may do in a cluster where these are switched on, or, without a name, all of them: for ApiServer.allow()."""
    rules = json.loads((pathlib.Path(os.environ['WARPSHARE_SOURCE']) / 'deploy' / 'rbac.json').read_text(encoding='utf-8'))
    known = {switch for rule in rules for switch in rule['when']}
    assert set(switches) <= known, f'{set(switches) - known} are no switches of deploy/rbac.json'
    return [rule for rule in rules if not switches or {'always', *switches} & set(rule['when'])]


# ---- what was asked ----

@dataclasses.dataclass
class Request:
    verb: str  # of RBAC: get, list, watch, create, update, patch, delete
    path: str
    query: dict
    body: object
    headers: dict
    user: str = ''
    collection: str = ''
    group: str = ''
    resource: str = ''
    subresource: str = ''
    version: str = ''
    namespace: str = ''
    name: str = ''
    beyond: str = ''  # of a proxy: what is asked there
    form: str = ''  # what the client wants the answer turned into
    status: int = 0
    content_type: str = ''
    at: float = 0.0  # time.monotonic()
    port: int = 0  # of the client: which connection it was

    def names(self):
        """The one name that is meant, by path or by selector; '' for any."""
        selector = self.query.get('fieldSelector', '')
        return self.name or (selector[14:] if selector.startswith('metadata.name=') else '')


def parse_path(request):
    """Fills what the path says; False where it leads to no resource."""
    parts = request.path.strip('/').split('/')
    if parts[:2] == ['api', 'v1']:
        prefix, rest = parts[:2], parts[2:]
    elif parts[0] == 'apis' and len(parts) >= 3:
        request.group, request.version, prefix, rest = parts[1], parts[2], parts[:3], parts[3:]
    else:
        return False
    if len(rest) >= 3 and rest[0] == 'namespaces':
        request.namespace = rest[1]
        prefix, rest = prefix + rest[:2], rest[2:]
    if len(rest) > 2 and rest[2] == 'proxy':
        request.beyond, rest = '/' + '/'.join(rest[3:]), rest[:3]
    if not rest or len(rest) > 3:
        return False
    request.resource = rest[0]
    if request.resource in resourceclaims.CONVERTED:
        prefix = [resourceclaims.KEPT if part == request.version else part for part in prefix]
    request.collection = '/' + '/'.join(prefix + rest[:1])
    request.name = rest[1] if len(rest) > 1 else ''
    request.subresource = rest[2] if len(rest) > 2 else ''
    return True


@dataclasses.dataclass
class Fault:
    action: str  # status, drop, hang, rubbish, endless, gone, rotate (token and certificate, before they are looked at)
    verb: str = '*'
    resource: str = '*'
    namespace: str = '*'
    times: int = 1
    code: int = 500
    retry_after: object = None
    after: int = 0  # bytes of the answer that get through before a drop

    def fits(self, request):
        return self.times > 0 and fnmatch.fnmatch(request.verb, self.verb) and \
            fnmatch.fnmatch(request.resource, self.resource) and fnmatch.fnmatch(request.namespace, self.namespace)


def selected(object_, query):
    for part in filter(None, query.get('fieldSelector', '').split(',')):
        path, _, value = part.partition('=')
        at = object_
        for step in path.rstrip('!').split('.'):
            at = (at or {}).get(step)
        if ((at or '') == value.lstrip('=')) == path.endswith('!'):
            return False
    labels = object_['metadata'].get('labels') or {}
    for part in filter(None, query.get('labelSelector', '').split(',')):
        key, equals, value = part.partition('=')
        if (labels.get(key) != value.lstrip('=')) if equals else key not in labels:
            return False
    return True


def is_part_of(collection, whole):
    """Of the collection itself, or of a namespace where the collection is that of all namespaces."""
    group, kinds = whole.rsplit('/', 1)
    return collection == whole or fnmatch.fnmatch(collection, f'{group}/namespaces/*/{kinds}')


def accepted(header):
    """The media types that a client takes, the most wanted first as it lists them: (type, parameters)."""
    for clause in (header or '*/*').split(','):
        type_, *parameters = clause.strip().split(';')
        yield type_.strip(), dict(part.strip().split('=', 1) for part in parameters if '=' in part)


def negotiate(request):
    """
    What the answer is turned into: '' for the object as it is, or 'PartialObjectMetadata', or that of a list. A form that is not known
    is passed over, like a type that is not; a form that does not fit what is asked for is refused.
    """
    for type_, wanted in accepted(request.headers.get('Accept')):
        if type_ not in ('application/json', 'application/*', '*/*'):
            continue
        form = wanted.get('as', '')
        if not form:
            return ''
        if form in METADATA_FORMS and wanted.get('g') == 'meta.k8s.io' and wanted.get('v') in ('v1', 'v1beta1'):
            if (form == 'PartialObjectMetadataList') != (request.verb == 'list'):
                what = 'a list' if request.verb == 'list' else 'not a list'
                raise Refused(406, 'NotAcceptable', f'you requested {form}, but the requested object is {what}')
            return form
    raise Refused(406, 'NotAcceptable', 'only the following media types are accepted: application/json')


def only_metadata(object_):
    return {'kind': 'PartialObjectMetadata', 'apiVersion': 'meta.k8s.io/v1', 'metadata': object_['metadata']}


def told(object_, request):
    """As the version that is asked for has it, or only its metadata."""
    if request.form:
        return only_metadata(object_)
    return resourceclaims.convert(object_, request.version) if request.resource in resourceclaims.CONVERTED else object_


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    api = None  # the ApiServer, set by it

    # ---- the connection ----

    def setup(self):
        self.api.connections.add(self.request)
        self.request.settimeout(PATIENCE)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def finish(self):
        self.api.connections.discard(self.request)
        try:
            super().finish()
        except OSError:
            pass

    def log_message(self, format, *args):
        pass

    def cut(self):
        """As a crash of the server does, or of a load balancer between: nothing more, not even the end of TLS."""
        self.close_connection = True
        try:
            socket.socket.shutdown(self.request, socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, code, body, type_='application/json', headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header('Content-Type', type_)
        self.send_header('Content-Length', str(len(body)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    # ---- one request ----

    def user_of(self):
        scheme, _, token = self.headers.get('Authorization', '').partition(' ')
        if scheme == 'Bearer' and token in self.api.tokens:
            return self.api.tokens[token]
        certificate = self.request.getpeercert() if isinstance(self.request, ssl.SSLSocket) else None
        if certificate and int(certificate['serialNumber'], 16) not in self.api.expired:
            return certificate['subject'][0][0][1]
        return None

    def read_request(self, method):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length) if length else b''
        request = Request('', urllib.parse.unquote(url.path), query, json.loads(body) if body else None,
                          dict(self.headers), content_type=self.headers.get('Content-Type', ''), at=time.monotonic(),
                          port=self.client_address[1])
        request.known = parse_path(request)
        request.verb = {'POST': 'create', 'PUT': 'update', 'PATCH': 'patch', 'DELETE': 'delete'}.get(method) or (
            'get' if request.name or not request.known else 'watch' if query.get('watch') in ('1', 'true') else 'list')
        return request

    def handle_method(self, method):
        request = self.read_request(method)
        with self.api.store.lock:
            self.api.requests.append(request)
            self.api.store.lock.notify_all()
            fault = next((f for f in self.api.faults if f.fits(request)), None)
            if fault:
                fault.times -= 1
        try:
            if fault and self.inject(fault, request):
                return
            self.answer(request)
        except Refused as refused:
            request.status = refused.code
            headers = [('Retry-After', str(refused.retry_after))] if refused.retry_after is not None else []
            self.send(refused.code, refused.status(), headers=headers)

    def answer(self, request):
        request.user = self.user_of()
        if not request.user:
            raise Refused(401, 'Unauthorized', 'Unauthorized')
        if not request.known:
            found = self.api.discovery.get(request.path)
            request.status = 200 if found else 404
            self.send(request.status, found or b'404 page not found\n', 'application/json' if found else 'text/plain')
            return
        if any(request.path.startswith(prefix) for prefix in self.api.missing):
            request.status = 404
            self.send(404, b'404 page not found\n', 'text/plain')
            return
        self.api.authorize(request)
        if request.query.get('sendInitialEvents') == 'true':  # as before 1.34; client-go then lists
            raise Refused(422, 'Invalid', 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch '
                          'unless the WatchList feature gate is enabled')
        if request.subresource == 'proxy':
            self.pass_on(request)
            return
        request.form = negotiate(request)
        if request.verb == 'watch':
            self.watch(request)
            return
        with self.api.store.lock:
            self.api.carried_out = request
            try:
                code, answer = self.api.carry_out(request)
            finally:
                self.api.carried_out = None
        request.status = code
        self.send(code, answer)

    def pass_on(self, request):
        """To a pod at its address, as the real server does: without the Authorization header, and a pod that is not reached is a 503."""
        parts = request.name.split(':')  # name, name:port, https:name:port
        scheme, name, port = ('', *parts) if len(parts) == 2 else (*parts, '', '')[:3] if len(parts) == 3 else ('', parts[0], '')
        with self.api.store.lock:
            pod = self.api.store.find(request.collection, name)
        address = pod.get('status', {}).get('podIP')
        if not address:
            raise Refused(400, 'BadRequest', 'address not allowed')
        query = urllib.parse.urlencode(request.query)
        url = f'{scheme or "http"}://{address}:{port}{request.beyond}{"?" if query else ""}{query}'
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE, context=ssl._create_unverified_context()) as answer:
                request.status, body, type_ = answer.status, answer.read(), answer.headers['Content-Type']
        except urllib.error.HTTPError as error:
            request.status, body, type_ = error.code, error.read(), error.headers['Content-Type']
        except OSError as error:
            why = f'dial tcp {address}:{port}: connect: connection refused' if 'refused' in str(error) else 'EOF'
            raise Refused(503, 'ServiceUnavailable', f'error trying to reach service: {why}') from error
        self.send(request.status, body, type_ or 'application/octet-stream')

    def do_GET(self):
        self.handle_method('GET')

    def do_POST(self):
        self.handle_method('POST')

    def do_PUT(self):
        self.handle_method('PUT')

    def do_PATCH(self):
        self.handle_method('PATCH')

    def do_DELETE(self):
        self.handle_method('DELETE')

    # ---- faults ----

    def inject(self, fault, request):
        """True: nothing else is to be answered."""
        if fault.action == 'status':
            raise Refused(fault.code, 'Injected', f'an injected fault: {fault.code}', fault.retry_after)
        if fault.action == 'gone':
            raise Refused(410, 'Expired', 'too old resource version: 1 (2)')
        if fault.action == 'drop':
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"kind'
                             [:fault.after])
            self.cut()
        elif fault.action == 'hang':
            self.api.closing.wait(PATIENCE)
            self.cut()
        elif fault.action == 'rubbish':
            self.send(200, b'{"kind": "NodeList", "items": [}}}\x00\xff' * 10)
        elif fault.action == 'rotate':
            self.api.rotate_token()
            self.api.rotate_certificate()
            return False
        elif fault.action == 'endless':
            self.endless()
        else:
            raise ValueError(fault.action)
        return True

    def endless(self):
        piece = b'10000\r\n' + b'{"type":"MODIFIED",'.ljust(0x10000, b' ') + b'\r\n'
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        try:
            while not self.api.closing.is_set():
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True

    # ---- watches ----

    def chunk(self, data):
        if not isinstance(data, bytes):
            data = json.dumps(data).encode() + b'\n'
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))

    def event_of(self, entry, request):
        """As a selector sees it: what leaves it is deleted, what enters it is added."""
        _, _, type_, object_, before = entry
        fits = selected(object_, request.query)
        fitted = before is not None and selected(before, request.query)
        if type_ == 'MODIFIED' and fits != fitted:
            type_ = 'ADDED' if fits else 'DELETED'
        elif not fits:
            return None
        return {'type': type_, 'object': told(object_, request)}

    def watch(self, request):
        store = self.api.store
        seen = int(request.query.get('resourceVersion') or 0)
        deadline = time.monotonic() + float(request.query.get('timeoutSeconds') or 300)
        request.status = 200
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        state = self.api.new_watch(request)
        try:
            with store.lock:
                if 0 < seen < store.oldest:
                    self.chunk({'type': 'ERROR', 'object': Refused(
                        410, 'Expired', f'too old resource version: {seen} ({store.oldest})').status()})
                    self.chunk(b'')
                    return
                if seen == 0:
                    for object_ in [o for collection, objects in store.collections.items() if is_part_of(collection, request.collection)
                                    for o in objects.values()]:
                        if selected(object_, request.query):
                            self.chunk({'type': 'ADDED', 'object': told(object_, request)})
                    seen = store.version
                self.follow(request, state, seen, deadline)
        except OSError:
            self.close_connection = True
        finally:
            self.api.watches.remove(state)

    def follow(self, request, state, seen, deadline):
        """Until the server ends it, or a test does. Called with the lock, which is released while nothing happens."""
        store = self.api.store
        next_bookmark = time.monotonic() + self.api.bookmark_interval
        while not self.api.closing.is_set():
            for entry in [e for e in store.log if e[0] > seen and is_part_of(e[1], request.collection)]:
                event = self.event_of(entry, request)
                if event and state['order'] != 'freeze':
                    self.chunk(event)
            seen = store.version
            if state['raw'] is not None:
                self.chunk(state['raw'])
                state['raw'] = None
            if state['order'] == 'drop':
                self.cut()
                return
            wants_bookmark = request.query.get('allowWatchBookmarks') == 'true' and state['order'] != 'freeze'
            if wants_bookmark and time.monotonic() >= next_bookmark:
                self.chunk({'type': 'BOOKMARK', 'object': {'metadata': {'resourceVersion': str(seen)}}})
                next_bookmark = time.monotonic() + self.api.bookmark_interval
                state['bookmark'] = seen
                store.lock.notify_all()
            if state['order'] == 'end' or (time.monotonic() >= deadline and state['order'] != 'freeze'):
                self.chunk(b'')
                return
            store.lock.wait(min(0.5, self.api.bookmark_interval))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # connections that a test or a client cut


class ApiServer:
    """
    One server at 127.0.0.1, with files for its clients in |folder|. A user is 'agent' by token, or the name of the client certificate
    with which the connection was opened, while that has not expired. |certificate| is what the server shows.
    """

    def __init__(self, folder, tls=True, namespace='default', certificate='server'):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.namespace = namespace  # of the agent's pod
        self.store = Store(self.admit)
        self.requests = []
        self.faults = []
        self.watches = []  # states of those that stand
        self.rules = None  # None: everything is allowed
        self.policy = None  # of admission, besides: policy(request, before, object) raises Refused
        self.carried_out = None  # the request of a client that is being carried out, with the store's lock
        self.pool_status = None
        self.missing = {POOL_STATUS}  # prefixes of paths that this cluster does not have: '/apis/nfd.k8s-sigs.io'
        self.discovery = {'/version': {'major': '1', 'minor': '36', 'gitVersion': 'v1.36.2'}}
        self.minor, self.gates_off = 36, {'DRANodeAllocatableResources'}  # serve_dra()
        self.on_evicted = lambda namespace, name: None  # a pod of that name is to end
        self.tokens = {}
        self.reviews = reviews.Reviews()
        self.expired = set()  # serial numbers of client certificates
        self.n_authorities = 1
        self.bookmark_interval = 60.0
        self.connections = set()
        self.closing = threading.Event()
        for name, pem in certificates().items():
            (self.folder / name).write_bytes(pem)
        self.token_file = self.folder / 'token'
        self.rotate_token()
        handler = type('BoundHandler', (Handler,), {'api': self})
        self.server = Server(('127.0.0.1', 0), handler)
        self.port = self.server.server_address[1]
        self.url = f'http{"s" if tls else ""}://127.0.0.1:{self.port}'
        if tls:
            self.wrap(certificate)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.1}, daemon=True)
        self.thread.start()

    def wrap(self, certificate):
        self.context = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f'{certificate}.crt', self.folder / f'{certificate}.key')
        context.load_verify_locations(self.folder / 'ca.crt')
        context.verify_mode = ssl.CERT_OPTIONAL
        # The handshake is for the thread of the connection, not for the one that accepts.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    def close(self):
        self.closing.set()
        with self.store.lock:
            self.store.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.cut()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    # ---- for clients ----

    def rotate_token(self, keep_old=False):
        """As kubelet does: a new token in the file. The old one is refused, unless it is kept."""
        if not keep_old:
            self.tokens.clear()
        token = f'token-{time.monotonic_ns()}'
        self.tokens[token] = f'system:serviceaccount:{self.namespace}:agent'
        fresh = self.folder / 'token.new'
        fresh.write_text(token + '\n')
        fresh.rename(self.token_file)
        return token

    def rotate_certificate(self):
        """
        As kubelet does: another client certificate in the files, with the same name. The one before has expired, and as with the real
        server a connection is for ever who it was at its handshake: it answers 401 from now on.
        """
        now = x509.load_pem_x509_certificate((self.folder / 'client.crt').read_bytes())
        certificate, key = make_certificate(CLIENT, authority())
        for name, pem in (('client.key', pem_of_key(key)), ('client.crt', pem_of(certificate))):
            self._replace(name, pem)
        self.expired.add(now.serial_number)

    def rotate_authority(self):
        """
        Another authority has signed the server's certificate: first clients are told of both, then the server shows it to who connects,
        then the one before is forgotten. Certificates of clients are still of the first.
        """
        self.n_authorities += 1
        made = make_certificate('test authority %d' % self.n_authorities)
        certificate, key = make_certificate('kube-apiserver', made, server_hosts())
        before = (self.folder / 'ca.crt').read_bytes()
        for name, pem in (('ca.crt', before + pem_of(made[0])), ('server.key', pem_of_key(key)), ('server.crt', pem_of(certificate))):
            self._replace(name, pem)
        self.context.load_cert_chain(self.folder / 'server.crt', self.folder / 'server.key')
        self._replace('ca.crt', pem_of(made[0]))

    def _replace(self, name, content):
        (self.folder / 'fresh').write_bytes(content)
        (self.folder / 'fresh').rename(self.folder / name)

    def kubeconfig(self, name='kubeconfig', user=None, **cluster):
        """The path of a kubeconfig. |user| and |cluster| are keys of its sections, beside or instead of the usual."""
        server = {'server': self.url, 'certificate-authority': 'ca.crt'}
        server.update({key.replace('_', '-'): value for key, value in cluster.items()})
        content = {'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'test',
                   'contexts': [{'name': 'test', 'context': {'cluster': 'c', 'user': 'u', 'namespace': self.namespace}}],
                   'clusters': [{'name': 'c', 'cluster': {k: v for k, v in server.items() if v is not None}}],
                   'users': [{'name': 'u', 'user': {'tokenFile': 'token'} if user is None else user}]}
        fresh = self.folder / f'{name}.new'
        fresh.write_text(json.dumps(content))
        fresh.rename(self.folder / name)  # somebody may be reading the one before
        return str(self.folder / name)

    # ---- for tests ----

    def put(self, collection, object_, manager='test'):
        """Creates the object or replaces it, status included, as somebody else in the cluster would."""
        name = object_['metadata']['name']
        with self.store.lock:
            if name not in self.store.collections.get(collection, {}):
                parts = collection.split('/')
                namespace = parts[parts.index('namespaces') + 1] if 'namespaces' in parts[:-1] else None
                return self.store.create(collection, object_, manager, namespace)
            for subresource in (None, 'status'):
                written = self.store.write(collection, name, object_, manager, subresource)
            return written

    def patch(self, collection, name, patch, manager='test', subresource=None):
        """A merge patch by somebody else."""
        with self.store.lock:
            return self.store.write(collection, name, merge(self.store.find(collection, name), patch), manager, subresource)

    def get(self, collection, name):
        """The object as it is now, None where there is none."""
        with self.store.lock:
            found = self.store.collections.get(collection, {}).get(name)
            return json.loads(json.dumps(found)) if found else None

    def all(self, collection):
        with self.store.lock:
            return json.loads(json.dumps(list(self.store.collections.get(collection, {}).values())))

    def delete(self, collection, name):
        with self.store.lock:
            self.store.delete(collection, name)

    def serve_dra(self, *versions, minor=36, patch=2, off=(), on=()):
        """As 1.|minor|.|patch| with resource.k8s.io in these versions, and these feature gates off, and of those that are off by default these on."""
        versions = versions or resourceclaims.VERSIONS
        self.minor, self.gates_off = minor, set(off)
        if minor < 37 or 'DRANodeAllocatableResources' not in on:  # 1.36 has another form of it
            self.gates_off.add('DRANodeAllocatableResources')
        self.release = (1, minor, patch)
        for version in resourceclaims.VERSIONS:
            (self.missing.discard if version in versions else self.missing.add)(f'/apis/resource.k8s.io/{version}/')
        self.discovery['/version'] = {'major': '1', 'minor': str(minor), 'gitVersion': f'v1.{minor}.{patch}'}
        self.discovery['/apis/resource.k8s.io'] = {'kind': 'APIGroup', 'apiVersion': 'v1', 'name': 'resource.k8s.io', 'versions': [
            {'groupVersion': f'resource.k8s.io/{v}', 'version': v} for v in versions]}

    def serve_pool_status(self, status):
        """The feature gate DRAResourcePoolStatus is on: a request gets that |status| in a moment; None: never, as without a controller."""
        self.missing.discard(POOL_STATUS)
        self.pool_status = status

    def answer_pool_status(self, object_):
        with self.store.lock:
            if object_['metadata']['name'] in self.store.collections.get(POOL_STATUS, {}):
                self.put(POOL_STATUS, {**object_, 'status': self.pool_status}, 'kube-controller-manager')

    def compact(self):
        with self.store.lock:
            self.store.compact()

    def allow(self, rules):
        """Only what these rules allow, from now on: of a Role, or the list in deploy/rbac.json."""
        self.rules = rules

    def fault(self, action, **kwargs):
        with self.store.lock:
            self.faults.append(Fault(action, **kwargs))
            return self.faults[-1]

    def order_watches(self, order=None, raw=None, resource='*'):
        """To all that stand: 'drop' them, 'end' them, 'freeze' (half-open: nothing comes any more), or send |raw| bytes."""
        with self.store.lock:
            chosen = [w for w in self.watches if fnmatch.fnmatch(w['request'].resource, resource)]
            for state in chosen:
                state['order'], state['raw'] = order, raw
            self.store.lock.notify_all()
            return len(chosen)

    def cut(self):
        """All connections, in the middle of whatever they say."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def asked(self, verb='*', resource='*'):
        with self.store.lock:
            return [r for r in self.requests if fnmatch.fnmatch(r.verb, verb) and fnmatch.fnmatch(r.resource, resource)]

    def wait_for(self, condition, patience=PATIENCE):
        """What |condition| returns as soon as it is true. It is looked at with each write and each request, and now and then."""
        deadline = time.monotonic() + patience
        with self.store.lock:
            while True:
                found = condition()
                if found:
                    return found
                left = deadline - time.monotonic()
                assert left > 0, 'the condition did not come true; asked: ' + ', '.join(
                    f'{r.verb} {r.path} {r.status}' for r in self.requests[-20:])
                self.store.lock.wait(min(left, 0.1))

    # ---- for handlers ----

    def new_watch(self, request):
        state = {'request': request, 'order': None, 'raw': None, 'bookmark': 0}
        with self.store.lock:
            self.watches.append(state)
            self.store.lock.notify_all()
        return state

    def allows(self, verb, request):
        resource = request.resource + ('/' + request.subresource if request.subresource else '')
        return any(
            verb in rule['verbs'] and request.group in rule['apiGroups'] and resource in rule['resources'] and
            (not rule.get('resourceNames') or request.names() in rule['resourceNames']) and
            (not rule.get('namespaced') or request.namespace == self.namespace) and
            rule.get('namespace') in (None, request.namespace) for rule in self.rules)

    def authorize(self, request, verb=None):
        verb = verb or request.verb
        if self.rules is None or self.allows(verb, request):
            return
        where = f'in the namespace "{request.namespace}"' if request.namespace else 'at the cluster scope'
        name = f' "{request.name}"' if request.name else ''
        resource = request.resource + ('/' + request.subresource if request.subresource else '')
        raise Refused(403, 'Forbidden', f'{request.resource}{name} is forbidden: User "{request.user}" cannot {verb} '
                                        f'resource "{resource}" in API group "{request.group}" {where}')

    def list(self, request):
        def key(object_):
            return [object_['metadata'].get('namespace', ''), object_['metadata']['name']]

        everything = sorted((object_ for collection, objects in self.store.collections.items()
                             if is_part_of(collection, request.collection) for object_ in objects.values()), key=key)
        if 'continue' in request.query:
            try:
                version, after = json.loads(base64.b64decode(request.query['continue']))
            except ValueError as error:
                raise Refused(400, 'BadRequest', f'continue key is not valid: {error}') from error
            if version < self.store.oldest:
                raise Refused(410, 'Expired', 'The provided continue parameter is too old')
        else:
            version, after = self.store.version, []
        found = [o for o in everything if key(o) > after and selected(o, request.query)]
        limit = int(request.query.get('limit') or 0) or len(found)
        metadata = {'resourceVersion': str(version)}
        if len(found) > limit:
            token = json.dumps([version, key(found[limit - 1])]).encode()
            metadata['continue'] = base64.b64encode(token).decode()
            if not request.query.get('fieldSelector') and not request.query.get('labelSelector'):  # how many fit a selector is not known
                metadata['remainingItemCount'] = len(found) - limit
        if request.form:  # unlike those of other lists, these say what they are
            return {'kind': request.form, 'apiVersion': 'meta.k8s.io/v1', 'metadata': metadata, 'items': [told(o, request) for o in found[:limit]]}
        items = [{k: v for k, v in told(o, request).items() if k not in ('kind', 'apiVersion')} for o in found[:limit]]
        first = found[0] if found else {}
        kind, version = first.get('kind') or '', first.get('apiVersion') or 'v1'  # of objects that were put with them: client-go looks at it
        return {'kind': kind + 'List', 'apiVersion': version, 'metadata': metadata, 'items': items}

    def change(self, request):
        """A patch, of either type."""
        manager = request.query.get('fieldManager') or request.headers.get('User-Agent', '').partition('/')[0]
        subresource = request.subresource or None
        if request.content_type == 'application/merge-patch+json':
            now = self.store.find(request.collection, request.name)
            return 200, self.store.write(request.collection, request.name, merge(now, request.body), manager, subresource)
        if request.content_type != 'application/apply-patch+yaml':
            raise Refused(415, 'UnsupportedMediaType', f'the body of the request was in an unknown format: '
                                                       f'{request.content_type}')
        if not request.query.get('fieldManager'):
            raise Refused(422, 'Invalid', 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value')
        if not request.body.get('apiVersion') or not request.body.get('kind'):
            raise Refused(400, 'BadRequest', 'apiVersion and kind are required for apply patches')
        if not subresource and request.name not in self.store.collections.get(request.collection, {}):  # a subresource is never created
            self.authorize(request, 'create')
        object_, is_new = self.store.apply(request.collection, request.name, request.body, manager,
                                           request.query.get('force') == 'true', request.namespace or None, subresource)
        return 201 if is_new else 200, told(object_, request)

    def admit(self, collection, before, object_, subresource):
        """As a server of this minor version with these gates off judges what it is to keep, and what it is to delete."""
        kind, faults = collection.rsplit('/', 1)[1], []
        if object_ is None:
            pass
        elif kind == 'resourceslices':
            faults = self.admit_slice(before, object_)
        elif kind == 'resourceclaims':
            faults = resourceclaims.check_claim(before, object_, subresource)
        elif kind == 'deviceclasses':
            faults = resourceclaims.check_class(object_)
        if faults:
            name, kind = object_['metadata'].get('name', ''), object_['kind']
            texts = [f'{field}: {message}' for field, _, message in faults]
            text = texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'
            raise Refused(422, 'Invalid', f'{kind}.resource.k8s.io "{name}" is invalid: {text}', details={
                'name': name, 'group': 'resource.k8s.io', 'kind': kind,
                'causes': [{'reason': reason, 'message': message, 'field': field} for field, reason, message in faults]})
        if self.policy and self.carried_out:  # a policy sees what is valid
            self.policy(self.carried_out, before, object_)

    def admit_slice(self, before, slice_):
        spec = slice_['spec'] = resourceslices.drop(slice_['spec'], self.gates_off)
        faults = resourceslices.check(spec, self.minor)
        if before:
            for path in (('driver',), ('nodeName',), ('pool', 'name')):
                old, new = before['spec'], spec
                for step in path:
                    old, new = old.get(step), new.get(step)
                faults.expect(old == new, 'spec.' + '.'.join(path), new, 'field is immutable')
        for device in spec.get('devices', []):
            for taint in resourceslices.basic(device).get('taints', []):
                taint.setdefault('timeAdded', now())
        return faults

    def admit_claim_status(self, request):
        """Who may change status.devices: the resource 'resourceclaims/driver', which no path leads to, by the name of each driver."""
        verbs = [f'{where}-node:{request.verb}' for where in ('associated', 'arbitrary')]
        for driver in {device['driver'] for device in (request.body.get('status') or {}).get('devices', [])}:
            if self.rules is None or any(
                    set(verbs) & set(rule['verbs']) and 'resource.k8s.io' in rule['apiGroups'] and
                    'resourceclaims/driver' in rule['resources'] and driver in rule.get('resourceNames', [driver]) for rule in self.rules):
                continue
            text = (f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission: '
                    f'resourceclaims.resource.k8s.io "{driver}" is forbidden: User "{request.user}" cannot {verbs[0]} resource '
                    f'"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "{request.namespace}"')
            raise Refused(422, 'Invalid', f'ResourceClaim.resource.k8s.io "{request.name}" is invalid: status.devices: Forbidden: {text}',
                          details={'name': request.name, 'group': 'resource.k8s.io', 'kind': 'ResourceClaim', 'causes': [
                              {'reason': 'FieldValueForbidden', 'message': f'Forbidden: {text}', 'field': 'status.devices'}]})

    def carry_out(self, request):
        """(status, answer) of all but watches."""
        manager = request.query.get('fieldManager') or request.headers.get('User-Agent', '').partition('/')[0]
        if request.verb == 'list':
            return 200, self.list(request)
        if request.verb == 'get':
            return 200, told(self.store.find(request.collection, request.name), request)
        if request.verb == 'create' and request.resource in ('tokenreviews', 'subjectaccessreviews'):
            return 201, self.reviews.answer(request)
        if request.resource == 'resourceclaims' and request.subresource == 'status' and request.verb in ('update', 'patch'):
            self.admit_claim_status(request)
        if request.verb == 'create' and request.subresource == 'eviction':
            wanted = request.body.get('deleteOptions', {}).get('preconditions', {}).get('uid')
            if wanted not in (None, self.store.find(request.collection, request.name)['metadata']['uid']):
                raise Refused(409, 'Conflict', f'Precondition failed: UID in precondition: {wanted}')
            self.admit(request.collection, None, request.body, request.subresource)
            # Who is told has locks of its own, and may hold one while it asks for ours.
            threading.Thread(target=self.on_evicted, args=(request.namespace, request.name), daemon=True).start()
            return 201, {'kind': 'Status', 'apiVersion': 'v1', 'metadata': {}, 'status': 'Success'}
        if request.verb == 'create':
            if request.query.get('dryRun') == 'All':
                self.admit(request.collection, None, request.body, None)
                return 201, request.body
            made = self.store.create(request.collection, request.body, manager, request.namespace or None)
            if request.collection == POOL_STATUS and self.pool_status:
                threading.Timer(0.3, self.answer_pool_status, [json.loads(json.dumps(made))]).start()
            return 201, made
        if request.verb == 'update':
            return 200, self.store.write(request.collection, request.name, request.body, manager, request.subresource or None)
        if request.verb == 'patch':
            return self.change(request)
        self.store.delete(request.collection, request.name, (request.body or {}).get('preconditions'))
        return 200, {'kind': 'Status', 'apiVersion': 'v1', 'metadata': {}, 'status': 'Success'}
