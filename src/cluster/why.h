// SPDX-License-Identifier: Apache-2.0
/*
 * Explains in a sentence why a pod waits or was refused, or where it runs. Pure: from the pod, its events, its claims,
 * and what is known of the nodes and their GPUs.
 *
 * The scheduler counts the replicas of a node, not those of its GPUs, and says only how many nodes have too few ("2
 * Insufficient nvidia.com/gpu.shared"). Here each node is checked again by its agent's page: how large a share can be,
 * how many replicas are reserved, and which pods have the others. The scheduler's own message is shown beside it.
 *
 *     team-a/train-0 waits: it asks for 12 nvidia.com/gpu.shared in one container, and the largest share of one GPU is 10
 *     team-a/train-1 waits: it asks for 3 nvidia.com/gpu.shared; 3 nodes have it: on 2 too few replicas are free, 1 is cordoned
 *     team-a/train-2 was refused by kubelet on node-a: it asks for more than maxPerRequest allows
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "cluster/cluster.h"
#include "cluster/why_finding.h"

enum why_state {
        WHY_RUNS,
        WHY_ENDED,
        WHY_GATED,   /* the scheduler does not look at it yet */
        WHY_WAITS,   /* for a node */
        WHY_STARTS,  /* on a node, and its containers do not run yet */
        WHY_REFUSED, /* by kubelet */
};

struct why {
        enum why_state state;
        const char *sentence;            /* the whole of it, without a full stop */
        const char *todo;                /* the way out; NULL: none is known */
        const char *said;                /* the words of scheduler, kubelet or container runtime; NULL: none */
        const struct why_finding *nodes; /* WHY_WAITS: by name, those that have what it asks for */
        size_t n_nodes;
};

struct why_input {
        const json_t *pod;
        const json_t *events; /* an array of core/v1 events of the pod, the oldest first; NULL: not known */
        const json_t *claims; /* an array of the pod's ResourceClaims that are there; NULL: not known */
        const struct cluster_view *view;
};

/* All lives in |arena|. */
void why_explain(struct why *ret, struct arena *arena, const struct why_input *input);

/* Nodes of |why| for the same reason. */
struct why_group {
        const char *reason;
        const char *names; /* "node-a, node-b and 7 more" */
        size_t count;
};

#define WHY_NAMES 4U /* of a group, that are written */

/* The largest group first, those of one size by their first node. Returns their number. */
size_t why_groups(const struct why *why, struct arena *arena, const struct why_group **ret);

/* "runs", "ended", "gated", "waits", "starts", "refused" */
const char *why_state_name(enum why_state state);
