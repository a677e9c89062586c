#include "agent/labels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "config/word.h"
#include "node/status/labels_make.h"
#include "node/status/labels_publisher.h"

struct agent_labels {
        struct labels_publisher *publisher;
        struct arena arena; /* of |published| */
        struct labels published;
        struct labels_warnings warnings;
        int64_t started;
};

static bool can_publish(enum labels_output output, const struct kube_client *client)
{

        if (output == LABELS_NONE)
                return false;
        if (output == LABELS_FILE || client)
                return true;
        log_error("no labels: they go to the API server, which is not used",
                LOG_STR("labels-output", labels_output_words[output]));
        return false;
}

struct agent_labels *agent_labels_new(
        uv_loop_t *loop, struct kube_client *client, struct node_watch *watch, const struct config *config)
{
        struct agent_labels *labels;
        const struct labels_publisher_options publisher = {
                .loop = loop,
                .output = config->node.labels_output,
                .file = config->node.labels_file,
                .client = client,
                .watch = watch,
                .node = config->node.name,
                .scope = config->node.labels_output == LABELS_FILE ? ""
                         : client                                  ? kube_client_scope(client)
                                                                   : NULL,
                .pod = config->node.pod_name,
                .refresh_ms = LABELS_REFRESH_MS,
        };

        if (!can_publish(config->node.labels_output, client))
                return NULL;
        labels = xcalloc(1, sizeof(*labels));
        labels->started = time(NULL);
        labels->publisher = labels_publisher_new(&publisher);
        return labels;
}

void agent_labels_apply(struct agent_labels *labels, const struct config *config, const struct inventory *inventory,
        const struct plan *plan)
{
        struct arena arena = ARENA_INIT;
        struct labels next;
        struct labels_source source = {
                .config = config,
                .inventory = inventory,
                .plan = plan,
        };

        if (!labels || (!plan && !labels_layout_is_invalid(config, inventory)))
                return;
        source.machine_file = config->discovery_flags.machine_type_file;
        if (config->discovery_flags.no_timestamp && !*config->discovery_flags.no_timestamp)
                source.timestamp = labels->started;
        labels_make(&next, &arena, &source, &labels->warnings);
        if (labels->published.items && labels_are_same(&next, &labels->published)) {
                arena_done(&arena);
                return;
        }
        arena_done(&labels->arena);
        labels->arena = arena;
        labels->published = next;
        log_info("labels", LOG_UINT("count", next.count));
        labels_publisher_put(labels->publisher, &next);
}

void agent_labels_connected(struct agent_labels *labels, const struct kube_client *client)
{
        if (labels)
                labels_publisher_begin(labels->publisher, kube_client_scope(client));
}

struct agent_labels *agent_labels_close(struct agent_labels *labels)
{
        if (!labels)
                return NULL;
        labels_publisher_close(labels->publisher);
        arena_done(&labels->arena);
        labels_warnings_done(&labels->warnings);
        free(labels);
        return NULL;
}
