/*
 * The MIG devices and GPUs that a change of the MIG geometry withdraws from users while it lasts: everything of each
 * GPU that changes, except the MIG devices that stay. It is read from the answer of `warpshare mig plan --output json`,
 * and kept on disk as that text, so that a process that starts in the middle of a change withdraws the same. Pure, but
 * for the file.
 *
 * Example: GPU-a has MIG-1 and MIG-2, and is to have MIG-1 and something larger. MIG-2 is withdrawn, and so is each MIG
 * device that appears on GPU-a before the change is complete, since the change may still be undone. MIG-1 is not
 * withdrawn, and nothing of GPU-b is, which stays as it is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

#define MIG_HANDOVER_TEXT_MAX ((size_t)256 * 1024)

struct mig_handover_gpu {
        const char *uuid;
        const char *const *stays; /* MIG devices; none if the mode changes only by a reset or a reboot */
        size_t n_stays;
};

struct mig_handover {
        struct arena arena; /* holds all of it */
        const char *config; /* name of the configuration */
        const char *text;   /* as it was read */
        bool fits;
        bool needs_reset;              /* of a GPU, so that its MIG mode changes */
        const char *reason;            /* why it does not fit; "": not said */
        struct mig_handover_gpu *gpus; /* those that change */
        size_t n_gpus;
        size_t n_seen; /* GPUs that NVML showed to the plan */
};

/*
 * |output| may have lines of a log before and after the JSON object, which begins a line. The handover is empty if it
 * fails.
 */
int mig_handover_read(struct mig_handover *ret, const char *output, struct error *err) MUST_USE;
void mig_handover_done(struct mig_handover *handover);

/* |unit| is the UUID of the GPU, or of a MIG device on it. */
bool mig_handover_takes(const struct mig_handover *handover, const char *gpu, const char *unit);
