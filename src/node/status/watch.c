// SPDX-License-Identifier: Apache-2.0
#include "node/status/watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

#define VALUE_MAX 63 /* Kubernetes' limit for a label */

struct node_watch {
        struct kube_client *client;
        char *name;
        char *uid; /* NULL: not seen yet */
        struct kube_watch *watch;
        struct list listeners;
        unsigned int round; /* number of the newest report */
        bool is_reporting;
        bool is_closed; /* a callback is running: free the memory after it */
};

static void free_watch(struct node_watch *watch)
{
        free(watch->name);
        free(watch->uid);
        free(watch);
}

/* ---- reporting ---- */

/*
 * A callback may remove its own or any other listener, so each time the first one that was not called yet is searched.
 */
static struct node_listener *next_listener(const struct node_watch *watch)
{
        LIST_FOR_EACH(link, &watch->listeners) {
                struct node_listener *listener = container_of(link, struct node_listener, link);

                if (listener->reported != watch->round)
                        return listener;
        }
        return NULL;
}

enum what { NODE, SYNCED, TROUBLE };

static void report_one(const struct node_listener *listener, enum what what, const void *of)
{
        switch (what) {
        case NODE:
                listener->on_node(of, listener->data);
                break;
        case SYNCED:
                if (listener->on_synced)
                        listener->on_synced(listener->data);
                break;
        case TROUBLE:
                if (listener->on_trouble)
                        listener->on_trouble(of, listener->data);
                break;
        }
}

static void node_watch_report(struct node_watch *watch, enum what what, const void *of)
{
        struct node_listener *listener;

        watch->round++;
        watch->is_reporting = true;
        while ((listener = next_listener(watch))) {
                listener->reported = watch->round;
                report_one(listener, what, of);
        }
        watch->is_reporting = false;
        if (watch->is_closed)
                free_watch(watch);
}

static void note_uid(struct node_watch *watch, const json_t *node)
{
        const char *uid = object_text(node, "metadata", "uid", NULL);

        if (!uid || text_is_same(watch->uid, uid))
                return;
        if (watch->uid)
                log_info("the Node object was created anew", LOG_STR("node", watch->name), LOG_STR("uid", uid));
        free(watch->uid);
        watch->uid = xstrdup(uid);
}

static void watch_on_object(enum kube_change change, json_t *object, void *data)
{
        if (change == KUBE_PRESENT)
                note_uid(data, object);
        node_watch_report(data, NODE, change == KUBE_PRESENT ? object : NULL);
}

static void on_watch_synced(void *data)
{
        node_watch_report(data, SYNCED, NULL);
}

static bool has_who_says_it(const struct node_watch *watch)
{
        LIST_FOR_EACH(link, &watch->listeners) {
                if (container_of(link, struct node_listener, link)->on_trouble)
                        return true;
        }
        return false;
}

static void on_watch_trouble(const struct error *error, void *data)
{
        if (!has_who_says_it(data))
                log_warn("this node cannot be watched, will try again", LOG_ERR(error));
        node_watch_report(data, TROUBLE, error);
}

/* ---- start and end ---- */

struct node_watch *node_watch_new(struct kube_client *client, const char *node)
{
        struct node_watch *watch = xcalloc(1, sizeof(*watch));

        watch->client = client;
        watch->name = xstrdup(node);
        list_init(&watch->listeners);
        return watch;
}

void node_watch_listen(struct node_watch *watch, struct node_listener *listener)
{
        _free_ char *selector = xasprintf("metadata.name=%s", watch->name);
        const struct kube_watch_options options = {
                .path = "/api/v1/nodes",
                .field_selector = selector,
                .on_object = watch_on_object,
                .on_synced = on_watch_synced,
                .on_trouble = on_watch_trouble,
                .data = watch,
        };

        listener->reported = watch->round;
        list_append(&watch->listeners, &listener->link);
        if (!watch->watch)
                watch->watch = kube_watch_new(watch->client, &options);
}

void node_watch_leave(struct node_listener *listener)
{
        list_remove(&listener->link);
}

