// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "mig/geometry.h"

/* An H100: 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb. */
enum { P1, P1_DOUBLE, P2, P3, P4, P7, N_PROFILES };
static const struct geometry_profile profiles[N_PROFILES] = {
        {1, 1, 7, 0x7f}, {1, 2, 4, 0x55}, {2, 2, 3, 0x15}, {3, 4, 2, 0x11}, {4, 4, 1, 0x01}, {7, 8, 1, 0x01}};
static const struct geometry_gpu h100 = {.profiles = profiles, .n_profiles = N_PROFILES, .slices = 7};

static void a_3g_is_made_beside_1gs_that_stay(void **state)
{
        (void)state;
        const struct geometry_instance present[] = {{P1, 0}, {P1, 4}, {P1, 1}};
        const unsigned int wanted[N_PROFILES] = {[P1] = 2, [P3] = 1};
        struct geometry_change change;

        assert_true(geometry_search(&change, &h100, wanted, present, 3));
        assert_int_equal(change.stays, 0x5); /* at 0 and at 1: the one at 4 is in the way */
        assert_int_equal(change.n_made, 1);
        assert_int_equal(change.made[0].profile, P3);
        assert_int_equal(change.made[0].start, 4);
}

static void compute_slices_run_out_before_memory_slices(void **state)
{
        (void)state;
        const struct geometry_gpu fewer = {.profiles = profiles, .n_profiles = N_PROFILES, .slices = 5};
        const unsigned int too_many[N_PROFILES] = {[P3] = 2}, enough[N_PROFILES] = {[P2] = 1, [P3] = 1};
        struct geometry_change change;

        assert_false(geometry_search(&change, &fewer, too_many, NULL, 0));
        assert_true(geometry_search(&change, &fewer, enough, NULL, 0));
}

/* An RTX PRO 6000: 1g, 1g+me, 1g+me.all, 1g-me; it has four decoders and one media extension. */
static void engines_run_out_before_slices(void **state)
{
        (void)state;
        enum { ONE, ME, ALL, NONE, N };
        static const struct geometry_profile kinds[N] = {
                [ONE] = {1, 1, 4, 0x0f, {[GEOMETRY_DECODERS] = 1}},
                [ME] = {1, 1, 1, 0x0f, {[GEOMETRY_DECODERS] = 1, [GEOMETRY_OFAS] = 1}},
                [ALL] = {1, 1, 1, 0x0f, {[GEOMETRY_DECODERS] = 4, [GEOMETRY_OFAS] = 1}},
                [NONE] = {1, 1, 4, 0x0f, {0}},
        };
        static const struct geometry_gpu gpu = {.profiles = kinds, .n_profiles = N, .slices = 4};
        static const struct {
                unsigned int wanted[N];
                bool fits;
        } cases[] = {
                {{[ONE] = 3, [ME] = 1}, true},
                {{[ALL] = 1, [NONE] = 3}, true},
                {{[ALL] = 1, [ONE] = 1}, false},
                {{[ALL] = 1, [ME] = 1}, false},
                {{[ME] = 2}, false},
        };
        struct geometry_change change;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_int_equal(geometry_search(&change, &gpu, cases[i].wanted, NULL, 0), cases[i].fits);
}

/* Any way at all to put the wanted ones on |used|, tried instance by instance. */
static bool fits(unsigned int *wanted, unsigned int used)
{
        bool any = false;

        for (size_t i = 0; i < N_PROFILES; i++) {
                if (wanted[i] == 0)
                        continue;
                any = true;
                for (unsigned int start = 0; start < 8; start++) {
                        unsigned int mask = ((1U << profiles[i].size) - 1) << start;

                        if (!(profiles[i].starts >> start & 1) || (used & mask))
                                continue;
                        wanted[i]--;
                        bool found = fits(wanted, used | mask);

                        wanted[i]++;
                        if (found)
                                return true;
                }
                return false; /* this one has to be somewhere */
        }
        return !any;
}

static void whatever_is_wanted_of_an_empty_gpu_is_found_where_brute_force_finds_it(void **state)
{
        (void)state;
        for (unsigned int n = 0; n < 8 * 5 * 4 * 3 * 2 * 2; n++) {
                unsigned int wanted[N_PROFILES] = {n % 8, n / 8 % 5, n / 40 % 4, n / 160 % 3, n / 480 % 2, n / 960};
                unsigned int slices = 0, used = 0;
                size_t n_wanted = 0;
                struct geometry_change change;

                for (size_t i = 0; i < N_PROFILES; i++) {
                        slices += wanted[i] * profiles[i].slices;
                        n_wanted += wanted[i];
                }
                bool found = geometry_search(&change, &h100, wanted, NULL, 0);

                assert_int_equal(found, slices <= 7 && fits(wanted, 0));
                if (!found)
                        continue;
                assert_int_equal(change.n_made, n_wanted);
                for (size_t i = 0; i < n_wanted; i++) {
                        const struct geometry_profile *profile = &profiles[change.made[i].profile];
                        unsigned int mask = ((1U << profile->size) - 1) << change.made[i].start;

                        assert_true(profile->starts >> change.made[i].start & 1);
                        assert_int_equal(used & mask, 0);
                        used |= mask;
                }
        }
}

static void as_many_instances_stay_as_brute_force_can_keep(void **state)
{
        (void)state;
        for (unsigned int n = 0; n < 20000; n++) {
                unsigned int before[N_PROFILES] = {n * 7 % 5, n / 5 % 3, n / 15 % 3, n / 45 % 2, n / 90 % 2};
                unsigned int wanted[N_PROFILES] = {n / 180 % 5, n / 900 % 3, n / 2700 % 3, n / 8100 % 2, n / 16200 % 2};
                struct geometry_change there, change;
                int best = -1;

                if (!geometry_search(&there, &h100, before, NULL, 0) ||
                        !geometry_search(&change, &h100, wanted, NULL, 0))
                        continue;
                for (unsigned int kept = 0; kept < 1U << there.n_made; kept++) {
                        unsigned int rest[N_PROFILES], used = 0;
                        bool possible = true;

                        memcpy(rest, wanted, sizeof(rest));
                        for (size_t i = 0; i < there.n_made; i++) {
                                if (!(kept >> i & 1))
                                        continue;
                                possible = possible && rest[there.made[i].profile]-- > 0;
                                used |= ((1U << profiles[there.made[i].profile].size) - 1) << there.made[i].start;
                        }
                        if (possible && __builtin_popcount(kept) > best && fits(rest, used))
                                best = __builtin_popcount(kept);
                }
                assert_true(geometry_search(&change, &h100, wanted, there.made, there.n_made));
                assert_int_equal(__builtin_popcount(change.stays), best);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_3g_is_made_beside_1gs_that_stay),
                cmocka_unit_test(compute_slices_run_out_before_memory_slices),
                cmocka_unit_test(engines_run_out_before_slices),
                cmocka_unit_test(whatever_is_wanted_of_an_empty_gpu_is_found_where_brute_force_finds_it),
                cmocka_unit_test(as_many_instances_stay_as_brute_force_can_keep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
