// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "mig/node.h"
#include "mig/parted.h"
#include "model_gpu.h"

static const struct mig_gpu_profile *profile_of(const struct mig_node_gpu *gpu, const char *name)
{
        for (size_t i = 0; i < gpu->geometry.n_profiles; i++)
                if (strcmp(gpu->geometry.profiles[i].name, name) == 0)
                        return &gpu->geometry.profiles[i];
        fail_msg("no profile %s", name);
        return &gpu->geometry.profiles[0];
}

/* A GPU with these instances, each with one compute instance of all slices; |profiles| ends with NULL. */
static struct mig_node_gpu gpu_with(
        struct arena *arena, unsigned int index, const char *model, const char *const *profiles)
{
        struct mig_node_gpu gpu = model_gpu(arena, index, model);
        struct mig_gpu_instance *instances = ARENA_ARRAY(arena, struct mig_gpu_instance, 8);

        for (size_t i = 0; profiles[i]; i++) {
                const struct mig_gpu_profile *profile = profile_of(&gpu, profiles[i]);
                struct mig_gpu_device *device = ARENA_NEW(arena, struct mig_gpu_device);

                *device = (struct mig_gpu_device){.uuid = "MIG-x", .slices = profile->slices};
                instances[i] = (struct mig_gpu_instance){
                        .id = (unsigned int)i, .profile = profile, .devices = device, .n_devices = 1};
                gpu.geometry.n_instances++;
        }
        gpu.geometry.instances = instances;
        return gpu;
}

#define GPU_WITH(arena, index, model, ...) gpu_with((arena), (index), (model), (const char *const[]){__VA_ARGS__, NULL})
#define EMPTY(arena, index, model) gpu_with((arena), (index), (model), (const char *const[]){NULL})

static const char *export_yaml(struct arena *arena, const struct mig_node_gpu *gpus, size_t n_gpus)
{
        const struct mig_node node = {.gpus = gpus, .n_gpus = n_gpus};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_parted parted;
        struct error err;

        assert_ok(mig_export(&parted, arena, &node, "current", &err), &err);
        mig_parted_print(&text, &parted, false);
        return arena_strdup(arena, text.data);
}

/* ---- export ---- */

static void gpus_with_the_same_are_one_entry_for_all(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpus[] = {GPU_WITH(&arena, 0, "A100-40GB", "3g.20gb", "1g.5gb", "1g.5gb"),
                GPU_WITH(&arena, 1, "A100-40GB", "1g.5gb", "1g.5gb", "3g.20gb")};

        assert_string_equal(export_yaml(&arena, gpus, 2),
                "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n"
                "      3g.20gb: 1\n      1g.5gb: 2\n");
}

static void one_entry_for_several_models_needs_no_filter(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpus[] = {EMPTY(&arena, 0, "H100-80GB"), EMPTY(&arena, 1, "A100-40GB")};

        assert_string_equal(export_yaml(&arena, gpus, 2),
                "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {}\n");
}

static void gpus_that_differ_are_named_by_index_and_models_by_filter(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpus[] = {EMPTY(&arena, 0, "T4"), GPU_WITH(&arena, 1, "A100-40GB", "7g.40gb"),
                EMPTY(&arena, 2, "A100-40GB"), EMPTY(&arena, 3, "T4"), EMPTY(&arena, 4, "H100-80GB")};

        assert_string_equal(export_yaml(&arena, gpus, 5),
                "version: v1\nmig-configs:\n  current:\n"
                "  - device-filter: [\"0x1EB810DE\"]\n    devices: all\n    mig-enabled: false\n    mig-devices: {}\n"
                "  - device-filter: [\"0x20B010DE\"]\n    devices: [1]\n    mig-enabled: true\n    mig-devices:\n      7g.40gb: 1\n"
                "  - device-filter: [\"0x20B010DE\", \"0x233010DE\"]\n    devices: [2, 4]\n    mig-enabled: true\n"
                "    mig-devices: {}\n");
}

static void a_compute_instance_of_some_slices_is_named_by_them(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node_gpu gpu = GPU_WITH(&arena, 0, "A100-40GB", "3g.20gb", "1g.5gb");
        const struct mig_gpu_device devices[] = {{.slices = 1}, {.slices = 2}};
        struct mig_gpu_instance instances[] = {gpu.geometry.instances[0], gpu.geometry.instances[1]};

        instances[0].devices = devices;
        instances[0].n_devices = 2;
        instances[1].n_devices = 0;
        gpu.geometry.instances = instances;
        assert_string_equal(export_yaml(&arena, &gpu, 1),
                "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n"
                "      1c.3g.20gb: 1\n      2c.3g.20gb: 1\n");
}

static void a_gpu_that_cannot_be_read_is_not_exported(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpu = {.problem = "GPU GPU-0: list MIG devices: lost"};
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        struct mig_parted parted;
        struct error err;

        assert_fails(mig_export(&parted, &arena, &node, "current", &err), &err, ERROR_UNAVAILABLE,
                "GPU GPU-0: list MIG devices: lost");
}

/* ---- compare ---- */

