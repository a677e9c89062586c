# SPDX-License-Identifier: Apache-2.0
"""examples/: what each container runs keeps its framework within the share; the rest is what Kubernetes and our drivers know.

The frameworks are stand-ins that write down what they are asked for. What they make of it is in docs/using-a-share.md, with its source.
"""
import glob
import json
import os
import re
import subprocess

import pytest
import yaml

from pages import SOURCE

PATHS = sorted(glob.glob(os.path.join(SOURCE, 'examples/*.yaml')))
LIMIT, TOTAL, CUDA_TOTAL = 11299, 32605, 32349  # MiB: 7 of 20 replicas of a V100, what NVML and what CUDA report of it
SHARE = {'WARPSHARE_MEMORY_LIMIT_MIB': str(LIMIT), 'WARPSHARE_FRACTION': '0.3465'}
CONTEXT = 512  # MiB that have to be left
STAND_INS = {
    'vllm': 'while [ "$1" != --gpu-memory-utilization ]; do shift; done; echo "part $2"',
    'python3': 'case $2 in *jax*) echo "part $XLA_CLIENT_MEM_FRACTION" ;; *) exec /usr/bin/python3 "$@" ;; esac',
    'tritonserver': 'echo pool ${2#--cuda-memory-pool-byte-size=0:}; cat ${1#--model-repository=}/*/config.pbtxt',
}
TORCH = '''
class cuda:
    @staticmethod
    def mem_get_info():
        import os
        return 0, int(os.environ['CUDA_TOTAL']) << 20
    @staticmethod
    def set_per_process_memory_fraction(part):
        print('part', part)
        raise SystemExit
'''


def objects(path):
    with open(path, encoding='utf-8') as file:
        return list(yaml.safe_load_all(file))


def pod_of(path):
    thing = objects(path)[-1]
    return thing['spec']['template']['spec'] if 'template' in thing['spec'] else thing['spec']


def run(path, folder, total=CUDA_TOTAL, share=LIMIT, has_metadata=True):
    """What the framework is asked for, in MiB."""
    for name, text in STAND_INS.items():
        (folder / name).write_text('#!/bin/sh\n' + text + '\n', encoding='utf-8')
        (folder / name).chmod(0o755)
    (folder / 'torch.py').write_text(TORCH, encoding='utf-8')
    for model in ('one', 'two'):
        (folder / 'repository' / model).mkdir(parents=True)
        (folder / 'repository' / model / 'config.pbtxt').write_text('limit GPU_MEM_LIMIT\n', encoding='utf-8')
    container, = pod_of(path)['containers']
    metadata = folder / 'attributes/resourceclaims/device-plugin/gpu/gpu.warpshare.dev-metadata.json'
    metadata.parent.mkdir(parents=True)
    requests = [{'devices': [{'attributes': {'memoryMiB': {'int': share}}}, {'attributes': {}}]}]
    lines = [json.dumps({'apiVersion': 'metadata.resource.k8s.io/' + version, 'requests': requests if version != 'v9' else None}) + '\n'
             for version in ('v9', 'v1beta1', 'v1alpha1')]
    if has_metadata:
        metadata.write_text(''.join(lines), encoding='utf-8')
    command = [word.replace('/tmp/models', f'{folder}/models').replace('/var/run/kubernetes.io/dra-device-attributes', f'{folder}/attributes')
               for word in container['command']]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=folder, env={
        **SHARE, 'WARPSHARE_MEMORY_LIMIT_MIB': str(share), 'CUDA_TOTAL': str(total), 'MODELS': f'{folder}/repository', 'PYTHONPATH': str(folder),
        'PATH': f'{folder}:/usr/bin:/bin'})
    parts = [float(part) for part in re.findall(r'^part (\S+)$', done.stdout, re.MULTILINE)]
    sizes = [int(size) for size in re.findall(r'^(?:pool|limit) (\d+)$', done.stdout, re.MULTILINE)]
    assert bool(parts) != bool(sizes), done.stdout + done.stderr
    return sum(parts) * total + sum(sizes) / 2 ** 20


def name_of(path):
    return os.path.basename(path)


