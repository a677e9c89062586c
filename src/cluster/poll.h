/*
 * Decides when each agent is asked: in turn, at most |parallel| at a time, those that are due longest first. It does
 * not know agents: a question is a path, and its answer goes to |on_answer|.
 *
 *     resting ──due──► waiting for a place ──► asked ──answer or deadline──► resting, until the interval or the back-off is over
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/io/loop.h"
#include "net/kube/client.h"

struct poll;

/* Embedded in what is asked. */
struct poll_turn {
        struct list link;
        struct poll *poll;
        struct kube_call *call; /* NULL: it is not asked now */
        uint64_t due_ms;        /* on the loop's clock; POLL_NEVER */
        struct backoff backoff;
};

#define POLL_NEVER UINT64_MAX

struct poll_options {
        struct kube_client *client;
        unsigned int parallel;
        uint64_t interval_ms; /* 0: each is asked only once, even if that fails */
        uint64_t deadline_ms; /* of one question */
        uint64_t wait_ms;     /* after a failure, and the most after several */
        uint64_t wait_limit_ms;
        const char *query;                                 /* may be NULL; borrowed */
        char *(*path)(struct poll_turn *turn, void *data); /* what to ask, for the poll to free */
        /* True: it was answered well. From the loop; may remove turns, and must not free the poll. */
        bool (*on_answer)(struct poll_turn *turn, const struct kube_answer *answer, void *data);
        void *data;
};

struct poll {
        struct poll_options options;
        struct list turns;
        unsigned int n_asked;
        uv_timer_t timer; /* until the next turn is due */
};

/* |poll| is embedded, and lives until |closing| has ended. */
void poll_init(struct poll *poll, const struct poll_options *options);
void poll_close(struct poll *poll, struct closing *closing); /* removes all turns */

void poll_add(struct poll *poll, struct poll_turn *turn); /* due at once */
void poll_remove(struct poll_turn *turn);                 /* may be called again, also on a zeroed turn */
