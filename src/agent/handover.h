/*
 * The agent's part in a change of the plan while pods run: it brings together what was promised and what is held, has it judged
 * (share/handover.h), remembers it, tells of it, and sees to it that it is judged again until nothing waits.
 *
 * What was promised under MPS is in <MPS directory>/terms.json, so that an agent that starts in the middle of a change leaves the
 * daemons alone that are in use. Without that file what is held under MPS counts as held by the terms that are wanted.
 */
#pragma once

#include <uv.h>

#include "ledger/ledger.h"
#include "share/handover.h"

struct agent_handover;

struct agent_handover_options {
        uv_loop_t *loop;
        const char *mps_directory; /* as mounted here; need not outlive the call */
        struct ledger *ledger;     /* is asked again and again while anything waits */
        /* |is_pending|: the change waits now; else it is carried out. For the cluster: the log has it already. */
        void (*on_told)(const struct handover_pending *pending, bool is_pending, void *data);
        void *data;
};

struct agent_handover *agent_handover_new(const struct agent_handover_options *options);
void agent_handover_close(struct agent_handover *handover); /* accepts NULL; freed from the loop */

/*
 * False at first. True: reads what was promised last on this node, by whomever. False: another agent promises from now on, and what waits
 * is its own to review.
 */
void agent_handover_serve(struct agent_handover *handover, bool is_serving);

/* What of |wanted| can be served now. The caller owns it. */
struct handover *agent_handover_judge(struct agent_handover *handover, const struct plan *wanted);

/* |next| is in force: what it promises counts from now on. */
void agent_handover_follow(struct agent_handover *handover, const struct handover *next);

/* Says what of |current| is pending that was not, and what is no longer. For when kubelet has told who holds what. */
void agent_handover_tell(struct agent_handover *handover, const struct handover *current);
