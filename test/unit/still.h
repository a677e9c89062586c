// SPDX-License-Identifier: Apache-2.0
/*
 * A loop that stands still: time goes by where the test lets it, and what is due then is called. Nobody else sets the
 * time of a loop that does not run.
 */
#pragma once

#include <uv.h>

struct still_next {
        uv_timer_t *timer; /* NULL: none is due */
        uint64_t due;      /* in: within how much; out: in how much */
};

static inline void still_read_timer(uv_handle_t *handle, void *data)
{
        struct still_next *next = data;
        uv_timer_t *timer = (uv_timer_t *)handle;

        if (handle->type == UV_TIMER && uv_is_active(handle) && uv_timer_get_due_in(timer) <= next->due) {
                next->timer = timer;
                next->due = uv_timer_get_due_in(timer);
        }
}

/* The timer that is due next within |ms|. */
static inline struct still_next still_find(uv_loop_t *loop, uint64_t ms)
{
        struct still_next next = {.due = ms};

        uv_walk(loop, still_read_timer, &next);
        return next;
}

static inline void still_fire(uv_timer_t *timer)
{
        uv_timer_stop(timer);
        if (timer->repeat)
                uv_timer_again(timer);
        timer->timer_cb(timer);
}

static inline void still_pass(uv_loop_t *loop, uint64_t ms)
{
        for (struct still_next next; (next = still_find(loop, ms)).timer; ms -= next.due) {
                loop->time += next.due;
                still_fire(next.timer);
        }
        loop->time += ms;
}
