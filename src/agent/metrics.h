// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's page for Prometheus: what it advertises, which containers hold it, and whether they stay within their
 * limits. Pure: values in, text out. docs/metrics.md explains each metric.
 */
#pragma once

#include "agent/mig.h"
#include "net/metrics/exposition.h"
#include "node/pages/usage.h"
#include "node/dra/driver.h"
#include "gpu/monitor.h"
#include "node/kubelet/device_list.h"
#include "node/ledger/claims.h"
#include "node/ledger/ledger.h"
#include "node/config/version.h"
#include "plan/rollout.h"

struct agent_metrics_resource {
        const struct resource *resource;
        struct device_list_counts devices;
        const bool *healthy; /* by unit */
        const struct ledger_allocation *allocations;
        size_t n_allocations;
};

struct agent_metrics {
        const char *version;
        const char *commit;
        const char *driver_version;         /* NULL: no driver */
        const struct config_status *config; /* NULL: only command line and environment are used */
        const struct agent_metrics_resource *resources;
        size_t n_resources;
        const struct rollout_pending *pending;
        size_t n_pending;
        struct ledger_measures ledger;
        const struct dra_measures *dra; /* NULL: the agent does not run the DRA driver */
        const struct ledger_claim_state *claims;
        size_t n_claims;
        const struct agent_mig_measures *mig; /* NULL: it does not manage the MIG geometry */
        const struct node_usage_view *usage;
        const char *dcgm_host; /* the node's name for dcgm-exporter's names; NULL: these are not wanted */
        struct node_events_counts events;
        uint64_t failed_waits;        /* failed waits for health events */
        const struct gpu_hang *hangs; /* calls into NVML that hang now */
        size_t n_hangs;
        uint64_t hangs_total;
        size_t n_left;          /* worker_count_left() */
        uint64_t now_ms;        /* monotonic */
        uint64_t crashes_total; /* of agents in this container (base/io/keeper.h) */
};

/* Returns the page, for the caller to free. */
char *agent_metrics_write(const struct agent_metrics *metrics);

/* ---- parts of it, in usage_metrics.c ---- */

/* The families of the use of GPUs, units and containers. An unknown value has no sample. */
void usage_metrics_put(struct exposition *to, const struct node_usage_view *view);

/*
 * GPUs under the names, labels and units of NVIDIA's dcgm-exporter, for dashboards and rules that know those.
 *
 * It is what NVML gives without a time between two readings: no DCGM_FI_PROF_*, and no
 * DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, which is a rate. There is one series for each GPU, also if several containers
 * share it: dcgm-exporter repeats the GPU's value for each of them, and sums over these are wrong. The labels of a pod
 * are there if one pod alone has the GPU. Memory is that of the MIG devices where a GPU has some, not of the GPU as
 * well: so dcgm-exporter has it by default (flex), and sums count it once.
 *
 * |host|: the name of the node; "": the label is left out.
 */
void dcgm_metrics_put(struct exposition *to, const struct node_usage_view *view, const char *host);
