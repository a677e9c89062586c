/*
 * When an event that the API server did not take is tried again, and when it is given up. Pure: time and chance are given.
 *
 * A failure says nothing of whose fault it is: of the server, which is away or ill, or of this one event, which some admission
 * webhook or a broken namespace will never let through. The others tell them apart. While the server takes none, nothing counts
 * against any of them, and the more different ones have failed, the longer it is left alone; so an outage loses nothing and makes no
 * storm. When it took another one between two failures of the same event, that is a strike against the event, and the strike
 * EVENT_STRIKES ends it: after one and a half to three minutes, since each event also waits longer from failure to failure.
 *
 * An event that is always alone gets no strikes, holds up nobody, and costs a request a minute; EVENT_TRIES end it after half a day.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EVENT_RETRY_MS UINT64_C(1000)
#define EVENT_RETRY_MAX_MS UINT64_C(60000)
#define EVENT_STRIKES 8U
#define EVENT_TRIES 1000U

/* What is known of the server. Zero at first, but for the first two. */
struct event_server {
        uint64_t least_ms;    /* of a wait: EVENT_RETRY_MS, or less in tests */
        uint64_t most_ms;     /* EVENT_RETRY_MAX_MS likewise */
        uint64_t taken;       /* events */
        unsigned int failing; /* different events since the last that it took */
        uint64_t due_ms;      /* until then nothing is sent */
};

/* One event's failures. Zero at first. */
struct event_tries {
        unsigned int failures;
        unsigned int strikes;
        uint64_t taken;  /* by the server until the last failure */
        uint64_t due_ms; /* until then it is not tried */
};

/* Of a failure; times are of a clock that only goes forward. */
struct event_failure {
        uint64_t now_ms;
        uint64_t retry_after_ms; /* that the server asked for; 0: nothing */
        uint32_t random;
};

void event_tries_fail(struct event_tries *tries, struct event_server *server, const struct event_failure *failure);
void event_server_take(struct event_server *server);

/* One failure more would be one too many. */
bool event_tries_are_last(const struct event_tries *tries, const struct event_server *server);

/* When it is its turn. */
uint64_t event_tries_due(const struct event_tries *tries, const struct event_server *server);
