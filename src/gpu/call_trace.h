/*
 * What a thread is doing in the driver: which call, of which GPU, since when. The thread writes it around every call into NVML
 * (NVML_CALL in gpu/nvml.h does) and around what else can get stuck below it; another thread reads it and says when a call has lasted
 * for too long.
 *
 * Nobody has to wake up for that: a begun call arms a timer descriptor, and its end disarms it, so that it becomes readable only
 * when a call has gone over its time. That costs two system calls a call of NVML, which is an ioctl or more itself.
 *
 * A thread whose call does not return can be dismissed, which is only possible while it is inside the call: from then on it is told of
 * every further call that it must not be made, and so it comes to its end without touching a GPU. Until the call returns, the
 * thread is inside it, and what belongs to the thread may be read by who holds the lock (call_trace_dismiss()).
 *
 * Thread-safe. Knows neither NVML nor threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/macro.h"

#define CALL_LIMIT_MS 10000U

/* Whom a call asks. */
enum call_subject {
        CALL_ON_DRIVER, /* no GPU in particular */
        CALL_ON_GPU,
        CALL_ON_PAIR, /* two GPUs: either may be the one that does not answer */
        CALL_TO_OPEN, /* the library is loaded and initialised: another thread would wait as well */
};

#define CALL_NO_INDEX UINT32_MAX
#define CALL_GPU_SIZE 96U /* as NVML_DEVICE_UUID_V2_BUFFER_SIZE */

struct call_info {
        const char *call; /* "nvmlDeviceGetMemoryInfo": a constant */
        enum call_subject subject;
        unsigned int index;      /* of the GPU as NVML counts, or CALL_NO_INDEX */
        char gpu[CALL_GPU_SIZE]; /* its UUID; "": it has not told that yet */
        uint64_t since_ms;       /* CLOCK_MONOTONIC */
};

struct call_trace {
        uv_mutex_t lock;
        struct call_info info;
        uint64_t limit_ms; /* of a call that has no limit of its own */
        uint64_t due_ms;   /* when the call has lasted too long; 0: no call is running */
        int timer;         /* descriptor, or -1 */
        bool is_dismissed;
        bool is_reported; /* somebody waits to hear of the end of this call */
        void (*ended)(void *data);
        void *data;
};

/*
 * |timer|: a descriptor of timerfd_create(CLOCK_MONOTONIC), which stays the caller's and may serve one trace at a time; -1: nobody
 * looks. |limit_ms| 0: CALL_LIMIT_MS. |ended| is called on the thread, without the lock, when a call returns after call_trace_over() said that
 * it hangs, unless the thread was dismissed meanwhile.
 */
void call_trace_init(struct call_trace *trace, int timer, uint64_t limit_ms, void (*ended)(void *data), void *data);
void call_trace_done(struct call_trace *trace);

/* ---- the thread; |trace| may be NULL ---- */

/* Whom the calls from now on ask. |uuid| may be "" or NULL. */
void call_trace_ask(struct call_trace *trace, enum call_subject subject, unsigned int index, const char *uuid);

/* |extra_ms|: for how long the call waits by design. False: the thread is dismissed, and the call must not be made. */
bool call_trace_begin(struct call_trace *trace, const char *call, uint64_t extra_ms) MUST_USE;
void call_trace_end(struct call_trace *trace);

bool call_trace_is_dismissed(struct call_trace *trace);

/* ---- who looks ---- */

/* A call has lasted longer than it may, for |ret|. */
bool call_trace_over(struct call_trace *trace, struct call_info *ret) MUST_USE;

/*
 * If a call has lasted longer than it may: the thread is dismissed, and |inherit| is called, with the lock held, to read what is
 * the thread's, which stands still. The timer is not used any more. False: it returned just now.
 */
bool call_trace_dismiss(struct call_trace *trace, void (*inherit)(void *data), void *data) MUST_USE;

/* The timer is not used any more. */
void call_trace_forget_timer(struct call_trace *trace);

uint64_t call_trace_now_ms(void);
