// SPDX-License-Identifier: Apache-2.0
/*
 * The MIG manager in the agent: brings the GPUs to the MIG configuration that the node's label names (mig/manager.h),
 * without a restart of anything, and without taking a GPU from a container.
 *
 *   waiting     units that the change removes leave the plan, so kubelet and DRA allocate them to no new pod. Pods that
 *               hold them keep them; the ledger knows these pods, from kubelet's list and from claims. With the label's
 *               policy "evict" these pods are evicted, those of claims, too.
 *   releasing   the MPS daemons of these units end, since the plan no longer wants them. Where a MIG mode changes by a
 *               reset only, all our programs close NVML: the monitor on request, the others because they have no calls
 *               to make (gpu/nvml_pool.h). The processes that make MIG devices for claims must have ended. If that is
 *               impossible, no reset is tried, and the mode stays pending until a reboot
 *   retaking    the monitor reads the GPUs; plan, CDI, labels and slices are made again
 *
 * Example: GPU-0 has seven MIG devices of 1g.10gb, of which two are held by pods, and the label now names a
 * configuration with one 3g.40gb and four 1g.10gb. `warpshare mig plan` says which four stay. The other three are
 * withdrawn at once. If one of them is held, the change waits for that pod; GPU-1, and the four that stay, never
 * notice.
 *
 * GPUs that can have MIG are offered when the label is known and the first plan has been made (agent/undecided.h), so
 * that no pod gets a whole GPU that is to be divided. Units that a pod holds are served from the beginning on.
 *
 * It belongs to the agent that serves. The next agent resumes an unfinished change from its record.
 */
#pragma once

#include "agent/agent.h"
#include "mig/manager.h"
#include "plan/plan.h"

struct agent_mig;

/*
 * Withdraws, from the beginning on, what an unfinished change had withdrawn, and what is not decided. An unfinished
 * change is resumed, and the label counts from now on. The agent uses the API server.
 */
struct agent_mig *agent_mig_new(struct agent *agent);

/* All accept NULL. Marks what is withdrawn in each new inventory, before a plan is made of it. */
void agent_mig_mark(struct agent_mig *mig, struct inventory *inventory);
/* It is not known yet which GPUs are to be offered, so labels and condition stay as they are. */
bool agent_mig_is_undecided(const struct agent_mig *mig);
/* |plan|, borrowed until the next call, is in force. */
void agent_mig_planned(struct agent_mig *mig, const struct plan *plan);
/* The ledger knows who holds what. */
void agent_mig_held(struct agent_mig *mig);
/*
 * Call after each attempt to make a plan, whether or not it could be made. |is_fresh|: of an inventory that was just
 * read; else of the last one again.
 */
void agent_mig_read(struct agent_mig *mig, bool is_fresh);

struct agent_mig_measures {
        const struct mig_manager *manager;
        int64_t since;      /* the state, in seconds since the epoch */
        size_t n_withdrawn; /* GPUs of which anything is withdrawn */
        size_t n_holders;   /* containers and claims that are waited for */
};

/* Valid until the caller returns to the loop. */
void agent_mig_measure(const struct agent_mig *mig, struct agent_mig_measures *ret);

/* No callback after this. Returns NULL. */
struct agent_mig *agent_mig_close(struct agent_mig *mig);
