/*
 * The thread of a monitor: runs a watch (gpu/watch.h), delivers its mail, and takes requests. It uses only memory of
 * its own, which is freed when both the thread and the loop have released it, because the thread may be inside a call
 * that does not return for hours. Then the loop dismisses the thread, a successor goes on with its state, and the old
 * thread ends when its call returns.
 *
 *         RUNNING ◄──(pause)──► PAUSED: the driver is closed
 *            ├──(stop)──────────────────────────────────► ENDED
 *            └──(monitor_worker_dismiss())──► STUCK ──(the call returns, its successor has the driver open)──► ENDED
 *
 * All functions here are called on the loop's thread.
 */
#pragma once

#include <uv.h>

#include "gpu/call_trace.h"
#include "gpu/hangs.h"
#include "gpu/mail.h"
#include "gpu/watch.h"

/* Requests of the loop to the thread. Requests that are not taken yet add up. */
struct monitor_worker_requests {
        bool stop; /* never withdrawn */
        bool rescan;
        bool poll;
        bool has_policy;
        bool has_skips;
        bool has_pause;
        bool pause; /* stays until the next |has_pause| */
        struct health_policy policy;
        struct skips skips;
};

struct monitor_worker_options {
        const struct watch_options *watch; /* copied, with its texts; the worker has a trace of its own */
        uint64_t retry_ms;                 /* the first back-off of a search */
        uint64_t hang_ms;                  /* after which a call counts as hanging */
        int timer;                         /* for call_trace_init(). It and |async| stay the caller's until
                                            * monitor_worker_leave() or monitor_worker_join() */
        uv_async_t *async;                 /* sent when monitor_worker_take() has something to return */
};

struct monitor_worker;

/* Creates the thread, which waits for monitor_worker_start(). */
int monitor_worker_new(
        struct monitor_worker **ret, const struct monitor_worker_options *options, struct error *err) MUST_USE;
void monitor_worker_start(struct monitor_worker *worker);

void monitor_worker_ask(struct monitor_worker *worker, const struct monitor_worker_requests *requests);

struct monitor_worker_news {
        struct mail mail;
        bool has_opened;   /* its first attempt to open the driver is over */
        bool has_returned; /* a call that monitor_worker_is_over() reported; set once */
        bool has_ended;
        bool is_paused; /* the driver is closed, since that is asked for */
};
struct monitor_worker_news monitor_worker_take(struct monitor_worker *worker);

uint64_t monitor_worker_failed_waits(const struct monitor_worker *worker);

/* A call takes too long; |ret| describes it. */
bool monitor_worker_is_over(struct monitor_worker *worker, struct call_info *ret) MUST_USE;

/* It waits for events, in the driver's library. */
bool monitor_worker_waits(struct monitor_worker *worker) MUST_USE;

/*
 * |heir|, which has not started, continues in place of the worker. False: the call has just returned; nothing was done.
 */
bool monitor_worker_dismiss(struct monitor_worker *worker, struct monitor_worker *heir, bool with_ears) MUST_USE;

/* For a dismissed thread: it may close the driver, since another thread has it open. */
void monitor_worker_let_close(struct monitor_worker *worker);

/* Releases a thread that may never end: it does not use anything of the caller any more. */
void monitor_worker_leave(struct monitor_worker *worker);

/* After |has_ended|. */
void monitor_worker_join(struct monitor_worker *worker);
