// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "mig/parted.h"
#include "mig/plan.h"
#include "model_gpu.h"

/* "all-1g.5gb: 1g.5gb*7" of each, with filters where there are some. */
static void print_short(struct strbuf *text, const struct mig_parted *parted)
{
        for (size_t i = 0; i < parted->n_configs; i++) {
                strbuf_printf(text, "%s:", parted->configs[i].name);
                for (size_t k = 0; k < parted->configs[i].n_entries; k++) {
                        const struct mig_parted_entry *entry = &parted->configs[i].entries[k];

                        assert_true(entry->is_for_all);
                        strbuf_puts(text, k ? ";" : "");
                        for (size_t n = 0; n < entry->n_filters; n++)
                                strbuf_printf(text, " %08X", entry->filters[n].device);
                        strbuf_puts(text, entry->is_enabled ? "" : " off");
                        for (size_t n = 0; n < entry->n_counts; n++)
                                strbuf_printf(text, " %s*%u", entry->counts[n].profile, entry->counts[n].count);
                }
                strbuf_putc(text, '\n');
        }
}

static const char *sorted(struct arena *arena, const char *text)
{
        const char *lines[32];
        char *copy = arena_strdup(arena, text);
        const char *joined = "";
        size_t count = 0;

        for (char *line = strtok(copy, "\n"); line && count < ARRAY_SIZE(lines); line = strtok(NULL, "\n"))
                lines[count++] = line;
        qsort(lines, count, sizeof(*lines), text_compare);
        for (size_t i = 0; i < count; i++)
                joined = arena_printf(arena, "%s%s\n", joined, lines[i]);
        return joined;
}

static void assert_same_lines(struct arena *arena, const char *a, const char *b)
{
        assert_string_equal(sorted(arena, a), sorted(arena, b));
}

#define SEVEN(p1, p2, p3, p7, balanced)                                                                                \
        "all-disabled: off\nall-enabled:\nall-balanced: " balanced "\n"                                                \
        "all-1g." p1 "gb: 1g." p1 "gb*7\nall-1g." p1 "gb.me: 1g." p1 "gb+me*1\nall-1g." p2 "gb: 1g." p2 "gb*4\n"       \
        "all-2g." p2 "gb: 2g." p2 "gb*3\nall-3g." p3 "gb: 3g." p3 "gb*2\nall-4g." p3 "gb: 4g." p3 "gb*1\n"             \
        "all-7g." p7 "gb: 7g." p7 "gb*1\n"

