// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps one thing in the cluster as it is wanted: writes it, retries what failed, writes it again at intervals, and
 * restores it if another client removed or changed it, or if the node was created again. Labels, annotations, condition
 * and taint are kept so.
 *
 * For it the thing is a JSON value, of which it does not know the meaning. Its owner writes a value, in one request or
 * several, and says whether a node still has it. Labels and annotations of the node that one field manager owns are
 * written here: by server-side apply, so those of others are not touched, and what the newest value no longer has is
 * removed.
 *
 *     off ──serve──► resting ──another value──► settling ──settle_ms──► writing ──accepted──► resting
 *                     │  ▲                       │    ▲                  ▲ ▲ └────failed────► retrying
 *                     │  └─the one that is there─┘    │                  │ │                  │     │
 *                     └─────────────refresh_ms────────┼──────────────────┘ └─────back-off─────┘     │
 *                                                     └───────────────another value─────────────────┘
 *
 * A value that is put while another is written waits for the answer. One that is put during a retry's pause does not
 * wait for it: it is written at once, and only the pauses keep growing from failure to failure.
 *
 * Restoring is a second, independent wait, since it may have to be long:
 *
 *     right ──the node does not have it──► waiting ──its time──► restored ──► right, or waiting once more
 *       ▲                                     │
 *       └────────────it has it────────────────┘  our own change was on its way, or another client restored it
 *
 * To avoid fighting with another writer, that wait doubles from NODE_RECONCILE_MS to NODE_RECONCILE_MAX_MS, and starts
 * again after NODE_RECONCILE_CALM_MS without anything to restore. The length of the wait is computed by a pure
 * function.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "net/kube/client.h"

#define NODE_RECONCILE_MS UINT64_C(2000)
#define NODE_RECONCILE_MAX_MS (UINT64_C(600) * 1000)
#define NODE_RECONCILE_CALM_MS (UINT64_C(1800) * 1000)
/* Pauses between two attempts to write annotations, or the state of the MIG configuration. */
#define NODE_RECONCILE_RETRY_MS UINT64_C(5000)
#define NODE_RECONCILE_RETRY_MAX_MS UINT64_C(300000)

/* ---- pure ---- */

/* Zeroed at first. */
struct node_reconcile_pace {
        unsigned int count; /* restored in a row, without a calm period */
        uint64_t last_ms;   /* when */
};

/* How long to wait if something is missing since |now_ms|. */
uint64_t node_reconcile_wait(const struct node_reconcile_pace *pace, uint64_t now_ms, uint32_t random);
void node_reconcile_count(struct node_reconcile_pace *pace, uint64_t now_ms);

/*
 * How long to wait before the next refresh: a random time from four fifths of |refresh_ms| to all of it. After an
 * outage all nodes write within the same seconds, and must not do so at each interval from then on.
 */
uint64_t node_reconcile_rest(uint64_t refresh_ms, uint32_t random);

/* ---- on the loop ---- */

struct node_watch;
struct node_reconcile;

struct node_reconcile_options {
        uv_loop_t *loop;
        struct node_watch *watch; /* outlives it; NULL: nothing is restored before it is written again */
        uint64_t retry_ms;        /* the first pause after a failure, which doubles up to the next */
        uint64_t retry_limit_ms;
        uint64_t refresh_ms; /* written again after this at most (node_reconcile_rest()); 0: never */
        /* For the log: |what|, |failed| and |succeeded| are borrowed. */
        const char *what;      /* "labels" */
        const char *failed;    /* "labels cannot be published, will try again": once for each error */
        const char *succeeded; /* "labels are published": after a failure */

        /* NULL, or the field manager: a value is a Node object with labels and annotations, as said above. Borrowed. */
        const char *manager;
        struct kube_client *client; /* with |manager| only; outlives the reconciler */
        const char *node;           /* its name, copied */
        /*
         * The next two are for any other value. Begins to write |wanted|, which is not to be changed and is valid until
         * the write ends, by node_reconcile_done(). Returns the request under way, or NULL if the write has ended
         * already.
         */
        struct kube_call *(*write)(json_t *wanted, void *data);
        /*
         * True if |node| has |written|, the value that was written last. NULL: the value is not in the node, but goes
         * with it, and is restored when the node is another one.
         */
        bool (*is_right)(const json_t *node, const json_t *written, void *data);
        /*
         * How long |wanted| must stay the same before it replaces |accepted|, which is NULL if the present value is
         * unknown. NULL: it is written in the next turn of the loop.
         */
        uint64_t (*settle_ms)(const json_t *accepted, const json_t *wanted, void *data);
        /*
         * Called when a write has ended, instead of the two log lines. May close the reconciler. NULL: they are logged.
         */
        void (*done)(const struct error *error, void *data);
        void *data;
};

/* Off at first: nothing is written, and the node is not watched. */
struct node_reconcile *node_reconcile_new(const struct node_reconcile_options *options);

/* On: writes the newest value, even if it was accepted before. Off: ends a write under way; the object stays. */
void node_reconcile_serve(struct node_reconcile *reconcile, bool is_serving);

/* |wanted| is the newest value. Takes over the reference. True: it differs from the one before. */
bool node_reconcile_put(struct node_reconcile *reconcile, json_t *wanted);

/* For the owner, during a write: |call| is its next request. */
void node_reconcile_go_on(struct node_reconcile *reconcile, struct kube_call *call);

/* The write has ended. |retry_after_ms| is what the server asked for, or 0. */
void node_reconcile_done(struct node_reconcile *reconcile, const struct error *error, uint64_t retry_after_ms);

/* Calls node_reconcile_done(); as the callback of the last request, whose |data| is the reconciler. */
void node_reconcile_answered(const struct kube_answer *answer, void *data);

/* True if |node|, from the API server, has all labels and annotations of |object|. Pure. */
bool node_reconcile_has(const json_t *node, const json_t *object);

/* No callback after this. Accepts NULL, returns NULL. */
struct node_reconcile *node_reconcile_close(struct node_reconcile *reconcile);
