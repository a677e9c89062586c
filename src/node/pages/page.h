// SPDX-License-Identifier: Apache-2.0
/*
 * The page of this node (node/report/node_page.h), made of what the agent has anyway: inventory, plan, health, what was
 * granted and what is used. Pure but for the names of processes, which are read from /proc. Without an agent,
 * `warpshare top` makes the same page from the driver alone, without plan and health.
 */
#pragma once

#include "node/pages/usage.h"
#include "gpu/units.h"
#include "node/events/node_events.h"
#include "node/kubelet/device_list.h"
#include "node/ledger/claims.h"
#include "node/report/node_page.h"

struct node_facts {
        const char *node;                       /* its name; NULL: unknown */
        const char *agent;                      /* its version; NULL: unknown */
        const char *configuration;              /* its name; NULL: unknown */
        const struct inventory *inventory;      /* NULL: none yet */
        const struct plan *plan;                /* NULL: none yet */
        const struct device_list *const *lists; /* of each resource of the plan, NULL where none is sent to kubelet */
        const struct unit_health *health;       /* NULL: not known */
        const struct node_usage_view *usage;    /* never NULL */
        const struct ledger_claim_state *claims;
        size_t n_claims;
        const struct node_event_record *events; /* the newest last */
        size_t n_events;
        bool is_serving;         /* this agent serves the node, so it knows who was granted what */
        int64_t now_ms;          /* since the epoch */
        uint64_t monotonic_ms;   /* the same moment, on the clock of samples */
        bool has_history;        /* the page includes the history */
        bool has_processes;      /* the page includes the processes */
        bool is_apart;           /* this process is not in the host's PID namespace */
        const char *system_root; /* that has /proc */
};

/* All in |arena|, and valid as long as what it was made of. */
void node_page_make(struct node_page *ret, struct arena *arena, const struct node_facts *facts);
