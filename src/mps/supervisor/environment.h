// SPDX-License-Identifier: Apache-2.0
/*
 * Reads what processes of tenants say of themselves: variables of the environment with which a program started. The
 * tenant controls them, so a value is only a claim. Variables that the program itself sets or unsets later, before it
 * uses CUDA, are not visible.
 *
 * A tenant can also let a reader wait, by a process that holds the lock of its own memory while it waits for a file. So
 * a worker reads (base/io/worker.h), and the owner of a process on which it hung is left out for
 * ENVIRONMENT_LEFT_OUT_MS, with all processes of that pod, or of that user if the process belongs to no pod: their
 * environments are unknown, and no other process waits for them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "base/io/worker.h"

#define ENVIRONMENT_ALLOCATION "WARPSHARE_GRANT"
#define ENVIRONMENT_THREADS "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define ENVIRONMENT_DEADLINE_MS UINT64_C(1000)
#define ENVIRONMENT_LEFT_OUT_MS UINT64_C(60000)

struct environment {
        bool is_known;               /* it could be read: a variable that is not here was not set */
        unsigned int asked_permille; /* of ENVIRONMENT_THREADS; 0: no value that CUDA accepts */
        char allocation[65];         /* of ENVIRONMENT_ALLOCATION, if it has the right form; "": none */
};

/* May wait for ever. |root|: mps/supervisor/process.h. */
void environment_read(struct environment *ret, const char *root, pid_t pid, uint64_t start_time);

struct environments;

struct environment_question {
        struct environment_process {
                pid_t pid;
                uint64_t start_time;
        } process;
        const char *pod_uid; /* NULL: it is of no pod */
        uid_t uid;
        void (*done)(struct environment_question *question, const struct environment *environment);

        struct worker_request request; /* private, as the rest */
        struct environments *environments;
        struct list link;
};

struct environments *environments_new(uv_loop_t *loop, const char *root);
/* Nobody gets an answer any more. Accepts NULL, returns NULL. */
struct environments *environments_close(struct environments *environments);
/*
 * True: |done| is called once, later, from the loop, and may ask and cancel; until then the question is ours. False:
 * its owner is left out.
 */
bool environments_ask(struct environments *environments, struct environment_question *question) MUST_USE;
void environments_cancel(struct environment_question *question);
