// SPDX-License-Identifier: Apache-2.0
/*
 * GET /api/v1/search?q=TEXT: nodes, GPUs and pods whose name contains the text, in any case. Pure.
 *
 *         {"nodes": ["node-a"], "gpus": [{"node", "uuid", "index", "model"}], "pods": [{"namespace", "pod", "node", "unit"}],
 *          "marks": {"GPU-…": [0, 3]}, "isCut": true}
 *
 * "pods" has one row for each share, and each waiting pod (without node and unit), whose "namespace/pod/container", or
 * claim, contains the text; "marks" says where those shares stand in the lists of shares of their units, for the map.
 * GPUs are found by the UUID of the GPU or of a MIG device, and by their model. Lists are cut at DASHBOARD_FOUND_MAX,
 * marks at DASHBOARD_MARKS_MAX; "isCut" says that there are more.
 */
#pragma once

#include <jansson.h>

#include "cluster/cluster.h"
#include "cluster/dashboard/viewer.h"

#define DASHBOARD_QUERY_MAX ((size_t)256) /* bytes; the rest is ignored */
#define DASHBOARD_FOUND_MAX ((size_t)100)
#define DASHBOARD_MARKS_MAX ((size_t)20000)

/* A new reference. An empty text finds nothing. */
json_t *dashboard_search(const struct cluster_view *view, const struct dashboard_scope *scope, const char *query);
