# SPDX-License-Identifier: Apache-2.0
"""deploy/kind/setup.sh, with every branch taken: kind, nvkind and docker only write down what they are asked."""
import os
import re
import shutil
import stat

import pytest

from answers import badly, well

SOURCE = os.environ['WARPSHARE_SOURCE']
WORKER = 'warpshare-worker'
with open(os.path.join(SOURCE, 'deploy/kind/setup.sh'), encoding='utf-8') as file:
    NODE, = re.findall(r'^node_image=(docker\.io/kindest/node:v[0-9.]+@sha256:[0-9a-f]{64})$', file.read(), re.MULTILINE)

KIND = r'''#!/bin/bash
echo "${0##*/} $*" >>"$HOME/asked"
case "$*" in
"get clusters") cat "$HOME/clusters" 2>/dev/null ;;
"get nodes --name "*) printf '%s-control-plane\n%s-worker\n' "$4" "$4" ;;
"create cluster --name "*" --image "*) cat >"$HOME/config"; echo "$4" >>"$HOME/clusters" ;;
"cluster create --name="*" --image="*) echo "${3#--name=}" >>"$HOME/clusters" ;;
"load image-archive "*" --name "*) ;;
"delete cluster --name "*) rm "$HOME/clusters" ;;
*) exit 99 ;;
esac
'''
# Of helm: what it is asked for, and the GPU Operator's ClusterPolicy, which its chart makes of the values.
HELM = r'''#!/bin/bash
echo "${0##*/} $*" >>"$HOME/asked"
case "$*" in
"upgrade --install gpu-operator gpu-operator --repo https://helm.ngc.nvidia.com/nvidia "*) ;;
*) exit 99 ;;
esac
policy="repository: nvcr.io/nvidia, image: k8s-device-plugin, version: v0"
while [ $# -gt 0 ]; do
        case $1 in
        --set | --set-string)
                case $2 in
                devicePlugin.*) name=${2#devicePlugin.}; policy="$policy, ${name%%=*}: \"${name#*=}\"" ;;
                driver.enabled=false) has_driver=1 ;;
                *) exit 98 ;;
                esac ;;
        --kube-context) context=$2 ;;
        esac
        shift
done
[ -n "$has_driver" ] || exit 97
kubectl --context "$context" apply -f - <<TEXT
{apiVersion: v1, kind: Namespace, metadata: {name: gpu-operator}}
---
{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {name: cluster-policy}, spec: {devicePlugin: {$(tr -d '\n' <<<"$policy")}}}
TEXT
'''
ENGINE = r'''#!/bin/bash
[ "$*" != "info --format {{.DefaultRuntime}}" ] || cat "$HOME/runtime"
[ ! -e "$HOME/stopped" ] || exit 1
case "$*" in
info*) ;;
"build --file "*"/deploy/container/Dockerfile --tag docker.io/library/warpshare:"*) [ -e "$3" ] && [ -d "$6" ] && echo "$5" >"$HOME/built" ;;
"save --output "*) [ "$4" = "$(cat "$HOME/built")" ] && [ ! -e "$3" ] && echo "an archive of ${0##*/}" >"$3" ;;
*) exit 99 ;;
esac
'''
BUILD = '''#!/bin/bash
[ "$1" = --output ] && mkdir -p "${2%/*}" && echo "an archive of Debian" >"$2"
'''


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)


class Laptop:
    """Programs in the one folder of the PATH, beside the usual ones; files of the home folder are what they know."""

    def __init__(self, cluster, folder, run):
        self.cluster, self.folder, self.run = cluster, folder, run
        for name in ('kind', 'nvkind'):
            program(cluster.programs, name, KIND)
        for name in ('docker', 'podman'):
            program(cluster.programs, name, ENGINE)
        program(cluster.programs, 'helm', HELM)
        for name in ('awk', 'bash', 'cat', 'date', 'dirname', 'env', 'grep', 'head', 'rm', 'sed', 'sleep', 'tr'):
            os.symlink(f'/usr/bin/{name}', os.path.join(cluster.programs, name))
        self.write('image.tar', '')
        self.write('runtime', 'nvidia\n')
        cluster.delete('Node', 'gpu-node-1')
        cluster.add_node('warpshare-control-plane')
        cluster.add_node(WORKER)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), 'w', encoding='utf-8') as file:
            file.write(text)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding='utf-8') as file:
                return file.read()
        except FileNotFoundError:
            return ''

    def lacks(self, *names):
        for name in names:
            os.unlink(os.path.join(self.cluster.programs, name))

    def setup(self, *arguments, source=None):
        image = [] if source or {'--remove', '--image-archive'} & set(arguments) else ['--image-archive', os.path.join(self.folder, 'image.tar')]
        return self.run(os.path.join(source or '', 'deploy/kind/setup.sh'), *image, *arguments, PATH=self.cluster.programs)

    def source_without_an_image(self):
        """What the script needs of the source, where nothing is built yet. The machine is Debian if it has dpkg-query."""
        source = os.path.join(self.folder, 'source')
        for name in ('deploy/kind', 'deploy/manifests', 'docs'):
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(source, name))
        for name in ('deploy/container/Dockerfile', 'meson.build', 'scripts/bootstrap'):
            os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
            shutil.copy(os.path.join(SOURCE, name), os.path.join(source, name))
        program(source, 'deploy/container/build', BUILD)
        for name in ('mkdir', 'mv', 'sh'):
            os.symlink(f'/usr/bin/{name}', os.path.join(self.cluster.programs, name))
        return source

    def loaded(self):
        """The archive that kind was given, and what is in it."""
        name, = re.findall(r'^kind load image-archive (\S+)', self.read('asked'), re.MULTILINE)
        with open(name, encoding='utf-8') as file:
            return os.path.basename(name), file.read()


