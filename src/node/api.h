/*
 * The API server, as a node's agent and the commands for its node speak to it: under the node's name (--node-name, NODE_NAME), with the
 * credentials of a kubeconfig (--kubeconfig, KUBECONFIG) or of the pod's service account. Whatever uses it works without.
 *
 * The agent does not insist that credentials are right when it starts: its client is there as soon as any are named, and looks for
 * them again, with back-off, until they can be used. Meanwhile its requests wait (kube/client.h).
 *
 *     none                nothing is named, and that does not change: no client
 *     waiting ──found──► connected
 *      ▲   └──wrong──┐
 *      └─────────────┘
 */
#pragma once

#include "config/config.h"
#include "kube/client.h"

/* Between two looks at credentials that cannot be used. */
#define AGENT_API_RETRY_MS UINT64_C(1000)
#define AGENT_API_RETRY_MAX_MS UINT64_C(30000)

struct agent_api;

struct agent_api_options {
        uv_loop_t *loop;
        const struct config *config; /* may go */
        /* It is connected now, if it was not when agent_api_new() returned. */
        void (*connected)(void *data);
        void *data;
};

/*
 * NULL for none, after a line in the log that says what is missing: at info where nothing was asked for, as error where the node's name can
 * be none. What is wrong with credentials is logged once. Nothing is sent, and libcurl is not loaded before the first request.
 */
struct agent_api *agent_api_new(const struct agent_api_options *options);

/* NULL without an API; accepts NULL. */
struct kube_client *agent_api_client(struct agent_api *api);

/* Looks for credentials at once, if there are none yet, and says what is wrong again. Accepts NULL. */
void agent_api_refresh(struct agent_api *api);

/* Closes the client, after all watches of it. Accepts NULL, returns NULL. */
struct agent_api *agent_api_close(struct agent_api *api);

/* ---- for commands, which do not wait ---- */

enum { AGENT_API_NONE = 1 };

/*
 * AGENT_API_NONE, and |err| says what: the name or the credentials are not given. An error: they cannot be used; the loop may have something
 * to close then.
 */
int agent_api_open(struct kube_client **ret, uv_loop_t *loop, const struct config *config, struct error *err) MUST_USE;
