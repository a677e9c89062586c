#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A Kubernetes cluster in containers of this machine (kind), with Warpshare in it, on real or on simulated GPUs.
set -euo pipefail

name=warpshare
timeout=${WARPSHARE_TIMEOUT:-300}
most=16 # GPUs that the simulation can have
# What is fetched, each the same every time. The node's image is the one that kind 0.33 makes clusters of; its digest is that of all platforms.
node_image=docker.io/kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed
operator_version=v26.7.0
root=$(cd "$(dirname "$0")/../.." && pwd)

usage() {
        cat <<'TEXT'
usage: deploy/kind/setup.sh [OPTION...]                        on this machine's GPUs
       deploy/kind/setup.sh [OPTION...] --simulate [MODEL] [COUNT]  on simulated GPUs: no GPU is needed (default V100-32GB 4)
       deploy/kind/setup.sh [OPTION...] --gpu-operator        on this machine's GPUs, with NVIDIA's operator
       deploy/kind/setup.sh --remove [--name NAME]

Makes a kind cluster with one worker, loads the image into it, and installs Warpshare: each GPU is shared by MPS in four shares. May be
run again, after a change of the image, of MODEL or of COUNT.

  --simulate           simulated GPUs; MODEL is one that docs/simulator.md lists, COUNT is 1 to 16 of each worker
  --gpu-operator       NVIDIA's GPU Operator in the place of our manifests, with our image as its device plugin; then a ConfigMap, the
                       operator's patch and a label of the node share each GPU by time in eight: nvidia.com/gpu.shared
  --operator-version V of the operator's chart (default v26.7.0)
  --image-archive FILE the image, an archive of OCI or of docker (default: what `make image` makes, built now if it is not there; on a
                       machine that is not Debian, or lacks compiler and libraries, docker or podman builds it from this source)
  --node-image IMAGE   of the cluster's nodes (default kindest/node:v1.36.4 by its digest, which kind 0.33 makes clusters of; each release
                       of kind names those that it can use)
  --name NAME          of the cluster (default warpshare)
  --timeout SECONDS    how long to wait for pods and GPUs (default 300, or WARPSHARE_TIMEOUT)
  --remove             delete the cluster, and nothing else
  -h, --help           this text

Needed: kind, kubectl, and docker or podman; helm for --gpu-operator. For real GPUs also NVIDIA's driver, its container toolkit as docker's default runtime, and
nvkind, which makes a kind cluster whose worker has the GPUs, the driver and the toolkit in it (github.com/NVIDIA/nvkind).
What it changes: the cluster, and kubectl's configuration gets the context kind-NAME. Nothing else on this machine.
Exit status: 0 done, 1 something is wrong, 2 the command line is.
TEXT
}

say() {
        printf '%s\n' "$*"
}

fail() {
        printf 'deploy/kind/setup.sh: %s\n' "$*" >&2
        exit 1
}

misuse() {
        printf 'deploy/kind/setup.sh: %s; --help says more\n' "$*" >&2
        exit 2
}

# ---- what is needed ----

# All that is missing at once.
find_programs() {
        local missing=""
        engine=""
        command -v kind >/dev/null || missing="$missing; kind (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)"
        if command -v docker >/dev/null; then
                engine=docker
        elif command -v podman >/dev/null; then
                engine=podman
                export KIND_EXPERIMENTAL_PROVIDER=podman
        else
                missing="$missing; docker or podman"
        fi
        if [ -z "$remove" ]; then
                command -v kubectl >/dev/null || missing="$missing; kubectl (https://kubernetes.io/docs/tasks/tools)"
                [ -z "$operator" ] || command -v helm >/dev/null || missing="$missing; helm (https://helm.sh/docs/intro/install)"
                [ -n "$simulate" ] || command -v nvkind >/dev/null ||
                        missing="$missing; nvkind (https://github.com/NVIDIA/nvkind), or --simulate"
        fi
        [ -z "$missing" ] || fail "not found on the PATH: ${missing#; }"
        "$engine" info >/dev/null 2>&1 || fail "$engine is there and does not answer: start it, or see '$engine info'"
        if [ -z "$remove$simulate" ] && [ "$(docker info --format '{{.DefaultRuntime}}')" != nvidia ]; then
                fail "docker's default runtime is not nvidia: 'sudo nvidia-ctk runtime configure --runtime=docker --set-as-default'," \
                        "'sudo nvidia-ctk config --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place', and restart docker"
        fi
}

