// SPDX-License-Identifier: Apache-2.0
/*
 * Makes sure that events of the GPUs arrive. All GPUs that can be are registered with a process that waits for events
 * (gpu/listener.h), and registered again when another GPU comes, when one becomes usable, or when that process is lost.
 *
 *     STOPPED ──(register)──► REGISTERING ──(registered)──► WAITING
 *       ▲                         │                           │  └─(register): another process takes over once it has
 *       └──(its process is lost)──┴───────────────────────────┘     registered; both run for a while: no event is lost
 *
 * A GPU that holds up the registration of all for half a second keeps that process for itself; another one registers
 * the rest. When the first one has registered all the same, it takes over.
 *
 * One lost GPU makes each wait fail, and the failure does not say which GPU it is: then all are probed with the next
 * reading (a sweep), and registered without the one that fails. If the waits fail although no GPU is the cause, that is
 * reported, and after |unheard_ms| the GPUs count as unhealthy.
 */
#pragma once

#include "gpu/known.h"
#include "gpu/listener.h"

#define HEARING_OVERLAP_EVENTS 32U

struct hearing_process;

struct hearing {
        struct gpu_known *known;
        uv_loop_t *loop;
        struct hearing_process *now;  /* NULL: none */
        struct hearing_process *next; /* registers */
        struct hearing_process *old;  /* runs until |overlap_until_ms|, so that no event is lost */
        struct list slow;             /* they register, and others did not wait for them */
        uint64_t overlap_until_ms;
        struct hearing_event {
                struct listener_event event;
                bool by_old;
        } seen[HEARING_OVERLAP_EVENTS]; /* reported by one of |now| and |old| so far */
        size_t n_seen;
        struct listener_gpu *gpus; /* as they were registered */
        size_t n_gpus;
        bool must_register;
        bool must_sweep;         /* the next reading is to probe all GPUs; the monitor clears it */
        bool events_lost;        /* for so long that all GPUs count as unhealthy */
        uint64_t register_at_ms; /* not before */
        uint64_t registered_ms;
        uint64_t sweep_at_ms; /* not before */
        uint64_t failed_waits;
        uint64_t failing_since_ms; /* the first failed wait in a row; 0: they do not fail */
        char problem[200];         /* why no events arrive, once that is reported; "": they arrive */
};

/* Registers all GPUs of the driver, until the inventory is known. */
void hearing_init(struct hearing *hearing, struct gpu_known *known, uv_loop_t *loop);

/*
 * Call it after each reading of the inventory; |is_news|: it has changed. Registers the GPUs that are not registered
 * yet.
 */
void hearing_update(struct hearing *hearing, bool is_news, uint64_t now_ms);

/*
 * Why a GPU that a probe found good is not: its events cannot arrive. |ret| is NULL if they can. False: that is not
 * known yet, and it is being registered. |is_forced|: it is not found out.
 */
bool hearing_find_problem(struct hearing *hearing, const char *uuid, bool is_forced, const char **ret);

static inline bool hearing_is_registering(const struct hearing *hearing)
{
        return hearing->next;
}

void hearing_begin_due(struct hearing *hearing, uint64_t now_ms);
uint64_t hearing_due_ms(const struct hearing *hearing); /* HEALTH_NEVER: nothing is */

/* No process is left that may have NVML open. */
bool hearing_has_ended(const struct hearing *hearing);

/* Ends all processes: no event arrives any more, until the next hearing_update(). */
void hearing_stop(struct hearing *hearing);
