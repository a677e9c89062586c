/* The pages /metrics, /node and /healthz, and the port that serves them, which is opened again until that succeeds. */
#pragma once

#include "agent/modules.h"
#include "agent/retry.h"

struct agent_serving;

struct agent_page {
        struct agent *agent;
        const struct agent_serving *serving;
        struct metrics_http *http;          /* NULL: not open */
        struct agent_access *access;        /* NULL: everybody may read metrics */
        struct node_pod_labels *pod_labels; /* NULL: metrics have none */
        struct agent_retry retry;
};

void agent_page_init(struct agent_page *page, struct agent *agent, const struct agent_serving *serving);
/* Opens the port and watches the labels of pods, where the configuration wants them. */
void agent_page_begin(struct agent_page *page);
void agent_page_close(struct agent_page *page);
