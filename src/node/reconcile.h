/*
 * Restores what the agent keeps on its node, if somebody removed or changed it, or if the node was created again. It
 * does not know what that is: its owner checks whether a node has it, and sets it.
 *
 *     right ──the node does not have it──► waiting ──its time──► reconciling ──► right, or waiting once more
 *       ▲                                     │
 *       └────────────it has it────────────────┘  our own change was on its way, or somebody was faster
 *
 * To avoid fighting with another writer, the wait doubles from NODE_RECONCILE_MS to NODE_RECONCILE_MAX_MS, and starts
 * again after NODE_RECONCILE_CALM_MS without anything to reconcile. The length of the wait is computed by a pure
 * function.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "kube/backoff.h"

#define NODE_RECONCILE_MS UINT64_C(2000)
#define NODE_RECONCILE_MAX_MS (UINT64_C(600) * 1000)
#define NODE_RECONCILE_CALM_MS (UINT64_C(1800) * 1000)

/* ---- pure ---- */

/* Zeroed at first. */
struct node_reconcile_pace {
        unsigned int count; /* reconciled in a row, without a calm period */
        uint64_t last_ms;   /* when */
};

/* How long to wait if something is missing since |now_ms|. */
uint64_t node_reconcile_wait(const struct node_reconcile_pace *pace, uint64_t now_ms, uint32_t random);
void node_reconcile_count(struct node_reconcile_pace *pace, uint64_t now_ms);

/* ---- on the loop ---- */

struct node_watch;
struct node_reconcile;

struct node_reconcile_options {
        uv_loop_t *loop;
        struct node_watch *watch; /* outlives it */
        const char *what;         /* for the log: "annotations". Borrowed */

        /* |node| has what it must have, or nothing is to be set yet. */
        bool (*is_right)(const json_t *node, void *data);
        /* Sets it at once, replacing any scheduled retry. False: it is being set already; ask again later. */
        bool (*reconcile)(void *data);
        void *data;
};

/* |watch| NULL: NULL. */
struct node_reconcile *node_reconcile_new(const struct node_reconcile_options *options);

/* No callback after this. Accepts NULL, returns NULL. */
struct node_reconcile *node_reconcile_close(struct node_reconcile *reconcile);
