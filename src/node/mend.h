/*
 * Puts back what the agent keeps on its node, when somebody took it away or changed it, or when the node was made anew. What that is it
 * does not know: its owner looks whether a node has it, and puts it there.
 *
 *     right ──the node does not have it──► waiting ──its time──► mending ──► right, or waiting once more
 *       ▲                                     │
 *       └────────────it has it────────────────┘  our own change was on its way, or somebody was faster
 *
 * Nobody is fought: the wait doubles from NODE_MEND_MS to NODE_MEND_MAX_MS, and begins anew after NODE_MEND_CALM_MS in which nothing had to be
 * mended. How long, is pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "kube/backoff.h"

#define NODE_MEND_MS UINT64_C(2000)
#define NODE_MEND_MAX_MS (UINT64_C(600) * 1000)
#define NODE_MEND_CALM_MS (UINT64_C(1800) * 1000)

/* ---- pure ---- */

/* Zero at first. */
struct node_mend_pace {
        unsigned int count; /* of what was mended without a calm between */
        uint64_t last_ms;   /* when */
};

/* How long what is missing since |now_ms| has to wait. */
uint64_t node_mend_wait(const struct node_mend_pace *pace, uint64_t now_ms, uint32_t random);
void node_mend_count(struct node_mend_pace *pace, uint64_t now_ms);

/* ---- on the loop ---- */

struct node_watch;
struct node_mend;

struct node_mend_options {
        uv_loop_t *loop;
        struct node_watch *watch; /* outlives it */
        const char *what;         /* for the log: "annotations". Borrowed */

        /* |node| has what is to be there, or nothing is to be there yet. */
        bool (*is_right)(const json_t *node, void *data);
        /* Puts it there at once, whatever was tried again later. False: that is on its way; it is asked once more. */
        bool (*mend)(void *data);
        void *data;
};

/* |watch| NULL: NULL. */
struct node_mend *node_mend_new(const struct node_mend_options *options);

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct node_mend *node_mend_close(struct node_mend *mend);
