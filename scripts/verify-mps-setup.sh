#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Says whether GPUs are shared by MPS as they were set up to be. Needs kubectl; changes nothing.
set -uo pipefail

namespace=${WARPSHARE_NAMESPACE:-warpshare}
# shellcheck source=scripts/cluster.sh
. "$(dirname "$0")/cluster.sh" || exit 1

usage() {
        cat <<'TEXT'
usage: scripts/verify-mps-setup.sh [--namespace NAME] [NODE]

Of NODE, or of every node that has a pod of the agent: the configuration that the agent says is in force, the resources that kubelet
counts, the pods of agent and MPS supervisor, the state of each MPS control daemon, and the memory that each replica may have.

  --namespace NAME  where Warpshare is installed (default warpshare, or WARPSHARE_NAMESPACE)
  -h, --help        this text

Exit status: 0 all is well, 1 something is not, 2 the command line is wrong.
TEXT
}

fail() {
        printf 'verify-mps-setup.sh: %s\n' "$*" >&2
        exit 1
}

misuse() {
        printf 'verify-mps-setup.sh: %s; --help says more\n' "$*" >&2
        exit 2
}

only=
while [ $# -gt 0 ]; do
        case $1 in
        --namespace)
                [ $# -gt 1 ] || misuse "--namespace needs a value"
                namespace=$2
                shift
                ;;
        -h | --help)
                usage
                exit 0
                ;;
        -*) misuse "'$1' is no option" ;;
        *)
                [ -z "$only" ] || misuse "one node, or none"
                only=$1
                ;;
        esac
        shift
done
command -v kubectl >/dev/null || fail "kubectl is not on the PATH"

# ---- how it is told ----

green=""
red=""
plain=""
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
        green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi
failures=0

good() {
        printf '  %sok%s      %s\n' "$green" "$plain" "$*"
}

bad() {
        failures=$((failures + 1))
        printf '  %sFAILED%s  %s\n' "$red" "$plain" "$*"
}

note() {
        printf '  -       %s\n' "$*"
}

below() {
        sed 's/^/            /'
}

# ---- what is looked at ----

# Sets $scope, $replicas and $pattern, of the resources that count, where the configuration is one of scripts/setup.sh.
check_configuration() { # node
        local label name status source
        replicas="" scope=""
        pattern='^nvidia\.com/'
        label=$(kubectl get node "$1" -o 'jsonpath={.metadata.labels.nvidia\.com/device-plugin\.config}')
        name=$(kubectl get node "$1" -o 'jsonpath={.metadata.annotations.warpshare\.dev/config}')
        status=$(kubectl get node "$1" -o 'jsonpath={.metadata.annotations.warpshare\.dev/config-status}')
        source=$(kubectl get node "$1" -o 'jsonpath={.metadata.annotations.warpshare\.dev/config-source}')
        if [[ $name =~ ^mps\.(aggregate|individual)\.([0-9]+)(\.|$) ]]; then
                scope=${BASH_REMATCH[1]} replicas=${BASH_REMATCH[2]}
                case $scope in
                aggregate) pattern='^nvidia\.com/gpu[ =]' ;;
                individual) pattern='^nvidia\.com/gpu[0-9]+[ =]' ;;
                esac
        fi
        if [ -z "$status" ]; then
                bad "configuration: the agent has told none (the node has no annotation warpshare.dev/config-status)"
        elif [ "$status" != accepted ]; then
                bad "configuration: $status${name:+; in force is $name}"
        elif [ -n "$label" ] && [ "$label" != "$name" ]; then
                bad "configuration: in force is $name, the label wants $label: a minute may pass until kubelet brings it"
        else
                good "configuration: $name ($source)"
        fi
}

