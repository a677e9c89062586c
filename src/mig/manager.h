// SPDX-License-Identifier: Apache-2.0
/*
 * The MIG manager: brings a node to the MIG configuration that its label names. It decides the next phase, and is pure:
 * events in, a phase out, no process, no clock, no API. agent/mig.h carries the phases out inside the agent,
 * cmd/nvidia/mig_manager.c beside NVIDIA's components.
 *
 *   idle ───WANT, AGAIN──► planning ──SAME──► idle: success
 *     ▲                       │ CHANGES: pending
 *     │                       ▼
 *     │                    waiting ◄────HELD────┐     what has to end is withdrawn, so no new container gets it; who holds it keeps it
 *     │                       └───UNHELD───► releasing   MPS daemons end, and other users of the GPUs close them
 *     │                                         │ RELEASED
 *     │                                         ▼
 *     │                                      applying ──NEEDS_REBOOT, if that is allowed──► rebooting
 *     │                                         │ APPLIED, FAILED
 *     │      success                            ▼
 *     └─────────────────RETAKEN───────────── retaking   the GPUs are read again, and offered as they are now
 *                          │ failed                 ▲
 *                          ▼                        └── FAILED in any phase from waiting on; also if the label is removed meanwhile
 *                       failed ──TIMEOUT (30 s, doubled to 10 min), WANT, AGAIN──► planning
 *
 * A process that starts begins with |resuming|: what another one had begun is finished or undone, before anything else;
 * so is a change that hung and was killed, since it is not known how far it came (BROKEN). If that fails it is tried
 * again, and the GPUs concerned stay withdrawn. Then it continues with |retaking|.
 *
 * Until |applying| nothing has been touched, so another label value starts over with |planning|, and no value gives
 * everything back. From |applying| on the change is carried through; only the newest value, and the newest
 * configurations (AGAIN), count afterwards. A change whose plan fails is tried again too, since the file or the GPUs
 * may be right by then; not so one that needs a reboot, which would interrupt the users of the GPUs for nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define MIG_CONFIG_LABEL "nvidia.com/mig.config"
#define MIG_STATE_LABEL "nvidia.com/mig.config.state"
#define MIG_DRAIN_LABEL "nvidia.com/mig.config.drain" /* ours: MIG_DRAIN_EVICT, or anything else to wait */
#define MIG_DRAIN_EVICT "evict"
#define MIG_REASON_ANNOTATION "warpshare.dev/mig-config.reason" /* ours: why the state is pending or failed */

#define MIG_CONFIG_NAME_SIZE ((size_t)64) /* a label's value and its end */
#define MIG_REASON_SIZE ((size_t)512)

#define MIG_RETRY_MS UINT64_C(30000)
#define MIG_RETRY_MAX_MS UINT64_C(600000)
/* Releasing may take so long: MPS daemons that end, services that stop. */
#define MIG_RELEASE_MS UINT64_C(300000)
#define MIG_REBOOT_MS UINT64_C(600000)

enum mig_phase {
        MIG_IDLE,
        MIG_RESUMING,
        MIG_PLANNING,
        MIG_WAITING,
        MIG_RELEASING,
        MIG_APPLYING,
        MIG_RETAKING,
        MIG_FAILED,
        MIG_REBOOTING,
};
#define MIG_N_PHASES (MIG_REBOOTING + 1)

enum mig_event {
        MIG_EVENT_WANT,  /* mig_manager_want() was called */
        MIG_EVENT_AGAIN, /* the configurations or the GPUs may have changed */
        MIG_EVENT_RESUMED,
        MIG_EVENT_SAME,    /* the plan: the geometry is as wanted */
        MIG_EVENT_CHANGES, /* the plan: it fits, and is not there yet */
        MIG_EVENT_UNHELD,  /* no container holds anything that has to end */
        MIG_EVENT_HELD,    /* one does */
        MIG_EVENT_RELEASED,
        MIG_EVENT_APPLIED,
        MIG_EVENT_NEEDS_REBOOT, /* mig_manager.reason says why no reset did it, or is "" */
        MIG_EVENT_BROKEN,       /* the state of the change is unknown, so it is resumed. mig_manager.reason was set */
        /* mig_manager.reason was set; everything is as it was before the phase, as far as it could be */
        MIG_EVENT_FAILED,
        MIG_EVENT_RETAKEN,
        MIG_EVENT_TIMEOUT, /* of mig_manager.timeout_ms */
};

