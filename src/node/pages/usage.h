// SPDX-License-Identifier: Apache-2.0
/*
 * GPU use by pod on this node: the monitor's samples, joined to the ledger's allocations by device plugin and DRA.
 * Names of pods of DRA claims come from the API server, in the claims. Names of pods without a share by MPS or DRA come
 * from kubelet's list, which is requested, seldom, when a pod with processes has no name.
 */
#pragma once

#include "node/pages/pod_labels.h"
#include "gpu/inventory.h"
#include "node/ledger/ledger.h"
#include "plan/plan.h"
#include "node/usage/rows.h"

struct node_usage;

struct node_usage *node_usage_new(void);
struct node_usage *node_usage_free(struct node_usage *usage); /* accepts NULL, returns NULL */

/*
 * Replaces the processes of units on which this process sees none by the clients that the supervisor of MPS sees there:
 * it is in the host's PID namespace, and an agent need not be. Units without a daemon that serves stay as they are.
 * Processes beside MPS are not among them; their memory is then unattributed. Pure.
 */
void node_usage_name_clients(struct gpu_samples *samples, const struct mps_status *status);

/*
 * Takes |samples|. |plan| NULL: there is none yet. |may_ask|: kubelet may be asked. True: other pods with processes
 * have no name than before, and the pods of claims should be read again (dra_driver_read_pods()): one may have joined,
 * or the agent has just started.
 */
bool node_usage_add(struct node_usage *usage, struct gpu_samples *samples, struct ledger *ledger,
        const struct plan *plan, bool may_ask);

/* In |arena|, valid until the caller returns to the loop. */
struct node_usage_view {
        const struct usage *usage;            /* for the past; NULL: nothing is sampled */
        const struct gpu_samples *samples;    /* NULL: none yet */
        const struct inventory *inventory;    /* for indices; NULL: unknown */
        const struct node_pod_labels *labels; /* NULL: none are wanted */
        const struct usage_row *rows;
        size_t n_rows;
        const struct usage_share *shares;
        size_t n_shares;
        const pid_t *servers; /* of MPS */
        size_t n_servers;
        const struct mps_status *mps; /* NULL: no supervisor is connected */
        bool is_listed;               /* kubelet has listed the holders; else holders without MPS are unknown */
};
/* |usage| NULL: nothing is sampled; the view has allocations only. */
void node_usage_look(const struct node_usage *usage, const struct ledger *ledger, const struct plan *plan,
        struct arena *arena, struct node_usage_view *ret);

/* The newest sample of the unit; NULL: none yet. */
const struct gpu_sample *node_usage_find_sample(const struct node_usage_view *view, const char *uuid);

/* A daemon of the supervisor serves the unit, so that its clients are known. */
bool node_usage_is_served(const struct node_usage_view *view, const char *uuid);

/* The unit has processes that are not visible here, so a pod without any may have some of them. */
bool node_usage_has_hidden(const struct node_usage_view *view, const char *uuid);
