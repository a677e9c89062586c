// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/alloc.h"

static void test_objects_are_zeroed_and_aligned(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;

        for (size_t size = 1; size < 200; size++) {
                unsigned char *object = arena_alloc(&arena, 1, size);

                assert_int_equal((uintptr_t)object % 16, 0);
                for (size_t i = 0; i < size; i++)
                        assert_int_equal(object[i], 0);
                memset(object, 0xff, size);
        }
        arena_done(&arena);
}

static void test_a_large_object_does_not_waste_the_current_chunk(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;
        char *before = arena_strdup(&arena, "before");
        char *large = arena_alloc(&arena, 1, 1000000);
        char *after = arena_strdup(&arena, "after");

        memset(large, 1, 1000000);
        assert_ptr_equal(after, before + 16);
        assert_string_equal(before, "before");
        assert_string_equal(after, "after");
        assert_in_range(arena_footprint(&arena), 1000000, 1010000);
        arena_done(&arena);
}

static void test_an_empty_array_can_be_the_first_object(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_non_null(ARENA_ARRAY(&arena, int, 0));
        assert_non_null(ARENA_ARRAY(&arena, int, 1));
}

static void test_a_copy_of_nothing_is_nothing(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_null(arena_strdup(&arena, NULL));
        assert_int_equal(arena_footprint(&arena), 0);
        assert_string_equal(arena_strdup(&arena, ""), "");
}

static void test_an_arena_is_usable_again_after_done(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;

        assert_string_equal(arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
        arena_done(&arena);
        arena_done(&arena);
        assert_int_equal(arena_footprint(&arena), 0);
        assert_string_equal(arena_strndup(&arena, "abcdef", 3), "abc");
        arena_done(&arena);
}

static void test_a_path_has_one_slash_below_its_root(void **state UNUSED)
{
        static const struct {
                const char *root;
                const char *path;
                const char *expected;
        } cases[] = {{"/a", "b", "/a/b"}, {"/a/", "/b", "/a/b"}, {"/a//", "b/c", "/a/b/c"}, {"/", "/b", "/b"},
                {"", "b", "/b"}};
        struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_string_equal(arena_path(&arena, cases[i].root, cases[i].path), cases[i].expected);
        arena_done(&arena);
}

static void test_taking_a_pointer_empties_the_variable(void **state UNUSED)
{
        char *text = xasprintf("%s", "x");
        _free_ char *taken = TAKE_PTR(text);

        assert_null(text);
        assert_string_equal(taken, "x");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_objects_are_zeroed_and_aligned),
                cmocka_unit_test(test_a_large_object_does_not_waste_the_current_chunk),
                cmocka_unit_test(test_an_empty_array_can_be_the_first_object),
                cmocka_unit_test(test_a_copy_of_nothing_is_nothing),
                cmocka_unit_test(test_an_arena_is_usable_again_after_done),
                cmocka_unit_test(test_a_path_has_one_slash_below_its_root),
                cmocka_unit_test(test_taking_a_pointer_empties_the_variable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
