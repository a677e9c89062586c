/*
 * Which Kubernetes events are told, and how often: the same one again raises a count, and too many of them are left out. Pure:
 * it is told what happens and what time it is, and says what is to be sent next. It knows neither HTTP nor JSON.
 *
 * Two events are the same when object, type, reason and message are. For EVENT_WINDOW_MS after it was last told, one that comes
 * again raises the count of the first (a patch); later it is a new one. API servers keep events for an hour, hence the window.
 *
 * Two token buckets pay for what is sent, one an object and one for all. The first has the size and the rate of client-go's
 * EventSourceObjectSpamFilter (25, then one in five minutes), so that nobody is surprised; the second is for a node where
 * everything goes wrong at once. A new event that finds no token is dropped. A repetition that finds none is counted, and told
 * with the next one that finds some.
 *
 * At most EVENT_QUEUE_MAX events are known. For a new one the oldest that is told makes room; if none is told yet, the oldest
 * is dropped.
 *
 *         (new) ──► WAITING ──next()──► SENDING ──sent──► TOLD ──again──► WAITING
 *                      ▲                   │
 *                      └──────failed───────┘   lost: the server has it no more, so it is new once more
 *                                              refused, given up: forgotten, and dropped
 *
 * One that failed waits for its next turn while others have theirs; when it is given up says kube/event_tries.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"
#include "kube/event_tries.h"

#define EVENT_MESSAGE_MAX ((size_t)1024) /* of events.k8s.io/v1 ("note"); longer ones end in "…" */
#define EVENT_QUEUE_MAX ((size_t)128)
#define EVENT_WINDOW_MS (INT64_C(50) * 60 * 1000)

/* Tokens: how many there may be, and how long one takes to come. */
#define EVENT_OBJECT_BURST 25U
#define EVENT_OBJECT_REFILL_MS (INT64_C(300) * 1000)
#define EVENT_TOTAL_BURST 100U
#define EVENT_TOTAL_REFILL_MS (INT64_C(6) * 1000)

/* What an event is about. Strings; NULL and "" are the same. */
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

/* What to send. Valid until the book is told of it. */
struct event_entry {
        struct event event; /* the book's own copy */
        char name[254];     /* of the Event object: the object's, and the time of its first */
        unsigned int count; /* with this */
        int64_t first_ms;   /* since the epoch */
        int64_t last_ms;
        bool is_new; /* create; else patch count and last */
};

struct event_queue;

struct event_queue *event_queue_new(uint64_t retry_ms); /* for tests, after each failure; 0: kube/event_tries.h */
struct event_queue *event_queue_free(struct event_queue *queue); /* accepts NULL, returns NULL */

/*
 * Something happened. |now_ms|: milliseconds since the epoch; a clock that goes back costs nothing but tokens that come later.
 * True: there is something new to send.
 */
bool event_queue_add(struct event_queue *queue, const struct event *event, int64_t now_ms);

/*
 * The next to send: the one whose turn came first, of new ones the oldest. NULL: none now, but perhaps after |*ret_wait_ms|; UINT64_MAX: not
 * before something else happens, since nothing waits, or one is on its way. |clock_ms| is of a clock that only goes forward.
 */
const struct event_entry *event_queue_next(struct event_queue *queue, uint64_t clock_ms, uint64_t *ret_wait_ms);

/* The one that event_queue_next() gave has failed so often that with one failure more it is given up. */
bool event_queue_is_last_try(const struct event_queue *queue);

/* What became of it. |failure| counts with EVENT_FAILED only. */
enum event_outcome {
        EVENT_SENT,
        EVENT_FAILED,  /* it waits on: to be sent again */
        EVENT_LOST,    /* a patch of what the server has no more: to be created anew */
        EVENT_REFUSED, /* no use trying again */
        EVENT_GIVEN_UP,
};
void event_queue_settle(struct event_queue *queue, enum event_outcome outcome, const struct event_failure *failure);

/* Nothing that failed waits to be sent again. */
bool event_queue_is_well(const struct event_queue *queue);

/* How many events nobody will ever see, for want of tokens, of room, or because they were refused or given up. */
uint64_t event_queue_dropped(const struct event_queue *queue);
