// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "node/dra/reconcile.h"
#include "node/dra/slices.h"
#include "simulated.h"

static json_t *parse(const char *text)
{
        json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);

        assert_non_null(json);
        return json;
}

static void test_a_spec_is_the_same_by_what_it_says(void **state UNUSED)
{
        static const struct {
                const char *wanted;
                const char *there;
                bool is_same;
        } table[] = {
                {"{\"value\": \"80Gi\"}", "{\"value\": \"81920Mi\"}", true},
                {"{\"value\": \"1k\"}", "{\"value\": \"1000\"}", true},
                {"{\"value\": \"80Gi\"}", "{\"value\": \"80G\"}", false},
                {"{\"string\": \"H100\"}", "{\"string\": \"H200\"}", false},
                {"{\"pool\": {\"generation\": 0}}", "{\"pool\": {\"generation\": 7}}", true},
                {"{\"pool\": {\"resourceSliceCount\": 1}}", "{\"pool\": {\"resourceSliceCount\": 2}}", false},
                {"{\"taints\": [{\"key\": \"a\"}]}", "{\"taints\": [{\"key\": \"a\", \"timeAdded\": \"t\"}]}", true},
                {"{\"taints\": [{\"key\": \"a\"}]}", "{\"taints\": [{\"key\": \"b\", \"timeAdded\": \"t\"}]}", false},
                {"{\"devices\": [1, 2]}", "{\"devices\": [1, 2, 3]}", false},
                {"{\"devices\": [1, 2]}", "{\"devices\": [2, 1]}", false},
                {"{\"a\": true}", "{}", false},
                {"{}", "{\"a\": true}", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *wanted = parse(table[i].wanted);
                json_t *there = parse(table[i].there);

                assert_int_equal(dra_slices_are_same(wanted, there), table[i].is_same);
                json_decref(wanted);
                json_decref(there);
        }
}

/* The spec of a probe, from which |key| of its device, or of its capacity, is dropped. */
static struct dra_features features_without(enum dra_api api, const char *key)
{
        const struct dra_slices_options options = {
                .driver = DRA_DRIVER, .node = "n1", .pool = "n1/" DRA_DRIVER, .api = api};
        struct dra_features features = {true, true, true, true};
        json_t *probe = dra_slices_probe(&options);
        json_t *spec = json_object_get(probe, "spec");
        json_t *answered = json_deep_copy(spec);
        json_t *device = json_array_get(json_object_get(answered, "devices"), 0);

        if (api == DRA_API_V1BETA1)
                device = json_object_get(device, "basic");
        json_incref(device); /* |key| may be that of what it is in */
        json_object_del(answered, key);
        json_object_del(device, key);
        json_object_del(json_object_get(json_object_get(device, "capacity"), "slots"), key);
        json_decref(device);
        dra_slices_dropped(&features, spec, answered);
        json_decref(answered);
        json_decref(probe);
        return features;
}

static void test_a_field_that_was_dropped_is_a_feature_that_is_off(void **state UNUSED)
{
        static const struct {
                const char *key;
                struct dra_features left;
        } table[] = {
                {"nothing", {true, true, true}},
                {"allowMultipleAllocations", {false, true, true}},
                {"requestPolicy", {false, true, true}},
                {"consumesCounters", {true, false, true}},
                {"sharedCounters", {true, false, true}},
                {"taints", {true, true, false}},
                {"devices", {false, false, false}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                for (enum dra_api api = DRA_API_V1; api <= DRA_API_V1BETA1; api++) {
                        struct dra_features features = features_without(api, table[i].key);

                        assert_int_equal(features.consumable_capacity, table[i].left.consumable_capacity);
                        assert_int_equal(features.partitionable_devices, table[i].left.partitionable_devices);
                        assert_int_equal(features.device_taints, table[i].left.device_taints);
                }
}

static const char *first_name(const char *driver, const char *node, char name[256])
{
        const struct dra_slices_options options = {.driver = driver, .node = node, .pool = node};
        json_t *probe = dra_slices_probe(&options);

        snprintf(name, 256, "%s", json_string_value(json_object_get(probe, "name")));
        json_decref(probe);
        return name;
}

static void test_names_of_slices_are_those_of_one_node_and_driver_only(void **state UNUSED)
{
        char a[256];
        char b[256];
        char node[254];

        assert_string_not_equal(first_name("a", "b-c", a), first_name("a-b", "c", b));
        assert_string_equal(first_name("a", "b-c", a), first_name("a", "b-c", b));
        memset(node, 'n', sizeof(node) - 1);
        node[sizeof(node) - 1] = '\0';
        node[159] = '.';
        first_name("gpu.warpshare.dev", node, a);
        assert_in_range(strlen(a), 1, 253);
        assert_null(strstr(a, ".-"));
}

static void test_a_pool_has_the_name_of_its_node_and_driver_where_that_is_not_too_long(void **state UNUSED)
{
        _free_ char *pool = dra_pool_name("gpu.warpshare.dev", "n1");
        char node[254];

        assert_string_equal(pool, "n1/gpu.warpshare.dev");
        memset(node, 'n', sizeof(node) - 1);
        for (size_t length = 233; length <= 253; length++) {
                _free_ char *long_pool = NULL;

                node[length] = '\0';
                long_pool = dra_pool_name("gpu.warpshare.dev", node);
                assert_in_range(strlen(long_pool), 1, DRA_POOL_MAX);
                assert_int_equal(strlen(long_pool), length <= 235 ? length + 18 : length);
                node[length] = 'n';
        }
}

/* What devices have alike is made once: of two models with MIG, and their MIG devices that are there. */
static void test_a_device_says_the_same_alone_as_among_others(void **state UNUSED)
{
        const struct dra_slices_options options = {.driver = DRA_DRIVER,
                .node = "n1",
                .pool = "n1/" DRA_DRIVER,
                .counters_apart = true,
                .has_taints = true};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *path = xasprintf("%s/%s", getenv("WARPSHARE_SCENARIOS"), "rtx-pro-mig.yaml");
        _cleanup_(inventory_freep) struct inventory *inventory = simulated_inventory(path);
        struct dra_options layout_options = DRA_OPTIONS_DEFAULT;
        const struct dra_layout *layout;
        struct dra_layout one;
        size_t n_devices = 0;
        json_t *slices, *slice;
        size_t i;

        layout_options.config.time_slicing = true;
        simulated_mig(&layout_options, &arena, inventory);
        layout = dra_layout_build(&arena, inventory, &layout_options);
        one = *layout;
        one.n_devices = 1;
        slices = dra_slices_build(layout, &options);
        json_array_foreach(slices, i, slice)
        {
                json_t *device;
                size_t j;

                json_array_foreach(json_object_get(json_object_get(slice, "spec"), "devices"), j, device)
                {
                        json_t *alone, *last;

                        one.devices = &layout->devices[n_devices++];
                        alone = dra_slices_build(&one, &options);
                        last = json_object_get(json_array_get(alone, json_array_size(alone) - 1), "spec");
                        if (!json_equal(device, json_array_get(json_object_get(last, "devices"), 0)))
                                fail_msg("%s", one.devices->name);
                        json_decref(alone);
                }
        }
        assert_int_equal(n_devices, layout->n_devices);
        assert_true(n_devices > 20);
        json_decref(slices);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_spec_is_the_same_by_what_it_says),
                cmocka_unit_test(test_a_field_that_was_dropped_is_a_feature_that_is_off),
                cmocka_unit_test(test_names_of_slices_are_those_of_one_node_and_driver_only),
                cmocka_unit_test(test_a_pool_has_the_name_of_its_node_and_driver_where_that_is_not_too_long),
                cmocka_unit_test(test_a_device_says_the_same_alone_as_among_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
