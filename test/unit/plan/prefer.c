// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

static void test_requests_that_cannot_be_met_are_refused(void **state UNUSED)
{
        static const struct {
                const char *units;
                const char *available;
                const char *required;
                size_t size;
                const char *error;
        } table[] = {
                {"A*4", "A::0 A::1 A::9", NULL, 3,
                        "resource 'nvidia.com/gpu': not enough available devices: 3 are asked for, 2 are available"},
                {"A*4", NULL, "A::0 A::1", 1,
                        "resource 'nvidia.com/gpu': 1 devices are asked for, but more devices than that must be "
                        "included"},
                {"A B C", "A B", "B C", 4,
                        "resource 'nvidia.com/gpu': not enough available devices: 4 are asked for, 3 are available"},
                {"A B C", NULL, "B", 0,
                        "resource 'nvidia.com/gpu': 0 devices are asked for, but more devices than that must be "
                        "included"},
                {"A/a A/b", "A/a", NULL, 2,
                        "resource 'nvidia.com/gpu': not enough available devices: 2 are asked for, 1 are available"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;
                struct rig_query query = {
                        .available = table[i].available, .required = table[i].required, .size = table[i].size};
                const char *answer;

                rig_init(&rig, table[i].units);
                assert_fails(rig_try(&rig, &query, &answer), &rig.err, ERROR_INVALID, table[i].error);
        }
}

static void test_unknown_and_repeated_ids_are_ignored(void **state UNUSED)
{
        static const struct {
                const char *units;
                const char *available;
                const char *required;
                size_t size;
                const char *expected;
        } table[] = {
                {"A*2 B*2", "Z::0 A A::0 A::0 B::1", "A::7", 2, "A::0 B::1"},
                {"A*2 B*2", "A::0 A::1 B::0", "B::1 B::1 Z", 2, "B::1 A::0"},
                {"A B C", "B Z B::0 C C", NULL, 1, "B"},
                {"A B C", "", "C C Z", 1, "C"},
                {"A B C", NULL, NULL, 0, ""},
                {"A*2 B*2", NULL, NULL, 0, ""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;
                struct rig_query query = {
                        .available = table[i].available, .required = table[i].required, .size = table[i].size};

                rig_init(&rig, table[i].units);
                rig_assert(&rig, &query, table[i].expected);
        }
}

static void test_all_that_is_available_is_given_as_it_is(void **state UNUSED)
{
        static const struct {
                const char *units;
                const char *available;
                const char *required;
                size_t size;
                const char *expected;
        } table[] = {
                {"A B C D", "D A C", NULL, 3, "A C D"},
                {"A B C D", "D A C", "B", 4, "B A C D"},
                {"A*2 B*2", "B::1 A::1 B::0", NULL, 3, "A::1 B::0 B::1"},
                {"A*2 B*2", "A::0 B::1", "B::0 A::1", 4, "B::0 A::1 A::0 B::1"},
                {"A/a A/b B/a", "B/a A/b", NULL, 2, "A/b B/a"},
        };
        static const enum placement policies[] = {
                PLACEMENT_DISTRIBUTED, PLACEMENT_PACKED, PLACEMENT_DISTINCT, PLACEMENT_SAME_GPU};

        for (size_t i = 0; i < ARRAY_SIZE(table) * ARRAY_SIZE(policies); i++) {
                _cleanup_(rig_done) struct rig rig;
                size_t row = i / ARRAY_SIZE(policies);
                struct rig_query query = {.available = table[row].available,
                        .required = table[row].required,
                        .size = table[row].size,
                        .policy = policies[i % ARRAY_SIZE(policies)]};

                rig_init(&rig, table[row].units);
                rig_assert(&rig, &query, table[row].expected);
        }
}

/* NVIDIA's plugin asks for the links where no available id is a replica, and for the policy elsewhere. */
static void test_links_decide_where_only_whole_gpus_are_available(void **state UNUSED)
{
        static const struct {
                const char *units;
                const char *available;
                const char *required;
                const char *expected; /* two, packed; C and D are linked */
        } table[] = {
                {"A B C D", NULL, NULL, "C D"},
                {"A*2 B C D", "B C D", NULL, "C D"},
                {"A*2 B C D", "A::1 B C D", NULL, "A::1 B"},
                {"A*2 B C D", "B C D", "A::0", "A::0 B"},
                {"A/a B C D", "B C D", NULL, "C D"},
                {"A/a B C D", NULL, NULL, "A/a B"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;
                struct rig_query query = {.available = table[i].available,
                        .required = table[i].required,
                        .size = 2,
                        .policy = PLACEMENT_PACKED};

                rig_init(&rig, table[i].units);
                rig_link(&rig, 2, 3, (struct gpu_link){.level = 0, .nvlinks = 4});
                rig_assert(&rig, &query, table[i].expected);
        }
}

/* kubelet dumps Go maps: the order says nothing. */
static void test_the_order_of_available_ids_does_not_matter(void **state UNUSED)
{
        static const char *const units[] = {"A B C D E F", "A*2 B*2 C*2", "A/a A/b B/a B/b C/a C/b"};
        static const char *const orders[][2] = {
                {"A B C D E F", "D F A C E B"},
                {"A::0 A::1 B::0 B::1 C::0 C::1", "C::0 A::1 B::1 A::0 C::1 B::0"},
                {"A/a A/b B/a B/b C/a C/b", "B/b C/a A/b B/a C/b A/a"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                for (size_t size = 1; size < 6; size++) {
                        _cleanup_(rig_done) struct rig rig;
                        struct rig_query query = {.available = orders[i][0], .size = size};
                        const char *answer;

                        rig_init(&rig, units[i]);
                        answer = rig_ask(&rig, &query);
                        query.available = orders[i][1];
                        rig_assert(&rig, &query, answer);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_requests_that_cannot_be_met_are_refused),
                cmocka_unit_test(test_unknown_and_repeated_ids_are_ignored),
                cmocka_unit_test(test_all_that_is_available_is_given_as_it_is),
                cmocka_unit_test(test_links_decide_where_only_whole_gpus_are_available),
                cmocka_unit_test(test_the_order_of_available_ids_does_not_matter),
        };

        return cmocka_run_group_tests_name("prefer", tests, NULL, NULL);
}
