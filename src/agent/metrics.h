/*
 * The agent's page for Prometheus: what it advertises, who holds it, and whether it holds. Pure: values in, text out; what each
 * metric means and is good for is in docs/metrics.md.
 */
#pragma once

#include "gpu/monitor.h"
#include "kube/node_events.h"
#include "kubelet/device_list.h"
#include "kubelet/holders.h"
#include "ledger/faults.h"
#include "ledger/guard.h"
#include "nodeconfig/status.h"
#include "share/grants.h"
#include "share/handover.h"

struct agent_metrics_grant {
        const struct grant *grant;   /* share/grants.h */
        const struct holder *holder; /* kubelet/holders.h; NULL: kubelet has not said */
        enum mps_tier tier;
        uint64_t limit_mib; /* 0: none */
        unsigned int threads_permille;
};

struct agent_metrics_resource {
        const struct resource *resource;
        struct device_list_counts devices;
        const bool *healthy; /* by unit */
        const struct agent_metrics_grant *grants;
        size_t n_grants;
};

#define AGENT_METRICS_GUARD_KINDS ((size_t)GUARD_UNKNOWN + 1)

struct agent_metrics {
        const char *version;
        const char *commit;
        const char *driver_version;         /* NULL: no driver */
        const struct config_status *config; /* NULL: there is none but command line and environment */
        const struct agent_metrics_resource *resources;
        size_t n_resources;
        const struct handover_pending *pending;
        size_t n_pending;
        const struct mps_status *mps;    /* NULL: nobody tells */
        const struct mps_faults *faults; /* NULL: none are counted */
        const struct guard_finding *const *standing;
        size_t n_standing;
        uint64_t findings_total[AGENT_METRICS_GUARD_KINDS]; /* that appeared, by guard_kind */
        uint64_t clients_ended_total;
        struct node_events_counts events;
        uint64_t failed_waits;        /* for health events */
        const struct gpu_hang *hangs; /* calls into NVML that hang now */
        size_t n_hangs;
        uint64_t hangs_total;
        uint64_t now_ms;        /* monotonic */
        uint64_t crashes_total; /* of agents before this one, in its container: agent/keeper.h */
};

/* The caller frees. */
char *agent_metrics_write(const struct agent_metrics *metrics);