# What kubelet counts, beside what the agent offers; and, where the configuration is one of scripts/setup.sh, whether that is it.
check_resources() { # node
        local lines kind what fine capacity before
        lines=$(compare_counts "$1" "$pattern")
        while read -r kind what; do
                case $kind in
                bad) bad "resources: $what; kubectl describe node $1 has the events" ;;
                note) note "resources: $what" ;;
                esac
        done <<<"$lines"
        fine=$(sed -n 's/^ok //p' <<<"$lines")
        capacity=$(counts "$1" capacity | grep -E "$pattern")
        if [ -n "$fine" ] && [ "$scope" = aggregate ] && [ $((${capacity#*=} % replicas)) != 0 ]; then
                bad "resources: $(joined "${capacity//=/: }"), which is no multiple of $replicas"
                fine=
        elif [ -n "$fine" ] && [ "$scope" = individual ] && grep -qv "=$replicas\$" <<<"$capacity"; then
                bad "resources: $(joined "${capacity//=/: }"), wanted are $replicas each"
                fine=
        fi
        [ -z "$fine" ] || good "resources: $(joined "$fine")"
        before=$(counts "$1" allocatable | grep -vE "$pattern")
        [ -z "$before" ] || note "of a previous plugin, until kubelet restarts: $(joined "${before//=/: }")"
}

# Sets $pod.
check_pod() { # node, component, word for it
        local ready
        read -r pod ready <<<"$(kubectl --namespace "$namespace" get pods -l "app.kubernetes.io/name=warpshare,app.kubernetes.io/component=$2" \
                --field-selector "spec.nodeName=$1" -o \
                'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].ready}{"\n"}{end}' | head -n 1)"
        if [ -z "$pod" ]; then
                bad "$3: no pod on this node"
        elif [ "$ready" != true ]; then
                bad "$3: pod $pod is not ready; kubectl --namespace $namespace describe pod $pod, and its logs, say why"
        else
                good "$3: pod $pod is ready"
        fi
}

check_daemons() { # pod
        local table
        if table=$(kubectl --namespace "$namespace" exec "$1" -c mps -- warpshare mps status 2>&1); then
                good "MPS control daemons:"
        else
                bad "MPS control daemons:"
        fi
        grep -v '^command terminated with exit code' <<<"$table" | below
}

# The newest line of each GPU.
check_memory() { # pod
        local lines stale
        lines=$(kubectl --namespace "$namespace" logs "$1" -c mps --tail=-1 2>&1 |
                grep -o 'Set device pinned memory limit: .*' |
                awk -F '[=,]' '{ newest[$2] = $0 } END { for (device in newest) print newest[device] }' | sort)
        stale=$(grep -v "replicas=${replicas:-[0-9]*}," <<<"$lines")
        if [ -z "$lines" ]; then
                note "memory per replica: the supervisor's log has none (any more)"
                return
        elif [ -n "$stale" ]; then
                bad "memory per replica, wanted are $replicas replicas: a daemon with clients changes when the last one leaves"
        else
                good "memory per replica:"
        fi
        below <<<"$lines"
}

# ---- all of it ----

if [ -n "$only" ]; then
        nodes=$only
        kubectl get node "$only" -o name >/dev/null || fail "there is no node '$only'; 'kubectl get nodes' lists them"
else
        nodes=$(kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare,app.kubernetes.io/component=agent \
                -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u) || fail "the pods of '$namespace' cannot be listed"
        [ -n "$nodes" ] || fail "the namespace '$namespace' has no pod of the agent; scripts/setup.sh installs it"
fi
for node in $nodes; do
        echo "$node"
        check_configuration "$node"
        check_resources "$node"
        check_pod "$node" agent agent
        check_pod "$node" mps "MPS supervisor"
        if [ -n "$pod" ]; then
                check_daemons "$pod"
                check_memory "$pod"
        fi
done
if [ "$failures" != 0 ]; then
        echo "$failures failed; kubectl --namespace $namespace exec daemonset/warpshare-agent -- warpshare doctor looks deeper"
        exit 1
fi
echo "all is well"