@pytest.fixture
def laptop(cluster, folder, run):
    return Laptop(cluster, folder, run)


def container(laptop, component):
    return laptop.cluster.get('DaemonSet', f'warpshare-{component}')['spec']['template']['spec']['containers'][0]


def test_a_cluster_is_made_with_simulated_gpus_on_its_worker(laptop):
    out = well(laptop.setup('--simulate'))
    assert f'{WORKER}: nvidia.com/gpu=16\n' in out
    assert laptop.read('asked').splitlines() == [
        'kind get clusters', f'kind create cluster --name warpshare --image {NODE} --config -',
        f'kind load image-archive {laptop.folder}/image.tar --name warpshare', 'kind get nodes --name warpshare']
    assert laptop.read('config').count('- role:') == 2
    assert set(laptop.cluster.runtime.running) == {(WORKER, 'agent'), (WORKER, 'mps')}
    assert container(laptop, 'agent')['image'].startswith('warpshare:')
    assert laptop.cluster.get('ConfigMap', 'warpshare-simulation')['data']['mps.conf'].endswith('gpus: V100-32GB 4\n')
    assert all(command.startswith('--context kind-warpshare ') for command in laptop.cluster.commands)
    assert 'default individual time-slicing unequal whole \n' in out


@pytest.mark.parametrize('arguments, model, count', [
    (['--simulate', 'H200'], 'H200', 4), (['--simulate', 'H100-80GB', '8'], 'H100-80GB', 8), (['--simulate', '2'], 'V100-32GB', 2),
    (['--simulate', 'T4', '--timeout', '9'], 'T4', 4)])
def test_model_and_count_of_the_simulation_can_be_said(laptop, arguments, model, count):
    well(laptop.setup(*arguments))
    data = laptop.cluster.get('ConfigMap', 'warpshare-simulation')['data']
    assert f'- {{model: {model}, count: {count}}}\n' in data['gpus.yaml'] and data['mps.conf'].endswith(f'gpus: {model} {count}\n')


def test_another_run_uses_the_cluster_and_replaces_the_pods(laptop):
    well(laptop.setup('--simulate'))
    before = laptop.cluster.runtime.running[WORKER, 'mps']['metadata']['uid']
    out = well(laptop.setup('--simulate', 'T4'))
    assert "cluster 'warpshare' is there already" in out and 'the previous pods are replaced' in out
    assert laptop.read('asked').count('create cluster') == 1
    assert laptop.cluster.runtime.running[WORKER, 'mps']['metadata']['uid'] != before


def test_real_gpus_are_nvkinds(laptop):
    out = well(laptop.setup())
    assert f'nvkind cluster create --name=warpshare --image={NODE}\n' in laptop.read('asked') and f'{WORKER}: nvidia.com/gpu=16\n' in out
    assert not laptop.cluster.get('ConfigMap', 'warpshare-simulation')
    assert 'WARPSHARE_NVML_LIBRARY' not in str(container(laptop, 'agent'))


@pytest.mark.parametrize('arguments, words', [(['--simulate'], '--image kindest/node:v1.34.11 '), ([], '--image=kindest/node:v1.34.11')])
def test_another_image_of_the_nodes_can_be_said(laptop, arguments, words):
    well(laptop.setup('--node-image', 'kindest/node:v1.34.11', *arguments))
    assert words in laptop.read('asked') and NODE not in laptop.read('asked')


