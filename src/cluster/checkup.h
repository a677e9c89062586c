// SPDX-License-Identifier: Apache-2.0
/*
 * Finds what is wrong with one node, from afar: by its Node object, its agent, the agent's page of its GPUs, and its
 * events. Pure. Findings have the form of `warpshare doctor`, which runs on the node itself and sees more.
 */
#pragma once

#include <jansson.h>

#include "cluster/cluster.h"

struct checkup_input {
        const struct cluster_view *view; /* with the pods that kubelet refused */
        const struct cluster_node *node;
        const char *health;         /* what /healthz of the agent says; NULL: it was not asked, or did not answer */
        unsigned int health_status; /* 200: nothing is wrong */
        const json_t *events;       /* core/v1 events of the Node object, the oldest first; NULL: not known */
        int64_t now;                /* Unix seconds */
};

#define CHECKUP_EVENTS 10U              /* warnings that are shown, the newest */
#define CHECKUP_EVENT_AGE INT64_C(3600) /* seconds: older ones are not */
#define CHECKUP_PAGE_AGE INT64_C(120)   /* seconds since the newest sample; more is a finding */

/*
 * Objects with "verdict" ("ok", "note", "wrong", "skipped"), "check", "found" and perhaps "means" and "todo"; a new
 * reference.
 */
json_t *checkup_make(const struct checkup_input *input);
