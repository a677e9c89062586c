/*
 * Follows the value of one label of this node as long as the loop runs. It knows nothing of configurations.
 *
 * Before the API server's first answer the value is unknown, which differs from a node without the label; a node that
 * does not exist has no label. While the API server is away, its last answer counts.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct node_label;
struct node_watch;

struct node_label_options {
        struct node_watch *watch; /* outlives it */
        const char *key;
        void (*changed)(void *data); /* the value has changed, or is known now */
        /* The node cannot be read now; it is tried again. Called once per problem. */
        void (*trouble)(const struct error *error, void *data);
        void *data;
};

struct node_label *node_label_new(const struct node_label_options *options);

bool node_label_is_known(const struct node_label *label);
const char *node_label_value(
        const struct node_label *label); /* "": the node has no such label; valid until |changed| */

/* No callback after this. Accepts NULL, returns NULL. */
struct node_label *node_label_close(struct node_label *label);
