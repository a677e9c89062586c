#include "unit.h"

#include "base/macro.h"
#include "dra/options.h"

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
                                              .has_memory_reserve = true,
                                              .memory_reserve_mib = 512,
                                              .fallback = DRA_FALLBACK_SHARES,
                                              .shares = 7}};
        struct arena arena = ARENA_INIT;
        const struct dra_options options = dra_options_from(&config, &inventory, &arena);

        assert_true(!options.whole && options.mps && options.time_slicing && !options.dynamic_mig);
        assert_int_equal(options.slots, 8);
        assert_int_equal(options.default_memory_mib, 4096);
        assert_int_equal(options.default_thread_percentage, 20);
        assert_int_equal(options.default_clients, 2);
        assert_true(options.has_memory_reserve);
        assert_int_equal(options.memory_reserve_mib, 512);
        assert_int_equal(options.fallback, DRA_FALLBACK_SHARES);
        assert_int_equal(options.shares, 7);
        assert_true(options.features.consumable_capacity && options.features.partitionable_devices &&
                    options.features.device_taints);
        arena_done(&arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_gpus_that_are_selected_are_named_by_uuid),
                cmocka_unit_test(test_the_layout_gets_what_the_configuration_says),
        };

        return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
