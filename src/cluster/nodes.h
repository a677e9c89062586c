// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes of a cluster, the agent of each, and what that answers: the part of struct cluster that follows Node
 * objects and the agents' pods, and asks the agents. It knows no watch: objects are given to it.
 *
 * Agents are asked in turn, at most CLUSTER_PARALLEL at a time, those that are due longest first:
 *
 *     resting ──due──► waiting for a place ──► asked ──answer or deadline──► resting, until the interval or the back-off is over
 */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "base/error.h"
#include "base/io/loop.h"
#include "cluster/cluster.h"
#include "net/kube/watch.h"

/* How often what a cluster's view shows has changed. The objects that make up the view share it. */
struct cluster_changes {
        uint64_t version;       /* of the view; grows with each change */
        struct deferred report; /* calls the owner of the cluster at the end of the turn, if it has a callback */
};

/* Something in the view has changed: its new version. */
static inline uint64_t cluster_changes_count(struct cluster_changes *changes)
{
        if (changes->report.run)
                deferred_schedule(&changes->report);
        return ++changes->version;
}

/* ---- what is sorted by a key ---- */

/*
 * Pointers to structs that begin with their key, a `char *`, in the order of their keys. For thousands: an insert moves
 * those behind it.
 */
struct sorted {
        void **items;
        size_t count;
        size_t capacity;
};

/* NULL: there is none; *ret_at, if |ret_at| is not NULL, is where it is, or belongs. */
void *sorted_find(const struct sorted *sorted, const char *key, size_t *ret_at);
void sorted_insert(struct sorted *sorted, size_t at, void *item); /* |at| of the last sorted_find() for its key */
void *sorted_remove(struct sorted *sorted, const char *key);      /* the item, or NULL */
void sorted_done(struct sorted *sorted);                          /* frees no item */

/* ---- nodes and agents ---- */

struct cluster_nodes {
        struct sorted nodes;  /* of struct cluster_node, by name */
        struct sorted agents; /* the agents' pods, by "namespace/name"; private, as all that follows the error */
        struct error several_namespaces; /* the agents' pods are in several namespaces; kind ERROR_NONE: they are not */
        struct cluster_changes *changes;
        const struct cluster_options *options;
        unsigned int n_asked;
        uv_timer_t timer; /* until the next agent is due */
};

/* |options| and |changes| outlive it. */
void cluster_nodes_init(
        struct cluster_nodes *nodes, struct cluster_changes *changes, const struct cluster_options *options);
void cluster_nodes_close(struct cluster_nodes *nodes, struct closing *closing);

/* A Node object; a pod of an agent. */
void cluster_nodes_on_node(struct cluster_nodes *nodes, enum kube_change change, const json_t *object);
void cluster_nodes_on_agent(struct cluster_nodes *nodes, enum kube_change change, const json_t *object);
