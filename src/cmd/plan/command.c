// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare plan: shows the plan that a configuration gives for this node's GPUs, or for simulated ones, before
 * anything runs.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "node/status/read.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/commands.h"
#include "cmd/demo/simulator.h"
#include "cmd/plan/compare.h"
#include "cmd/plan/view.h"
#include "node/dra/layout.h"
#include "node/config/version.h"

#define MAX_GPUS UINT64_C(64)
#define STANDARD_INPUT "-"

/* A GPU that only its sizes describe: recent, without MIG. */
#define UNNAMED_MODEL "L40S"
#define UNNAMED_PRODUCT "GPU"

enum {
        FILENAME,
        MODEL,
        MEMORY,
        SMS,
        GPUS,
        DRIVER,
        SCENARIO,
        KUBERNETES,
        REPLICAS,
        REPLAY,
        NODES,
        CANDIDATES,
        SEED,
        SVG,
        WRITE_CONFIGS,
        OUTPUT
};

static const struct option own[] = {
        [FILENAME] = COMMAND_TEXT("filename", "", "FILE",
                "the configuration, as the argument FILE and as with kubectl; '-' for both: standard input",
                .aliases = {"f"}),
        [MODEL] = {.flag = "model",
                .type = OPTION_STRING,
                .choices = simulator_models, /* for completion; case does not matter */
                .fallback = "",
                .argument = "NAME",
                .help = "plan for a simulated node with GPUs of this model, in any case: V100-32GB, T4, A30, A100-40GB, A100-80GB, L40S, H100-80GB, H200, GB200, RTX-PRO-6000, V100-16GB, A2, A10, A10G, A16, A40, A6000, A800-80GB, L4, L40, RTX-4090, H100-NVL, H20, GH200, B200, B300, GB300, RTX-5090, GB10 or Thor; without it, for this node"},
        [MEMORY] = COMMAND_TEXT("memory", "", "MIB",
                "the memory of a simulated GPU in MiB, as nvidia-smi prints it: with --sms for a model that has no "
                "name here, or instead of the model's"),
        [SMS] = COMMAND_TEXT("sms", "", "N", "the SMs of a simulated GPU, 1 to 1024, as --memory"),
        [GPUS] = COMMAND_TEXT("gpus", "1", "N", "how many GPUs the simulated node has"),
        [DRIVER] = COMMAND_TEXT("driver", "580.105.08", "VERSION",
                "the driver of the simulated node: decides how shares are enforced, and how many clients "
                "there may be"),
        [SCENARIO] = COMMAND_TEXT("scenario", "", "PATH",
                "plan for the simulated node of this file: several models, MIG devices (docs/simulator.md)"),
        [KUBERNETES] = COMMAND_TEXT("kubernetes", "", "VERSION",
                "with --dra: plan for a cluster of this release, as 'kubectl version' prints it, since the schedulers "
                "of some cannot keep several forms of a GPU apart (docs/dra.md); without it, for one that can"),
        [REPLICAS] = COMMAND_TEXT("replicas", "1,2,half,all", "LIST",
                "for how many replicas in one container the share is shown: numbers, half and all"),
        [REPLAY] = COMMAND_WORDS("replay", "FILE",
                "compare configurations by what they would have made of these recorded requests (docs/replay.md); then "
                "several configurations may be arguments"),
        [NODES] = COMMAND_TEXT("nodes", "1", "N", "with --replay: how many such nodes there are, 1 to 10000"),
        [CANDIDATES] = COMMAND_TEXT("candidates", "2,4,8,10", "LIST",
                "with --replay: numbers of replicas of the configurations that are generated; empty: none is"),
        [SEED] = COMMAND_TEXT("seed", "1", "N", "with --replay: which of equal nodes is taken follows from it"),
        [SVG] = COMMAND_TEXT("svg", "", "FILE", "with --replay: write a picture"),
        [WRITE_CONFIGS] =
                COMMAND_TEXT("write-configs", "", "FOLDER", "with --replay: write the best three there, as ConfigMaps"),
        [OUTPUT] = COMMAND_OUTPUT,
};

