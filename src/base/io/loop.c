#include "base/io/loop.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/io/closing.h"

/* Outlives the function that made it: libuv gives a handle back in a callback. */
struct look {
        uv_prepare_t prepare;
        uv_timer_t deadline;
        loop_condition_fn *is_true;
        void *data;
        bool is_late;
        struct closing closing;
};

/* Runs after the timers of a turn, and before the loop waits. */
static void on_prepare(uv_prepare_t *prepare)
{
        const struct look *look = container_of(prepare, struct look, prepare);

        if (look->is_late || look->is_true(look->data))
                uv_stop(prepare->loop);
}

static void on_loop_deadline(uv_timer_t *deadline)
{
        container_of(deadline, struct look, deadline)->is_late = true;
}

void loop_init(uv_loop_t *loop)
{
        int rc = uv_loop_init(loop);

        if (rc < 0) {
                fprintf(stderr, "cannot make an event loop: %s\n", uv_strerror(rc));
                exit(EXIT_FAILURE);
        }
}

bool loop_run_until(uv_loop_t *loop, loop_condition_fn *is_true, void *data, uint64_t timeout_ms)
{
        struct look *look;
        bool result = is_true(data);

        if (result)
                return true;
        look = xcalloc(1, sizeof(*look));
        look->is_true = is_true;
        look->data = data;
        uv_prepare_init(loop, &look->prepare);
        uv_timer_init(loop, &look->deadline);
        uv_prepare_start(&look->prepare, on_prepare);
        uv_update_time(loop); /* what the caller did meanwhile is not of the time */
        if (timeout_ms)
                uv_timer_start(&look->deadline, on_loop_deadline, timeout_ms, 0);
        while (!(result = is_true(data)) && !look->is_late)
                uv_run(loop, UV_RUN_ONCE);
        closing_close(&look->closing, &look->prepare);
        closing_close(&look->closing, &look->deadline);
        closing_end(&look->closing, free, look);
        return result;
}
