#include "unit.h"

#include <stdio.h>

#include "gpu/hangs.h"

static struct call_info about(enum call_subject subject, unsigned int index)
{
        struct call_info call = {.call = "nvmlDeviceGetMemoryInfo", .subject = subject, .index = index};

        if (subject == CALL_ON_GPU)
                snprintf(call.gpu, sizeof(call.gpu), "GPU-%u", index);
        return call;
}

static void test_another_thread_goes_on_unless_it_would_hang_as_well(void **state UNUSED)
{
        const struct call_info driver = about(CALL_ON_DRIVER, 0);
        const struct call_info pair = about(CALL_ON_PAIR, 0);
        const struct call_info first = about(CALL_ON_GPU, 0);
        const struct {
                struct call_info call;
                struct call_info dismissed[2];
                size_t n_dismissed;
                enum hang_answer answer;
        } table[] = {
                {about(CALL_ON_GPU, 0), {{0}}, 0, HANG_REPLACE},
                {about(CALL_ON_GPU, 1), {first, driver}, 2, HANG_REPLACE},
                {about(CALL_ON_GPU, 0), {driver, first}, 2, HANG_WAIT},
                {about(CALL_ON_DRIVER, 0), {first}, 1, HANG_REPLACE},
                {about(CALL_ON_DRIVER, 0), {driver}, 1, HANG_WAIT},
                {about(CALL_ON_PAIR, 0), {driver}, 1, HANG_REPLACE},
                {about(CALL_ON_PAIR, 0), {pair}, 1, HANG_WAIT},
                {about(CALL_TO_OPEN, 0), {{0}}, 0, HANG_WAIT},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(hang_judge(&table[i].call, table[i].dismissed, table[i].n_dismissed), table[i].answer);
}

static void test_there_are_so_many_threads_and_no_more(void **state UNUSED)
{
        struct call_info dismissed[HANGS_MAX];
        const struct call_info call = about(CALL_ON_GPU, HANGS_MAX);

        for (unsigned int i = 0; i < HANGS_MAX; i++)
                dismissed[i] = about(CALL_ON_GPU, i);
        assert_int_equal(hang_judge(&call, dismissed, HANGS_MAX - 1), HANG_REPLACE);
        assert_int_equal(hang_judge(&call, dismissed, HANGS_MAX), HANG_WAIT);
}

static void test_what_hangs_is_skipped_by_place_and_by_uuid(void **state UNUSED)
{
        const struct call_info driver = about(CALL_ON_DRIVER, 0);
        const struct call_info gpu = about(CALL_ON_GPU, 3);
        const struct call_info pair = about(CALL_ON_PAIR, 0);
        struct skips skips = {0};

        skips_add(&skips, &driver, false);
        skips_add(&skips, &gpu, false);
        assert_int_equal(skips.n_gpus, 1);
        assert_false(skips.pairs);
        assert_string_equal(skips_at(&skips, 3)->reason,
                "nvmlDeviceGetMemoryInfo does not return; this GPU is not polled until it does");
        assert_ptr_equal(skips_find(&skips, "GPU-3"), skips_at(&skips, 3));
        assert_null(skips_at(&skips, 0));
        assert_null(skips_find(&skips, "GPU-0"));
        assert_null(skips_find(NULL, "GPU-3"));
        skips = (struct skips){0};
        skips_add(&skips, &pair, false);
        assert_true(skips.pairs);
        assert_int_equal(skips.n_gpus, 0);
        for (unsigned int i = 0; i < SKIPS_MAX + 1; i++)
                skips_add(&skips, &gpu, true);
        assert_int_equal(skips.n_gpus, SKIPS_MAX);
        assert_string_equal(skips.gpus[0].reason,
                "nvmlDeviceGetMemoryInfo took too long again and again; this GPU is polled again later");
}

static void test_a_gpu_that_hangs_again_and_again_is_asked_less_often(void **state UNUSED)
{
        struct hang_history history = {0};
        struct call_info call = about(CALL_ON_GPU, 1);
        const struct call_info other = about(CALL_ON_GPU, 2);
        uint64_t now_ms = 1000;
        static const uint64_t pauses[] = {0, 30000, 60000, 120000, 240000, 480000, 600000, 600000};

        for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
                call.since_ms = now_ms;
                now_ms += 45000;
                assert_int_equal(hang_history_add(&history, &call, HANG_PAUSE_MS, now_ms), pauses[i]);
                now_ms += pauses[i];
        }
        assert_int_equal(hang_history_add(&history, &other, HANG_PAUSE_MS, now_ms), 0);
        /* It held out for a while. */
        call.since_ms = now_ms + HANG_RELAPSE_MS + 1;
        now_ms = call.since_ms + 45000;
        assert_int_equal(hang_history_add(&history, &call, HANG_PAUSE_MS, now_ms), 0);
}

static void test_the_history_forgets_the_oldest(void **state UNUSED)
{
        struct hang_history history = {0};

        for (unsigned int i = 0; i <= HANGS_MAX; i++) {
                const struct call_info call = about(CALL_ON_GPU, i);

                assert_int_equal(hang_history_add(&history, &call, HANG_PAUSE_MS, 1000 + i), 0);
        }
        assert_int_equal(history.n_past, HANGS_MAX);
        for (unsigned int i = HANGS_MAX; i >= 1; i--) {
                const struct call_info call = about(CALL_ON_GPU, i);

                assert_int_equal(hang_history_add(&history, &call, HANG_PAUSE_MS, 2000 + i), HANG_PAUSE_MS);
        }
}

static void test_a_gpu_without_a_known_name_is_identified_by_its_place(void **state UNUSED)
{
        struct inventory *inventory = inventory_new();
        struct call_info call = {.call = "nvmlDeviceGetUUID", .subject = CALL_ON_GPU, .index = 5};
        char text[100];

        inventory->gpus = ARENA_ARRAY(&inventory->arena, struct gpu, 1);
        inventory->gpus[0] = inventory_unknown_gpu("GPU-x");
        inventory->gpus[0].index = 5;
        inventory->n_gpus = 1;
        hang_print(&call, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetUUID of GPU 5");
        hang_name_gpu(&call, NULL);
        assert_string_equal(call.gpu, "");
        hang_name_gpu(&call, inventory);
        hang_print(&call, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetUUID of GPU 5 (GPU-x)");
        call.index = CALL_NO_INDEX;
        hang_print(&call, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetUUID of GPU-x");
        call.subject = CALL_ON_DRIVER;
        hang_print(&call, text, sizeof(text));
        assert_string_equal(text, "nvmlDeviceGetUUID");
        inventory_free(inventory);
}

static void test_who_was_lost_in_a_call_is_told_in_which(void **state UNUSED)
{
        struct call_info call = about(CALL_ON_GPU, 2);
        struct error cause;
        struct error err;

        call.call = "nvmlDeviceGetName";
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
        call.call = NULL;
        hang_explain(&call, &cause, 11500, &err);
        assert_string_equal(err.text, cause.text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_another_thread_goes_on_unless_it_would_hang_as_well),
                cmocka_unit_test(test_there_are_so_many_threads_and_no_more),
                cmocka_unit_test(test_what_hangs_is_skipped_by_place_and_by_uuid),
                cmocka_unit_test(test_a_gpu_that_hangs_again_and_again_is_asked_less_often),
                cmocka_unit_test(test_the_history_forgets_the_oldest),
                cmocka_unit_test(test_a_gpu_without_a_known_name_is_identified_by_its_place),
                cmocka_unit_test(test_who_was_lost_in_a_call_is_told_in_which),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
