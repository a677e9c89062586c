/*
 * `warpshare mps` as a process: the lock of its root, the supervisor, the socket and the signals. Where the wanted daemons come from is its owner's matter: the socket, or a plan of the owner's own.
 *
 * <root>/.ready is there exactly while every wanted daemon is ready, and also when none is wanted.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "io/lock.h"
#include "io/signals.h"
#include "mps/supervisor/listener.h"
#include "mps/supervisor/supervisor.h"

struct metrics_http; /* metrics/http.h */
struct mps_echo;     /* cmd/mps/echo.h */

struct mps_process_options {
        const char *root;
        const char *control;
        const char *driver_root;
        const char *system_root; /* /proc of clients is below it; NULL or "": the root */
        const char *nvml_library;
        bool has_own_shm; /* each daemon, where that can be: mps/supervisor/supervisor.h */
        uint64_t shm_kib; /* 0: by the machine's memory */
        bool sets_compute_mode;
        uint64_t grace_ms;
        const char *own_plan;        /* mps/supervisor/listener.h */
        const char *metrics_address; /* metrics/http.h; NULL or "": no metrics */
        /* SIGHUP came. NULL: the log tells how every daemon is. */
        void (*on_hang_up)(void *data);
        /* It is about to stop: whatever the owner has on the loop is to be closed. May be NULL. */
        void (*on_stop)(void *data);
        void *data;
};

struct mps_process {
        uv_loop_t loop;
        struct mps_process_options options;
        char *root;
        struct lock lock;
        struct mps_supervisor *supervisor;
        struct mps_listener *listener;
        struct mps_echo *echo;
        struct metrics_http *metrics;
        struct signals signals;
        uv_timer_t deadline; /* for what the owner has on the loop, when all else is closed */
        bool is_stopping;
        bool is_ready;       /* .ready is there */
        bool leaves_threads; /* inside a driver that hangs: mps_process_run() does not return, but ends the process */
};

/* Copies |options|. On failure nothing is left but the memory of |process|. */
int mps_process_start(
        struct mps_process *process, const struct mps_process_options *options, struct error *err) MUST_USE;

/* Until it was told to stop; the exit status. */
int mps_process_run(struct mps_process *process);
