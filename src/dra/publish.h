/*
 * Keeps the ResourceSlices of this node in the API server as the layout says, for as long as the loop runs: made, changed, and put back
 * when somebody removes or changes them (kubelet deletes all of them at its start). Nothing is written while nothing changes.
 *
 *   version ──► node ──► probe ──► list and watch ──► reconcile, one write at a time ──► at rest
 *      ▲          ▲                                      ▲   │                            │
 *      │          └── a slice vanished: its owner may    │   └── failed: back-off ────────┤
 *      │              be another Node now                └──── a change, here or there ───┘
 *      └── the watch stood again after trouble: the server may be another
 *
 * Version: the newest of v1, v1beta2 and v1beta1 that is served, and the server's own, since 1.35 wants counters apart from devices. Probe: a
 * slice with a field of each feature, as a dry run; fields that come back are features that are on. What is really written is read
 * back all the same. A server that lacks a feature, or refuses a slice as invalid (422), gets the safe layout; both are forgotten when it is
 * probed again.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "dra/slices.h"
#include "kube/client.h"

#define DRA_RETRY_MS UINT64_C(1000)
#define DRA_RETRY_LIMIT_MS UINT64_C(60000)

struct dra_publisher;

struct dra_publisher_options {
        uv_loop_t *loop;
        struct kube_client *client; /* outlives the publisher */
        const char *node;           /* copied, as is the next */
        const char *driver;         /* DRA_DRIVER */
        uint64_t retry_ms;          /* 0: DRA_RETRY_MS */
        /*
         * From the loop, may close the publisher: NULL when all is as it should be, after it was not; else why not, each time that it is put
         * off. ERROR_NOT_FOUND: the API server has no resource.k8s.io.
         */
        void (*done)(const struct error *error, void *data);
        void (*on_layout)(void *data); /* another one is offered; must not close the publisher. May be NULL */
        void *data;
};

struct dra_publisher *dra_publisher_new(const struct dra_publisher_options *options);

/*
 * What is to be offered from now on; nothing is written before the first. Both are borrowed, and what they point to, until the next
 * call or the end; of the features, those count that are also on in the API server.
 */
void dra_publisher_put(
        struct dra_publisher *publisher, const struct inventory *inventory, const struct dra_options *options);

/* All that are there from now on. Copies. */
void dra_publisher_set_taints(struct dra_publisher *publisher, const struct dra_taint *taints, size_t n_taints);

/* What is offered; NULL: the server's features are not known yet. Valid until the loop goes on. */
const struct dra_layout *dra_publisher_layout(const struct dra_publisher *publisher);

/* What the API server keeps of what is written to it; all false as long as it is not known. */
struct dra_features dra_publisher_features(const struct dra_publisher *publisher);

/* The version of the API that is spoken; v1 as long as it is not known. */
enum dra_api dra_publisher_api(const struct dra_publisher *publisher);

/* The slices stay. The memory goes when the loop has closed the handle. Accepts NULL, returns NULL. */
struct dra_publisher *dra_publisher_close(struct dra_publisher *publisher);
