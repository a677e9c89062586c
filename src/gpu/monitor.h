/*
 * The thread that talks to NVML, and what is known by it: loads the library, reads the inventory, waits for events, probes what is unhealthy.
 *
 * NVML calls may block for seconds, and nvmlEventSetWait blocks by design, so none is ever made on the loop's thread. The
 * monitor owns the library and every handle; it shares nothing and speaks to the loop through a queue and uv_async. Its
 * states:
 *
 *         SEARCHING ──(library loads, nvmlInit succeeds, at least one GPU)──► WATCHING ◄─┐
 *             ▲                                                                │  │      │ (another driver or GPU:
 *             └────────────(no GPU left, library failing for good)─────────────┘  └──────┘  closed and opened)
 *
 * In SEARCHING it tries again with a capped back-off and reports each *change* of the reason; zero GPUs is an inventory, not
 * a reason, and searched on. In WATCHING it waits for Xid events, probes the units that are not healthy, follows changes of
 * MIG devices, and reads everything again, and probes it, every |refresh_ms| for what no event tells. A GPU seen for the first
 * time is probed, so that a restart makes none healthy that waits for its reset, as far as the driver says so (not when the policy
 * disables all checks). The policy of what
 * an event means for a GPU's health, and when a GPU may return, is pure and lives in gpu/health.h.
 *
 * A driver that goes while the GPUs are known makes all units unhealthy, and they are back with it. A driver that was replaced
 * is noticed by its files and by the kernel's device events, which also tell of GPUs that come and go; where those cannot be
 * had, within |refresh_ms|. On WSL and Tegra the inventory is told, and that is all.
 *
 * A call may also never return. One that has lasted for |hang_ms| is told (on_hang), and if it is about one GPU, its thread is left alone
 * with it: another one goes on with the rest, and that GPU is unhealthy until the call has returned and its reading and probes are
 * good; one that hangs again and again is asked less and less often. If no thread can go on (the library cannot be opened, or one more hangs in the same place: gpu/hangs.h), what is known stays, and
 * rescans are answered with it. Events that came meanwhile are not lost, unless it is the wait for them that hangs: then those in its
 * event set are. The threads are in gpu/monitor_worker.h.
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

struct gpu_monitor;

struct gpu_hang {
        struct call_info call;
        bool is_waited_for; /* no thread can go on without it: nothing is heard of any GPU */
};

#define GPU_MONITOR_MAX_HANGS (HANGS_MAX + 1)

struct gpu_monitor_options {
        const char *library;                /* "": found by the driver root, see nvml_locate() */
        struct gpu_paths paths;             /* copied */
        enum platform_choice discovery;     /* what kind of machine this is, or that it is found out */
        platform_load_fn *can_load;         /* for tests; NULL: platform_can_load() */
        uint64_t retry_ms;                  /* first retry in SEARCHING; 0: 1,000; doubles up to 30 s */
        uint64_t probe_ms;                  /* between probes of an unhealthy GPU; 0: 1,000 */
        uint64_t refresh_ms;                /* between readings of the inventory while nothing happens; 0: 30,000 */
        uint64_t wait_ms;                   /* of one wait for events: how prompt it answers and closes; 0: 1,000 */
        uint64_t empty_ms;                  /* for which GPUs that are all gone stay, unhealthy; 0: 60,000 */
        uint64_t unheard_ms;                /* of failing waits until no GPU is healthy any more; 0: 120,000 */
        uint64_t hang_ms;                   /* of a call until it is said to hang; 0: 10,000 */
        uint64_t hang_pause_ms;             /* before a GPU is asked again that hung again; 0: 30,000; doubles */
        const struct health_policy *policy; /* copied; NULL: every Xid but those of applications counts */

        /* All are called on the loop's thread. */

        /* A new inventory, for the receiver to keep and free. The first one, and whenever it differs from the last one,
         * after on_unavailable, and as the answer to rescans, changed or not (several at once may get one answer). Zero GPUs
         * is a valid inventory. While a call hangs, a rescan may be answered with the last one. */
        void (*on_inventory)(struct inventory *inventory, void *data);

        /*
         * NVML cannot be used; the text is a sentence for people. Repeated only when it changes, and after the inventory of a
         * rescan that failed. If there is an inventory, it stays, and on_health says of all its units that they are unhealthy,
         * for the first reason, before this is called.
         */
        void (*on_unavailable)(const char *reason, void *data);

        /* One GPU's health changed (both ways), or that of one MIG device: |uuid| names the GPU or the MIG device. A GPU's
         * setback is told of its MIG devices too, one by one. Comes after the inventory that has it; every inventory is
         * followed, in the same turn of the loop, by all that are unhealthy, and those not heard of are healthy. |xid| is the
         * one that is the reason, or 0. */
        void (*on_health)(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);

        /*
         * Waiting for health events fails, and no single GPU is to blame: |reason| says why; NULL: events arrive again. Told
         * after some seconds of it, once. After |unheard_ms| the GPUs are unhealthy as well. NULL: not wanted.
         */
        void (*on_unheard)(const char *reason, void *data);

        /*
         * A call into the driver hangs, or one of which that was told has returned. A GPU's health is told besides. It is no
         * on_unavailable: NVML has said nothing. NULL: not wanted.
         */
        void (*on_hang)(const struct gpu_hang *hang, bool has_returned, void *data);

        /*
         * The driver was replaced, but the dynamic linker keeps the old library in this process, so that only another process
         * can use the new one: exec again. The inventory stays until then; told once for each driver. NULL: not wanted.
         */
        void (*on_stale_library)(void *data);

        void *data;
};

/* Starts the thread. */
int gpu_monitor_new(struct gpu_monitor **ret, uv_loop_t *loop, const struct gpu_monitor_options *options,
        struct error *err) MUST_USE;

/* Reads the inventory again soon (within |wait_ms|: a wait for events cannot be interrupted). In SEARCHING it makes the
 * monitor try again at once; if that fails, the last inventory is told again, all unhealthy. */
void gpu_monitor_rescan(struct gpu_monitor *monitor);

/* From the next event or probe on (within about a second). What is unhealthy stays so until its probes are good. */
void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy);

/* How many waits for health events failed so far. */
uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor);

/* The calls that hang now; how many. */
size_t gpu_monitor_hangs(const struct gpu_monitor *monitor, struct gpu_hang ret[GPU_MONITOR_MAX_HANGS]);

/* Something happened on the machine: like a rescan that is not answered if nothing changed. */
void gpu_monitor_poll(struct gpu_monitor *monitor);

/*
 * Asks the thread to end and returns at once; no callback but |closed| comes any more. |closed| is called on the loop's
 * thread when the thread has ended, within about a second; or without that when it is inside a call that hangs, within |hang_ms|. Then,
 * and where gpu_monitor_hangs() is not 0, threads stay behind inside the driver's library, and the process should leave by _exit().
 * May be called from a callback of the monitor.
 */
void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data);
