# SPDX-License-Identifier: Apache-2.0
# What setup.sh and verify-mps-setup.sh both ask a cluster; they set $namespace. Read by them, not run.
# shellcheck shell=bash disable=SC2154

# "a, b, c" of lines.
joined() {
        paste -sd , - <<<"$1" | sed 's/,/, /g'
}

# "name=count" lines of what kubelet counts below nvidia.com/: allocatable or capacity.
counts() { # node, field
        kubectl get node "$1" -o "go-template={{range \$name, \$count := .status.$2}}{{\$name}}={{\$count}}{{\"\\n\"}}{{end}}" |
                grep '^nvidia\.com/' || true
}

# "name healthy reserved unhealthy" lines: what the agent offers, from its metrics. Where they cannot be had: the reason, and status 1.
offers() { # node
        local pod port text
        read -r pod port <<<"$(kubectl --namespace "$namespace" get pods \
                -l app.kubernetes.io/name=warpshare,app.kubernetes.io/component=agent --field-selector "spec.nodeName=$1" -o \
                'jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].ports[0].containerPort}{"\n"}{end}' | head -n 1)"
        if [ -z "$port" ]; then
                echo "the agent has no port for them"
                return 1
        fi
        text=$(kubectl get --raw "/api/v1/namespaces/$namespace/pods/$pod:$port/proxy/metrics" 2>&1) || {
                tail -n 1 <<<"$text"
                return 1
        }
        awk '   /^warpshare_resource_devices\{/ {
                        split($0, parts, "\"") # {resource="NAME",health="HEALTH"} COUNT
                        names[parts[2]]
                        count[parts[2], parts[4]] = $NF
                }
                END {
                        for (name in names)
                                print name, count[name, "healthy"] + 0, count[name, "reserved"] + 0, count[name, "unhealthy"] + 0
                }' <<<"$text" | sort
}

# Whether kubelet counts what the agent offers, of the resources that fit the pattern. A line for each: "ok", "bad" or "note", and
# the rest in words. Replicas that are reserved are no fault, unhealthy ones are.
compare_counts() { # node, pattern
        local offered allocatable capacity name healthy reserved unhealthy counted all
        allocatable=$(counts "$1" allocatable | grep -E "$2")
        capacity=$(counts "$1" capacity | grep -E "$2")
        if [ -z "$allocatable" ]; then
                echo "bad kubelet counts none of them"
                return
        fi
        if ! offered=$(offers "$1"); then
                while IFS='=' read -r name counted; do
                        all=$(sed -n "s#^$name=##p" <<<"$capacity")
                        if [ "$counted" = "$all" ] && [ "$counted" != 0 ]; then
                                echo "ok $name: $counted"
                        elif [ "$counted" != 0 ]; then
                                echo "note $name: kubelet counts $counted of $all; whether the others are reserved or unhealthy say the" \
                                        "agent's metrics, which cannot be read: $offered"
                        else
                                echo "bad $name: 0: none can be used"
                        fi
                done <<<"$allocatable"
                return
        fi
        offered=$(grep -E "$2" <<<"$offered")
        if [ -z "$offered" ]; then
                echo "bad kubelet counts $(joined "${allocatable//=/: }"), and the agent offers none of them"
                return
        fi
        while read -r name healthy reserved unhealthy; do
                counted=$(sed -n "s#^$name=##p" <<<"$allocatable")
                all=$((healthy + reserved + unhealthy))
                if [ "$unhealthy" != 0 ]; then
                        echo "bad $name: $unhealthy of $all are unhealthy"
                elif [ "$healthy" = 0 ]; then
                        echo "bad $name: the agent offers none"
                elif [ "$counted" != "$healthy" ]; then
                        echo "bad $name: kubelet counts ${counted:-none}, and the agent offers $healthy; kubelet may need 10 seconds"
                elif [ "$reserved" != 0 ]; then
                        echo "ok $name: $counted of $all ($reserved reserved so that every request finds one GPU with room)"
                else
                        echo "ok $name: $counted"
                fi
        done <<<"$offered"
}
