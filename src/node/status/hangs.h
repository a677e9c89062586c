/*
 * Reports calls into NVML that do not return: every program with a monitor logs them, and the agent also sends
 * Kubernetes events and fails /healthz. gpu/monitor.h says how the monitor deals with them.
 */
#pragma once

#include "gpu/monitor.h"
#include "node/events/node_events.h"

/* Reports that a call has begun to hang, or has returned. */
void node_hangs_report(const struct gpu_hang *hang, bool has_returned, struct node_events *events);

/* Sends the events of the calls that hang now, when the agent begins to serve. */
void node_hangs_report_all(const struct gpu_monitor *monitor, struct node_events *events);

/* Says which call hangs, for /healthz; the caller frees. NULL: none hangs. */
char *node_hangs_explain(const struct gpu_hang *hangs, size_t n_hangs, uint64_t now_ms);
