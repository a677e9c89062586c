// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "node/usage/usage.h"

#define GIB (UINT64_C(1) << 30)
#define NONE GPU_VALUE_UNKNOWN
#define DARK GPU_PERCENT_UNKNOWN

/* ---- samples ---- */

static struct gpu_sample *put_unit(struct gpu_samples *samples, const char *uuid, uint64_t at_ms)
{
        struct gpu_sample *unit;

        samples->units = xrealloc(samples->units, (samples->n_units + 1) * sizeof(*samples->units));
        unit = &samples->units[samples->n_units++];
        *unit = (struct gpu_sample){.uuid = uuid, .gpu = uuid, .at_ms = at_ms, .has_processes = true};
        for (size_t i = 0; i < GPU_VALUES; i++)
                unit->values[i] = NONE;
        return unit;
}

/* One unit "GPU-A" with these processes. */
static struct gpu_samples *one(uint64_t at_ms, const struct gpu_process *processes, size_t n_processes)
{
        struct gpu_samples *samples = gpu_samples_new();
        struct gpu_sample *unit = put_unit(samples, "GPU-A", at_ms);

        unit->processes = processes;
        unit->n_processes = n_processes;
        return samples;
}

static struct usage_share find_share(const struct usage *usage, enum usage_kind kind, const char *pod_uid)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct usage_share *shares;
        size_t count = usage_shares(usage, &arena, &shares);
        size_t i = 0;

        while (i < count && !(shares[i].kind == kind && text_is_same(shares[i].pod_uid, pod_uid)))
                i++;
        if (i == count)
                fail_msg("no share of %s %s among %zu", usage_kind_name(kind), pod_uid, count);
        return shares[i];
}

static size_t count_shares(const struct usage *usage)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct usage_share *shares;

        return usage_shares(usage, &arena, &shares);
}

static bool is_near(double a, double b)
{
        return fabs(a - b) < 1e-6;
}

#define PROCESS(number, bytes, sm, pod)                                                                                \
        {                                                                                                              \
                .pid = number, .kinds = GPU_PROCESS_COMPUTE, .memory = bytes, .sm_percent = sm, .memory_percent = sm,  \
                .is_visible = true, .pod_uid = pod                                                                     \
        }

/* ---- the example of the header ---- */

static const struct gpu_process example[] = {
        PROCESS(1, 10 * GIB, 30, "P"), PROCESS(2, 5 * GIB, 10, "P"), PROCESS(3, 8 * GIB, 0, NULL)};

static struct gpu_samples *example_at(uint64_t at_ms, uint64_t energy, uint64_t power)
{
        struct gpu_samples *samples = one(at_ms, example, ARRAY_SIZE(example));

        samples->units[0].values[GPU_MEMORY_USED] = 40 * GIB;
        samples->units[0].values[GPU_ENERGY] = energy;
        samples->units[0].values[GPU_POWER] = power;
        return samples;
}

static void test_processes_are_added_up_by_pod(void **state UNUSED)
{
        struct usage *usage = usage_new();
        struct usage_share share;

        usage_add(usage, example_at(1000, 0, 50000), NULL, 0);
        usage_add(usage, example_at(6000, 500000, 100000), NULL, 0);
        share = find_share(usage, USAGE_POD, "P");
        assert_string_equal(share.unit, "GPU-A");
        assert_int_equal(share.n_processes, 2);
        assert_true(share.memory == 15 * GIB && share.memory_peak == 15 * GIB);
        assert_int_equal(share.sm_percent, 40);
        assert_true(is_near(share.seconds, 5) && is_near(share.sm_seconds, 2) && is_near(share.energy, 250));
        share = find_share(usage, USAGE_HOST, NULL);
        assert_true(share.memory == 8 * GIB && share.sm_percent == 0);
        assert_true(is_near(share.sm_seconds, 0) && is_near(share.energy, 0));
        assert_true(usage_unattributed(&usage_samples(usage)->units[0]) == 17 * GIB);
        usage_free(usage);
}

static uint64_t idle_ms_after(struct usage *usage, uint64_t at_ms, unsigned int sm_percent)
{
        const struct gpu_process process = PROCESS(1, GIB, sm_percent, "P");

        usage_add(usage, one(at_ms, &process, sm_percent == 99 ? 0 : 1), NULL, 0);
        return find_share(usage, USAGE_POD, "P").idle_ms;
}

