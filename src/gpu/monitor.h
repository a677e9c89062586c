/*
 * Owns the thread that talks to NVML: it loads the library, reads the inventory, waits for events and probes unhealthy
 * units.
 *
 * NVML calls may block for seconds, and nvmlEventSetWait blocks by design, so none is made on the loop's thread. The
 * monitor owns the library and every handle; it shares nothing, and sends to the loop through a queue and uv_async. Its
 * states:
 *
 *         SEARCHING ──(library loads, nvmlInit succeeds, at least one GPU)──► WATCHING ◄─┐
 *             ▲                                                                │  │      │ (another driver or GPU:
 *             └────────────(no GPU left, library failing for good)─────────────┘  └──────┘  closed and opened)
 *
 * In SEARCHING it tries again with a capped back-off and reports each *change* of the reason. Zero GPUs is reported as
 * an inventory, not as a reason, and the search goes on. In WATCHING it waits for Xid events, probes unhealthy units,
 * follows changes of MIG devices, and every |refresh_ms| reads and probes everything for changes without an event. A
 * GPU that is seen for the first time is probed, so that a GPU that needs a reset does not become healthy by a restart
 * of the agent, if the driver reports it (no probe if the policy disables all checks). gpu/health.h has the pure
 * policy: what an event means for a GPU's health, and when a GPU becomes healthy again.
 *
 * If the driver is unloaded while GPUs are known, all units become unhealthy until it is back. A replaced driver is
 * noticed by its files and by the kernel's device events, which also announce GPUs that come and go; without these
 * events, within |refresh_ms|. On WSL and Tegra only the inventory is reported.
 *
 * A call may also never return. One that has lasted for |hang_ms| is told (on_hang), and if it is about one GPU, its
 * thread is left alone with it: another one goes on with the rest, and that GPU is unhealthy until the call has
 * returned and its reading and probes are good; one that hangs again and again is asked less and less often. If no
 * thread can go on (the library cannot be opened, or one more hangs in the same place: gpu/hangs.h), what is known
 * stays, and rescans are answered with it. Events that came meanwhile are not lost, unless it is the wait for them that
 * hangs: then those in its event set are. The threads are in gpu/monitor_worker.h.
 *
 * An idle monitor wakes once in |wait_ms|, and the loop never.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "gpu/hangs.h"
#include "gpu/health.h"
#include "gpu/inventory.h"
#include "gpu/paths.h"
#include "gpu/platform.h"
#include "gpu/sample.h"

struct gpu_monitor;

struct gpu_hang {
        struct call_info call;
        bool is_waited_for; /* no thread can go on without it: no news of any GPU */
};

#define GPU_MONITOR_MAX_HANGS (HANGS_MAX + 1)

struct gpu_monitor_options {
        const char *library;                /* "": searched below the driver root, see nvml_locate() */
        struct gpu_paths paths;             /* copied */
        enum platform_choice discovery;     /* the kind of machine, or that it is to be detected */
        platform_load_fn *can_load;         /* for tests; NULL: platform_can_load() */
        uint64_t retry_ms;                  /* first retry in SEARCHING; 0: 1,000; doubles up to 30 s */
        uint64_t probe_ms;                  /* between probes of an unhealthy GPU; 0: 1,000 */
        uint64_t refresh_ms;                /* between readings of the inventory while nothing happens; 0: 30,000 */
        uint64_t wait_ms;                   /* of one wait for events; bounds how long a rescan or a close takes; 0:
                                             * 1,000 */
        uint64_t empty_ms;                  /* how long GPUs that are all gone stay, as unhealthy; 0: 60,000 */
        uint64_t unheard_ms;                /* how long waits may fail until all GPUs are unhealthy; 0: 120,000 */
        uint64_t sample_ms;                 /* between readings of what the units do; 0: none */
        uint64_t hang_ms;                   /* after which a call counts as hanging; 0: 10,000 */
        uint64_t hang_pause_ms;             /* before a GPU that hung again is asked; 0: 30,000; doubles */
        const struct health_policy *policy; /* copied; NULL: every Xid except those of applications counts */

        /* All are called on the loop's thread. */

        /*
         * A new inventory, for the receiver to keep and free. Called for the first inventory, whenever it differs from
         * the last one, after on_unavailable, and as the answer to rescans, even without a change (several rescans may
         * get one answer). Zero GPUs is a valid inventory. While a call hangs, the answer to a rescan may be the last
         * inventory.
         */
        void (*on_inventory)(struct inventory *inventory, void *data);

