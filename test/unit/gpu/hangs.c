// SPDX-License-Identifier: Apache-2.0
/* Calls that did not return: what is left out, for how long, and in which words. */
#include "unit.h"

#include <string.h>

#include "gpu/hangs.h"

#define FIRST UINT64_C(1000)

static struct worker_call on_gpu(unsigned int index, const char *uuid)
{
        struct worker_call call = {
                .call = "nvmlDeviceGetName", .subject = CALL_ON_GPU, .index = index, .since_ms = 1000};

        snprintf(call.name, sizeof(call.name), "%s", uuid);
        return call;
}

static struct worker_call about(enum call_subject subject)
{
        return (struct worker_call){.call = "nvmlSystem", .subject = subject, .index = CALL_NO_INDEX};
}

static void test_a_gpu_that_hangs_is_left_out_with_a_reason(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call call = on_gpu(1, "GPU-b");
        struct skips skips;

        assert_true(hangs_add(&hangs, &call, false, FIRST, 0));
        assert_false(hangs_add(&hangs, &call, false, FIRST, 0));
        skips = hangs_skips(&hangs);
        assert_int_equal(skips.n_gpus, 1);
        assert_false(skips.pairs);
        assert_non_null(strstr(skips_find(&skips, "GPU-b")->reason, "nvmlDeviceGetName does not return"));
        assert_ptr_equal(skips_at(&skips, 1), skips_find(&skips, "GPU-b"));
        assert_null(skips_at(&skips, 0));
        assert_null(skips_find(&skips, "GPU-a"));
        assert_null(skips_at(NULL, 1));
}

static void test_a_call_that_crashed_is_told_as_such(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call call = on_gpu(1, "GPU-b");
        struct skips skips;

        hangs_add(&hangs, &call, true, FIRST, 0);
        skips = hangs_skips(&hangs);
        assert_non_null(strstr(skips.gpus[0].reason, "ended the process that called it"));
}

static void test_it_is_asked_again_after_pauses_that_double(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call call = on_gpu(1, "GPU-b");
        static const uint64_t pauses[] = {1000, 2000, 4000, 8000};
        struct hang *hang;

        for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
                hangs_add(&hangs, &call, false, FIRST, 5000);
                hang = hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b");
                assert_int_equal(hang->at_ms, 5000 + pauses[i]);
        }
        for (size_t i = 0; i < 20; i++)
                hangs_add(&hangs, &call, false, FIRST, 5000);
        assert_int_equal(hang->at_ms, 5000 + HANG_PAUSE_MAX_MS);
}