static void test_a_share_is_idle_since_its_activity_ended_with_or_without_a_process(void **state UNUSED)
{
        static const unsigned int gone = 99;
        static const struct {
                uint64_t at_ms;
                unsigned int sm_percent;
                uint64_t idle_ms;
        } steps[] = {{1000, 0, 1000}, {2000, 0, 1000}, {3000, 1, 0}, {4000, 0, 4000}, {5000, DARK, 0}, {6000, 7, 0},
                {7000, gone, 7000}, {8000, gone, 7000}, {9000, 0, 7000}, {10000, 3, 0}};
        struct usage *usage = usage_new();

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                assert_int_equal(idle_ms_after(usage, steps[i].at_ms, steps[i].sm_percent), steps[i].idle_ms);
        usage_free(usage);
}

/* ---- what is not known ---- */

static void test_an_unknown_part_makes_the_whole_unknown(void **state UNUSED)
{
        static const struct gpu_process processes[] = {
                PROCESS(1, GIB, 20, "P"), PROCESS(2, NONE, DARK, "P"), PROCESS(3, GIB, 30, "Q")};
        struct usage *usage = usage_new();

        usage_add(usage, one(1000, processes, 3), NULL, 0);
        usage_add(usage, one(2000, processes, 3), NULL, 0);
        assert_true(find_share(usage, USAGE_POD, "P").memory == NONE);
        assert_true(find_share(usage, USAGE_POD, "P").memory_peak == 0);
        assert_int_equal(find_share(usage, USAGE_POD, "P").sm_percent, DARK);
        assert_true(find_share(usage, USAGE_POD, "P").sm_seconds < 0);
        assert_true(is_near(find_share(usage, USAGE_POD, "P").seconds, 1));
        assert_true(find_share(usage, USAGE_POD, "Q").memory == GIB);
        assert_true(is_near(find_share(usage, USAGE_POD, "Q").sm_seconds, 0.3));
        usage_free(usage);
}

static void test_energy_is_split_only_where_the_activity_of_all_is_known(void **state UNUSED)
{
        static const struct gpu_process clients[] = {PROCESS(1, GIB, DARK, "P"), PROCESS(2, GIB, 90, NULL)};
        static const struct gpu_process alone[] = {PROCESS(1, GIB, 50, "P")};
        struct usage *usage = usage_new();
        struct gpu_samples *samples;

        for (unsigned int i = 1; i <= 2; i++) {
                samples = one(i * 1000, clients, 2);
                samples->units[0].values[GPU_ENERGY] = i * UINT64_C(100000);
                samples->units[0].values[GPU_POWER] = 10000;
                usage_add(usage, samples, NULL, 0);
        }
        assert_true(find_share(usage, USAGE_POD, "P").energy < 0);
        assert_true(find_share(usage, USAGE_HOST, NULL).energy < 0);
        samples = one(3000, alone, 1);
        samples->units[0].values[GPU_ENERGY] = 300000;
        usage_add(usage, samples, NULL, 0);
        assert_true(is_near(find_share(usage, USAGE_POD, "P").energy, 90));
        /* The driver was loaded again: its counter begins anew. */
        samples = one(4000, alone, 1);
        samples->units[0].values[GPU_ENERGY] = 5;
        usage_add(usage, samples, NULL, 0);
        assert_true(is_near(find_share(usage, USAGE_POD, "P").energy, 90));
        usage_free(usage);
}

static void test_a_server_of_mps_is_no_pod_whose_container_it_runs_in(void **state UNUSED)
{
        static const struct gpu_process processes[] = {PROCESS(7, GIB, 90, "supervisor"), PROCESS(8, GIB, DARK, "P")};
        const pid_t servers[] = {99, 7};
        struct usage *usage = usage_new();

        usage_add(usage, one(1000, processes, 2), servers, 2);
        assert_true(find_share(usage, USAGE_MPS_SERVER, NULL).memory == GIB);
        assert_int_equal(count_shares(usage), 2);
        usage_free(usage);
}

