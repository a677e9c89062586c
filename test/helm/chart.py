# SPDX-License-Identifier: Apache-2.0
"""Charts rendered with the program in this folder, which is built when there is a Go compiler; for tests and tools/manifests.

With WARPSHARE_HELM, the path of Helm 3 or 4, the tests render with that instead.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile

import yaml

SOURCE = os.environ.get('WARPSHARE_SOURCE') or os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
CHART = os.path.join(SOURCE, 'deploy/helm/warpshare')
GO_PATH = '/usr/share/gocode'
LIBRARIES = {'github.com/Masterminds/sprig': 'golang-github-masterminds-sprig-dev',
             'github.com/xeipuuv/gojsonschema': 'golang-github-xeipuuv-gojsonschema-dev',
             'sigs.k8s.io/yaml': 'golang-k8s-sigs-yaml-dev'}


class Refused(Exception):
    pass


HELM = os.environ.get('WARPSHARE_HELM')
# Helm prints the notes of a release that it installs, and knows the version of a cluster only where it does not: so they are an object here.
NOTES = 'kind: Notes\ntext: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}\n'


def missing():
    """What is not installed, as a sentence, or None."""
    if HELM:
        return None
    if not shutil.which('go'):
        return 'Go is not installed (Debian: golang-go)'
    for library, package in LIBRARIES.items():
        if not os.path.isdir(f'{GO_PATH}/src/{library}'):
            return f'{library} is not installed (Debian: {package})'
    return None


def build(program):
    """Slow once; Go keeps what it compiled for every build folder."""
    if HELM:
        return
    environment = {**os.environ, 'GO111MODULE': 'off', 'GOPATH': GO_PATH, 'GOPROXY': 'off', 'CGO_ENABLED': '0',
                   'GOCACHE': os.path.abspath(os.path.join(SOURCE, 'build/go'))}
    subprocess.run(['go', 'build', '-o', os.path.abspath(program), './test/helm'], cwd=SOURCE, env=environment, check=True,
                   timeout=280)


class Rendered:
    """texts: by template, notes: NOTES.txt, objects: all of them."""

    def __init__(self, texts):
        self.texts = {os.path.basename(name): text for name, text in texts.items()}
        self.notes = self.texts.pop('NOTES.txt', '')
        self.objects = [one for text in self.texts.values() for one in yaml.safe_load_all(text) if one is not None]

    def all(self, kind):
        return [one for one in self.objects if one['kind'] == kind]

    def one(self, kind, name):
        found = [one for one in self.all(kind) if one['metadata']['name'] == name]
        assert len(found) == 1, f'{len(found)} objects {kind} {name} among ' \
            f'{[(one["kind"], one["metadata"]["name"]) for one in self.objects]}'
        return found[0]


def files_of(values, folder):
    """Each of values is a table, or the path of a file."""
    for number, one in enumerate(values):
        path = one
        if not isinstance(one, str):
            path = os.path.join(folder, f'{number}.yaml')
            with open(path, 'w', encoding='utf-8') as file:
                json.dump(one, file)
        yield path


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        # Helm names a value by its path, and may say at the end how to see more.
        text = re.sub("at '/([^']*)'", lambda found: found[1].replace('/', '.').replace('~1', '/'), done.stderr)
        raise Refused(text.replace('\nUse --debug flag to render out invalid YAML', ''))
    return done.stdout


def render_by_helm(values, name, namespace, upgrade, kubernetes, chart):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(chart))
        shutil.copytree(chart, copy, symlinks=True)
        os.rename(os.path.join(copy, 'templates/NOTES.txt'), os.path.join(copy, 'NOTES.txt'))
        with open(os.path.join(copy, 'templates/NOTES.yaml'), 'w', encoding='utf-8') as file:
            file.write(NOTES)
        command = [HELM, 'template', name, copy, '--namespace', namespace, f'--kube-version=1.{kubernetes}.0']
        text = run(command + ['--is-upgrade'] * upgrade + [f'--values={path}' for path in files_of(values, folder)])
    texts = {}
    for part in re.split('^---\n', text, flags=re.MULTILINE):
        if named := re.match('# Source: (.*)\n', part):
            texts[named[1]] = texts.get(named[1], '') + '---\n' + part[named.end():]
    notes, = [text for template, text in texts.items() if template.endswith('/NOTES.yaml')]
    texts = {template: text for template, text in texts.items() if not template.endswith('/NOTES.yaml')}
    return {**texts, 'NOTES.txt': yaml.safe_load(notes)['text']}


def render(program, *values, name='warpshare', namespace='warpshare', upgrade=False, kubernetes=34, existing=(), chart=CHART):
    """Each of values is a table, or the path of a file. existing: KIND/NAMESPACE/NAME of what is in the cluster, which `helm template` cannot know."""
    if HELM:
        return Rendered(render_by_helm(values, name, namespace, upgrade, kubernetes, chart))
    with tempfile.TemporaryDirectory() as folder:
        command = [program, '-name', name, '-namespace', namespace, f'-kubernetes={kubernetes}'] + (['-upgrade'] if upgrade else [])
        command += [f'-existing={one}' for one in existing]
        for path in files_of(values, folder):
            command += ['-values', path]
        return Rendered(json.loads(run(command + [chart]))['templates'])
