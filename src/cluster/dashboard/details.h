// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the JSON for the pages of one node, GPU or pod, and of events. Pure. All numbers that are not known are
 * absent, as on the page of a node (node/report/node_page.h), whose names these are; memory is in bytes, a ratio is
 * from 0 to 1, a time in Unix seconds.
 *
 *     GET /api/v1/nodes/NAME           {"name", "state", "reason", "pageTime", "agent": {"namespace", "pod", "version", "image", "restarts"},
 *                                       "driver", "configuration", "isReady", "isCordoned", "kubelet", "resources": [{"name", "capacity",
 *                                       "allocatable"}], "taints": ["key=value:effect"], "conditions": [{"type", "status", "reason",
 *                                       "message", "since"}], "gpus": [GPU], "events": [EVENT]}
 *     GET /api/v1/gpus/UUID            {"node", "state", "reason", "pageTime", "gpu": GPU, "events": [EVENT]}; also by the UUID of a MIG device
 *     GET /api/v1/pods/NAMESPACE/NAME  {"namespace", "name", "shares": [{"node", "gpu", "model", "unit": UNIT without shares, "share":
 *                                       SHARE}], "waiting": WAITING, "events": [EVENT]}
 *                                       and of one that waits, where its object could be read, "why": {"sentence", "todo", "nodes":
 *                                       [{"names", "reason"}], for those who see all}
 *     GET /api/v1/pods?namespace=NAME  {"namespaces": [{"name", "pods", "waiting", "granted", "used", "sm", "isIdle", "idleSince"}],
 *                                       "pods": [{"namespace", "pod", "container", "node", "gpu", "unit", "index", "replicas", "of",
 *                                       "granted", "used", "sm", "isIdle", "idleSince"}], "isCut": true}: of all namespaces, and
 *                                       the shares of one, or of all; "granted" and "used" are bytes. A share is idle if its SMs
 *                                       do nothing, or if it has no process; a namespace, if all of its shares are
 *     GET /api/v1/events               {"events": [EVENT], "waiting": [WAITING], "leftOut": {NAMESPACE: pods that
 *                                       wait and are not in the list}, "isCut": true}; the newest first
 *
 * GPU: "uuid", "index", "model", "memory", "memoryUsed", "utilization", "temperature", "power", "powerLimit", "units":
 * [UNIT] UNIT: "uuid", "index", "profile", "resource", "sharing", "by", "replicas", "granted", "reserved", "memory",
 * "memoryUsed", "utilization",
 *       "healthy", "reason", "history": [ratio], "shares": [SHARE], "others": [{"by", "memoryUsed", "sm"}]
 * SHARE: "namespace", "pod", "container", "claim", "replicas", "memoryLimit", "threadPercent", "memoryUsed",
 * "memoryPeak", "sm", "seconds",
 *        "smSeconds", "energy", "history"; of a share that the viewer may not know only "hidden": true, and what it was granted and uses
 * EVENT: "node", "time", "kind", "reason", "unit", "text"
 * WAITING: "namespace", "name", "phase", "reason", "message", "owner", "created", "requests": [{"resource", "count"}],
 * "claims": [name]
 */
#pragma once

#include <jansson.h>

#include "cluster/cluster.h"
#include "cluster/dashboard/viewer.h"

#define DASHBOARD_EVENTS_MAX ((size_t)500)
#define DASHBOARD_PODS_MAX ((size_t)1000)   /* lines; of more the first by namespace and pod */
#define DASHBOARD_WAITING_MAX ((size_t)500) /* of more pods, an equal part of each namespace's is written */

/* Each returns a new reference, or NULL if it does not exist or the viewer may not know it. */
json_t *dashboard_node(const struct cluster_view *view, const struct dashboard_scope *scope, const char *name);
json_t *dashboard_gpu(const struct cluster_view *view, const struct dashboard_scope *scope, const char *uuid);
json_t *dashboard_pod(
        const struct cluster_view *view, const struct dashboard_scope *scope, const char *namespace, const char *name);
/* NULL: none. For a pod, the first node on which it has a share. */
const struct cluster_node *dashboard_node_of_gpu(const struct cluster_view *view, const char *uuid);
const struct cluster_node *dashboard_node_of_pod(
        const struct cluster_view *view, const char *namespace, const char *name);
/* Adds to the answer of dashboard_pod() why the pod waits. |object|: the Pod. */
void dashboard_add_why(
        json_t *ret, const struct cluster_view *view, const struct dashboard_scope *scope, const json_t *object);
/* |namespace| NULL: the shares of all. */
json_t *dashboard_pods(const struct cluster_view *view, const struct dashboard_scope *scope, const char *namespace);
json_t *dashboard_events(const struct cluster_view *view, const struct dashboard_scope *scope);
