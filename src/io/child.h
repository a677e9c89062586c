/*
 * A child process on the loop: what goes into its standard input, what comes out, how it ends, and by when. Built on
 * uv_spawn, which closes all descriptors but the three; those of ours are close-on-exec anyway.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

struct child;

struct child_result {
        int status;         /* exit status; -1: ended by a signal or never started */
        int signal;         /* that ended it, 0: none */
        bool timed_out;     /* the deadline passed, and it was killed */
        bool too_long;      /* it said more than |output_limit|, and was killed */
        const char *output; /* standard output and error together, terminated; valid in the call */
        size_t length;
};

struct child_options {
        const char *const *argv;        /* argv[0] is the path of the program */
        const char *const *environment; /* all of it, NULL-terminated */
        const char *input;              /* NULL: /dev/null */
        size_t input_length;
        size_t output_limit; /* 0: 64 KiB */
        uint64_t timeout_ms; /* 0: none */
        void (*on_end)(const struct child_result *result, void *data);
        void *data;
};

/* The error names the program: ERROR_NOT_FOUND, ERROR_DENIED. On success |on_end| is called once, from the loop. */
int child_run(struct child **ret, uv_loop_t *loop, const struct child_options *options, struct error *err) MUST_USE;
/* Kills it with SIGKILL; |on_end| is not called any more. */
void child_cancel(struct child *child);
