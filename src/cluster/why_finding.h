// SPDX-License-Identifier: Apache-2.0
/*
 * Finds why one node does not take a pod that waits. Pure. As far as labels and taints decide it, see
 * https://kubernetes.io/docs/concepts/scheduling-eviction/. A condition with an operator that is not known here counts
 * as met.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "cluster/node.h"
#include "cluster/pod.h"

#define WHY_HOLDERS 3U /* pods that are named, of those that have the replicas of a node */

/* The reasons why a node does not fit, in the order in which they are checked: the first one counts. */
enum why_class {
        WHY_NOT_READY,
        WHY_CORDONED,
        WHY_TAINTED,
        WHY_NOT_SELECTED,
        WHY_NOT_OFFERED, /* kubelet has none of the resource now */
        WHY_SHARE_TOO_LARGE,
        WHY_NODE_TOO_SMALL,
        WHY_TAKEN,
        WHY_HAS_ROOM,
        N_WHY_CLASSES,
};

struct why_finding {
        const char *name; /* of the node */
        enum why_class class;
        const char *reason;                    /* "2 of 10 are free; taken by team-b/x (5) and team-b/y (3)" */
        const struct cluster_request *request; /* WHY_NOT_OFFERED and later, but WHY_HAS_ROOM: which does not fit */
        uint64_t most; /* WHY_SHARE_TOO_LARGE: the largest share of one GPU; WHY_NODE_TOO_SMALL: what the node has */
        uint64_t reserved; /* WHY_NODE_TOO_SMALL, WHY_TAKEN: of the node's replicas of it */
};

/* |node| has, or had, the first of |pod|'s resources that it has any of. */
void why_find(struct why_finding *ret, struct arena *arena, const json_t *object, const struct cluster_pod *pod,
        const struct cluster_node *node);

/* Whether kubelet there, or the agent, knows one of the resources. */
bool why_has_any(const struct cluster_pod *pod, const struct cluster_node *node);

/* The first taint of the node that keeps the pod away (NoSchedule or NoExecute); NULL: it tolerates all of them. */
const struct cluster_taint *pod_fit_taint(const json_t *pod, const struct cluster_node *node);

/* spec.nodeSelector and the required node affinity select the node. */
bool pod_fit_is_selected(const json_t *pod, const struct cluster_node *node);
