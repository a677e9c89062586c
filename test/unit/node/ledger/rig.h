// SPDX-License-Identifier: Apache-2.0
/*
 * A ledger between a kubelet and a supervisor that do as the test says, in a folder of its own. Nothing waits: the loop
 * stands still, and its time goes by in rig_pass() only, which runs what is due. Both clocks are the rig's.
 *
 * kubelet has answered and its daemons are ready when rig_begin() is through; the first ten seconds, in which a kubelet
 * counts as young, are over then. Containers are "train", of pod team/train.
 */
#pragma once

#include "unit.h"

#include "fake_api.h"
#include "fake_kubelet.h"
#include "fake_supervisor.h"
#include "gpu/units.h"
#include "plan/node.h"

#define GRACE_MS 10000 /* HOLDINGS_GRACE_MS */

enum rig_shares {
        RIG_VERIFIED,          /* weighted, two GPUs of four replicas; nothing is made for a container */
        RIG_PARTITIONS,        /* the same by SMs */
        RIG_NAMESPACES,        /* the same weighted, on a newer driver */
        RIG_NAMESPACES_EACH,   /* as before, and each GPU has a resource of its own */
        RIG_STRICT,            /* as the first, and replicas are reserved: of 8, 7 may be in use (plan/allocations.h) */
        RIG_CLAIMS,            /* as the first, but GPU-1 belongs to DRA */
        RIG_CLAIM_NAMESPACES,  /* the same on a newer driver */
        RIG_CLAIMS_ONE_DAEMON, /* as RIG_CLAIMS, with one daemon for all GPUs of DRA */
        /* A CDI device is made for each container when it starts: */
        RIG_NODE,          /* weighted, one daemon for both GPUs */
        RIG_NODE_EACH,     /* the same, and each GPU has a resource of its own: gpu0, gpu1 */
        RIG_DECLARED,      /* the containers declare what they need, of a daemon for each GPU */
        RIG_DECLARED_FITS, /* the same, and overcommit is refused */
        RIG_DECLARED_EACH, /* as RIG_NODE_EACH, and the containers declare */
        /* Containers get their devices by environment variables: */
        RIG_DECLARED_ENVVAR, /* the containers declare what they need */
        RIG_ENVVAR_EACH,     /* weighted, and each GPU has a resource of its own */
};

struct rig {
        enum rig_shares shares;
        char folder[48];
        char socket[96], record[96], mps[96], away[96], cdi[96], file[128];
        struct node node;
        struct node changed[4]; /* of rig_change(), in turn */
        size_t n_changed;
        const struct plan *wanted; /* by the newest configuration */
        const struct plan *plan;   /* in force: the wanted one, or that of |rollout| */
        struct rollout *rollout;   /* NULL: nothing has changed yet */
        uv_loop_t loop;
        struct ledger *ledger;
        int64_t clock; /* milliseconds, as the next */
        int64_t date;
        size_t n_changes; /* that the plugins were told of */
        size_t n_held;    /* that on_held() was called */
        char held[512];   /* what it saw: rig_held() */
        struct unit_health health;
        bool is_judging;
        bool is_closed;
        struct arena arena; /* of texts */
};
extern struct rig rig;

int rig_begin(void **state); /* *state: enum rig_shares */
int rig_end(void **state);
#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, rig_begin, rig_end)
#define RIG_TEST_WITH(test, shares)                                                                                    \
        cmocka_unit_test_prestate_setup_teardown(test, rig_begin, rig_end, &(enum rig_shares){shares})

/* A ledger on the folder as it is, and the plan; or without it yet. rig_begin() has called the first. */
void rig_start(void);
void rig_open(void);
/* The agent ends as it should, or by a signal: then what it had not written is lost. */
void rig_stop(void);
void rig_kill(void);

void rig_pass(int64_t ms);
/* What was asked is answered, and what comes of that. */
void rig_settle(void);
void rig_apply(const struct plan *plan);
/*
 * Another configuration is wanted, with so many replicas a GPU; what is held stays as it was promised
 * (plan/rollout.h).
 */
void rig_change(unsigned int replicas);
/* The same, and the node has only the first |n_gpus| of its GPUs from now on. */
void rig_change_gpus(unsigned int replicas, size_t n_gpus);
/* kubelet is asked who holds what, and the plan follows. */
void rig_review(void);
void rig_set_health(const char *uuid, bool is_healthy);

const struct resource *rig_resource(void); /* the first */
/* Of the resource that has the first of the ids. */
struct fake_container *rig_allocate(const char *pod, const char *ids);
struct fake_container *rig_allocate_init(const char *pod, const char *ids);
/* It has to be given. */
struct fake_container *rig_run(const char *pod, const char *ids);

/* It is about to start: "" if it starts, the error, or "it waits". */
const char *rig_start_container(struct fake_container *container);
/* The limits in its CDI device: "0=5952M 25", "-" for one that it has not. "none": there is no device. */
const char *rig_limits(const struct fake_container *container);
/* All variables in its device, one a line; NULL: there is none. */
const char *rig_device(const struct fake_container *container);

/* "train GPU-0[0 1], ? GPU-1[3]": from the oldest to the newest; "?" where kubelet has not told whose it is. */
const char *rig_allocations(void);
/* "told: GPU-0::0 GPU-0::1" by kubelet, "stale: …", "not told: …", in alphabetical order. */
const char *rig_held(void);
/* Ids that are kept back, in the order of the plan: "GPU-0::3 GPU-1::2". */
const char *rig_unavailable(void);

/* The folder of share_metadata.h, with all that it has. */
void rig_remove_metadata(void);

/* The file with the record of allocations. */
char *rig_read_file(void); /* NULL: there is none; the caller frees */
void rig_write_file(const char *text);
/* Nothing can be written there; and it can again. */
void rig_fill_disk(void);
void rig_empty_disk(void);
