/* Log lines of the agent about its node: GPUs, resources, health. */
#pragma once

#include "base/error.h"
#include "gpu/inventory.h"
#include "plan/plan.h"

void node_log_config(const struct config *config);
void node_log_inventory(const struct inventory *inventory);
void node_log_plan(const struct plan *plan);
/* |xid|: the Xid that is the reason, or 0. */
void node_log_health(const char *uuid, bool healthy, const char *reason, uint64_t xid);
