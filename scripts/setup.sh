#!/bin/bash
#
# Shares the GPUs of a node, or of all GPU nodes, by MPS. Needs kubectl and nothing else; safe to repeat.
set -euo pipefail

namespace=${WARPSHARE_NAMESPACE:-warpshare}
timeout=${WARPSHARE_TIMEOUT:-300}
manifest=$(dirname "$0")/../deploy/manifests/setup.yaml
label=nvidia.com/device-plugin.config
chosen=warpshare.io/setup
configs=warpshare-setup
most=60 # clients of one GPU, on the newest drivers and GPUs

usage() {
        cat <<'TEXT'
usage: scripts/setup.sh [OPTION...] REPLICAS [aggregate|individual] NODE|all IMAGE-REPO [IMAGE-TAG] [SECRET-NAME]
       scripts/setup.sh --remove [OPTION...] NODE|all

Shares each GPU of NODE, or of all nodes that have one, among REPLICAS containers by MPS.

  aggregate    one resource for all GPUs of a node: 4 GPUs with 20 replicas are nvidia.com/gpu: 80 (the default)
  individual   one resource a GPU: nvidia.com/gpu0: 20, nvidia.com/gpu1: 20, …

  IMAGE-REPO   where the image is, as registry.example.com/warpshare    (or PLUGIN_IMAGE_REPO in the environment)
  IMAGE-TAG    default: the version of these files                      (or PLUGIN_IMAGE_TAG)
  SECRET-NAME  of the namespace, to pull the image with                 (or IMAGE_PULL_SECRET_NAME)

  --dry-run         say what would be changed, and change nothing
  --namespace NAME  where to install (default warpshare, or WARPSHARE_NAMESPACE)
  --no-wait         do not wait until the node has its resources
  --force           go on where another device plugin for nvidia.com/gpu is found
  --remove          take it back: labels, configuration and, with the last node, everything that was installed
  -h, --help        this text

  scripts/setup.sh 20 aggregate gpu-node-1 registry.example.com/warpshare
  scripts/setup.sh 20 individual all registry.example.com/warpshare 0.1.0 registry-secret
  scripts/setup.sh --remove all

What it changes: the namespace, a service account for each of two DaemonSets with a cluster role, the DaemonSets, the ConfigMap
warpshare-setup, and on the node the labels warpshare.io/setup and nvidia.com/device-plugin.config. Nothing else of the cluster is
touched. Pods that run keep their shares when REPLICAS change. Then look: scripts/verify-mps-setup.sh NODE.
Exit status: 0 done, 1 something is wrong in the cluster, 2 the command line is.
TEXT
}

say() {
        printf '%s\n' "$*"
}

fail() {
        printf 'setup.sh: %s\n' "$*" >&2
        exit 1
}

misuse() {
        printf 'setup.sh: %s; --help says more\n' "$*" >&2
        exit 2
}

dry_run=
wait=1
force=
remove=
words=()
while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) dry_run=1 ;;
        --no-wait) wait= ;;
        --force) force=1 ;;
        --remove) remove=1 ;;
        --namespace)
                [ $# -gt 1 ] || misuse "--namespace needs a name"
                namespace=$2
                shift
                ;;
        -h | --help)
                usage
                exit 0
                ;;
        -*) misuse "'$1' is no option" ;;
        *) words+=("$1") ;;
        esac
        shift
done

command -v kubectl >/dev/null || fail "kubectl is not on the PATH"

# Changes the cluster, or says how it would.
change() {
        if [ -n "$dry_run" ]; then
                say "would run: kubectl $*"
        else
                kubectl "$@"
        fi
}

# An object from standard input.
apply() {
        if [ -n "$dry_run" ]; then
                say "would apply:"
                sed 's/^/    /'
        else
                kubectl apply -f -
        fi
}

