// SPDX-License-Identifier: Apache-2.0
/*
 * Labels of the pods of this node, those that an operator has chosen (config/kube_name.h), for metrics. The pods are
 * watched as long as this exists, by their metadata alone; of each only its name and these labels are kept. Where they
 * cannot be read, there are none, and the log says why.
 */
#pragma once

#include "net/kube/client.h"

#define NODE_POD_LABELS_MAX ((size_t)2048) /* on one node; more are an error */

struct node_pod_labels;

/* |keys|, NULL-terminated, and |names| are copied; |client| is borrowed. */
struct node_pod_labels *node_pod_labels_new(
        struct kube_client *client, const char *node, const char *const *keys, const char *const *names);

/* Names in metrics, NULL-terminated. |labels| may be NULL, here and below: no names. */
const char *const *node_pod_labels_names(const struct node_pod_labels *labels);

/*
 * The values, in the order of the names, NULL where the pod lacks the label; NULL: it lacks all of them. Valid until
 * the caller returns to the loop.
 */
const char *const *node_pod_labels_find(
        const struct node_pod_labels *labels, const char *pod_namespace, const char *pod);

struct node_pod_labels *node_pod_labels_close(struct node_pod_labels *labels); /* accepts NULL, returns NULL */
