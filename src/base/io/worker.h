// SPDX-License-Identifier: Apache-2.0
/*
 * A process of ours for what may never return: files that a tenant or a network serves, calls into NVIDIA's library.
 *
 * It is a fork of the program, on a socket, and answers one request after the other with a function of the caller's. It
 * has none of the program's other descriptors. A request without an answer at its deadline fails, its process is
 * killed, and the next request gets a new one. A process that does not end, since it waits for something that no signal
 * interrupts, is left behind and counted. The worker does not know what requests are about: its caller remembers what a
 * process hung on, and leaves that out.
 *
 * The process begins when the first request is asked, ends WORKER_IDLE_MS after the last, and at once when the program
 * does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "base/strbuf.h"

#define WORKER_MESSAGE_MAX ((size_t)128 * 1024) /* of a request: a longer one fails */
#define WORKER_ANSWER_MAX ((size_t)16 * 1024 * 1024)
#define WORKER_IDLE_MS UINT64_C(10000)
#define WORKER_END_MS UINT64_C(1000) /* a process that has not ended so long after it was killed is left behind */

struct worker;

#define WORKER_CALL_SIZE 64U

/*
 * The call that a process is in, or was in when it was lost. It lies in memory that the process shares with the
 * program: only numbers and texts, since the code in the process may write anything there. Copies have ended texts.
 */
struct worker_call {
        char call[WORKER_CALL_SIZE]; /* for people; "": between two calls, or the process reports none */
        uint64_t since_ms;    /* CLOCK_MONOTONIC: when it began, or when the last one ended; 0: nothing was reported */
        uint64_t extra_ms;    /* how long it waits by design */
        unsigned int times;   /* so many times the deadline is its own; 0: once */
        unsigned int subject; /* what it is about; the code that reports the step defines these three */
        unsigned int index;
        char name[96];
};

/*
 * In the process, the step that it shares with the program; elsewhere a step that is never read, so that code which
 * reports its steps runs anywhere.
 */
struct worker_call *worker_own_call(void);

/* In the process: an answer before the last one, for |news|. The program's end ends the process here. */
void worker_send_news(const void *news, size_t size);

/*
 * Runs in the process: appends the answer, at most WORKER_ANSWER_MAX bytes. |data| is as it was when the process
 * began. Both sides are the same program, so that structs may be sent as they are, without pointers. The loop must not
 * be used.
 */
typedef void worker_serve_fn(const void *message, size_t size, struct strbuf *answer, const void *data);

/* |name|: what the process is called, 15 characters at most. It stays the caller's, as does |data|. */
struct worker *worker_new(uv_loop_t *loop, const char *name, worker_serve_fn *serve, const void *data);
/* A process that has nothing to do ends after that time, and not after WORKER_IDLE_MS. */
void worker_set_idle(struct worker *worker, uint64_t idle_ms);
/*
 * Its processes have the program's descriptors, too, and may use loops of their own, which libuv needs some of them
 * for. Only for programs that hold no lock and no socket that must not outlive them.
 */
void worker_keep_descriptors(struct worker *worker);
/*
 * Ends its process; no request is answered any more. Accepts NULL, returns NULL. The loop has to turn until its handles
 * are closed.
 */
struct worker *worker_close(struct worker *worker);

/* The time that a deadline bounds. */
enum worker_patience {
        WORKER_EACH_STEP, /* from when the process begins with the request, or with its last step */
        WORKER_EACH_CALL, /* of each call that it reports, not of the time between two calls */
        WORKER_IN_ALL,    /* from when the process begins with the request */
};

/* The caller's until |done|, which is called from the loop, never inside worker_ask(), and may ask, cancel or close. */
struct worker_request {
        const void *message;
        size_t size;
        uint64_t deadline_ms; /* at least 1 */
        enum worker_patience patience;
        /*
         * |err| is NULL, or says what became of it: ERROR_TIMEOUT: it hung; ERROR_UNAVAILABLE: its process ended;
         * ERROR_EXHAUSTED: no process could be made. |answer| is valid in the call.
         */
        void (*done)(struct worker_request *request, const struct error *err, const void *answer, size_t size);
        /* Called for each message before the answer; NULL: they are ignored. It may ask, cancel or close, too. */
        void (*news)(struct worker_request *request, const void *news, size_t size);
        struct worker_call lost; /* for |done| with an error: what its process was in */
        struct list link;        /* private, as long as it is asked */
};
void worker_ask(struct worker *worker, struct worker_request *request);
/*
 * Begins its process now, if it has none, and not with the first request. A process keeps the memory that the program
 * had when it began: one that begins while the program is small stays small.
 */
void worker_begin(struct worker *worker);
/* |done| is not called any more. A process that is at it is ended. */
void worker_cancel(struct worker *worker, struct worker_request *request);

/* Ends the process, if it has nothing to do: the next request gets one that knows nothing of what this one read. */
void worker_renew(struct worker *worker);
/* The call that its process is in now. */
struct worker_call worker_current_call(const struct worker *worker);
/*
 * True if a process of this worker was killed a moment ago: it may not have ended yet, and may still work on its
 * request.
 */
bool worker_is_ending(const struct worker *worker);
/* True if the worker has no process, and all that it had have ended. */
bool worker_has_ended(const struct worker *worker);
/* True if a process of that name, of any worker, was killed and has not ended yet. */
bool worker_is_one_ending(const char *name);

/* A worker with a loop of its own, for programs that do one thing after the other. */
struct worker_alone {
        uv_loop_t loop;
        struct worker *worker;
        enum worker_patience patience; /* WORKER_EACH_STEP, unless it is set */
        /* For the last request that failed: its process's call, and the signal that has ended the process, or 0. */
        struct worker_call lost;
        int signal;
};
void worker_alone_begin(struct worker_alone *alone, const char *name, worker_serve_fn *serve, const void *data);
void worker_alone_end(struct worker_alone *alone);
/*
 * Waits for the answer, which is appended, with the news before it: with an error, these alone. Of news, what is more
 * than WORKER_ANSWER_MAX is dropped. Errors as above.
 */
int worker_alone_ask(struct worker_alone *alone, const void *message, size_t size, uint64_t deadline_ms,
        struct strbuf *answer, struct error *err) MUST_USE;

/*
 * Ends |loop|, on which workers were: what is closing closes, and a process that was killed and does not end is let go.
 * It stays counted.
 */
void worker_close_loop(uv_loop_t *loop);

/* Processes that were killed and have not ended, of all workers of the program. */
size_t worker_count_left(void);
/* Whether a process that was left behind is in a call about that; |ret| says what it is in, and may be NULL. */
bool worker_find_left(unsigned int subject, const char *name, struct worker_call *ret);
