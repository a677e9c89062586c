/*
 * The labels that the agent gives its node, for each generation; the health of GPUs does not change them. They stay
 * when the agent stops, so that a restart changes nothing; `warpshare labels --remove` and `warpshare uninstall` remove
 * them.
 *
 * The label with the time is set only with noTimestamp: false in the file, because it changes with each restart.
 */
#pragma once

#include <uv.h>

#include "config/config.h"
#include "gpu/inventory.h"
#include "net/kube/client.h"
#include "plan/plan.h"

struct agent_labels;
struct node_watch;

/*
 * Returns NULL if labels are off, or if they are to go to the API server and that is not used, which is logged.
 * |client| and |watch| must outlive the labels; NULL: the API server is not used. While the client has no credentials,
 * labels are not published there; agent_labels_connected() says when it has.
 */
struct agent_labels *agent_labels_new(
        uv_loop_t *loop, struct kube_client *client, struct node_watch *watch, const struct config *config);

/*
 * Publishes the labels of a generation. |plan| NULL: no plan can be made. Then the labels stay, unless the reason is a
 * MIG layout that migStrategy single does not allow: the labels say that it is invalid. Accepts NULL.
 */
void agent_labels_apply(struct agent_labels *labels, const struct config *config, const struct inventory *inventory,
        const struct plan *plan);

/* To be called when |client| has its credentials. Accepts NULL. */
void agent_labels_connected(struct agent_labels *labels, const struct kube_client *client);

/* Accepts NULL, returns NULL. */
struct agent_labels *agent_labels_close(struct agent_labels *labels);
