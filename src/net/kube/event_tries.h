/*
 * Decides when an event that the API server did not accept is sent again, and when it is given up. Pure: the caller
 * passes time and random numbers.
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

#define EVENT_RETRY_MS UINT64_C(1000)
#define EVENT_RETRY_MAX_MS UINT64_C(60000)
#define EVENT_STRIKES 8U
#define EVENT_TRIES 1000U

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

/* Details of a failure; times are of a monotonic clock. */
struct event_failure {
        uint64_t now_ms;
        uint64_t retry_after_ms; /* the wait that the server asked for; 0: none */
        uint32_t random;
};

void event_tries_fail(struct event_tries *tries, struct event_server *server, const struct event_failure *failure);
void event_server_take(struct event_server *server);

/* True if the event is given up after one more failure. */
bool event_tries_are_last(const struct event_tries *tries, const struct event_server *server);

/* When it may be sent. */
uint64_t event_tries_due(const struct event_tries *tries, const struct event_server *server);
