// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>

#include "base/macro.h"
#include "node/dra/layout.h"

static const struct gpu gpus[] = {
        {.uuid = "GPU-a", .index = 0}, {.uuid = "GPU-b", .index = 1}, {.uuid = "GPU-c", .index = 2}};
static const struct inventory inventory = {.gpus = (struct gpu *)(uintptr_t)gpus, .n_gpus = ARRAY_SIZE(gpus)};

static void test_the_gpus_that_are_selected_are_named_by_uuid(void **state UNUSED)
{
        static const struct device_ref refs[] = {{.uuid = "GPU-c"}, {.gpu = 0, .mig = -1}, {.gpu = 8, .mig = -1}};
        static const struct device_ref absent[] = {{.gpu = 8, .mig = -1}};
        struct config config = {.dra.enabled = true};
        struct arena arena = ARENA_INIT;
        struct dra_options options = dra_options_from(&config, &inventory, &arena);

        assert_int_equal(options.n_devices, 3);
        config.dra.devices = (struct device_selector){.kind = SELECT_LIST, .refs = refs, .n_refs = 3};
        options = dra_options_from(&config, &inventory, &arena);
        assert_int_equal(options.n_devices, 2);
        assert_string_equal(options.devices[0], "GPU-a");
        assert_string_equal(options.devices[1], "GPU-c");
        /* None of this node: not the same as all. */
        config.dra.devices = (struct device_selector){.kind = SELECT_LIST, .refs = absent, .n_refs = 1};
        options = dra_options_from(&config, &inventory, &arena);
        assert_int_equal(options.n_devices, 0);
        assert_non_null(options.devices);
        config.dra = (struct config_dra){.enabled = false};
        assert_int_equal(dra_options_from(&config, &inventory, &arena).n_devices, 0);
        arena_done(&arena);
}

static void test_the_layout_gets_what_the_configuration_says(void **state UNUSED)
{
        const struct config config = {.dra = {.enabled = true,
                                              .mps = true,
                                              .time_slicing = true,
                                              .slots = 8,
                                              .default_memory_mib = 4096,
                                              .default_thread_percentage = 20,
                                              .default_clients = 2,
                                              .memory_mib = 65536,
                                              .has_memory_reserve = true,
                                              .memory_reserve_mib = 512,
                                              .fallback = DRA_FALLBACK_SHARES,
                                              .one_form = DRA_ONE_FORM_WHOLE,
                                              .shares = 7}};
        struct arena arena = ARENA_INIT;
        const struct dra_options options = dra_options_from(&config, &inventory, &arena);

        assert_true(!options.config.whole && options.config.mps && options.config.time_slicing &&
                    !options.config.dynamic_mig);
        assert_int_equal(options.config.slots, 8);
        assert_int_equal(options.config.default_memory_mib, 4096);
        assert_int_equal(options.config.default_thread_percentage, 20);
        assert_int_equal(options.config.default_clients, 2);
        assert_int_equal(options.config.memory_mib, 65536);
        assert_true(options.config.has_memory_reserve);
        assert_int_equal(options.config.memory_reserve_mib, 512);
        assert_int_equal(options.config.fallback, DRA_FALLBACK_SHARES);
        assert_int_equal(options.config.one_form, DRA_ONE_FORM_WHOLE);
        assert_int_equal(options.config.shares, 7);
        assert_true(options.features.consumable_capacity && options.features.partitionable_devices &&
                    options.features.device_taints);
        arena_done(&arena);
}

static struct mig_device devices[] = {{.uuid = "MIG-a", .gpu_instance = 7}, {.uuid = "MIG-b", .gpu_instance = 8},
        {.uuid = "MIG-c", .gpu_instance = 9}};
static const struct mig_instance_profile profile = {.name = "1g.10gb", .id = 19, .size = 1, .count = 7, .starts = 0x7f};
static const struct mig_placed placed[] = {{7, 19, 6}, {8, 19, 4}, {9, 19, 5}, {10, 19, 0}};

