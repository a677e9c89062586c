// SPDX-License-Identifier: Apache-2.0
/*
 * `warpshare mps` as a process: the lock of its root, the supervisor, the socket and the signals. The owner provides
 * the wanted daemons: from the socket, or from a plan of its own.
 *
 * <root>/.ready exists exactly while every wanted daemon is ready, and also if none is wanted.
 */
#pragma once

#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io/lock.h"
#include "base/io/loop.h"
#include "mps/supervisor/listener.h"
#include "mps/supervisor/supervisor.h"

struct metrics_http; /* net/metrics/http.h */

#define MPS_PROCESS_SHM "/proc/self/exe" /* each daemon has its own /dev/shm, if possible */

struct mps_process_options {
        /*
         * Loop, environment, |on_change| and |data| are set here; |root| is copied. |enter_shm|: MPS_PROCESS_SHM, or
         * NULL.
         */
        struct mps_supervisor_options supervisor;
        bool is_kept;         /* a parent starts it again: SIGALRM ends it when its loop stands still for a minute */
        const char *own_plan; /* mps/supervisor/listener.h */
        const char *metrics_address; /* net/metrics/http.h; NULL or "": no metrics */
        /* SIGHUP arrived. NULL: the state of every daemon is logged. */
        void (*on_hang_up)(void *data);
        /* The status of the daemons has changed, and the process does not stop. May be NULL. */
        void (*on_change)(void *data);
        /* The process stops: the owner closes its handles on the loop. May be NULL. */
        void (*on_stop)(void *data);
        void *data;
};

struct mps_process {
        uv_loop_t loop;
        struct mps_process_options options;
        char *root;
        struct arena arena; /* for the environment of daemons */
        struct lock lock;
        struct mps_supervisor *supervisor;
        struct mps_listener *listener;
        uv_timer_t logs_timer; /* at level debug: lines of the daemons' control.log go into our log */
        struct mps_process_log *logs;
        size_t n_logs;
        struct metrics_http *metrics;
        struct signals signals;
        uv_timer_t heartbeat;
        bool is_stopping;
        bool is_ready; /* .ready exists */
};

/* Copies |options|. After a failure only the memory of |process| is left. */
int mps_process_start(
        struct mps_process *process, const struct mps_process_options *options, struct error *err) MUST_USE;

/* Runs until a signal to stop; returns the exit status. */
int mps_process_run(struct mps_process *process);
