/*
 * Labels in objects of the Kubernetes API: in the NodeFeature that node-feature-discovery reads, and in the node
 * itself. Pure: JSON in, JSON out. Functions that return json_t give a new reference.
 *
 * The NodeFeature has the same name and form as that of NVIDIA's gpu-feature-discovery, so that each can replace the
 * other's and there are never two.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define LABELS_FIELD_MANAGER "warpshare-labels"

/* Returns "…/namespaces/<namespace>/nodefeatures"; |node| is the name of its object for this node. The caller frees. */
char *labels_feature_path(const char *scope, const char *node);
char *labels_feature_name(const char *node);

/* |labels|: {key: value}. |owners|: a list, or NULL: keep the present ones. Everything else in |object| stays. */
void labels_feature_set(json_t *object, const char *node, json_t *labels, json_t *owners);

/* The owners of a pod's NodeFeature: its DaemonSet and the pod; an empty list if no DaemonSet controls the pod. */
json_t *labels_feature_owners(const json_t *pod);

/* It has one of our own labels (node/labels/labels.h), which NVIDIA's program never writes. */
bool labels_feature_is_ours(const json_t *object);

/* The object that LABELS_FIELD_MANAGER applies to the node. |labels| NULL: one that removes all of its labels. */
json_t *labels_node_object(const char *node, json_t *labels);
char *labels_node_path(const char *node);

/* LABELS_FIELD_MANAGER has set labels on it. */
bool labels_node_is_ours(const json_t *node);
