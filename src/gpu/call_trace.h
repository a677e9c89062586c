/*
 * Which driver call a thread is in, for which GPU, and since when. The thread records it around every NVML call
 * (NVML_CALL in gpu/nvml.h does so) and around other code that can block in the driver. Another thread reads it and
 * finds out when a call takes too long.
 *
 * No thread has to wake up for that: the start of a call arms a timer descriptor and its end disarms it, so the
 * descriptor becomes readable only when a call exceeds its time. This costs two system calls per NVML call, which is at
 * least one ioctl itself.
 *
 * A thread whose call does not return can be dismissed, but only while it is inside that call. From then on,
 * call_trace_begin() tells it not to make any further call, so it ends without touching a GPU. Until the call returns,
 * the holder of the lock may read data of the thread (call_trace_dismiss()).
 *
 * Thread-safe. It knows neither NVML nor threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/macro.h"
#include "gpu/call.h"

#define CALL_LIMIT_MS 10000U

struct call_trace {
        uv_mutex_t lock;
        struct call_info info;
        uint64_t limit_ms; /* of a call without a limit of its own */
        uint64_t due_ms;   /* the time when the call has taken too long; 0: no call is running */
        int timer;         /* timer descriptor, or -1 */
        bool waits;        /* the call is one that waits by design */
        bool is_dismissed;
        bool is_reported; /* call |ended| when this call returns */
        void (*ended)(void *data);
        void *data;
};

/*
 * |timer|: a descriptor of timerfd_create(CLOCK_MONOTONIC). The caller keeps it; it serves one trace at a time. -1:
 * nobody checks. |limit_ms| 0: CALL_LIMIT_MS. |ended| is called on the thread, without the lock, when a call returns
 * after call_trace_over() reported that it hangs, unless the thread was dismissed meanwhile.
 */
void call_trace_init(struct call_trace *trace, int timer, uint64_t limit_ms, void (*ended)(void *data), void *data);
void call_trace_done(struct call_trace *trace);

/* ---- the thread; |trace| may be NULL ---- */

/* Sets what the following calls are about. |uuid| may be "" or NULL. */
void call_trace_ask(struct call_trace *trace, enum call_subject subject, unsigned int index, const char *uuid);

/* |extra_ms|: how long the call waits by design. False: the thread is dismissed and must not make the call. */
bool call_trace_begin(struct call_trace *trace, const char *call, uint64_t extra_ms) MUST_USE;
void call_trace_end(struct call_trace *trace);

bool call_trace_is_dismissed(struct call_trace *trace);

/* ---- the observer ---- */

/* True if a call takes longer than it may; |ret| describes it. */
bool call_trace_over(struct call_trace *trace, struct call_info *ret) MUST_USE;

/* The thread is in a call that waits by design. */
bool call_trace_waits(struct call_trace *trace) MUST_USE;

/*
 * If a call takes longer than it may, dismisses the thread and calls |inherit|, with the lock held, to read the data of
 * the blocked thread. The timer is not used after that. False: the call has just returned.
 */
bool call_trace_dismiss(struct call_trace *trace, void (*inherit)(void *data), void *data) MUST_USE;

/* After this call the timer is not used any more. */
void call_trace_forget_timer(struct call_trace *trace);

uint64_t call_trace_now_ms(void);
