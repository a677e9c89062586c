#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shares the GPUs of a node, or of all GPU nodes, by MPS, and takes it back. Needs kubectl and nothing else; safe to repeat.
set -euo pipefail

namespace=${WARPSHARE_NAMESPACE:-warpshare}
timeout=${WARPSHARE_TIMEOUT:-300}
deploy=$(dirname "$0")/../deploy
manifest=$deploy/manifests/setup.yaml
cleaner=$deploy/workloads/uninstall.yaml
label=nvidia.com/device-plugin.config
chosen=warpshare.dev/setup # a label: of nodes that are set up, and of the namespace if it is ours
before=setup.warpshare.dev/config-before
configs=warpshare-setup
most=60 # clients of one GPU, on the newest drivers and GPUs
# What configurations are called here: a name says all that is in it, so that another run can make the ones that other nodes have.
name_pattern='^mps\.(aggregate|individual)\.([0-9]+)(\.strict)?(\.max-([0-9]+))?$'
# shellcheck source=scripts/cluster.sh
. "$(dirname "$0")/cluster.sh"

usage() {
        cat <<'TEXT'
usage: scripts/setup.sh [OPTION...] REPLICAS [aggregate|individual] NODE|all [IMAGE-REPO [IMAGE-TAG [SECRET-NAME]]]
       scripts/setup.sh [OPTION...] REPLICAS [aggregate|individual] NODE|all IMAGE-REPO:IMAGE-TAG [SECRET-NAME]
       scripts/setup.sh --print [--max-per-request K] [--strict] REPLICAS [aggregate|individual]
       scripts/setup.sh --remove [OPTION...] NODE|all

Shares each GPU of NODE, or of all nodes that have one, in REPLICAS parts by MPS. A container that asks for K of them gets K/REPLICAS of one
GPU's memory and threads.

  aggregate    one resource for all GPUs of a node: 4 GPUs with 20 replicas are nvidia.com/gpu: 80 (the default)
  individual   one resource a GPU: nvidia.com/gpu0: 20, nvidia.com/gpu1: 20, …

  IMAGE-REPO   where the image is, as registry.example.com/warpshare    (or PLUGIN_IMAGE_REPO in the environment);
               with :TAG or @sha256:DIGEST behind it the next word is the secret
  IMAGE-TAG    default: the version of these files                      (or PLUGIN_IMAGE_TAG)
  SECRET-NAME  of the namespace, to pull the image with                 (or IMAGE_PULL_SECRET_NAME)

  --max-per-request K   no container may ask for more than K replicas (default: as many as a GPU has, or half with --strict)
  --strict              aggregate only: advertise only so many replicas that every request finds one GPU with room, as a configuration
                        does that says nothing about it (reserve: strict). Without it all are advertised (reserve: none), and a pod that
                        asks for several may be refused where no GPU has so many free
  --print               print the ConfigMap and end. 'warpshare plan -' takes it and says what each node would advertise
  --remove              take it back
  --dry-run             say what would be changed, and change nothing
  --namespace NAME      where to install (default warpshare, or WARPSHARE_NAMESPACE)
  --timeout SECONDS     how long to wait for all nodes together (default 300, or WARPSHARE_TIMEOUT)
  --runtime-class NAME  RuntimeClass of NVIDIA's container runtime, where that is not the default runtime of the nodes
  --kubelet-root DIR    kubelet's --root-dir, where it is not /var/lib/kubelet: /var/lib/k0s/kubelet with k0s
  --no-wait             do not wait until nodes have their resources
  --force               go on where another device plugin serves the node, or, with --remove, where pods still have shares
  -h, --help            this text

  scripts/setup.sh 20 aggregate gpu-node-1 registry.example.com/warpshare
  scripts/setup.sh 20 individual all registry.example.com/warpshare 0.1.0 registry-secret
  scripts/setup.sh --print 20 aggregate | warpshare plan - --model A100-40GB --gpus 4
  scripts/setup.sh --remove all

What it changes: it makes the namespace, two DaemonSets with a service account each, a role and a cluster role for one of them, and
the ConfigMap warpshare-setup; the node gets the labels warpshare.dev/setup and nvidia.com/device-plugin.config. Nothing else of the
cluster is touched. What --remove does: the node loses these labels, or gets its old configuration label back; its pods of Warpshare
end, which gives the GPUs their compute mode back; a pod that runs `warpshare uninstall` looks for what is left on the node; with the
last node all that was made goes, the namespace only if it was made here.

Where a guide names DaemonSet nvidia-device-plugin-mps-control-daemon and its container mps-control-daemon-ctr, it is here warpshare-mps
with container mps; nvidia-device-plugin is warpshare-agent with container agent. docs/install.md has the commands side by side.

REPLICAS can be changed by another run: pods that have a share keep it. Then look: scripts/verify-mps-setup.sh NODE.
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

# ---- changes: made, or said with --dry-run ----

change() {
        if [ -n "$dry_run" ]; then
                say "would run: kubectl $*"
        else
                kubectl "$@"
        fi
}

# Objects from standard input.
apply() {
        if [ -n "$dry_run" ]; then
                kubectl apply --dry-run=client -f -
        else
                kubectl apply -f -
        fi
}

# ---- what is there ----

nodes_with() { # label selector
        kubectl get nodes -l "$1" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}' || fail "the nodes cannot be listed"
}

