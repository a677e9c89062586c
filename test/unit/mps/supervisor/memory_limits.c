#include "unit.h"

#include <string.h>

#include "mps/supervisor/memory_limits.h"

static const char *const gpu[] = {"GPU-1"};
static const char *const mig[] = {"MIG-1"};
static const char *const two[] = {"GPU-1", "GPU-2"};

static const struct mps_record_allocation allocations[] = {
        {.request = {.id = "g1", .unit = "GPU-1", .limit_mib = 2048}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "g2", .unit = "GPU-1", .limit_mib = 4096}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "other", .unit = "GPU-2", .limit_mib = 1}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "none", .unit = "GPU-1"}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "sm", .unit = "GPU-1", .limit_mib = 7}, .allocation = {.tier = MPS_TIER_PARTITION}},
        {.request = {.id = "mig", .unit = "MIG-1", .limit_mib = 7}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
};

static struct mps_daemon_status daemon_with(const struct mps_client *clients, size_t n_clients)
{
        return (struct mps_daemon_status){
                .tier = MPS_TIER_NAMESPACE, .units = gpu, .n_units = 1, .clients = clients, .n_clients = n_clients};
}

static void test_each_container_in_a_namespace_has_one_limit_whatever_it_says_of_itself(void **state UNUSED)
{
        static const struct mps_client clients[] = {
                {.cgroup = "/c1", .name_space = "g1", .allocation = "g2"}, /* the claim is the tenant's */
                {.cgroup = "/c1", .name_space = "g1"},                     /* a second process of it */
                {.cgroup = "/c2", .name_space = "g2"}, {.cgroup = "/c3", .name_space = "default"},
                {.cgroup = "/c3", .name_space = "other"}, /* of another unit */
                {.cgroup = "/c3", .name_space = "none"}, {.cgroup = "/c3", .name_space = "sm"},
                {.cgroup = "/c3", .allocation = "g2"},
                {.name_space = "g2"}, /* not a container's, or one that cannot be seen */
        };
        struct mps_daemon_status daemon = daemon_with(clients, ARRAY_SIZE(clients));
        _cleanup_(mps_memory_limits_done) struct mps_memory_limits limits = {0};

        assert_true(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations)));
        assert_int_equal(limits.n_items, 2);
        assert_string_equal(limits.items[0].status.cgroup, "/c1");
        assert_string_equal(limits.items[0].status.allocation, "g1");
        assert_true(limits.items[0].status.limit_mib == 2048);
        assert_string_equal(limits.items[1].status.cgroup, "/c2");
        assert_true(limits.items[1].status.limit_mib == 4096);
        assert_true(mps_memory_limit_is_due(&limits.items[0], false));
        assert_false(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations))); /* all are there */
        assert_int_equal(limits.n_items, 2);
}

static void test_other_tiers_mig_devices_and_daemons_of_several_units_have_none(void **state UNUSED)
{
        static const struct mps_client clients[] = {
                {.cgroup = "/c1", .name_space = "g1"}, {.cgroup = "/c2", .name_space = "mig"}};
        struct mps_daemon_status daemon = daemon_with(clients, ARRAY_SIZE(clients));
        _cleanup_(mps_memory_limits_done) struct mps_memory_limits limits = {0};

        daemon.tier = MPS_TIER_VERIFIED;
        assert_false(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations)));
        daemon.tier = MPS_TIER_NAMESPACE;
        daemon.units = mig;
        assert_false(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations)));
        daemon.units = two;
        daemon.n_units = 2;
        assert_false(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations)));
        assert_int_equal(limits.n_items, 0);
}