# The nodes that are meant, one a line.
find_nodes() {
        local node=$1 found
        if [ "$node" != all ]; then
                kubectl get node "$node" -o 'jsonpath={.metadata.name}{"\n"}' || fail "there is no node '$node'"
                return
        fi
        found=$(
                for selector in feature.node.kubernetes.io/pci-10de.present=true nvidia.com/gpu.present=true "$chosen=true"; do
                        kubectl get nodes -l "$selector" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
                done | sort -u
        ) || fail "the nodes cannot be listed"
        [ -n "$found" ] || fail "no node says that it has an NVIDIA GPU: label them with" \
                "'kubectl label node NODE nvidia.com/gpu.present=true', or name one"
        say "$found"
}

# Two plugins for one resource take it from each other.
look_for_others() {
        local others
        others=$(kubectl get daemonsets --all-namespaces -o \
                'jsonpath={range .items[*]}{.metadata.namespace}{"/"}{.metadata.name}{"\n"}{end}' |
                grep -E '/(nvidia-device-plugin|.*-nvidia-device-plugin)[a-z-]*$' |
                grep -vE '/.*mps-control-daemon$' || true)
        [ -n "$others" ] || return 0
        if [ -n "$force" ]; then
                say "warning: other device plugins are there: ${others//$'\n'/, }"
        else
                fail "other device plugins are there: ${others//$'\n'/, }. Take them off these nodes first (the GPU Operator:" \
                        "'kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false'), then go on with --force"
        fi
}

# The setup's manifest with our image, secret and namespace.
manifest() {
        sed -e "s#registry.example.com/warpshare:[^ \"]*#$repo:$tag#" -e "s/\(namespace\|name\): warpshare\$/&/" \
                -e "s/^\( *namespace: \)warpshare\$/\1$namespace/" -e "s/\(namespace: \)warpshare}/\1$namespace}/" "$manifest" |
                awk -v namespace="$namespace" -v secret="$secret" '
                        /^kind: Namespace$/ { in_namespace = 1 }
                        in_namespace && /^  name: warpshare$/ { sub(/warpshare/, namespace); in_namespace = 0 }
                        /^ *imagePullSecrets:$/ && secret == "" { skip = 2 }
                        skip > 0 { skip--; next }
                        { sub(/image-pull-secret/, secret); print }'
}

# The configurations that are there already, and ours. Others stay: other nodes may use them.
configuration() {
        local name=$1 other
        say "apiVersion: v1"
        say "kind: ConfigMap"
        say "metadata:"
        say "  name: $configs"
        say "  namespace: $namespace"
        say "  labels: {app.kubernetes.io/name: warpshare}"
        say "data:"
        for other in $(kubectl get nodes -l "$chosen=true" -o \
                "jsonpath={range .items[*]}{.metadata.labels.nvidia\.com/device-plugin\.config}{\"\n\"}{end}") "$name"; do
                say "$other"
        done | sort -u | while IFS=. read -r prefix scope replicas; do
                case $prefix.$scope in mps.aggregate | mps.individual) ;; *) continue ;; esac
                say "  $prefix.$scope.$replicas: |"
                say "    version: v1"
                say "    sharing:"
                say "      mps:"
                say "        scope: $scope"
                say "        resources:"
                say "        - name: nvidia.com/gpu"
                say "          replicas: $replicas"
        done
}

# kubelet's count of what is ours, as "name=count" words.
resources_of() {
        kubectl get node "$1" -o 'go-template={{range $name, $count := .status.allocatable}}{{$name}}={{$count}}{{"\n"}}{{end}}' |
                grep '^nvidia.com/' || true
}

wait_for() { # node, seconds
        local node=$1 until found
        until=$(($(date +%s) + $2))
        while :; do
                found=$(resources_of "$node")
                case $scope in
                aggregate) grep -qE "^nvidia.com/gpu=[1-9][0-9]*$" <<<"$found" &&
                        [ $(($(sed -n 's#^nvidia.com/gpu=##p' <<<"$found") % replicas)) = 0 ] && break ;;
                individual) grep -qE "^nvidia.com/gpu[0-9]+=$replicas$" <<<"$found" && break ;;
                esac
                [ "$(date +%s)" -lt "$until" ] || {
                        say "$node: not shared after $2 s. Look: kubectl --namespace $namespace get pods -o wide; scripts/verify-mps-setup.sh $node"
                        return 1
                }
                sleep 2
        done
        say "$node: ${found//$'\n'/, }"
}

