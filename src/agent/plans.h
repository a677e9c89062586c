// SPDX-License-Identifier: Apache-2.0
/*
 * The plan in force. The monitor's inventory and the configuration make a generation, whose plan goes to the ledger,
 * the plugins, DRA, the MIG manager, the node's reports and its labels. If a generation cannot be built, the one in
 * force stays, and building it is tried again. A new configuration makes its plan at once, from the newest inventory.
 *
 * Other reports of the monitor go to log, events and usage from here.
 *
 * An agent that does not serve keeps its plan up to date as well, because it may have to serve at once.
 */
#pragma once

#include "agent/generation.h"
#include "agent/agent.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "gpu/monitor.h"

struct agent_plans {
        struct settings *settings;   /* the newest that was valid */
        struct generation *current;  /* NULL before the first inventory */
        struct generation *previous; /* kubelet may still ask for its devices */
        struct inventory *refused;   /* the newest inventory, if no generation could be made of it */
        bool has_report;             /* the monitor has reported an inventory, or why there is none */
        struct complaint bad_config;
        struct complaint bad_plan;
        struct complaint bad_dra;
        struct complaint no_events; /* of health */
        uint64_t hangs_total;
        struct retry retry; /* of what was refused: there may be room on the disk by then, or a missing file */
        uv_timer_t tidy;
};

/* Takes the reference to |settings|. */
void agent_plans_init(struct agent_plans *plans, struct agent *agent, struct settings *settings);
void agent_plans_close(struct agent_plans *plans);
/* When the loop has closed the handles. */
void agent_plans_done(struct agent_plans *plans);

/* ---- what is known ---- */

const struct config *agent_plans_config(const struct agent_plans *plans);
const struct health_policy *agent_plans_policy(const struct agent_plans *plans);
const struct generation *agent_plans_current(const struct agent_plans *plans); /* NULL: none yet */
/* The part of the current plan that is served now; NULL: none yet. */
const struct plan *agent_plans_served(const struct agent_plans *plans);
/* The newest inventory, even if no plan could be made of it; NULL: none yet. */
const struct inventory *agent_plans_inventory(const struct agent_plans *plans);
/* Each returns a sentence for /healthz that the caller frees; NULL: no problem. */
char *agent_plans_find_problem(const struct agent_plans *plans);
char *agent_plans_find_gpu_problem(const struct agent *agent);
uint64_t agent_plans_hangs_total(const struct agent_plans *plans); /* calls into NVML that did not return in time */

/* ---- what changes the plan ---- */

/* Loads the configuration, for the plan of the next inventory. -1: it was refused, which is reported. */
int agent_plans_load(struct agent *agent);
/* The configuration has changed: loads it, and makes a plan of it at once. |data|: the agent. */
void agent_plans_reload(void *data);
/* The next refusal is logged, also if it is the same again. */
void agent_plans_log_again(struct agent_plans *plans);
/* Makes the plan again, since the set of withdrawn units has changed. |data|: the agent. */
void agent_plans_make_again(void *data);
/* The agent serves from now on: writes the CDI specifications of the plan in force. */
void agent_plans_publish(struct agent *agent);
/* Serves as much of the plan in force as containers leave free. */
void agent_plans_serve(struct agent *agent);
/* Starts the DRA driver, before the first plan is served. */
void agent_plans_begin_dra(struct agent *agent);
/* Gives the node its labels, which this agent publishes from now on. */
void agent_plans_label(struct agent *agent);

/* Callbacks of monitor, ledger and rollout. */
void agent_plans_on_inventory(struct inventory *inventory, void *data);
void agent_plans_on_unavailable(const char *reason, void *data);
void agent_plans_on_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
void agent_plans_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
void agent_plans_on_unheard(const char *reason, void *data);
void agent_plans_on_hang(const struct gpu_hang *hang, bool has_returned, void *data);
void agent_plans_on_samples(struct gpu_samples *samples, void *data);
void agent_plans_on_held(void *data);