def test_nvidias_operator_shares_by_time_with_our_image_as_its_plugin(laptop):
    laptop.cluster.runtime.gpus = 1
    out = well(laptop.setup('--gpu-operator'))
    assert f'{WORKER}: nvidia.com/gpu=1\n' in out and f'{WORKER}: nvidia.com/gpu=0, nvidia.com/gpu.shared=8\n' in out
    helm, = (line for line in laptop.read('asked').splitlines() if line.startswith('helm '))
    assert ' --kube-context kind-warpshare --namespace gpu-operator --create-namespace ' in helm and ' --version v26.7.0 ' in helm
    policy = laptop.cluster.get('ClusterPolicy', 'cluster-policy')['spec']['devicePlugin']
    assert (policy['repository'], policy['image']) == ('docker.io/library', 'warpshare')
    assert policy['config'] == {'name': 'time-slicing-config', 'default': ''}
    changes = [one for one in laptop.cluster.commands if re.search(r' (apply|patch|label) ', one)]
    assert [one.split()[2] for one in changes] == ['apply', 'apply', 'patch', 'label']  # the first is helm's
    assert not laptop.cluster.get('DaemonSet', 'warpshare-agent')
    assert 'nvidia.com/gpu.shared' in out.split('The end')[0].split('Shares of GPUs')[1]


def test_another_run_with_the_operator_replaces_its_pods(laptop):
    well(laptop.setup('--gpu-operator', '--operator-version', 'v26.3.3'))
    laptop.cluster.commands.clear()
    out = well(laptop.setup('--gpu-operator', '--operator-version', 'v26.3.3'))
    assert f'{WORKER}: nvidia.com/gpu=0, nvidia.com/gpu.shared=32\n' in out
    assert any('delete pods -l app=nvidia-device-plugin-daemonset' in one for one in laptop.cluster.commands)
    assert laptop.read('asked').count(' --version v26.3.3 ') == 2


@pytest.mark.parametrize('first, second, words', [
    (['--gpu-operator'], [], "the cluster 'warpshare' has NVIDIA's GPU Operator: '--remove' it first"),
    ([], ['--gpu-operator'], "the cluster 'warpshare' has Warpshare by its own manifest: '--remove' it first")])
def test_operator_and_our_own_manifests_are_not_mixed(laptop, first, second, words):
    well(laptop.setup(*first))
    assert words in badly(laptop.setup(*second))


@pytest.mark.parametrize('trouble, words', [
    ({'gpus': 0}, 'no GPU after 0 s; look: kubectl --context kind-warpshare -n gpu-operator get pods'),
    ({'counts': {'nvidia.com/gpu': '4'}}, 'no nvidia.com/gpu.shared after 0 s; look: kubectl --context kind-warpshare -n gpu-operator'),
])
def test_an_operator_that_does_not_come_up_is_reported_in_time(laptop, trouble, words):
    for key, value in trouble.items():
        setattr(laptop.cluster.runtime, key, value)
    assert words in badly(laptop.setup('--timeout', '0', '--gpu-operator'))


def test_the_cluster_goes_with_remove_and_nothing_else_is_asked(laptop):
    well(laptop.setup('--simulate'))
    laptop.cluster.commands.clear()
    laptop.lacks('kubectl', 'nvkind')
    well(laptop.setup('--remove'))
    assert laptop.read('asked').endswith('kind delete cluster --name warpshare\n') and laptop.cluster.commands == []
    assert well(laptop.setup('--remove')) == "there is no cluster 'warpshare'\n"


def test_another_name_is_that_of_cluster_and_context(laptop):
    laptop.cluster.add_node('mine-worker')
    assert well(laptop.setup('--name', 'mine', '--simulate')).endswith('deploy/kind/setup.sh --remove --name mine\n')
    assert laptop.cluster.commands[-1].startswith('--context kind-mine ')


@pytest.mark.parametrize('lacking, arguments, words', [
    (['kind'], ['--simulate'], 'not found on the PATH: kind (https'),
    (['docker', 'podman'], ['--simulate'], 'not found on the PATH: docker or podman\n'),
    (['kubectl'], ['--simulate'], 'not found on the PATH: kubectl (https'),
    (['helm'], ['--gpu-operator'], 'not found on the PATH: helm (https://helm.sh/docs/intro/install)\n'),
    (['nvkind'], [], 'not found on the PATH: nvkind (https://github.com/NVIDIA/nvkind), or --simulate\n'),
    (['kind', 'docker', 'podman', 'kubectl'], ['--simulate'], '; docker or podman; kubectl'),
    (['kind'], ['--remove'], 'not found on the PATH: kind (https'),
])
def test_what_is_missing_is_reported_at_once(laptop, lacking, arguments, words):
    laptop.lacks(*lacking)
    assert words in badly(laptop.setup(*arguments))
    assert laptop.read('asked') == '' and laptop.cluster.commands == []


def test_podman_alone_will_do(laptop):
    laptop.lacks('docker')
    program(laptop.cluster.programs, 'kind', KIND.replace('echo "${0##*/} $*"', 'echo "$KIND_EXPERIMENTAL_PROVIDER $*"'))
    well(laptop.setup('--simulate'))
    assert laptop.read('asked').startswith('podman get clusters\n')


