#!/bin/bash
#
# Says whether GPUs are shared by MPS as they were set up to be. Needs kubectl; changes nothing.
set -uo pipefail

namespace=${WARPSHARE_NAMESPACE:-warpshare}

usage() {
        cat <<'TEXT'
usage: scripts/verify-mps-setup.sh [--namespace NAME] [NODE]

Of NODE, or of every node that has a pod of the agent: the resources that kubelet counts, the pods of agent and MPS supervisor, the
configuration in force, the state of each MPS control daemon, and the memory that each replica may have, from the logs.

  --namespace NAME  where Warpshare is installed (default warpshare, or WARPSHARE_NAMESPACE)
  -h, --help        this text

Exit status: 0 all is well, 1 something is not, 2 the command line is wrong.
TEXT
}

only=
while [ $# -gt 0 ]; do
        case $1 in
        --namespace)
                [ $# -gt 1 ] || { echo "verify-mps-setup.sh: --namespace needs a name" >&2; exit 2; }
                namespace=$2
                shift
                ;;
        -h | --help)
                usage
                exit 0
                ;;
        -*)
                echo "verify-mps-setup.sh: '$1' is no option; --help says more" >&2
                exit 2
                ;;
        *)
                [ -z "$only" ] || { echo "verify-mps-setup.sh: one node, or none; --help says more" >&2; exit 2; }
                only=$1
                ;;
        esac
        shift
done
command -v kubectl >/dev/null || { echo "verify-mps-setup.sh: kubectl is not on the PATH" >&2; exit 1; }

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
        good=$'\e[32mok\e[0m' bad=$'\e[31mFAILED\e[0m'
else
        good=ok bad=FAILED
fi
failures=0

check() { # good or bad, what
        if [ "$1" = "$bad" ]; then
                failures=$((failures + 1))
        fi
        printf '  %-8b %s\n' "$1" "$2"
}

# "name ready" of the pod of one component on a node; empty where there is none.
pod_of() {
        kubectl --namespace "$namespace" get pods -l "app.kubernetes.io/name=warpshare,app.kubernetes.io/component=$2" \
                --field-selector "spec.nodeName=$1" -o \
                'jsonpath={range .items[*]}{.metadata.name}{" "}{.status.containerStatuses[0].ready}{"\n"}{end}' | head -n 1
}

check_resources() {
        local found
        found=$(kubectl get node "$1" -o \
                'go-template={{range $name, $count := .status.allocatable}}{{$name}}={{$count}}{{"\n"}}{{end}}' |
                grep '^nvidia.com/' || true)
        if [ -z "$found" ]; then
                check "$bad" "resources: kubelet counts none below nvidia.com/"
        elif grep -q '=0$' <<<"$found"; then
                check "$bad" "resources: ${found//$'\n'/, } (0: no healthy replica; kubectl describe node $1 has the events)"
        else
                check "$good" "resources: ${found//$'\n'/, }"
        fi
}

check_pod() { # node, component, word for it; sets pod
        local ready
        read -r pod ready <<<"$(pod_of "$1" "$2")"
        if [ -z "$pod" ]; then
                check "$bad" "$3: no pod on this node"
        elif [ "$ready" != true ]; then
                check "$bad" "$3: pod $pod is not ready (kubectl --namespace $namespace logs $pod)"
        else
                check "$good" "$3: pod $pod is ready"
        fi
}

check_configuration() {
        local refused
        refused=$(kubectl --namespace "$namespace" logs "$1" --tail=2000 2>/dev/null | grep -E 'refused' | tail -n 1)
        if kubectl --namespace "$namespace" logs "$1" --tail=2000 2>/dev/null | tac | grep -m1 -E 'refused|plan in force|resource ' |
                grep -q refused; then
                check "$bad" "configuration: $refused"
        else
                check "$good" "configuration: label $(kubectl get node "$2" -o \
                        'jsonpath={.metadata.labels.nvidia\.com/device-plugin\.config}')"
        fi
}

check_daemons() {
        local table
        table=$(kubectl --namespace "$namespace" exec "$1" -- warpshare mps status 2>&1)
        if [ $? != 0 ]; then
                check "$bad" "MPS: warpshare mps status: $(head -n 1 <<<"$table")"
        else
                check "$good" "MPS control daemons:"
        fi
        sed 's/^/           /' <<<"$table"
}

check_memory() {
        local lines
        lines=$(kubectl --namespace "$namespace" logs "$1" --tail=-1 2>/dev/null |
                grep -o 'Set device pinned memory limit: .*' | sort -u)
        if [ -z "$lines" ]; then
                check "$bad" "memory per replica: the supervisor has set no limit yet"
        else
                check "$good" "memory per replica:"
                sed 's/^/           /' <<<"$lines"
        fi
}

if [ -n "$only" ]; then
        nodes=$only
        kubectl get node "$only" -o name >/dev/null || exit 1
else
        nodes=$(kubectl --namespace "$namespace" get pods -l app.kubernetes.io/name=warpshare,app.kubernetes.io/component=agent \
                -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u)
        [ -n "$nodes" ] || {
                echo "verify-mps-setup.sh: namespace '$namespace' has no pod of the agent; scripts/setup.sh installs it" >&2
                exit 1
        }
fi
for node in $nodes; do
        echo "$node"
        check_resources "$node"
        check_pod "$node" agent agent
        [ -z "$pod" ] || check_configuration "$pod" "$node"
        check_pod "$node" mps "MPS supervisor"
        if [ -n "$pod" ]; then
                check_daemons "$pod"
                check_memory "$pod"
        fi
done
[ "$failures" = 0 ] && echo "all is well" || echo "$failures failed"
[ "$failures" = 0 ]
