// SPDX-License-Identifier: Apache-2.0
/* warpshare mig plan: what a configuration would change on this node, before anything is touched. */
#include <stdio.h>
#include <string.h>

#include "cmd/cli/columns.h"
#include "cmd/mig/command.h"
#include "mig/profile_text.h"

/* ---- for people ---- */

/* A configuration of several, with its plan. */
struct choice {
        const char *config;
        struct mig_plan plan;
        const char *problem; /* why no plan could be made; NULL: |plan| is one */
};

#define ROW_WIDTH 72U /* of all memory slices */
#define NAME_SIZE 48U

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"

struct look {
        struct strbuf *text;
        struct arena *arena;
        bool has_colours;
};

static const char *plan_colour(const struct look *look, const char *code)
{
        return look->has_colours ? code : "";
}

/* ---- memory slices ---- */

/* An instance in a row; |mark| says what becomes of it. */
struct cell {
        const char *profile;
        unsigned int start;
        unsigned int size;
        char mark; /* '-': ends, '+': is made, ' ': stays */
};

struct row {
        struct cell cells[MIG_PLACEMENTS_MAX];
        size_t n_cells;
};

static void row_add(struct row *row, const char *profile, unsigned int start, unsigned int size, char mark)
{
        if (row->n_cells < ARRAY_SIZE(row->cells) && size > 0)
                row->cells[row->n_cells++] = (struct cell){profile, start, size, mark};
}

/* At least 1; as many as there is room for. */
static unsigned int count_slices(const struct mig_geometry *geometry)
{
        unsigned int slices = 1;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                for (size_t j = 0; j < geometry->profiles[i].n_placements; j++)
                        slices = MAX(slices,
                                geometry->profiles[i].placements[j].start + geometry->profiles[i].placements[j].size);
        return MIN(slices, ROW_WIDTH / 2);
}

/* Shortens a name that is too long for its cell by its memory: "1g.10gb+me" becomes "1g+me". */
static void fit_name(char name[NAME_SIZE], const char *profile, char mark, size_t width)
{
        const char *dot = strchr(profile, '.');
        size_t rest = dot ? strcspn(dot, "+-") : 0;
        const char *sign = mark == ' ' ? "" : (char[]){mark, '\0'};

        snprintf(name, NAME_SIZE, "%s%s", sign, profile);
        if (strlen(name) > width && dot)
                snprintf(name, NAME_SIZE, "%s%.*s%s", sign, (int)(dot - profile), profile, dot + rest);
        name[MIN(width, NAME_SIZE - 1)] = '\0';
}

static const struct cell *cell_at(const struct row *row, unsigned int slice)
{
        for (size_t i = 0; i < row->n_cells; i++)
                if (row->cells[i].start == slice)
                        return &row->cells[i];
        return NULL;
}

static void print_row(const struct look *look, const char *head, const struct row *row, unsigned int slices)
{
        unsigned int width = ROW_WIDTH / slices;

        strbuf_printf(look->text, "  %s%-5s%s│", plan_colour(look, DIM), head, plan_colour(look, PLAIN));
        for (unsigned int slice = 0; slice < slices;) {
                const struct cell *cell = cell_at(row, slice);
                unsigned int size = cell ? cell->size : 1;
                size_t inner = (size_t)width * size - 1;
                char name[NAME_SIZE] = "";

                if (cell)
                        fit_name(name, cell->profile, cell->mark, inner);
                strbuf_printf(look->text, "%s%-*s%s│",
                        plan_colour(look, !cell || cell->mark == ' ' ? ""
                                          : cell->mark == '-'        ? RED
                                                                     : GREEN),
                        (int)inner, name, plan_colour(look, cell && cell->mark != ' ' ? PLAIN : ""));
                slice += size;
        }
        strbuf_putc(look->text, '\n');
}

static void print_text_row(const struct look *look, const char *head, const char *what)
{
        strbuf_printf(look->text, "  %s%-5s%s%s\n", plan_colour(look, DIM), head, plan_colour(look, PLAIN), what);
}

static const char *instance_label(const struct look *look, const struct mig_gpu_instance *instance)
{
        const struct mig_shape shape = mig_plan_shape(instance);

        return mig_plan_label(look->arena, instance->profile->name, &shape);
}

static const char *made_label(const struct look *look, const struct mig_plan_made *made)
{
        return mig_plan_label(look->arena, made->profile, &made->shape);
}

static void print_now(const struct look *look, const struct mig_plan_gpu *plan, unsigned int slices)
{
        struct row row = {0};

        if (!plan->gpu->geometry.is_enabled) {
                print_text_row(look, "now", "MIG is disabled");
                return;
        }
        for (size_t i = 0; i < plan->n_stays; i++)
                row_add(&row, instance_label(look, plan->stays[i]), plan->stays[i]->placement.start,
                        plan->stays[i]->placement.size, ' ');
        for (size_t i = 0; i < plan->n_goes; i++)
                row_add(&row, instance_label(look, plan->goes[i]), plan->goes[i]->placement.start,
                        plan->goes[i]->placement.size, '-');
        print_row(look, "now", &row, slices);
}

