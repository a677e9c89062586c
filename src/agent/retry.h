/* Tries again what has failed: after a second, then with a back-off of up to a minute. Embedded in its owner. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/clock.h"

struct agent_retry {
        uv_timer_t timer;
        struct backoff backoff;
};

/* |data|: of the timer that is passed to |callback| of agent_retry_later(). */
void agent_retry_init(struct agent_retry *retry, uv_loop_t *loop, void *data);
void agent_retry_later(struct agent_retry *retry, uv_timer_cb callback);
/* The attempt has succeeded, or is not needed any more. */
void agent_retry_settle(struct agent_retry *retry);
/* The next pause has the first length again; a running pause is not changed. */
void agent_retry_reset(struct agent_retry *retry);
bool agent_retry_has_failed(const struct agent_retry *retry);
void agent_retry_close(struct agent_retry *retry);
