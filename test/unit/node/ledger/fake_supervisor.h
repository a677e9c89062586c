// SPDX-License-Identifier: Apache-2.0
/*
 * The supervisor of the MPS daemons, at the other end of a link that can break: the functions of mps/client/link.h are
 * these here. It makes what is granted, and what it is told of all that is held decides what it keeps.
 */
#pragma once

#include "unit.h"

#include "base/alloc.h"
#include "mps/client/link.h"

#define FAKE_ALLOCATIONS 256

struct fake_allocation {
        char id[64];
        char daemon[64];
        char unit[24];
        unsigned int threads_permille;
        uint64_t limit_mib;
        unsigned int sms;
};

struct fake_allocations {
        struct fake_allocation all[FAKE_ALLOCATIONS];
        size_t count;
};

enum fake_granting {
        FAKE_ALLOCATIONS_IT,
        FAKE_ALLOCATIONS_LATE, /* when fake_supervisor_answer() is called */
        FAKE_ALLOCATIONS_NOT,  /* it has an error of the kind |refusal| */
        FAKE_LOSES_IT,         /* made, and the answer is lost */
};

struct fake_supervisor {
        enum fake_granting allocations;
        enum error_kind refusal;
        bool loses_releases;
        enum mps_tier tier;               /* of its daemons */
        uint64_t generation;              /* that it was told last */
        bool hides_settings;              /* of its daemons */
        bool is_absent;                   /* it was never there */
        const char *unit_left_out;        /* its daemon was started without it */
        bool is_behind;                   /* its status is of the generation before */
        bool is_frozen;                   /* it answers nothing */
        const char *unit_at_fault;        /* whose daemon is not ready, or NULL */
        const char *unit_that_drains;     /* whose daemon is there though it is not wanted, or NULL */
        struct fake_allocations made;     /* what there is */
        bool is_reported;                 /* all that is held: the next */
        struct fake_allocations reported; /* with what was granted and released since */
        const struct mps_client *clients; /* all of one unit */
        size_t n_clients;
        char holders[4096]; /* "GPU-0 pod team/train, GPU-1 claim team/serve" */
        pid_t terminated;   /* 0: none was asked for since the test looked */
};
extern struct fake_supervisor supervisor;

void fake_supervisor_begin(enum mps_tier tier);
void fake_supervisor_end(void);
/* Reports one client: process 7 of the pod, with so much memory on the unit. */
void fake_supervisor_show(const char *unit, const char *pod_uid, uint64_t mib);
/* What is asked of it, all in turn. */
void fake_supervisor_answer(void);
/* The daemons that are wanted: "GPU-0 GPU-1". Valid until the next call. */
const char *fake_supervisor_wanted(void);
/* A status comes over the link; or nobody is there. */
void fake_supervisor_report(void);
void fake_supervisor_vanish(void);
/* It has forgotten all that it made, and hears what the link knows. */
void fake_supervisor_restart(void);

const struct fake_allocation *fake_allocations_find(const struct fake_allocations *allocations, const char *id);
