// SPDX-License-Identifier: Apache-2.0
/*
 * The condition and the taint on this node's object in the API, where they are configured, so that schedulers and
 * people see whether the node can share a GPU (node/status/report.h).
 *
 *   condition   always there: True, False, with the reason; sent by server-side apply under a field manager of its own,
 *               so that kubelet's conditions, and those of others, are not touched
 *   taint       there while the node is not ready; sent with the list it was read with
 *
 * A node must be not ready for NODE_STATE_SETTLE_MS before it is marked: most Xids are over by then. All other changes
 * are sent at once. At least every NODE_STATE_REFRESH_MS the state is sent again, as the heartbeat of the condition.
 * node/status/reconcile.h keeps it there; if the node cannot be watched, a change by another client stays until the
 * heartbeat.
 *
 * Without either option it reads the node once, and removes what an earlier agent left. A stop leaves both as they are:
 * a new agent starts soon, or `warpshare uninstall` removes them. RBAC: get and patch of nodes, patch of nodes/status.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "config/kube_name.h"
#include "node/status/report.h"

#define NODE_STATE_SETTLE_MS UINT64_C(5000)
#define NODE_STATE_REFRESH_MS (UINT64_C(300) * 1000)
#define NODE_STATE_MANAGER "warpshare-condition" /* of the condition: one of an earlier type is removed by the apply */

struct kube_client;
struct node_state;
struct node_watch;

struct node_state_options {
        uv_loop_t *loop;
        struct kube_client *client; /* must outlive the state, like the next one */
        struct node_watch *watch;   /* the watch of that node */
        const char *node;
        const char *condition; /* its type; "": none */
        const char *taint;     /* as config/kube_name.h reads it; "": none */
};

/* |client| NULL: NULL. The options were checked when they were parsed. */
struct node_state *node_state_new(const struct node_state_options *options);

/*
 * False at first: nothing is read or sent. Once true, the newest state is enforced against changes by other clients.
 * Accepts NULL.
 */
void node_state_serve(struct node_state *state, bool is_serving);

/* Accepts NULL. The status NODE_UNKNOWN changes nothing. */
void node_state_set(struct node_state *state, const struct node_condition *condition);

/* Accepts NULL. */
void node_state_close(struct node_state *state);

/* A field of the object's status is ours by server-side apply, that is, a condition. */
bool node_state_has_condition(const json_t *node);

/* The body to apply to the status; |condition| NULL removes the present one. A new reference. */
json_t *node_state_status(const char *node, json_t *condition);

/* ---- the taint; pure ---- */

/*
 * These change a Node object from the API server. The caller sends it back with its resourceVersion, since the list of
 * taints is replaced as a whole.
 *
 * The annotation NODE_TAINT_ANNOTATION says which taint is ours, as key=value:effect. So a taint of another client is
 * never changed, even if it has our key and effect (the API server allows only one taint per key and effect): it then
 * serves as ours. The same holds for a taint whose value another client changed. And an agent with another option, and
 * uninstall, find the taint that we set.
 */
#define NODE_TAINT_ANNOTATION "warpshare.dev/taint"

/* |wanted| NULL: remove ours. False: nothing had to be changed. */
bool node_taint_merge(json_t *node, const struct node_taint *wanted);

/* The annotation's value, or NULL. */
const char *node_taint_of(const json_t *node);
