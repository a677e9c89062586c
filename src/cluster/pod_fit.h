/*
 * Whether a pod may be on a node, as far as labels and taints decide it:
 * https://kubernetes.io/docs/concepts/scheduling-eviction/. Pure. A condition with an operator that is not known here
 * counts as met.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cluster/node.h"

/* The first taint of the node that keeps the pod away (NoSchedule or NoExecute); NULL: it tolerates all of them. */
const struct cluster_taint *pod_fit_taint(const json_t *pod, const struct cluster_node *node);

/* spec.nodeSelector and the required node affinity select the node. */
bool pod_fit_is_selected(const json_t *pod, const struct cluster_node *node);