builds_here() {
        # shellcheck disable=SC2046 # the list is words
        grep -qsx 'ID=debian' /etc/os-release && dpkg-query -W $("$root/scripts/bootstrap" --list --image) >/dev/null 2>&1
}

# Under the name by which pods ask for it in a kind cluster, whichever engine it is.
build_by_engine() {
        local image=docker.io/library/warpshare:$version
        say "$engine builds the image, which takes some minutes"
        "$engine" build --file "$root/deploy/container/Dockerfile" --tag "$image" "$root" || return
        mkdir -p "$(dirname "$archive")"
        rm -f "$archive.new" # podman adds to no archive
        "$engine" save --output "$archive.new" "$image" && mv "$archive.new" "$archive"
}

find_image() {
        local built=build/image/warpshare
        version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
        if [ -z "$archive" ]; then
                archive=$root/$built-$version.oci.tar
                if [ -r "$archive" ]; then
                        :
                elif builds_here; then
                        "$root/deploy/container/build" --output "$archive" || fail "the image cannot be built: see above"
                else
                        archive=$root/$built-$version.$engine.tar
                        [ -r "$archive" ] || build_by_engine || fail "the image cannot be built by $engine: see above"
                fi
        fi
        [ -r "$archive" ] || fail "the image '$archive' cannot be read"
}

# ---- the cluster ----

kube() {
        kubectl --context "kind-$name" "$@"
}

has_cluster() {
        kind get clusters 2>/dev/null | grep -qxF "$name"
}

make_cluster() {
        if has_cluster; then
                say "cluster '$name' is there already, and is used as it is"
        elif [ -z "$simulate" ]; then
                nvkind cluster create --name="$name" --image="$node_image"
        else
                kind create cluster --name "$name" --image "$node_image" --config - <<'TEXT'
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
- role: worker
TEXT
        fi
        kind load image-archive "$archive" --name "$name"
        workers=$(kind get nodes --name "$name" | grep -v -- '-control-plane$') || fail "the cluster '$name' has no worker"
        if [ -z "$operator" ]; then # which gives that label by itself
                for worker in $workers; do
                        kube label node "$worker" --overwrite nvidia.com/gpu.present=true
                done
        fi
}

# Two device plugins would take the GPUs from each other.
find_the_other_kind() {
        if [ -n "$operator" ]; then
                [ -z "$(kube --namespace warpshare get daemonset warpshare-agent --ignore-not-found -o name)" ] ||
                        fail "the cluster '$name' has Warpshare by its own manifest: '--remove' it first, or another '--name'"
        elif kube get clusterpolicies.nvidia.com/cluster-policy -o name >/dev/null 2>&1; then
                fail "the cluster '$name' has NVIDIA's GPU Operator: '--remove' it first, or another '--name'"
        fi
}

manifest() {
        if [ -n "$simulate" ]; then
                sed -e "s#registry.example.com/warpshare:[^ \"]*#warpshare:$version#" \
                        -e "s/{model: V100-32GB, count: 4}/{model: $model, count: $count}/" \
                        -e "s/gpus: V100-32GB 4\$/gpus: $model $count/" "$root/deploy/manifests/simulated.yaml"
        else
                sed "s#registry.example.com/warpshare:[^ \"]*#warpshare:$version#" "$root/deploy/manifests/mps.yaml"
        fi
}