static void test_one_that_hangs_soon_again_goes_on_where_it_was_and_later_starts_short(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call call = on_gpu(1, "GPU-b");

        hangs_add(&hangs, &call, false, FIRST, 0);
        hangs_add(&hangs, &call, false, FIRST, 0);
        hangs_end(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b"), 10000);
        assert_null(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b"));
        assert_int_equal(hangs_skips(&hangs).n_gpus, 0);
        assert_true(hangs_add(&hangs, &call, false, FIRST, 20000));
        assert_int_equal(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b")->at_ms, 20000 + 4000);
        hangs_end(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b"), 30000);
        hangs_add(&hangs, &call, false, FIRST, 30001 + HANG_RELAPSE_MS);
        assert_int_equal(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b")->at_ms, 30001 + HANG_RELAPSE_MS + 1000);
}

static void test_a_gpu_without_a_name_is_known_by_its_index(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call nameless = on_gpu(2, "");

        hangs_add(&hangs, &nameless, false, FIRST, 0);
        assert_non_null(hangs_find(&hangs, CALL_ON_GPU, 2, ""));
        assert_non_null(hangs_find(&hangs, CALL_ON_GPU, 2, "GPU-c"));
        assert_null(hangs_find(&hangs, CALL_ON_GPU, 1, "GPU-b"));
        assert_null(hangs_find(&hangs, CALL_ON_GPU, CALL_NO_INDEX, ""));
}

static void test_the_driver_that_hangs_leaves_no_gpu_out_and_pairs_only_links(void **state UNUSED)
{
        struct hangs hangs = {0};
        const struct worker_call driver = about(CALL_ON_DRIVER);
        const struct worker_call opening = about(CALL_TO_OPEN);
        const struct worker_call pair = about(CALL_ON_PAIR);
        struct skips skips;

        assert_true(hangs_add(&hangs, &driver, false, FIRST, 0));
        assert_false(hangs_add(&hangs, &opening, false, FIRST, 0));
        assert_non_null(hangs_find(&hangs, CALL_TO_OPEN, CALL_NO_INDEX, ""));
        skips = hangs_skips(&hangs);
        assert_int_equal(skips.n_gpus, 0);
        assert_false(skips.pairs);
        assert_true(hangs_add(&hangs, &pair, false, FIRST, 0));
        skips = hangs_skips(&hangs);
        assert_int_equal(skips.n_gpus, 0);
        assert_true(skips.pairs);
}

static void test_if_there_are_too_many_the_oldest_gives_way(void **state UNUSED)
{
        struct hangs hangs = {0};

        for (unsigned int i = 0; i <= HANGS_MAX; i++) {
                struct worker_call call = on_gpu(i, "");

                call.since_ms = 1000 + i;
                assert_true(hangs_add(&hangs, &call, false, FIRST, 0));
        }
        assert_int_equal(hangs.n, HANGS_MAX);
        assert_null(hangs_find(&hangs, CALL_ON_GPU, 0, ""));
        assert_non_null(hangs_find(&hangs, CALL_ON_GPU, HANGS_MAX, ""));
        assert_int_equal(hangs_skips(&hangs).n_gpus, HANGS_MAX);
}

static void test_a_call_is_named_with_all_that_is_known_of_its_gpu(void **state UNUSED)
{
        struct gpu gpus[] = {{.uuid = "GPU-a", .index = 0}, {.uuid = "GPU-b", .index = 3}};
        const struct inventory inventory = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        struct worker_call by_index = on_gpu(3, "");
        struct worker_call by_name = on_gpu(CALL_NO_INDEX, "GPU-b");
        struct worker_call other = about(CALL_ON_DRIVER);
        char text[200];

        hang_print(&by_index, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetName of GPU 3");
        hang_print(&by_name, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetName of GPU-b");
        hang_name_gpu(&by_index, NULL);
        hang_name_gpu(&by_index, &inventory);
        hang_name_gpu(&by_name, &inventory);
        hang_print(&by_index, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetName of GPU 3 (GPU-b)");
        hang_print(&by_name, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetName of GPU 3 (GPU-b)");
        hang_name_gpu(&other, &inventory);
        hang_print(&other, text, sizeof(text));
        assert_string_equal(text, "nvmlSystem");
        assert_int_equal(hang_seconds(&by_index, 4000), 3);
        assert_int_equal(hang_seconds(&by_index, 0), 0);
}

static void test_who_was_lost_in_a_call_is_told_in_which(void **state UNUSED)
{
        struct worker_call call = on_gpu(2, "GPU-2");
        struct error cause;
        struct error err;

        snprintf(call.call, sizeof(call.call), "nvmlDeviceGetName");
        call.since_ms = 1000;
        error_raise(&cause, ERROR_TIMEOUT, "no answer: process 7 ('x') hung and was killed");
        hang_explain(&call, &cause, 11500, &err);
        assert_int_equal(err.kind, ERROR_TIMEOUT);
        assert_string_equal(err.text, "nvmlDeviceGetName of GPU 2 (GPU-2) does not return: it was given up after 10 s");
        error_raise(&cause, ERROR_UNAVAILABLE, "no answer: process 7 ('x') has ended");
        hang_explain(&call, &cause, 11500, &err);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(
                err.text, "nvmlDeviceGetName of GPU 2 (GPU-2) has not returned: no answer: process 7 ('x') has ended");
        call.call[0] = '\0';
        hang_explain(&call, &cause, 11500, &err);
        assert_string_equal(err.text, cause.text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_gpu_that_hangs_is_left_out_with_a_reason),
                cmocka_unit_test(test_a_call_that_crashed_is_told_as_such),
                cmocka_unit_test(test_it_is_asked_again_after_pauses_that_double),
                cmocka_unit_test(test_one_that_hangs_soon_again_goes_on_where_it_was_and_later_starts_short),
                cmocka_unit_test(test_a_gpu_without_a_name_is_known_by_its_index),
                cmocka_unit_test(test_the_driver_that_hangs_leaves_no_gpu_out_and_pairs_only_links),
                cmocka_unit_test(test_if_there_are_too_many_the_oldest_gives_way),
                cmocka_unit_test(test_a_call_is_named_with_all_that_is_known_of_its_gpu),
                cmocka_unit_test(test_who_was_lost_in_a_call_is_told_in_which),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
