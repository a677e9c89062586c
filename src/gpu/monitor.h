// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps what is known of the GPUs of this node: reads the inventory, waits for events, probes unhealthy units, and
 * reports what has changed.
 *
 * All of it is on the loop; NVML is called by processes (gpu/nvml_pool.h, gpu/listener.h), which know nothing but what
 * they are asked. Its states:
 *
 *         SEARCHING ──(NVML can be read, there is at least one GPU)──► WATCHING ◄─┐
 *             ▲                                                         │  │      │ (another driver or GPU: its processes
 *             └────────────(no GPU left, library failing)───────────────┘  └──────┘  end, and others open NVML)
 *
 * In SEARCHING it tries again with a capped back-off and reports each *change* of the reason. Zero GPUs is reported as
 * an inventory, not as a reason, and the search continues. In WATCHING it receives Xid events, probes unhealthy units,
 * follows changes of MIG devices, and every |refresh_ms| reads and probes everything for changes without an event. A
 * GPU that is seen for the first time is probed, so that a GPU that needs a reset does not become healthy by a restart
 * of the agent, if the driver reports it (no probe if the policy disables all checks). gpu/health.h has the pure
 * policy: what an event means for a GPU's health, and when a GPU becomes healthy again.
 *
 * If the driver is unloaded while GPUs are known, all units become unhealthy until it is back. A replaced driver is
 * noticed by its files and by the kernel's device events, which also announce GPUs that come and go; without these
 * events, within |refresh_ms|. On WSL and Tegra only the inventory is reported.
 *
 * A GPU that holds up a reading of all for a second keeps that process for itself; another one reads the rest, and of
 * this GPU what was known stays. When it has answered, all are read again, and that reading waits for it.
 *
 * A call may also never return. One that has lasted for |hang_ms| is reported (on_hang) and its process is killed; if
 * it is about one GPU, that GPU is unhealthy, left out, and asked again alone, less and less often (gpu/hangs.h), until
 * it answers and its probes are good. Meanwhile events of all other GPUs arrive, and these are probed and read. A call
 * that crashes counts as one that hangs. If it is the driver as a whole that does not answer, what is known stays, and
 * rescans are answered with it.
 *
 * An idle monitor wakes for |refresh_ms| and |sample_ms| only; the process that waits for events wakes once in
 * |wait_ms|.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "gpu/hangs.h"
#include "gpu/health.h"
#include "gpu/inventory.h"
#include "gpu/platform.h"
#include "gpu/sample.h"

struct gpu_monitor;

struct gpu_hang {
        struct worker_call call;
        bool is_waited_for; /* it is the driver that does not answer: no news of any GPU */
};

#define GPU_MONITOR_MAX_HANGS HANGS_MAX

struct gpu_monitor_options {
        const char *library;                /* "": searched below the driver root, see nvml_locate() */
        struct gpu_paths paths;             /* copied */
        enum platform_choice discovery;     /* the kind of machine, or that it is to be detected */
        platform_load_fn *can_load;         /* for tests; NULL: platform_can_load() */
        uint64_t retry_ms;                  /* first retry in SEARCHING; 0: 1,000; doubles up to 30 s */
        uint64_t probe_ms;                  /* between probes of an unhealthy GPU; 0: 1,000 */
        uint64_t refresh_ms;                /* between readings of the inventory while nothing happens; 0: 30,000 */
        uint64_t wait_ms;                   /* of one wait for events, after which its process waits again; 0: 5,000 */
        uint64_t empty_ms;                  /* how long GPUs that are all gone stay, as unhealthy; 0: 60,000 */
        uint64_t unheard_ms;                /* how long waits may fail until all GPUs are unhealthy; 0: 120,000 */
        uint64_t sample_ms;                 /* between readings of what the units do; 0: none */
        uint64_t hang_ms;                   /* after which a call counts as hanging; 0: 10,000 */
        uint64_t hang_pause_ms;             /* before what hung is asked again; 0: 5,000; doubles */
        const struct health_policy *policy; /* copied; NULL: every Xid except those of applications counts */

        /* All are called from the loop. */

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
        /* Called with the same values after all on_health of one turn, for work that may wait. May be NULL. */
        void (*after_health)(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);

        /*
         * Waiting for health events fails, and no single GPU is the cause: |reason| says why. |reason| NULL: events
         * arrive again. Called once, after some seconds of failures. After |unheard_ms| the GPUs become unhealthy as
         * well. The callback may be NULL.
         */
        void (*on_unheard)(const char *reason, void *data);

        /*
         * Reports how the units are used, every |sample_ms| while NVML can be used. The receiver keeps and frees the
         * samples. May be NULL if |sample_ms| is 0.
         */
        void (*on_samples)(struct gpu_samples *samples, void *data);

        /*
         * A driver call hangs, or what hung has answered. The health of the GPU is reported
         * as well. on_unavailable is not called, since NVML has not reported an error. The callback may be NULL.
         */
        void (*on_hang)(const struct gpu_hang *hang, bool has_returned, void *data);

        void *data;
};

/* Begins with the first reading. */
struct gpu_monitor *gpu_monitor_new(uv_loop_t *loop, const struct gpu_monitor_options *options);

/* Reads the inventory at once. If that fails, it reports the last inventory again, with all units unhealthy. */
void gpu_monitor_rescan(struct gpu_monitor *monitor);

/*
 * Ends all processes that may have NVML open, so that a GPU can be reset, and begins none until gpu_monitor_resume().
 * What is known stays. What the driver reports meanwhile is lost, and rescans are answered afterwards. It is paused
 * when the processes have ended; one that hangs so that it cannot be killed keeps it from that. Both may be called
 * again.
 */
void gpu_monitor_pause(struct gpu_monitor *monitor);
bool gpu_monitor_is_paused(const struct gpu_monitor *monitor);
void gpu_monitor_resume(struct gpu_monitor *monitor);

/* Sets the policy, from the next event or probe on. Unhealthy units stay so until their probes are good. */
void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy);

/* How many waits for health events have failed so far. */
uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor);

/* Writes the calls that hang now; returns their number. */
size_t gpu_monitor_hangs(const struct gpu_monitor *monitor, struct gpu_hang ret[GPU_MONITOR_MAX_HANGS]);

/* A device event: reads the inventory again, but reports it only if it has changed. */
void gpu_monitor_poll(struct gpu_monitor *monitor);

/*
 * Ends at once: its processes are killed; only |closed| is called after this, in a later turn of the loop. May be
 * called from a callback of the monitor.
 */
void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data);
