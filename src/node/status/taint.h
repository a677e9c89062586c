/*
 * A taint of ours among the taints of a node. Pure: it changes a Node object from the API server. The caller sends it
 * back with its resourceVersion, since the list is replaced as a whole.
 *
 * The annotation NODE_TAINT_ANNOTATION says which taint is ours, as key=value:effect. So a taint of another client is
 * never changed, even if it has our key and effect (the API server allows only one taint per key and effect): it then
 * serves as ours. The same holds for a taint whose value another client changed. And an agent with another option, and
 * uninstall, find the taint that we set.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "config/kube_name.h"

#define NODE_TAINT_ANNOTATION "warpshare.dev/taint"

/* |wanted| NULL: remove ours. False: nothing had to be changed. */
bool node_taint_merge(json_t *node, const struct node_taint *wanted);

/* The annotation's value, or NULL. */
const char *node_taint_of(const json_t *node);
