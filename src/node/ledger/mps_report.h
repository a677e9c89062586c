/*
 * Reports what changes under MPS: each change of a daemon, and each violation, once, with the pods concerned: in the
 * log, where the field "event" has the reason, and as Kubernetes events of that reason (node/events/node_events.h) on
 * the node and on the pods.
 */
#pragma once

#include "node/ledger/limit_monitor.h"
#include "node/ledger/pod_events.h"

struct mps_report;

struct mps_report *mps_report_new(struct pod_events *pod_events);
struct mps_report *mps_report_free(struct mps_report *report); /* accepts NULL, returns NULL */

/* |status| NULL: no supervisor is connected, for |reason|; reported once, and only if |is_needed|. */
void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed);

void mps_report_violations(const struct mps_report *report, const struct limit_monitor_report *limit_monitor);