check_node() {
        kubectl get node "$1" -o name >/dev/null || fail "there is no node '$1'; 'kubectl get nodes' lists them"
}

# "namespace/name limits…" of the pods of a node that have not ended.
pods_on() {
        kubectl get pods --all-namespaces --field-selector "spec.nodeName=$1,status.phase!=Succeeded,status.phase!=Failed" -o \
                'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.containers[*].resources.limits}{"\n"}{end}'
}

# Two plugins for one resource take it from each other, and two supervisors GPUs.
find_others() { # node
        local pods others
        pods=$(pods_on "$1") || fail "the pods of node '$1' cannot be listed"
        others=$(cut -d ' ' -f 1 <<<"$pods" | grep -E '/.*nvidia(-gpu)?-device-plugin' | grep -v gpu-feature-discovery || true)
        [ -n "$others" ] || return 0
        if [ -n "$force" ]; then
                say "warning: node '$1' is served by another device plugin, too: $(joined "$others")"
        else
                fail "node '$1' is served by another device plugin: $(joined "$others"). Take it off the node first (the GPU Operator's:" \
                        "kubectl label node $1 nvidia.com/gpu.deploy.device-plugin=false nvidia.com/gpu.deploy.mps-control-daemon=false" \
                        "--overwrite), or go on with --force"
        fi
}

# Ours from elsewhere has objects of the same names.
find_ours() {
        local ours
        ours=$(kubectl get daemonsets --all-namespaces -l app.kubernetes.io/name=warpshare -o \
                "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}={.spec.template.spec.nodeSelector.${chosen//./\\.}}{\"\\n\"}{end}") ||
                fail "the DaemonSets cannot be listed"
        ours=$(grep -vx "$namespace/warpshare-[a-z]*=true" <<<"$ours" | sed 's/=.*//' | grep . || true)
        [ -z "$ours" ] || fail "Warpshare is installed in another way or namespace: $(joined "$ours")." \
                "Change that installation (docs/install.md), or remove it first"
}

# "", or how the namespace came to be: "ours" or "theirs".
check_namespace() {
        local found level
        found=$(kubectl get namespace "$namespace" --ignore-not-found -o "jsonpath={.metadata.name}={.metadata.labels.${chosen//./\\.}}") ||
                fail "the namespace '$namespace' cannot be asked for"
        case $found in
        "") owner= ;;
        *=true) owner=ours ;;
        *) owner=theirs ;;
        esac
        if [ "$owner" = theirs ]; then
                level=$(kubectl get namespace "$namespace" -o 'jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}')
                case $level in
                "" | privileged) ;;
                *) fail "the namespace '$namespace' admits '$level' pods only, and MPS needs privileged ones: another --namespace, or" \
                        "'kubectl label namespace $namespace pod-security.kubernetes.io/enforce=privileged --overwrite'" ;;
                esac
        fi
        if [ -n "$secret" ] && ! kubectl --namespace "$namespace" get secret "$secret" -o name >/dev/null; then
                [ -n "$owner" ] || say "first make the namespace: kubectl create namespace $namespace"
                fail "the namespace '$namespace' has no secret '$secret'; make it: kubectl --namespace $namespace create secret" \
                        "docker-registry $secret --docker-server=… --docker-username=… --docker-password=…"
        fi
}

# ---- what is applied ----

namespace_object() {
        cat <<TEXT
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    $chosen: "true"
    pod-security.kubernetes.io/enforce: privileged
TEXT
}

