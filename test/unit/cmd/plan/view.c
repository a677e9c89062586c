// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cmd/plan/view.h"

static const struct unit unit_of_7 = {.replicas = 7};

static void check_counts(const char *text, const char *wanted)
{
        struct plan_view view = {0};
        unsigned int counts[PLAN_VIEW_COUNTS_MAX];
        struct strbuf got = STRBUF_INIT;
        struct error err;
        size_t n;

        assert_int_equal(plan_counts_read(&view, text, &err), 0);
        n = plan_counts_of(&view, &unit_of_7, counts);
        for (size_t i = 0; i < n; i++)
                strbuf_printf(&got, "%s%u", i ? "," : "", counts[i]);
        assert_string_equal(got.data, wanted);
        strbuf_done(&got);
}

static void test_counts_rise_are_there_once_and_are_those_that_the_unit_has(void **state UNUSED)
{
        check_counts("1,2,half,all", "1,2,3,7");
        check_counts("all,1", "1,7");
        check_counts("7,3,half,all,3,1", "1,3,7");
        check_counts("8,1000", "");
        check_counts("1,2,3,4,5,6,7,all,half,1,2,3,4,5,6,7", "1,2,3,4,5,6,7");
}

static void test_half_of_one_replica_is_none(void **state UNUSED)
{
        const struct unit unit = {.replicas = 1};
        struct plan_view view = {0};
        unsigned int counts[PLAN_VIEW_COUNTS_MAX];
        struct error err;

        assert_int_equal(plan_counts_read(&view, "half,all", &err), 0);
        assert_int_equal(plan_counts_of(&view, &unit, counts), 1);
        assert_int_equal(counts[0], 1);
}

static void test_what_is_no_count_is_named(void **state UNUSED)
{
        static const char *const wrong[] = {"", "0", "1,", "-1", "two", "50001", "1 ,2", "99999999999999999999"};
        struct plan_view view = {0};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_int_equal(plan_counts_read(&view, wrong[i], &err), -1);
        assert_int_equal(plan_counts_read(&view, "1,two", &err), -1);
        assert_string_equal(err.text, "replicas: 'two' is neither a number from 1 to 50000, nor half, nor all");
        assert_int_equal(plan_counts_read(&view, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", &err), -1);
        assert_string_equal(err.text, "replicas: more than 16 counts");
}

static void test_a_refusal_names_its_setting(void **state UNUSED)
{
        const struct resource one = {.fail_requests_greater_than_one = true};
        const struct resource four = {.max_per_request = 4};
        const struct resource any = {.max_per_request = 0};

        assert_null(plan_refusal(&one, 1));
        assert_string_equal(plan_refusal(&one, 2), "failRequestsGreaterThanOne");
        assert_null(plan_refusal(&four, 4));
        assert_string_equal(plan_refusal(&four, 5), "maxPerRequest");
        assert_null(plan_refusal(&any, 1000));
}

static void test_devices_exclude_each_other_when_they_need_more_than_their_gpu_has(void **state UNUSED)
{
        static const struct dra_counter all[] = {{"memory-slice-0", 1}, {"memory-slice-1", 1}, {"multiprocessors", 14}};
        static const struct dra_counter first[] = {{"memory-slice-0", 1}, {"multiprocessors", 7}};
        static const struct dra_counter second[] = {{"memory-slice-1", 1}, {"multiprocessors", 7}};
        static const struct dra_counter large[] = {{"memory-slice-1", 1}, {"multiprocessors", 8}};
        static const struct dra_counter_set sets[] = {{"gpu-0-counters", all, 3}, {"gpu-1-counters", all, 3}};
        const struct dra_device a = {.name = "a", .counter_set = &sets[0], .consumes = first, .n_consumes = 2};
        const struct dra_device b = {.name = "b", .counter_set = &sets[0], .consumes = second, .n_consumes = 2};
        const struct dra_device c = {.name = "c", .counter_set = &sets[0], .consumes = large, .n_consumes = 2};
        const struct dra_device elsewhere = {.name = "d", .counter_set = &sets[1], .consumes = all, .n_consumes = 3};
        const struct dra_device free_of_all = {.name = "e"};

        assert_false(plan_dra_excludes(&a, &b)); /* all that there is, and no more */
        assert_true(plan_dra_excludes(&a, &c));
        assert_true(plan_dra_excludes(&c, &a));
        assert_true(plan_dra_excludes(&b, &c));
        assert_false(plan_dra_excludes(&a, &a));
        assert_false(plan_dra_excludes(&a, &elsewhere));
        assert_false(plan_dra_excludes(&a, &free_of_all));
        assert_false(plan_dra_excludes(&free_of_all, &free_of_all));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_counts_rise_are_there_once_and_are_those_that_the_unit_has),
                cmocka_unit_test(test_half_of_one_replica_is_none),
                cmocka_unit_test(test_what_is_no_count_is_named),
                cmocka_unit_test(test_a_refusal_names_its_setting),
                cmocka_unit_test(test_devices_exclude_each_other_when_they_need_more_than_their_gpu_has),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
