/*
 * How often each daemon came to be at fault, by what was to be seen then. Pure: it gets one status after the other.
 * A daemon that is in the status no more is forgotten with its numbers; one that is at fault in the first status it is
 * in counts. A repair that fails is not a new fault: the next one counts after the daemon was ready.
 *
 *   server  a server reports FAULT: the fault of one client has ended the work of all that it serves
 *   gone    there is no process: it died, or could not be started
 *   stuck   there is a process, but it does not obey, or does not answer
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
        bool is_at_fault;
        uint64_t totals[MPS_FAULT_KINDS];
};

struct mps_faults {
        struct mps_fault_count *counts; /* in the order of the newest status */
        size_t n_counts;
};

#define MPS_FAULTS_INIT                                                                                                \
        {                                                                                                              \
                0                                                                                                      \
        }

void mps_faults_done(struct mps_faults *faults);
void mps_faults_follow(struct mps_faults *faults, const struct mps_status *status);
