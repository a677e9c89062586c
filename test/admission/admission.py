# SPDX-License-Identifier: Apache-2.0
"""Admission policies as an API server evaluates them, by CEL that is not ours: evaluate.mjs in node, with @bufbuild/cel from npm.

    policy = Policy(spec)
    assert policy.refusals(Review('UPDATE', 'nodes', user=agent_of('n1'), old=node, new=changed)) == []

What npm installs is in build/cel, for all builds, by the sums in package-lock.json.
"""
import atexit
import contextlib
import dataclasses
import fcntl
import filecmp
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
FOLDER = SOURCE / 'build/cel'
FILES = ('package.json', 'package-lock.json', '.npmrc')
NODE_OF_TOKEN = 'authentication.kubernetes.io/node-name'
ASKING = threading.Lock()
# By resource: kind, and the version that is asked for where a test does not say which.
KINDS = {'nodes': ('', 'v1', 'Node'), 'events': ('', 'v1', 'Event'), 'namespaces': ('', 'v1', 'Namespace'),
         'pods/eviction': ('policy', 'v1', 'Eviction'), 'nodefeatures': ('nfd.k8s-sigs.io', 'v1alpha1', 'NodeFeature'),
         'resourceslices': ('resource.k8s.io', 'v1', 'ResourceSlice'), 'resourceclaims': ('resource.k8s.io', 'v1', 'ResourceClaim')}


# ---- the package ----

def is_installed():
    return bool(shutil.which('node')) and all((FOLDER / name).is_file() and filecmp.cmp(HERE / name, FOLDER / name, False) for name in FILES)


def missing():
    """What is not installed, as a sentence, or None."""
    for program, package in (('node', 'nodejs'), ('npm', 'npm')):
        if not shutil.which(program):
            return f'{program} is not installed (Debian: {package})'
    return None


def install():
    """From the registry that npm is set to. Of several who want it one does it; the folder is whole or not there."""
    FOLDER.parent.mkdir(exist_ok=True)
    with open(f'{FOLDER}.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_installed():
            return
        with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix='cel-') as folder:
            made = pathlib.Path(folder) / 'cel'
            made.mkdir()
            for name in FILES:
                shutil.copyfile(HERE / name, made / name)
            subprocess.run(['npm', 'ci', '--omit=dev'], cwd=made, check=True, timeout=240, stdin=subprocess.DEVNULL)
            shutil.rmtree(FOLDER, ignore_errors=True)
            made.rename(FOLDER)


# ---- the evaluator ----

@functools.lru_cache(maxsize=1)
def evaluator():
    process = subprocess.Popen(['node', str(HERE / 'evaluate.mjs'), str(FOLDER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end():
        process.stdin.close()
        process.wait()
    atexit.register(end)
    return process


def ask(question):
    process = evaluator()
    with ASKING:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(question) + '\n')
            process.stdin.flush()
        line = process.stdout.readline()
    assert line, 'evaluate.mjs has ended'
    return json.loads(line)


# ---- what is asked ----

def agent_of(node, account='system:serviceaccount:warpshare:warpshare'):
    """The user of a token that kubelet gave to a pod of the agent; None: of one that is bound to no pod."""
    extra = {NODE_OF_TOKEN: [node], 'authentication.kubernetes.io/pod-name': ['warpshare-agent-x']} if node else {}
    user = {'username': account, 'uid': 'u', 'groups': ['system:serviceaccounts', 'system:authenticated']}
    return {**user, 'extra': extra} if extra else user


@dataclasses.dataclass
class Review:
    """One write. |resource| may have a subresource: nodes/status. A create by generateName has no |name| in its request."""
    operation: str
    resource: str
    user: dict
    new: object = None
    old: object = None
    version: str = ''
    is_nameless: bool = False  # generateName, deletecollection
    namespace_object: object = None

    def question(self):
        """As admission.k8s.io/v1 has it: what is empty is left out of the request, but for objects, which are null."""
        resource, _, subresource = self.resource.partition('/')
        group, version, kind = KINDS[self.resource if self.resource in KINDS else resource]
        metadata = (self.new or self.old)['metadata']
        request = {'uid': 'r', 'kind': {'group': group, 'version': self.version or version, 'kind': kind},
                   'resource': {'group': '' if subresource == 'eviction' else group, 'version': self.version or version, 'resource': resource},
                   'subResource': subresource, 'name': '' if self.is_nameless else metadata.get('name', ''),
                   'namespace': metadata.get('namespace', ''), 'operation': self.operation, 'userInfo': self.user, 'dryRun': False}
        return {'request': {key: value for key, value in request.items() if value != ''}, 'object': self.new, 'oldObject': self.old,
                'namespaceObject': self.namespace_object}


class Policy:
    """|values|: variables of the policy that have another value than the chart gave them, as {name: JSON}."""

    def __init__(self, spec, values=None):
        self.spec = dict(spec)
        known = {one['name'] for one in spec.get('variables', [])}
        assert not values or set(values) <= known, f'{set(values) - known} are no variables of the policy'
        self.spec['variables'] = [{**one, 'expression': json.dumps(values[one['name']])} if values and one['name'] in values else one
                                  for one in spec.get('variables', [])]

    def refusals(self, review):
        """The messages; none: it is admitted."""
        return ask({'policy': self.spec, **review.question()})['refusals']

    def matches(self, review):
        """Whether it is about such a request: its rules and its conditions."""
        group = review.question()['request']['resource']['group']
        return any(group in rule['apiGroups'] and review.operation in rule['operations'] and review.resource in rule['resources']
                   for rule in self.spec['matchConstraints']['resourceRules']) and ask({'policy': self.spec, **review.question()})['matched']

    def faults(self):
        return ask({'policy': self.spec})['faults']


if __name__ == '__main__' and not is_installed():
    if missing():
        raise SystemExit(missing())
    install()
