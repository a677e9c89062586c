// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"

static void test_an_empty_map_finds_nothing(void **state UNUSED)
{
        struct map map = MAP_INIT;

        assert_null(map_find(&map, "x"));
        map_done(&map);
}

static void test_ten_thousand_ids_are_all_found_and_no_others(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;
        struct map map = MAP_INIT;
        static int values[10000];
        char absent[64];

        for (int i = 0; i < 10000; i++)
                assert_true(map_add(&map,
                        arena_printf(&arena, "GPU-12345678-1234-1234-1234-12345678%04d::%d", i / 1000, i % 1000),
                        &values[i]));
        for (int i = 0; i < 10000; i++) {
                const char *id =
                        arena_printf(&arena, "GPU-12345678-1234-1234-1234-12345678%04d::%d", i / 1000, i % 1000);

                assert_ptr_equal(map_find(&map, id), &values[i]);
        }
        snprintf(absent, sizeof(absent), "GPU-12345678-1234-1234-1234-123456780000::%d", 1000);
        assert_null(map_find(&map, absent));
        map_done(&map);
        arena_done(&arena);
}

static void test_a_key_is_added_once(void **state UNUSED)
{
        struct map map = MAP_INIT;
        int first;
        int second;

        assert_true(map_add(&map, "key", &first));
        assert_false(map_add(&map, "key", &second));
        assert_ptr_equal(map_find_bytes(&map, "keyhole", 3), &first);
        assert_int_equal(map.count, 1);
        map_done(&map);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_map_finds_nothing),
                cmocka_unit_test(test_ten_thousand_ids_are_all_found_and_no_others),
                cmocka_unit_test(test_a_key_is_added_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
