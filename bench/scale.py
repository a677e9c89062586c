# SPDX-License-Identifier: Apache-2.0
"""What grows with devices, with GPUs full of MPS clients, with nodes, and with a cluster on the dashboard: rows for bench/run, and pictures of them.

A series is measured at several sizes. An exponent above 1, over all of them, is worse than linear.
"""
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

DEVICES = (1000, 2000, 5000, 10000)
GPUS = (1, 4, 8, 16)
NODES = (25, 50, 100, 200)
CLUSTERS = (50, 100, 200, 500)
GRPC_LIMIT = 4096  # KiB: the largest message that kubelet's grpc-go accepts of a plugin


@contextlib.contextmanager
def all_cores(report):
    """For what starts hundreds of programs."""
    one_core = os.sched_getaffinity(0)
    os.sched_setaffinity(0, report.cores)
    yield
    os.sched_setaffinity(0, one_core)


class Series:
    """Figures by name and size: (unit, median, least, most)."""

    def __init__(self, sizes):
        self.sizes, self.values = sizes, {}

    def add(self, size, runs):
        """|runs|: figures of several runs, by name."""
        for name, figures in runs.items():
            medians = [one[1] for one in figures]
            self.values.setdefault(name, {})[size] = (figures[0][0], statistics.median(medians), min(medians), max(medians), medians)

    def exponent(self, name):
        """Of the growth over the whole range; 1 is linear. None: nothing is there to compare."""
        first, last = (self.values[name].get(size) for size in (self.sizes[0], self.sizes[-1]))
        if len(self.sizes) < 2 or not first or not last or min(first[1], last[1]) <= 0:
            return None
        return math.log(last[1] / first[1]) / math.log(self.sizes[-1] / self.sizes[0])

    def points(self, name, factor=1.0):
        return [[size, *(round(value * factor, 4) for value in self.values[name][size][1:4])] for size in self.sizes if size in self.values[name]]

    def report(self, report, what, rows, command, budgets=None):
        """Rows of the largest size, and a table of all."""
        cells = {}
        for name, text in rows:
            unit, *_, medians = self.values[name][self.sizes[-1]]
            report.add(f'{what(self.sizes[-1])}: {text}', unit, medians, command, budget=(budgets or {}).get(name))
            for size in self.sizes:
                cells[str(size), text] = self.values[name][size][1]
            exponent = self.exponent(name)
            if exponent is not None:
                cells['exponent', text] = exponent
        report.add_table(f'{what(None)}: {", ".join(self.values[name][self.sizes[-1]][0] or "1" for name, _ in rows)}',
                         [*map(str, self.sizes), 'exponent'], [text for _, text in rows], cells)


def chart(title, series, unit, lines, across, limits=(), factor=1.0):
    return {'title': title, 'x': {'title': across}, 'y': {'title': unit},
            'lines': [{'name': text, 'points': series.points(name, factor)} for name, text in lines], 'limits': list(limits)}


def draw(bench, name, title, charts):
    """docs/pictures/NAME.json and .svg, where pictures are wanted."""
    if not bench.pictures:
        return
    about = bench.about
    note = f'{about["date"]}, {about["cores"]} cores ({about["cpu"]}), load {os.getloadavg()[0]:.0f}; lines: medians, bars: runs'
    data, picture = (os.path.join(bench.pictures, f'{name}.{kind}') for kind in ('json', 'svg'))
    with open(data, 'w', encoding='utf-8') as file:
        json.dump({'title': title, 'note': note, 'columns': 2, 'charts': charts}, file, indent=1, ensure_ascii=False)
        file.write('\n')
    with open(picture, 'w', encoding='utf-8') as file:
        subprocess.run(['tools/plot', data], stdout=file, check=True)


# ---- devices ----

