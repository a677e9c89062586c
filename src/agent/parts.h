/*
 * The agent in parts. All of them work on one struct, on the loop's thread:
 *
 *   agent.c   begins and ends: options, signals, reload
 *   plans.c   from what the monitor, kubelet and the configuration say to the plan in force, and who follows it
 *   cdi.c     that the CDI specifications of the plan in force are there, and stay as they were written
 *   turn.c    which of two agents on the node serves
 *   page.c    what /metrics, /node and /healthz say
 */
#pragma once

#include "agent/generation.h"
#include "agent/labels.h"
#include "agent/mig.h"
#include "agent/rollout.h"
#include "agent/access.h"
#include "node/pages/usage.h"
#include "base/complaint.h"
#include "node/cdi/files.h"
#include "base/io/keeper.h"
#include "node/dra/driver.h"
#include "gpu/monitor.h"
#include "gpu/unit_health.h"
#include "base/io/dirwatch.h"
#include "base/io/signals.h"
#include "node/events/node_events.h"
#include "node/kubelet/plugins.h"
#include "node/ledger/ledger.h"
#include "net/metrics/http.h"
#include "node/status/api.h"
#include "node/status/clients.h"
#include "node/status/report.h"
#include "node/status/watch.h"
#include "node/config/nodeconfig.h"

/*
 * The pause until what was refused is tried again: the disk may have room by then, or a file that was missing may be
 * there. |last_ms| is the pause before, 0 at first.
 */
#define AGENT_RETRY_MS UINT64_C(1000)
#define AGENT_RETRY_MAX_MS UINT64_C(60000)
static inline uint64_t agent_next_pause(uint64_t last_ms)
{
        return last_ms ? MIN(last_ms * 2, AGENT_RETRY_MAX_MS) : AGENT_RETRY_MS;
}

/* After a plan came into force: by then it is written and told everywhere. */
#define AGENT_TIDY_MS UINT64_C(10000)

struct agent {
        uv_loop_t loop;
        const struct option_set *options;
        struct settings *settings; /* the newest that was valid */
        struct agent_config *configs;
        struct gpu_monitor *monitor;
        struct unit_health health;
        struct plugins *plugins;
        struct ledger *ledger;
        struct agent_rollout *rollout;
        struct metrics_http *metrics;       /* NULL: nobody asks for them */
        struct node_usage *usage;           /* NULL: nothing is sampled */
        struct agent_access *access;        /* NULL: everybody may read metrics */
        struct node_pod_labels *pod_labels; /* NULL: metrics have none */
        struct agent_api *api;              /* NULL, as the next four: the API server is not spoken to */
        struct node_watch *node;
        struct node_clients *clients;
        struct node_events *events;
        struct node_report *report;
        struct agent_labels *labels; /* NULL: labels are off, or another agent serves */
        struct dra_driver *dra;      /* the same */
        struct agent_mig *mig;       /* the same */
        struct generation *current;  /* NULL before the first inventory */
        struct generation *previous;
        bool has_heard;            /* the monitor has reported an inventory, or why there is none */
        struct inventory *refused; /* the newest inventory, if no generation could be made of it */
        struct complaint bad_config;
        struct complaint bad_plan;
        struct complaint bad_dra;
        struct complaint bad_mig;
        uv_timer_t retry;
        uint64_t retry_ms; /* the last pause; 0: nothing is refused */
        uv_timer_t cdi_retry;
        uint64_t cdi_retry_ms; /* the same; 0: the plan in force is not served without its CDI specifications */
        struct cdi_files *cdi_files;
        struct dirwatch *cdi_watch; /* NULL: this agent does not serve, or CDI is not used */
        char *cdi_watched;          /* its folder */
        uv_timer_t cdi_repair;      /* runs after a repair, until the next may be made */
        struct complaint bad_cdi;
        struct signals signals;
        bool stopping;
        int status;

        struct keeper_crashes crashes; /* of the agents before this one in the container */
        bool has_reported_crash;
        uv_timer_t tidy;
        uv_timer_t metrics_retry; /* runs while metrics are wanted and cannot be served */
        uint64_t metrics_retry_ms;
        struct complaint bad_events;
        uint64_t hangs_total;
};

/* ---- agent.c ---- */

void agent_stop(struct agent *agent, int status);

/* ---- plans.c; the callbacks are those of the modules that agent.c opens ---- */

void agent_begin_dra(struct agent *agent);
void agent_begin_mig(struct agent *agent);
/* |next| is what of the plan can be served now. */
void agent_serve(struct agent *agent, struct rollout *next);
/* Also one of which no plan could be made; NULL: none yet. */
const struct inventory *agent_newest_inventory(const struct agent *agent);
void agent_on_retry(uv_timer_t *timer);
void agent_on_withdrawn(void *data);
void agent_on_holdings_changed(void *data);
void agent_on_held(void *data);
bool agent_on_repeat(const char *resource, void *data);
void agent_on_wants_pods(void *data);
void agent_on_change_reported(const struct rollout_pending *pending, bool is_pending, void *data);
void agent_on_inventory(struct inventory *inventory, void *data);
void agent_on_unavailable(const char *reason, void *data);
void agent_on_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
void agent_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
void agent_on_unheard(const char *reason, void *data);
void agent_on_hang(const struct gpu_hang *hang, bool has_returned, void *data);

/* ---- cdi.c ---- */

/*
 * There is another plan in force, or this agent serves now: whether its CDI specifications are there is looked after
 * from now on, or they are to be tried again.
 */
void agent_check_cdi(struct agent *agent);
/* Looks at once, and puts right what can be. */
void agent_repair_cdi(void *data);
/* Another agent serves, or the process ends. */
void agent_leave_cdi(struct agent *agent);

/* ---- turn.c ---- */

void agent_take_over(struct agent *agent);
void agent_on_serving(bool is_serving, void *data);
void agent_on_stranded(void *data);

/* ---- page.c ---- */

void agent_serve_metrics(struct agent *agent);
void agent_on_samples(struct gpu_samples *samples, void *data);
