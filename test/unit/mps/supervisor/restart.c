// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor starts anew over what is there (model_daemons.h), or is asked anew for what it makes already: nothing of
 * what was begun is forgotten, and nothing is ended that has a client.
 */
#include "unit.h"

#include "model_daemons.h"
#include "own_clock.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "mps/supervisor/allocations.h"
#include "mps/supervisor/supervisor.h"

#define SOON_MS 5000
#define PATIENCE_MS 300000 /* longer than all that the supervisor waits for */

static struct node {
        uv_loop_t loop;
        char folder[64];
        struct mps_supervisor *supervisor; /* NULL: none */
        uint64_t generation;
        char partition[24];
} node;

static const struct mps_unit units[] = {
        {.uuid = "GPU-0", .gpu_uuid = "GPU-0", .index = "0", .name = "A100", .sms = 80, .chunk_sms = 10, .replicas = 4},
        {.uuid = "GPU-1", .gpu_uuid = "GPU-1", .index = "1", .name = "A100", .sms = 80, .chunk_sms = 10, .replicas = 4},
};

static struct mps_daemon_wanted daemon_of(const char *name, const struct mps_unit *of, size_t n_units)
{
        return (struct mps_daemon_wanted){.name = name,
                .resource = "nvidia.com/gpu",
                .provisioning = PROVISIONING_SM,
                .tier_limit = MPS_TIER_PARTITION,
                .threads_permille = 1000,
                .units = of,
                .n_units = n_units};
}

static void apply(const struct mps_daemon_wanted *wanted, size_t count)
{
        struct error err;

        assert_ok(mps_supervisor_apply(node.supervisor, &(struct mps_wanted){wanted, count}, ++node.generation, &err),
                &err);
        own_clock_pass(&node.loop, SOON_MS);
}

static void apply_each(void)
{
        apply((const struct mps_daemon_wanted[]){daemon_of("GPU-0", &units[0], 1), daemon_of("GPU-1", &units[1], 1)},
                2);
}

static void start(void)
{
        const struct mps_supervisor_options options = {.loop = &node.loop,
                .root = node.folder,
                .control = "/bin/control",
                .nvml_library = "",
                .shm_kib = 1024};

        node.supervisor = mps_supervisor_new(&options);
        own_clock_pass(&node.loop, 0);
}

static void on_closed(bool leaves_modes UNUSED, void *data UNUSED)
{
        node.supervisor = NULL;
}

static void leave(void)
{
        mps_supervisor_leave(node.supervisor, on_closed, NULL);
        own_clock_pass(&node.loop, 0);
        assert_null(node.supervisor);
}

static struct model_daemon *daemon_at(const char *name)
{
        _free_ char *pipe = xasprintf("%s/%s/pipe", node.folder, name);

        return model_daemon_at(pipe);
}

static int set_up(void **state UNUSED)
{
        memset(&node, 0, sizeof(node));
        log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
        strcpy(node.folder, "/dev/shm/warpshare-restart-XXXXXX");
        assert_non_null(mkdtemp(node.folder));
        uv_loop_init(&node.loop);
        model_daemons_begin(&node.loop);
        start();
        return 0;
}

static int remove_one(const char *path, const struct stat *status UNUSED, int kind UNUSED, struct FTW *place UNUSED)
{
        return remove(path);
}

