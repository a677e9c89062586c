// SPDX-License-Identifier: Apache-2.0
/*
 * Follows this node's object in the API with one watch for all listeners: for the label that names the configuration,
 * for whether clients of the driver may be on the node, and for what the agent keeps on it.
 *
 * The watch starts with the first listener. A listener that is added after the first list gets the next change only. A
 * node that was deleted and created again (kubelet registered again) is another object of the same name: this is
 * logged, and reported like any change.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/list.h"
#include "net/kube/client.h"

struct node_watch;

/* Callbacks come from the loop, and may remove this listener or any other, and close the watch. */
struct node_listener {
        void (*on_node)(const json_t *node, void *data); /* new or changed, borrowed; NULL: the node does not exist any
                                                          * more */
        void (*on_synced)(void *data);                   /* the state is complete (net/kube/watch.h); may be NULL */
        /*
         * The node cannot be watched now; it is tried again. Called once per problem. If no listener has this callback,
         * the watch logs it.
         */
        void (*on_trouble)(const struct error *error, void *data);
        void *data;
        struct list link; /* private to the watch: */
        unsigned int reported;
};

/* |client| must outlive the watch. */
struct node_watch *node_watch_new(struct kube_client *client, const char *node);

/* |listener| is borrowed until it is removed. */
void node_watch_listen(struct node_watch *watch, struct node_listener *listener);
void node_watch_leave(struct node_listener *listener);

/* Call it after the last listener was removed. Accepts NULL, returns NULL. */
struct node_watch *node_watch_close(struct node_watch *watch);

/* ---- the value of one label ---- */

/*
 * Before the API server's first answer the value is unknown, which differs from a node without the label; a node that
 * does not exist has no label. While the API server is away, its last answer counts.
 */
struct node_label;

struct node_label_options {
        struct node_watch *watch; /* outlives it */
        const char *key;
        void (*changed)(void *data); /* the value has changed, or is known now */
        /* The node cannot be read now; it is tried again. Called once per problem. */
        void (*trouble)(const struct error *error, void *data);
        void *data;
};

struct node_label *node_label_new(const struct node_label_options *options);

bool node_label_is_known(const struct node_label *label);
const char *node_label_value(
        const struct node_label *label); /* "": the node has no such label; valid until |changed| */

/* No callback after this. Accepts NULL, returns NULL. */
struct node_label *node_label_close(struct node_label *label);

/* ---- whether clients of the driver may be on this node ---- */

/*
 * NVIDIA's GPU Operator says on the node's object that clients of the driver are to leave, before it
 * unloads the driver or changes MIG. A program that stays keeps the kernel's module in use, and the operator fails.
 *
 *     nvidia.com/gpu.deploy.client           GPU Operator 26.7 and newer: "true", clients may be here; any other value,
 *                                            as "paused-for-driver-upgrade", they leave. A node without the label says
 *                                            nothing: it has no GPU Operator, or an older one
 *     nvidia.com/gpu-driver-upgrade-state    on a node without that label: at "pod-restart-required" the pod that has
 *                                            the driver is about to be replaced, and they leave. Where the label is, it
 *                                            alone counts: the operator may go through that state and keep the driver
 *
 * It only reads. Before the API server's first answer they may be here; while it is away, its last answer counts, and
 * so does a node that was deleted.
 */
struct node_clients;

/*
 * |changed| is called when this changes. |reason| "label=value": all clients are to leave the node; NULL: they may
 * return. |watch| outlives it.
 */
struct node_clients *node_clients_new(
        struct node_watch *watch, void (*changed)(const char *reason, void *data), void *data);

/* If the Node's label requires all clients to end: the label and its value, for the caller to free; else NULL. */
char *node_clients_reason(const json_t *node);

/* No callback after this. Accepts NULL, returns NULL. */
struct node_clients *node_clients_close(struct node_clients *clients);
