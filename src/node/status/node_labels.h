// SPDX-License-Identifier: Apache-2.0
/*
 * The labels of this node: reads from the machine what node/labels/labels.h needs besides configuration, GPUs and plan,
 * and publishes them for an agent (node/status/labels_publisher.h). Warnings are logged; a text is not repeated while
 * it stays the same.
 */
#pragma once

#include "node/labels/labels.h"
#include "node/status/labels_publisher.h"

#define LABELS_MACHINE_FILE "/sys/class/dmi/id/product_name"

/* The last warnings. Zeroed at first. */
struct labels_warnings {
        char *text;
};

/*
 * Under migStrategy single no plan is possible for these MIG devices, however they are shared; then the labels are made
 * without one.
 */
bool labels_layout_is_invalid(const struct config *config, const struct inventory *inventory);

/*
 * |input| without what is read from the machine. |machine_file| NULL: the machine's LABELS_MACHINE_FILE; "": none. The
 * labels are in |arena|.
 */
void labels_make(struct labels *ret, struct arena *arena, struct labels_input input, const char *machine_file,
        struct labels_warnings *warnings);

void labels_warnings_done(struct labels_warnings *warnings);

/* ---- an agent's ---- */

/*
 * The labels that the agent gives its node, for each generation; the health of GPUs does not change them. They stay
 * when the agent stops, so that a restart changes nothing; `warpshare labels --remove` and `warpshare uninstall` remove
 * them. The label with the time is set only with noTimestamp: false in the file, because it changes with each restart.
 */
struct node_labels;

/*
 * Returns NULL if labels are off, or if they are to go to the API server and that is not used, which is logged.
 * |client| and |watch| must outlive the labels; NULL: the API server is not used. While the client has no credentials,
 * labels are not published there; node_labels_connected() says when it has.
 */
struct node_labels *node_labels_new(
        uv_loop_t *loop, struct kube_client *client, struct node_watch *watch, const struct config *config);

/*
 * Publishes the labels of a generation. |plan| NULL: no plan can be made. Then the labels stay, unless the reason is a
 * MIG layout that migStrategy single does not allow: the labels say that it is invalid. Accepts NULL.
 */
void node_labels_apply(struct node_labels *labels, const struct config *config, const struct inventory *inventory,
        const struct plan *plan);

/* To be called when |client| has its credentials. Accepts NULL. */
void node_labels_connected(struct node_labels *labels, const struct kube_client *client);

/* Accepts NULL, returns NULL. */
struct node_labels *node_labels_close(struct node_labels *labels);
