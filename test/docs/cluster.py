# SPDX-License-Identifier: Apache-2.0
"""Commands that need a cluster are not run here, but what they name has to be there: files, targets, values, objects, labels."""
import functools
import glob
import json
import os
import re

import yaml

from pages import SOURCE

CHART = 'deploy/helm/warpshare'
OURS = ('deploy', 'docs', 'scripts', 'sim', 'test', 'tools')
NAMESPACES = {'warpshare', 'default', 'kube-system', 'gpu', 'team', 'gpu-operator', 'nvidia-gpu-operator', 'nvidia-device-plugin',
              'node-feature-discovery'}
FOREIGN = {  # objects of NVIDIA's chart and operator, and those of a page's own example
    'nvidia-device-plugin-daemonset', 'nvidia-device-plugin-mps-control-daemon', 'gpu-feature-discovery', 'configs',
}
PLACEHOLDER = re.compile(r'^[A-Z][A-Z_-]*$|^\$|…')


def load(path):
    with open(os.path.join(SOURCE, path), encoding='utf-8') as file:
        return file.read()


@functools.cache
def objects():
    found = []
    for path in glob.glob(os.path.join(SOURCE, 'deploy/*s/*.yaml')):
        found += [one for one in yaml.safe_load_all(load(path)) if one]
    return found


@functools.cache
def names():
    return FOREIGN | {one['metadata']['name'] for one in objects()}


@functools.cache
def labels():
    """key=value of every pod that we make."""
    found = set()
    for one in objects():
        template = one.get('spec', {}).get('template', {}) if isinstance(one.get('spec'), dict) else {}
        found |= {f'{key}={value}' for key, value in template.get('metadata', {}).get('labels', {}).items()}
    return found


@functools.cache
def chart():
    return yaml.safe_load(load(CHART + '/values.yaml')), json.loads(load(CHART + '/values.schema.json'))


def value_fault(path):
    """What is wrong with a.b.c as a value of the chart, or None."""
    node, schema = chart()
    for key in re.split(r'(?<!\\)\.', path):
        key = re.sub(r'\[\d+\]$', '', key)
        properties = schema.get('properties', {}) if isinstance(schema, dict) else {}
        if not isinstance(node, dict) or (not node and not properties):
            return None  # a list, or a table with any content
        if key not in node and key not in properties:
            return f'the chart has no value {path}'
        node, schema = node.get(key), properties.get(key, {})
    return None


def values_faults(values, path=''):
    """The same for what stands in a values file."""
    for key, value in (values or {}).items():
        name = f'{path}.{key}' if path else key
        fault = value_fault(name)
        if fault:
            yield fault
        elif isinstance(value, dict) and name not in ('config.map',):
            yield from values_faults(value, name)


def _option(words, *options):
    """Each value of these options: "--option value" or "--option=value"."""
    for at, word in enumerate(words):
        name, has_value, value = word.partition('=')
        if name in options:
            yield value if has_value else words[at + 1]


def _paths(words, files):
    for word in words:
        word = word.rpartition('=')[2] if word.startswith('--') else word
        if re.match(r'^(?:\./)?(?:%s)/' % '|'.join(OURS), word) and not os.path.exists(os.path.join(SOURCE, word)):
            yield f'there is no {word}'
    for name in list(_option(words, '-f', '--filename', '--values')):
        if name != '-' and '/' not in name and name not in files and not name.startswith('their-'):
            yield f'{name} stands nowhere on this page'


def _make(words):
    if '-C' in words:
        return  # of somebody else's Makefile
    targets = re.findall(r'^([a-z]+):', load('Makefile'), re.MULTILINE)
    for word in words[1:]:
        if '=' not in word and not word.startswith('-') and word not in targets:
            yield f'the Makefile has no target {word}'


def _helm(words):
    if CHART not in words:
        return
    for setting in _option(words, '--set', '--set-string', '--set-file'):
        for one in re.split(r'(?<!\\),', setting):
            fault = value_fault(one.partition('=')[0])
            if fault:
                yield fault


def _kubectl(words):
    end = words.index('--') if '--' in words else len(words)
    words = words[:end]
    for namespace in _option(words, '-n', '--namespace'):
        if namespace not in NAMESPACES and not PLACEHOLDER.search(namespace):
            yield f'no page has a namespace {namespace}'
    for selector in _option(words, '-l', '--selector'):
        for one in selector.split(','):
            if one.startswith('app.kubernetes.io/') and one not in labels():
                yield f'no pod of ours has the label {one}'
    for word in words:
        found = re.match(r'^(daemonsets?|ds|deployments?|deploy|configmaps?|cm)/(.+)$', word)
        if found and found.group(2) not in names() and not PLACEHOLDER.search(found.group(2)):
            yield f'there is no {word} among what we make'


def faults(words, files):
    """What is wrong with a simple command, one sentence each. files: names of the files that the page has."""
    yield from _paths(words, files)
    yield from {'make': _make, 'helm': _helm, 'kubectl': _kubectl, 'oc': _kubectl}.get(words[0], lambda _: ())(words)
