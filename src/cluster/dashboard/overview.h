// SPDX-License-Identifier: Apache-2.0
/*
 * The whole cluster as the map shows it, small: GET /api/v1/overview.
 *
 *         {"version": "9f3c…-0-17", "full": true, "time": 1764175683, "seesAll": true, "isComplete": true,
 *          "troubles": ["…"], "waiting": 3, "gone": ["node-x"], "nodes": [{
 *                 "name": "node-a", "state": "answers", "reason": "…", "pageTime": 1764175680, "isReady": true, "isCordoned": false,
 *                 "namespaces": ["team-a", "team-b"], "gpus": [{
 *                         "uuid": "GPU-…", "index": "0", "model": "NVIDIA H100 80GB HBM3", "memory": 85899345920, "used": 31, "sm": 20,
 *                         "units": [{
 *                                 "uuid": "GPU-…", "index": "0", "profile": "1g.10gb", "sharing": "mps", "by": "device-plugin",
 *                                 "replicas": 10, "granted": 7, "reserved": 2, "unhealthy": "…",
 *                                 "shares": [[300, 45, 12, 0], …]}]}]}]}
 *
 * Of a share: how much of its unit it was granted, in thousandths; how much of its memory limit it uses, and of the
 * unit's SMs, both in percent; whose it is, an index of |namespaces|. What is not known is absent, or null in a share.
 * "unhealthy" is there where the unit is: the reason, or "".
 *
 * |version| is for the next question, ?since=VERSION: "nodes" has then only those that have changed since, "gone" the
 * names of those that were deleted, and "full" is false. An unknown version is answered with all. So what has not
 * changed is not sent again, and a cluster of 4,000 GPUs on which nothing happens costs some hundred bytes.
 */
#pragma once

#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/dashboard/viewer.h"
#include "net/http/server.h"

struct dashboard_overview;

/* |boot|: any number that the process before did not have. */
struct dashboard_overview *dashboard_overview_new(uint64_t boot);
struct dashboard_overview *dashboard_overview_free(
        struct dashboard_overview *overview); /* accepts NULL, returns NULL */

/* |since|: may be NULL. The answer has a reference for the caller; all viewers who see all share it. */
struct http_text *dashboard_overview_write(struct dashboard_overview *overview, const struct cluster_view *view,
        const struct dashboard_scope *scope, const char *since, int64_t now);

/* Whether the node has to do with GPUs at all: others are not shown. */
bool dashboard_overview_shows(const struct cluster_node *node);