# Objects from standard input, but those that a cluster before Kubernetes 1.30 does not know: it has no admission policies.
known_objects() {
        if kubectl get validatingadmissionpolicies -o name >/dev/null 2>&1; then
                cat
                return
        fi
        awk '   /^---$/ { if (!is_unknown) printf "%s", object; object = ""; is_unknown = 0 }
                { object = object $0 "\n" }
                /^kind: ValidatingAdmissionPolicy/ { is_unknown = 1 }
                END { if (!is_unknown) printf "%s", object }'
}

# The setup's manifest but its namespace, with our image, secret and namespace.
manifest() {
        awk -v image="$image" -v namespace="$namespace" -v secret="$secret" -v runtime_class="$runtime_class" -v kubelet_root="$kubelet_root" '
                /^---$/ { is_past_first = 1 }
                !is_past_first { next }
                /^ *imagePullSecrets:$/ && secret == "" { getline; next }
                {
                        sub(/namespace: warpshare$/, "namespace: " namespace)
                        sub(/namespace: warpshare}/, "namespace: " namespace "}")
                        sub(/serviceaccount:warpshare:/, "serviceaccount:" namespace ":")
                        sub(/registry\.example\.com\/warpshare:[^ "]*/, image)
                        sub(/image-pull-secret/, secret)
                }
                !/device-plugins/ { sub(/\/var\/lib\/kubelet/, kubelet_root) } # device plugins are there whatever the root is
                { print }
                /^      priorityClassName:/ && runtime_class != "" { print "      runtimeClassName: " runtime_class }' "$manifest" |
                known_objects
}

# Ours, and those that other nodes have from here.
configuration() {
        local name=$1 others=
        [ -n "$print" ] || others=$(kubectl get nodes -l "$chosen=true" -o \
                "jsonpath={range .items[*]}{.metadata.labels.${label//./\\.}}{\"\\n\"}{end}") || fail "the nodes cannot be listed"
        cat <<TEXT
apiVersion: v1
kind: ConfigMap
metadata:
  name: $configs
  namespace: $namespace
  labels: {app.kubernetes.io/name: warpshare}
data:
TEXT
        printf '%s\n' "$others" "$name" | sort -u | while read -r name; do
                [[ $name =~ $name_pattern ]] || continue
                cat <<TEXT
  $name: |
    version: v1
    sharing:
      mps:
        scope: ${BASH_REMATCH[1]}
        provisioning: weighted
TEXT
                case ${BASH_REMATCH[1]}${BASH_REMATCH[3]} in
                aggregate) echo "        reserve: none" ;;
                aggregate.strict) echo "        reserve: strict" ;;
                esac
                [ -z "${BASH_REMATCH[5]}" ] || echo "        maxPerRequest: ${BASH_REMATCH[5]}"
                cat <<TEXT
        memoryReserve: 0 # a replica has its part of the whole memory, as with NVIDIA's plugin
        resources:
        - name: nvidia.com/gpu
          replicas: ${BASH_REMATCH[2]}
TEXT
        done
}

# ---- how it goes ----

# What is in the way of "the node's replicas can be used", or nothing.
missing() { # node
        local told status what
        told=$(kubectl get node "$1" -o \
                'jsonpath={.metadata.annotations.warpshare\.dev/config} {.metadata.annotations.warpshare\.dev/config-status}') || {
                echo "the node cannot be asked"
                return
        }
        case $told in
        "$config accepted") ;;
        "$config "* | *" refused: "*) echo "the agent says: ${told#* }" && return ;;
        *) echo "the agent has not reported yet that it has the configuration $config" && return ;;
        esac
        compare_counts "$1" "$pattern" >"$work/counts.$1"
        while read -r status what; do
                # Without metrics a reserve is not told from a fault.
                if [ "$status" = bad ] || { [ "$status" = note ] && [ -z "$strict" ]; }; then
                        echo "${what%%; whether*}" && return
                fi
        done <"$work/counts.$1"
}

