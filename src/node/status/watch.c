#include "node/status/watch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

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
