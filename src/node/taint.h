/*
 * A taint of ours among the taints of a node. Pure: it changes a Node object as the API server gave it; who sends it back sends
 * its resourceVersion with it, since the list goes as a whole.
 *
 * The annotation NODE_TAINT_ANNOTATION says which taint is ours, as key=value:effect. So one of somebody else's is never
 * touched, though it has our key and our effect (the API server allows only one of both together): then theirs stands for ours. So is one
 * whose value somebody has changed. And what we set is found again by an agent with another option, and by uninstall.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "config/node_taint.h"

#define NODE_TAINT_ANNOTATION "warpshare.dev/taint"

/* |wanted| NULL: none of ours is to be there. False: nothing had to be changed. */
bool node_taint_merge(json_t *node, const struct node_taint *wanted);

/* The annotation's value, or NULL. */
const char *node_taint_of(const json_t *node);