/* The value of the node's label for the state, in NVIDIA's words. */
enum mig_state { MIG_STATE_NONE, MIG_STATE_PENDING, MIG_STATE_SUCCESS, MIG_STATE_FAILED, MIG_STATE_REBOOTING };

/*
 * The result of a change, as metrics count it. A change that an earlier process began, or that hung, counts as resumed
 * once it is finished or undone.
 */
enum mig_result {
        MIG_RESULT_APPLIED,
        MIG_RESULT_REFUSED, /* it does not fit, or was not released: nothing was touched */
        MIG_RESULT_FAILED,  /* and was undone, hung, or waits for a reboot */
        MIG_RESULT_RESUMED,
};
#define MIG_N_RESULTS (MIG_RESULT_RESUMED + 1)

struct mig_manager {
        /* For the caller to read. */
        enum mig_phase phase;
        enum mig_state state;
        char config[MIG_CONFIG_NAME_SIZE]; /* the one that is planned, applied or in force; "": none */
        char reason[MIG_REASON_SIZE];      /* of pending and failed; the caller writes it, and the machine clears it */
        bool is_withdrawn;   /* what the newest plan ends, or what was being changed when this process began */
        uint64_t timeout_ms; /* until TIMEOUT is due, since the phase was entered; 0: never */
        uint64_t results[MIG_N_RESULTS]; /* so far */

        /* From the beginning on. */
        bool may_reboot;
        bool has_rebooted; /* the label's state was "rebooting" when this process started: it is not done again */

        /* Private. */
        char wanted[MIG_CONFIG_NAME_SIZE]; /* the newest */
        bool has_wanted;                   /* |wanted| was set since this process began */
        bool waits_for_name;    /* the first name that is set is the configuration for which the node is to be
                                 * rebooted */
        enum mig_state outcome; /* of the change that ends */
        bool is_final;          /* nothing is gained by trying again */
        bool is_broken;         /* it resumes its own change */
        bool is_stale;          /* AGAIN came while a change was carried out: it is planned again afterwards */
        unsigned int failures;  /* in a row, of this configuration */
};

/* The first phase is |resuming|, and to be carried out. |is_withdrawn|: the record of a handover is there. */
void mig_manager_begin(struct mig_manager *manager, bool is_withdrawn);

/* True if |name| ("": none) is another one than before: then MIG_EVENT_WANT is due. */
bool mig_manager_want(struct mig_manager *manager, const char *name);

/*
 * True: a phase begins, perhaps the same one again, and is to be carried out. An event that does not belong to the
 * present phase, such as a late answer, changes nothing.
 */
bool mig_manager_step(struct mig_manager *manager, enum mig_event event);

const char *mig_phase_name(enum mig_phase phase);
const char *mig_result_name(enum mig_result result);
const char *mig_state_name(enum mig_state state); /* "" for none */
enum mig_state mig_state_parse(const char *text); /* NONE for any other word */

/* ---- what a change withdraws from users while it lasts ---- */

/*
 * The MIG devices and GPUs: everything of each GPU that changes, except the MIG devices that stay. It is read from the
 * answer of `warpshare mig plan --output json`, and kept on disk as that text, so that a process that starts in the
 * middle of a change withdraws the same. Pure, but for the file.
 *
 * Example: GPU-a has MIG-1 and MIG-2, and is to have MIG-1 and something larger. MIG-2 is withdrawn, and so is each MIG
 * device that appears on GPU-a before the change is complete, since the change may still be undone. MIG-1 is not
 * withdrawn, and nothing of GPU-b is, which stays as it is.
 */
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
