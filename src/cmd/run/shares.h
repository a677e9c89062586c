// SPDX-License-Identifier: Apache-2.0
/*
 * Records which program has which share of which unit, on a machine without Kubernetes where `warpshare mps
 * --standalone` shares the GPUs.
 *
 *         <MPS root>/units.json        the units, written by the supervisor for everybody to read
 *         <MPS root>/shares/           mode 1777; its lock (base/io/lock.h) is held while a program chooses
 *           <random>.json              one share, locked by the program that has it, for as long as it and its children
 *                                      run
 *
 * The kernel gives a lock back when the last process with the descriptor ends, however it ends. So no service is asked
 * for a share, none has to be given back, and a file without a lock means nothing. All users of the machine may take
 * shares: this keeps those apart who want to share, not those who want to harm, and nothing that runs as root reads the
 * folder. What holds a program to its share is MPS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io/lock.h"

#define RUN_UNITS_NAME "units.json"
#define RUN_SHARES_NAME "shares"
#define RUN_UNITS_MAX ((size_t)1024)
#define RUN_SHARES_MAX ((size_t)16384) /* files looked at; more are an error */
#define RUN_LOCK_MS 10000U

struct run_unit {
        const char *uuid;
        const char *index; /* "0", "0:1" */
        const char *name;
        const char *daemon;         /* directory below the MPS root */
        bool is_ready;              /* its daemon answers, so that MPS holds programs to their shares */
        const char *problem;        /* why it is not ready, as the supervisor has said; NULL: it has not */
        uint64_t memory_bytes;      /* that NVML reports; 0: unknown */
        uint64_t memory_mib;        /* for shares; 0: unknown */
        uint64_t most_mib;          /* of one client, as the daemon allows it; 0: no limit */
        unsigned int most_permille; /* of the threads, likewise */
};

struct run_units {
        struct run_unit *units;
        size_t n_units;
};

struct run_share {
        const char *unit; /* UUID; of a request: UUID or index; NULL: any */
        unsigned int threads_permille;
        uint64_t memory_mib; /* of a request 0: as many permille of the unit's memory as threads */
        pid_t pid;
        uid_t uid;
        const char *program;
};

/* ---- pure ---- */

/* The memory that |request| means on |unit|, in MiB. */
uint64_t run_memory_mib(const struct run_unit *unit, const struct run_share *request);

/*
 * The unit with room for |request| that has the least left, so that a large share finds room later. NULL: none has, or
 * the named one is not there; |err| says what is left of each. ERROR_EXHAUSTED: there may be room later.
 */
const struct run_unit *run_choose(const struct run_units *units, const struct run_share *held, size_t n_held,
        const struct run_share *request, struct error *err);

/* The sum of all shares that are held of |unit|. */
void run_sum(const struct run_unit *unit, const struct run_share *held, size_t n_held, unsigned int *ret_permille,
        uint64_t *ret_mib);

/* ---- files ---- */

/* A program without a daemon would run without limits: |is_ready| is looked at now. */
int run_units_read(struct run_units *ret, struct arena *arena, const char *root, struct error *err) MUST_USE;
/* For the supervisor: makes the folder of the shares, too. */
int run_units_write(const struct run_units *units, const char *root, struct error *err) MUST_USE;

/* Waits for the program that chooses now. */
int run_shares_lock(struct lock *lock, const char *root, struct error *err) MUST_USE;
/*
 * Reads the shares that are held now. Files that no process holds are removed meanwhile, as far as we may. The lock is
 * held.
 */
int run_shares_read(
        const struct run_share **ret, size_t *ret_n, struct arena *arena, const char *root, struct error *err) MUST_USE;
/* Holds |share| for this process and those that it starts; |ret_fd| survives exec(). The lock is held. */
int run_shares_hold(int *ret_fd, const char *root, const struct run_share *share, struct error *err) MUST_USE;
