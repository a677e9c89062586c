// SPDX-License-Identifier: Apache-2.0
/*
 * The publisher of ResourceSlices beside others who delete and change them, on the simulated API server. The clock is
 * the test's (own_clock.h), so minutes take no time; the sockets are real.
 */
#include "unit.h"

#include "own_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/dra/publish.h"
#include "base/io/loop.h"
#include "net/kube/object.h"
#include "simulated.h"
#include "test/unit/cluster_client.h"

#define NODE "n1"
#define N_SLICES 2
#define N_DEVICES 8
#define MEDDLE_MS 100
#define MINUTE_MS 60000
/* For ever, as far as a test goes. After five and a half minutes the client's watch begins anew, and looks at all. */
#define EVER_MS (3 * MINUTE_MS)

/* A first repair and six pauses up to a minute, of which half may be missing; then the longest pauses. */
#define MOST_REPAIRS (7 + EVER_MS / (MINUTE_MS / 2))

struct fixture {
        uv_loop_t loop;
        struct cluster_client api;
        struct inventory *inventory;
        struct dra_publisher *publisher;
        bool is_right;
        unsigned int n_waits;
        char why[512];
        uv_timer_t meddler;
        void (*meddle)(struct fixture *f);
        unsigned int n_meddled; /* slices; as often has the agent written */
};

static void on_done(const struct error *error, void *data)
{
        struct fixture *f = data;

        f->is_right = !error;
        if (!error)
                return;
        f->n_waits++;
        snprintf(f->why, sizeof(f->why), "%s", error->text);
}

static bool is_right(void *data)
{
        return ((struct fixture *)data)->is_right;
}

static json_t *slices(const struct fixture *f)
{
        return cluster_objects(f->api.cluster, CLUSTER_SLICES);
}

static int set_up(void **state)
{
        static const struct dra_options options = DRA_OPTIONS_DEFAULT;
        struct fixture *f = xcalloc(1, sizeof(*f));
        _free_ char *scenario = xasprintf("%s/v100x4.yaml", getenv("WARPSHARE_SCENARIOS"));

        uv_loop_init(&f->loop);
        cluster_client_open(&f->api, &f->loop, NODE);
        f->inventory = simulated_inventory(scenario);
        f->publisher = dra_publisher_new(&(struct dra_publisher_options){.loop = &f->loop,
                .client = f->api.client,
                .node = NODE,
                .driver = DRA_DRIVER,
                .pool = NODE "/" DRA_DRIVER,
                .done = on_done,
                .data = f});
        uv_timer_init(&f->loop, &f->meddler);
        f->meddler.data = f;
        dra_publisher_put(f->publisher, f->inventory, &options);
        assert_true(loop_run_until(&f->loop, is_right, f, 0));
        assert_int_equal(json_object_size(slices(f)), N_SLICES);
        own_clock_pass(&f->loop, MINUTE_MS);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        dra_publisher_close(f->publisher);
        cluster_client_close(&f->api);
        uv_close((uv_handle_t *)&f->meddler, NULL);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        inventory_free(f->inventory);
        cluster_client_remove(&f->api);
        free(f);
        return 0;
}

/* ---- others ---- */

static void on_meddler(uv_timer_t *timer)
{
        struct fixture *f = timer->data;

        f->meddle(f);
}

static void delete_all(struct fixture *f)
{
        f->n_meddled += (unsigned int)json_object_size(slices(f));
        cluster_wipe_slices(f->api.cluster, NODE, NULL);
}

/* The slice with devices, which is the last one. */
static const char *name_of_devices(const struct fixture *f)
{
        const char *last = NULL;
        const char *name;
        json_t *slice;

        json_object_foreach(slices(f), name, slice) if (object_find(slice, "spec", "devices", NULL)) last = name;
        return last;
}

static size_t count_devices(const struct fixture *f)
{
        const char *name = name_of_devices(f);

        return name ? json_array_size(object_find(json_object_get(slices(f), name), "spec", "devices", NULL)) : 0;
}

static void take_devices(struct fixture *f)
{
        json_t *slice;

        if (count_devices(f) == 0)
                return;
        f->n_meddled++;
        slice = json_deep_copy(json_object_get(slices(f), name_of_devices(f)));
        json_object_set_new(json_object_get(slice, "spec"), "devices", json_array());
        cluster_put(f->api.cluster, CLUSTER_SLICES, slice);
}

/* What the agent does not care for. */
static void touch(struct fixture *f)
{
        json_t *slice = json_deep_copy(json_object_get(slices(f), name_of_devices(f)));

        json_object_set_new(json_object_get(slice, "metadata"), "annotations",
                json_pack("{s:o}", "touched", json_sprintf("%u", f->n_meddled++)));
        cluster_put(f->api.cluster, CLUSTER_SLICES, slice);
}

static void add_strange_one(struct fixture *f)
{
        if (json_object_size(slices(f)) > N_SLICES)
                return;
        f->n_meddled++;
        cluster_put(f->api.cluster, CLUSTER_SLICES,
                json_pack("{s:{s:o}, s:{s:s, s:s, s:{s:s, s:i, s:i}, s:[]}}", "metadata", "name",
                        json_sprintf("strange-%u", f->n_meddled), "spec", "driver", DRA_DRIVER, "nodeName", NODE,
                        "pool", "name", NODE, "generation", 1, "resourceSliceCount", 1, "devices"));
}

/* ---- tests ---- */

static bool is_whole(void *data)
{
        const struct fixture *f = data;

        return f->is_right && json_object_size(slices(f)) == N_SLICES && count_devices(f) == N_DEVICES;
}

static bool is_wrong(void *data)
{
        return !is_right(data);
}

