// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "mig/parted.h"
#include "mig/profile_text.h"
#include "model_gpu.h"

static const char *text_of_wanted(struct arena *arena, const struct mig_wanted *wanted)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (!wanted->is_named)
                return "left alone";
        strbuf_puts(&text, wanted->is_enabled ? "on" : "off");
        for (size_t i = 0; i < wanted->n_counts; i++)
                strbuf_printf(&text, " %s*%u",
                        mig_profile_text_device(arena, wanted->counts[i].profile, wanted->counts[i].compute),
                        wanted->counts[i].count);
        return arena_strdup(arena, text.data);
}

/* Configuration |name| of |file| on GPUs of these models, in one text, or the error's. */
static const char *resolve(
        struct arena *arena, const char *file, const char *name, const char *const *models, size_t n_models)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_node_gpu *gpus = ARENA_ARRAY(arena, struct mig_node_gpu, n_models);
        const struct mig_node node = {.gpus = gpus, .n_gpus = n_models};
        const struct mig_parted_config *config;
        const struct mig_wanted *wanted;
        struct mig_parted parted;
        struct error err;

        for (unsigned int i = 0; i < n_models; i++)
                gpus[i] = model_gpu(arena, i, models[i]);
        if (mig_parted_parse(&parted, arena, "config 'f'", file, strlen(file), NULL, NULL, &err) < 0 ||
                mig_parted_choose(&config, &parted, name, &err) < 0 ||
                mig_parted_resolve(&wanted, arena, config, &node, false, &err) < 0)
                return arena_strdup(arena, err.text);
        for (size_t i = 0; i < n_models; i++)
                strbuf_printf(&text, "%s%s", i ? "; " : "", text_of_wanted(arena, &wanted[i]));
        return arena_strdup(arena, text.data);
}

#define RESOLVE(arena, file, name, ...)                                                                                \
        resolve((arena), (file), (name), (const char *const[]){__VA_ARGS__},                                           \
                ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

/* ---- what a file may say ---- */

static void a_gpu_without_an_entry_is_left_alone(void **state)
{
        (void)state;
        static const char file[] = "version: v1\n"
                                   "mig-configs:\n"
                                   "  some:\n"
                                   "  - {devices: [0, 7], mig-enabled: false}\n"
                                   "  - devices: [1]\n"
                                   "    mig-enabled: true\n"
                                   "    mig-devices: {1g.5gb: 2, 2g.10gb: 0, 3g.20gb: 1}\n"
                                   "  - {devices: [3], mig-enabled: true, mig-devices: {}}\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "some", "A100-40GB", "A100-40GB", "A100-40GB", "A100-40GB"),
                "off; on 1g.5gb*2 3g.20gb*1; left alone; on");
}

/* NVIDIA's program looks at the mode of each entry, and gives a GPU the devices of one after the other. */
static void the_last_entry_for_a_gpu_counts_unless_they_differ_in_the_mode(void **state)
{
        (void)state;
        static const char file[] =
                "version: v1\n"
                "mig-configs:\n"
                "  over:\n"
                "  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}\n"
                "  - {devices: [1], mig-enabled: false}\n"
                "  apart:\n"
                "  - {devices: all, device-filter: '0x20B010DE', mig-enabled: true, mig-devices: {}}\n"
                "  - {devices: all, device-filter: '0x233010DE', mig-enabled: false}\n"
                "  devices:\n"
                "  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}\n"
                "  - {devices: [0], mig-enabled: true, mig-devices: {3g.20gb: 2}}\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "over", "A100-40GB", "A100-40GB"),
                "config 'f' line 5: mig-configs.over[1]: disables MIG on GPU 1 (NVIDIA A100-SXM4-40GB), and another entry enables it "
                "(config 'f' line 4: mig-configs.over[0]): leave one of them for this GPU");
        assert_string_equal(RESOLVE(&arena, file, "over", "A100-40GB"), "on 1g.5gb*7");
        assert_string_equal(RESOLVE(&arena, file, "apart", "A100-40GB", "H100-80GB"), "on; off");
        assert_string_equal(RESOLVE(&arena, file, "devices", "A100-40GB", "A100-40GB"), "on 3g.20gb*2; on 1g.5gb*7");
}

