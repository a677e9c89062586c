// SPDX-License-Identifier: Apache-2.0
/*
 * The knowledge about the GPUs of this node: the inventory, the health of its units, the calls that hang. The monitor
 * (gpu/monitor.h) owns it; the objects that ask about GPUs work on it, each for its purpose:
 *
 *   trials    whether a GPU that hung answers again
 *   prober    whether a GPU can be used
 *   hearing   events
 *   sampler   what the units do
 */
#pragma once

#include "gpu/monitor.h"
#include "gpu/nvml_pool.h"
#include "gpu/units.h"

struct listener_event;

struct gpu_known {
        const struct gpu_monitor_options *options; /* without 0 for defaults */
        struct health_policy policy;
        struct nvml_pool *pool;
        struct inventory *inventory; /* the last one read, completed with earlier knowledge; NULL: none yet */
        struct units units;
        struct hangs hangs;
        bool is_open; /* the last reading was good */
        bool is_closing;
        uint64_t refresh_at_ms; /* when the inventory is read next */

        /* The monitor does what is due now, and arranges to be called when something will be. */
        void (*turn)(struct gpu_known *known);
        /* Reports the units whose health has changed; |all|: all that are unhealthy. */
        void (*report_news)(struct gpu_known *known, bool all);
        void (*on_event)(struct gpu_known *known, const struct listener_event *event);
        /* No call can succeed with this library and driver. */
        void (*on_fatal)(struct gpu_known *known, const char *reason);
};

/* The group of that GPU; NULL: there is none. |ret_gpu| may be NULL. */
struct unit_group *gpu_known_find_group(const struct gpu_known *known, const char *uuid, const struct gpu **ret_gpu);
/* NULL: no call about it hangs. */
struct hang *gpu_known_find_hang(struct gpu_known *known, const struct gpu *gpu);

/* Adopts |fresh|. True if it differs from the previous one. */
bool gpu_known_keep(struct gpu_known *known, struct inventory *fresh);

/* A request failed because its process hung or crashed in |lost|. False: |err| is NULL, or says another reason. */
bool gpu_known_note_lost(struct gpu_known *known, const struct worker_call *lost, const struct error *err);
/* The driver answers again, or the GPU, or pairs of them. */
void gpu_known_end_hang(struct gpu_known *known, struct hang *hang);

/* Has the inventory read at that time, or before. */
void gpu_known_read_by(struct gpu_known *known, uint64_t at_ms);
/* Has the inventory read at once, by a process that opens NVML again. */
void gpu_known_reopen(struct gpu_known *known);

/* ---- trials ---- */

/*
 * Asks again about what hung: reads one GPU, or the links between all GPUs, in a process for which no other request
 * waits. The driver as a whole is asked again by the next reading of the inventory.
 */

struct trials {
        struct gpu_known *known;
        struct list list;
};

void trials_init(struct trials *trials, struct gpu_known *known);
void trials_begin_due(struct trials *trials, uint64_t now_ms);
uint64_t trials_due_ms(const struct trials *trials); /* HEALTH_NEVER: nothing is */
void trials_cancel(struct trials *trials);
