// SPDX-License-Identifier: Apache-2.0
/*
 * What a change of the MIG geometry takes, from the answer of `warpshare mig plan`.
 */
#include "unit.h"

#include <string.h>

#include "mig/manager.h"

static const char plan[] =
        "time=now level=info msg=\"reading the GPUs\"\n"
        "{\"config\":\"big\",\"fits\":true,\"changes\":true,\"gpus\":["
        "{\"index\":0,\"uuid\":\"GPU-0\",\"named\":true,\"changes\":true,\"problem\":null,"
        "\"mode\":{\"is\":true,\"wanted\":true,\"needs\":\"nothing\"},"
        "\"stays\":[{\"uuids\":[\"MIG-1\",\"MIG-2\"],\"profile\":\"1g.10gb\",\"start\":0},"
        "{\"uuids\":[],\"profile\":\"1g.10gb\",\"start\":1}],"
        "\"goes\":[{\"uuids\":[\"MIG-3\"],\"profile\":\"3g.40gb\",\"start\":4}],\"made\":[]},"
        "{\"index\":1,\"uuid\":\"GPU-1\",\"named\":true,\"changes\":false,\"mode\":{\"needs\":\"nothing\"},\"stays\":[]},"
        "{\"index\":2,\"uuid\":\"GPU-2\",\"named\":true,\"changes\":true,\"mode\":{\"is\":false,\"wanted\":true,\"needs\":\"reset\"},"
        "\"stays\":[]}]}\nlevel=info msg=done\n";

static void test_everything_of_a_gpu_that_changes_is_taken_but_what_stays(void **state UNUSED)
{
        static const struct {
                const char *gpu;
                const char *unit;
                bool is_taken;
        } cases[] = {
                {"GPU-0", "GPU-0", true}, /* as a whole, where it is offered like that */
                {"GPU-0", "MIG-1", false},
                {"GPU-0", "MIG-2", false},
                {"GPU-0", "MIG-3", true},
                {"GPU-0", "MIG-new", true}, /* it may still be undone */
                {"GPU-1", "GPU-1", false},
                {"GPU-1", "MIG-4", false},
                {"GPU-2", "GPU-2", true},
                {"GPU-9", "GPU-9", false},
        };
        struct mig_handover handover;
        struct error err;

        assert_int_equal(mig_handover_read(&handover, plan, &err), 0);
        assert_true(handover.fits);
        assert_string_equal(handover.config, "big");
        assert_int_equal(handover.n_gpus, 2);
        assert_int_equal(handover.n_seen, 3);
        assert_true(handover.needs_reset);
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_int_equal(mig_handover_takes(&handover, cases[i].gpu, cases[i].unit), cases[i].is_taken);
        mig_handover_done(&handover);
        assert_false(mig_handover_takes(&handover, "GPU-0", "MIG-3"));
}

static void test_the_text_that_is_kept_says_the_same(void **state UNUSED)
{
        struct mig_handover handover;
        struct mig_handover again;
        struct error err;

        assert_int_equal(mig_handover_read(&handover, plan, &err), 0);
        assert_int_equal(mig_handover_read(&again, handover.text, &err), 0);
        assert_int_equal(again.n_gpus, 2);
        assert_true(mig_handover_takes(&again, "GPU-0", "MIG-3"));
        mig_handover_done(&handover);
        mig_handover_done(&again);
}

static void test_the_reason_of_a_plan_that_does_not_fit_is_read(void **state UNUSED)
{
        struct mig_handover handover;
        struct error err;

        assert_int_equal(
                mig_handover_read(&handover,
                        "GPU 0: 9 of 1g.10gb do not fit\n{\"fits\":false,\"reason\":\"9 of 1g.10gb do not fit\"}\n",
                        &err),
                0);
        assert_false(handover.fits);
        assert_string_equal(handover.reason, "9 of 1g.10gb do not fit");
        mig_handover_done(&handover);
}

static void test_an_answer_without_a_plan_is_an_error(void **state UNUSED)
{
        static const char *const outputs[] = {"", "killed\n", " {}", "{\"fits\":true"};
        struct mig_handover handover;
        struct error err;

        for (size_t i = 0; i < sizeof(outputs) / sizeof(*outputs); i++) {
                assert_int_equal(mig_handover_read(&handover, outputs[i], &err), -1);
                assert_non_null(strstr(err.text, "the answer of 'warpshare mig plan': "));
                assert_int_equal(handover.n_gpus, 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_everything_of_a_gpu_that_changes_is_taken_but_what_stays),
                cmocka_unit_test(test_the_text_that_is_kept_says_the_same),
                cmocka_unit_test(test_the_reason_of_a_plan_that_does_not_fit_is_read),
                cmocka_unit_test(test_an_answer_without_a_plan_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
