// SPDX-License-Identifier: Apache-2.0
#include "node/status/node_labels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "config/word.h"

#define MACHINE_LIMIT ((size_t)65536)

static void node_labels_add_warning(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static void node_labels_report(struct labels_warnings *warnings, const struct strbuf *text)
{
        _free_ char *lines = xstrdup(text->data);

        if (warnings->text && strcmp(warnings->text, text->data) == 0)
                return;
        free(warnings->text);
        warnings->text = xstrdup(text->data);
        for (char *rest = NULL, *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                log_text(LOG_WARN, "%s", line);
}

static void warn_nobody(const char *text UNUSED, void *data UNUSED)
{
}

bool labels_layout_is_invalid(const struct config *config, const struct inventory *inventory)
{
        struct config unshared = *config;
        struct arena arena = ARENA_INIT;
        struct plan *plan = NULL;
        struct error ignored;
        int rc;

        if (config->mig_strategy != MIG_STRATEGY_SINGLE)
                return false;
        unshared.sharing = (struct sharing){0};
        rc = plan_build(&plan, &arena, &unshared, inventory, warn_nobody, NULL, &ignored);
        if (rc == 0)
                plan_done(plan);
        arena_done(&arena);
        return rc < 0;
}

static const char *read_machine(struct arena *arena, const struct config *config, const char *path)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        if (!path)
                path = arena_printf(arena, "%s%s", config->system_root, LABELS_MACHINE_FILE);
        if (!*path || file_read(path, MACHINE_LIMIT, &text, &ignored) < 0)
                return NULL;
        return arena_strdup(arena, text.data);
}

void labels_make(struct labels *ret, struct arena *arena, struct labels_input input, const char *machine_file,
        struct labels_warnings *warnings)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        input.machine = read_machine(arena, input.config, machine_file);
        vgpu_read(&input.vgpu, input.config->system_root);
        labels_build(ret, arena, &input, node_labels_add_warning, &text);
        node_labels_report(warnings, &text);
}

void labels_warnings_done(struct labels_warnings *warnings)
{
        free(TAKE_PTR(warnings->text));
}

/* ---- an agent's ---- */

struct node_labels {
        struct labels_publisher *publisher;
        struct labels_warnings warnings;
        int64_t started;
};

struct node_labels *node_labels_new(
        uv_loop_t *loop, struct kube_client *client, struct node_watch *watch, const struct config *config)
{
        const enum labels_output output = config->node.labels_output;
        struct node_labels *labels;
        const struct labels_publisher_options publisher = {
                .loop = loop,
                .output = output,
                .file = config->node.labels_file,
                .client = client,
                .watch = watch,
                .node = config->node.name,
                .scope = output == LABELS_FILE ? ""
                         : client              ? kube_client_scope(client)
                                               : NULL,
                .pod = config->node.pod_name,
                .refresh_ms = LABELS_REFRESH_MS,
        };

        if (output == LABELS_NONE)
                return NULL;
        if (output != LABELS_FILE && !client) {
                log_error("no labels: they go to the API server, which is not used",
                        LOG_STR("labels-output", labels_output_words[output]));
                return NULL;
        }
        labels = xcalloc(1, sizeof(*labels));
        labels->started = time(NULL);
        labels->publisher = labels_publisher_new(&publisher);
        return labels;
}

void node_labels_apply(struct node_labels *labels, const struct config *config, const struct inventory *inventory,
        const struct plan *plan)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct config_discovery *flags = &config->discovery_flags;
        struct labels_input input = {.config = config, .inventory = inventory, .plan = plan};
        struct labels next;

        if (!labels || (!plan && !labels_layout_is_invalid(config, inventory)))
                return;
        if (flags->no_timestamp && !*flags->no_timestamp)
                input.timestamp = labels->started;
        labels_make(&next, &arena, input, flags->machine_type_file, &labels->warnings);
        if (labels_publisher_put(labels->publisher, &next))
                log_info("labels", LOG_UINT("count", next.count));
}

void node_labels_connected(struct node_labels *labels, const struct kube_client *client)
{
        if (labels)
                labels_publisher_begin(labels->publisher, kube_client_scope(client));
}

struct node_labels *node_labels_close(struct node_labels *labels)
{
        if (!labels)
                return NULL;
        labels_publisher_close(labels->publisher);
        labels_warnings_done(&labels->warnings);
        free(labels);
        return NULL;
}
