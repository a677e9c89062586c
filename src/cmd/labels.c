/*
 * warpshare labels: shows the labels that this node would get, before they are published, and removes published ones.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/status/read.h"
#include "cmd/cli/columns.h"
#include "cmd/commands.h"
#include "gpu/apart.h"
#include "node/status/labels_make.h"
#include "node/status/labels_remove.h"

enum { OUTPUT, REMOVE, DRY_RUN, NAMESPACE };

static const char *const outputs[] = {"table", "plain", "json", NULL};

static const struct option own[] = {
        [OUTPUT] = {.flag = "output",
                .type = OPTION_CHOICE,
                .choices = outputs,
                .fallback = "table",
                .argument = "WORD",
                .help = "table for people, plain for lines key=value, json for programs"},
        [REMOVE] = {.flag = "remove",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "remove what this program published for this node: file, NodeFeature and labels of the node"},
        [DRY_RUN] = {.flag = "dry-run",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "with --remove: only show what would be removed"},
        [NAMESPACE] = {.flag = "namespace",
                .environment = {"NAMESPACE"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "NAME",
                .help = "with --remove: namespace of the NodeFeature; empty: the namespace of the pod or the "
                        "kubeconfig"},
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

const struct command_line command_labels_line = {
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare labels",
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};

/* ---- show ---- */

static void print_json(const struct labels *labels)
{
        json_t *json = json_object();
        char *text;

        for (size_t i = 0; i < labels->count; i++)
                json_object_set_new(json, labels->items[i].key, json_string(labels->items[i].value));
        text = json_dumps(json, JSON_INDENT(2));
        puts(text);
        free(text);
        json_decref(json);
}

static void cmd_labels_print(const struct labels *labels, const char *output)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t width = strlen("LABEL");

        if (strcmp(output, "json") == 0) {
                print_json(labels);
                return;
        }
        if (strcmp(output, "plain") == 0) {
                labels_print(labels, &text);
                fputs(text.data, stdout);
                return;
        }
        for (size_t i = 0; i < labels->count; i++)
                width = MAX(width, strlen(labels->items[i].key));
        printf("%-*s  VALUE\n", (int)width, "LABEL");
        for (size_t i = 0; i < labels->count; i++)
                printf("%-*s  %s\n", (int)width, labels->items[i].key,
                        *labels->items[i].value ? labels->items[i].value : "\"\"");
}

struct show {
        const struct config *config;
        const char *output;
};

static int labels_show(const void *data, struct strbuf *answer UNUSED, struct error *err)
{
        const struct show *show = data;
        const struct config *config = show->config;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct labels_warnings warnings = {0};
        struct labels_source source = {.config = config};
        struct plan *plan = NULL;
        struct labels labels;

        if (node_read(&inventory, config, err) < 0)
                return -1;
        if (plan_build(&plan, &arena, config, inventory, command_line_warn, NULL, err) < 0) {
                plan = NULL;
                if (!labels_layout_is_invalid(config, inventory))
                        return -1;
                command_line_warn(err->text, NULL);
        }
        source.inventory = inventory;
        source.plan = plan;
        source.machine_file = config->discovery_flags.machine_type_file;
        labels_make(&labels, &arena, &source, &warnings);
        labels_warnings_done(&warnings);
        cmd_labels_print(&labels, show->output);
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

static int remove_all(const struct config *config, const char *const *values)
{
        struct removed removed = {.is_dry = strcmp(values[DRY_RUN], "true") == 0};
        struct api_visit visit;

        api_visit_begin(&visit, config);
        labels_remove(&visit, config, values[NAMESPACE], removed.is_dry, report_removal, &removed);
        api_visit_end(&visit);
        return removed.has_failed ? EXIT_FAILED : 0;
}

int command_labels(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        const struct config *config;
        struct option_set set;
        struct error err;
        struct show show;
        int status;

        if (!command_line_read(&command_labels_line, &set, values, &arena, argc, argv, &status))
                return status;
        command_line_setup_log(&set, NULL);
        if (config_build(&set, &arena, &config, command_line_warn, NULL, &err) < 0)
                return command_line_fail(&command_labels_line, &err);
        if (strcmp(values[REMOVE], "true") == 0)
                return remove_all(config, values);
        show = (struct show){config, values[OUTPUT]};
        return apart_run(labels_show, &show, NULL, &err) == 0 ? 0 : command_line_fail(&command_labels_line, &err);
}
