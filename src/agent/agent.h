// SPDX-License-Identifier: Apache-2.0
/*
 * The agent as a process, from the parsed command line to the exit status, and its modules. agent.c begins and ends all
 * of them, with the loop's thread; the agent's own objects stand in files of their own:
 *
 *   plans.h   from inventory and configuration to the plan in force, and who follows it
 *   cdi.h     the CDI specifications of the plan in force
 *   serve.h   what only the one of several agents on the node does that serves: the DRA driver and the MIG manager
 *   page.h    /metrics, /node and /healthz
 *   rollout.h a change of the plan while pods run
 *   mig.h     the MIG manager
 *
 * All callbacks of the modules have the agent as their data. After |is_stopping| they do nothing.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/io/keeper.h"
#include "config/option.h"
#include "gpu/units.h"

struct agent {
        uv_loop_t loop;
        bool is_stopping;
        void (*stop)(struct agent *agent, int status);
        struct unit_health health;
        struct agent_plans *plans;
        struct agent_cdi *cdi;
        struct agent_config *configs;
        struct gpu_monitor *monitor;
        struct plugins *plugins;
        struct ledger *ledger;
        struct agent_rollout *rollout;
        struct node_usage *usage; /* NULL: nothing is sampled */
        struct agent_api *api;
        /* |watch|, |events| and |report| are NULL without the API server. */
        struct node_watch *watch;
        struct node_events *events;
        struct node_report *report;
        /* |labels|, |dra| and |mig| are NULL where they are off, or while another agent serves. */
        struct node_labels *labels;
        struct dra_driver *dra;
        struct agent_mig *mig;
};

/* Sets up the log; to be called before the first line is logged. */
void agent_setup_log(const struct option_set *options);

/* |crashes|: how often an agent in this container has crashed, and how. */
int agent_run(const struct option_set *options, const struct keeper_crashes *crashes);
