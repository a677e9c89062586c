/*
 * Keeps labels and annotations on this node's object that one field manager owns: by server-side apply, so those of
 * others are not touched, and what the newest no longer has is removed. node/status/reconcile.h writes and restores
 * them. It does not know what they say.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "net/kube/client.h"

#define NODE_APPLY_RETRY_MS UINT64_C(5000)
#define NODE_APPLY_RETRY_MAX_MS UINT64_C(300000)

struct node_apply;
struct node_watch;

struct node_apply_options {
        struct kube_client *client; /* must outlive the node_apply */
        struct node_watch *watch;   /* of that node; must outlive the node_apply */
        const char *node;
        const char *manager; /* the field manager; borrowed */
        const char *what;    /* for the log: "annotations"; borrowed */
};

struct node_apply *node_apply_new(const struct node_apply_options *options);

/* |object| is a node with what it is to have, and takes the place of the one before; its reference is taken over. */
void node_apply_put(struct node_apply *apply, json_t *object);

/* Nothing is sent after this. Accepts NULL, returns NULL. */
struct node_apply *node_apply_close(struct node_apply *apply);

/* True if |node|, from the API server, has all labels and annotations of |object|. Pure. */
bool node_apply_is_on(const json_t *node, const json_t *object);
