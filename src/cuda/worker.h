/*
 * A child process for calls that may never return, and that may end the process: CUDA's. The child says which step it
 * begins; each step has its own deadline. What it finds out it leaves in memory that both share, so that a child which
 * hangs or dies has not worked for nothing.
 *
 * The child is a fork: it must not have been anything but one thread before.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct worker_step {
        const char *name; /* "cuInit" */
        uint64_t timeout_ms;
};

struct worker {
        int report; /* descriptor to which the child writes */
        void *shared;
};

struct worker_options {
        const struct worker_step *steps;
        unsigned int n_steps;
        size_t shared_size;
        void (*run)(struct worker *worker, void *data); /* in the child, which ends when it returns */
        void *data;
};

enum worker_end { WORKER_DONE, WORKER_HUNG, WORKER_DIED };

struct worker_result {
        enum worker_end end;
        unsigned int step; /* that it had begun last */
        int signal;        /* DIED: of which signal, 0 none */
        void *shared;      /* what the child left; to be given to worker_release() */
        size_t shared_size;
};

/* In the child: a step begins. */
void worker_begin(struct worker *worker, unsigned int step);

int worker_run(struct worker_result *ret, const struct worker_options *options, struct error *err) MUST_USE;
void worker_release(struct worker_result *result);
