/* warpshare mig plan: what a configuration would change on this node, before anything is touched. */
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/plan_print.h"
#include "cmd/mig/source.h"

enum { NAMED_FILE, CONFIG, ALL, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [ALL] = COMMAND_FLAG("all",
                "a line for each configuration: whether it fits, and how many MIG devices stay, end and are made"),
        [OUTPUT] = COMMAND_OUTPUT,
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

static int plan_one(struct mig_source *source, bool is_json, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_plan plan;

        mig_plan_build(&plan, &source->arena, &source->node, source->wanted);
        mig_plan_print(&text, &plan, source->config->name, command_wants_colours());
        if (is_json)
                command_print_json(mig_plan_json(&plan, source->config->name), JSON_INDENT(1));
        else
                fputs(text.data, stdout);
        if (plan.fits)
                return 0;
        return error_set(err, ERROR_INVALID, "%s", mig_plan_reason(&plan, &source->arena));
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
                mig_plan_print_choices(&text, choices, count, command_wants_colours());
                fputs(text.data, stdout);
                return 0;
        }
        list = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, choices[i].problem
                                                    ? json_pack("{s:s, s:b, s:s}", "config", choices[i].config, "fits",
                                                              0, "reason", choices[i].problem)
                                                    : mig_plan_json(&choices[i].plan, choices[i].config));
        command_print_json(json_pack("{s:o}", "configs", list), JSON_INDENT(1));
        return 0;
}

static int mig_plan_run(struct command_call *call, struct error *err)
{
        const char *file = call->values[NAMED_FILE];
        const bool is_json = command_has(call, OUTPUT, "json");
        const bool is_all = command_is_set(call, ALL);
        struct mig_source source;
        int status;

        if (is_all && *call->values[CONFIG])
                return command_refuse(err, "--all and --config: only one of them");
        status = is_all ? mig_source_open_file(&source, &call->set, file, err)
                        : mig_source_open(&source, &call->set, file, call->values[CONFIG], false, err);
        if (status == 0)
                status = is_all ? plan_all(&source, is_json) : plan_one(&source, is_json, err);
        else if (is_json)
                command_print_json(json_pack("{s:b, s:s}", "fits", 0, "reason", err->text), JSON_INDENT(1));
        mig_source_close(&source);
        return status;
}

const struct command mig_command_plan = {
        .name = "plan",
        .summary = "show what a configuration would change",
        .run = mig_plan_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig plan",
        .help = help,
};
