// SPDX-License-Identifier: Apache-2.0
#include "node/status/mig_labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "base/clock.h"
#include "net/kube/object.h"
#include "node/status/reconcile.h"
#include "node/status/watch.h"

struct mig_labels {
        struct mig_labels_options options;
        char *node;
        struct node_listener listener;
        struct mig_labels_value value;
        bool has_reported;
        struct kube_call *call; /* the first reading: the watch may have reported the node before we listened */
        uv_timer_t timer;
        struct backoff backoff;
        struct complaint trouble;
        struct node_reconcile *state;
};

static const char *label_of(const json_t *node, const char *key)
{
        const char *value = node ? object_text(node, "metadata", "labels", key, NULL) : NULL;

        return value ? value : "";
}

static void labels_take(struct mig_labels *labels, const json_t *node)
{
        const char *config = label_of(node, MIG_CONFIG_LABEL);
        bool evict = strcmp(label_of(node, MIG_DRAIN_LABEL), MIG_DRAIN_EVICT) == 0;
        bool is_same =
                labels->value.is_known && evict == labels->value.evict && strcmp(config, labels->value.config) == 0;

        snprintf(labels->value.config, sizeof(labels->value.config), "%s", config);
        labels->value.evict = evict;
        if (!labels->value.is_known)
                labels->value.first_state = mig_state_parse(label_of(node, MIG_STATE_LABEL));
        labels->value.is_known = true;
        if (!is_same)
                labels->options.changed(labels->options.data);
}

static void on_mig_node(const json_t *node, void *data)
{
        labels_take(data, node);
}

/* ---- the first reading ---- */

static void mig_labels_read_node(uv_timer_t *timer);

/* The watch may have been faster, and is newer then. */
static void on_node_read(const struct kube_answer *answer, void *data)
{
        struct mig_labels *labels = data;

        labels->call = NULL;
        if (labels->value.is_known)
                return;
        if (!answer->error || answer->status == 404) {
                labels_take(labels, answer->error ? NULL : answer->object);
                return;
        }
        complain(&labels->trouble, "the node's MIG configuration cannot be read, will try again", answer->error);
        uv_timer_start(&labels->timer, mig_labels_read_node,
                backoff_next(&labels->backoff, answer->retry_after_ms, (uint32_t)uv_hrtime()), 0);
}

static void mig_labels_read_node(uv_timer_t *timer)
{
        struct mig_labels *labels = timer->data;
        _free_ char *path = object_path("/api/v1/nodes", labels->node);

        labels->call = kube_client_send(labels->options.client,
                &(struct kube_request){.method = KUBE_GET, .path = path, .done = on_node_read, .data = labels});
}

struct mig_labels *mig_labels_new(const struct mig_labels_options *options)
{
        struct mig_labels *labels = xcalloc(1, sizeof(*labels));
        const struct node_reconcile_options state = {
                .loop = kube_client_loop(options->client),
                .watch = options->watch,
                .retry_ms = NODE_RECONCILE_RETRY_MS,
                .retry_limit_ms = NODE_RECONCILE_RETRY_MAX_MS,
                .what = "state of the MIG configuration",
                .failed = "the node's state of the MIG configuration cannot be written, will try again",
                .succeeded = "the node's state of the MIG configuration are written",
                .manager = MIG_LABELS_MANAGER,
                .client = options->client,
                .node = options->node,
        };

        labels->options = *options;
        labels->node = xstrdup(options->node);
        labels->state = node_reconcile_new(&state);
        node_reconcile_serve(labels->state, true);
        labels->listener = (struct node_listener){.on_node = on_mig_node, .data = labels};
        node_watch_listen(options->watch, &labels->listener);
        labels->backoff = (struct backoff){MIG_LABELS_RETRY_MS, MIG_LABELS_RETRY_MAX_MS, 0};
        uv_timer_init(kube_client_loop(options->client), &labels->timer);
        labels->timer.data = labels;
        mig_labels_read_node(&labels->timer);
        return labels;
}

const struct mig_labels_value *mig_labels_value(const struct mig_labels *labels)
{
        return &labels->value;
}

void mig_labels_put(struct mig_labels *labels, enum mig_state state, const char *reason)
{
        json_t *object;

        if (!labels->value.is_known || (state == MIG_STATE_NONE && !labels->has_reported))
                return;
        labels->has_reported = true;
        object = object_node(labels->node);
        if (state != MIG_STATE_NONE)
                json_object_set_new(object_make(object, "metadata", "labels", NULL), MIG_STATE_LABEL,
                        json_string(mig_state_name(state)));
        if (*reason) {
                _free_ char *text = xstrdup(reason);

                text_clean(text);
                json_object_set_new(
                        object_make(object, "metadata", "annotations", NULL), MIG_REASON_ANNOTATION, json_string(text));
        }
        node_reconcile_put(labels->state, object);
}

static void free_labels(uv_handle_t *handle)
{
        struct mig_labels *labels = handle->data;

        free(labels->node);
        free(labels);
}

struct mig_labels *mig_labels_close(struct mig_labels *labels)
{
        if (!labels)
                return NULL;
        node_watch_leave(&labels->listener);
        labels->state = node_reconcile_close(labels->state);
        labels->call = kube_call_cancel(labels->call);
        uv_close((uv_handle_t *)&labels->timer, free_labels);
        return NULL;
}
