// SPDX-License-Identifier: Apache-2.0
/*
 * Names and texts of Kubernetes that options and the file may have, checked as the API server does, so that it does not
 * refuse later what stands here now: the condition and the taint of a node that cannot share a GPU, labels of pods, and
 * extended resources. Pure. Errors begin with the value.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

#define RESOURCE_NAME_PREFIX "nvidia.com/"
#define RESOURCE_NAME_SHARED ".shared" /* appended by renameByDefault */
#define RESOURCE_NAME_MAX ((size_t)63)
#define POD_LABELS_MAX ((size_t)8) /* that metrics repeat */

struct node_taint {
        const char *key;
        const char *value;  /* "" : none */
        const char *effect; /* "NoSchedule", "PreferNoSchedule" or "NoExecute" */
};

/*
 * "key=value:effect" or "key:effect", as kubectl writes it: the key is a qualified name, the value that of a label.
 * Keys that Kubernetes manages itself are refused.
 */
int node_taint_parse(struct node_taint *ret, struct arena *arena, const char *text, struct error *err) MUST_USE;

/* The type of a condition: a qualified name that is none of kubelet's own. */
int node_condition_check(const char *type, struct error *err) MUST_USE;

/*
 * Checks the keys of labels of pods, NULL-terminated: they are at most POD_LABELS_MAX, and no two have the same name in
 * metrics. Returns those names in |arena|, in their order: "label_" and the key, with '_' for what a name of Prometheus
 * cannot have, as kube-state-metrics writes them.
 */
int pod_labels_name(const char *const **ret, struct arena *arena, const char *const *keys, struct error *err) MUST_USE;

/*
 * An extended resource as NVIDIA's plugin forms and accepts it: "nvidia.com/<RFC 1123 subdomain>", 63 bytes at most.
 * The full name, with the prefix added where it is not there.
 */
int resource_name_check(const char *name, struct arena *arena, const char **ret, struct error *err) MUST_USE;
