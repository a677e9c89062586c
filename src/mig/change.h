// SPDX-License-Identifier: Apache-2.0
/*
 * Changes the MIG geometry of a node as a plan says, so that it ends as wanted or as before.
 *
 * Only what the plan lets go is destroyed, on the GPUs that the plan changes, and only if no process holds any of it.
 * Modes come first, then GPU by GPU what goes and what is made. Each step is in the record before it is taken
 * (mig/record.h). When a step fails, all steps are undone. Instances that another program has made since the plan are
 * left: they end the change, which is undone around them. A change that was interrupted is resumed; after a reboot,
 * when no instance is left, what was wanted is made again, or where that fails what was before.
 *
 * It calls the driver and blocks, and a call may hang: it is for a process that may be killed at any moment, never for
 * the agent's own.
 */
#pragma once

#include "gpu/nvml.h"
#include "base/io/lock.h"
#include "mig/plan.h"
#include "mig/record.h"

struct mig_change_options {
        const char *directory; /* of lock and record; made where it is missing */
        const char *library;   /* as for nvml_open() */
        const char *driver_root;
        const char *boot_id; /* of this boot */
        bool may_wait;       /* where a mode needs a reset: leaves it pending until a reboot */
        /*
         * Resets these GPUs, so that their modes become current. NVML is closed meanwhile, since no process may have
         * them open. NULL: not allowed. It is tried before a reboot is waited for.
         */
        int (*reset)(const char *const *uuids, size_t n_uuids, void *data, struct error *err);
        void (*report)(const char *step, void *data); /* what is done, when it was done; may be NULL */
        void *data;
};

struct mig_change {
        const struct mig_change_options *options;
        char *path; /* of the record */
        struct lock lock;
        struct nvml *nvml;
        struct arena arena;
        struct error reset_error; /* of a reset that was tried, where a mode waits for a reboot; ERROR_NONE: none was */
};

enum { MIG_CHANGE_BUSY = 1 };

/* MIG_CHANGE_BUSY: another process changes this node now. |options| outlive |ret|. */
int mig_change_open(struct mig_change *ret, const struct mig_change_options *options, struct error *err) MUST_USE;
void mig_change_close(struct mig_change *change);

enum mig_change_end {
        MIG_CHANGE_NONE,   /* there was nothing to do */
        MIG_CHANGE_DONE,   /* the geometry is as wanted */
        MIG_CHANGE_UNDONE, /* as before, as the record said; mig_change_resume() only */
        MIG_CHANGE_WAITS,  /* for a reboot; the record stays */
};

/* There is something to resume below |directory|: asked without NVML and without the lock. */
bool mig_change_is_recorded(const char *directory);

/*
 * Finishes what the record says, or undoes it; with |undoes| also where it waits for a reboot. -1: it could not be
 * finished and is undone; or it could be neither, then the error says so and the record stays.
 */
int mig_change_resume(struct mig_change *change, bool undoes, enum mig_change_end *ret, struct error *err) MUST_USE;

/*
 * Carries out |plan|, which fits and was made of what change->nvml reads, with no record left. |config| is its name.
 * -1: the geometry is as before; or, as the error says then, it could not be brought back, and the record stays.
 */
int mig_change_apply(struct mig_change *change, const struct mig_plan *plan, const char *config,
        enum mig_change_end *ret, struct error *err) MUST_USE;
