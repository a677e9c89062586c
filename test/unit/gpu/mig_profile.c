// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "gpu/mig_profile.h"
#include "gpu/nvml_abi.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define GPU(name) NVML_GPU_INSTANCE_PROFILE_##name

/* What nvidia-smi calls these profiles, from the sizes that it prints; the first is the worked example of go-nvlib. */
static void test_profiles_have_the_names_that_nvidia_gives_them(void **state UNUSED)
{
        static const struct {
                const char *name;
                unsigned int index;
                unsigned int compute_slices;
                uint64_t memory_mib;
                uint64_t total;
        } table[] = {
                {"1g.5gb", GPU(1_SLICE), 1, 4864, UINT64_C(42505273344)},
                {"1g.5gb+me", GPU(1_SLICE_REV1), 1, 4864, UINT64_C(42505273344)},
                {"1g.10gb", GPU(1_SLICE_REV2), 1, 9984, UINT64_C(42505273344)},
                {"2g.10gb", GPU(2_SLICE), 2, 9984, UINT64_C(42505273344)},
                {"3g.20gb", GPU(3_SLICE), 3, 20096, UINT64_C(42505273344)},
                {"1c.3g.20gb", GPU(3_SLICE), 1, 20096, UINT64_C(42505273344)},
                {"2c.3g.20gb", GPU(3_SLICE), 2, 20096, UINT64_C(42505273344)},
                {"4c.7g.40gb", GPU(7_SLICE), 4, 40448, UINT64_C(42505273344)},
                {"7g.40gb", GPU(7_SLICE), 7, 40448, UINT64_C(42505273344)},
                {"1g.6gb", GPU(1_SLICE), 1, 5952, MIB(24576)},
                {"2g.12gb+me", GPU(2_SLICE_REV1), 2, 12032, MIB(24576)},
                {"3g.40gb", GPU(3_SLICE), 3, 40320, MIB(81559)},
                /* 141 GB: an eighth is 17.6, a quarter 35.25, a half 70.5, which is rounded up. */
                {"1g.18gb", GPU(1_SLICE), 1, 17792, MIB(143771)},
                {"2g.35gb", GPU(2_SLICE), 2, 35584, MIB(143771)},
                {"3g.71gb", GPU(3_SLICE), 3, 71424, MIB(143771)},
                {"1g.24gb+me.all", GPU(1_SLICE_ALL_ME), 1, 24192, MIB(97887)},
                {"1g.24gb-me", GPU(1_SLICE_NO_ME), 1, 24192, MIB(97887)},
                {"2g.48gb+gfx", GPU(2_SLICE_GFX), 2, 48512, MIB(97887)},
                {"2g.48gb-me", GPU(2_SLICE_NO_ME), 2, 48512, MIB(97887)},
                {"2g.48gb+me.all", GPU(2_SLICE_ALL_ME), 2, 48512, MIB(97887)},
                {"1g.24gb+gfx", GPU(1_SLICE_GFX), 1, 24192, MIB(97887)},
                {"4g.96gb+gfx", GPU(4_SLICE_GFX), 4, 97280, MIB(97887)},
                /* The index that NVIDIA's plugin stops at. */
                {"3g.72gb+gfx", GPU(3_SLICE_GFX), 3, 72000, MIB(97887)},
                {"6g.60gb", GPU(6_SLICE), 6, 60 << 10, MIB(80 << 10)},
                {"8g.80gb", GPU(8_SLICE), 8, 80 << 10, MIB(80 << 10)},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char name[MIG_PROFILE_SIZE] = "";

                assert_true(mig_profile_name(
                        name, table[i].index, table[i].compute_slices, table[i].memory_mib, table[i].total));
                assert_string_equal(name, table[i].name);
        }
}

static void test_what_makes_no_sense_has_no_name(void **state UNUSED)
{
        char name[MIG_PROFILE_SIZE];

        assert_false(mig_profile_name(name, NVML_GPU_INSTANCE_PROFILE_COUNT, 1, 4864, MIB(40960)));
        assert_false(mig_profile_name(name, NVML_NO_INSTANCE, 1, 4864, MIB(40960)));
        assert_false(mig_profile_name(name, GPU(3_SLICE), 0, 4864, MIB(40960)));
        assert_false(mig_profile_name(name, GPU(3_SLICE), 4, 4864, MIB(40960)));
        assert_false(mig_profile_name(name, GPU(3_SLICE), 3, 0, MIB(40960)));
        assert_false(mig_profile_name(name, GPU(3_SLICE), 3, 4864, 0));
}

static void test_sizes_beyond_reason_do_no_harm(void **state UNUSED)
{
        char name[MIG_PROFILE_SIZE];

        assert_true(mig_profile_name(name, GPU(1_SLICE_ALL_ME), 1, UINT64_MAX, 1));
        assert_true(mig_profile_name(name, GPU(1_SLICE), 1, 1, UINT64_MAX));
        assert_true(mig_profile_name(name, GPU(1_SLICE), 1, UINT64_MAX, UINT64_MAX));
        assert_string_equal(name, "1g.1048576gb");
}

static void test_compute_profiles_have_their_slices(void **state UNUSED)
{
        static const unsigned int slices[] = {1, 2, 3, 4, 7, 8, 6, 1, 7, 0};

        for (unsigned int i = 0; i < ARRAY_SIZE(slices); i++)
                assert_int_equal(mig_profile_compute_slices(i), slices[i]);
}

static void test_a_profile_is_read_out_of_what_the_driver_calls_it(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *profile; /* NULL: none */
        } table[] = {
                {"MIG 1g.5gb", "1g.5gb"},
                {"MIG 1g.0gb+me", "1g.0gb+me"},
                {"NVIDIA A30 MIG 1c.2g.12gb", "1c.2g.12gb"},
                {"NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me.all", "1g.24gb+me.all"},
                {"1g.24gb-me", "1g.24gb-me"},
                {"NVIDIA A30", NULL},
                {"MIG ", NULL},
                {"", NULL},
                {"MIG 1g.5", NULL},
                {"MIG 1g.5gb/../x", NULL},
                {"MIG 1g.5gb+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char name[MIG_PROFILE_SIZE] = "";

                assert_int_equal(mig_profile_read(name, table[i].text), table[i].profile != NULL);
                assert_string_equal(name, table[i].profile ? table[i].profile : "");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_profiles_have_the_names_that_nvidia_gives_them),
                cmocka_unit_test(test_what_makes_no_sense_has_no_name),
                cmocka_unit_test(test_sizes_beyond_reason_do_no_harm),
                cmocka_unit_test(test_compute_profiles_have_their_slices),
                cmocka_unit_test(test_a_profile_is_read_out_of_what_the_driver_calls_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
