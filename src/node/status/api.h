/*
 * Access to the API server for a node's agent and for the commands: with the node's name (--node-name, NODE_NAME) and
 * the credentials of a kubeconfig (--kubeconfig, KUBECONFIG) or of the pod's service account. All users of this module
 * also work without access.
 *
 * The agent has a client as soon as any credentials are configured. They are read AGENT_API_BEGIN_MS later, and again,
 * with back-off, until they can be used. Meanwhile its requests wait (net/kube/client.h).
 *
 *     none                nothing is named, and that does not change: no client
 *     waiting ──found──► connected
 *      ▲   └──wrong──┐
 *      └─────────────┘
 */
#pragma once

#include "config/config.h"
#include "net/kube/client.h"

/*
 * The first request blocks the loop until libcurl is loaded, 4 to 17 ms. After this time kubelet has the devices, or
 * the GPUs are still being read and the loop has nothing to do. What kubelet asks earlier and needs the API server
 * waits until then. Who cannot wait calls agent_api_refresh().
 */
#define AGENT_API_BEGIN_MS UINT64_C(50)
/* Pause between two attempts to read credentials that cannot be used. */
#define AGENT_API_RETRY_MS UINT64_C(1000)
#define AGENT_API_RETRY_MAX_MS UINT64_C(30000)

struct agent_api;

struct agent_api_options {
        uv_loop_t *loop;
        const struct config *config; /* may go */
        /* Called once: its requests are sent from now on. */
        void (*connected)(void *data);
        void *data;
};

/*
 * NULL if there is none, after a log line that says what is missing: at level info if no access was configured, as an
 * error if the node's name is invalid. A problem with credentials is logged once.
 */
struct agent_api *agent_api_new(const struct agent_api_options *options);

/* NULL without access; accepts NULL. */
struct kube_client *agent_api_client(struct agent_api *api);

/* Reads credentials at once, if there are none yet, and logs a problem again. Accepts NULL. */
void agent_api_refresh(struct agent_api *api);

/* Closes the client, after all watches of it. Accepts NULL, returns NULL. */
struct agent_api *agent_api_close(struct agent_api *api);

/* ---- for commands, which do not wait ---- */

enum { AGENT_API_NONE = 1 };

/*
 * AGENT_API_NONE, with |err|: the name or the credentials are not given. An error: they cannot be used; the loop may
 * have handles to close then.
 */
int agent_api_open(struct kube_client **ret, uv_loop_t *loop, const struct config *config, struct error *err) MUST_USE;
