// SPDX-License-Identifier: Apache-2.0
/*
 * Carries out what the MIG manager decides (mig/manager.h), as far as that is the same wherever it runs: `warpshare
 * mig` as child processes, since NVML may hang and they may be killed at any moment, the record of what is withdrawn,
 * and the timers. Its owner withdraws and releases the GPUs, takes them back, and reports the node's state.
 *
 *         run                                                  owner
 *     want(name) ──► planning: mig plan
 *                    waiting      ──changed──►   withdraws handover; event(UNHELD) when no pod holds any of it
 *                    releasing    ──changed──►   event(RELEASED)
 *                    applying: the record, then mig apply
 *                    retaking     ──changed──►   event(RETAKEN); from then on the handover is empty
 *                    rebooting    ──changed──►   reboots
 */
#pragma once

#include <uv.h>

#include "mig/manager.h"

#define MIG_RUN_RECORD_NAME "manager.json" /* in the state directory: what is withdrawn (mig/manager.h) */

#define MIG_PLAN_TIMEOUT_MS UINT64_C(120000)
#define MIG_APPLY_TIMEOUT_MS UINT64_C(900000)

struct mig_run;

/*
 * Options of `warpshare mig` by which a child reads NVML as its parent does. NULL-terminated, in |arena|; "": the
 * child's default.
 */
const char *const *mig_run_reading(struct arena *arena, const char *driver_root, const char *library);

/* Texts outlive the run. */
struct mig_run_options {
        uv_loop_t *loop;
        const char *program;         /* "/proc/self/exe"; "mig" is its first argument */
        const char *const *reading;  /* mig_run_reading() */
        const char *file;            /* the configurations; "": those that `warpshare mig` generates */
        const char *state_directory; /* of `warpshare mig apply`, and of the record */
        bool may_reboot;
        const char
                *mode_change; /* of `mig apply` and `apply --resume`; mig_run_set_mode_change() has the next apply's */
        /* Another phase began (or the same one again), or the state or its reason has changed. */
        void (*changed)(bool has_begun, void *data);
        void *data;
};

/* Reads the record. Nothing runs before mig_run_begin(). */
struct mig_run *mig_run_new(const struct mig_run_options *options);
void mig_run_begin(struct mig_run *run);

/* The label's value, or what counts without it; "": nothing is wanted. */
void mig_run_want(struct mig_run *run, const char *name);
/* The state that the label had when this process started. */
void mig_run_set_first_state(struct mig_run *run, enum mig_state state);

/*
 * How many GPUs the node has as its owner sees it. While NVML shows fewer to a plan than have ever been seen, the plan
 * has failed: an index means another GPU then, and one that is away would stay as it is. mig/manager.h has when the
 * next one is made; MIG_EVENT_AGAIN makes it at once. True: there are more than at the last look, the owner's or a
 * plan's.
 */
bool mig_run_note_gpus(struct mig_run *run, size_t n_gpus);

/* |reason|, or NULL, is copied; it counts for FAILED, and for what is waited for. */
void mig_run_event(struct mig_run *run, enum mig_event event, const char *reason);
/* Why it waits, in |waiting| and |releasing|; no event. */
void mig_run_explain(struct mig_run *run, const char *reason);

/*
 * --mode-change of the next `mig apply`, a text that lasts. |why|, copied, is part of the reason where the node has to
 * be rebooted; "": nothing is known.
 */
void mig_run_set_mode_change(struct mig_run *run, const char *mode_change, const char *why);

const struct mig_manager *mig_run_manager(const struct mig_run *run);
/* Returns what is withdrawn now; valid until the loop continues. */
const struct mig_handover *mig_run_handover(const struct mig_run *run);

/*
 * A running child is killed; the next process resumes the change. No callback after this. Accepts NULL, returns NULL.
 */
struct mig_run *mig_run_close(struct mig_run *run);
