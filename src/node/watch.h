/*
 * This node's object in the API, followed by one watch for all who want to know of it: the label that names the configuration, and what
 * the agent keeps on the node. It knows neither.
 *
 * Watched is from the first listener on; without any, nothing is asked. Who comes when the loop goes on already hears of the next change only. A node that was deleted and
 * made anew (kubelet registered again) is another object of the same name: that is logged, and told as any change.
 */
#pragma once

#include <jansson.h>

#include "base/list.h"
#include "kube/client.h"

struct node_watch;

/* Callbacks come from the loop, and may end this listener, any other, and the watch. */
struct node_listener {
        void (*on_node)(const json_t *node, void *data); /* new or changed, borrowed; NULL: there is none any more */
        void (*on_synced)(void *data);                   /* what was told is all (kube/watch.h); may be NULL */
        /* The node cannot be watched now; it is tried again. Once for each trouble. Where no listener has this, the watch logs it. */
        void (*on_trouble)(const struct error *error, void *data);
        void *data;
        struct list link; /* of the watch, as is: */
        unsigned int reported;
};

/* |client| must outlive the watch. */
struct node_watch *node_watch_new(struct kube_client *client, const char *node);

/* |listener| is borrowed until it leaves. */
void node_watch_listen(struct node_watch *watch, struct node_listener *listener);
void node_watch_leave(struct node_listener *listener);

/* After the last listener has left. Accepts NULL, returns NULL. */
struct node_watch *node_watch_close(struct node_watch *watch);
