#include "cmd/node_label.h"

#include <string.h>

#include "base/alloc.h"
#include "kube/object.h"
#include "kube/watch.h"

#define VALUE_MAX 63 /* of a label, says Kubernetes */

struct node_label {
        struct node_label_options options;
        char *key;
        struct kube_watch *watch;
        char *value;
        bool is_known;
};

/* A list tells the node before it says that this was all: a node without an answer yet is unknown. */
static void set(struct node_label *label, const char *value)
{
        _free_ char *copy = xasprintf("%.*s", VALUE_MAX, value);

        if (strcmp(label->value, copy) == 0)
                return;
        free(label->value);
        label->value = TAKE_PTR(copy);
        if (label->is_known)
                label->options.changed(label->options.data);
}

static void on_object(enum kube_change change, json_t *object, void *data)
{
        struct node_label *label = data;
        const char *value = change == KUBE_PRESENT ? object_text(object, "metadata", "labels", label->key, NULL) : NULL;

        set(label, value ? value : "");
}

static void on_synced(void *data)
{
        struct node_label *label = data;

        if (label->is_known)
                return;
        label->is_known = true;
        label->options.changed(label->options.data);
}

static void on_trouble(const struct error *error, void *data)
{
        struct node_label *label = data;

        if (label->options.trouble)
                label->options.trouble(error, label->options.data);
}

struct node_label *node_label_new(const struct node_label_options *options)
{
        struct node_label *label = xcalloc(1, sizeof(*label));
        _free_ char *selector = xasprintf("metadata.name=%s", options->node);
        const struct kube_watch_options watch = {
                .path = "/api/v1/nodes",
                .field_selector = selector,
                .on_object = on_object,
                .on_synced = on_synced,
                .on_trouble = on_trouble,
                .data = label,
        };

        label->options = *options;
        label->key = xstrdup(options->key);
        label->value = xstrdup("");
        label->watch = kube_watch_new(options->client, &watch);
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
        kube_watch_close(label->watch);
        free(label->key);
        free(label->value);
        free(label);
        return NULL;
}
