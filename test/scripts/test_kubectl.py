# SPDX-License-Identifier: Apache-2.0
"""The stand-in for kubectl beside kubectl: every template of the scripts prints the same of the same objects."""
import json
import os
import shutil
import subprocess

import pytest
from answers import NODE, REPO
from templates import go_template, jsonpath

KUBECTL = shutil.which('kubectl', path=os.environ['PATH'])


@pytest.mark.skipif(not KUBECTL, reason='kubectl is not installed')
def test_templates_print_what_kubectl_prints(cluster, run, tmp_path):
    cluster.add_pod('training', NODE, limits={'nvidia.com/gpu': '7', 'memory': '1Gi'})
    cluster.add_node('other', {'nvidia.com/gpu.present': 'true'})
    for script, *arguments in (['setup.sh', '20', 'all', REPO], ['verify-mps-setup.sh'], ['setup.sh', '--force', '--remove', 'all']):
        run(f'scripts/{script}', *arguments)
    distinct = {(form, template): value for form, template, value in cluster.templates}
    assert len(distinct) > 15
    for (form, template), value in distinct.items():
        # kubectl takes the items of a list one by one here, so lists are made a part of something else.
        template = template.replace('.items', '.spec.items')
        path = tmp_path / 'object.json'
        value = json.loads(json.dumps({'apiVersion': 'example.com/v1', 'kind': 'Example', 'metadata': {'name': 'list'}, 'spec': value}
                                      if 'items' in value else value))
        path.write_text(json.dumps(value), encoding='utf-8')
        done = subprocess.run([KUBECTL, 'annotate', '--local', '-f', path, 'example.com/x=y', '-o', f'{form}={template}'], text=True,
                              capture_output=True, check=False, timeout=60, env={'PATH': os.environ['PATH'], 'KUBECONFIG': os.devnull,
                                                                                'HOME': str(tmp_path)})
        mine = {'jsonpath': jsonpath, 'go-template': go_template}[form](template, value)
        assert (done.stdout, done.stderr) == (mine, ''), template


def test_what_the_stand_in_does_not_know_is_an_error(cluster):
    assert cluster.answer(['get', 'nodes', '--sort-by', 'x'], '')['err'] == 'error: unknown flag: --sort-by\n'
    assert cluster.answer(['get', 'gadgets'], '')['err'] == 'error: the server doesn\'t have a resource type "gadgets"\n'
    assert 'stand-in:' in cluster.answer(['get', 'nodes', '-o', 'jsonpath={.items[?(@.x)]}'], '')['err']
    assert 'stand-in:' in cluster.answer(['patch', 'node', 'x'], '')['err']