struct node_watch *node_watch_close(struct node_watch *watch)
{
        if (!watch)
                return NULL;
        assert(list_is_empty(&watch->listeners));
        watch->watch = kube_watch_close(watch->watch);
        watch->is_closed = true;
        if (!watch->is_reporting)
                free_watch(watch);
        return NULL;
}

/* ---- the value of a label ---- */

struct node_label {
        struct node_label_options options;
        char *key;
        struct node_listener listener;
        char *value;
        bool is_known;
};

/* The watch reports the node before it says that its list is complete: a node without an answer yet is unknown. */
static void status_label_set(struct node_label *label, const char *value)
{
        _free_ char *copy = xasprintf("%.*s", VALUE_MAX, value);

        if (strcmp(label->value, copy) == 0)
                return;
        free(label->value);
        label->value = TAKE_PTR(copy);
        if (label->is_known)
                label->options.changed(label->options.data);
}

static void on_label_node(const json_t *node, void *data)
{
        struct node_label *label = data;
        const char *value = node ? object_text(node, "metadata", "labels", label->key, NULL) : NULL;

        status_label_set(label, value ? value : "");
}

static void on_label_synced(void *data)
{
        struct node_label *label = data;

        if (label->is_known)
                return;
        label->is_known = true;
        label->options.changed(label->options.data);
}

static void on_node_label_trouble(const struct error *error, void *data)
{
        struct node_label *label = data;

        label->options.trouble(error, label->options.data);
}

struct node_label *node_label_new(const struct node_label_options *options)
{
        struct node_label *label = xcalloc(1, sizeof(*label));

        label->options = *options;
        label->key = xstrdup(options->key);
        label->value = xstrdup("");
        label->listener = (struct node_listener){.on_node = on_label_node,
                .on_synced = on_label_synced,
                .on_trouble = on_node_label_trouble,
                .data = label};
        node_watch_listen(options->watch, &label->listener);
        return label;
}

bool node_label_is_known(const struct node_label *label)
{
        return label->is_known;
}

const char *node_label_value(const struct node_label *label)
{
        return label->value;
}

struct node_label *node_label_close(struct node_label *label)
{
        if (!label)
                return NULL;
        node_watch_leave(&label->listener);
        free(label->key);
        free(label->value);
        free(label);
        return NULL;
}

/* ---- whether clients of the driver may be on the node ---- */

#define CLIENT_LABEL "nvidia.com/gpu.deploy.client"
#define UPGRADE_LABEL "nvidia.com/gpu-driver-upgrade-state"
#define UNLOADING "pod-restart-required"

struct node_clients {
        void (*changed)(const char *reason, void *data);
        void *data;
        struct node_listener listener;
        char *reason; /* NULL: they may be here */
};

static char *clients_reason_text(const char *label, const char *value)
{
        return xasprintf("%s=%.*s", label, VALUE_MAX, value);
}

char *node_clients_reason(const json_t *node)
{
        const char *client = object_text(node, "metadata", "labels", CLIENT_LABEL, NULL);
        const char *upgrade = object_text(node, "metadata", "labels", UPGRADE_LABEL, NULL);

        if (client)
                return strcmp(client, "true") == 0 ? NULL : clients_reason_text(CLIENT_LABEL, client);
        return upgrade && strcmp(upgrade, UNLOADING) == 0 ? clients_reason_text(UPGRADE_LABEL, upgrade) : NULL;
}

static void clients_on_node(const json_t *node, void *data)
{
        struct node_clients *clients = data;
        _free_ char *before = NULL;

        if (!node)
                return;
        before = clients->reason;
        clients->reason = node_clients_reason(node);
        if (!before != !clients->reason)
                clients->changed(clients->reason, clients->data);
}

struct node_clients *node_clients_new(
        struct node_watch *watch, void (*changed)(const char *reason, void *data), void *data)
{
        struct node_clients *clients = xcalloc(1, sizeof(*clients));

        clients->changed = changed;
        clients->data = data;
        clients->listener = (struct node_listener){.on_node = clients_on_node, .data = clients};
        node_watch_listen(watch, &clients->listener);
        return clients;
}

struct node_clients *node_clients_close(struct node_clients *clients)
{
        if (!clients)
                return NULL;
        node_watch_leave(&clients->listener);
        free(clients->reason);
        free(clients);
        return NULL;
}
