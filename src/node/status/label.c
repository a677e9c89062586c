#include "node/status/label.h"

#include <string.h>

#include "base/alloc.h"
#include "net/kube/object.h"
#include "node/status/watch.h"

#define VALUE_MAX 63 /* Kubernetes' limit for a label */

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
