// SPDX-License-Identifier: Apache-2.0
/* What answers say of one setting. That they are asked and set is in drift.c and supervisor.c. */
#include "unit.h"

#include "base/macro.h"
#include "mps/supervisor/setting.h"

#define GPU "GPU-1"

static const struct mps_unit unit = {.uuid = GPU, .limit_mib = 1630};

static void test_defaults_are_set_by_ordinal_and_those_of_a_server_by_its_pid(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(mps_setting_threads(&arena, 0, 333).set, "set_default_active_thread_percentage 33.3");
        assert_string_equal(mps_setting_threads(&arena, 0, 333).get, "get_default_active_thread_percentage");
        assert_string_equal(mps_setting_threads(&arena, 7, 1000).set, "set_active_thread_percentage 7 100.0");
        assert_string_equal(mps_setting_threads(&arena, 7, 1000).get, "get_active_thread_percentage 7");
        assert_string_equal(mps_setting_limit(&arena, 0, 2, &unit).set, "set_default_device_pinned_mem_limit 2 1630M");
        assert_string_equal(mps_setting_limit(&arena, 0, 2, &unit).get, "get_default_device_pinned_mem_limit 2");
        assert_string_equal(mps_setting_limit(&arena, 7, 2, &unit).set, "set_device_pinned_mem_limit 7 2 1630M");
        assert_string_equal(mps_setting_limit(&arena, 7, 2, &unit).get, "get_device_pinned_mem_limit 7 2");
}

static void test_an_answer_shows_whether_a_setting_is_as_it_was_set(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mps_setting threads = mps_setting_threads(&arena, 0, 250);
        const struct mps_setting limit = mps_setting_limit(&arena, 0, 0, &unit);
        const struct mps_setting server_threads = mps_setting_threads(&arena, 7, 250);
        const struct mps_setting server_limit = mps_setting_limit(&arena, 7, 0, &unit);
        const struct {
                const struct mps_setting *setting;
                const char *answer;
                enum mps_setting_outcome outcome;
                const char *first; /* after the first setting */
                const char *later;
        } cases[] = {
                {&threads, "25.0", MPS_SETTING_SAME, NULL, NULL},
                {&threads, "25.1", MPS_SETTING_OTHER,
                        "active thread percentage: 25.0 was set, its control daemon reports 25.1",
                        "default active thread percentage: 25.1 instead of 25.0 %"},
                {&threads, "many", MPS_SETTING_UNCLEAR, NULL, NULL},
                {&limit, "1G", MPS_SETTING_SAME, NULL, NULL}, /* as it shows 1630M */
                {&limit, "2G", MPS_SETTING_OTHER,
                        "memory limit of " GPU ": 1630 MiB were set, its control daemon reports 2048 MiB",
                        "default memory limit of " GPU ": 2048 instead of 1630 MiB"},
                {&limit, "", MPS_SETTING_OTHER,
                        "memory limit of " GPU ": 1630 MiB were set, its control daemon reports 0 MiB",
                        "default memory limit of " GPU ": 0 instead of 1630 MiB"},
                {&limit, "much", MPS_SETTING_UNCLEAR, NULL, NULL},
                /* A server may round, and may be gone. */
                {&server_threads, "24.0", MPS_SETTING_SAME, NULL, NULL},
                {&server_threads, "26.0", MPS_SETTING_SAME, NULL, NULL},
                {&server_threads, "26.1", MPS_SETTING_OTHER, NULL,
                        "active thread percentage of its server 7: 26.1 instead of 25.0 %"},
                {&server_threads, "Server 7 not found", MPS_SETTING_UNCLEAR, NULL, NULL},
                {&server_limit, "16G", MPS_SETTING_OTHER, NULL,
                        "memory limit of its server 7 on " GPU ": 16384 instead of 1630 MiB"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct error first, later;

                assert_int_equal(mps_setting_check(cases[i].setting, cases[i].answer, true, &first), cases[i].outcome);
                assert_int_equal(mps_setting_check(cases[i].setting, cases[i].answer, false, &later), cases[i].outcome);
                if (cases[i].first)
                        assert_string_equal(first.text, cases[i].first);
                if (cases[i].later)
                        assert_string_equal(later.text, cases[i].later);
        }
}

static void test_only_a_limit_that_is_shown_as_it_is_hides_no_change(void **state UNUSED)
{
        static const struct {
                uint64_t mib;
                bool is_blurred;
        } cases[] = {{1000, false}, {1024, false}, {1025, true}, {8192, false}};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mps_setting threads = mps_setting_threads(&arena, 0, 333);

        assert_false(mps_setting_is_blurred(&threads));
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct mps_unit one = {.uuid = GPU, .limit_mib = cases[i].mib};
                const struct mps_setting limit = mps_setting_limit(&arena, 0, 0, &one);

                assert_int_equal(mps_setting_is_blurred(&limit), cases[i].is_blurred);
        }
}

