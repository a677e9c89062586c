# SPDX-License-Identifier: Apache-2.0
"""The chart's policy <release>-own-node in the stand-in API server: whatever an agent writes in a test is judged as a real server would.

    api.policy = policy_of(api, 'n1')

The release's values are what the agents of this test were started with. Without node and CEL (test/admission) nothing is judged.
"""
import os
import pathlib
import re
import sys

import yaml

from apistore import Refused
from node import Process

SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
sys.path.append(str(SOURCE / 'test/admission'))
import admission  # noqa: E402, pylint: disable=wrong-import-position

OPERATIONS = {'create': 'CREATE', 'update': 'UPDATE', 'delete': 'DELETE'}


def told(option):
    """What agents were started with: --node-taint=…, or as two words."""
    found = {match[1] for command in Process.commands for match in re.finditer(f'{option}[= ](\\S+)', ' '.join(map(str, command)))}
    return sorted(word.replace('=:', ':') for word in found)


def policy_of(api, node):
    if not admission.is_installed():
        return None
    manifest = (SOURCE / 'deploy/manifests/dra.yaml').read_text(encoding='utf-8')
    spec, = [one['spec'] for one in yaml.safe_load_all(manifest) if one['kind'] == 'ValidatingAdmissionPolicy']

    def judge(request, before, object_):
        resource = request.resource + ('/' + request.subresource if request.subresource else '')
        if not any(resource in rule['resources'] for rule in spec['matchConstraints']['resourceRules']):
            return
        policy = admission.Policy(spec, {'home': api.namespace, 'eventKinds': ['Node', 'Pod'], 'taints': told('--node-taint'),
                                         'conditionTypes': told('--node-condition')})
        operation = OPERATIONS.get(request.verb) or ('UPDATE' if before else 'CREATE')
        refusals = policy.refusals(admission.Review(operation, resource, admission.agent_of(node), object_, before))
        if refusals:
            raise Refused(403, 'Forbidden', f'ValidatingAdmissionPolicy: {refusals}')
    return judge
