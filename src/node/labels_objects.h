/*
 * Labels as objects of the Kubernetes API: the NodeFeature that node-feature-discovery reads, and the node itself. Pure: JSON in, JSON
 * out. Functions that return json_t give a new reference.
 *
 * The NodeFeature has the name and the form that NVIDIA's gpu-feature-discovery gives it, so that one takes over from the other and there
 * are never two.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define LABELS_FIELD_MANAGER "warpshare-labels"

/* "…/namespaces/<namespace>/nodefeatures", with |node| its object of this node; the caller frees. */
char *labels_feature_path(const char *scope, const char *node);
char *labels_feature_name(const char *node);

/* |labels|: {key: value}. |owners|: a list, or NULL: what is there stays. All else of |object| stays as it is. */
void labels_feature_set(json_t *object, const char *node, json_t *labels, json_t *owners);

/* Of a pod: the DaemonSet that controls it, and itself; an empty list where no DaemonSet does. */
json_t *labels_feature_owners(const json_t *pod);

/* It has one of our labels (labels/labels.h), which NVIDIA's program never writes. */
bool labels_feature_is_ours(const json_t *object);

/* What LABELS_FIELD_MANAGER applies to the node; |labels| NULL: nothing, which takes all of its labels away. */
json_t *labels_node_object(const char *node, json_t *labels);
char *labels_node_path(const char *node);

/* LABELS_FIELD_MANAGER has labels on it. */
bool labels_node_is_ours(const json_t *node);