static void print_unplaced(const struct look *look, const struct mig_plan_gpu *plan)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < plan->n_made; i++)
                strbuf_printf(&text, "%s%s", i ? ", " : "", made_label(look, &plan->made[i]));
        strbuf_puts(&text, ": whether and where they fit, this driver says when MIG is enabled");
        print_text_row(look, "then", text.data);
}

static void print_then(const struct look *look, const struct mig_plan_gpu *plan, unsigned int slices)
{
        struct row row = {0};

        if (!plan->wanted->is_enabled) {
                print_text_row(look, "then", "MIG is disabled");
                return;
        }
        if (plan->n_made && plan->made[0].start == MIG_START_UNKNOWN) {
                print_unplaced(look, plan);
                return;
        }
        if (plan->gpu->geometry.n_profiles == 0) {
                print_text_row(look, "then", "MIG is enabled, without MIG devices");
                return;
        }
        for (size_t i = 0; i < plan->n_stays; i++)
                row_add(&row, instance_label(look, plan->stays[i]), plan->stays[i]->placement.start,
                        plan->stays[i]->placement.size, ' ');
        for (size_t i = 0; i < plan->n_made; i++)
                row_add(&row, made_label(look, &plan->made[i]), plan->made[i].start, plan->made[i].size, '+');
        print_row(look, "then", &row, slices);
}

/* ---- one GPU ---- */

static const char *what_becomes(const struct mig_plan_gpu *plan)
{
        if (plan->problem)
                return "cannot have it";
        if (!plan->wanted->is_named)
                return "not named, left alone";
        return plan->changes ? "changes" : "has it already";
}

static void print_ends(const struct look *look, const struct mig_plan_gpu *plan)
{
        for (size_t i = 0; i < plan->n_goes; i++) {
                const struct mig_gpu_instance *instance = plan->goes[i];

                if (instance->n_devices == 0)
                        strbuf_printf(look->text, "  ends a GPU instance without MIG device (%s at %u)\n",
                                instance->profile->name, instance->placement.start);
                for (size_t j = 0; j < instance->n_devices; j++)
                        strbuf_printf(look->text, "  ends %s (%s at %u)\n", instance->devices[j].uuid,
                                mig_profile_text_device(
                                        look->arena, instance->profile->name, mig_device_compute(instance, j)),
                                instance->placement.start);
        }
}

static void print_gpu(const struct look *look, const struct mig_plan_gpu *plan)
{
        unsigned int slices = count_slices(&plan->gpu->geometry);

        strbuf_printf(look->text, "%sGPU %u%s  %s  %s: %s\n", plan_colour(look, BOLD), plan->gpu->index,
                plan_colour(look, PLAIN), plan->gpu->name, plan->gpu->uuid, what_becomes(plan));
        if (plan->problem) {
                strbuf_printf(look->text, "  %s\n", plan->problem);
                return;
        }
        if (!plan->changes)
                return;
        print_now(look, plan, slices);
        print_then(look, plan, slices);
        if (plan->gpu->geometry.is_enabled != plan->wanted->is_enabled)
                strbuf_printf(look->text, "  MIG is %s%s\n", plan->wanted->is_enabled ? "enabled" : "disabled",
                        plan->needs_reset ? ", which takes a reset of the GPU or a reboot" : " at once");
        else if (plan->changes_mode)
                strbuf_puts(look->text, "  the MIG mode that is pending is set back\n");
        print_ends(look, plan);
}

static void print_plan(struct strbuf *text, const struct mig_plan *plan, const char *config, bool has_colours)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct look look = {text, &arena, has_colours};

        for (size_t i = 0; i < plan->n_gpus; i++)
                print_gpu(&look, &plan->gpus[i]);
        if (plan->fits)
                strbuf_printf(text, "\n%s%s%s: %s\n", plan_colour(&look, BOLD), config, plan_colour(&look, PLAIN),
                        plan->changes ? "- ends, + is made; nothing is changed yet ('warpshare mig apply')"
                                      : "there is nothing to change");
}

/* ---- all configurations ---- */

/* The last column of a configuration: what its other columns do not show, or "-". */
static const char *note_of(const struct choice *choice, bool resets)
{
        for (size_t i = 0; !choice->problem && i < choice->plan.n_gpus; i++)
                if (choice->plan.gpus[i].wanted->is_named && choice->plan.gpus[i].gpu->problem)
                        return "a GPU cannot be read";
        if (choice->problem || !choice->plan.fits)
                return "-";
        return resets ? "reset" : choice->plan.changes ? "-" : "is there";
}

static void add_choice(struct columns *columns, const struct choice *choice)
{
        size_t stays = 0;
        size_t goes = 0;
        size_t made = 0;
        bool resets = false;

        for (size_t i = 0; !choice->problem && i < choice->plan.n_gpus; i++) {
                const struct mig_plan_gpu *gpu = &choice->plan.gpus[i];

                stays += gpu->n_stays;
                goes += gpu->n_goes;
                made += gpu->n_made;
                resets = resets || gpu->needs_reset;
        }
        columns_add(columns, "%s", choice->config);
        columns_add(columns, "%s", choice->problem || !choice->plan.fits ? "no" : "yes");
        columns_add(columns, "%zu", stays);
        columns_add(columns, "%zu", goes);
        columns_add(columns, "%zu", made);
        columns_add(columns, "%s", note_of(choice, resets));
}