static const char help[] =
        "usage: warpshare plan [OPTION...] [FILE]\n"
        "\n"
        "Shows what the agent would make of a configuration: the resources that kubelet gets, their units, how\n"
        "much memory and how many threads or SMs a container with 1, 2, … replicas has, the MPS control daemons,\n"
        "and with --dra the devices for claims. It needs no cluster, changes nothing, and with --model needs no\n"
        "GPU. The exit status is 1 when the configuration cannot be used there.\n"
        "\n"
        "FILE is a configuration, a ConfigMap that has one, or the values of the Helm chart; '-' is standard input.\n"
        "Of several configurations in one file, --config-default names the one that is planned.\n"
        "\n"
        "  echo '{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}}' > gpus.yaml\n"
        "  warpshare plan gpus.yaml --model A100-40GB --gpus 4\n"
        "  warpshare plan - --model H200 --driver 615.10 --replicas 3,7 < gpus.yaml\n"
        "  warpshare plan --dra --model H100-80GB\n"
        "  warpshare plan --replay pods.csv --model A100-40GB --gpus 4 --nodes 10 gpus.yaml\n"
        "\n"
        "  RESERVED  memory for the driver and the MPS server, which no share includes\n"
        "  TIER      how shares are expected to be enforced: default, verified, partition or namespace;\n"
        "            -no-memory-limit behind it: nobody knows how much memory the GPU has\n"
        "  EXCLUDES  devices that are not given to claims while this one is\n"
        "\n"
        "--output json has the ResourceSlices as an API server gets them that has all features (from 1.36 on).\n"
        "\n";

static const char more_help[] = "\nEvery option of 'warpshare agent' and its environment count as well: --config-file, "
                                "--mig-strategy, --nvml-library, …\n";

struct warnings {
        struct arena *arena;
        struct plan_view *view;
};

static void plan_add_warning(const char *text, void *data)
{
        struct warnings *warnings = data;
        struct plan_view *view = warnings->view;
        const char **grown = ARENA_ARRAY(warnings->arena, const char *, view->n_warnings + 1);

        for (size_t i = 0; i < view->n_warnings; i++)
                grown[i] = view->warnings[i];
        grown[view->n_warnings++] = arena_strdup(warnings->arena, text);
        view->warnings = grown;
}

/* The plan itself reports the rest: GPUs and MIG devices that it leaves out. */
static void warn_about_gpus(struct warnings *warnings, const struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (gpu->failure)
                        plan_add_warning(arena_printf(warnings->arena, "GPU %u (%s) cannot be used: %s", gpu->index,
                                                 gpu->uuid, gpu->failure),
                                warnings);
        }
}

/* ---- the node ---- */

static bool plan_is_set(const char *const *values, size_t position)
{
        return values[position] != own[position].fallback;
}

static bool plan_is_word(const char *text, const char *const *words)
{
        for (; *words; words++)
                if (strcasecmp(*words, text) == 0)
                        return true;
        return false;
}

static size_t count_words(const char *const *words)
{
        size_t count = 0;

        while (words[count])
                count++;
        return count;
}

/* The first whose name begins with |model|, ignoring case: "A100" is an A100-40GB. */
static const char *find_model_like(const char *model)
{
        for (const char *const *words = simulator_models; *model && *words; words++)
                if (strncasecmp(*words, model, strlen(model)) == 0)
                        return *words;
        return text_nearest(model, simulator_models, count_words(simulator_models));
}