install() {
        local name=mps.$scope.$replicas node status=0
        look_for_others
        manifest | apply
        configuration "$name" | apply
        for node in $nodes; do
                change label node "$node" --overwrite "$chosen=true" "$label=$name"
        done
        [ -z "$dry_run" ] || return 0
        [ -n "$wait" ] || return 0
        say "waiting until kubelet counts the shares, $timeout s at most"
        for node in $nodes; do
                wait_for "$node" "$timeout" || status=1
        done
        return $status
}

uninstall() {
        local node pod left
        for node in $nodes; do
                # With the agent still there: it gives labels, annotations and compute modes back.
                for pod in $(kubectl --namespace "$namespace" get pods -l app.kubernetes.io/component=mps \
                        --field-selector "spec.nodeName=$node" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'); do
                        say "$node: MPS ends with pod $pod, which gives the compute modes back"
                done
                change label node "$node" "$chosen-" "$label-"
        done
        left=$(kubectl get nodes -l "$chosen=true" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
        if [ -n "$dry_run" ]; then
                left=$(grep -vxF "$nodes" <<<"$left" || true)
        fi
        if [ -n "$left" ]; then
                say "still set up: ${left//$'\n'/, }; what was installed stays"
                return
        fi
        repo=registry.example.com/warpshare tag=none secret=
        if [ -n "$dry_run" ]; then
                say "would delete what deploy/manifests/setup.yaml has, and the ConfigMap $configs"
                return
        fi
        kubectl --namespace "$namespace" delete configmap "$configs" --ignore-not-found
        manifest | kubectl delete --ignore-not-found -f -
}

if [ -n "$remove" ]; then
        [ ${#words[@]} = 1 ] || misuse "--remove takes one thing, a node or 'all'"
        nodes=$(find_nodes "${words[0]}")
        uninstall
        exit
fi

[ ${#words[@]} -ge 2 ] || misuse "replicas and a node are needed"
replicas=${words[0]}
case ${words[1]} in
aggregate | individual)
        scope=${words[1]}
        words=("${words[@]:2}")
        ;;
*)
        scope=aggregate
        words=("${words[@]:1}")
        ;;
esac
[[ $replicas =~ ^[0-9]{1,4}$ ]] && [ "$replicas" -ge 1 ] && [ "$replicas" -le $most ] ||
        misuse "replicas '$replicas': a number from 1 to $most, as many clients as one GPU can have"
[ ${#words[@]} -ge 1 ] || misuse "a node, or 'all', is needed"
[ ${#words[@]} -le 4 ] || misuse "'${words[4]}' is one word too many"
repo=${words[1]:-${PLUGIN_IMAGE_REPO:-}}
tag=${words[2]:-${PLUGIN_IMAGE_TAG:-$(sed -n 's#.*image: registry.example.com/warpshare:\([^ "]*\).*#\1#p' "$manifest" | head -n 1)}}
secret=${words[3]:-${IMAGE_PULL_SECRET_NAME:-}}
[ -n "$repo" ] || misuse "an image repository is needed, or PLUGIN_IMAGE_REPO in the environment"
[[ $repo:$tag =~ ^[A-Za-z0-9./:@_-]+$ ]] || misuse "'$repo:$tag' is no name of an image"
[[ $secret =~ ^[a-z0-9.-]*$ ]] || misuse "'$secret' is no name of a secret"
[[ $namespace =~ ^[a-z0-9-]+$ ]] || misuse "'$namespace' is no name of a namespace"
nodes=$(find_nodes "${words[0]}")
install
