# SPDX-License-Identifier: Apache-2.0
"""The stand-in API server of the tests for a thousand nodes: one thread, and a change wakes the watches that it is for and no others.

    async with BusyApi(folder) as api:
        ... agents with api.kubeconfig() ...
        await api.restart(outage=2, graceful=False)

Objects, versions, selectors and server-side apply are those of test/e2e. It speaks HTTP without TLS, and everybody may do everything. It keeps when
it was asked what, and counts bytes. After a restart it is as a real one whose watch cache begins anew: whoever goes on from an older version than the
newest hears 410 and has to list.
"""
import asyncio
import dataclasses
import http.server
import json
import time
import urllib.parse

import apiserver
from apistore import Refused, Store, now

LOG = 4096  # newest changes that a watch can go on from


@dataclasses.dataclass
class Asked:
    at: float
    verb: str
    resource: str
    status: int
    user: str  # of which node, by its connection's first request


class BusyStore(Store):
    """Its readers are not woken; they are told, by |changed|."""

    changed = staticmethod(lambda entry: None)

    def record(self, collection, name, type_, object_, before=None):
        super().record(collection, name, type_, object_, before)
        if len(self.log) > 2 * LOG:
            self.oldest = self.log[LOG][0]
            del self.log[:LOG]
        self.changed(self.log[-1])


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time, as libcurl sends them."""

    def __init__(self, api):
        self.api = api
        self.data = b''
        self.transport = self.watch = self.deadline = None

    def connection_made(self, transport):
        self.transport = transport
        self.api.connections.add(self)
        self.api.opened.append(time.monotonic())

    def connection_lost(self, error):
        self.api.connections.discard(self)
        self.end_watch()

    def data_received(self, data):
        self.api.bytes_in += len(data)
        self.data += data
        while True:
            head, separator, rest = self.data.partition(b'\r\n\r\n')
            if not separator:
                return
            first, *lines = head.decode('latin-1').split('\r\n')
            headers = {name.lower(): value.strip() for name, value in (line.split(':', 1) for line in lines)}
            length = int(headers.get('content-length', 0))
            if len(rest) < length:
                return
            self.data = rest[length:]
            method, target, _ = first.split(' ')
            self.handle(method, target, headers, rest[:length])

    def write(self, data):
        self.api.bytes_out += len(data)
        self.transport.write(data)

    def send(self, status, body, headers=''):
        text = json.dumps(body).encode()
        self.write(f'HTTP/1.1 {status} {http.server.BaseHTTPRequestHandler.responses.get(status, ("Status",))[0]}\r\n'
                   f'Content-Type: application/json\r\n{headers}Content-Length: {len(text)}\r\n\r\n'.encode() + text)

    def handle(self, method, target, headers, body):
        request = read_request(method, target, headers, body)
        status, answer, more = 200, None, ''
        try:
            if self.api.busy():
                raise Refused(429, 'TooManyRequests', 'too many requests, please try again later', 1)
            status, answer = self.api.answer(request)
        except Refused as refused:
            status, answer = refused.code, refused.status()
            more = f'Retry-After: {refused.retry_after}\r\n' if refused.retry_after is not None else ''
        self.api.asked.append(Asked(time.monotonic(), request.verb, request.resource, status, headers.get('user-agent', '')))
        if answer is None:
            self.begin_watch(request)
        else:
            self.send(status, answer, more)

    # ---- a watch ----

    def event(self, type_, object_):
        text = json.dumps({'type': type_, 'object': object_}).encode() + b'\n'
        self.write(b'%x\r\n%s\r\n' % (len(text), text))

    def begin_watch(self, request):
        seen = int(request.query.get('resourceVersion') or 0)
        self.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n')
        if seen < self.api.store.oldest:
            self.event('ERROR', Refused(410, 'Expired', f'too old resource version: {seen}').status())
            self.write(b'0\r\n\r\n')
            return
        self.watch = request
        self.api.add_watch(self)
        for entry in self.api.store.log:
            if entry[0] > seen and apiserver.is_part_of(entry[1], request.collection):
                self.tell(entry)
        self.deadline = asyncio.get_running_loop().call_later(float(request.query.get('timeoutSeconds') or 300), self.finish_watch)

    def tell(self, entry):
        event = apiserver.Handler.event_of(None, entry, self.watch)
        if event:
            self.event(event['type'], event['object'])

    def bookmark(self):
        self.event('BOOKMARK', {'metadata': {'resourceVersion': str(self.api.store.version)}})

    def end_watch(self):
        if self.watch:
            self.api.remove_watch(self)
            self.deadline.cancel()
            self.watch = None

    def finish_watch(self):
        self.end_watch()
        self.write(b'0\r\n\r\n')


def read_request(method, target, headers, body):
    url = urllib.parse.urlsplit(target)
    request = apiserver.Request('', urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)),
                                json.loads(body) if body else None, {'User-Agent': headers.get('user-agent', '')},
                                content_type=headers.get('content-type', ''))
    request.known = apiserver.parse_path(request)
    request.verb = {'POST': 'create', 'PUT': 'update', 'PATCH': 'patch', 'DELETE': 'delete'}.get(method) or (
        'get' if request.name or not request.known else 'watch' if request.query.get('watch') in ('1', 'true') else 'list')
    return request


class BusyApi(apiserver.ApiServer):
    """What ApiServer does with requests, behind another door."""

    def __init__(self, folder, most_per_second=None):
        super().__init__(folder, tls=False)
        self.server.shutdown()  # the door with a thread for each connection
        self.server.server_close()
        self.store = BusyStore(self.admit)
        self.store.changed = self.tell_watches
        self.serve_dra()
        self.asked, self.opened = [], []  # what was asked, and when connections came
        self.bytes_in = self.bytes_out = 0
        self.busy_connections, self.watching = set(), {}  # (collection, name or '') → connections
        self.connections = set()
        self.most_per_second, self.second, self.in_second = most_per_second, 0, 0
        self.listener = self.bookmarks = None

    async def __aenter__(self):
        await self.listen()
        self.bookmarks = asyncio.ensure_future(self.keep_young())
        return self

    async def __aexit__(self, *_):
        self.bookmarks.cancel()
        self.listener.close()
        self.cut()
        await asyncio.sleep(0)  # they are gone
        self.close()

    async def listen(self):
        loop = asyncio.get_running_loop()
        self.listener = await loop.create_server(lambda: Connection(self), '127.0.0.1', self.port, backlog=4096)

    async def keep_young(self):
        """As the real one: a bookmark a minute, each watch at its own time."""
        while True:
            watches = [one for group in self.watching.values() for one in group]
            for number, one in enumerate(watches):
                if one.watch and one.watch.query.get('allowWatchBookmarks') == 'true':
                    one.bookmark()
                await asyncio.sleep(self.bookmark_interval / len(watches) if number + 1 < len(watches) else 0)
            await asyncio.sleep(1)

    def cut(self):
        for one in list(self.connections):
            one.transport.abort()

    async def restart(self, outage, graceful):
        """Gracefully: watches end one and all, and another server is there at once. Otherwise it is gone, and back after |outage| seconds."""
        if graceful:
            for one in list(self.connections):
                if one.watch:
                    one.finish_watch()
        else:
            self.listener.close()
            self.cut()
            await asyncio.sleep(outage)
            await self.listen()
        with self.store.lock:
            self.store.compact()

    def busy(self):
        """As priority and fairness: no more than so many in a second."""
        second = int(time.monotonic())
        self.second, self.in_second = second, self.in_second + 1 if second == self.second else 1
        return self.most_per_second is not None and self.in_second > self.most_per_second

    def answer(self, request):
        """(status, body), and no body for a watch."""
        request.user = 'system:serviceaccount:default:agent'
        if not request.known:
            found = self.discovery.get(request.path)
            return (200, found) if found else (404, {'kind': 'Status', 'code': 404})
        if any(request.path.startswith(prefix) for prefix in self.missing):
            return 404, {'kind': 'Status', 'code': 404}
        if request.verb == 'watch':
            return 200, None
        with self.store.lock:
            return self.carry_out(request)

    # ---- watches ----

    @staticmethod
    def place_of(request):
        return request.collection, request.names()

    def add_watch(self, connection):
        self.watching.setdefault(self.place_of(connection.watch), set()).add(connection)

    def remove_watch(self, connection):
        self.watching[self.place_of(connection.watch)].discard(connection)

    def tell_watches(self, entry):
        collection, name = entry[1], entry[3]['metadata']['name']
        whole, kind = collection, collection.rsplit('/', 1)[1]
        if '/namespaces/' in collection:
            whole = collection.partition('/namespaces/')[0] + '/' + kind
        for place in {(collection, name), (collection, ''), (whole, name), (whole, '')}:
            for connection in list(self.watching.get(place, ())):
                connection.tell(entry)

    def watches_now(self):
        return sum(map(len, self.watching.values()))


__all__ = ['BusyApi', 'now']
