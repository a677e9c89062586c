/*
 * The families of metrics about what is used: of GPUs, of units, of containers. Pure; docs/metrics.md says what each
 * means, and where it can be known. What is unknown has no sample.
 */
#pragma once

#include "node/pages/usage.h"
#include "net/metrics/exposition.h"

void usage_metrics_put(struct exposition *to, const struct node_usage_view *view);