/* The default file of mig-parted v0.15 has the same names, profiles and counts for these products. */
static void each_model_has_the_default_configurations_of_nvidia(void **state)
{
        (void)state;
        static const struct {
                const char *model, *text;
        } models[] = {
                {"T4", "all-disabled: off\nall-enabled:\n"},
                {"A30", "all-disabled: off\nall-enabled:\nall-balanced: 1g.6gb*2 2g.12gb*1\n"
                        "all-1g.6gb: 1g.6gb*4\nall-1g.6gb.me: 1g.6gb+me*1\nall-2g.12gb: 2g.12gb*2\n"
                        "all-2g.12gb.me: 2g.12gb+me*1\nall-4g.24gb: 4g.24gb*1\n"},
                {"A100-40GB", SEVEN("5", "10", "20", "40", "1g.5gb*2 2g.10gb*1 3g.20gb*1")},
                {"A100-80GB", SEVEN("10", "20", "40", "80", "1g.10gb*2 2g.20gb*1 3g.40gb*1")},
                {"H100-80GB", SEVEN("10", "20", "40", "80", "1g.10gb*2 2g.20gb*1 3g.40gb*1")},
                {"H200", SEVEN("18", "35", "71", "141", "1g.18gb*2 2g.35gb*1 3g.71gb*1")},
                {"RTX-PRO-6000",
                        "all-disabled: off\nall-enabled:\nall-balanced: 1g.24gb*2 2g.48gb*1\n"
                        "all-1g.24gb: 1g.24gb*4\nall-1g.24gb.me: 1g.24gb+me*1\nall-1g.24gb.gfx: 1g.24gb+gfx*4\n"
                        "all-1g.24gb.me.all: 1g.24gb+me.all*1\nall-1g.24gb-me: 1g.24gb-me*4\n"
                        "all-2g.48gb: 2g.48gb*2\nall-2g.48gb.gfx: 2g.48gb+gfx*2\n"
                        "all-2g.48gb.me.all: 2g.48gb+me.all*1\nall-2g.48gb-me: 2g.48gb-me*2\n"
                        "all-4g.96gb: 4g.96gb*1\nall-4g.96gb.gfx: 4g.96gb+gfx*1\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                const struct mig_node_gpu gpu = model_gpu(&arena, 0, models[i].model);
                const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
                struct mig_parted parted;

                mig_generate(&parted, &arena, &node);
                print_short(&text, &parted);
                assert_string_equal(text.data, models[i].text);
        }
}

/* Its driver says 23, and the numbers 24. */
static void a_configuration_has_each_name_of_its_profile(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct mig_gpu_profile profiles[] = {
                {.name = "1g.24gb", .driver_name = "1g.23gb", .slices = 1, .max = 7}};
        const struct mig_node_gpu gpu = {
                .is_capable = true, .geometry = {.profiles = profiles, .n_profiles = ARRAY_SIZE(profiles)}};
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        struct mig_parted parted;

        mig_generate(&parted, &arena, &node);
        print_short(&text, &parted);
        assert_string_equal(
                text.data, "all-disabled: off\nall-enabled:\nall-1g.23gb: 1g.23gb*7\nall-1g.24gb: 1g.23gb*7\n");
}

static void a_gpu_whose_driver_lists_no_profiles_yet_has_those_that_are_documented(void **state)
{
        (void)state;
        static const struct {
                const char *model, *text;
        } models[] = {
                {"A100-40GB", SEVEN("5", "10", "20", "40", "1g.5gb*2 2g.10gb*1 3g.20gb*1")},
                {"H100-80GB", SEVEN("10", "20", "40", "80", "1g.10gb*2 2g.20gb*1 3g.40gb*1")},
                {"H200", SEVEN("18", "35", "71", "141", "1g.18gb*2 2g.35gb*1 3g.71gb*1")},
                {"GB200", "all-disabled: off\nall-enabled:\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                struct mig_node_gpu gpu = model_gpu(&arena, 0, models[i].model);
                const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
                struct mig_parted parted;

                gpu.geometry.n_profiles = 0;
                mig_generate(&parted, &arena, &node);
                print_short(&text, &parted);
                assert_same_lines(&arena, text.data, models[i].text);
        }
}

static void the_gpu_of_a_model_whose_profiles_are_listed_counts_for_all(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct mig_gpu_profile profiles[] = {{.name = "1g.6gb", .slices = 1, .max = 7}};
        struct mig_node_gpu gpus[] = {model_gpu(&arena, 0, "A100-40GB"), model_gpu(&arena, 1, "A100-40GB")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = 2};
        struct mig_parted parted;

        gpus[0].geometry.n_profiles = 0;
        gpus[1].geometry.profiles = profiles;
        gpus[1].geometry.n_profiles = 1;
        mig_generate(&parted, &arena, &node);
        print_short(&text, &parted);
        assert_string_equal(text.data, "all-disabled: off\nall-enabled:\nall-1g.6gb: 1g.6gb*7\n");
}

static void what_nvml_says_of_an_a30_does_not_count(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct mig_gpu_profile profiles[] = {{.name = "1g.6gb", .slices = 1, .max = 7}};
        const struct mig_node_gpu gpu = {.pci_device = 0x20b710de,
                .is_capable = true,
                .geometry = {.profiles = profiles, .n_profiles = ARRAY_SIZE(profiles)}};
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        struct mig_parted parted;

        mig_generate(&parted, &arena, &node);
        print_short(&text, &parted);
        assert_true(strstr(text.data, "\nall-1g.6gb: 1g.6gb*4\n"));
}

static void gpus_of_several_models_have_filters(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct mig_node_gpu gpus[] = {model_gpu(&arena, 0, "H100-80GB"), model_gpu(&arena, 1, "A100-40GB"),
                model_gpu(&arena, 2, "T4"), model_gpu(&arena, 3, "A100-40GB"), model_gpu(&arena, 4, "A100-80GB")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        struct mig_parted parted;

        mig_generate(&parted, &arena, &node);
        print_short(&text, &parted);
        assert_true(strstr(text.data, "all-disabled: off\nall-enabled:\n"));
        assert_true(
                strstr(text.data, "all-balanced: 233010DE 20B210DE 1g.10gb*2 2g.20gb*1 3g.40gb*1; 20B010DE 1g.5gb*2 "
                                  "2g.10gb*1 3g.20gb*1\n"));
        assert_true(strstr(text.data, "all-1g.10gb: 233010DE 20B210DE 1g.10gb*7; 20B010DE 1g.10gb*4\n"));
        assert_true(strstr(text.data, "all-1g.5gb: 20B010DE 1g.5gb*7\n"));
}

static void what_is_written_reads_as_the_same(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf before = STRBUF_INIT;
        const struct mig_node_gpu gpus[] = {model_gpu(&arena, 0, "H100-80GB"), model_gpu(&arena, 1, "A100-40GB"),
                model_gpu(&arena, 2, "RTX-PRO-6000")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        struct mig_parted parted;

        mig_generate(&parted, &arena, &node);
        print_short(&before, &parted);
        for (int is_json = 0; is_json < 2; is_json++) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                _cleanup_(strbuf_done) struct strbuf after = STRBUF_INIT;
                struct mig_parted again;
                struct error err;

                mig_parted_print(&text, &parted, is_json);
                assert_ok(mig_parted_parse(&again, &arena, "f", text.data, text.size, NULL, NULL, &err), &err);
                print_short(&after, &again);
                assert_string_equal(after.data, before.data);
        }
}

static void a_name_is_quoted_where_yaml_would_read_something_else(void **state)
{
        (void)state;
        static const char *const names[] = {
                "on", "12", "1e3", "a: b", "-", "current", "#", "'", "\"", "null", "custom-config"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_parted_config configs[ARRAY_SIZE(names)];
        struct mig_parted_entry entry = {.is_for_all = true};
        const struct mig_parted parted = {.configs = configs, .n_configs = ARRAY_SIZE(names)};
        struct mig_parted again;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                configs[i] = (struct mig_parted_config){names[i], &entry, 1};
        mig_parted_print(&text, &parted, false);
        assert_ok(mig_parted_parse(&again, &arena, "f", text.data, text.size, NULL, NULL, &err), &err);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                assert_string_equal(again.configs[i].name, names[i]);
        assert_true(strstr(text.data, "\n  current:\n  - devices: all\n    mig-enabled: false\n    mig-devices: {}\n"));
        assert_true(strstr(text.data, "\n  \"on\":\n"));
}

static void each_default_configuration_fits_its_model(void **state)
{
        (void)state;
        for (size_t position = 0; model_at(position); position++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                const struct mig_node_gpu gpu = model_gpu(&arena, 0, model_at(position)->key);
                const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
                struct mig_parted parted;

                mig_generate(&parted, &arena, &node);
                for (size_t i = 0; i < parted.n_configs; i++) {
                        const struct mig_wanted *wanted;
                        struct mig_plan plan;
                        struct error err;

                        if (!gpu.is_capable && strcmp(parted.configs[i].name, "all-enabled") == 0) {
                                assert_int_equal(
                                        mig_parted_resolve(&wanted, &arena, &parted.configs[i], &node, false, &err),
                                        -1); /* there is nothing that it could enable */
                                continue;
                        }
                        assert_ok(mig_parted_resolve(&wanted, &arena, &parted.configs[i], &node, false, &err), &err);
                        mig_plan_build(&plan, &arena, &node, wanted);
                        if (!plan.fits)
                                fail_msg("%s on %s: %s", parted.configs[i].name, model_at(position)->key,
                                        mig_plan_reason(&plan, &arena));
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_model_has_the_default_configurations_of_nvidia),
                cmocka_unit_test(each_default_configuration_fits_its_model),
                cmocka_unit_test(a_configuration_has_each_name_of_its_profile),
                cmocka_unit_test(a_gpu_whose_driver_lists_no_profiles_yet_has_those_that_are_documented),
                cmocka_unit_test(the_gpu_of_a_model_whose_profiles_are_listed_counts_for_all),
                cmocka_unit_test(what_nvml_says_of_an_a30_does_not_count),
                cmocka_unit_test(gpus_of_several_models_have_filters),
                cmocka_unit_test(what_is_written_reads_as_the_same),
                cmocka_unit_test(a_name_is_quoted_where_yaml_would_read_something_else),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