# Why a pod of ours on the node will not start with this image, in kubelet's words; or nothing.
cannot_start() { # node
        kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare --field-selector "spec.nodeName=$1" -o \
                'jsonpath={range .items[*]}{"pod\t"}{.metadata.name}{"\t"}{.spec.containers[0].image}{"\n"}'"$(
                        container_state initContainerStatuses
                        container_state containerStatuses
                )"'{end}' | awk -F '\t' -v image="$image" '
                $1 == "pod" {
                        pod = $2
                        is_ours = $3 == image # not one that is about to be replaced
                        is_open = 0
                        next
                }
                $1 == "container" {
                        is_open = 0
                        if (!is_ours || why != "")
                                next
                        if ($2 ~ /^(ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|ImageInspectError|RunContainerError)$/)
                                why = "pod " pod ": " $2 ": " $3
                        else if ($4 ~ /^(StartError|ContainerCannotRun)$/)
                                why = "pod " pod ": " $4 ": " $5
                        is_open = why != ""
                        next
                }
                is_open { # a message of several lines
                        why = why " " $1
                }
                END {
                        if (why != "")
                                print why
                }'
}

# The part of a template that prints why containers wait, and how they ended before.
container_state() { # field
        printf '%s' "{range .status.$1[*]}" '{"container\t"}{.state.waiting.reason}{"\t"}{.state.waiting.message}{"\t"}' \
                '{.lastState.terminated.reason}{"\t"}{.lastState.terminated.message}{"\n"}{end}'
}

# Each node is told as soon as it is known; all have the same time.
wait_for_nodes() {
        local until why node left=$nodes next status=0
        say "waiting until kubelet counts the shares, $timeout s at most"
        until=$(($(date +%s) + timeout))
        while :; do
                next=
                for node in $left; do
                        missing "$node" >"$work/why.$node"
                        why=$(cannot_start "$node")
                        if [ ! -s "$work/why.$node" ]; then
                                say "$node: $(joined "$(counts "$node" allocatable | grep -E "$pattern")")"
                        elif [ -n "$why" ]; then
                                say "$node: not shared: $why"
                                explain_images
                                status=1
                        else
                                next="$next $node"
                        fi
                done
                left=$next
                [ -n "$left" ] || break
                if [ "$(date +%s)" -ge "$until" ]; then
                        for node in $left; do
                                say "$node: not shared after $timeout s: $(cat "$work/why.$node")"
                                say "$node: look with scripts/verify-mps-setup.sh $node; kubectl --namespace $namespace get pods -o wide"
                        done
                        return 1
                fi
                sleep 1
        done
        return $status
}

explain_images() {
        [ -z "$is_told_about_images" ] || return 0
        is_told_about_images=1
        say "kubelet goes on trying. If the name '$image' is wrong, run this again with the right one. If the registry asks for a password:" \
                "kubectl --namespace $namespace create secret docker-registry NAME --docker-server=… --docker-username=… --docker-password=…," \
                "and run this again with NAME after the image"
}

# The supervisor's pods are not replaced by a changed DaemonSet, since clients end with them. One that never ran has no clients.
replace_supervisors_that_never_ran() {
        local pods pod phase its
        pods=$(kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare,app.kubernetes.io/component=mps -o \
                'jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.spec.containers[0].image}{"\n"}{end}') || return 0
        while read -r pod phase its; do
                if [ "$phase" = Pending ] && [ "$its" != "$image" ]; then
                        kubectl --namespace "$namespace" delete pod "$pod" --ignore-not-found --wait=false
                fi
        done <<<"$pods"
}

explain_old_supervisors() {
        local old
        old=$(kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare,app.kubernetes.io/component=mps -o \
                'jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.spec.containers[0].image}{"\n"}{end}') || return 0
        while read -r pod node its; do
                [ -z "$pod" ] || [ "$its" = "$image" ] ||
                        say "$node: the MPS supervisor still is $its. To change it, which ends MPS clients: drain the node, then" \
                                "kubectl --namespace $namespace delete pod $pod"
        done <<<"$old"
}

# What the reserve means for pods: the last line.
explain_reserve() {
        local node counted reserved=
        [ "$scope" = aggregate ] || return 0
        if [ -n "$strict" ]; then
                for node in $nodes; do
                        counted=$(sed -n 's/^ok [^ ]*: [0-9]* of \([0-9]*\) (\([0-9]*\) reserved.*/\2 of \1/p' "$work/counts.$node")
                        reserved=$reserved${counted:+, $counted on $node}
                done
                say "reserve: strict: every request for up to ${largest:-$(((replicas + 1) / 2))} of $replicas replicas finds one GPU with room;" \
                        "the rest is reserved$reserved. A smaller --max-per-request reserves less"
        else
                say "reserve: none: all replicas are advertised, so a pod that asks for several may be refused on a node with several GPUs, where" \
                        "none has so many free${largest:+; no container may ask for more than $largest of $replicas replicas}." \
                        "--max-per-request K bounds what is asked for, --strict advertises fewer and refuses none"
        fi
}

