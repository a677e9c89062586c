// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "cmd/mps/status.h"

#define NOW INT64_C(1700000000)

static const char *const two_units[] = {"GPU-1", "GPU-2"};
static const char *const one_unit[] = {"MIG-3"};

static const struct mps_client clients[] = {
        {.pid = 1, .unit = "GPU-1", .memory = UINT64_C(1) << 30},
        {.pid = 2, .unit = "GPU-1", .memory = UINT64_C(512) << 20}, {.pid = 3, .unit = "GPU-2", .memory = UINT64_MAX},
        {.pid = 4}, /* the control daemon does not tell, and there are two */
};

static struct mps_daemon_status daemons[] = {
        {.name = "nvidia.com/gpu",
                .units = two_units,
                .n_units = 2,
                .state = MPS_READY,
                .since = NOW - 61,
                .n_servers = 1,
                .clients = clients,
                .n_clients = ARRAY_SIZE(clients),
                .max_clients = 48},
        {.name = "MIG-3",
                .units = one_unit,
                .n_units = 1,
                .state = MPS_FAULT,
                .reason = "it ended by signal 9",
                .since = NOW - 7200,
                .tier = MPS_TIER_PARTITION,
                .max_clients = 7},
};
static const struct mps_status status = {.daemons = daemons, .n_daemons = ARRAY_SIZE(daemons)};

static void test_each_unit_has_a_row(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        mps_table_print(&text, &status, NOW, false);
        assert_string_equal(text.data,
                "DAEMON          UNIT   STATE  SINCE  SERVERS  CLIENTS  MEMORY    TIER       REASON\n"
                "nvidia.com/gpu  GPU-1  ready  61s    1        2/48     1536 MiB  default\n"
                "nvidia.com/gpu  GPU-2  ready  61s    1        1/48     0 MiB     default\n"
                "MIG-3           MIG-3  fault  2h     0        0/7      0 MiB     partition  it ended by signal 9\n");
}

static void test_a_container_without_its_limit_is_named_beside_a_daemon_that_serves(void **state UNUSED)
{
        static const struct mps_container_limit limits[] = {{.is_in_force = true}, {.problem = "no such function"}};
        struct mps_daemon_status daemon = daemons[0];
        const struct mps_status one = {.daemons = &daemon, .n_daemons = 1};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        daemon.tier = MPS_TIER_NAMESPACE;
        daemon.limits = limits;
        daemon.n_limits = 1;
        mps_table_print(&text, &one, NOW, false);
        assert_null(strstr(text.data, "limited"));
        daemon.n_limits = 2;
        mps_table_print(&text, &one, NOW, false);
        assert_non_null(strstr(
                text.data, "namespace  the memory of 1 of 2 containers is not limited as a whole: no such function\n"));
}

static void test_a_unit_without_a_limit_of_memory_has_its_tier_named_so(void **state UNUSED)
{
        struct mps_daemon_status daemon = daemons[0];
        const struct mps_status one = {.daemons = &daemon, .n_daemons = 1};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        daemon.tier = MPS_TIER_VERIFIED;
        daemon.unlimited = &two_units[1];
        daemon.n_unlimited = 1;
        daemon.notice = "GPU-1 has 15 chunks of SMs";
        mps_table_print(&text, &one, NOW, false);
        assert_string_equal(text.data,
                "DAEMON          UNIT   STATE  SINCE  SERVERS  CLIENTS  MEMORY    TIER                      REASON\n"
                "nvidia.com/gpu  GPU-1  ready  61s    1        2/48     1536 MiB  verified                  GPU-1 has 15 "
                "chunks of SMs\n"
                "nvidia.com/gpu  GPU-2  ready  61s    1        1/48     0 MiB     verified-no-memory-limit  GPU-1 has 15 "
                "chunks of SMs\n");
        assert_string_equal(mps_daemon_promise(&daemon, NULL), "verified-no-memory-limit");
}

static void test_colours_change_no_column(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct mps_status second = {.daemons = &daemons[1], .n_daemons = 1};

        mps_table_print(&text, &second, NOW, true);
        assert_string_equal(text.data,
                "DAEMON  UNIT   STATE  SINCE  SERVERS  CLIENTS  MEMORY  TIER       REASON\n"
                "MIG-3   MIG-3  \033[31mfault\033[0m  2h     0        0/7      0 MiB   partition  it ended by signal 9\n");
}

static void test_ages_are_in_the_unit_that_says_most(void **state UNUSED)
{
        static const struct {
                int64_t seconds;
                const char *age;
        } ages[] = {{-5, " - "}, {0, " 0s "}, {119, " 119s "}, {120, " 2m "}, {7199, " 119m "}, {7200, " 2h "},
                {172799, " 47h "}, {172800, " 2d "}, {NOW, " - "}};
        struct mps_daemon_status daemon = {.name = "a", .state = MPS_READY};
        const struct mps_status one = {.daemons = &daemon, .n_daemons = 1};

        for (size_t i = 0; i < ARRAY_SIZE(ages); i++) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

                daemon.since = NOW - ages[i].seconds;
                mps_table_print(&text, &one, NOW, false);
                if (!strstr(text.data, ages[i].age))
                        fail_msg("'%s' is not in:\n%s", ages[i].age, text.data);
        }
}

static void test_one_that_is_not_ready_spoils_all(void **state UNUSED)
{
        const struct mps_status first = {.daemons = daemons, .n_daemons = 1};
        const struct mps_status none = {.n_daemons = 0};

        assert_false(mps_table_is_good(&status));
        assert_true(mps_table_is_good(&first));
        assert_true(mps_table_is_good(&none));
}

static void test_pods_and_claims_are_named_by_unit(void **state UNUSED)
{
        static const struct mps_holder holders[] = {{.unit = "MIG-3", .claim = "team/serve"},
                {.unit = "GPU-1", .pod = "team/train"}, {.unit = "GPU-1", .claim = "other/serve"},
                {.unit = "GPU-9", .pod = "team/gone"}};
        const struct mps_status held = {.daemons = daemons,
                .n_daemons = ARRAY_SIZE(daemons),
                .holders = holders,
                .n_holders = ARRAY_SIZE(holders)};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        mps_holders_print(&text, &status);
        assert_int_equal(text.size, 0);
        mps_holders_print(&text, &held);
        assert_string_equal(text.data, "GPU-1  pod team/train\nGPU-1  claim other/serve\nMIG-3  claim team/serve\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_unit_has_a_row),
                cmocka_unit_test(test_a_container_without_its_limit_is_named_beside_a_daemon_that_serves),
                cmocka_unit_test(test_a_unit_without_a_limit_of_memory_has_its_tier_named_so),
                cmocka_unit_test(test_colours_change_no_column),
                cmocka_unit_test(test_ages_are_in_the_unit_that_says_most),
                cmocka_unit_test(test_one_that_is_not_ready_spoils_all),
                cmocka_unit_test(test_pods_and_claims_are_named_by_unit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