def test_an_engine_that_does_not_run_is_reported(laptop):
    laptop.write('stopped', '')
    assert "docker is there and does not answer: start it, or see 'docker info'" in badly(laptop.setup('--simulate'))


def test_real_gpus_need_nvidias_runtime(laptop):
    laptop.write('runtime', 'runc\n')
    assert "docker's default runtime is not nvidia: 'sudo nvidia-ctk runtime configure" in badly(laptop.setup())
    well(laptop.setup('--simulate'))


@pytest.mark.parametrize('arguments, words', [
    (['--some'], "'--some' is no option"), (['--name'], '--name needs a value'), (['--name', 'A'], "'A' is no name of a cluster"),
    (['--simulate', 'V100'], "model 'V100': one of V100-32GB, T4, "), (['--simulate', 'T4', '17'], "'17' simulated GPUs: a number from 1 to 16"),
    (['--simulate', 'T4', 'x'], "'x' simulated GPUs"), (['--timeout', 'x'], "timeout 'x'"),
    (['--gpu-operator', '--simulate'], "--gpu-operator needs real GPUs: NVIDIA's operator looks for the driver itself"),
    (['--operator-version', 'v26.7.0'], '--operator-version goes with --gpu-operator'),
    (['--simulate', '--node-image', ''], "'' is no name of an image"), (['--simulate', '--node-image', '--x'], "'--x' is no name of an image"),
    (['--gpu-operator', '--operator-version', ''], "'' is no version of the operator"),
    (['--gpu-operator', '--operator-version', '26 7'], "'26 7' is no version of the operator"),
])
def test_a_wrong_command_line_is_an_error_before_anything_is_done(laptop, arguments, words):
    assert words in badly(laptop.setup(*arguments), 2)
    assert laptop.read('asked') == ''


def test_help_is_a_text_for_people(laptop):
    assert well(laptop.setup('--help')).startswith('usage: deploy/kind/setup.sh ')


@pytest.mark.parametrize('engine, lacking', [('docker', []), ('podman', ['docker'])])
def test_where_nothing_can_build_the_image_the_engine_does(laptop, engine, lacking):
    laptop.lacks(*lacking)
    source = laptop.source_without_an_image()
    out = well(laptop.setup('--simulate', source=source))
    name, content = laptop.loaded()
    assert re.fullmatch(rf'warpshare-\d+\.\d+\.\d+\.{engine}\.tar', name) and content == f'an archive of {engine}\n'
    assert f'{engine} builds the image' in out and f'{WORKER}: nvidia.com/gpu=16\n' in out
    assert container(laptop, 'agent')['image'] == laptop.read('built').strip().removeprefix('docker.io/library/')
    assert 'builds the image' not in well(laptop.setup('--simulate', source=source))  # it is there


@pytest.mark.skipif(not os.path.exists('/etc/debian_version'), reason='this machine is not Debian')
def test_debian_with_compiler_and_libraries_builds_the_image_without_the_engine(laptop):
    source = laptop.source_without_an_image()
    program(laptop.cluster.programs, 'dpkg-query', '#!/bin/bash\nprintf "%s\\n" "$@" >"$HOME/packages"\n')
    well(laptop.setup('--simulate', source=source))
    assert laptop.loaded()[1] == 'an archive of Debian\n' and not laptop.read('built')
    assert {'gcc', 'meson', 'dpkg-dev'} <= set(laptop.read('packages').split())


def test_an_engine_that_cannot_build_the_image_leaves_no_half_of_it(laptop):
    source = laptop.source_without_an_image()
    for command in ('build', 'save'):
        program(laptop.cluster.programs, 'docker', ENGINE.replace(f'"{command} --', f'"{command} --"*) exit 1 ;; "x {command} --'))
        assert 'the image cannot be built by docker: see above' in badly(laptop.setup('--simulate', source=source))
        assert 'load image-archive' not in laptop.read('asked')


def test_a_missing_image_is_reported(laptop):
    assert "the image '/nowhere' cannot be read" in badly(laptop.setup('--simulate', '--image-archive', '/nowhere'))


def test_a_worker_without_gpus_is_reported_in_time(laptop):
    laptop.cluster.runtime.lost = 16
    assert f'{WORKER}: no GPU after 0 s; look: kubectl --context kind-warpshare' in badly(laptop.setup('--timeout', '0', '--simulate'))


@pytest.mark.parametrize('pattern', ['label node', 'apply', 'rollout', 'wait pods'])
def test_a_cluster_that_does_not_answer_ends_it_and_another_run_goes_on(laptop, pattern):
    laptop.cluster.fail(pattern, 'no connection')
    assert 'no connection' in badly(laptop.setup('--simulate'))
    well(laptop.setup('--simulate'))
