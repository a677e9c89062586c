/*
 * Publishes labels: in a file of node-feature-discovery, in its NodeFeature object, on the node itself, or on standard
 * output. node/status/reconcile.h keeps them there, and what is already correct is not written. If the node is watched,
 * its labels are restored at once, and the NodeFeature is written again when the node was created again, since
 * node-feature-discovery removes the NodeFeature of a deleted node.
 *
 * The NodeFeature is read, then created or replaced, since NVIDIA's charts grant these rights, but not those for an
 * apply. The node's labels use a server-side apply, which removes our old labels and keeps those of others.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "config/config.h"
#include "net/kube/client.h"
#include "node/labels/labels.h"

#define LABELS_REFRESH_MS UINT64_C(600000)
#define LABELS_RETRY_MS UINT64_C(2000)
#define LABELS_RETRY_LIMIT_MS UINT64_C(300000)

struct labels_publisher;
struct node_watch;

struct labels_publisher_options {
        uv_loop_t *loop;
        enum labels_output output;
        const char *file; /* LABELS_FILE; "": standard output */
        /* The other targets; everything is copied except the client, which must outlive the publisher. */
        struct kube_client *client;
        struct node_watch *watch; /* the watch of that node, must outlive the publisher, too; NULL: the node is not
                                   * watched */
        const char *node;
        const char *scope;   /* namespace of the NodeFeature; NULL: set later by labels_publisher_begin() */
        const char *pod;     /* the pod whose DaemonSet owns the NodeFeature; "": no owner */
        uint64_t refresh_ms; /* 0: never */
        /*
         * Called after each attempt instead of a log line, from the loop; |error| NULL: everything is published. May
         * close the publisher. NULL: failures are logged.
         */
        void (*done)(const struct error *error, void *data);
        void *data;
};

struct labels_publisher *labels_publisher_new(const struct labels_publisher_options *options);

/* Sets the scope (copied). Nothing is written before; does nothing if the publisher has a scope. */
void labels_publisher_begin(struct labels_publisher *publisher, const char *scope);

/* Copies. */
void labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels);

/* Published labels stay. Accepts NULL, returns NULL. */
struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher);
