/*
 * The agent's part in a change of the plan while pods run: it brings together what was promised and what is held, has it judged
 * (share/rollout.h), remembers it, tells of it, and sees to it that it is judged again until nothing waits.
 *
 * What was promised under MPS is in <MPS directory>/terms.json, so that an agent that starts in the middle of a change leaves the
 * daemons alone that are in use. Without that file what is held under MPS counts as held under the sharing policy that is wanted.
 */
#pragma once

#include <uv.h>

#include "ledger/ledger.h"
#include "share/rollout.h"

struct agent_rollout;

struct agent_rollout_options {
        uv_loop_t *loop;
        const char *mps_directory; /* as mounted here; need not outlive the call */
        struct ledger *ledger;     /* is asked again and again while anything waits */
        /* |is_pending|: the change waits now; else it is carried out. For the cluster: the log has it already. */
        void (*on_reported)(const struct rollout_pending *pending, bool is_pending, void *data);
        void *data;
};

struct agent_rollout *agent_rollout_new(const struct agent_rollout_options *options);
void agent_rollout_close(struct agent_rollout *rollout); /* accepts NULL; freed from the loop */

/*
 * False at first. True: reads what was promised last on this node, by whomever. False: another agent promises from now on, and what waits
 * is its own to review.
 */
void agent_rollout_serve(struct agent_rollout *rollout, bool is_serving);

/* What of |wanted| can be served now. The caller owns it. */
struct rollout *agent_rollout_judge(struct agent_rollout *rollout, const struct plan *wanted);

/* |next| is in force: what it promises counts from now on. */
void agent_rollout_follow(struct agent_rollout *rollout, const struct rollout *next);

/* Says what of |current| is pending that was not, and what is no longer. For when kubelet has told who holds what. */
void agent_rollout_report(struct agent_rollout *rollout, const struct rollout *current);