/* Without a moment of the clock. */
static void await(struct fixture *f, loop_condition_fn *is_true)
{
        assert_true(loop_run_until(&f->loop, is_true, f, 0));
}

/* Somebody meddles for |ms|, and once more, so that there is a pause at the end. */
static void meddle_for(struct fixture *f, void (*meddle)(struct fixture *f), int64_t ms)
{
        f->meddle = meddle;
        uv_timer_start(&f->meddler, on_meddler, MEDDLE_MS, MEDDLE_MS);
        own_clock_pass(&f->loop, ms);
        uv_timer_stop(&f->meddler);
        meddle(f);
}

static void test_a_wipe_is_healed_at_once(void **state)
{
        struct fixture *f = *state;

        delete_all(f);
        await(f, is_whole);
        assert_int_equal(f->n_waits, 0);
}

static void test_a_wipe_that_takes_its_time_is_healed_within_a_second(void **state)
{
        struct fixture *f = *state;

        delete_all(f);
        await(f, is_whole);
        for (unsigned int i = 0; i < 10; i++) {
                delete_all(f);
                own_clock_pass(&f->loop, 10);
        }
        own_clock_pass(&f->loop, 900);
        await(f, is_whole);
        assert_int_equal(f->n_waits, 0);
}

static void assert_not_fought(
        struct fixture *f, void (*meddle)(struct fixture *f), unsigned int n_slices, const char *what)
{
        _free_ char *why = xasprintf("another client has %s ResourceSlice ", what);

        meddle_for(f, meddle, EVER_MS);
        assert_in_range(f->n_meddled, 7, n_slices * MOST_REPAIRS);
        await(f, is_wrong);
        assert_int_equal(strncmp(f->why, why, strlen(why)), 0);
        own_clock_pass(&f->loop, MINUTE_MS);
        await(f, is_whole);
}

static void test_who_deletes_slices_for_ever_is_answered_more_and_more_rarely(void **state)
{
        assert_not_fought(*state, delete_all, N_SLICES, "deleted");
}

static void test_who_changes_a_slice_for_ever_is_answered_more_and_more_rarely(void **state)
{
        assert_not_fought(*state, take_devices, 1, "changed");
}

static void test_who_adds_slices_of_ours_for_ever_is_answered_more_and_more_rarely(void **state)
{
        assert_not_fought(*state, add_strange_one, 1, "added");
}

static void test_a_slice_that_is_touched_is_not_written_and_repaired_at_once_all_the_same(void **state)
{
        struct fixture *f = *state;
        json_t *touched;

        for (unsigned int i = 0; i < 10; i++) {
                touch(f);
                own_clock_pass(&f->loop, 100 * i);
        }
        touched = json_deep_copy(slices(f));
        own_clock_pass(&f->loop, MINUTE_MS);
        assert_true(json_equal(slices(f), touched));
        touch(f);
        own_clock_settle(&f->loop);
        take_devices(f);
        await(f, is_whole);
        assert_int_equal(f->n_waits, 0);
        json_decref(touched);
}

static bool has_taints(void *data)
{
        const struct fixture *f = data;
        const char *name = name_of_devices(f);
        size_t i;
        json_t *device;

        json_array_foreach(object_find(name ? json_object_get(slices(f), name) : NULL, "spec", "devices", NULL), i,
                device) if (json_object_get(device, "taints")) return true;
        return false;
}

static void test_the_agents_own_changes_do_not_wait(void **state)
{
        struct fixture *f = *state;
        const struct dra_taint taint = {.uuid = f->inventory->gpus[2].uuid,
                .key = DRA_DRIVER "/unhealthy",
                .value = "xid-79",
                .effect = DRA_EFFECT_NO_SCHEDULE};

        meddle_for(f, delete_all, MINUTE_MS);
        await(f, is_wrong);
        dra_publisher_set_taints(f->publisher, &taint, 1);
        await(f, has_taints);
        await(f, is_whole);
}

static void test_what_others_put_right_themselves_is_told_and_not_written(void **state)
{
        struct fixture *f = *state;
        json_t *before = json_deep_copy(json_object_get(slices(f), name_of_devices(f)));
        json_t *after;

        meddle_for(f, take_devices, MINUTE_MS);
        await(f, is_wrong);
        after = json_deep_copy(cluster_put(f->api.cluster, CLUSTER_SLICES, json_deep_copy(before)));
        own_clock_pass(&f->loop, MINUTE_MS);
        await(f, is_whole);
        assert_true(json_equal(json_object_get(slices(f), name_of_devices(f)), after));
        json_decref(before);
        json_decref(after);
}

static void test_after_a_quiet_time_a_wipe_is_healed_at_once_again(void **state)
{
        struct fixture *f = *state;

        meddle_for(f, delete_all, MINUTE_MS);
        own_clock_pass(&f->loop, 3 * MINUTE_MS);
        await(f, is_whole);
        f->n_waits = 0;
        test_a_wipe_is_healed_at_once(state);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_wipe_is_healed_at_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_wipe_that_takes_its_time_is_healed_within_a_second, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_deletes_slices_for_ever_is_answered_more_and_more_rarely, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_changes_a_slice_for_ever_is_answered_more_and_more_rarely, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_adds_slices_of_ours_for_ever_is_answered_more_and_more_rarely, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_slice_that_is_touched_is_not_written_and_repaired_at_once_all_the_same, set_up,
                        tear_down),
                cmocka_unit_test_setup_teardown(test_the_agents_own_changes_do_not_wait, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_others_put_right_themselves_is_told_and_not_written, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_after_a_quiet_time_a_wipe_is_healed_at_once_again, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