install() {
        local node own status=0
        find_ours
        for node in $nodes; do
                find_others "$node"
        done
        check_namespace
        if [ "$owner" = theirs ]; then
                say "namespace '$namespace' was there already, and will stay when this is removed"
        else
                namespace_object | apply
        fi
        configuration "$config" >"$work/configuration"
        manifest | apply
        apply <"$work/configuration"
        for node in $nodes; do
                own=$(kubectl get node "$node" -o "jsonpath={.metadata.labels.${label//./\\.}}")
                case $own in
                "" | mps.aggregate.* | mps.individual.*) ;;
                *) change annotate node "$node" --overwrite "$before=$own" ;;
                esac
                change label node "$node" --overwrite "$chosen=true" "$label=$config"
        done
        [ -n "$dry_run" ] || replace_supervisors_that_never_ran
        if [ -n "$dry_run" ] || [ -z "$wait" ]; then
                return 0
        fi
        wait_for_nodes || status=1
        explain_old_supervisors
        [ $status != 0 ] || explain_reserve
        return $status
}

# ---- the way back ----

our_pods_on() { # node
        kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare --field-selector "spec.nodeName=$1" -o \
                'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
}

find_holders() { # node
        local pods holders
        pods=$(pods_on "$1") || fail "the pods of node '$1' cannot be listed"
        holders=$(grep ' .*nvidia\.com/' <<<"$pods" | cut -d ' ' -f 1 || true)
        [ -n "$holders" ] || return 0
        if [ -n "$force" ]; then
                say "warning: pods lose their GPU: $(joined "$holders")"
        else
                fail "pods on node '$1' have GPUs, and lose them: $(joined "$holders"). End them first ('kubectl drain $1" \
                        "--ignore-daemonsets' ends all), or go on with --force"
        fi
}

wait_until_gone() { # node
        local until left
        until=$(($(date +%s) + timeout))
        while :; do
                left=$(our_pods_on "$1") || return 1
                [ -n "$left" ] || break
                [ "$(date +%s)" -lt "$until" ] || {
                        say "$1: still there after $timeout s: $(joined "$left"); run this again when they are gone"
                        return 1
                }
                sleep 1
        done
}

# A pod on the node that removes what agent and supervisor have left, as after a crash.
clean() { # node
        local until status=0 pod=warpshare-uninstall-$1 phase image
        image=$(kubectl --namespace "$namespace" get daemonset warpshare-mps --ignore-not-found -o 'jsonpath={.spec.template.spec.containers[0].image}')
        [ -n "$image" ] || return 0
        secret=$(kubectl --namespace "$namespace" get daemonset warpshare-mps -o 'jsonpath={.spec.template.spec.imagePullSecrets[*].name}')
        runtime_class=$(kubectl --namespace "$namespace" get daemonset warpshare-mps -o 'jsonpath={.spec.template.spec.runtimeClassName}')
        kubelet_root=$(kubectl --namespace "$namespace" get daemonset warpshare-agent -o 'jsonpath={.spec.template.spec.volumes[*].hostPath.path}' |
                tr ' ' '\n' | sed -n 's#/pod-resources$##p')
        pod=${pod:0:63}
        kubectl --namespace "$namespace" delete pod "$pod" --ignore-not-found >/dev/null
        awk -v image="$image" -v namespace="$namespace" -v secret="$secret" -v runtime_class="$runtime_class" -v kubelet_root="${kubelet_root:-/var/lib/kubelet}" -v node="$1" -v pod="$pod" '
                /^  imagePullSecrets:/ && secret == "" { next }
                /^  runtimeClassName:/ && runtime_class == "" { next }
                {
                        sub(/registry\.example\.com\/warpshare:[^ "]*/, image)
                        sub(/name: warpshare-uninstall$/, "name: " pod)
                        sub(/namespace: warpshare$/, "namespace: " namespace)
                        sub(/nodeName: NODE$/, "nodeName: " node)
                        sub(/runtimeClassName: .*/, "runtimeClassName: " runtime_class)
                        sub(/image-pull-secret/, secret)
                }
                !/device-plugins/ { sub(/\/var\/lib\/kubelet/, kubelet_root) }
                { print }' "$cleaner" | kubectl apply -f - >/dev/null || return 1
        until=$(($(date +%s) + timeout))
        while :; do
                phase=$(kubectl --namespace "$namespace" get pod "$pod" -o 'jsonpath={.status.phase}')
                case $phase in Succeeded | Failed) break ;; esac
                [ "$(date +%s)" -lt "$until" ] || break
                sleep 1
        done
        case $phase in
        Succeeded) say "$1: nothing of Warpshare is left:" ;;
        Failed) say "$1: something is left:" && status=1 ;;
        *)
                say "$1: not known what is left: pod $pod is '$phase' after $timeout s"
                kubectl --namespace "$namespace" delete pod "$pod" --wait=false
                return 1
                ;;
        esac
        kubectl --namespace "$namespace" logs "$pod" | sed 's/^/    /'
        kubectl --namespace "$namespace" delete pod "$pod" >/dev/null
        return $status
}

