// SPDX-License-Identifier: Apache-2.0
/*
 * Publishes labels: in a file of node-feature-discovery, in its NodeFeature object, on the node itself, or on standard
 * output. node/status/reconcile.h keeps them there, and what is already correct is not written. If the node is watched,
 * its labels are restored at once, and the NodeFeature is written again when the node was created again, since
 * node-feature-discovery removes the NodeFeature of a deleted node.
 *
 * The NodeFeature is read, then created or replaced, since NVIDIA's charts grant these rights, but not those for an
 * apply. The node's labels use a server-side apply, which removes our old labels and keeps those of others. The
 * NodeFeature has the same name and form as that of NVIDIA's gpu-feature-discovery, so that each can replace the
 * other's and there are never two.
 *
 * Published labels are removed from all of these places by a command. Labels that NVIDIA's program made are left alone:
 * only ours include our own labels (node/labels/labels.h).
 */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "base/error.h"
#include "config/config.h"
#include "net/kube/client.h"
#include "node/labels/labels.h"
#include "node/status/api.h"

#define LABELS_FIELD_MANAGER "warpshare-labels"
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

/* Copies. True: the labels differ from those that were put before. */
bool labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels);

/* Published labels stay. Accepts NULL, returns NULL. */
struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher);

/* ---- removing ---- */

enum labels_removal {
        LABELS_REMOVED, /* it existed and was removed; in a dry run: it would be */
        LABELS_LEFT,    /* it exists and stays, for the stated reason */
        LABELS_ABSENT,  /* it did not exist */
        LABELS_UNSEEN,  /* it could not be checked, for the stated reason */
};

/*
 * |what|: "labels file", "NodeFeature", "node labels"; |where|: a path, or the name of an object; |note| "": nothing to
 * add.
 */
typedef void labels_removal_fn(
        enum labels_removal outcome, const char *what, const char *where, const char *note, void *data);

/*
 * Reports on each of the three; may be run again. |scope|: namespace of the NodeFeature; "": that of the pod or of the
 * kubeconfig. Blocks while the API server answers, about a minute at most.
 */
void labels_remove(struct api_visit *visit, const struct config *config, const char *scope, bool is_dry,
        labels_removal_fn *report, void *data);

/* ---- objects of the API; pure. Functions that return json_t give a new reference ---- */

/* "…/namespaces/<namespace>/nodefeatures"; with |node|, not NULL, of its object for this node. The caller frees. */
char *labels_feature_path(const char *scope, const char *node);

/* |labels|: {key: value}. |owners|: a list, or NULL: keep the present ones. Everything else in |object| stays. */
void labels_feature_set(json_t *object, const char *node, json_t *labels, json_t *owners);

/* The owners of a pod's NodeFeature: its DaemonSet and the pod; an empty list if no DaemonSet controls the pod. */
json_t *labels_feature_owners(const json_t *pod);

/* It has one of our own labels (node/labels/labels.h), which NVIDIA's program never writes. */
bool labels_feature_is_ours(const json_t *object);

/*
 * The object that LABELS_FIELD_MANAGER applies to the node. Takes over |labels|; NULL: one that removes all of its
 * labels.
 */
json_t *labels_node_object(const char *node, json_t *labels);

/* LABELS_FIELD_MANAGER has set labels on it. */
bool labels_node_is_ours(const json_t *node);
