"""Charts rendered with the program in this folder, which is built when there is a Go compiler; for tests and tools/manifests."""
import json
import os
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


def missing():
    """What is not installed, as a sentence, or None."""
    if not shutil.which('go'):
        return 'Go is not installed (Debian: golang-go)'
    for library, package in LIBRARIES.items():
        if not os.path.isdir(f'{GO_PATH}/src/{library}'):
            return f'{library} is not installed (Debian: {package})'
    return None


def build(program):
    """Slow once; Go keeps what it compiled for every build folder."""
    environment = {**os.environ, 'GO111MODULE': 'off', 'GOPATH': GO_PATH, 'GOPROXY': 'off', 'CGO_ENABLED': '0',
                   'GOCACHE': os.path.abspath(os.path.join(SOURCE, 'build/go'))}
    subprocess.run(['go', 'build', '-o', os.path.abspath(program), './test/helm'], cwd=SOURCE, env=environment, check=True,
                   timeout=280)


class Rendered:
    """texts: by template, notes: NOTES.txt, values: after merging, objects: all of them."""

    def __init__(self, answer):
        self.values = answer['values']
        self.texts = {os.path.basename(name): text for name, text in answer['templates'].items()}
        self.notes = self.texts.pop('NOTES.txt', '')
        self.objects = [one for text in self.texts.values() for one in yaml.safe_load_all(text) if one is not None]

    def all(self, kind):
        return [one for one in self.objects if one['kind'] == kind]

    def one(self, kind, name):
        found = [one for one in self.all(kind) if one['metadata']['name'] == name]
        assert len(found) == 1, f'{len(found)} objects {kind} {name} among ' \
            f'{[(one["kind"], one["metadata"]["name"]) for one in self.objects]}'
        return found[0]


def render(program, *values, name='warpshare', namespace='warpshare', upgrade=False, kubernetes=34, chart=CHART):
    """Each of values is a table, or the path of a file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, '-name', name, '-namespace', namespace, f'-kubernetes={kubernetes}'] + (['-upgrade'] if upgrade else [])
        for number, one in enumerate(values):
            path = one
            if not isinstance(one, str):
                path = os.path.join(folder, f'{number}.yaml')
                with open(path, 'w', encoding='utf-8') as file:
                    json.dump(one, file)
            command += ['-values', path]
        done = subprocess.run(command + [chart], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr)
    return Rendered(json.loads(done.stdout))
