// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's part in a change of the plan while pods run. It passes what was promised and what containers hold to
 * plan/rollout.h, which decides which part of the new plan can be served now. It records and reports the result, and
 * repeats this until no change waits.
 *
 * The sharing policies that were promised with MPS are in <MPS directory>/terms.json, so that an agent that starts in
 * the middle of a change does not touch daemons that are in use. Without that file, shares that containers hold by MPS
 * count as shares under the new sharing policy.
 */
#pragma once

#include "agent/agent.h"
#include "plan/rollout.h"

struct agent_rollout;

/* While a change waits, the ledger is asked again and again. */
struct agent_rollout *agent_rollout_new(struct agent *agent);
void agent_rollout_close(struct agent_rollout *rollout); /* accepts NULL; freed from the loop */

/*
 * Whether this agent serves; false at first. True: reads what was promised last on this node, perhaps by another agent.
 * False: another agent serves, and reviews the changes that wait.
 */
void agent_rollout_serve(struct agent_rollout *rollout, bool is_serving);

/* The part of |wanted| that can be served now, for the caller to free. */
struct rollout *agent_rollout_make(struct agent_rollout *rollout, const struct plan *wanted);

/* |next| is in force: records its plan as promised. */
void agent_rollout_follow(struct agent_rollout *rollout, const struct rollout *next);

/*
 * Reports the changes in |current| that are newly pending, and those that no longer are. To be called when kubelet's
 * list has come.
 */
void agent_rollout_report(struct agent_rollout *rollout, const struct rollout *current);
