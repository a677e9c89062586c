// SPDX-License-Identifier: Apache-2.0
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

#include <jansson.h>

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

/* ---- for commands, which do not wait for credentials ---- */

enum { AGENT_API_NONE = 1 };

/*
 * AGENT_API_NONE, with |err|: the name or the credentials are not given. An error: they cannot be used; the loop may
 * have handles to close then.
 */
int agent_api_open(struct kube_client **ret, uv_loop_t *loop, const struct config *config, struct error *err) MUST_USE;

/*
 * A command's visit: a loop and a client for all its requests, one after the other. A missing client is part of the
 * result, not an error of the command.
 */
struct api_visit {
        uv_loop_t loop;
        struct kube_client *client; /* NULL: there is none */
        bool is_outside; /* no client, because no node name or no credentials are given; false: they cannot be used */
        struct error why;
};

void api_visit_begin(struct api_visit *visit, const struct config *config);
void api_visit_end(struct api_visit *visit);

/* Runs the loop until a callback of a request sets |is_over|. */
void api_visit_wait(struct api_visit *visit, bool *is_over);

struct api_answer {
        unsigned int status; /* of HTTP; 0: none came */
        struct error error;  /* kind ERROR_NONE: it has succeeded */
        json_t *object;      /* of a success, for api_answer_done(); NULL: none */
        bool is_over;
};

void api_answer_done(struct api_answer *answer);

/* A kube_done_fn, with an api_answer as |data|, which api_visit_wait() waits for. */
void api_answer_take(const struct kube_answer *answer, void *data);

/* Sends |request|, whose |done| and |data| are set here, and waits for the answer. */
void api_ask(struct api_visit *visit, struct kube_request request, struct api_answer *ret);
