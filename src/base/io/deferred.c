#include "base/io/deferred.h"

#include "base/macro.h"

/*
 * An idle handle, not a timer of 0 ms: libuv runs such a timer, started in a callback of a timer, before timers that
 * are due as well, and one that starts itself again would keep the loop from ever reading a socket.
 */
static void on_deferred_idle(uv_idle_t *idle)
{
        struct deferred *deferred = container_of(idle, struct deferred, idle);

        uv_idle_stop(idle);
        deferred->run(deferred->data);
}

void deferred_init(struct deferred *deferred, uv_loop_t *loop, void (*run)(void *data), void *data)
{
        uv_idle_init(loop, &deferred->idle);
        deferred->run = run;
        deferred->data = data;
}

void deferred_schedule(struct deferred *deferred)
{
        if (!uv_is_closing((const uv_handle_t *)&deferred->idle)) /* libuv 1.44 would start it, other than a timer */
                uv_idle_start(&deferred->idle, on_deferred_idle);
}

bool deferred_is_scheduled(const struct deferred *deferred)
{
        return uv_is_active((const uv_handle_t *)&deferred->idle);
}

void deferred_flush(struct deferred *deferred)
{
        if (deferred_is_scheduled(deferred))
                on_deferred_idle(&deferred->idle);
}

void deferred_close(struct deferred *deferred, struct closing *closing)
{
        closing_close(closing, &deferred->idle);
}
