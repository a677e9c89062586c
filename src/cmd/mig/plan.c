/* warpshare mig plan: what a configuration would change on this node, before anything is touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/mig/command.h"
#include "cmd/mig/plan_print.h"
#include "cmd/mig/source.h"

enum { NAMED_FILE, CONFIG, ALL, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [ALL] = {.flag = "all",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "a line for each configuration: whether it fits, and how many MIG devices stay, end and are made"},
        [OUTPUT] = COMMAND_LINE_OUTPUT,
};

static const char help[] =
        "usage: warpshare mig plan [OPTION...]\n"
        "\n"
        "Shows what a configuration would change on this node's GPUs, and changes nothing: the memory slices of each\n"
        "GPU before and after, which MIG devices stay and which end, and whether the change of MIG mode takes a reset.\n"
        "As many MIG devices stay as can. The exit status is 1 when the configuration does not fit; then it says\n"
        "what would.\n"
        "\n"
        "  warpshare mig plan --config all-balanced\n"
        "  warpshare mig plan --file mig.yaml --config mixed --output json\n"
        "  warpshare mig plan --all\n"
        "\n";

const struct command_line mig_command_plan_line = {
        .shared = mig_command_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig plan",
        .help = help,
};

static void print_object(json_t *json)
{
        char *text = json_dumps(json, JSON_INDENT(1));

        puts(text);
        free(text);
        json_decref(json);
}

static int plan_fail(bool is_json, const struct error *err)
{
        if (is_json)
                print_object(json_pack("{s:b, s:s}", "fits", 0, "reason", err->text));
        return command_line_fail(&mig_command_plan_line, err);
}

static int plan_one(struct mig_source *source, bool is_json)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_plan plan;
        struct error err;

        mig_plan_build(&plan, &source->arena, &source->node, source->wanted);
        mig_plan_print(&text, &plan, source->config->name, command_line_wants_colours());
        if (is_json)
                print_object(mig_plan_json(&plan, source->config->name));
        else
                fputs(text.data, stdout);
        if (plan.fits)
                return 0;
        error_raise(&err, ERROR_INVALID, "%s", mig_plan_reason(&plan, &source->arena));
        return command_line_fail(&mig_command_plan_line, &err);
}

static void plan_choice(struct mig_plan_choice *ret, struct mig_source *source, const struct mig_parted_config *config)
{
        const struct mig_wanted *wanted;
        struct error err;

        *ret = (struct mig_plan_choice){.config = config->name};
        if (config->problem)
                ret->problem = config->problem;
        else if (mig_parted_resolve(&wanted, &source->arena, config, &source->node, false, &err) < 0)
                ret->problem = arena_strdup(&source->arena, err.text);
        else
                mig_plan_build(&ret->plan, &source->arena, &source->node, wanted);
}

static int plan_all(struct mig_source *source, bool is_json)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t count = source->parted.n_configs;
        struct mig_plan_choice *choices = ARENA_ARRAY(&source->arena, struct mig_plan_choice, count);
        json_t *list;

        for (size_t i = 0; i < count; i++)
                plan_choice(&choices[i], source, &source->parted.configs[i]);
        if (!is_json) {
                mig_plan_print_choices(&text, choices, count, command_line_wants_colours());
                fputs(text.data, stdout);
                return 0;
        }
        list = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, choices[i].problem
                                                    ? json_pack("{s:s, s:b, s:s}", "config", choices[i].config, "fits",
                                                              0, "reason", choices[i].problem)
                                                    : mig_plan_json(&choices[i].plan, choices[i].config));
        print_object(json_pack("{s:o}", "configs", list));
        return 0;
}

int mig_command_plan(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct mig_source source;
        struct option_set set;
        struct error err;
        bool is_json;
        bool is_all;
        int status;

        if (!command_line_read(&mig_command_plan_line, &set, values, &arena, argc, argv, &status))
                return status;
        is_json = strcmp(values[OUTPUT], "json") == 0;
        is_all = strcmp(values[ALL], "true") == 0;
        if (is_all && *values[CONFIG]) {
                error_raise(&err, ERROR_INVALID, "--all and --config: only one of them");
                return command_line_refuse(&mig_command_plan_line, &err);
        }
        if (is_all ? mig_source_open_file(&source, &set, values[NAMED_FILE], &err) < 0
                   : mig_source_open(&source, &set, values[NAMED_FILE], values[CONFIG], false, &err) < 0)
                status = plan_fail(is_json, &err);
        else
                status = is_all ? plan_all(&source, is_json) : plan_one(&source, is_json);
        mig_source_close(&source);
        return status;
}
