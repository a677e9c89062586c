// SPDX-License-Identifier: Apache-2.0
/*
 * Reports what changes under MPS: each change of a daemon, and each violation, once, with the pods concerned: in the
 * log, where the field "event" has the reason, and as Kubernetes events of that reason (node/events/node_events.h) on
 * the node and on the pods.
 */
#pragma once

#include "node/ledger/faults.h"
#include "node/ledger/limit_monitor.h"
#include "node/ledger/pod_events.h"

struct mps_report {
        struct pod_events *pod_events;
        struct mps_faults faults; /* the daemons as they were reported last */
        bool is_unconnected;      /* it was reported that no supervisor is connected */
        bool is_shm_full;         /* of the node: reported, and it still is */
};

void mps_report_init(struct mps_report *report, struct pod_events *pod_events);
void mps_report_done(struct mps_report *report);

/* |status| NULL: no supervisor is connected, for |reason|; reported once, and only if |is_needed|. */
void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed);

void mps_report_violations(const struct mps_report *report, const struct limit_monitor_report *limit_monitor);

/* The daemons of the newest status. */
const struct mps_faults *mps_report_faults(const struct mps_report *report);
