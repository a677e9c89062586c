/*
 * Decides who may read the agent's pages: the API server is asked (net/kube/access.h), as kube-rbac-proxy asks it. The
 * right is `get` of the page's path, /metrics or /node, as a nonResourceURL of RBAC.
 */
#pragma once

#include "net/kube/client.h"
#include "net/metrics/http.h"

struct agent_access;

/* |client| NULL: the API server is not used, and reading is always refused. */
struct agent_access *agent_access_new(struct kube_client *client);

/* The callbacks of net/metrics/http.h. */
void *agent_access_ask(
        struct agent_access *access, const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting);
void agent_access_cancel(void *question);

/* After the server of the pages. Accepts NULL, returns NULL. */
struct agent_access *agent_access_close(struct agent_access *access);
