// SPDX-License-Identifier: Apache-2.0
/*
 * The pages /metrics, /node and /healthz, and the port that serves them, which is opened again until that succeeds.
 *
 * Who may read them is asked of the API server (net/kube/access.h), as kube-rbac-proxy asks it. The right is `get` of
 * the page's path, /metrics or /node, as a nonResourceURL of RBAC. Where the API server is not used, reading is always
 * refused.
 */
#pragma once

#include "agent/agent.h"
#include "base/io/loop.h"

struct agent_serving;

/* A client without rights can cause each of these as often as it likes. */
enum page_trouble { NO_TROUBLE, NOT_ANSWERED, TOO_MANY, N_TROUBLES };

struct agent_page {
        struct agent *agent;
        const struct agent_serving *serving;
        struct metrics_http *http;          /* NULL: not open */
        struct kube_access *access;         /* NULL: everybody may read metrics, or the API server is not used */
        enum page_trouble trouble;          /* of the last answer about a reader */
        uint64_t warn_at[N_TROUBLES];       /* the next warning of each is not before */
        struct node_pod_labels *pod_labels; /* NULL: metrics have none */
        struct retry retry;
};

void agent_page_init(struct agent_page *page, struct agent *agent, const struct agent_serving *serving);
/* Opens the port and watches the labels of pods, where the configuration wants them. */
void agent_page_begin(struct agent_page *page);
void agent_page_close(struct agent_page *page);
