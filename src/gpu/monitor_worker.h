/*
 * The thread of a monitor: runs a watch (gpu/watch.h), carries its mail, and takes requests. All that it touches is a block of its own
 * memory, which lives until both the thread and the loop have let go of it, because the thread may be inside a call that does not return
 * for hours: then the loop dismisses it, a successor goes on with what it knew, and the old thread ends whenever its call
 * returns.
 *
 *         RUNNING ──(stop)──────────────────────────────► ENDED
 *            └──(worker_dismiss())──► STUCK ──(the call returns, and its successor has the driver open)──► ENDED
 *
 * Everything here but the thread itself is called on the loop's thread.
 */
#pragma once

#include <uv.h>

#include "gpu/call_trace.h"
#include "gpu/hangs.h"
#include "gpu/mail.h"
#include "gpu/watch.h"

/* What the loop wants of the thread. Those not yet taken add up. */
struct worker_requests {
        bool stop; /* never taken back */
        bool rescan;
        bool poll;
        bool has_policy;
        bool has_skips;
        struct health_policy policy;
        struct skips skips;
};

struct worker_options {
        const struct watch_options *watch; /* copied, with its texts; the trace is the worker's own */
        uint64_t retry_ms;                 /* the first back-off of a search */
        uint64_t hang_ms;                  /* of a call, until it is said to hang */
        int timer;         /* of call_trace_init(), with |async| the caller's until worker_leave() or _join() */
        uv_async_t *async; /* sent when there is something to take */
};

struct worker;

/* The thread is there, and waits for worker_start(). */
int worker_new(struct worker **ret, const struct worker_options *options, struct error *err) MUST_USE;
void worker_start(struct worker *worker);

void worker_ask(struct worker *worker, const struct worker_requests *requests);

struct worker_news {
        struct mail mail;
        bool has_opened;   /* its first attempt to open the driver is over */
        bool has_returned; /* a call that worker_is_over() spoke of; told once */
        bool has_ended;
};
struct worker_news worker_take(struct worker *worker);

uint64_t worker_failed_waits(const struct worker *worker);

/* A call has lasted for too long; |ret| is it. */
bool worker_is_over(struct worker *worker, struct call_info *ret) MUST_USE;

/* |heir|, which has not begun, goes on instead. False: the call returned just now, and nothing was done. */
bool worker_dismiss(struct worker *worker, struct worker *heir, bool with_ears) MUST_USE;

/* Of one that is dismissed: the driver may be closed, since another thread has it open. */
void worker_let_close(struct worker *worker);

/* Lets go of a thread that may never end: it touches nothing of the caller's any more. */
void worker_leave(struct worker *worker);

/* After |has_ended|. */
void worker_join(struct worker *worker);
