/*
 * The metric families of the use of GPUs, units and containers. Pure; docs/metrics.md says what each means, and where
 * it is available. An unknown value has no sample.
 */
#pragma once

#include "node/pages/usage.h"
#include "net/metrics/exposition.h"

void usage_metrics_put(struct exposition *to, const struct node_usage_view *view);
