// SPDX-License-Identifier: Apache-2.0
/* Compute instances that share GPU instances. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "mig/geometry.h"

static struct mig_shape_counts count(const unsigned int *slices, size_t n_slices)
{
        struct mig_shape_counts counts = {0};

        for (size_t i = 0; i < n_slices; i++)
                counts.of[slices[i]]++;
        return counts;
}

/* "2 1 | 1" */
static void describe(struct strbuf *text, const struct mig_shape *shapes, size_t n_shapes)
{
        for (size_t i = 0; i < n_shapes; i++)
                for (size_t j = 0; j < shapes[i].n_computes; j++)
                        strbuf_printf(text, "%s%u", j ? " " : i ? " | " : "", shapes[i].computes[j]);
}

static void test_the_largest_come_first_and_the_others_fill_up(void **state UNUSED)
{
        static const struct {
                unsigned int of; /* slices of the GPU instance */
                unsigned int slices[8];
                const char *expected;
        } cases[] = {{3, {1, 1, 1}, "1 1 1"}, {3, {1, 2, 1}, "2 1 | 1"}, {3, {2, 2, 1, 1}, "2 1 | 2 1"},
                {7, {3, 4}, "4 3"}, {7, {1, 3, 3}, "3 3 1"}, {4, {2, 1, 1}, "2 1 1"}, {2, {1}, "1"},
                {4, {3, 2}, "3 | 2"}, {2, {1, 1, 1, 1}, "1 1 | 1 1"}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                struct mig_shape shapes[8];
                size_t n_slices = 0;

                while (n_slices < ARRAY_SIZE(cases[i].slices) && cases[i].slices[n_slices])
                        n_slices++;
                const struct mig_shape_counts counts = count(cases[i].slices, n_slices);

                describe(&text, shapes, mig_shape_pack(shapes, ARRAY_SIZE(shapes), cases[i].of, &counts));
                assert_string_equal(text.data, cases[i].expected);
        }
}

static void test_what_does_not_fit_into_any_instance_is_in_none(void **state UNUSED)
{
        const unsigned int large[] = {4};
        const struct mig_shape_counts counts = count(large, 1);

        assert_int_equal(mig_shape_pack(NULL, 0, 3, &counts), 0);
}

static void test_a_shape_is_the_same_in_whatever_order_and_is_taken_as_a_whole(void **state UNUSED)
{
        const unsigned int there[] = {1, 2, 2};
        struct mig_shape_counts counts = count(there, ARRAY_SIZE(there));
        struct mig_shape a = {.n_computes = 0};
        struct mig_shape b = {.n_computes = 0};

        mig_shape_add(&a, 1);
        mig_shape_add(&a, 2);
        mig_shape_add(&b, 2);
        mig_shape_add(&b, 1);
        assert_true(mig_shape_is_same(&a, &b));
        assert_true(mig_shape_take(&counts, &a));
        assert_int_equal(counts.of[1], 0);
        assert_int_equal(counts.of[2], 1);
        assert_false(mig_shape_take(&counts, &b)); /* there is no second one of 1 slice */
        assert_int_equal(counts.of[2], 1);
        mig_shape_add(&b, 2);
        assert_false(mig_shape_is_same(&a, &b));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_largest_come_first_and_the_others_fill_up),
                cmocka_unit_test(test_what_does_not_fit_into_any_instance_is_in_none),
                cmocka_unit_test(test_a_shape_is_the_same_in_whatever_order_and_is_taken_as_a_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
