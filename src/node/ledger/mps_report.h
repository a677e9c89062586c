/*
 * What the agent tells of MPS: each change of a daemon, and each violation, once, with the pods concerned: in the log,
 * where the field "event" has the reason, and as Kubernetes events of that reason (node/events/node_events.h) on the node and
 * on the pods.
 */
#pragma once

#include "node/events/node_events.h"
#include "node/ledger/limit_monitor.h"
#include "mps/wire/status.h"

struct mps_report;

struct mps_report_options {
        /* The pods that hold a part of the unit: "namespace/name, …", or "" where nobody does. Freed by who asks. */
        char *(*pods)(const char *unit, void *data);
        /* An event for each of them. */
        void (*report_pods)(const char *unit, enum node_event event, const char *text, void *data);
        void *data;
        struct node_events *events; /* or NULL */
};

struct mps_report *mps_report_new(const struct mps_report_options *options);
struct mps_report *mps_report_free(struct mps_report *report); /* accepts NULL, returns NULL */

/* |status| NULL: nobody is there, for |reason|; told once, and only where |is_needed|. */
void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed);

void mps_report_violations(const struct mps_report *report, const struct limit_monitor_report *limit_monitor);