static void test_the_limits_of_a_server_of_interface_3_are_set_together_and_read_apart(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_setting settings[2];
        const struct {
                const struct mps_setting *setting;
                const char *answer;
                enum mps_setting_outcome outcome;
        } cases[] = {
                {&settings[0], "70", MPS_SETTING_SAME},
                {&settings[0], "70.00", MPS_SETTING_SAME},
                {&settings[0], "95", MPS_SETTING_OTHER},
                {&settings[0], "most", MPS_SETTING_UNCLEAR},
                {&settings[1], "1630M", MPS_SETTING_SAME},
                {&settings[1], "1G", MPS_SETTING_SAME}, /* it may be shown rounded */
                {&settings[1], "2G", MPS_SETTING_OTHER},
                {&settings[1], "unlimited", MPS_SETTING_OTHER},
                {&settings[1], "much", MPS_SETTING_UNCLEAR},
        };
        struct error err;

        mps_setting_v3_default(settings, &arena, "uid_0", 700, &unit);
        assert_string_equal(settings[0].set, settings[1].set);
        assert_string_not_equal(settings[0].get, settings[1].get);
        assert_false(mps_setting_is_blurred(&settings[1]));
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(mps_setting_check(cases[i].setting, cases[i].answer, false, &err), cases[i].outcome);
}

static void test_a_new_namespace_has_the_limits_that_it_is_to_have(void **state UNUSED)
{
        static const struct {
                unsigned int permille;
                uint64_t limit_mib;
                const char *answer;
                enum mps_setting_outcome outcome;
                const char *text;
        } cases[] = {
                {0, 4096, "4G", MPS_SETTING_SAME, NULL},
                {0, 1630, "1630M", MPS_SETTING_SAME, NULL},
                {0, 1630, "1G", MPS_SETTING_SAME, NULL},
                {0, 1630, "2G", MPS_SETTING_OTHER,
                        "memory limit: 1630 MiB were set, its control daemon reports 2048 MiB"},
                {0, 1630, "Error", MPS_SETTING_UNCLEAR, NULL},
                {333, 0, "33", MPS_SETTING_SAME, NULL},
                {333, 0, "33.0", MPS_SETTING_SAME, NULL},
                {333, 0, "33.00", MPS_SETTING_SAME, NULL},
                {3, 0, "1", MPS_SETTING_SAME, NULL},
                {333, 0, "34.5", MPS_SETTING_OTHER,
                        "active thread percentage: 33.0 was set, its control daemon reports 34.5"},
                {333, 0, "", MPS_SETTING_UNCLEAR, NULL},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_setting limits[2];
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct mps_allocation_request wanted = {
                        .id = "g1", .threads_permille = cases[i].permille, .limit_mib = cases[i].limit_mib};

                assert_int_equal(mps_setting_v3_new_namespace(limits, &arena, "uid_0", &wanted), 1);
                assert_int_equal(mps_setting_check(limits, cases[i].answer, true, &err), cases[i].outcome);
                if (cases[i].text)
                        assert_string_equal(err.text, cases[i].text);
        }
        assert_int_equal(
                mps_setting_v3_new_namespace(limits, &arena, "uid_0",
                        &(const struct mps_allocation_request){.id = "g1", .threads_permille = 500, .limit_mib = 2048}),
                2);
        assert_string_equal(limits[0].set, limits[1].set);
        assert_string_equal(limits[1].get, "namespace get g1 uid_0 active-thread-percentage");
        assert_string_equal(limits[0].get, "namespace get g1 uid_0 pinned-memory-limit");
}