# Pods do not follow other GPUs, nor an image that has changed under its name.
install() {
        local had
        had=$(kube --namespace warpshare get daemonset warpshare-mps --ignore-not-found -o name)
        manifest | kube apply -f -
        if [ -n "$had" ]; then
                say "the previous pods are replaced"
                kube --namespace warpshare delete pods -l app.kubernetes.io/name=warpshare
        fi
        kube --namespace warpshare rollout status daemonset/warpshare-agent --timeout "${timeout}s"
        kube --namespace warpshare wait pods -l app.kubernetes.io/component=mps --for=condition=Ready --timeout "${timeout}s"
}

# Until each worker has a count that fits the one expression and none that fits the other.
wait_for_counts() { # wanted, unwanted, what is missing otherwise, where to look
        local until found worker
        until=$(($(date +%s) + timeout))
        for worker in $workers; do
                while :; do
                        found=$(kube get node "$worker" -o \
                                "go-template={{range \$name, \$count := .status.allocatable}}{{\$name}}={{\$count}}{{\"\\n\"}}{{end}}" |
                                grep '^nvidia\.com/' || true)
                        if grep -qE "$1" <<<"$found" && ! grep -qE "$2" <<<"$found"; then
                                break
                        fi
                        [ "$(date +%s)" -lt "$until" ] || fail "$worker: no $3 after $timeout s; look: kubectl --context kind-$name $4"
                        sleep 1
                done
                say "$worker: ${found//$'\n'/, }"
        done
}

wait_for_gpus() {
        wait_for_counts '=[1-9]' '^$' GPU "-n warpshare exec daemonset/warpshare-agent -- warpshare doctor"
}

# ---- NVIDIA's operator ----

install_operator() {
        local had worker look="-n gpu-operator get pods"
        had=$(kube get clusterpolicies.nvidia.com/cluster-policy -o name 2>/dev/null || true)
        helm upgrade --install gpu-operator gpu-operator --repo https://helm.ngc.nvidia.com/nvidia --version "$operator_version" \
                --kube-context "kind-$name" --namespace gpu-operator --create-namespace --set driver.enabled=false \
                --set devicePlugin.repository=docker.io/library --set devicePlugin.image=warpshare \
                --set-string "devicePlugin.version=$version" --wait --timeout "${timeout}s"
        if [ -n "$had" ]; then
                say "the previous pods are replaced"
                kube --namespace gpu-operator delete pods -l app=nvidia-device-plugin-daemonset
        fi
        wait_for_counts '^nvidia\.com/gpu(\.shared)?=[1-9]' '^$' GPU "$look"
        kube apply -f - <<'TEXT'
apiVersion: v1
kind: ConfigMap
metadata:
  name: time-slicing-config
  namespace: gpu-operator
data:
  shared: |
    version: v1
    sharing:
      timeSlicing:
        renameByDefault: true
        resources:
        - name: nvidia.com/gpu
          replicas: 8
TEXT
        kube patch clusterpolicies.nvidia.com/cluster-policy --type merge \
                --patch '{"spec": {"devicePlugin": {"config": {"name": "time-slicing-config", "default": ""}}}}'
        for worker in $workers; do
                kube label node "$worker" --overwrite nvidia.com/device-plugin.config=shared
        done
        wait_for_counts '^nvidia\.com/gpu\.shared=[1-9]' '^nvidia\.com/gpu=[1-9]' nvidia.com/gpu.shared "$look"
}

explain_operator() {
        local k="kubectl --context kind-$name"
        cat <<TEXT

Shares of GPUs can be asked for: nvidia.com/gpu.shared. nvidia.com/gpu stays, with a count of 0, until kubelet starts anew. A pod:
  $k run share --image=warpshare:$version --restart=Never \\
    --overrides='{"spec":{"containers":[{"name":"share","image":"warpshare:$version","command":["sleep","3600"],"resources":{"limits":{"nvidia.com/gpu.shared":1}}}]}}'
  $k exec share -- env | grep NVIDIA
What serves:
  $k -n gpu-operator logs daemonset/nvidia-device-plugin-daemonset -c nvidia-device-plugin
Whole GPUs again:
  $k label node $(head -n 1 <<<"$workers") nvidia.com/device-plugin.config-
The end:
  deploy/kind/setup.sh --remove$([ "$name" = warpshare ] || echo " --name $name")
TEXT
}

