// SPDX-License-Identifier: Apache-2.0
/*
 * Whole tables of labels, for each simulated model and each case of sharing and MIG. A table is a file:
 *
 *   # scenario: {driverVersion: 580.105.08, gpus: [{model: T4}]}
 *   # config: {sharing: …}
 *   # warning: …
 *   nvidia.com/…=…
 *
 * test/fixtures/labels has all that this program says: its own labels and its warnings, too.
 * test/fixtures/labels-nvidia has what the labelers of NVIDIA's gpu-feature-discovery v0.20.0 said of the same
 * simulated machine and configuration: each label below nvidia.com/, no less and no more. Only cases stand there in
 * which both are to say the same; docs/compatibility.md has the others.
 */
#include "unit.h"

#include <glob.h>

#include "base/text.h"
#include "options.h"
#include "node/labels/labels.h"
#include "reading.h"

#define MACHINE "  DGX A100 (920-23687)\n"

struct table {
        struct arena arena;
        struct strbuf text; /* of the file */
        struct strbuf found;
        const char *scenario;
        const char *config;
        struct error err;
};

static void table_done(struct table *table)
{
        arena_done(&table->arena);
        strbuf_done(&table->text);
        strbuf_done(&table->found);
}

/* The rest of the line that begins with |name|. */
static const char *head_of(struct table *table, const char *name)
{
        const char *at = strstr(table->text.data, name);

        assert_non_null(at);
        at += strlen(name);
        return arena_strndup(&table->arena, at, strcspn(at, "\n"));
}

static void add_warning(const char *text, void *data)
{
        struct table *table = data;

        strbuf_printf(&table->found, "# warning: %s\n", text);
}

static void ignore(const char *text UNUSED, void *data UNUSED)
{
}

static const struct config *build_config(struct table *table)
{
        _free_ char *path = xasprintf("%s/config.yaml", scenario_folder);
        const char *const arguments[] = {
                arena_printf(&table->arena, "--config-file=%s", path), "--mps-root=/run/nvidia/mps", NULL};
        const char *const environment[] = {NULL};
        const struct config *config = NULL;
        struct option_set set;

        assert_ok(file_write(path, table->config, strlen(table->config), &table->err), &table->err);
        options_take(&set, &table->arena, arguments, environment);
        assert_ok(config_build(&set, &table->arena, &config, ignore, NULL, &table->err), &table->err);
        unlink(path);
        return config;
}

static bool is_whole(const struct label *label UNUSED)
{
        return true;
}

static bool is_nvidias(const struct label *label)
{
        return text_starts_with(label->key, LABELS_NVIDIA_PREFIX);
}

static void print(struct table *table, const struct labels *labels, bool (*counts)(const struct label *label))
{
        for (size_t i = 0; i < labels->count; i++)
                if (counts(&labels->items[i]))
                        strbuf_printf(&table->found, "%s=%s\n", labels->items[i].key, labels->items[i].value);
}

static bool table_holds(const char *path, bool with_ours)
{
        _cleanup_(table_done) struct table table = {.text = STRBUF_INIT, .found = STRBUF_INIT};
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct labels_input input = {.machine = MACHINE};
        struct labels labels;
        struct plan *plan = NULL;

        assert_ok(file_read(path, 65536, &table.text, &table.err), &table.err);
        table.scenario = head_of(&table, "# scenario: ");
        table.config = head_of(&table, "# config: ");
        inventory = read_scenario(table.scenario);
        input.inventory = inventory;
        input.config = build_config(&table);
        if (plan_build(&plan, &table.arena, input.config, inventory, ignore, NULL, &table.err) == 0)
                input.plan = plan;
        strbuf_printf(&table.found, "# scenario: %s\n# config: %s\n", table.scenario, table.config);
        if (!with_ours)
                input.vgpu.state = VGPU_ABSENT; /* it was a machine without one */
        labels_build(&labels, &table.arena, &input, with_ours ? add_warning : ignore, &table);
        print(&table, &labels, with_ours ? is_whole : is_nvidias);
        if (plan)
                plan_done(plan);
        if (strcmp(table.found.data, table.text.data) == 0)
                return true;
        fprintf(stderr, "%s: found\n%s\n", path, table.found.data);
        return false;
}

static void check_tables(const char *pattern, bool with_ours)
{
        size_t wrong = 0;
        glob_t tables;

        assert_int_equal(glob(pattern, 0, NULL, &tables), 0);
        assert_true(tables.gl_pathc >= 50);
        for (size_t i = 0; i < tables.gl_pathc; i++)
                wrong += !table_holds(tables.gl_pathv[i], with_ours);
        globfree(&tables);
        assert_int_equal(wrong, 0);
}

static void test_each_case_has_the_labels_of_its_table(void **state UNUSED)
{
        check_tables(LABEL_TABLES "/*.labels", true);
}

static void test_each_case_has_the_labels_of_nvidias_own_program(void **state UNUSED)
{
        check_tables(LABEL_TABLES "-nvidia/*.labels", false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_case_has_the_labels_of_its_table),
                cmocka_unit_test(test_each_case_has_the_labels_of_nvidias_own_program),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
