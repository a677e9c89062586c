/*
 * Brings labels to where they are read: a file of node-feature-discovery, its NodeFeature object, the node itself, or standard output.
 * What it was given last is what counts; it is tried again until it is there, with back-off, and put in place again at intervals,
 * in case that somebody took it away. What is as it should be is not written. Where the node is watched, its labels are put back in a
 * moment (node/reconcile.h), and the NodeFeature is looked after when the node was made anew, since node-feature-discovery removes
 * that of a node that is gone.
 *
 *     idle ──put──► writing ──done──► resting ──refresh_ms──► writing
 *                     ▲ └──failed──► waiting ──┘
 *                     └─────────────────┘
 *
 * The NodeFeature is read, and created or replaced, since NVIDIA's charts give the rights for that and not those for an apply. The node's
 * labels are a server-side apply, so that labels that are gone disappear, and those of others stay.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "config/config.h"
#include "kube/client.h"
#include "labels/labels.h"

#define LABELS_REFRESH_MS UINT64_C(600000)
#define LABELS_RETRY_MS UINT64_C(2000)
#define LABELS_RETRY_LIMIT_MS UINT64_C(300000)

struct labels_publisher;
struct node_watch;

struct labels_publisher_options {
        uv_loop_t *loop;
        enum labels_output output;
        const char *file; /* LABELS_FILE; "": standard output */
        /* The others; all are copied but the client, which must outlive the publisher. */
        struct kube_client *client;
        struct node_watch *watch; /* of that node, outlives the publisher as well; NULL: it is not watched */
        const char *node;
        const char *scope;   /* namespace of the NodeFeature; NULL: labels_publisher_begin() will say */
        const char *pod;     /* whose DaemonSet owns the NodeFeature; "": nobody does */
        uint64_t refresh_ms; /* 0: never */
        /* After each attempt, from the loop: NULL when all is as it was to be. May close the publisher. */
        void (*done)(const struct error *error, void *data);
        void *data;
};

struct labels_publisher *labels_publisher_new(const struct labels_publisher_options *options);

/* Copies |scope|. Until then nothing is written; for a publisher that has a scope it does nothing. */
void labels_publisher_begin(struct labels_publisher *publisher, const char *scope);

/* Copies. */
void labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels);

/* What is published stays. The memory goes when the loop has closed the handle. Accepts NULL, returns NULL. */
struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher);
