/*
 * Calls into NVML that do not return, as every program with a monitor tells of them in its log, and the agent by Kubernetes event and
 * /healthz as well. What is done about them is in gpu/monitor.h.
 */
#pragma once

#include "gpu/monitor.h"
#include "kube/node_events.h"

/* One begins to hang, or has returned. */
void agent_hangs_report(const struct gpu_hang *hang, bool has_returned, struct node_events *events);

/* The events of those that hang now, for an agent that has just begun to speak for the node. */
void agent_hangs_report_all(const struct gpu_monitor *monitor, struct node_events *events);

/* Which one hangs, for /healthz; the caller frees. NULL: none. */
char *agent_hangs_ailment(const struct gpu_hang *hangs, size_t n_hangs, uint64_t now_ms);
