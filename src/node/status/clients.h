/*
 * Whether clients of the driver may be on this node: NVIDIA's GPU Operator says so on the node's object, before it
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
#pragma once

#include <jansson.h>

struct node_clients;
struct node_watch;

struct node_clients_options {
        struct node_watch *watch; /* outlives it */
        /*
         * Called when this changes. |reason| "label=value": all clients are to leave the node; NULL: they may return.
         */
        void (*changed)(const char *reason, void *data);
        void *data;
};

struct node_clients *node_clients_new(const struct node_clients_options *options);

/* If the Node's label requires all clients to end: the label and its value, for the caller to free; else NULL. */
char *node_clients_reason(const json_t *node);

/* No callback after this. Accepts NULL, returns NULL. */
struct node_clients *node_clients_close(struct node_clients *clients);