static void a_configuration_for_none_of_the_gpus_is_refused(void **state)
{
        (void)state;
        static const char file[] = "version: v1\n"
                                   "mig-configs:\n"
                                   "  absent: [{devices: [7], mig-enabled: true, mig-devices: {1g.6gb: 4}}]\n"
                                   "  another: [{devices: all, device-filter: '0x232110DE', mig-enabled: false}]\n"
                                   "  vendorless: [{devices: all, device-filter: '0x20B7', mig-enabled: false}]\n"
                                   "  on: [{devices: all, mig-enabled: true, mig-devices: {}}]\n"
                                   "  off: [{devices: all, mig-enabled: false}]\n"
                                   "  second: [{devices: [1], mig-enabled: true, mig-devices: {1g.6gb: 4}}]\n";
        static const char *const names[] = {"absent", "another", "vendorless"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                assert_string_equal(RESOLVE(&arena, file, names[i], "A30", "T4"),
                        arena_printf(&arena,
                                "the configuration '%s' is for none of this node's GPUs: look at devices and device-filter of its "
                                "entries; the node has GPU 0 (NVIDIA A30, 0x20B710DE), GPU 1 (Tesla T4, 0x1EB810DE, without MIG)",
                                names[i]));
        assert_non_null(strstr(RESOLVE(&arena, file, "on", "T4"), "'on' is for none of this node's GPUs"));
        assert_string_equal(RESOLVE(&arena, file, "off", "T4"), "left alone"); /* it has what is wanted */
        assert_string_equal(RESOLVE(&arena, file, "second", "A30", "A30"), "left alone; on 1g.6gb*4");
}

static void a_configuration_that_cannot_be_used_does_not_spoil_the_others(void **state)
{
        (void)state;
        static const char file[] = "version: v1\n"
                                   "mig-configs:\n"
                                   "  mine: [{devices: all, mig-enabled: false}]\n"
                                   "  filter: [{devices: all, device-filter: A100-SXM4-40GB, mig-enabled: false}]\n"
                                   "  number: [{devices: 1, mig-enabled: false}]\n"
                                   "  nothing:\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "mine", "A30"), "off");
        assert_non_null(strstr(RESOLVE(&arena, file, "filter", "A30"),
                "config 'f' line 4: mig-configs.filter[0].device-filter: \"A100-SXM4-40GB\", must be device and vendor"));
        assert_string_equal(RESOLVE(&arena, file, "number", "A30"),
                "config 'f' line 5: mig-configs.number[0].devices: 1, must be all, or a list of indices such as [0, 1]");
        assert_non_null(strstr(RESOLVE(&arena, file, "nothing", "A30"), "nothing: is empty, must have an entry"));
}

/* As Go reads it. */
static void mig_enabled_may_be_null_for_false(void **state)
{
        (void)state;
        static const char file[] = "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: null}]\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "a", "A30"), "off");
}

static void note_warning(const char *text, void *data)
{
        struct strbuf *warnings = data;

        strbuf_printf(warnings, "%s\n", text);
}

static void what_an_entry_names_and_the_node_has_not_is_said(void **state)
{
        (void)state;
        static const char file[] =
                "version: v1\n"
                "mig-configs:\n"
                "  some:\n"
                "  - {devices: [0, 1, 2, 3], device-filter: ['0x20B7', '0x20B710DE', '0x20B71002'], mig-enabled: false}\n"
                "  - {devices: all, device-filter: '0x20B010DE', mig-enabled: false}\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        const struct mig_node_gpu gpus[] = {model_gpu(&arena, 0, "A30"), model_gpu(&arena, 1, "A30")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = 2};
        struct mig_parted parted;
        struct error err;

        assert_ok(mig_parted_parse(&parted, &arena, "config 'f'", file, strlen(file), note_warning, &warnings, &err),
                &err);
        mig_parted_warn(&parted.configs[0], &node, note_warning, &warnings);
        assert_string_equal(warnings.data,
                "config 'f' line 4: mig-configs.some[0].device-filter[0]: \"0x20B7\" has no vendor and is for no GPU, use "
                "\"0x20B710DE\"\n"
                "config 'f' line 4: mig-configs.some[0].device-filter[2]: \"0x20B71002\" is for no GPU of NVIDIA, whose vendor is "
                "10DE\n"
                "config 'f' line 4: mig-configs.some[0].devices: 2, 3: the node has no such GPU, it has 2\n");
}

static void a_gpu_that_cannot_be_read_is_named_by_what_may_be_for_it(void **state)
{
        (void)state;
        static const struct mig_parted_filter filter = {.device = 0x20B710DE};
        static const unsigned int second[] = {1};
        static struct mig_parted_entry entries[] = {
                {.is_for_all = true, .filters = &filter, .n_filters = 1}, {.devices = second, .n_devices = 1}};
        static const struct mig_node_gpu gpus[] = {{.name = "", .problem = "GPU is lost"}};
        static const struct mig_node node = {.gpus = gpus, .n_gpus = 1};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_wanted *wanted;
        struct error err;

        for (size_t i = 0; i < 2; i++) {
                const struct mig_parted_config config = {.name = "a", .entries = &entries[i], .n_entries = 1};
                int rc = mig_parted_resolve(&wanted, &arena, &config, &node, false, &err);

                assert_int_equal(rc, i == 0 ? 0 : -1);
                assert_true(i > 0 || wanted[0].is_named);
        }
}

static void where_only_the_mode_counts_profiles_may_be_unknown(void **state)
{
        (void)state;
        static const struct mig_wanted_count counts[] = {{.profile = "1g.12gb", .count = 1}};
        static struct mig_parted_entry entry = {
                .is_for_all = true, .is_enabled = true, .counts = counts, .n_counts = 1};
        static const struct mig_parted_config config = {.name = "a", .entries = &entry, .n_entries = 1};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpu = model_gpu(&arena, 0, "H100-80GB");
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        const struct mig_wanted *wanted;
        struct error err;

        assert_int_equal(mig_parted_resolve(&wanted, &arena, &config, &node, false, &err), -1);
        assert_ok(mig_parted_resolve(&wanted, &arena, &config, &node, true, &err), &err);
        assert_string_equal(text_of_wanted(&arena, &wanted[0]), "on");
}

static void an_entry_is_only_for_the_gpus_that_its_filter_names(void **state)
{
        (void)state;
        static const char file[] =
                "version: v1\n"
                "mig-configs:\n"
                "  some:\n"
                "  - {devices: all, device-filter: '0x20B010DE', mig-enabled: true, mig-devices: {1g.5gb: 7}}\n"
                "  - {devices: [1, 2], device-filter: ['0x233010de', '0x20B710DE:0x153210DE'], mig-enabled: true, mig-devices: {}}\n"
                "  - {devices: all, device-filter: '0x233010DE:0x999910DE', mig-enabled: false}\n"
                "  - {devices: [5], device-filter: [], mig-enabled: false}\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "", "A100-40GB", "H100-80GB", "A30", "A100-40GB", "H100-80GB", "A30"),
                "on 1g.5gb*7; on; on; on 1g.5gb*7; left alone; off");
}

