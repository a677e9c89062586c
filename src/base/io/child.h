// SPDX-License-Identifier: Apache-2.0
/*
 * A child process on the loop: what goes into its standard input, what comes out, how it ends, and by when.
 *
 * Nothing here waits: the input lies in the pipe before the child starts, so it cannot refuse it, and what it has said
 * when it ends is all that counts, so a grandchild that keeps the pipe open delays nothing. One that ends within
 * CHILD_BRIEF_MS wakes the loop once, by its end: what it says is not read as it comes, which may stop one that says
 * more than a pipe holds (64 KiB) for that long. The child leads a process group of its own, and what has to be killed
 * is killed with all of that. Descriptors of ours are close-on-exec; uv_spawn closes none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define CHILD_INPUT_MAX ((size_t)4096) /* what an empty pipe always takes */
#define CHILD_OUTPUT_MAX ((size_t)64 * 1024)
#define CHILD_BRIEF_MS UINT64_C(100)

struct child;

struct child_result {
        int status;         /* exit status; -1: ended by a signal, or killed by us */
        int signal;         /* that ended it, 0: none */
        bool timed_out;     /* the deadline passed, and it was killed */
        bool too_long;      /* it said more than |output_limit|, and was killed if it was still there */
        const char *output; /* standard output and error together, terminated; valid in the call */
        size_t length;
};

struct child_options {
        const char *const *argv;        /* argv[0] is the path of the program */
        const char *const *environment; /* all of it, NULL-terminated */
        const char *input;              /* at most CHILD_INPUT_MAX bytes; NULL: an empty one */
        size_t input_length;
        size_t output_limit; /* 0: CHILD_OUTPUT_MAX */
        uint64_t timeout_ms; /* 0: none */
        void (*on_end)(const struct child_result *result, void *data);
        void *data;
};

/*
 * The error names the program: ERROR_NOT_FOUND, ERROR_DENIED. On success |on_end| is called once, from the loop, and
 * |*ret| is valid until it returns. At the deadline it is called at once, even if the kernel takes its time to end the
 * process.
 */
int child_run(struct child **ret, uv_loop_t *loop, const struct child_options *options, struct error *err) MUST_USE;
/* Kills it with SIGKILL; |on_end| is not called any more. */
void child_cancel(struct child *child);

/* ---- spawn ---- */

/*
 * A program begins on the loop, in a session of its own. What comes of it is its caller's: base/io/child has one that
 * is to end soon, and mps/supervisor/launch one that outlives us.
 */

struct spawn_options {
        const char *const *argv;        /* NULL-terminated; argv[0] is the path of the program */
        const char *const *environment; /* all of it, NULL-terminated */
        int input;                      /* descriptor; -1: /dev/null */
        int output;                     /* for what it prints, and for its errors */
        uv_exit_cb exited;
};

/*
 * 0, or an error of libuv's; |process| is a handle that has to be closed in either case. The descriptors stay the
 * caller's.
 */
int spawn(uv_loop_t *loop, uv_process_t *process, const struct spawn_options *options);
