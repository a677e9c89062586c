/*
 * The labels that the agent gives its node: of each generation, whatever the health of its GPUs. They stay when the agent stops, so
 * that a restart changes nothing; `warpshare labels --remove` and `warpshare uninstall` take them away.
 *
 * The label with the time is there only where the file says noTimestamp: false, since it would differ after each restart.
 */
#pragma once

#include <uv.h>

#include "config/config.h"
#include "gpu/inventory.h"
#include "kube/client.h"
#include "share/plan.h"

struct agent_labels;
struct node_watch;

/*
 * NULL where no labels are wanted, or they cannot go where they are to, which is logged. |client| and |watch| NULL: the API server is not
 * spoken to; they must outlive the labels. If it has no credentials yet, labels are not published there before agent_labels_connected().
 */
struct agent_labels *agent_labels_new(
        uv_loop_t *loop, struct kube_client *client, struct node_watch *watch, const struct config *config);

/*
 * |plan| NULL: none can be made of these. Then nothing changes, unless it is the MIG layout that migStrategy single cannot have, which
 * is told. Accepts NULL.
 */
void agent_labels_apply(struct agent_labels *labels, const struct config *config, const struct inventory *inventory,
        const struct plan *plan);

/* |client| has its credentials now. Accepts NULL. */
void agent_labels_connected(struct agent_labels *labels, const struct kube_client *client);

/* Accepts NULL, returns NULL. */
struct agent_labels *agent_labels_close(struct agent_labels *labels);
