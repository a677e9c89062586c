/*
 * The value of one label of this node, followed for as long as the loop runs. It knows nothing of configurations.
 *
 * Until the API server has told for the first time, the value is not known, which is something else than a node without the label;
 * a node that is not there has none. While the API server is away, what it said last counts.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct node_label;
struct node_watch;

struct node_label_options {
        struct node_watch *watch; /* outlives it */
        const char *key;
        void (*changed)(void *data); /* the value, or that it is known now */
        /* The node cannot be read now; it is tried again. Once for each trouble. */
        void (*trouble)(const struct error *error, void *data);
        void *data;
};

struct node_label *node_label_new(const struct node_label_options *options);

bool node_label_is_known(const struct node_label *label);
const char *node_label_value(
        const struct node_label *label); /* "": the node has no such label; valid until |changed| */

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct node_label *node_label_close(struct node_label *label);