static const struct mig_wanted_count some[] = {{"1g.5gb", 2}, {"3g.20gb", 1}};
static const struct mig_wanted wanted_some = {.is_named = true, .is_enabled = true, .counts = some, .n_counts = 2};
static const struct mig_wanted wanted_none = {.is_named = true, .is_enabled = true};
static const struct mig_wanted wanted_off = {.is_named = true};

static void what_a_gpu_has_is_compared_by_counts(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu same = GPU_WITH(&arena, 0, "A100-40GB", "1g.5gb", "3g.20gb", "1g.5gb");
        const struct mig_node_gpu fewer = GPU_WITH(&arena, 1, "A100-40GB", "1g.5gb", "1g.5gb");
        const struct mig_node_gpu more = GPU_WITH(&arena, 2, "A100-40GB", "1g.5gb", "3g.20gb", "1g.5gb", "1g.5gb");
        const struct mig_node_gpu empty = EMPTY(&arena, 3, "A100-40GB");

        assert_null(mig_compare(&arena, &same, &wanted_some, false));
        assert_string_equal(mig_compare(&arena, &fewer, &wanted_some, false), "GPU 1 has 0 of 3g.20gb, wanted are 1");
        assert_string_equal(mig_compare(&arena, &more, &wanted_some, false), "GPU 2 has 3 of 1g.5gb, wanted are 2");
        assert_null(mig_compare(&arena, &more, &wanted_some, true));
        assert_null(mig_compare(&arena, &empty, &wanted_none, false));
        assert_string_equal(mig_compare(&arena, &fewer, &wanted_none, false), "GPU 1 has 2 of 1g.5gb, wanted are 0");
        assert_null(mig_compare(&arena, &more, &(struct mig_wanted){0}, false));
}

static void the_mode_is_compared_as_it_is_now(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node_gpu gpu = EMPTY(&arena, 0, "A100-40GB");

        assert_string_equal(
                mig_compare(&arena, &gpu, &wanted_off, true), "MIG is enabled on GPU 0, wanted is disabled");
        gpu.geometry.is_pending_enabled = false;
        assert_string_equal(mig_compare(&arena, &gpu, &wanted_off, false),
                "MIG is enabled on GPU 0, wanted is disabled (after a reset of the GPU)");
        gpu.geometry.is_enabled = false;
        assert_null(mig_compare(&arena, &gpu, &wanted_off, false));
        assert_string_equal(
                mig_compare(&arena, &gpu, &wanted_none, true), "MIG is disabled on GPU 0, wanted is enabled");
}

static void an_instance_that_is_cut_further_is_not_what_is_wanted(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node_gpu gpu = GPU_WITH(&arena, 0, "A100-40GB", "1g.5gb", "3g.20gb", "1g.5gb");
        struct mig_gpu_instance instances[] = {
                gpu.geometry.instances[0], gpu.geometry.instances[1], gpu.geometry.instances[2]};

        instances[1].n_devices = 0;
        gpu.geometry.instances = instances;
        assert_string_equal(mig_compare(&arena, &gpu, &wanted_some, false),
                "GPU instance 1 of GPU 0 (3g.20gb) has no compute instance, so it is no MIG device");
}

static void parts_of_an_instance_are_compared_by_their_slices(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node_gpu gpu = GPU_WITH(&arena, 0, "A100-40GB", "3g.20gb", "3g.20gb");
        const struct mig_gpu_device first[] = {{.slices = 1}, {.slices = 2}};
        const struct mig_gpu_device second[] = {{.slices = 1}};
        struct mig_gpu_instance instances[] = {gpu.geometry.instances[0], gpu.geometry.instances[1]};
        const struct mig_wanted_count same[] = {{"3g.20gb", 2, 1}, {"3g.20gb", 1, 2}};
        const struct mig_wanted_count fewer[] = {{"3g.20gb", 1, 1}, {"3g.20gb", 1, 2}};
        const struct mig_wanted_count whole[] = {{"3g.20gb", 2}};
        struct mig_wanted wanted = {.is_named = true, .is_enabled = true, .counts = same, .n_counts = 2};

        instances[0].devices = first;
        instances[0].n_devices = 2;
        instances[1].devices = second;
        gpu.geometry.instances = instances;
        assert_null(mig_compare(&arena, &gpu, &wanted, false));
        wanted.counts = fewer;
        assert_string_equal(mig_compare(&arena, &gpu, &wanted, false), "GPU 0 has 2 of 1c.3g.20gb, wanted are 1");
        wanted.counts = whole;
        wanted.n_counts = 1;
        assert_string_equal(mig_compare(&arena, &gpu, &wanted, false), "GPU 0 has 2 of 1c.3g.20gb, wanted are 0");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(gpus_with_the_same_are_one_entry_for_all),
                cmocka_unit_test(one_entry_for_several_models_needs_no_filter),
                cmocka_unit_test(gpus_that_differ_are_named_by_index_and_models_by_filter),
                cmocka_unit_test(a_compute_instance_of_some_slices_is_named_by_them),
                cmocka_unit_test(a_gpu_that_cannot_be_read_is_not_exported),
                cmocka_unit_test(what_a_gpu_has_is_compared_by_counts),
                cmocka_unit_test(the_mode_is_compared_as_it_is_now),
                cmocka_unit_test(parts_of_an_instance_are_compared_by_their_slices),
                cmocka_unit_test(an_instance_that_is_cut_further_is_not_what_is_wanted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
