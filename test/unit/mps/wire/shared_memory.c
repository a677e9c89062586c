// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/alloc.h"
#include "base/macro.h"
#include "mps/wire/status.h"

static void test_the_fuller_of_bytes_and_files_counts(void **state UNUSED)
{
        static const struct {
                struct mps_shm shm;
                unsigned int permille;
        } cases[] = {
                {{0}, 0},
                {{.size = 1000, .used = 250, .files_max = 100, .files = 1}, 250},
                {{.size = 1000, .used = 0, .files_max = 100, .files = 99}, 990},
                {{.size = 1000, .used = 10, .files_max = 0, .files = 5000}, 10},
                {{.size = 1000, .used = 4000, .files_max = 1, .files = 0}, 1000},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(mps_shm_permille(&cases[i].shm), cases[i].permille);
}

/* So a tenant that writes and removes around the bound is one event, not one a second. */
static void test_it_is_full_until_there_is_room_again(void **state UNUSED)
{
        static const struct {
                uint64_t used;
                bool is_full;
        } steps[] = {{899, false}, {900, true}, {850, true}, {800, true}, {799, false}, {850, false}, {1000, true}};
        struct mps_shm before = {0};

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                struct mps_shm shm = {.size = 1000, .used = steps[i].used};

                mps_shm_mark_full(&shm, &before);
                assert_int_equal(shm.is_full, steps[i].is_full);
                before = shm;
        }
}

static void test_owners_are_kept_while_it_is_full(void **state UNUSED)
{
        const struct mps_shm before = {
                .size = 1000, .used = 950, .is_full = true, .owners = {{1000, 900, 3}}, .n_owners = 1, .nameless = 7};
        struct mps_shm shm = {.size = 1000, .used = 960};
        struct mps_shm empty = {.size = 1000, .used = 10};

        mps_shm_mark_full(&shm, &before);
        assert_int_equal(shm.n_owners, 1);
        assert_int_equal(shm.owners[0].uid, 1000);
        assert_int_equal(shm.nameless, 7);
        mps_shm_mark_full(&empty, &before);
        assert_int_equal(empty.n_owners, 0);
        assert_int_equal(empty.nameless, 0);
}

static void test_a_difference_below_one_percent_is_not_reported_again(void **state UNUSED)
{
        const struct mps_shm some = {.size = 1000, .used = 501, .files_max = 100, .files = 2};
        struct mps_shm other = some;

        other.used = 509;
        assert_true(mps_shm_is_same(&some, &other));
        other.used = 510;
        assert_false(mps_shm_is_same(&some, &other));
        other = some;
        other.files = 3;
        assert_false(mps_shm_is_same(&some, &other));
        other = some;
        other.n_owners = 1;
        assert_false(mps_shm_is_same(&some, &other));
}

static void test_the_text_names_users_with_their_amounts(void **state UNUSED)
{
        const struct mps_shm shm = {.size = UINT64_C(100) << 20,
                .used = UINT64_C(95) << 20,
                .files_max = 100,
                .files = 7,
                .owners = {{1000, UINT64_C(60) << 20, 2}, {0, UINT64_C(5) << 20, 4}},
                .n_owners = 2,
                .nameless = UINT64_C(30) << 20};
        _free_ char *text = mps_shm_text(&shm);

        assert_string_equal(text,
                "95 of 100 MiB and 7 of 100 files are used; user 1000 has 60 MiB in 2 files, user 0 has 5 "
                "MiB in 4 files; 30 MiB are of files that were removed and that a process still has open");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_fuller_of_bytes_and_files_counts),
                cmocka_unit_test(test_it_is_full_until_there_is_room_again),
                cmocka_unit_test(test_owners_are_kept_while_it_is_full),
                cmocka_unit_test(test_a_difference_below_one_percent_is_not_reported_again),
                cmocka_unit_test(test_the_text_names_users_with_their_amounts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
