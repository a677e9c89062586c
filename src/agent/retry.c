#include "agent/retry.h"

void agent_retry_init(struct agent_retry *retry, uv_loop_t *loop, void *data)
{
        retry->backoff = (struct backoff){.least_ms = 1000, .most_ms = 60000};
        uv_timer_init(loop, &retry->timer);
        retry->timer.data = data;
}

void agent_retry_later(struct agent_retry *retry, uv_timer_cb callback)
{
        uv_timer_start(&retry->timer, callback, backoff_next(&retry->backoff, 0, (uint32_t)uv_hrtime()), 0);
}

void agent_retry_settle(struct agent_retry *retry)
{
        agent_retry_reset(retry);
        uv_timer_stop(&retry->timer);
}

void agent_retry_reset(struct agent_retry *retry)
{
        retry->backoff.failures = 0;
}

bool agent_retry_has_failed(const struct agent_retry *retry)
{
        return retry->backoff.failures > 0;
}

void agent_retry_close(struct agent_retry *retry)
{
        uv_close((uv_handle_t *)&retry->timer, NULL);
}
