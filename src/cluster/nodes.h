/*
 * The nodes of a cluster, the agent of each, and what that answers: the part of struct cluster that follows Node
 * objects and the agents' pods, and asks the agents. It knows no watch: objects are given to it.
 */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "cluster/changes.h"
#include "cluster/node.h"
#include "cluster/poll.h"
#include "cluster/sorted.h"
#include "net/kube/watch.h"

struct cluster_nodes {
        struct sorted nodes;             /* by name; private, as |agents| */
        struct sorted agents;            /* the agents' pods, by "namespace/name" */
        struct error several_namespaces; /* the agents' pods are in several namespaces; kind ERROR_NONE: they are not */
        struct poll poll;
        struct cluster_changes *changes;
};

/* Sets |path|, |on_answer| and |data| of a copy of |options|. */
void cluster_nodes_init(
        struct cluster_nodes *nodes, struct cluster_changes *changes, const struct poll_options *options);
void cluster_nodes_close(struct cluster_nodes *nodes, struct closing *closing);

/* A Node object; a pod of an agent. */
void cluster_nodes_on_node(struct cluster_nodes *nodes, enum kube_change change, const json_t *object);
void cluster_nodes_on_agent(struct cluster_nodes *nodes, enum kube_change change, const json_t *object);

/* |at| is less than nodes->nodes.count. */
const struct cluster_node *cluster_nodes_at(const struct cluster_nodes *nodes, size_t at);
