// SPDX-License-Identifier: Apache-2.0
#include "base/io/loop.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/macro.h"

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

/* ---- closing ---- */

static void on_handle_closed(uv_handle_t *handle)
{
        closing_release(handle->data);
}

void closing_close(struct closing *closing, void *handle)
{
        uv_handle_t *base = handle;

        base->data = closing_hold(closing);
        uv_close(base, on_handle_closed);
}

struct closing *closing_hold(struct closing *closing)
{
        closing->n_open++;
        return closing;
}

void closing_release(void *data)
{
        struct closing *closing = data;

        assert(closing->n_open > 0);
        if (--closing->n_open == 0 && closing->closed)
                closing->closed(closing->data);
}

void closing_end(struct closing *closing, void (*closed)(void *data), void *data)
{
        closing->closed = closed;
        closing->data = data;
        closing_release(closing_hold(closing));
}

/* ---- deferred ---- */

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

/* ---- signals ---- */

static const int numbers[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT};

static void signals_mask(int how)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                sigaddset(&set, numbers[i]);
        sigprocmask(how, &set, NULL);
}

void signals_hold(void)
{
        signals_mask(SIG_BLOCK);
}

void signals_release(void)
{
        signals_mask(SIG_UNBLOCK);
}

int signals_listen(struct signals *signals, uv_loop_t *loop, uv_signal_cb on_signal, void *data, struct error *err)
{
        for (signals->count = 0; signals->count < ARRAY_SIZE(numbers);) {
                const int number = numbers[signals->count];
                uv_signal_t *handle = &signals->handles[signals->count];
                int rc = uv_signal_init(loop, handle);

                if (rc == 0) {
                        signals->count++;
                        handle->data = data;
                        rc = uv_signal_start(handle, on_signal, number);
                }
                if (rc < 0)
                        return error_errno(err, -rc, "listen to signal %d", number);
        }
        signals_release();
        return 0;
}

void signals_close(struct signals *signals)
{
        for (size_t i = 0; i < signals->count; i++)
                uv_close((uv_handle_t *)&signals->handles[i], NULL);
        signals->count = 0;
}

/* ---- trying again ---- */

void retry_init(struct retry *retry, uv_loop_t *loop, void *data)
{
        retry->backoff = (struct backoff){.least_ms = 1000, .most_ms = 60000};
        uv_timer_init(loop, &retry->timer);
        retry->timer.data = data;
}

void retry_later(struct retry *retry, uv_timer_cb callback)
{
        uv_timer_start(&retry->timer, callback, backoff_next(&retry->backoff, 0, (uint32_t)uv_hrtime()), 0);
}

void retry_settle(struct retry *retry)
{
        retry_reset(retry);
        uv_timer_stop(&retry->timer);
}

void retry_reset(struct retry *retry)
{
        retry->backoff.failures = 0;
}

bool retry_has_failed(const struct retry *retry)
{
        return retry->backoff.failures > 0;
}

void retry_close(struct retry *retry)
{
        uv_close((uv_handle_t *)&retry->timer, NULL);
}