remove_from() { # node
        local own old new=$label-
        own=$(kubectl get node "$1" -o "jsonpath={.metadata.labels.${label//./\\.}}")
        old=$(kubectl get node "$1" -o "jsonpath={.metadata.annotations.${before//./\\.}}")
        [ -z "$old" ] || new=$label=$old
        case $own in
        mps.aggregate.* | mps.individual.*) change label node "$1" --overwrite "$chosen-" "$new" || return 1 ;;
        *) change label node "$1" "$chosen-" || return 1 ;; # somebody has given it another configuration since
        esac
        [ -z "$old" ] || change annotate node "$1" "$before-" || return 1
        if [ -n "$dry_run" ]; then
                say "would wait until its pods end, and run 'warpshare uninstall' on node '$1'"
                return
        fi
        wait_until_gone "$1" && clean "$1"
}

uninstall() {
        local node left status=0
        for node in $nodes; do
                find_holders "$node"
        done
        for node in $nodes; do
                remove_from "$node" || status=1
        done
        left=$(nodes_with "$chosen=true")
        if [ -n "$dry_run" ]; then
                left=$(grep -vxF "${nodes:-?}" <<<"$left" || true)
        fi
        if [ -n "$left" ]; then
                say "still set up: $(joined "$left"); so what was installed stays"
                return $status
        fi
        if [ $status != 0 ]; then
                say "what was installed stays, so that this can be run again"
                return $status
        fi
        secret=
        check_namespace
        if [ -n "$dry_run" ]; then
                say "would delete what $manifest has, the ConfigMap $configs$([ "$owner" != ours ] || echo ", the namespace $namespace")"
                return
        fi
        [ -n "$owner" ] || { say "nothing is installed" && return; }
        kubectl --namespace "$namespace" delete configmap "$configs" --ignore-not-found
        manifest | kubectl delete --ignore-not-found -f -
        [ "$owner" != ours ] || kubectl delete namespace "$namespace"
        say "kubelet goes on showing the resources with a count of 0 until it starts anew; that does no harm"
}

# ---- the image ----

