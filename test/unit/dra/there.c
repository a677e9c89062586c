#include "unit.h"

#include "dra/there.h"

static void test_slices_are_the_same_after_a_rest(void **state)
{
        struct dra_there there = {0};
        json_t *slice = json_pack("{s: {s: s#, s: I}, s: f, s: [b, n, {}]}", "metadata", "name", "\xc3\xa4 \"1\"\n\0z",
                9, "generation", (json_int_t)INT64_MAX, "ratio", 0.1, "rest", 1);

        (void)state;
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        json_object_set(dra_there_slices(&there), "one", slice);
        dra_there_rest(&there);
        assert_null(there.slices);
        assert_true(json_equal(json_object_get(dra_there_slices(&there), "one"), slice));
        assert_null(there.text);

        /* And may be changed. */
        assert_int_equal(json_object_del(dra_there_slices(&there), "one"), 0);
        dra_there_rest(&there);
        dra_there_rest(&there);
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        dra_there_clear(&there);
        json_decref(slice);
}

static void test_nothing_is_left_of_slices_that_were_cleared_at_rest(void **state)
{
        struct dra_there there = {0};

        (void)state;
        json_object_set_new(dra_there_slices(&there), "one", json_object());
        dra_there_rest(&there);
        dra_there_clear(&there);
        dra_there_rest(&there); /* nothing to keep */
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        dra_there_clear(&there);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_slices_are_the_same_after_a_rest),
                cmocka_unit_test(test_nothing_is_left_of_slices_that_were_cleared_at_rest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