static void test_what_comes_of_an_attempt_decides_whether_a_limit_is_remembered(void **state UNUSED)
{
        static const struct {
                bool is_void;
                enum memory_limit_outcome outcome;
                bool is_kept;
                bool is_in_force;
                const char *problem;
        } table[] = {
                {false, MEMORY_LIMIT_DONE, true, true, NULL},
                {false, MEMORY_LIMIT_GONE, false, false, "why"},
                {false, MEMORY_LIMIT_CANNOT, true, false, "why"},
                {false, MEMORY_LIMIT_FAILED, true, false, "why"},
                {true, MEMORY_LIMIT_DONE, false, false, NULL},
                {true, MEMORY_LIMIT_GONE, false, false, "why"},
                {true, MEMORY_LIMIT_CANNOT, false, false, "why"},
                {true, MEMORY_LIMIT_FAILED, true, false, "why"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct mps_memory_limit limit = {
                        .status = {.unit = "GPU-1", .cgroup = "/c", .allocation = "g1", .is_in_force = true}};

                assert_int_equal(mps_memory_limit_take(&limit, &arena, table[i].is_void, table[i].outcome, "why"),
                        table[i].is_kept);
                assert_int_equal(limit.status.is_in_force, table[i].is_in_force);
                if (table[i].problem)
                        assert_string_equal(limit.status.problem, table[i].problem);
                else
                        assert_null(limit.status.problem);
                assert_false(mps_memory_limit_is_due(&limit, table[i].is_void)); /* it is tried at the next check */
                assert_true(mps_memory_limit_is_due(&limit, !table[i].is_void));
        }
}

static void test_a_limit_is_void_when_its_allocation_is_gone(void **state UNUSED)
{
        const struct mps_memory_limit limit = {.status = {.unit = "GPU-1", .cgroup = "/c", .allocation = "g2"}};

        assert_false(mps_memory_limit_is_void(&limit, allocations, ARRAY_SIZE(allocations)));
        assert_true(mps_memory_limit_is_void(&limit, allocations, 1));
        assert_true(mps_memory_limit_is_void(&limit, NULL, 0));
}

static void test_those_that_are_kept_are_copied(void **state UNUSED)
{
        static const struct mps_client clients[] = {
                {.cgroup = "/c1", .name_space = "g1"}, {.cgroup = "/c2", .name_space = "g2"}};
        const bool keeps[] = {false, true};
        struct mps_daemon_status daemon = daemon_with(clients, ARRAY_SIZE(clients));
        _cleanup_(mps_memory_limits_done) struct mps_memory_limits limits = {0};

        mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations));
        mps_memory_limits_keep(&limits, keeps);
        assert_int_equal(limits.n_items, 1);
        assert_string_equal(limits.items[0].status.cgroup, "/c2");
}

static void test_a_problem_that_comes_and_goes_takes_no_more_room(void **state UNUSED)
{
        static const struct mps_client clients[] = {{.cgroup = "/c1", .name_space = "g1"}};
        struct mps_daemon_status daemon = daemon_with(clients, ARRAY_SIZE(clients));
        _cleanup_(mps_memory_limits_done) struct mps_memory_limits limits = {0};

        assert_true(mps_memory_limits_add(&limits, &daemon, allocations, ARRAY_SIZE(allocations)));
        for (unsigned int i = 0; i < 10000; i++) {
                assert_true(mps_memory_limit_take(
                        &limits.items[0], &limits.arena, false, MEMORY_LIMIT_FAILED, i % 2 ? "one" : "another"));
                assert_string_equal(limits.items[0].status.problem, i % 2 ? "one" : "another");
        }
        assert_true(arena_footprint(&limits.arena) <= (size_t)16 << 10);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_container_in_a_namespace_has_one_limit_whatever_it_says_of_itself),
                cmocka_unit_test(test_other_tiers_mig_devices_and_daemons_of_several_units_have_none),
                cmocka_unit_test(test_what_comes_of_an_attempt_decides_whether_a_limit_is_remembered),
                cmocka_unit_test(test_a_limit_is_void_when_its_allocation_is_gone),
                cmocka_unit_test(test_a_problem_that_comes_and_goes_takes_no_more_room),
                cmocka_unit_test(test_those_that_are_kept_are_copied),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