static void print_choices(struct strbuf *text, const struct choice *choices, size_t n_choices, bool has_colours)
{
        static const struct column heads[] = {{"CONFIGURATION", false}, {"FITS", false}, {"STAY", true}, {"END", true},
                {"MADE", true}, {"NOTE", false}};
        struct columns columns;

        columns_init(&columns, heads, ARRAY_SIZE(heads));
        for (size_t i = 0; i < n_choices; i++)
                add_choice(&columns, &choices[i]);
        columns_print(text, &columns, "", has_colours);
        columns_done(&columns);
}

/* ---- JSON ---- */

static json_t *json_of_instances(const struct mig_gpu_instance *const *instances, size_t n_instances)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n_instances; i++) {
                json_t *uuids = json_array();

                for (size_t j = 0; j < instances[i]->n_devices; j++)
                        json_array_append_new(uuids, json_string(instances[i]->devices[j].uuid));
                json_array_append_new(
                        list, json_pack("{s:o, s:s, s:i}", "uuids", uuids, "profile", instances[i]->profile->name,
                                      "start", (int)instances[i]->placement.start));
        }
        return list;
}

/* Slices of each compute instance, where there is not one of all of them. */
static json_t *json_of_shape(const struct mig_shape *shape)
{
        json_t *list = json_array();

        for (size_t i = 0; i < shape->n_computes; i++)
                json_array_append_new(list, json_integer(shape->computes[i]));
        return list;
}

static json_t *json_of_made(const struct mig_plan_gpu *plan)
{
        json_t *list = json_array();

        for (size_t i = 0; i < plan->n_made; i++) {
                const struct mig_plan_made *one = &plan->made[i];
                json_t *made = json_pack("{s:s, s:o}", "profile", one->profile, "start",
                        one->start == MIG_START_UNKNOWN ? json_null() : json_integer(one->start));

                if (one->shape.n_computes)
                        json_object_set_new(made, "computes", json_of_shape(&one->shape));
                json_array_append_new(list, made);
        }
        return list;
}

static json_t *json_of_gpu(const struct mig_plan_gpu *plan)
{
        bool is_enabled = plan->gpu->geometry.is_enabled;
        json_t *mode = json_pack("{s:b, s:b, s:s}", "is", is_enabled, "wanted",
                plan->wanted->is_named ? plan->wanted->is_enabled : is_enabled, "needs",
                plan->needs_reset ? "reset" : "nothing");

        return json_pack("{s:i, s:s, s:s, s:b, s:b, s:s?, s:o, s:o, s:o, s:o}", "index", (int)plan->gpu->index, "uuid",
                plan->gpu->uuid, "name", plan->gpu->name, "named", plan->wanted->is_named, "changes", plan->changes,
                "problem", plan->problem, "mode", mode, "stays", json_of_instances(plan->stays, plan->n_stays), "goes",
                json_of_instances(plan->goes, plan->n_goes), "made", json_of_made(plan));
}

static json_t *plan_json(const struct mig_plan *plan, const char *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *gpus = json_array();

        for (size_t i = 0; i < plan->n_gpus; i++)
                json_array_append_new(gpus, json_of_gpu(&plan->gpus[i]));
        return json_pack("{s:s, s:b, s:b, s:s?, s:o}", "config", config, "fits", plan->fits, "changes", plan->changes,
                "reason", mig_plan_reason(plan, &arena), "gpus", gpus);
}

/* ---- the command ---- */

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
        print_plan(&text, &plan, source->config->name, command_wants_colours());
        if (is_json)
                command_print_json(plan_json(&plan, source->config->name), JSON_INDENT(1));
        else
                fputs(text.data, stdout);
        if (plan.fits)
                return 0;
        return error_set(err, ERROR_INVALID, "%s", mig_plan_reason(&plan, &source->arena));
}

static void plan_choice(struct choice *ret, struct mig_source *source, const struct mig_parted_config *config)
{
        const struct mig_wanted *wanted;
        struct error err;

        *ret = (struct choice){.config = config->name};
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
        struct choice *choices = ARENA_ARRAY(&source->arena, struct choice, count);
        json_t *list;

        for (size_t i = 0; i < count; i++)
                plan_choice(&choices[i], source, &source->parted.configs[i]);
        if (!is_json) {
                print_choices(&text, choices, count, command_wants_colours());
                fputs(text.data, stdout);
                return 0;
        }
        list = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, choices[i].problem
                                                    ? json_pack("{s:s, s:b, s:s}", "config", choices[i].config, "fits",
                                                              0, "reason", choices[i].problem)
                                                    : plan_json(&choices[i].plan, choices[i].config));
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
