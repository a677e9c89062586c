/*
 * GPUs under the names, labels and units of NVIDIA's dcgm-exporter, for dashboards and rules that know those
 * (docs/metrics.md). Pure.
 *
 * It is what NVML gives without a time between two readings: no DCGM_FI_PROF_*, and no
 * DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, which is a rate. There is one series for each GPU, also if several containers
 * share it: dcgm-exporter repeats the GPU's value for each of them, and sums over these are wrong. The labels of a pod
 * are there if one pod alone has the GPU. Memory is that of the MIG devices where a GPU has some, not of the GPU as
 * well: so dcgm-exporter has it by default (flex), and sums count it once.
 */
#pragma once

#include "node/pages/usage.h"
#include "net/metrics/exposition.h"

/* |host|: the name of the node; "": the label is left out. */
void dcgm_metrics_put(struct exposition *to, const struct node_usage_view *view, const char *host);
