#include "gpu/call_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/alloc.h"

uint64_t call_trace_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void call_trace_init(struct call_trace *trace, int timer, uint64_t limit_ms, void (*ended)(void *data), void *data)
{
        *trace = (struct call_trace){
                .timer = timer,
                .limit_ms = limit_ms ? limit_ms : CALL_LIMIT_MS,
                .ended = ended,
                .data = data,
        };
        if (uv_mutex_init(&trace->lock) < 0)
                alloc_fail(); /* of glibc */
}

void call_trace_done(struct call_trace *trace)
{
        uv_mutex_destroy(&trace->lock);
}

/* Called with the lock held. |ms| 0 disarms the timer. It cannot fail: the descriptor is ours and the time valid. */
static void call_trace_arm(const struct call_trace *trace, uint64_t due_ms)
{
        const struct itimerspec due = {
                .it_value = {.tv_sec = (time_t)(due_ms / 1000), .tv_nsec = (long)(due_ms % 1000) * 1000000}};

        if (trace->timer >= 0)
                (void)timerfd_settime(trace->timer, TFD_TIMER_ABSTIME, &due, NULL);
}

/* ---- the thread ---- */

void call_trace_ask(struct call_trace *trace, enum call_subject subject, unsigned int index, const char *uuid)
{
        gpu_call_about(subject, index, uuid);
        if (!trace)
                return;
        uv_mutex_lock(&trace->lock);
        trace->info.subject = subject;
        trace->info.index = index;
        snprintf(trace->info.gpu, sizeof(trace->info.gpu), "%s", uuid ? uuid : "");
        uv_mutex_unlock(&trace->lock);
}

bool call_trace_begin(struct call_trace *trace, const char *call, uint64_t extra_ms)
{
        bool is_dismissed;

        gpu_call_begin(call, extra_ms);
        if (!trace)
                return true;
        uv_mutex_lock(&trace->lock);
        is_dismissed = trace->is_dismissed;
        if (!is_dismissed) {
                trace->info.call = call;
                trace->info.since_ms = call_trace_now_ms();
                trace->due_ms = trace->info.since_ms + extra_ms + trace->limit_ms;
                trace->waits = extra_ms > 0;
                call_trace_arm(trace, trace->due_ms);
        }
        uv_mutex_unlock(&trace->lock);
        return !is_dismissed;
}

void call_trace_end(struct call_trace *trace)
{
        bool is_reported;

        gpu_call_end();
        if (!trace)
                return;
        uv_mutex_lock(&trace->lock);
        trace->due_ms = 0;
        trace->waits = false;
        call_trace_arm(trace, 0);
        is_reported = trace->is_reported;
        trace->is_reported = false;
        uv_mutex_unlock(&trace->lock);
        if (is_reported)
                trace->ended(trace->data);
}

bool call_trace_is_dismissed(struct call_trace *trace)
{
        bool is_dismissed;

        if (!trace)
                return false;
        uv_mutex_lock(&trace->lock);
        is_dismissed = trace->is_dismissed;
        uv_mutex_unlock(&trace->lock);
        return is_dismissed;
}

/* ---- the observer ---- */

static bool is_over(const struct call_trace *trace)
{
        return trace->due_ms && trace->due_ms <= call_trace_now_ms();
}

bool call_trace_over(struct call_trace *trace, struct call_info *ret)
{
        bool over;

        uv_mutex_lock(&trace->lock);
        over = is_over(trace);
        if (over) {
                *ret = trace->info;
                trace->is_reported = true;
        }
        uv_mutex_unlock(&trace->lock);
        return over;
}

bool call_trace_waits(struct call_trace *trace)
{
        bool waits;

        uv_mutex_lock(&trace->lock);
        waits = trace->waits;
        uv_mutex_unlock(&trace->lock);
        return waits;
}

bool call_trace_dismiss(struct call_trace *trace, void (*inherit)(void *data), void *data)
{
        bool over;

        uv_mutex_lock(&trace->lock);
        over = is_over(trace);
        if (over) {
                trace->is_dismissed = true;
                trace->is_reported = false;
                trace->timer = -1;
                inherit(data);
        }
        uv_mutex_unlock(&trace->lock);
        return over;
}

void call_trace_forget_timer(struct call_trace *trace)
{
        uv_mutex_lock(&trace->lock);
        trace->timer = -1;
        uv_mutex_unlock(&trace->lock);
}
