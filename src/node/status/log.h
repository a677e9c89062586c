// SPDX-License-Identifier: Apache-2.0
/*
 * Log lines of the agent about its node: GPUs, resources, health, and calls into NVML that do not return
 * (gpu/monitor.h). Every program with a monitor logs these; the agent also sends Kubernetes events and fails /healthz.
 */
#pragma once

#include "base/error.h"
#include "gpu/inventory.h"
#include "gpu/monitor.h"
#include "node/events/node_events.h"
#include "plan/plan.h"

void node_log_config(const struct config *config);
void node_log_inventory(const struct inventory *inventory);
void node_log_plan(const struct plan *plan);
/* |xid|: the Xid that is the reason, or 0. */
void node_log_health(const char *uuid, bool healthy, const char *reason, uint64_t xid);

/* Reports that a call has begun to hang, or has returned. */
void node_hangs_report(const struct gpu_hang *hang, bool has_returned, struct node_events *events);

/* Sends the events of the calls that hang now, when the agent begins to serve. */
void node_hangs_report_all(const struct gpu_monitor *monitor, struct node_events *events);

/* Says which call hangs, for /healthz; the caller frees. NULL: none hangs. */
char *node_hangs_explain(const struct gpu_hang *hangs, size_t n_hangs, uint64_t now_ms);