static void test_beside_a_server_of_mps_nobody_is_idle(void **state UNUSED)
{
        static const struct gpu_process processes[] = {
                PROCESS(7, GIB, 0, NULL), PROCESS(8, GIB, 0, "P"), PROCESS(9, GIB, 5, "Q")};
        const pid_t server = 7;
        struct usage *usage = usage_new();

        usage_add(usage, one(1000, processes, 3), &server, 1);
        assert_int_equal(find_share(usage, USAGE_MPS_SERVER, NULL).sm_percent, 0);
        assert_int_equal(find_share(usage, USAGE_POD, "P").sm_percent, DARK);
        assert_int_equal(find_share(usage, USAGE_POD, "P").memory_percent, DARK);
        assert_int_equal(find_share(usage, USAGE_POD, "Q").sm_percent, 5);
        usage_add(usage, one(2000, processes, 3), NULL, 0);
        assert_int_equal(find_share(usage, USAGE_POD, "P").sm_percent, 0);
        usage_free(usage);
}

static void test_a_process_that_is_not_visible_is_nobodys(void **state UNUSED)
{
        static const struct gpu_process processes[] = {{.pid = 5, .memory = GIB}};
        struct usage *usage = usage_new();

        usage_add(usage, one(1000, processes, 1), NULL, 0);
        assert_true(find_share(usage, USAGE_HIDDEN, NULL).memory == GIB);
        usage_free(usage);
}

/* ---- time ---- */

static void test_a_gap_counts_for_nobody(void **state UNUSED)
{
        struct usage *usage = usage_new();

        usage_add(usage, example_at(1000, 0, 50000), NULL, 0);
        usage_add(usage, example_at(1000 + USAGE_GAP_MS + 1, 500000, 50000), NULL, 0);
        assert_true(is_near(find_share(usage, USAGE_POD, "P").seconds, 0));
        usage_add(usage, example_at(1000 + 2 * USAGE_GAP_MS, 900000, 50000), NULL, 0);
        assert_true(is_near(find_share(usage, USAGE_POD, "P").seconds, (USAGE_GAP_MS - 1) / 1000.0));
        usage_free(usage);
}

static void test_a_share_without_processes_stays_for_a_while_with_its_counters(void **state UNUSED)
{
        struct usage *usage = usage_new();
        struct usage_share share;

        usage_add(usage, example_at(1000, NONE, NONE), NULL, 0);
        usage_add(usage, example_at(3000, NONE, NONE), NULL, 0);
        usage_add(usage, one(4000, NULL, 0), NULL, 0);
        share = find_share(usage, USAGE_POD, "P");
        assert_true(share.n_processes == 0 && share.memory == 0 && share.sm_percent == 0);
        assert_true(share.memory_peak == 15 * GIB && is_near(share.seconds, 2));
        usage_add(usage, one(3000 + USAGE_KEEP_MS, NULL, 0), NULL, 0);
        assert_int_equal(count_shares(usage), 2);
        usage_add(usage, one(3001 + USAGE_KEEP_MS, NULL, 0), NULL, 0);
        assert_int_equal(count_shares(usage), 0);
        usage_free(usage);
}

/* ---- what must add up ---- */

static unsigned int seed;

static unsigned int draw(unsigned int below)
{
        return (unsigned int)rand_r(&seed) % below;
}

static struct gpu_samples *draw_samples(uint64_t at_ms, uint64_t energy)
{
        static const char *const units[] = {"GPU-A", "GPU-B", "MIG-C"};
        static const char *const pods[] = {"P", "Q", "R", NULL};
        struct gpu_samples *samples = gpu_samples_new();

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                struct gpu_sample *unit = put_unit(samples, units[i], at_ms);
                struct gpu_process *processes = ARENA_ARRAY(&samples->arena, struct gpu_process, 20);

                unit->n_processes = draw(20);
                unit->processes = processes;
                unit->values[GPU_ENERGY] = energy;
                unit->values[GPU_POWER] = 20000 + draw(100000);
                unit->values[GPU_MEMORY_USED] = 100 * GIB;
                for (size_t j = 0; j < unit->n_processes; j++) {
                        processes[j] = (struct gpu_process)PROCESS(
                                (pid_t)(100 * i + j), draw(5) * GIB, 1 + draw(5), pods[draw(ARRAY_SIZE(pods))]);
                        processes[j].is_visible = draw(4);
                        if (i == 2)
                                processes[j].sm_percent = DARK;
                }
        }
        return samples;
}

/* Of all shares of the unit. */
static void add_up(const struct usage *usage, const char *unit, struct usage_share *ret)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct usage_share *shares;
        size_t count = usage_shares(usage, &arena, &shares);

        *ret = (struct usage_share){.unit = unit};
        for (size_t i = 0; i < count; i++) {
                if (strcmp(shares[i].unit, unit) != 0)
                        continue;
                ret->n_processes += shares[i].n_processes;
                ret->memory += shares[i].memory;
                ret->sm_percent += shares[i].sm_percent == DARK ? 0 : shares[i].sm_percent;
                ret->energy += MAX(shares[i].energy, 0.0);
        }
}

