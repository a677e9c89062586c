/*
 * The one thread that talks to NVML: loads the library, reads the inventory, waits for events, probes what is unhealthy.
 *
 * NVML calls may block for seconds, and nvmlEventSetWait blocks by design, so none is ever made on the loop's thread. The
 * monitor owns the library and every handle; it shares nothing and speaks to the loop through a queue and uv_async. Its
 * states:
 *
 *         SEARCHING ──(library loads, nvmlInit succeeds, at least one GPU)──► WATCHING
 *             ▲                                                                  │
 *             └────────────(no GPU left, library failing for good)───────────────┘
 *
 * In SEARCHING it tries again with a capped back-off and reports each *change* of the reason. The policy of what an event
 * means for a GPU's health, and when a GPU may return, is pure and lives in gpu/health.h.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "gpu/inventory.h"

struct gpu_monitor;

struct gpu_monitor_options {
        const char *library; /* "": found by |driver_root|, see nvml_locate() */
        const char *driver_root;
        uint64_t retry_ms; /* first retry in SEARCHING; 0: 1,000; doubles up to 30 s */
        uint64_t probe_ms; /* between probes of an unhealthy GPU; 0: 1,000 */

        /* All are called on the loop's thread. */

        /* A new inventory, for the receiver to keep and free. The first one, and whenever it differs from the last one, and
         * as the answer to each rescan, changed or not. Zero GPUs is a valid inventory. */
        void (*on_inventory)(struct inventory *inventory, void *data);

        /* NVML cannot be used; the text is a sentence for people. Repeated only when it changes. */
        void (*on_unavailable)(const char *reason, void *data);

        /* One GPU's health changed (both ways), or that of one MIG device: |uuid| names the GPU or the MIG device. Comes after
         * the inventory that has it. */
        void (*on_health)(const char *uuid, bool healthy, const char *reason, void *data);

        void *data;
};

/* Starts the thread. */
int gpu_monitor_new(struct gpu_monitor **ret, uv_loop_t *loop, const struct gpu_monitor_options *options,
        struct error *err) MUST_USE;

/* Reads the inventory again soon (within about a second: a wait for events cannot be interrupted). */
void gpu_monitor_rescan(struct gpu_monitor *monitor);

/*
 * Asks the thread to end and returns at once. |closed| is called on the loop's thread when it has; a driver that hangs may
 * keep it from ever doing so, hence the owner's own deadline.
 */
void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data);