static void test_one_list_shows_all_namespaces(void **state UNUSED)
{
        static const char list[] = "g1,uid_0,Ready,2G,50,-,/x\ng1,other,Ready,9G,90,-,/x\ng2,uid_0,Ready,-,33,-,/x";
        static const char command[] = "namespace list";
        static const struct {
                const char *id;
                unsigned int permille;
                uint64_t limit_mib;
                enum mps_setting_outcome outcome;
                const char *text;
        } cases[] = {
                {"g1", 500, 2048, MPS_SETTING_SAME, ""},
                {"g1", 0, 2048, MPS_SETTING_SAME, ""},
                {"g1", 500, 0, MPS_SETTING_SAME, ""},
                {"g1", 500, 2050, MPS_SETTING_SAME, ""}, /* it may be shown as 2G */
                {"g1", 500, 1024, MPS_SETTING_OTHER, "memory limit of its namespace g1: 2048 instead of 1024 MiB"},
                {"g1", 400, 2048, MPS_SETTING_OTHER,
                        "active thread percentage of its namespace g1: 50.0 instead of 40.0 %"},
                {"g2", 333, 0, MPS_SETTING_SAME, ""}, /* v3 has whole percent */
                {"g3", 500, 2048, MPS_SETTING_UNCLEAR, ""},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct mps_allocation_request wanted = {
                        .id = cases[i].id, .threads_permille = cases[i].permille, .limit_mib = cases[i].limit_mib};
                const struct mps_setting setting = mps_setting_v3_namespace(&arena, "uid_0", &wanted, command);

                assert_string_equal(setting.get, command);
                assert_int_equal(mps_setting_check(&setting, list, false, &err), cases[i].outcome);
                if (*cases[i].text)
                        assert_string_equal(err.text, cases[i].text);
                else
                        assert_int_equal(err.kind, ERROR_NONE);
                assert_int_equal(mps_setting_check(&setting, "what?", false, &err), MPS_SETTING_UNCLEAR);
                assert_int_not_equal(err.kind, ERROR_NONE);
        }
}

static void test_a_namespace_whose_line_cannot_be_read_is_neither_right_nor_gone(void **state UNUSED)
{
        static const char list[] = "g1,uid_0,Ready,2 GiB,50.00,-,/x\ng2,uid_0,Ready,unlimited,50.00,-,/x";
        static const char command[] = "namespace list";
        const struct mps_allocation_request first = {.id = "g1", .threads_permille = 500, .limit_mib = 2048};
        const struct mps_allocation_request second = {.id = "g2", .threads_permille = 500, .limit_mib = 2048};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_setting setting = mps_setting_v3_namespace(&arena, "uid_0", &first, command);
        struct error err;

        assert_int_equal(mps_setting_check(&setting, list, false, &err), MPS_SETTING_UNCLEAR);
        assert_string_equal(err.text,
                "limits of its namespace g1: not in the list of namespaces, of which 1 lines cannot be read, the first: "
                "'g1,uid_0,Ready,2 GiB,50.00,-,/x'");
        setting = mps_setting_v3_namespace(&arena, "uid_0", &second, command);
        assert_int_equal(mps_setting_check(&setting, list, false, &err), MPS_SETTING_OTHER);
        assert_string_equal(err.text, "memory limit of its namespace g2: 0 instead of 2048 MiB");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults_are_set_by_ordinal_and_those_of_a_server_by_its_pid),
                cmocka_unit_test(test_an_answer_shows_whether_a_setting_is_as_it_was_set),
                cmocka_unit_test(test_only_a_limit_that_is_shown_as_it_is_hides_no_change),
                cmocka_unit_test(test_the_limits_of_a_server_of_interface_3_are_set_together_and_read_apart),
                cmocka_unit_test(test_a_new_namespace_has_the_limits_that_it_is_to_have),
                cmocka_unit_test(test_one_list_shows_all_namespaces),
                cmocka_unit_test(test_a_namespace_whose_line_cannot_be_read_is_neither_right_nor_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