static struct gpu cut_gpu(void)
{
        return (struct gpu){.uuid = "GPU-a",
                .mig_enabled = true,
                .mig_devices = devices,
                .n_mig_devices = ARRAY_SIZE(devices),
                .mig_instance_profiles = &profile,
                .n_mig_instance_profiles = 1,
                .mig_placed = placed,
                .n_mig_placed = ARRAY_SIZE(placed)};
}

static const struct config dynamic = {.dra = {.enabled = true, .whole = true, .dynamic_mig = true}};

/* Bit i: what is made at placed[i] is ours, since its place is a candidate. */
static unsigned int mask_of_ours(const struct dra_layout *layout)
{
        unsigned int mask = 0;

        for (size_t i = 0; i < ARRAY_SIZE(placed); i++) {
                char name[64];

                snprintf(name, sizeof(name), "gpu-0-mig-1g-10gb-at-%u", placed[i].start);
                mask |= (unsigned int)(dra_layout_find(layout, name) != NULL) << i;
        }
        return mask;
}

static void test_an_instance_is_ours_by_its_placement_and_its_mig_device(void **state UNUSED)
{
        const struct {
                struct dra_instance made;
                unsigned int mask;
        } table[] = {
                {{"GPU-a", 19, 6, DRA_INSTANCE_MADE, "MIG-a"}, 1},
                {{"GPU-a", 19, 6, DRA_INSTANCE_MADE, "MIG-x"}, 0}, /* somebody else made it where ours was */
                {{"GPU-a", 19, 6, DRA_INSTANCE_MAKING, NULL}, 1},  /* it was being made */
                {{"GPU-a", 19, 0, DRA_INSTANCE_MADE, "MIG-x"}, 8}, /* it lost its MIG device */
                {{"GPU-a", 19, 3, DRA_INSTANCE_MADE, "MIG-a"}, 0},
                {{"GPU-a", 20, 6, DRA_INSTANCE_MADE, "MIG-a"}, 0},
                {{"GPU-a", 19, 6, DRA_INSTANCE_NONE, NULL}, 0},
                {{"GPU-b", 19, 6, DRA_INSTANCE_MADE, "MIG-a"}, 0},
        };
        struct gpu gpu = cut_gpu();
        const struct inventory cut = {.gpus = &gpu, .n_gpus = 1};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct arena arena = ARENA_INIT;
                struct dra_options options = dra_options_from(&dynamic, &cut, &arena);

                options.instances = &table[i].made;
                options.n_instances = 1;
                assert_int_equal(mask_of_ours(dra_layout_build(&arena, &cut, &options)), table[i].mask);
                arena_done(&arena);
        }
}

static void test_what_is_ours_is_known_by_its_mig_device_where_the_geometry_is_not(void **state UNUSED)
{
        const struct dra_instance made[] = {
                {"GPU-a", 19, 4, DRA_INSTANCE_MADE, "MIG-b"}, {"GPU-a", 19, 0, DRA_INSTANCE_MAKING, NULL}};
        struct gpu gpu = cut_gpu();
        const struct inventory cut = {.gpus = &gpu, .n_gpus = 1};
        struct arena arena = ARENA_INIT;
        struct dra_options options = dra_options_from(&dynamic, &cut, &arena);
        const struct dra_layout *layout;

        gpu.mig_geometry_failure = "not allowed";
        gpu.n_mig_placed = gpu.n_mig_instance_profiles = 0;
        options.instances = made;
        options.n_instances = ARRAY_SIZE(made);
        layout = dra_layout_build(&arena, &cut, &options);
        assert_int_equal(layout->n_devices, 2);
        assert_non_null(dra_layout_find(layout, "gpu-0-mig-gi7-ci0"));
        assert_non_null(dra_layout_find(layout, "gpu-0-mig-gi9-ci0"));
        arena_done(&arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_gpus_that_are_selected_are_named_by_uuid),
                cmocka_unit_test(test_the_layout_gets_what_the_configuration_says),
                cmocka_unit_test(test_an_instance_is_ours_by_its_placement_and_its_mig_device),
                cmocka_unit_test(test_what_is_ours_is_known_by_its_mig_device_where_the_geometry_is_not),
        };

        return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