@pytest.mark.parametrize('path', PATHS, ids=name_of)
def test_a_framework_gets_the_share_less_the_context(path, tmp_path):
    asked = run(path, tmp_path)
    assert LIMIT - 2 * CONTEXT < asked <= LIMIT - CONTEXT, asked


def test_pytorch_gets_it_where_cuda_reports_the_share(tmp_path):
    asked = run(os.path.join(SOURCE, 'examples/pytorch.yaml'), tmp_path, total=LIMIT)
    assert LIMIT - 2 * CONTEXT < asked <= LIMIT - CONTEXT, asked


def test_pytorch_gets_it_without_device_metadata(tmp_path):
    asked = run(os.path.join(SOURCE, 'examples/pytorch.yaml'), tmp_path, has_metadata=False)
    assert LIMIT - 2 * CONTEXT < asked <= LIMIT - CONTEXT, asked


@pytest.mark.parametrize('path', PATHS, ids=name_of)
def test_an_example_asks_for_a_share_and_hides_no_shared_memory(path):
    pod = pod_of(path)
    container, = pod['containers']
    resources = container['resources']
    if 'claims' in resources:
        template = objects(path)[0]
        request, = template['spec']['spec']['devices']['requests']
        with open(os.path.join(SOURCE, 'deploy/manifests/dra.yaml'), encoding='utf-8') as file:
            classes = {one['metadata']['name'] for one in yaml.safe_load_all(file) if one and one['kind'] == 'DeviceClass'}
        assert request['exactly']['deviceClassName'] in classes
        assert set(request['exactly']['capacity']['requests']) <= {'memory', 'threadPercentage', 'clients'}
        claim, = pod['resourceClaims']
        assert claim['resourceClaimTemplateName'] == template['metadata']['name'] and resources['claims'] == [{'name': claim['name']}]
    else:
        assert list(resources['limits']) == ['nvidia.com/gpu']
    assert '/dev/shm' not in str(container.get('volumeMounts'))


@pytest.mark.parametrize('path', PATHS, ids=name_of)
def test_no_argument_needs_kubelet_to_know_a_variable_of_the_plugin(path):
    """kubelet replaces $(NAME) in arguments by variables of the pod only."""
    container, = pod_of(path)['containers']
    assert not re.search(r'\$\((?:WARPSHARE|CUDA_MPS)', str(container)), container


def test_the_page_has_each_example():
    with open(os.path.join(SOURCE, 'docs/using-a-share.md'), encoding='utf-8') as file:
        text = file.read()
    assert [name_of(path) for path in PATHS if f'(../examples/{name_of(path)})' not in text] == []


def test_the_program_of_the_page_reads_the_share_in_the_file_of_replicas_and_of_a_claim(tmp_path):
    with open(os.path.join(SOURCE, 'docs/using-a-share.md'), encoding='utf-8') as file:
        program, = re.findall(r'```python\n(import glob\n.*?)```', file.read(), re.DOTALL)
    folder = '/var/run/kubernetes.io/dra-device-attributes'
    assert folder in program
    for place, uuid in (('resourceclaims/device-plugin/gpu', 'GPU-1'), ('resourceclaimtemplates/gpu/main', 'GPU-2')):
        (tmp_path / place).mkdir(parents=True)
        attributes = {'uuid': {'string': uuid}, 'memoryMiB': {'int': LIMIT}, 'threadPercentage': {'int': 35}}
        requests = [{'name': 'main', 'devices': [{'driver': 'd', 'pool': 'p', 'name': 'n', 'attributes': attributes}]}]
        lines = [json.dumps({'kind': 'DeviceMetadata', 'apiVersion': 'metadata.resource.k8s.io/' + version, 'requests': requests if known else None})
                 for version, known in (('v2', False), ('v1beta1', True), ('v1alpha1', True))]
        (tmp_path / place / 'gpu.warpshare.dev-metadata.json').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    done = subprocess.run(['/usr/bin/python3', '-c', program.replace(folder, str(tmp_path))], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.splitlines()) == [f'GPU-1 {LIMIT} 35 None', f'GPU-2 {LIMIT} 35 None']
