// SPDX-License-Identifier: Apache-2.0
/*
 * How each daemon was in the newest status, and how often it became faulty, by kind of fault. Pure: it gets one status
 * after the other. A daemon that is not in the newest status is forgotten with its numbers; one that is faulty in its
 * first status counts. A repair that fails is not a new fault: the next fault counts after the daemon was ready.
 *
 *   server  a server reports FAULT: the fault of one client has ended the work of all that it serves
 *   gone    the process does not exist: it died, or could not be started
 *   stuck   the process exists, but does not obey or does not answer
 */
#pragma once

#include "mps/wire/status.h"

enum mps_fault_kind { MPS_FAULT_SERVER, MPS_FAULT_GONE, MPS_FAULT_STUCK };
#define MPS_FAULT_KINDS ((size_t)3)
const char *mps_fault_kind_name(enum mps_fault_kind kind); /* "server", "gone", "stuck" */

struct mps_fault_count {
        char *daemon;
        char *resource;
        char *unit; /* UUID; NULL: the daemon has several */
        enum mps_state state;
        char *notice;     /* or NULL */
        bool is_at_fault; /* and not ready since */
        bool is_shm_full; /* for node/ledger/mps_report.h */
        uint64_t totals[MPS_FAULT_KINDS];
};

struct mps_faults {
        struct mps_fault_count *counts; /* in the order of the newest status */
        size_t n_counts;
};

void mps_faults_done(struct mps_faults *faults);
void mps_faults_follow(struct mps_faults *faults, const struct mps_status *status);
/* The daemon of that name; NULL: the newest status does not have it. */
const struct mps_fault_count *mps_faults_find(const struct mps_faults *faults, const char *daemon);
