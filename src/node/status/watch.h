/*
 * Follows this node's object in the API with one watch for all listeners: for the label that names the configuration,
 * and for what the agent keeps on the node. It knows neither.
 *
 * The watch starts with the first listener. A listener that is added after the first list gets the next change only. A
 * node that was deleted and created again (kubelet registered again) is another object of the same name: this is
 * logged, and reported like any change.
 */
#pragma once

#include <jansson.h>

#include "base/list.h"
#include "net/kube/client.h"

struct node_watch;

/* Callbacks come from the loop, and may remove this listener or any other, and close the watch. */
struct node_listener {
        void (*on_node)(const json_t *node, void *data); /* new or changed, borrowed; NULL: the node does not exist any
                                                          * more */
        void (*on_synced)(void *data);                   /* the state is complete (net/kube/watch.h); may be NULL */
        /*
         * The node cannot be watched now; it is tried again. Called once per problem. If no listener has this callback,
         * the watch logs it.
         */
        void (*on_trouble)(const struct error *error, void *data);
        void *data;
        struct list link; /* private to the watch: */
        unsigned int reported;
};

/* |client| must outlive the watch. */
struct node_watch *node_watch_new(struct kube_client *client, const char *node);

/* |listener| is borrowed until it is removed. */
void node_watch_listen(struct node_watch *watch, struct node_listener *listener);
void node_watch_leave(struct node_listener *listener);

/* Call it after the last listener was removed. Accepts NULL, returns NULL. */
struct node_watch *node_watch_close(struct node_watch *watch);
