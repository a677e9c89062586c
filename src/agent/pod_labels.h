/*
 * Labels of the pods of this node, those that an operator has chosen (config/pod_labels.h), for metrics. The pods are
 * watched as long as this exists, by their metadata alone; of each only its name and these labels are kept. Where they
 * cannot be read, there are none, and the log says why.
 */
#pragma once

#include "net/kube/client.h"

#define AGENT_POD_LABELS_PODS ((size_t)2048) /* on one node; more are an error */

struct agent_pod_labels;

/* |keys|, NULL-terminated, and |names| are copied; |client| is borrowed. */
struct agent_pod_labels *agent_pod_labels_new(
        struct kube_client *client, const char *node, const char *const *keys, const char *const *names);

/* Names in metrics, NULL-terminated. |labels| may be NULL, here and below: no names. */
const char *const *agent_pod_labels_names(const struct agent_pod_labels *labels);

/*
 * The values, in the order of the names, NULL where the pod has none; NULL: it has none of them. Valid until the loop
 * goes on.
 */
const char *const *agent_pod_labels_find(
        const struct agent_pod_labels *labels, const char *pod_namespace, const char *pod);

struct agent_pod_labels *agent_pod_labels_close(struct agent_pod_labels *labels); /* accepts NULL, returns NULL */