        /*
         * NVML cannot be used; the text is a sentence for people. Called again only when it changes, and after the
         * inventory of a rescan that failed. If there is an inventory, it stays; before this call, on_health reports
         * all its units as unhealthy, each with its first reason.
         */
        void (*on_unavailable)(const char *reason, void *data);

        /*
         * The health of a GPU or a MIG device has changed, in either direction; |uuid| names it. If a GPU becomes
         * unhealthy, its MIG devices are reported too, one by one. Called after the inventory that contains it: each
         * inventory is followed, in the same turn of the loop, by all unhealthy units; the others are healthy. |xid| is
         * the Xid that is the reason, or 0.
         */
        void (*on_health)(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
        /* The same again, after the last of those that have come together: for what may wait. May be NULL. */
        void (*after_health)(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);

        /*
         * Waiting for health events fails, and no single GPU is the cause: |reason| says why. |reason| NULL: events
         * arrive again. Called once, after some seconds of failures. After |unheard_ms| the GPUs become unhealthy as
         * well. The callback may be NULL.
         */
        void (*on_unheard)(const char *reason, void *data);

        /*
         * What the units do, every |sample_ms| while NVML can be used, for the receiver to keep and free. May be NULL
         * if |sample_ms| is 0.
         */
        void (*on_samples)(struct gpu_samples *samples, void *data);

        /*
         * A driver call hangs, or a call that was reported as hanging has returned. The health of the GPU is reported
         * as well. on_unavailable is not called, since NVML has not reported an error. The callback may be NULL.
         */
        void (*on_hang)(const struct gpu_hang *hang, bool has_returned, void *data);

        /*
         * The driver was replaced, but the dynamic linker keeps the old library in this process, so only a new process
         * can use the new one: execute the program again. Until then the inventory stays. Called once per driver. The
         * callback may be NULL.
         */
        void (*on_stale_library)(void *data);

        void *data;
};

/* Starts the thread. */
int gpu_monitor_new(struct gpu_monitor **ret, uv_loop_t *loop, const struct gpu_monitor_options *options,
        struct error *err) MUST_USE;

/*
 * Reads the inventory again soon (within |wait_ms|, since a wait for events cannot be interrupted). In SEARCHING the
 * monitor tries again at once; if that fails, it reports the last inventory again, with all units unhealthy.
 */
void gpu_monitor_rescan(struct gpu_monitor *monitor);

/*
 * Closes NVML within |wait_ms|, so that a GPU can be reset, and keeps it closed until gpu_monitor_resume(). What is
 * known stays, and nothing new is heard: what the driver reports meanwhile is lost, and rescans are answered
 * afterwards. It is paused when NVML is closed and no thread is inside the driver; while a call hangs that does not
 * come. Both may be called again.
 */
void gpu_monitor_pause(struct gpu_monitor *monitor);
bool gpu_monitor_is_paused(const struct gpu_monitor *monitor);
void gpu_monitor_resume(struct gpu_monitor *monitor);

/*
 * Sets the policy, from the next event or probe on (within about a second). Unhealthy units stay so until their probes
 * are good.
 */
void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy);

/* How many waits for health events have failed so far. */
uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor);

/* Writes the calls that hang now; returns their number. */
size_t gpu_monitor_hangs(const struct gpu_monitor *monitor, struct gpu_hang ret[GPU_MONITOR_MAX_HANGS]);

/* A device event: reads the inventory again, but reports it only if it has changed. */
void gpu_monitor_poll(struct gpu_monitor *monitor);

/*
 * Asks the thread to end and returns at once; only |closed| is called after this. |closed| is called on the loop's
 * thread when the thread has ended, within about a second. If the thread is inside a call that hangs, |closed| is
 * called within |hang_ms| without waiting for it. Then, and also if gpu_monitor_hangs() is not 0, threads stay inside
 * the driver's library, and the process should end with _exit(). May be called from a callback of the monitor.
 */
void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data);

/*
 * The same for a process that is about to end: a wait for events, which cannot be interrupted, is not waited for. True:
 * its thread stays inside the driver's library, and the process ends by gpu_monitor_exit().
 */
bool gpu_monitor_leave(struct gpu_monitor *monitor, void (*closed)(void *data), void *data) MUST_USE;

/* Ends the process without what libraries do at the end of one: the driver's has a thread in it. */
_Noreturn void gpu_monitor_exit(int status);
