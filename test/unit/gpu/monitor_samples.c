// SPDX-License-Identifier: Apache-2.0
/* Readings of what the units do, as the monitor delivers them. */
#include "unit.h"

#include "monitor_fixture.h"

static struct gpu_samples *newest;
static unsigned int n_rounds;

static void on_samples(struct gpu_samples *samples, void *data UNUSED)
{
        gpu_samples_free(newest);
        newest = samples;
        n_rounds++;
}

static void start_sampling_for(struct fixture *fixture, const char *scenario, uint64_t hang_ms)
{
        struct gpu_monitor_options options = quick(fixture);

        newest = gpu_samples_free(newest);
        n_rounds = 0;
        options.sample_ms = 20;
        options.on_samples = on_samples;
        options.hang_ms = hang_ms;
        start_with(fixture, scenario, &options);
}

static void start_sampling(struct fixture *fixture, const char *scenario)
{
        start_sampling_for(fixture, scenario, 300);
}

struct wish {
        const char *uuids[2]; /* exactly these units, by position; NULL: no more */
        uint64_t xid;         /* and this, |count| times */
        uint64_t count;
        unsigned int rounds; /* after so many */
};

static bool is_fulfilled(void *data)
{
        const struct wish *wish = data;
        size_t n = wish->uuids[1] ? 2 : 1;

        if (!newest || n_rounds < wish->rounds || newest->n_units != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (strcmp(newest->units[i].uuid, wish->uuids[i]) != 0)
                        return false;
        for (size_t i = 0; wish->xid && i < newest->n_xids; i++)
                if (newest->xids[i].xid == wish->xid && newest->xids[i].count == wish->count)
                        return true;
        return !wish->xid;
}

static void expect_samples(struct fixture *fixture, struct wish wish)
{
        assert_true(loop_run_until(&fixture->loop, is_fulfilled, &wish, PATIENCE_MS));
}

static void test_all_gpus_are_read_again_and_again(void **state)
{
        struct fixture *fixture = *state;

        start_sampling(fixture, TWO_GPUS);
        expect_samples(fixture, (struct wish){{A, B}, .rounds = 3});
}

static void test_every_xid_is_counted_whatever_it_means_for_health(void **state)
{
        struct fixture *fixture = *state;

        start_sampling(fixture, TWO_GPUS);
        expect_samples(fixture, (struct wish){{A, B}, .rounds = 1});
        scenario_write(TWO_GPUS "events: [{gpu: 0, xid: 31}, {gpu: 0, xid: 31}, {gpu: 1, xid: 31}]\n");
        expect_samples(fixture, (struct wish){{A, B}, .xid = 31, .count = 2});
        assert_string_equal(newest->xids[0].gpu, A);
        assert_true(newest->xids[0].last > 0);
        expect_samples(fixture, (struct wish){{A, B}, .xid = 31, .count = 1});
}

static void test_a_reading_that_hangs_stops_neither_the_others_nor_health(void **state)
{
        struct fixture *fixture = *state;
        size_t told;

        start_sampling(fixture, REPORTS "gpus: [{model: T4, uuid: " A
                                        ", delays: {nvmlDeviceGetPowerUsage: 600s}}, {model: T4, uuid: " B "}]\n");
        told = expect(fixture, 0, "- " A " nvmlDeviceGetPowerUsage does not return");
        expect_samples(fixture, (struct wish){{B, NULL}, .rounds = 2});
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A ", delays: {nvmlDeviceGetPowerUsage: 600s}}, {model: T4, "
                               "uuid: " B "}]\nevents: [{gpu: 1, xid: 79}]\n");
        expect(fixture, told, "- " B);
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, told, "+ " A);
        expect_samples(fixture, (struct wish){{A, B}});
}

/* Long before the call counts as hanging. */
static void test_a_reading_that_lasts_does_not_hold_up_those_of_the_others(void **state)
{
        struct fixture *fixture = *state;

        start_sampling_for(fixture,
                REPORTS "gpus: [{model: T4, uuid: " A ", delays: {nvmlDeviceGetPowerUsage: 600s}}, {model: T4, uuid: " B
                        "}]\n",
                3 * PATIENCE_MS);
        expect_samples(fixture, (struct wish){{B, NULL}, .rounds = 2});
        scenario_write(TWO_GPUS);
        expect_samples(fixture, (struct wish){{A, B}, .rounds = n_rounds + 2});
}

static void test_a_gpu_that_is_gone_is_read_no_more(void **state)
{
        struct fixture *fixture = *state;

        start_sampling(fixture, TWO_GPUS);
        expect_samples(fixture, (struct wish){{A, B}, .rounds = 1});
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B ", lost: true}]\n");
        expect_samples(fixture, (struct wish){{A, NULL}, .rounds = 1});
}

static int forget(void **state)
{
        newest = gpu_samples_free(newest);
        return teardown(state);
}

#define SAMPLING(name) cmocka_unit_test_setup_teardown(name, setup, forget)

int main(void)
{
        const struct CMUnitTest tests[] = {
                SAMPLING(test_all_gpus_are_read_again_and_again),
                SAMPLING(test_every_xid_is_counted_whatever_it_means_for_health),
                SAMPLING(test_a_reading_that_hangs_stops_neither_the_others_nor_health),
                SAMPLING(test_a_reading_that_lasts_does_not_hold_up_those_of_the_others),
                SAMPLING(test_a_gpu_that_is_gone_is_read_no_more),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
