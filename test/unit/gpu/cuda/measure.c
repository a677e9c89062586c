// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/macro.h"
#include "gpu/cuda/kernels.h"
#include "gpu/cuda/measure.h"
#include "gpu/cuda/cuda.h"

static void test_only_blocks_of_the_first_moment_count_as_ours_at_one_time(void **state UNUSED)
{
        /* Two SMs at first, two blocks on one of them; later blocks went to a third one. The last was never written. */
        const struct kernel_place records[] = {{.sm = 0}, {.sm = 7}, {.sm = 0}, {.sm = 0, .left = 1},
                {.sm = 9, .left = 2}, {.sm = UINT32_MAX, .left = UINT32_MAX}};
        struct measure_places places = measure_count_places(records, ARRAY_SIZE(records));

        assert_int_equal(places.at_once, 2);
        assert_int_equal(places.seen, 3);
}

static void test_the_spread_of_samples(void **state UNUSED)
{
        double odd[] = {3, 1, 2};
        double even[] = {4, 1, 3, 2};
        struct measure_spread spread = measure_spread_of(odd, 3);

        assert_true(spread.least == 1 && spread.median == 2 && spread.most == 3);
        spread = measure_spread_of(even, 4);
        assert_true(spread.least == 1 && spread.median == 2.5 && spread.most == 4);
        spread = measure_spread_of(even, 0);
        assert_true(spread.least == 0 && spread.median == 0 && spread.most == 0);
}

static void test_the_errors_of_mps_are_explained(void **state UNUSED)
{
        static const CUresult codes[] = {46, 805, 806, 807, 808, 809, 810, 915};

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
                const struct cuda_trouble *trouble = cuda_trouble(codes[i]);

                assert_non_null(trouble);
                assert_true(trouble->meaning[0] && trouble->remedy[0]);
        }
        assert_string_equal(cuda_trouble(807)->name, "CUDA_ERROR_MPS_SERVER_NOT_READY");
        assert_null(cuda_trouble(12345));
}

static void test_a_missing_library_is_explained(void **state UNUSED)
{
        struct cuda cuda;
        struct error err;

        assert_fails(cuda_open(&cuda, "/nowhere/libcuda.so.1", &err), &err, ERROR_NOT_FOUND,
                "/nowhere/libcuda.so.1 not found: was this container started with the NVIDIA runtime, does the pod request a "
                "GPU, and does NVIDIA_DRIVER_CAPABILITIES include 'compute'?");
        assert_fails(cuda_open(&cuda, "libm.so.6", &err), &err, ERROR_INVALID,
                "libm.so.6 is not CUDA's library, or too old: it has no cuInit");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_blocks_of_the_first_moment_count_as_ours_at_one_time),
                cmocka_unit_test(test_the_spread_of_samples),
                cmocka_unit_test(test_the_errors_of_mps_are_explained),
                cmocka_unit_test(test_a_missing_library_is_explained),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
