/*
 * The agent's one client of the API server. Whatever uses it works without: there is none where the agent does not know its node's name
 * (--node-name, NODE_NAME) or has no credentials (--kubeconfig, KUBECONFIG, or the service account of its pod).
 */
#pragma once

#include "config/config.h"
#include "kube/client.h"

/*
 * NULL where there is none, after a line in the log that says what is missing: at info where nothing was asked for, as error where what was
 * given cannot be used. Nothing is sent, and libcurl is not loaded before the first request.
 *
 * Close it with kube_client_close(), after all watches of it.
 */
struct kube_client *agent_api_new(uv_loop_t *loop, const struct config *config);
