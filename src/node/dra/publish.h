// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps the ResourceSlices of this node in the API server as the layout says, as long as the loop runs. It creates and
 * changes them, and restores them if another program removes or changes them (kubelet deletes all of them when it
 * starts), less and less often if it does so again and again (node/dra/reconcile.h). Nothing is written while nothing
 * changes.
 *
 *   node ──► server ──► list and watch ──► reconcile, one write at a time ──► at rest
 *    ▲          ▲                             ▲   │                              │
 *    │          │                             │   └── failed: back-off; undone ──┤
 *    │          │                             │       by others again: a pause   │
 *    │          │                             └────── a change, here or there ───┘
 *    │          └── the watch was cut and stands again: the server may be another
 *    └── a slice vanished: its owner may be another Node now
 *
 * Server: what it has of DRA, by one request after the other:
 *
 *   group ──► version ──► probe ──► known
 *
 * Group: of v1, v1beta2 and v1beta1 the newest that the server has. Version: of the server itself, because 1.35 wants
 * counters and devices in different slices, and schedulers of some patch releases forget shares. Probe: a dry run with
 * a slice that has a field of each feature; fields that the server returns are features that are on. A server that
 * refuses the probe has none of them, even if it knows the fields. The slices that are written are compared with its
 * answers, too. A server without a feature, or one that refuses a slice as invalid (422), gets the safe layout, until
 * it is asked again.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "node/dra/slices.h"
#include "net/kube/client.h"

#define DRA_RETRY_MS UINT64_C(1000)
#define DRA_RETRY_LIMIT_MS UINT64_C(60000)

struct dra_publisher;

struct dra_publisher_options {
        uv_loop_t *loop;
        struct kube_client *client; /* outlives the publisher */
        const char *node;           /* all texts outlive the publisher, too */
        const char *driver;         /* DRA_DRIVER */
        const char *pool;
        uint64_t retry_ms; /* the first wait after a failure, and between repairs; 0: DRA_RETRY_MS */
        /*
         * Called from the loop; may close the publisher. NULL: all slices are up to date again. Else the reason why
         * they are not, at each wait except the first pause between repairs. ERROR_NOT_FOUND: the API server lacks
         * resource.k8s.io.
         */
        void (*done)(const struct error *error, void *data);
        void (*on_layout)(void *data); /* the offered layout has changed; must not close the publisher. May be NULL */
        void *data;
};

struct dra_publisher *dra_publisher_new(const struct dra_publisher_options *options);

/*
 * Sets what is to be offered; nothing is written before the first call. Both arguments and what they point to must stay
 * valid until the next call or the end. Only features that are also on in the API server are used.
 */
void dra_publisher_put(
        struct dra_publisher *publisher, const struct inventory *inventory, const struct dra_options *options);

/* Sets all taints; they are copied. */
void dra_publisher_set_taints(struct dra_publisher *publisher, const struct dra_taint *taints, size_t n_taints);

/* The offered layout; NULL: the server's features are not known yet. Valid until the loop runs again. */
const struct dra_layout *dra_publisher_layout(const struct dra_publisher *publisher);

/* The features that the API server has; all false until they are known. */
struct dra_features dra_publisher_features(const struct dra_publisher *publisher);

/* The version of the API that is used; v1 until it is known. */
enum dra_api dra_publisher_api(const struct dra_publisher *publisher);

/* The slices stay. The memory is freed when the loop has closed the handle. Accepts NULL, returns NULL. */
struct dra_publisher *dra_publisher_close(struct dra_publisher *publisher);
