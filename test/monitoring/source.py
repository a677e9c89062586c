# SPDX-License-Identifier: Apache-2.0
"""What the tests of rules and dashboards read: the files, the metrics that docs/metrics.md names, and what a query asks for."""
import functools
import os
import re
import shutil

import pytest
import yaml

SOURCE = os.environ['WARPSHARE_SOURCE']
FILES = os.path.join(SOURCE, 'deploy/helm/warpshare/files')
RULES = os.path.join(FILES, 'rules.yaml')
# Of the scrape, not of the agent.
TARGET = {'job', 'instance', 'node'}
OF_PROMETHEUS = {'up': set(), 'ALERTS': {'alertname', 'alertstate', 'severity'}}


def read(path):
    with open(os.path.join(SOURCE, path), encoding='utf-8') as file:
        return file.read()


@functools.cache
def rules():
    """The alerts by name."""
    found = [rule for group in yaml.safe_load(read(RULES))['groups'] for rule in group['rules']]
    names = [rule['alert'] for rule in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found))


def program(name):
    if not shutil.which(name):
        pytest.skip(f'{name} is not installed (Debian: prometheus)')
    return name


@functools.cache
def metrics():
    """Labels by metric, from the tables of the page; and Prometheus' own."""
    found, labels, common = dict(OF_PROMETHEUS), set(), set()
    for first, column in re.findall(r'^\| ([^|]*) \| ([^|]*)\|', read('docs/metrics.md'), re.MULTILINE):
        names = re.findall(r'`(warpshare_\w+)`', first)
        if first == 'name':  # a heading, which may have labels of all that follows
            common = set(re.findall(r'`(\w+)`', column))
        if names and not column.startswith('the same'):
            labels = set(re.findall(r'`(\w+)`', column)) | common
        found.update((name, labels) for name in names)
    return found


def query_faults(query):
    """Metrics and labels of a query that docs/metrics.md does not have."""
    known = metrics()
    names = set(re.findall(r'\b(?:warpshare_\w+|up|ALERTS)\b', query))
    for name in names - known.keys():
        yield f'docs/metrics.md has no {name}'
    for name, selector in re.findall(r'\b(warpshare_\w+|up|ALERTS)\{([^}]*)\}', query):
        for label in set(re.findall(r'(\w+) *(?:=|!=|=~|!~) *"', selector)) - known.get(name, set()) - TARGET:
            yield f'{name} has no label {label}'
    labels = TARGET.union(*(known.get(name, set()) for name in names))
    for column in re.findall(r'\b(?:by|without|on|ignoring|group_left|group_right) *\(([^()]*)\)', query):
        for label in set(re.findall(r'\w+', column)) - labels:
            yield f'none of {", ".join(sorted(names))} has the label {label}'