static int check_model(const char *model, struct error *err)
{
        const char *nearest;

        if (plan_is_word(model, simulator_models))
                return 0;
        nearest = find_model_like(model);
        return error_set(err, ERROR_INVALID, "model: '%.40s' is not known%s%s%s; --help lists all", model,
                nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* Limits of --memory and --sms: more than any GPU has. */
#define MAX_MEMORY_MIB (UINT64_C(16) << 20)
#define MAX_SMS UINT64_C(1024)

static int check_sizes(const struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        uint64_t number;

        if (!*values[MODEL] && !*values[MEMORY] != !*values[SMS])
                return error_set(err, ERROR_INVALID, "--memory and --sms: without --model both are needed");
        if (*values[MEMORY] && command_number(call, MEMORY, " of MiB", 1, MAX_MEMORY_MIB, &number, err) < 0)
                return -1;
        return *values[SMS] ? command_number(call, SMS, "", 1, MAX_SMS, &number, err) : 0;
}

/* GPUs are to be simulated that the command line describes. */
static bool has_simulated_gpus(const char *const *values)
{
        return *values[MODEL] || *values[MEMORY] || *values[SMS];
}

/* Checks the command line, before anything is opened. */
static int plan_check_values(const struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        uint64_t gpus;

        if (has_simulated_gpus(values) && *values[SCENARIO])
                return error_set(err, ERROR_INVALID, "%s and --scenario: only one of them",
                        *values[MODEL] ? "--model" : "--memory, --sms");
        if (!*values[REPLAY])
                for (size_t i = NODES; i <= WRITE_CONFIGS; i++)
                        if (plan_is_set(values, i))
                                return error_set(err, ERROR_INVALID, "--%s needs --replay", own[i].flag);
        if (!has_simulated_gpus(values) && (plan_is_set(values, GPUS) || plan_is_set(values, DRIVER)))
                return error_set(err, ERROR_INVALID, "--gpus and --driver are of a simulated node: they need --model");
        if ((*values[MODEL] && check_model(values[MODEL], err) < 0) || check_sizes(call, err) < 0 ||
                command_number(call, GPUS, "", 1, MAX_GPUS, &gpus, err) < 0)
                return -1;
        if (!*values[DRIVER] || values[DRIVER][strspn(values[DRIVER], "0123456789.")] || strlen(values[DRIVER]) > 40)
                return error_set(
                        err, ERROR_INVALID, "driver: '%.40s' is not a version such as 580.105.08", values[DRIVER]);
        return 0;
}

/* Makes this process use the simulated NVML, if requested. */
static struct simulator_node simulated_node(const char *const *values)
{
        return (struct simulator_node){.model = *values[MODEL] ? values[MODEL] : UNNAMED_MODEL,
                .name = *values[MODEL] ? NULL : UNNAMED_PRODUCT,
                .gpus = (unsigned int)strtoul(values[GPUS], NULL, 10),
                .memory_mib = strtoull(values[MEMORY], NULL, 10),
                .sms = strtoull(values[SMS], NULL, 10),
                .driver_version = values[DRIVER]};
}

static int simulate(struct option_set *set, const char *const *values, struct plan_view *view, struct arena *arena,
        struct error *err)
{
        const char **library = &set->values[option_find("nvml-library")];
        _free_ char *found = NULL;

        if (!has_simulated_gpus(values) && !*values[SCENARIO])
                return 0;
        if (!*library || !**library) {
                found = simulator_find(SIMULATOR_NVML, err);
                if (!found)
                        return -1;
                *library = arena_strdup(arena, found);
        }
        if (has_simulated_gpus(values)) {
                const struct simulator_node node = simulated_node(values);

                view->simulated = *values[MODEL] ? values[MODEL] : UNNAMED_PRODUCT;
                return simulator_set_node(&node, err);
        }
        view->simulated = values[SCENARIO];
        if (access(values[SCENARIO], R_OK) < 0)
                return error_set(err, ERROR_NOT_FOUND, "scenario '%s' cannot be read", values[SCENARIO]);
        simulator_set_scenario(values[SCENARIO]);
        return 0;
}

/* ---- the configuration ---- */

/* The file of the command line: as a word, after -f, or after --config-file. It has precedence over the environment. */
static int plan_choose_file(struct command_call *call, struct error *err)
{
        struct option_set *set = &call->set;
        const size_t position = option_find("config-file");
        const char *word = set->n_words > 0 ? set->words[0] : NULL;
        const char *file = plan_is_set(call->values, FILENAME) ? call->values[FILENAME] : NULL;
        const char *flag = set->sources[position] == OPTION_FLAG ? set->values[position] : NULL;

        if (set->n_words > 1)
                return error_set(err, ERROR_INVALID,
                        "'%.100s' and '%.100s': only one file can be planned, without --replay", word, set->words[1]);
        if (!!word + !!file + !!flag > 1)
                return error_set(err, ERROR_INVALID, "'%.100s' and '%.100s': only one file can be planned",
                        word ? word : file, flag ? flag : file);
        if (word || file)
                set->values[position] = word ? word : file;
        return 0;
}

/* As config_record_of_node(), where the file is not standard input. */
static int plan_read_text(struct config_text *ret, const struct option_set *set, struct arena *arena, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

        if (strcmp(option_set_value(set, "config-file"), STANDARD_INPUT) != 0)
                return config_record_of_node(ret, set, arena, err);
        if (file_read("/dev/stdin", CONFIG_FILE_LIMIT, &content, err) < 0)
                return error_prefix(err, "config");
        *ret = (struct config_text){STANDARD_INPUT, arena_strndup(arena, content.data, content.size), content.size};
        return 0;
}

/* ---- the plan ---- */

static void plan_command_print(const struct plan_view *view, const char *output)
{
        struct strbuf text = STRBUF_INIT;
        _free_ char *json = NULL;

        if (strcmp(output, "json") == 0) {
                json = plan_json_print(view);
                puts(json);
        } else {
                plan_table_print(&text, view, command_wants_colours());
                fputs(text.data, stdout);
        }
        strbuf_done(&text);
}

static int plan_show(struct command_call *call, struct plan_view *view, struct error *err)
{
        const char *const *values = call->values;
        struct arena *arena = &call->arena;
        struct option_set *set = &call->set;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct warnings warnings = {arena, view};
        const struct config *config;
        struct config_text text;
        struct plan *plan;
        int rc;

        if (simulate(set, values, view, arena, err) < 0)
                return -1;
        rc = plan_read_text(&text, set, arena, err);
        if (rc < 0 ||
                config_build_text(set, rc == 0 ? &text : NULL, arena, &config, plan_add_warning, &warnings, err) < 0)
                return -1;
        if (node_read(&inventory, config, err) < 0)
                return view->simulated ? -1 : error_prefix(err, "this node (--model plans for a simulated one)");
        if (plan_build(&plan, arena, config, inventory, plan_add_warning, &warnings, err) < 0)
                return -1;
        warn_about_gpus(&warnings, inventory);
        view->plan = plan;
        mps_wanted_of(&view->daemons, arena, plan);
        if (config->dra.enabled) {
                struct dra_options options = dra_options_from(config, inventory, arena);

                if (plan_is_set(values, KUBERNETES) && dra_release_forgets_shares(values[KUBERNETES]))
                        options.forgetful = values[KUBERNETES];
                view->dra = dra_layout_build(arena, inventory, &options);
        }
        plan_command_print(view, values[OUTPUT]);
        plan_done(plan);
        return 0;
}

/* ---- a trace ---- */

/* The GPUs of the simulated node in MIG mode, with the devices that |mig| names. */
static int read_divided(struct inventory **ret, const struct command_call *call, const struct config *config,
        const char *mig, struct error *err)
{
        struct simulator_node node = simulated_node(call->values);

        node.mig = mig;
        return simulator_set_node(&node, err) < 0 ? -1 : node_read(ret, config, err);
}

/* As many devices of one profile as a GPU can have; profiles with other engines ("+me") are of no other size. */
static int read_divisions(const struct command_call *call, const struct config *config, struct replay_wish *wish,
        struct replay_division *divisions, struct arena *arena, struct error *err)
{
        _cleanup_(inventory_freep) struct inventory *divided = NULL;
        const struct gpu *gpu;

        wish->divisions = divisions;
        if (read_divided(&divided, call, config, "{enabled: true}", err) < 0)
                return -1;
        gpu = &divided->gpus[0];
        for (size_t i = 0; i < gpu->n_mig_instance_profiles && wish->n_divisions < REPLAY_MAX_DIVISIONS; i++) {
                const struct mig_instance_profile *profile = &gpu->mig_instance_profiles[i];
                struct replay_division *division = &divisions[wish->n_divisions];

                if (strpbrk(profile->name, "+-") || profile->count == 0)
                        continue;
                *division = (struct replay_division){arena_strdup(arena, profile->name), profile->count, NULL};
                if (read_divided(&division->inventory, call, config,
                            arena_printf(arena, "{enabled: true, devices: [{profile: %s, count: %u}]}", profile->name,
                                    profile->count),
                            err) < 0)
                        return -1;
                wish->n_divisions++;
        }
        return 0;
}

static int plan_replay(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        struct arena *arena = &call->arena;
        struct option_set *set = &call->set;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct plan_view simulated = {0};
        struct replay_view *view = ARENA_NEW(arena, struct replay_view);
        const char **configs = ARENA_ARRAY(arena, const char *, set->n_words + 1);
        struct replay_wish wish = {.traces = values[REPLAY],
                .configs = configs,
                .replicas = values[CANDIDATES],
                .folder = values[WRITE_CONFIGS],
                .picture = values[SVG]};
        const struct config_text empty = {"defaults", "version: v1\n", strlen("version: v1\n")};
        const struct config *config;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct replay_division divisions[REPLAY_MAX_DIVISIONS];
        uint64_t nodes;
        int rc = 0;

        if (command_number(call, NODES, "", 1, REPLAY_MAX_NODES, &nodes, err) < 0 ||
                command_number(call, SEED, "", 0, INT64_MAX, &view->seed, err) < 0)
                return COMMAND_REFUSED;
        view->nodes = (unsigned int)nodes;
        for (size_t i = 0; i < set->n_words; i++)
                configs[wish.n_configs++] = set->words[i];
        if (plan_is_set(values, FILENAME))
                configs[wish.n_configs++] = values[FILENAME];
        if (simulate(set, values, &simulated, arena, err) < 0 ||
                config_build_text(set, &empty, arena, &config, command_warn, NULL, err) < 0)
                return -1;
        if (node_read(&inventory, config, err) < 0)
                return simulated.simulated ? -1 : error_prefix(err, "this node (--model plans for a simulated one)");
        if (inventory->n_gpus == 0)
                return error_set(err, ERROR_NOT_FOUND, "this node has no GPU; --model plans for a simulated one");
        view->hardware = arena_printf(arena, "%zu %s", inventory->n_gpus, inventory->gpus[0].name);
        if (has_simulated_gpus(values) && inventory->gpus[0].mig_capable)
                rc = read_divisions(call, config, &wish, divisions, arena, err);
        if (rc == 0)
                rc = replay_compare_all(view, &wish, set, arena, inventory, err);
        for (size_t i = 0; i < wish.n_divisions; i++)
                inventory_free(divisions[i].inventory);
        if (rc < 0) {
                trace_done(&view->requests);
                return -1;
        }
        if (strcmp(values[OUTPUT], "json") == 0)
                command_print_json(replay_json(view), JSON_INDENT(2));
        else
                replay_print(&text, view, command_wants_colours());
        fputs(text.data, stdout);
        trace_done(&view->requests);
        return 0;
}

static int plan_run(struct command_call *call, struct error *err)
{
        struct plan_view view = {0};
        int rc;

        call->set.is_read_only = true;
        if (*call->values[REPLAY])
                return plan_check_values(call, err) < 0 ? COMMAND_REFUSED : plan_replay(call, err);
        if (plan_check_values(call, err) < 0 || plan_choose_file(call, err) < 0 ||
                plan_counts_read(&view, call->values[REPLICAS], err) < 0)
                return COMMAND_REFUSED;
        rc = plan_show(call, &view, err);
        /* A warning may explain the error: "replicas is missing" beside the unknown key "replica". */
        for (size_t i = 0; rc < 0 && i < view.n_warnings; i++)
                command_warn(view.warnings[i], NULL);
        return rc;
}

const struct command command_plan = {
        .name = "plan",
        .summary = "show what a configuration makes of a node's GPUs, before anything runs",
        .run = plan_run,
        .is_apart = true,
        COMMAND_OWN(own),
        .program = "warpshare plan",
        .most_words = 16,
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};