tell() {
        local k="kubectl --context kind-$name"
        cat <<TEXT

Shares of GPUs can be asked for. A pod that asks for one, and what it is told:
  $k run share --image=warpshare:$version --restart=Never \\
    --overrides='{"spec":{"containers":[{"name":"share","image":"warpshare:$version","command":["sleep","3600"],"resources":{"limits":{"nvidia.com/gpu":1}}}]}}'
  $k exec share -- env | grep -E 'NVIDIA|CUDA'
What serves:
  $k -n warpshare exec daemonset/warpshare-mps -- warpshare mps status
Another configuration for a worker: $(kube --namespace warpshare get configmap warpshare-configs -o \
                "go-template={{range \$name, \$text := .data}}{{\$name}} {{end}}")
  $k label node $(head -n 1 <<<"$workers") --overwrite nvidia.com/device-plugin.config=NAME
The end:
  deploy/kind/setup.sh --remove$([ "$name" = warpshare ] || echo " --name $name")
TEXT
}

# ---- the command line ----

simulate=""
operator=""
has_version=""
remove=""
archive=""
model=V100-32GB
count=4
while [ $# -gt 0 ]; do
        case $1 in
        --simulate)
                simulate=1
                case ${2:--} in -* | *[!0-9]*) ;; *) set -- "$1" "$model" "${@:2}" ;; esac # only COUNT
                case ${2:--} in -*) ;; *)
                        model=$2
                        shift
                        case ${2:--} in -*) ;; *)
                                count=$2
                                shift
                                ;;
                        esac
                        ;;
                esac
                ;;
        --remove) remove=1 ;;
        --gpu-operator) operator=1 ;;
        --name | --image-archive | --timeout | --operator-version | --node-image)
                [ $# -gt 1 ] || misuse "$1 needs a value"
                case $1 in
                --name) name=$2 ;;
                --image-archive) archive=$2 ;;
                --timeout) timeout=$2 ;;
                --operator-version) operator_version=$2 has_version=1 ;;
                --node-image) node_image=$2 ;;
                esac
                shift
                ;;
        -h | --help)
                usage
                exit 0
                ;;
        *) misuse "'$1' is no option" ;;
        esac
        shift
done
[[ $name =~ ^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$ ]] || misuse "'$name' is no name of a cluster"
[ -z "$operator" ] || [ -z "$simulate" ] ||
        misuse "--gpu-operator needs real GPUs: NVIDIA's operator looks for the driver itself"
[ -n "$operator" ] || [ -z "$has_version" ] || misuse "--operator-version goes with --gpu-operator"
[[ $node_image =~ ^[A-Za-z0-9][A-Za-z0-9._:/@-]*$ ]] || misuse "'$node_image' is no name of an image"
[[ $operator_version =~ ^[A-Za-z0-9][A-Za-z0-9.+-]*$ ]] || misuse "'$operator_version' is no version of the operator"
[[ $timeout =~ ^[0-9]{1,6}$ ]] || misuse "timeout '$timeout': a number of seconds"
if ! [[ $count =~ ^[1-9][0-9]?$ ]] || [ "$count" -gt $most ]; then
        misuse "'$count' simulated GPUs: a number from 1 to $most"
fi
# shellcheck disable=SC2016 # the quotes are of Markdown
grep -q "^| \`model\` |.*\`$model\`" "$root/docs/simulator.md" ||
        misuse "model '$model': one of $(sed -n 's/^| `model` | \(.*\) | required |$/\1/p' "$root/docs/simulator.md" | tr -d '`')"

find_programs
if [ -n "$remove" ]; then
        if has_cluster; then
                kind delete cluster --name "$name"
        else
                say "there is no cluster '$name'"
        fi
        exit
fi
find_image
make_cluster
find_the_other_kind
if [ -n "$operator" ]; then
        install_operator
        explain_operator
else
        install
        wait_for_gpus
        tell
fi
