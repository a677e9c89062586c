/*
 * The Prometheus metrics of the MIG manager (agent/mig.h): the wanted configuration, its state, how many holders it
 * waits for, and how many GPUs are withdrawn meanwhile. Pure. The reason in words is an annotation of the node, since
 * it names pods.
 */
#pragma once

#include "agent/mig.h"
#include "net/metrics/exposition.h"

void mig_metrics_put(struct exposition *to, const struct agent_mig_measures *mig);