static void a_gpu_without_mig_is_left_alone_unless_its_index_is_asked_to_have_it(void **state)
{
        (void)state;
        static const char file[] = "version: v1\n"
                                   "mig-configs:\n"
                                   "  every: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
                                   "  off: [{devices: [1], mig-enabled: false}]\n"
                                   "  asked:\n"
                                   "  - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb: 7}}\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "every", "A100-40GB", "T4"), "on 1g.5gb*7; left alone");
        assert_string_equal(RESOLVE(&arena, file, "off", "A100-40GB", "T4"), "left alone; left alone");
        assert_string_equal(RESOLVE(&arena, file, "asked", "A100-40GB", "T4"),
                "config 'f' line 6: mig-configs.asked[0]: GPU 1 (Tesla T4) has no MIG: remove its index from devices");
}

static void a_profile_is_found_by_any_name_that_a_driver_gives_it(void **state)
{
        (void)state;
        static const struct {
                const char *model, *profile, *found;
        } names[] = {
                {"GB200", "1g.23gb", "1g.23gb"},
                {"GB200", "1g.24gb", "1g.23gb"},
                {"GB200", "1g.23gb+me", "1g.23gb+me"},
                {"GB200", "3g.95gb", "3g.93gb"},
                {"GB200", "7g.189gb", "7g.186gb"},
                {"GB200", "1g.47gb", "1g.47gb"},
                {"GB200", "1g.20gb", NULL},
                {"H100-80GB", "1c.1g.10gb", "1g.10gb"},
                {"H100-80GB", "1c.2g.20gb", NULL},
                {"H100-80GB", "1g.20gb", "1g.20gb"},
                {"H100-80GB", "1g.12gb", NULL},
                {"H100-80GB", "1g.10gb+gfx", NULL},
                {"A30", "1g.5gb", NULL},
                {"H100-80GB", "1g.0gb", NULL},
                {"Thor", "1g.0gb", "1g.0gb"},
                {"Thor", "2g.0gb+gfx", "2g.0gb+gfx"},
                {"Thor", "1g.1gb", NULL},
                {"RTX-PRO-6000", "1g.24gb", "1g.24gb"},
                {"RTX-PRO-6000", "1g.24gb+gfx", "1g.24gb+gfx"},
                {"RTX-PRO-6000", "1g.24gb+me", "1g.24gb+me"},
                {"RTX-PRO-6000", "1g.24gb+me.all", "1g.24gb+me.all"},
                {"RTX-PRO-6000", "1g.24gb-me", "1g.24gb-me"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                struct mig_node_gpu gpu = model_gpu(&arena, 0, names[i].model);
                const struct mig_gpu_profile *found = mig_profile_text_find(&gpu.geometry, names[i].profile);
                const char *name = found ? found->driver_name : "none";

                if (strcmp(name, names[i].found ? names[i].found : "none") != 0)
                        fail_msg("%s of a %s is %s", names[i].profile, names[i].model, name);
        }
}

static void what_is_no_profile_name_is_none(void **state)
{
        (void)state;
        static const char *const names[] = {"", "half", "1g", "1g.10", "1g.10gb ", "1g.10gb+", "1g.10gb+.me",
                "1g.10gb+ME", "01g.10gb", "0g.10gb", "1g.00gb", "2c.1g.10gb", "100g.10gb", "1g.100000gb",
                "1g.10gb+abcdefghijklmnop"};
        static const struct mig_gpu_profile profiles[] = {{.name = "1g.10gb"}};
        static const struct mig_geometry geometry = {.profiles = profiles, .n_profiles = 1};
        struct mig_profile_text text;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (mig_profile_text_parse(&text, names[i]) || mig_profile_text_find(&geometry, names[i]))
                        fail_msg("'%s' is a profile", names[i]);
        assert_true(mig_profile_text_parse(&text, "1c.4g.96gb+me.all"));
        assert_false(mig_profile_text_is_whole(&text));
        assert_string_equal(text.attributes, "+me.all");
}

static void the_driver_s_name_counts_before_one_that_is_made_from_numbers(void **state)
{
        (void)state;
        static const struct mig_gpu_profile profiles[] = {
                {.name = "1g.24gb", .driver_name = "1g.23gb"}, {.name = "1g.25gb", .driver_name = "1g.24gb"}};
        static const struct mig_geometry geometry = {.profiles = profiles, .n_profiles = 2};
        static const struct mig_gpu_profile made[] = {{.name = "1g.24gb"}, {.name = "1g.25gb"}};
        static const struct mig_geometry nameless = {.profiles = made, .n_profiles = 2};

        assert_ptr_equal(mig_profile_text_find(&geometry, "1g.24gb"), &profiles[1]);
        assert_ptr_equal(mig_profile_text_find(&geometry, "1g.25gb"), &profiles[1]);
        assert_ptr_equal(mig_profile_text_find(&nameless, "1g.24gb"), &made[0]);
        assert_null(mig_profile_text_find(&nameless, "1g.26gb+me"));
}

static void a_gpu_whose_driver_lists_no_profiles_keeps_the_names_of_the_file(void **state)
{
        (void)state;
        static const struct mig_wanted_count counts[] = {{"1g.5gb", 7}};
        static struct mig_parted_entry entry = {
                .is_for_all = true, .is_enabled = true, .counts = counts, .n_counts = 1};
        static const struct mig_parted_config config = {.name = "c", .entries = &entry, .n_entries = 1};
        static const struct mig_node_gpu gpu = {.name = "NVIDIA A100-SXM4-40GB", .is_capable = true};
        static const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_wanted *wanted;
        struct error err;

        assert_ok(mig_parted_resolve(&wanted, &arena, &config, &node, false, &err), &err);
        assert_string_equal(text_of_wanted(&arena, wanted), "on 1g.5gb*7");
}

static void two_names_of_one_profile_count_together(void **state)
{
        (void)state;
        static const char file[] =
                "{version: v1, mig-configs: {c: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 1c.1g.5gb: 3}}]}}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "c", "A100-40GB"), "on 1g.5gb*5");
}

static void parts_of_an_instance_count_by_their_slices(void **state)
{
        (void)state;
        static const char file[] = "{version: v1, mig-configs: {c: [{devices: all, mig-enabled: true, mig-devices: "
                                   "{1c.3g.20gb: 2, 3g.20gb: 1, 2c.3g.20gb: 1, 3c.3g.20gb: 1}}]}}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, file, "c", "A100-40GB"), "on 1c.3g.20gb*2 3g.20gb*2 2c.3g.20gb*1");
        assert_string_equal(RESOLVE(&arena, file, "c", "H100-80GB"),
                "config 'f' line 1: mig-configs.c[0].mig-devices.3g.20gb: GPU 0 (NVIDIA H100 80GB HBM3) has no such profile, use "
                "one of: 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb");
}

/* ---- what is wrong ---- */

#define ENTRY(text) "version: v1\nmig-configs:\n  c:\n  - " text "\n"
#define AT "config 'f' line 4: mig-configs.c[0]"

static void what_is_wrong_in_a_file_is_named_with_its_line_and_the_way_out(void **state)
{
        (void)state;
        static const struct {
                const char *file, *error;
        } bad[] = {
                {"", "config 'f': is empty, must begin with 'version: v1'"},
                {"- a\n", "config 'f' line 1: [\"a\"], must be a mapping"},
                {"mig-configs: {}\n", "config 'f' line 1: 'version' is missing, use 'version: v1'"},
                {"version: v2\n", "config 'f' line 1: version: \"v2\" is not a known version, use v1"},
                {"version: 1\n", "config 'f' line 1: version: 1 is not a known version, use v1"},
                {"version: v1\n", "config 'f' line 1: 'mig-configs' is missing, name a configuration in it"},
                {"version: v1\nmig-configs: {}\n",
                        "config 'f' line 2: mig-configs: is empty, must have a configuration"},
                {"version: v1\nmig-config: {}\n",
                        "config 'f' line 2: mig-config: unknown key; did you mean 'mig-configs'?"},
                {"version: v1\nmig-configs:\n  c: []\n",
                        "config 'f' line 3: mig-configs.c: is empty, must have an entry"},
                {"version: v1\nmig-configs:\n  c:\n",
                        "config 'f' line 2: mig-configs: c: is empty, must have an entry"},
                {ENTRY("{devices: all}"), AT ": 'mig-enabled' is missing, use true or false"},
                {ENTRY("{mig-enabled: false}"),
                        AT ": 'devices' is missing, use all, or a list of indices such as [0, 1]"},
                {ENTRY("{devices: all, mig-enabled: maybe}"), AT ".mig-enabled: \"maybe\", must be true or false"},
                {ENTRY("{devices: some, mig-enabled: false}"),
                        AT ".devices: \"some\", must be all, or a list of indices such as [0, 1]"},
                {ENTRY("{devices: 0, mig-enabled: false}"),
                        AT ".devices: 0, must be all, or a list of indices such as [0, 1]"},
                {ENTRY("{devices: [512], mig-enabled: false}"), AT ".devices[0]: 512, must be from 0 to 511"},
                {ENTRY("{devices: [-1], mig-enabled: false}"), AT ".devices[0]: -1, must be from 0 to 511"},
                {ENTRY("{devices: all, mig-enabled: true}"),
                        AT ": 'mig-devices' is missing where mig-enabled is true, use {} for MIG without devices"},
                {ENTRY("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}"),
                        AT ".mig-devices: has devices where mig-enabled is false: remove them, or enable MIG"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}"),
                        AT ".mig-devices: all counts are 0, use {} for MIG without devices"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 65}}"),
                        AT ".mig-devices.1g.5gb: 65, must be from 0 to 64"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}"),
                        AT ".mig-devices.1g.5gb: -1, must be from 0 to 64"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: }}"),
                        AT ".mig-devices: 1g.5gb: has no count, must be from 0 to 64"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {half: 1}}"),
                        AT ".mig-devices.half: is no MIG profile, use names like 1g.10gb, 1g.10gb+me or 1c.3g.20gb"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1c.9g.20gb: 1}}"), AT
                        ".mig-devices.1c.9g.20gb: a part of a GPU instance of 9 slices, of which parts are not supported, at "
                        "most 8: use 9g.20gb"},
                {ENTRY("{devices: all, device-filter: 0x233010DE, mig-enabled: false}"), AT
                        ".device-filter: 590352606, must be device and vendor of a GPU in quotes, like \"0x233010DE\", or with "
                        "its subsystem, like \"0x233010DE:0x16C110DE\""},
                {ENTRY("{devices: all, device-filter: ['H100'], mig-enabled: false}"), AT
                        ".device-filter[0]: \"H100\", must be device and vendor of a GPU in quotes, like \"0x233010DE\", or "
                        "with its subsystem, like \"0x233010DE:0x16C110DE\""},
                {ENTRY("{devices: all, mig-enabled: false, device: [0]}"),
                        AT ".device: unknown key; did you mean 'devices'?"},
                {ENTRY("{devices: all, mig-enabled: false, zone: 1}"), AT ".zone: unknown key, remove it"},
                {ENTRY("{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 8, 1g.11gb: 1}}"), AT
                        ".mig-devices.1g.11gb: GPU 0 (NVIDIA H100 80GB HBM3) has no such profile, use one of: 1g.10gb, "
                        "1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;

                assert_string_equal(RESOLVE(&arena, bad[i].file, "", "H100-80GB"), bad[i].error);
        }
}

