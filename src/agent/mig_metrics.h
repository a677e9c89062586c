/*
 * What the agent's page for Prometheus says of the MIG manager (agent/mig.h): which configuration is wanted, what has
 * become of it, what it waits for, and what it takes from the node meanwhile. Pure. The reason in words is an
 * annotation of the node, since it names pods.
 */
#pragma once

#include "agent/mig.h"
#include "net/metrics/exposition.h"

void mig_metrics_put(struct exposition *to, const struct agent_mig_measures *mig);
