# SPDX-License-Identifier: Apache-2.0
"""Many nodes of one cluster: their objects and agents' pods in the stand-in API server, and behind these an agent that answers as a test says.

    fleet = Fleet(api)
    fleet.add_node('n1', capacity={'nvidia.com/gpu': '10'})
    fleet.pages['n1'] = page('n1', gpu('0', shares=[share('team-a', 'train', replicas=3)]))
"""
import http.server
import json
import threading
import time

NODES = '/api/v1/nodes'
AGENTS = '/api/v1/namespaces/warpshare/pods'
LABELS = {'app.kubernetes.io/name': 'warpshare', 'app.kubernetes.io/component': 'agent'}
GIB = 1 << 30


def share(namespace, pod, replicas=1, container='main', by_claim=None, **more):
    return {'namespace': namespace, 'pod': pod, 'container': container, 'podUid': f'uid-{namespace}-{pod}', 'replicas': replicas,
            'memoryLimit': 8 * GIB * replicas, 'memoryUsed': 2 * GIB, 'sm': 0.25, **({'claim': by_claim} if by_claim else {}), **more}


def unit(uuid, index, shares=(), resource='nvidia.com/gpu.shared', sharing='mps', replicas=10, **more):
    return {'uuid': uuid, 'index': index, 'resource': resource, 'sharing': sharing, 'by': 'device-plugin', 'replicas': replicas,
            'granted': sum(s.get('replicas', 0) for s in shares), 'memory': 80 * GIB, 'memoryUsed': 2 * GIB * len(shares),
            'utilization': 0.5, 'healthy': True, 'shares': list(shares), **more}


def gpu(index, shares=(), model='NVIDIA H100 80GB HBM3', uuid=None, units=None, **more):
    uuid = uuid or f'GPU-00000000-0000-0000-0000-{int(index):012d}'
    return {'uuid': uuid, 'index': index, 'model': model, 'memory': 80 * GIB, 'memoryUsed': 2 * GIB * len(shares),
            'utilization': 0.5, 'temperature': 50, 'power': 300, 'powerLimit': 700,
            'units': units if units is not None else [unit(uuid, index, shares, **more)]}


def page(node, *gpus, events=(), **more):
    return {'version': 1, 'node': node, 'agent': '0.1.0', 'time': time.time(), 'driver': '570.86.15', 'gpus': list(gpus),
            'events': list(events), **more}


def without_history(value):
    if isinstance(value, dict):
        return {key: without_history(one) for key, one in value.items() if key not in ('history', 'memoryHistory')}
    return [without_history(one) for one in value] if isinstance(value, list) else value


class AgentHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    fleet = None

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        self.fleet.asked.append(self.path)
        node = next((name for name, port in self.fleet.ports.items() if port == self.server.server_address[1]), None)
        path, _, query = self.path.partition('?')
        answer = self.fleet.others.get((node, path)) or (self.fleet.pages.get(node) if path == '/node' else None)
        if callable(answer):
            answer = answer(query)
        if isinstance(answer, dict) and 'history=1' not in query:
            answer = without_history(answer)  # as the agent
        with self.fleet.lock:
            self.fleet.now += 1
            self.fleet.peak = max(self.fleet.peak, self.fleet.now)
        while not self.fleet.closing.wait(self.fleet.delay) and self.fleet.peak < self.fleet.crowd:
            pass
        with self.fleet.lock:
            self.fleet.now -= 1
        code, body = answer if isinstance(answer, tuple) else (200, answer) if answer is not None else (404, '404 page not found\n')
        body = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Fleet:
    """|pages|: node → what /node answers there, an object or (status, body), or a function that makes one of the query; |others|: (node, path) → the same for other pages."""

    def __init__(self, api):
        self.api, self.pages, self.others, self.ports, self.servers = api, {}, {}, {}, []
        self.asked = []  # paths
        self.delay, self.now, self.peak = 0, 0, 0  # seconds before each answer; questions that wait for one; the most at a time
        self.crowd = 0  # no answer before so many questions wait at a time
        self.lock, self.closing = threading.Lock(), threading.Event()

    def add_node(self, name, capacity=None, allocatable=None, labels=None, agent=True, taints=(), ready='True', conditions=(),
                 unschedulable=False):
        counts = {'cpu': '8', 'pods': '110', **(capacity or {})}
        self.api.put(NODES, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': {
            'kubernetes.io/hostname': name, **(labels or {})}}, 'spec': {
                'taints': list(taints), **({'unschedulable': True} if unschedulable else {})}, 'status': {
                'capacity': counts, 'allocatable': {**counts, **(allocatable or {})}, 'nodeInfo': {'kubeletVersion': 'v1.36.0'},
                'conditions': [{'type': 'Ready', 'status': ready, 'reason': 'KubeletReady' if ready == 'True' else 'NodeStatusUnknown',
                                'message': 'kubelet is posting ready status' if ready == 'True' else 'Kubelet stopped posting node status.'},
                               *conditions]}})
        if agent:
            self.add_agent(name)

    def add_agent(self, node, name=None, **status):
        if node not in self.ports:
            handler = type('BoundHandler', (AgentHandler,), {'fleet': self})
            server = Server(('127.0.0.1', 0), handler)
            threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.1}, daemon=True).start()
            self.servers.append(server)
            self.ports[node] = server.server_address[1]
        self.put_agent(node, name or f'agent-{node}', self.ports[node], **status)

    def put_agent(self, node, name, port, phase='Running', state=None, ready=True, collection=AGENTS, probe='HTTP'):
        self.api.put(collection, {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': dict(LABELS)}, 'spec': {
            'nodeName': node, 'containers': [{'name': 'agent', 'image': 'warpshare:0.1.0', 'ports': [
                {'name': 'metrics', 'containerPort': port}], 'readinessProbe': {'httpGet': {
                    'path': '/healthz', 'port': 'metrics', 'scheme': probe}}}]}, 'status': {
                'phase': phase, 'podIP': '127.0.0.1', 'containerStatuses': [
                    {'name': 'agent', 'ready': ready, 'restartCount': 0, 'state': state or {'running': {}}}]}})

    def close(self):
        self.closing.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


def pod(name, resource='nvidia.com/gpu.shared', count=1, phase='Pending', reason=None, message=None, scheduled=None, node=None, **spec):
    """One that asks for devices. |scheduled|: what the scheduler says of it, (reason, message)."""
    status = {'phase': phase, **({'reason': reason} if reason else {}), **({'message': message} if message else {})}
    if scheduled:
        status['conditions'] = [{'type': 'PodScheduled', 'status': 'False', 'reason': scheduled[0], 'message': scheduled[1]}]
    counts = {'resources': {'limits': {resource: str(count)}}} if count else {}
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': {
        'containers': [{'name': 'main', 'image': 'x', **counts}], **({'nodeName': node} if node else {}), **spec}, 'status': status}