def devices(report, bench, times):
    sizes = DEVICES[:1] if bench.rehearsal else DEVICES
    series = Series(sizes)
    for size in sizes:
        shape = ('--gpus=10', f'--replicas={size // 10}', '--calls=300')
        for measure in ('start', 'list', 'allocate', 'prefer', 'memory', 'xid'):
            series.add(size, bench.repeat(times, bench.on_node(measure, *shape)))
        if shutil.which('valgrind'):
            few, many = (bench.instructions(bench.callgrind('serve', f'{bench.build}/bench/bench-session', 'prefer', calls, str(size // 10)))
                         for calls in ('10', '40'))
            series.add(size, {'prefer_instructions': [('thousands', (many - few) / 30 / 1000)]})
    command = bench.on_node('list', *shape)
    rows = (('start_cpu', 'from exec to the whole list at kubelet'), ('list_cpu', 'ListAndWatch'), ('xid_cpu', 'a GPU fails, and the list changes'),
            ('allocate_cpu', 'Allocate'), ('prefer_cpu', 'GetPreferredAllocation among all'),
            *([('prefer_instructions', 'GetPreferredAllocation among all, instructions')] if 'prefer_instructions' in series.values else []))
    series.report(report, lambda size: f'{size:,} devices, processor time of the agent' if size else 'devices: processor time of the agent', rows, command)
    series.report(report, lambda size: f'{size:,} devices' if size else 'devices', (
        ('start_to_devices', 'exec to the whole list at kubelet'), ('list', 'ListAndWatch to its first message'), ('list_size', 'its size'),
        ('xid_to_list', 'a GPU fails: Xid to the changed list'), ('allocate', 'Allocate'), ('prefer', 'GetPreferredAllocation among all'),
        ('pss_allocated', 'memory of the agent, proportional set size')), command, {'list_size': GRPC_LIMIT})
    draw(bench, 'scale-devices', 'One node, by the number of its devices (10 GPUs, time-slicing)', [
        chart('Processor time of the agent: lists', series, 'ms', (('start_cpu', 'start'), ('xid_cpu', 'a GPU fails'), ('list_cpu', 'ListAndWatch')),
              'devices', factor=0.001),
        chart('Processor time of the agent: calls', series, 'ms', (('prefer_cpu', 'GetPreferredAllocation among all'), ('allocate_cpu', 'Allocate of one')),
              'devices', factor=0.001),
        chart('Size of the list', series, 'KiB', (('list_size', 'first message'),), 'devices', [{'name': 'the most that kubelet accepts', 'at': GRPC_LIMIT}]),
        chart('Memory of the agent', series, 'MiB', (('pss_allocated', 'proportional set size'),), 'devices', factor=1 / 1024)])


# ---- MPS clients ----

def clients(report, bench, times):
    sizes = GPUS[:1] if bench.rehearsal else GPUS
    series = Series(sizes)
    few = ['--shares=2', '--seconds=1'] if bench.rehearsal else []
    command = [sys.executable, 'bench/clients.py', bench.build]
    for size in sizes:
        with all_cores(report):
            series.add(size, bench.repeat(times, [*command, f'--gpus={size}', *few]))
    series.report(report, lambda size: f'{size} GPUs with 48 MPS clients each' if size else 'GPUs with 48 MPS clients each', (
        ('agent_cpu', 'agent, of a core'), ('supervisor_cpu', 'supervisor, of a core'), ('agent_wakeups', 'agent, wake-ups'),
        ('supervisor_wakeups', 'supervisor, wake-ups'), ('agent_private', 'agent, private memory'),
        ('supervisor_private', 'supervisor, private memory'), ('agent_page', "agent's page of metrics"), ('agent_page_cpu', "agent's page of metrics, processor time"),
        ('agent_page_size', "agent's page of metrics, size"), ('supervisor_page', "supervisor's page of metrics"),
        ('supervisor_page_cpu', "supervisor's page of metrics, processor time"), ('supervisor_page_size', "supervisor's page of metrics, size"),
        ('status', 'status of all daemons'), ('status_cpu', 'status of all daemons, processor time')), [*command, f'--gpus={sizes[-1]}'])
    both = (('agent', 'agent'), ('supervisor', 'supervisor'))
    draw(bench, 'scale-clients', 'One node full of MPS clients that do nothing, 48 on each GPU', [
        chart('Processor', series, '% of a core', [(f'{name}_cpu', text) for name, text in both], 'GPUs'),
        chart('Wake-ups', series, 'a second', [(f'{name}_wakeups', text) for name, text in both], 'GPUs'),
        chart('Private memory', series, 'MiB', [(f'{name}_private', text) for name, text in both], 'GPUs'),
        chart('Page of metrics', series, 'ms of processor time', [(f'{name}_page_cpu', text) for name, text in both], 'GPUs')])


# ---- nodes ----

def nodes(report, bench, times):
    sizes = (3,) if bench.rehearsal else NODES
    series = Series(sizes)
    command = [sys.executable, 'bench/nodes.py', bench.agent, bench.library]
    few = ['--calm=1', '--outage=0.5', '--after=0'] if bench.rehearsal else []  # an hour's writes take an hour: docs/scale.md has them
    for size in sizes:
        with all_cores(report):
            series.add(size, bench.repeat(times, [*command, f'--nodes={size}', *few]))
    series.report(report, lambda size: f'{size} nodes' if size else 'nodes', (
        ('nodes_private', 'private memory of an agent with everything on'), ('nodes_start_requests', 'requests of a start'),
        ('nodes_graceful_busiest_tenth', 'the server ends all watches: requests in the busiest 0.1 s'),
        ('nodes_graceful_connections', 'the server ends all watches: connections in the busiest second'),
        ('nodes_graceful_back', 'the server ends all watches: until all stand again'),
        ('nodes_crash_busiest_tenth', 'the server was away for 2 s: requests in the busiest 0.1 s'),
        ('nodes_crash_connections', 'the server was away for 2 s: connections in the busiest second'),
        ('nodes_crash_back', 'the server was away for 2 s: until all watches stand again')), [*command, f'--nodes={sizes[-1]}'])


# ---- the dashboard ----

def dashboard(report, bench, times):
    sizes = (5,) if bench.rehearsal else CLUSTERS
    series = Series(sizes)
    command = [sys.executable, 'bench/dashboard.py', bench.agent]
    for size in sizes:
        with all_cores(report):  # the API server and the agents are this program's, too
            series.add(size, bench.repeat(times, [*command, f'--nodes={size}', *(['--few'] if bench.rehearsal else [])]))
    rows = [('dashboard_memory', 'memory at most'), ('dashboard_round', 'all agents asked for the first time'), ('dashboard_overview', 'the whole map'),
            ('dashboard_overview_size', 'its size'), ('dashboard_unchanged', 'the map, when nothing has changed'),
            ('dashboard_some', 'the whole map, for a viewer of one namespace'), ('dashboard_search', 'a search')]
    if 'dashboard_drawn' in series.values:
        rows += [('dashboard_paint', 'first contentful paint'), ('dashboard_drawn', 'the map is drawn')]
    series.report(report, lambda size: f'dashboard of {size} nodes' if size else 'dashboard, by nodes', rows, [*command, f'--nodes={sizes[-1]}'])
    charts = [chart('Memory at most, resident', series, 'MiB', (('dashboard_memory', 'dashboard'),), 'nodes', [{'name': 'budget', 'at': 64}]),
              chart('Answers', series, 'ms', (('dashboard_some', 'map for a viewer of one namespace'), ('dashboard_search', 'search'),
                                              ('dashboard_overview', 'whole map')), 'nodes'),
              chart('All agents asked, with the stand-ins for them', series, 's', (('dashboard_round', 'first round'),), 'nodes')]
    if 'dashboard_drawn' in series.values:
        charts.append(chart('In Chromium', series, 'ms', (('dashboard_drawn', 'map drawn'), ('dashboard_paint', 'first paint')), 'nodes',
                            [{'name': 'budget', 'at': 1000}]))
    draw(bench, 'scale-dashboard', 'The dashboard, by the number of nodes (8 GPUs with 20 shares each)', charts)
