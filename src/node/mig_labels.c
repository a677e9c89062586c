#include "node/mig_labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/object.h"
#include "node/apply.h"
#include "node/watch.h"

struct mig_labels {
        struct mig_labels_options options;
        char *node;
        struct node_listener listener;
        bool is_known;
        char config[MIG_CONFIG_NAME_SIZE];
        bool evict;
        enum mig_state first_state;
        bool has_told;
        struct node_apply *apply;
};

static const char *label_of(const json_t *node, const char *key)
{
        const char *value = node ? object_text(node, "metadata", "labels", key, NULL) : NULL;

        return value ? value : "";
}

static void on_mig_node(const json_t *node, void *data)
{
        struct mig_labels *labels = data;
        const char *config = label_of(node, MIG_CONFIG_LABEL);
        bool evict = strcmp(label_of(node, MIG_DRAIN_LABEL), MIG_DRAIN_EVICT) == 0;
        bool is_same = evict == labels->evict && strcmp(config, labels->config) == 0;

        snprintf(labels->config, sizeof(labels->config), "%s", config);
        labels->evict = evict;
        if (!labels->is_known)
                labels->first_state = mig_state_parse(label_of(node, MIG_STATE_LABEL));
        else if (!is_same)
                labels->options.changed(labels->options.data);
}

static void on_mig_synced(void *data)
{
        struct mig_labels *labels = data;

        if (labels->is_known)
                return;
        labels->is_known = true;
        labels->options.changed(labels->options.data);
}

struct mig_labels *mig_labels_new(const struct mig_labels_options *options)
{
        struct mig_labels *labels = xcalloc(1, sizeof(*labels));
        const struct node_apply_options apply = {
                .client = options->client,
                .watch = options->watch,
                .node = options->node,
                .manager = MIG_LABELS_MANAGER,
                .what = "state of the MIG configuration",
        };

        labels->options = *options;
        labels->node = xstrdup(options->node);
        labels->apply = node_apply_new(&apply);
        labels->listener = (struct node_listener){.on_node = on_mig_node, .on_synced = on_mig_synced, .data = labels};
        node_watch_listen(options->watch, &labels->listener);
        return labels;
}

bool mig_labels_are_known(const struct mig_labels *labels)
{
        return labels->is_known;
}

const char *mig_labels_config(const struct mig_labels *labels)
{
        return labels->config;
}

bool mig_labels_evict(const struct mig_labels *labels)
{
        return labels->evict;
}

enum mig_state mig_labels_first_state(const struct mig_labels *labels)
{
        return labels->first_state;
}

void mig_labels_put(struct mig_labels *labels, enum mig_state state, const char *reason)
{
        json_t *object;

        if (!labels->is_known || (state == MIG_STATE_NONE && !labels->has_told))
                return;
        labels->has_told = true;
        object = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", labels->node);
        if (state != MIG_STATE_NONE)
                json_object_set_new(object_make(object, "metadata", "labels", NULL), MIG_STATE_LABEL,
                        json_string(mig_state_name(state)));
        if (*reason) {
                _free_ char *text = xstrdup(reason);

                text_make_utf8(text);
                json_object_set_new(
                        object_make(object, "metadata", "annotations", NULL), MIG_REASON_ANNOTATION, json_string(text));
        }
        node_apply_put(labels->apply, object);
}

struct mig_labels *mig_labels_close(struct mig_labels *labels)
{
        if (!labels)
                return NULL;
        node_watch_leave(&labels->listener);
        labels->apply = node_apply_close(labels->apply);
        free(labels->node);
        free(labels);
        return NULL;
}