static void test_the_shares_of_a_unit_and_the_rest_are_what_is_used_of_it(void **state UNUSED)
{
        for (unsigned int round = 0; round < 50; round++) {
                struct usage *usage = usage_new();
                uint64_t energy = 0;
                uint64_t at_ms = 1000;

                seed = round;
                for (unsigned int step = 0; step < 20; step++) {
                        const struct gpu_samples *samples;

                        at_ms += 1000 + draw(9000);
                        energy += draw(1000000);
                        usage_add(usage, draw_samples(at_ms, energy), (const pid_t[]){3, 104}, 2);
                        samples = usage_samples(usage);
                        for (size_t i = 0; i < samples->n_units; i++) {
                                struct usage_share sum;
                                unsigned int sm_percent = 0;

                                add_up(usage, samples->units[i].uuid, &sum);
                                for (size_t j = 0; j < samples->units[i].n_processes; j++)
                                        sm_percent += i == 2 ? 0 : samples->units[i].processes[j].sm_percent;
                                assert_int_equal(sum.n_processes, samples->units[i].n_processes);
                                assert_true(sum.memory + usage_unattributed(&samples->units[i]) == 100 * GIB);
                                assert_int_equal(sum.sm_percent, sm_percent);
                                assert_true(sum.energy <= (double)energy / 1000 + 1e-6);
                                assert_true(i != 2 || sum.energy <= 0);
                        }
                }
                usage_free(usage);
        }
}

static void test_an_hour_is_remembered_of_units_and_shares(void **state UNUSED)
{
        const struct gpu_process process = {
                .pid = 1, .memory = 2 * GIB, .sm_percent = 40, .memory_percent = 0, .is_visible = true, .pod_uid = "P"};
        uint32_t values[USAGE_RING_MINUTES];
        struct usage *usage = usage_new();
        struct gpu_samples *samples;

        assert_null(usage_past(usage, "GPU-A"));
        for (uint64_t minute = 10; minute <= 12; minute += 2) {
                samples = one(minute * 60000, &process, 1);
                samples->units[0].values[GPU_BUSY] = 50 + minute;
                samples->units[0].values[GPU_MEMORY_USED] = minute == 10 ? 3 * GIB : NONE;
                usage_add(usage, samples, NULL, 0);
        }
        assert_int_equal(usage_minute(usage), 12);
        assert_int_equal(usage_ring_read(&usage_past(usage, "GPU-A")->sm_percent, 12, values), 3);
        assert_int_equal(values[0], 60);
        assert_int_equal(values[1], USAGE_RING_NONE);
        assert_int_equal(values[2], 62);
        assert_int_equal(usage_ring_read(&usage_past(usage, "GPU-A")->memory_kib, 12, values), 3);
        assert_int_equal(values[0], 3 << 20);
        assert_int_equal(values[2], USAGE_RING_NONE);
        assert_int_equal(usage_ring_read(&find_share(usage, USAGE_POD, "P").past->sm_percent, 12, values), 3);
        assert_int_equal(values[2], 40);
        assert_int_equal(usage_ring_read(&find_share(usage, USAGE_POD, "P").past->memory_kib, 12, values), 3);
        assert_int_equal(values[0], 2 << 20);
        usage_free(usage);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_hour_is_remembered_of_units_and_shares),
                cmocka_unit_test(test_processes_are_added_up_by_pod),
                cmocka_unit_test(test_a_share_is_idle_since_its_activity_ended_with_or_without_a_process),
                cmocka_unit_test(test_an_unknown_part_makes_the_whole_unknown),
                cmocka_unit_test(test_energy_is_split_only_where_the_activity_of_all_is_known),
                cmocka_unit_test(test_a_server_of_mps_is_no_pod_whose_container_it_runs_in),
                cmocka_unit_test(test_beside_a_server_of_mps_nobody_is_idle),
                cmocka_unit_test(test_a_process_that_is_not_visible_is_nobodys),
                cmocka_unit_test(test_a_gap_counts_for_nobody),
                cmocka_unit_test(test_a_share_without_processes_stays_for_a_while_with_its_counters),
                cmocka_unit_test(test_the_shares_of_a_unit_and_the_rest_are_what_is_used_of_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
