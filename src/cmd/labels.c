// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare labels: shows the labels that this node would get, before they are published, and removes published ones.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "node/status/read.h"
#include "cmd/cli/columns.h"
#include "cmd/commands.h"
#include "node/status/node_labels.h"

enum { OUTPUT, REMOVE, DRY_RUN, NAMESPACE };

static const char *const outputs[] = {"table", "plain", "json", NULL};

static const struct option own[] = {
        [OUTPUT] = COMMAND_CHOICE(
                "output", outputs, "table", "table for people, plain for lines key=value, json for programs"),
        [REMOVE] = COMMAND_FLAG(
                "remove", "remove what this program published for this node: file, NodeFeature and labels of the node"),
        [DRY_RUN] = COMMAND_FLAG("dry-run", "with --remove: only show what would be removed"),
        [NAMESPACE] = COMMAND_TEXT("namespace", "", "NAME",
                "with --remove: namespace of the NodeFeature; empty: the namespace of the pod or the "
                "kubeconfig",
                .environment = {"NAMESPACE"}),
};

static const char help[] =
        "usage: warpshare labels [OPTION...]\n"
        "\n"
        "Shows the labels that the agent would give this node, by its GPUs and the configuration, and changes\n"
        "nothing. With --remove it removes the published labels. docs/labels.md says what each label means.\n"
        "\n"
        "  warpshare labels --config-file /etc/warpshare/config.yaml --mps-root /run/nvidia/mps\n"
        "  warpshare labels --remove --node-name node-7 --kubeconfig ~/.kube/config\n"
        "\n";

static const char more_help[] = "\nEvery option of 'warpshare agent' and its environment count as well: --config-file, "
                                "--mig-strategy, --labels-file, …\n";

/* ---- show ---- */

static void labels_print_json(const struct labels *labels)
{
        json_t *json = json_object();

        for (size_t i = 0; i < labels->count; i++)
                json_object_set_new(json, labels->items[i].key, json_string(labels->items[i].value));
        command_print_json(json, JSON_INDENT(2));
}

static void labels_print_as(const struct labels *labels, const char *output)
{
        static const struct column list[] = {{"LABEL"}, {"VALUE"}};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct columns columns;

        if (strcmp(output, "json") == 0) {
                labels_print_json(labels);
                return;
        }
        if (strcmp(output, "plain") == 0) {
                labels_print(labels, &text);
        } else {
                columns_init(&columns, list, ARRAY_SIZE(list));
                columns.keeps_idle = true;
                for (size_t i = 0; i < labels->count; i++)
                        columns_add_row(&columns, labels->items[i].key,
                                *labels->items[i].value ? labels->items[i].value : "\"\"");
                columns_print(&text, &columns, "", false);
                columns_done(&columns);
        }
        fputs(text.data, stdout);
}

static int labels_show(const struct config *config, const char *output, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct labels_warnings warnings = {0};
        struct labels_input input = {.config = config};
        struct plan *plan = NULL;
        struct labels labels;

        if (node_read(&inventory, config, err) < 0)
                return -1;
        if (plan_build(&plan, &arena, config, inventory, command_warn, NULL, err) < 0) {
                plan = NULL;
                if (!labels_layout_is_invalid(config, inventory))
                        return -1;
                command_warn(err->text, NULL);
        }
        input.inventory = inventory;
        input.plan = plan;
        labels_make(&labels, &arena, input, config->discovery_flags.machine_type_file, &warnings);
        labels_warnings_done(&warnings);
        labels_print_as(&labels, output);
        if (plan)
                plan_done(plan);
        return 0;
}

/* ---- remove ---- */

struct removed {
        bool is_dry;
        bool has_failed;
};

static void report_removal(
        enum labels_removal outcome, const char *what, const char *where, const char *note, void *data)
{
        static const char *const words[] = {[LABELS_REMOVED] = "removed",
                [LABELS_LEFT] = "left",
                [LABELS_ABSENT] = "not there",
                [LABELS_UNSEEN] = "not checked"};
        struct removed *removed = data;
        const char *word = outcome == LABELS_REMOVED && removed->is_dry ? "would be removed" : words[outcome];

        printf("%-12s %-17s %s%s%s%s\n", what, word, where, *note ? " (" : "", note, *note ? ")" : "");
        removed->has_failed = removed->has_failed || outcome == LABELS_UNSEEN || outcome == LABELS_LEFT;
}

static int remove_all(const struct config *config, const struct command_call *call)
{
        struct removed removed = {.is_dry = command_is_set(call, DRY_RUN)};
        struct api_visit visit;

        api_visit_begin(&visit, config);
        labels_remove(&visit, config, call->values[NAMESPACE], removed.is_dry, report_removal, &removed);
        api_visit_end(&visit);
        return removed.has_failed ? EXIT_FAILED : 0;
}

static int labels_run(struct command_call *call, struct error *err)
{
        const struct config *config;

        command_setup_log(&call->set, NULL);
        if (config_build(&call->set, &call->arena, &config, command_warn, NULL, err) < 0)
                return COMMAND_FAILED;
        return command_is_set(call, REMOVE) ? remove_all(config, call) : labels_show(config, call->values[OUTPUT], err);
}

const struct command command_labels = {
        .name = "labels",
        .summary = "show the labels of this node, or remove those that were published",
        .run = labels_run,
        .is_apart = true,
        COMMAND_OWN(own),
        .program = "warpshare labels",
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};
