/*
 * The condition and the taint of a node that cannot share a GPU; the taint as kubectl writes it. Pure: what
 * the options --node-taint and --node-condition may say.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

struct node_taint {
        const char *key;
        const char *value;  /* "" : none */
        const char *effect; /* "NoSchedule", "PreferNoSchedule" or "NoExecute" */
};

/*
 * "key=value:effect" or "key:effect". Key and value are checked as the API server does (the key is a qualified name,
 * the value that of a label), so that it does not refuse later what stands here now. Keys that Kubernetes manages
 * itself are refused.
 */
int node_taint_parse(struct node_taint *ret, struct arena *arena, const char *text, struct error *err) MUST_USE;

/* The key of a label, a taint or an annotation: "team", "app.kubernetes.io/name". */
bool qualified_name_is_valid(const char *text);

/* The type of a condition: a qualified name that is none of kubelet's own. */
int node_condition_check(const char *type, struct error *err) MUST_USE;
