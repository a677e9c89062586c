// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "config/kube_name.h"

#define FIFTY_TWO "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_the_prefix_is_added_where_it_is_missing(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"gpu", "nvidia.com/gpu"},
                {"nvidia.com/gpu", "nvidia.com/gpu"},
                {"nvidia.com/gpu.shared", "nvidia.com/gpu.shared"},
                {"mig-1g.10gb.me.all", "nvidia.com/mig-1g.10gb.me.all"},
                {"a--b", "nvidia.com/a--b"},
                {"0", "nvidia.com/0"},
                {FIFTY_TWO, "nvidia.com/" FIFTY_TWO},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *name;
                struct error err;

                assert_ok(resource_name_check(table[i][0], &arena, &name, &err), &err);
                assert_string_equal(name, table[i][1]);
        }
}

static void test_other_names_are_refused(void **state UNUSED)
{
        static const char *const bad[] = {"", "nvidia.com/", "GPU", "gpu_small", "-gpu", "gpu-", ".gpu", "gpu.", "a..b",
                "a.-b", "a-.b", "gpu small", "gp\xc3\xbc"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *name;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(resource_name_check(bad[i], &arena, &name, &err), -1);
        assert_fails(resource_name_check("amd.com/gpu", &arena, &name, &err), &err, ERROR_INVALID,
                "'amd.com/gpu' is not a resource name: the only domain possible is nvidia.com/");
        assert_fails(resource_name_check(FIFTY_TWO "a", &arena, &name, &err), &err, ERROR_INVALID,
                "'" FIFTY_TWO "a' is not a resource name: 64 characters with nvidia.com/, at most 63");
        assert_fails(resource_name_check("Gpu", &arena, &name, &err), &err, ERROR_INVALID,
                "'Gpu' is not a resource name: use lower-case letters, digits, '-' and '.', a letter or digit first and "
                "last");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_prefix_is_added_where_it_is_missing),
                cmocka_unit_test(test_other_names_are_refused),
        };

        return cmocka_run_group_tests_name("resource_name", tests, NULL, NULL);
}