static void a_configuration_is_chosen_by_name_or_is_the_only_one(void **state)
{
        (void)state;
        static const char one[] = "{version: v1, mig-configs: {a: [{devices: all, mig-enabled: false}]}}";
        static const char two[] =
                "{version: v1, mig-configs: {a: [{devices: all, mig-enabled: false}], b: [{devices: all, "
                "mig-enabled: true, mig-devices: {}}]}}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(RESOLVE(&arena, one, "", "A30"), "off");
        assert_string_equal(RESOLVE(&arena, two, "b", "A30"), "on");
        assert_string_equal(
                RESOLVE(&arena, two, "", "A30"), "config 'f' has several configurations, name one of them: a, b");
        assert_string_equal(RESOLVE(&arena, one, "c", "A30"), "config 'f' has no configuration 'c', use one of: a");
}

static void every_size_has_a_bound(void **state)
{
        (void)state;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_parted parted;
        struct error err;

        strbuf_puts(&text, "version: v1\nmig-configs:\n  c:\n");
        for (size_t i = 0; i <= MIG_PARTED_MAX_ENTRIES; i++)
                strbuf_puts(&text, "  - {devices: all, mig-enabled: false}\n");
        assert_ok(mig_parted_parse(&parted, &arena, "config 'f'", text.data, text.size, NULL, NULL, &err), &err);
        assert_string_equal(parted.configs[0].problem, "config 'f' line 3: mig-configs.c: 257 entries, at most 256");
        while (text.size <= MIG_PARTED_FILE_LIMIT)
                strbuf_puts(
                        &text, "# and so on and so on and so on and so on and so on and so on and so on and so on\n");
        assert_int_equal(mig_parted_parse(&parted, &arena, "config 'f'", text.data, text.size, NULL, NULL, &err), -1);
        assert_true(strstr(err.text, " bytes, at most 1048576"));
        strbuf_clear(&text);
        strbuf_printf(&text, "version: v1\nmig-configs:\n  %0254d: [{devices: all, mig-enabled: false}]\n", 0);
        assert_int_equal(mig_parted_parse(&parted, &arena, "config 'f'", text.data, text.size, NULL, NULL, &err), -1);
        assert_true(strstr(err.text, "the name has 254 bytes, at most 253"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_gpu_without_an_entry_is_left_alone),
                cmocka_unit_test(the_last_entry_for_a_gpu_counts_unless_they_differ_in_the_mode),
                cmocka_unit_test(a_configuration_for_none_of_the_gpus_is_refused),
                cmocka_unit_test(a_configuration_that_cannot_be_used_does_not_spoil_the_others),
                cmocka_unit_test(mig_enabled_may_be_null_for_false),
                cmocka_unit_test(what_an_entry_names_and_the_node_has_not_is_said),
                cmocka_unit_test(a_gpu_that_cannot_be_read_is_named_by_what_may_be_for_it),
                cmocka_unit_test(where_only_the_mode_counts_profiles_may_be_unknown),
                cmocka_unit_test(an_entry_is_only_for_the_gpus_that_its_filter_names),
                cmocka_unit_test(a_gpu_without_mig_is_left_alone_unless_its_index_is_asked_to_have_it),
                cmocka_unit_test(a_profile_is_found_by_any_name_that_a_driver_gives_it),
                cmocka_unit_test(what_is_no_profile_name_is_none),
                cmocka_unit_test(the_driver_s_name_counts_before_one_that_is_made_from_numbers),
                cmocka_unit_test(a_gpu_whose_driver_lists_no_profiles_keeps_the_names_of_the_file),
                cmocka_unit_test(two_names_of_one_profile_count_together),
                cmocka_unit_test(parts_of_an_instance_count_by_their_slices),
                cmocka_unit_test(what_is_wrong_in_a_file_is_named_with_its_line_and_the_way_out),
                cmocka_unit_test(a_configuration_is_chosen_by_name_or_is_the_only_one),
                cmocka_unit_test(every_size_has_a_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