# Sets $image and $secret of REPO [TAG [SECRET]], or of REPO:TAG or REPO@DIGEST [SECRET].
understand_image() {
        local component='[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*' tag='[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}' host repo
        image=${1:-${PLUGIN_IMAGE_REPO:-}}
        [ $# = 0 ] || shift
        [ -n "$image" ] || misuse "an image repository is needed, or PLUGIN_IMAGE_REPO in the environment"
        if [[ ${image##*/} == *[:@]* ]]; then
                [ $# -lt 2 ] || misuse "'$image' has a tag already, so '$2' is one word too many"
                repo=${image%%@*}
                [[ ${repo##*/} != *:* ]] || repo=${repo%:*}
        else
                repo=$image
                image=$repo:${1:-${PLUGIN_IMAGE_TAG:-$(sed -n 's#.*image: "registry.example.com/warpshare:\([^ "]*\)".*#\1#p' "$manifest" |
                        head -n 1)}}
                [ $# = 0 ] || shift
                [ $# -lt 2 ] || misuse "'$2' is one word too many"
        fi
        secret=${1:-${IMAGE_PULL_SECRET_NAME:-}}
        host='([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]+)?|[A-Za-z0-9-]+:[0-9]+|localhost)/'
        [[ $image =~ ^($host)?$component(/$component)*(:$tag)?(@sha256:[0-9a-f]{64})?$ ]] ||
                misuse "'$image' is no name of an image, as registry.example.com/warpshare:0.1.0"
        [[ $secret =~ ^[a-z0-9.-]*$ ]] || misuse "'$secret' is no name of a secret"
        [ "$repo" != nvcr.io/nvidia/k8s-device-plugin ] ||
                misuse "'$repo' is NVIDIA's program; name the repository of your Warpshare image"
}

# ---- the command line ----

dry_run=
print=
wait=1
force=
remove=
runtime_class=
kubelet_root=/var/lib/kubelet
strict=
largest=
is_told_about_images=
words=()
while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) dry_run=1 ;;
        --print) print=1 ;;
        --no-wait) wait= ;;
        --force) force=1 ;;
        --remove) remove=1 ;;
        --strict) strict=1 ;;
        --namespace | --timeout | --runtime-class | --kubelet-root | --max-per-request)
                [ $# -gt 1 ] || misuse "$1 needs a value"
                case $1 in
                --namespace) namespace=$2 ;;
                --timeout) timeout=$2 ;;
                --runtime-class) runtime_class=$2 ;;
                --kubelet-root) kubelet_root=$2 ;;
                --max-per-request) largest=$2 ;;
                esac
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
[[ $namespace =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]] || misuse "'$namespace' is no name of a namespace"
[[ $runtime_class =~ ^[a-z0-9.-]*$ ]] || misuse "'$runtime_class' is no name of a RuntimeClass"
[[ $kubelet_root =~ ^(/[A-Za-z0-9._-]+)+$ ]] || misuse "'$kubelet_root' is no root of kubelet, as /var/lib/kubelet"
[[ $timeout =~ ^[0-9]{1,6}$ ]] || misuse "timeout '$timeout': a number of seconds"
[ -n "$print" ] || command -v kubectl >/dev/null || fail "kubectl is not on the PATH"
[ -r "$manifest" ] || fail "'$manifest' is not there: this script needs the files beside it"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
image=none secret=

if [ -n "$remove" ]; then
        [ ${#words[@]} = 1 ] || misuse "--remove takes one thing, a node or 'all'"
        [ -z "$strict$largest" ] || misuse "--strict and --max-per-request go with REPLICAS"
        if [ "${words[0]}" = all ]; then
                nodes=$(nodes_with "$chosen=true")
        else
                check_node "${words[0]}"
                nodes=${words[0]}
        fi
        uninstall
        exit
fi

[ ${#words[@]} -ge $((print ? 1 : 2)) ] || misuse "replicas and a node, or 'all', are needed"
replicas=${words[0]}
scope=aggregate
at=1
case ${words[1]:-} in
aggregate | individual)
        scope=${words[1]}
        at=2
        ;;
esac
if ! [[ $replicas =~ ^[1-9][0-9]?$ ]] || [ "$replicas" -gt $most ]; then
        misuse "replicas '$replicas': a number from 1 to $most, as many clients as one GPU can have"
fi
case $scope in
aggregate) pattern='^nvidia\.com/gpu[ =]' ;;
individual) pattern='^nvidia\.com/gpu[0-9]+[ =]' ;;
esac
if [ -n "$largest" ] && { ! [[ $largest =~ ^[1-9][0-9]?$ ]] || [ "$largest" -gt "$replicas" ]; }; then
        misuse "'$largest' as the largest request: a number from 1 to $replicas"
fi
[ -z "$strict" ] || [ "$scope" = aggregate ] || misuse "with individual nothing is reserved: --strict is for aggregate"
config=mps.$scope.$replicas${strict:+.strict}${largest:+.max-$largest}
if [ -n "$print" ]; then
        [ ${#words[@]} = "$at" ] || misuse "'${words[at]}': --print takes REPLICAS and aggregate or individual, and no node"
        configuration "$config"
        exit
fi
target=${words[at]:-}
[ -n "$target" ] || misuse "a node, or 'all', is needed"
understand_image "${words[@]:at+1}"
if [ "$target" = all ]; then
        nodes=$(for present in feature.node.kubernetes.io/pci-{10de,0302_10de,0300_10de}.present nvidia.com/gpu.present "$chosen"; do
                nodes_with "$present=true" || exit 1
        done | sort -u)
        [ -n "$nodes" ] || fail "no node says that it has an NVIDIA GPU: name one, or label them with" \
                "'kubectl label node NODE nvidia.com/gpu.present=true'"
else
        check_node "$target"
        nodes=$target
fi
install
