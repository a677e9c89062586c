// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/macro.h"
#include "node/ledger/faults.h"

static struct mps_faults faults;

static int empty_faults(void **state UNUSED)
{
        mps_faults_done(&faults);
        return 0;
}

static const char *const one_unit[] = {"GPU-1"};
static const char *const two_units[] = {"GPU-2", "GPU-3"};
static const struct mps_server good_server = {.pid = 7, .status = "ACTIVE"};
static const struct mps_server bad_server = {.pid = 7, .status = "FAULT"};

static void report(enum mps_state state, pid_t pid, const struct mps_server *server)
{
        const struct mps_daemon_status daemons[] = {
                {.name = "all", .resource = "nvidia.com/gpu", .units = two_units, .n_units = 2, .state = MPS_READY},
                {.name = "GPU-1",
                        .resource = "nvidia.com/gpu",
                        .units = one_unit,
                        .n_units = 1,
                        .state = state,
                        .pid = pid,
                        .servers = server,
                        .n_servers = server != NULL},
        };
        const struct mps_status status = {.daemons = daemons, .n_daemons = ARRAY_SIZE(daemons)};

        mps_faults_follow(&faults, &status);
}

static void assert_totals(uint64_t server, uint64_t gone, uint64_t stuck)
{
        assert_int_equal(faults.n_counts, 2);
        assert_string_equal(faults.counts[1].daemon, "GPU-1");
        assert_string_equal(faults.counts[1].unit, "GPU-1");
        assert_int_equal(faults.counts[1].totals[MPS_FAULT_SERVER], server);
        assert_int_equal(faults.counts[1].totals[MPS_FAULT_GONE], gone);
        assert_int_equal(faults.counts[1].totals[MPS_FAULT_STUCK], stuck);
        assert_null(faults.counts[0].unit);
        for (size_t i = 0; i < MPS_FAULT_KINDS; i++)
                assert_int_equal(faults.counts[0].totals[i], 0);
}

static void test_each_fault_counts_once_by_what_was_seen(void **state UNUSED)
{
        report(MPS_READY, 5, &good_server);
        assert_totals(0, 0, 0);
        report(MPS_FAULT, 5, &bad_server);
        report(MPS_FAULT, 0, NULL);
        assert_totals(1, 0, 0);
        report(MPS_READY, 6, &good_server);
        report(MPS_FAULT, 6, &good_server);
        assert_totals(1, 0, 1);
        report(MPS_READY, 8, &good_server);
        report(MPS_FAULT, 0, NULL);
        assert_totals(1, 1, 1);
        report(MPS_READY, 9, &good_server);
        report(MPS_FAULT, 9, &bad_server);
        assert_totals(2, 1, 1);
}

static void test_a_repair_that_fails_is_no_new_fault(void **state UNUSED)
{
        report(MPS_FAULT, 0, NULL);
        for (unsigned int i = 0; i < 3; i++) {
                report(MPS_STARTING, 6, NULL);
                report(MPS_CONFIGURING, 6, NULL);
                report(MPS_FAULT, 6, NULL);
        }
        assert_totals(0, 1, 0);
        report(MPS_READY, 8, &good_server);
        report(MPS_FAULT, 0, NULL);
        assert_totals(0, 2, 0);
}

static void test_a_daemon_that_is_met_at_fault_counts(void **state UNUSED)
{
        report(MPS_FAULT, 5, &bad_server);
        assert_totals(1, 0, 0);
}

static void test_a_daemon_that_is_wanted_no_more_is_forgotten(void **state UNUSED)
{
        const struct mps_status empty = {0};

        report(MPS_FAULT, 0, NULL);
        mps_faults_follow(&faults, &empty);
        assert_int_equal(faults.n_counts, 0);
        report(MPS_READY, 5, NULL);
        assert_totals(0, 0, 0);
}

static void test_kinds_have_names(void **state UNUSED)
{
        assert_string_equal(mps_fault_kind_name(MPS_FAULT_SERVER), "server");
        assert_string_equal(mps_fault_kind_name(MPS_FAULT_GONE), "gone");
        assert_string_equal(mps_fault_kind_name(MPS_FAULT_STUCK), "stuck");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_each_fault_counts_once_by_what_was_seen, empty_faults),
                cmocka_unit_test_teardown(test_a_repair_that_fails_is_no_new_fault, empty_faults),
                cmocka_unit_test_teardown(test_a_daemon_that_is_met_at_fault_counts, empty_faults),
                cmocka_unit_test_teardown(test_a_daemon_that_is_wanted_no_more_is_forgotten, empty_faults),
                cmocka_unit_test(test_kinds_have_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
