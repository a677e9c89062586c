/*
 * What the agent tells of MPS: each change of a daemon, and each finding of the guard, once, with the pods concerned. The
 * field "event" has the reason that a Kubernetes event of it has.
 */
#pragma once

#include "mps/guard.h"
#include "mps/status.h"

struct mps_report;

struct mps_report *mps_report_new(void);
struct mps_report *mps_report_free(struct mps_report *report); /* accepts NULL, returns NULL */

/* The pods that hold a part of the unit: "namespace/name, …", or "" where nobody does. The caller frees. */
typedef char *mps_pods_fn(const char *unit, void *data);

/* |status| NULL: nobody is there, for |reason|; told once, and only where |is_needed|. */
void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed,
        mps_pods_fn *pods, void *data);

void mps_report_guard(const struct guard_report *report);