static int tear_down(void **state UNUSED)
{
        mps_supervisor_close(node.supervisor, 0, on_closed, NULL);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_null(node.supervisor);
        assert_null(daemons.wrong);
        model_daemons_end();
        uv_run(&node.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&node.loop), 0);
        return nftw(node.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void on_granted(const struct error *err, const struct mps_allocation *made, void *data UNUSED)
{
        assert_true(!err);
        snprintf(node.partition, sizeof(node.partition), "%s", made->partition);
}

static void on_released(const struct error *err UNUSED, void *data UNUSED)
{
}

/* ---- tests ---- */

/* "node" is to serve both, but GPU-0 has a client still. */
static void test_who_drains_keeps_its_units_over_a_restart(void **state UNUSED)
{
        const struct mps_daemon_wanted both = daemon_of("node", units, 2);

        apply_each();
        model_daemon_join(daemon_at("GPU-0"));
        apply(&both, 1);
        assert_null(daemon_at("node"));
        leave();
        start();
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_null(daemons.wrong);
        assert_null(daemon_at("node"));
        assert_int_equal(daemon_at("GPU-0")->n_clients, 1);
        model_daemon_leave(daemon_at("GPU-0"), 0);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_null(daemon_at("GPU-0"));
        assert_non_null(daemon_at("node"));
}

/* The same where the daemon itself has other units now: GPU-1 is to have one of its own. */
static void test_who_restarts_with_other_units_keeps_them_until_then(void **state UNUSED)
{
        const struct mps_daemon_wanted both = daemon_of("shared", units, 2);

        apply(&both, 1);
        model_daemon_join(daemon_at("shared"));
        apply((const struct mps_daemon_wanted[]){daemon_of("GPU-1", &units[1], 1), daemon_of("shared", &units[0], 1)},
                2);
        leave();
        start();
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_null(daemons.wrong);
        assert_null(daemon_at("GPU-1"));
        model_daemon_leave(daemon_at("shared"), 0);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_non_null(daemon_at("GPU-1"));
        assert_string_equal(daemon_at("shared")->units, "GPU-0");
}

/* Its daemon is found after the other. */
static void test_what_is_to_be_removed_is_removed_after_a_restart(void **state UNUSED)
{
        const struct mps_allocation_request request = {
                .id = "g1", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .sms = 20};

        apply_each();
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        own_clock_pass(&node.loop, SOON_MS);
        assert_int_equal(daemon_at("GPU-1")->n_partitions, 1);
        assert_string_equal(daemon_at("GPU-1")->partitions[0].id, node.partition);
        daemon_at("GPU-1")->is_hung = true;
        mps_allocations_release(mps_supervisor_allocations(node.supervisor), "g1", on_released, NULL);
        leave();
        daemon_at("GPU-1")->is_hung = false;
        start();
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_int_equal(daemon_at("GPU-1")->n_partitions, 0);
}

/* A request is open, whose end changes the record. */
static void test_who_leaves_has_all_daemons_on_record(void **state UNUSED)
{
        const struct mps_allocation_request request = {
                .id = "g1", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .sms = 20};

        leave(); /* where there is none */
        start();
        apply_each();
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        own_clock_pass(&node.loop, SOON_MS);
        model_daemon_join(daemon_at("GPU-1"));
        apply(NULL, 0);
        daemon_at("GPU-1")->is_hung = true;
        mps_allocations_release(mps_supervisor_allocations(node.supervisor), "g1", on_released, NULL);
        leave();
        daemon_at("GPU-1")->is_hung = false;
        model_daemon_leave(daemon_at("GPU-1"), 0);
        start();
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_null(daemon_at("GPU-1"));
}

/* The agent has lost the answer and asks again, then the container ends. */
static void test_what_is_released_goes_however_often_it_was_asked_for(void **state UNUSED)
{
        const struct mps_allocation_request request = {
                .id = "g1", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .sms = 20};

        apply_each();
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        mps_allocations_release(mps_supervisor_allocations(node.supervisor), "g1", on_released, NULL);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_int_equal(daemon_at("GPU-1")->n_partitions, 0);
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        mps_allocations_hold(mps_supervisor_allocations(node.supervisor), NULL, 0);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_int_equal(daemon_at("GPU-1")->n_partitions, 0);
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        mps_allocations_release(mps_supervisor_allocations(node.supervisor), "g1", on_released, NULL);
        mps_allocations_make(mps_supervisor_allocations(node.supervisor), &request, on_granted, NULL);
        own_clock_pass(&node.loop, PATIENCE_MS);
        assert_int_equal(daemon_at("GPU-1")->n_partitions, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_who_drains_keeps_its_units_over_a_restart, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_restarts_with_other_units_keeps_them_until_then, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_is_to_be_removed_is_removed_after_a_restart, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_is_released_goes_however_often_it_was_asked_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_who_leaves_has_all_daemons_on_record, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
