// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which Kubernetes events are sent, and how often: a repeated event increases a count, and events above a rate
 * are dropped. Pure: the caller passes events and the time, and gets the next event to send. It knows neither HTTP nor
 * JSON.
 *
 * Two events are the same if object, type, reason and message are the same. Within EVENT_WINDOW_MS after it was last
 * reported, a repetition increases the count of the first (a patch); later it is a new event. API servers keep events
 * for an hour, hence the window.
 *
 * Two token buckets limit the rate, one per object and one for all. The first has the size and the rate of client-go's
 * EventSourceObjectSpamFilter (25, then one in five minutes), as users expect; the second is for a node with very many
 * failures at once. A new event without a token is dropped. A repetition without a token is counted, and sent with the
 * next one that has a token.
 *
 * At most EVENT_QUEUE_MAX events are stored. A new one replaces the oldest reported one; if none is reported yet, the
 * oldest is dropped.
 *
 *         (new) ──► WAITING ──next()──► SENDING ──sent──► TOLD ──again──► WAITING
 *                      ▲                   │
 *                      └──────failed───────┘   lost: the server has it no more, so it is new once more
 *                                              refused, given up: forgotten, and dropped
 *
 * A failed event waits while others are sent, and is sent again or given up.
 *
 * A failure does not show its cause: the server may be unreachable or faulty, or an admission webhook or a broken
 * namespace may never accept this one event. Other events show the difference. While the server accepts none, failures
 * do not count against any event, and the more different events have failed, the longer the pause; so an outage loses
 * no event and causes no storm. If the server accepted another event between two failures of the same event, that event
 * gets a strike, and is given up after EVENT_STRIKES: after 1.5 to 3 minutes, since its pause also grows with each
 * failure.
 *
 * An event that is always alone gets no strikes, delays no other, and costs one request a minute; after EVENT_TRIES,
 * which take half a day, it is given up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

#define EVENT_MESSAGE_MAX ((size_t)1024) /* limit of events.k8s.io/v1 ("note"); longer messages end in "…" */
#define EVENT_QUEUE_MAX ((size_t)128)
#define EVENT_WINDOW_MS (INT64_C(50) * 60 * 1000)

/* Tokens: the largest number, and the time in which one is refilled. */
#define EVENT_OBJECT_BURST 25U
#define EVENT_OBJECT_REFILL_MS (INT64_C(300) * 1000)
#define EVENT_TOTAL_BURST 100U
#define EVENT_TOTAL_REFILL_MS (INT64_C(6) * 1000)

/* Tries. */
#define EVENT_RETRY_MS UINT64_C(1000)
#define EVENT_RETRY_MAX_MS UINT64_C(60000)
#define EVENT_STRIKES 8U
#define EVENT_TRIES 1000U

/* The object that an event is about. Strings; NULL and "" are the same. */
struct event_object {
        const char *api_version; /* "v1" */
        const char *kind;        /* "Node", "Pod" */
        const char *namespace;   /* NULL: not in one; the event itself is in "default" then */
        const char *name;
        const char *uid; /* NULL: not known. kubectl describe finds events by it, kubectl events by name */
};

struct event {
        struct event_object about;
        bool is_warning;     /* else Normal */
        const char *reason;  /* CamelCase, a constant of the program */
        const char *message; /* for people: one sentence or two */
};

/* An event to send. Valid until event_queue_settle(). */
struct event_entry {
        struct event event; /* the book's own copy */
        char name[254];     /* of the Event object: the object's, and the time of its first */
        unsigned int count; /* with this */
        int64_t first_ms;   /* since the epoch */
        int64_t last_ms;
        bool is_new; /* create it; false: patch count and last */
};

/* Details of a failure; times are of a monotonic clock. */
struct event_failure {
        uint64_t now_ms;
        uint64_t retry_after_ms; /* the wait that the server asked for; 0: none */
        uint32_t random;
};

struct event_queue;

struct event_queue *event_queue_new(uint64_t retry_ms);          /* for tests, after each failure; 0: EVENT_RETRY_MS */
struct event_queue *event_queue_free(struct event_queue *queue); /* accepts NULL, returns NULL */

/*
 * Adds an event. |now_ms|: milliseconds since the epoch; if that clock goes back, tokens are only refilled later. True:
 * there is something new to send.
 */
bool event_queue_add(struct event_queue *queue, const struct event *event, int64_t now_ms);

/*
 * The next event to send: the one whose retry is due first, of new ones the oldest. NULL: none now; ask again after
 * |*ret_wait_ms|. UINT64_MAX: not before another call changes the queue, since none waits or one is being sent.
 * |clock_ms| is of a monotonic clock.
 */
const struct event_entry *event_queue_next(struct event_queue *queue, uint64_t clock_ms, uint64_t *ret_wait_ms);

/* The event that event_queue_next() returned is given up after one more failure. */
bool event_queue_is_last_try(const struct event_queue *queue);

/* Reports what became of it. |failure| is used with EVENT_FAILED only. */
enum event_outcome {
        EVENT_SENT,
        EVENT_FAILED,  /* it waits and is sent again */
        EVENT_LOST,    /* a patch of an event that the server has no longer: it is created again */
        EVENT_REFUSED, /* another attempt would not help */
        EVENT_GIVEN_UP,
};
void event_queue_settle(struct event_queue *queue, enum event_outcome outcome, const struct event_failure *failure);

/* No failed event waits to be sent again. */
bool event_queue_is_well(const struct event_queue *queue);

/* How many events were dropped: no token, no space, refused, or given up. */
uint64_t event_queue_dropped(const struct event_queue *queue);

/* ---- tries: when a failed event is sent again, and when it is given up ---- */

/* The state of the server. Zeroed at first, except for the first two fields. */
struct event_server {
        uint64_t least_ms;    /* shortest wait: EVENT_RETRY_MS, or less in tests */
        uint64_t most_ms;     /* EVENT_RETRY_MAX_MS likewise */
        uint64_t taken;       /* events */
        unsigned int failing; /* different events that failed since the last success */
        uint64_t due_ms;      /* nothing is sent before this time */
};

/* The failures of one event. Zeroed at first. */
struct event_tries {
        unsigned int failures;
        unsigned int strikes;
        uint64_t taken;  /* events that the server had accepted at the last failure */
        uint64_t due_ms; /* not sent again before this time */
};

void event_tries_fail(struct event_tries *tries, struct event_server *server, const struct event_failure *failure);
void event_server_take(struct event_server *server);

/* True if the event is given up after one more failure. */
bool event_tries_are_last(const struct event_tries *tries, const struct event_server *server);

/* When it may be sent. */
uint64_t event_tries_due(const struct event_tries *tries, const struct event_server *server);
