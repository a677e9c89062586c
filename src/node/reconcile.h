/*
 * Puts back what the agent keeps on its node, when somebody took it away or changed it, or when the node was made anew. What that is it
 * does not know: its owner looks whether a node has it, and puts it there.
 *
 *     right ──the node does not have it──► waiting ──its time──► reconciling ──► right, or waiting once more
 *       ▲                                     │
 *       └────────────it has it────────────────┘  our own change was on its way, or somebody was faster
 *
 * Nobody is fought: the wait doubles from NODE_RECONCILE_MS to NODE_RECONCILE_MAX_MS, and begins anew after NODE_RECONCILE_CALM_MS in which nothing had to be
 * reconciled. How long, is pure.
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

/* Zero at first. */
struct node_reconcile_pace {
        unsigned int count; /* of what was reconciled without a calm between */
        uint64_t last_ms;   /* when */
};

/* How long what is missing since |now_ms| has to wait. */
uint64_t node_reconcile_wait(const struct node_reconcile_pace *pace, uint64_t now_ms, uint32_t random);
void node_reconcile_count(struct node_reconcile_pace *pace, uint64_t now_ms);

/* ---- on the loop ---- */

struct node_watch;
struct node_reconcile;

struct node_reconcile_options {
        uv_loop_t *loop;
        struct node_watch *watch; /* outlives it */
        const char *what;         /* for the log: "annotations". Borrowed */

        /* |node| has what is to be there, or nothing is to be there yet. */
        bool (*is_right)(const json_t *node, void *data);
        /* Puts it there at once, whatever was tried again later. False: that is on its way; it is asked once more. */
        bool (*reconcile)(void *data);
        void *data;
};

/* |watch| NULL: NULL. */
struct node_reconcile *node_reconcile_new(const struct node_reconcile_options *options);

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct node_reconcile *node_reconcile_close(struct node_reconcile *reconcile);
