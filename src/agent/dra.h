/*
 * The DRA driver of the agent that serves, and which GPUs the plan leaves to DRA since claims hold them.
 */
#pragma once

#include "agent/modules.h"
#include "base/log.h"
#include "config/config.h"
#include "plan/plan.h"

/*
 * Starts the driver where it is configured, not running, and this agent serves. To be called before the ledger has the
 * plan, because the driver reports to the ledger which claims are prepared. |complaint| says why it does not run.
 */
void agent_dra_begin(struct agent *agent, const struct config *config, struct complaint *complaint);

/* Marks the GPUs that claims hold: the plan leaves these to DRA, even if the device plugin is to have them now. */
void agent_dra_mark(const struct agent *agent, struct inventory *inventory);
