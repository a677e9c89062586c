#include "net/kube/event_tries.h"

#include "base/macro.h"
#include "base/clock.h"

static uint64_t wait_after(const struct event_server *server, unsigned int failures, uint64_t asked_ms, uint32_t random)
{
        struct backoff backoff = {.least_ms = server->least_ms, .most_ms = server->most_ms, .failures = failures};

        return backoff_next(&backoff, asked_ms, random);
}

/* The server works but did not accept this event. */
static bool is_strike(const struct event_tries *tries, const struct event_server *server)
{
        return tries->failures > 0 && tries->taken != server->taken;
}

void event_tries_fail(struct event_tries *tries, struct event_server *server, const struct event_failure *failure)
{
        bool strikes = is_strike(tries, server);

        if (strikes || tries->failures == 0)
                server->failing++; /* otherwise it was counted at its first failure */
        server->due_ms =
                failure->now_ms + wait_after(server, server->failing - 1, failure->retry_after_ms, failure->random);
        tries->due_ms = failure->now_ms + wait_after(server, tries->failures, 0, failure->random);
        tries->strikes += strikes;
        tries->failures++;
        tries->taken = server->taken;
}

void event_server_take(struct event_server *server)
{
        server->taken++;
        server->failing = 0;
        server->due_ms = 0;
}

bool event_tries_are_last(const struct event_tries *tries, const struct event_server *server)
{
        return tries->strikes + is_strike(tries, server) >= EVENT_STRIKES || tries->failures + 1 >= EVENT_TRIES;
}

uint64_t event_tries_due(const struct event_tries *tries, const struct event_server *server)
{
        return MAX(tries->due_ms, server->due_ms);
}
