// SPDX-License-Identifier: Apache-2.0
/*
 * The duties of the one agent of a node that serves: the agent that has the lock on kubelet's folder
 * (node/kubelet/plugins.h). Other agents read the GPUs and plan, too, so that they can take over at once.
 */
#pragma once

#include "agent/agent.h"
#include "base/log.h"
#include "base/io/keeper.h"
#include "config/config.h"
#include "gpu/inventory.h"

struct agent_serving {
        struct agent *agent;
        struct keeper_crashes crashes; /* of the agents before this one in the container */
        bool has_reported_crash;
        struct complaint no_mig; /* why the MIG manager does not run, although it is configured */
};

void agent_serving_begin(struct agent_serving *serving);
uint64_t agent_serving_crashes(const struct agent_serving *serving);
/* Returns a sentence for /healthz that the caller frees; NULL: no problem. */
char *agent_serving_find_problem(const struct agent_serving *serving);

/*
 * Starts the DRA driver where it is configured, not running, and this agent serves. To be called before the ledger has
 * the plan, because the driver reports to the ledger which claims are prepared. |complaint| says why it does not run.
 */
void agent_dra_begin(struct agent *agent, struct complaint *complaint);

/* Marks the GPUs that claims hold: the plan leaves these to DRA, even if the device plugin is to have them now. */
void agent_dra_mark(const struct agent *agent, struct inventory *inventory);

/* Callbacks of the plugins; |data| is the object. */
void agent_serving_changed(bool is_serving, void *data);
void agent_serving_stranded(void *data);
