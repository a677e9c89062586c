// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "mps/supervisor/compute_mode.h"
#include "mps/supervisor/record.h"

static char folder[64];

static const char *path(void)
{
        static char text[96];

        snprintf(text, sizeof(text), "%s/state.json", folder);
        return text;
}

static int set_up(void **state UNUSED)
{
        snprintf(folder, sizeof(folder), "/tmp/warpshare-record-XXXXXX");
        return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state UNUSED)
{
        unlink(path());
        return rmdir(folder);
}

static const struct mps_unit unit = {
        .uuid = "MIG-1",
        .gpu_uuid = "GPU-1",
        .index = "0:1",
        .name = "NVIDIA A100",
        .is_mig = true,
        .memory = 4096,
        .replicas = 4,
        .sms = 14,
        .chunk_sms = 4,
        .limit_mib = 1024,
        .replica_mib = 1024,
        .clients = 6,
};

static struct mps_daemon_wanted wanted(void)
{
        return (struct mps_daemon_wanted){
                .name = "MIG-1",
                .resource = "nvidia.com/gpu",
                .provisioning = PROVISIONING_SM,
                .tier_limit = MPS_TIER_PARTITION,
                .threads_permille = 333,
                .units = &unit,
                .n_units = 1,
        };
}

static void write_record(void)
{
        const struct mps_daemon_wanted daemon = wanted();
        struct mps_record_daemon process = {
                .pid = 4711, .start_time = 815, .inode = 17, .options = 1, .can = 5, .settings = wanted()};
        struct mps_record_mode mode = {.uuid = "MIG-1", .before = NVML_COMPUTEMODE_PROHIBITED};
        struct mps_record_allocation allocation = {
                .request = {.id = "g1", .daemon = "MIG-1", .unit = "MIG-1", .threads_permille = 500, .sms = 8},
                .allocation = {.tier = MPS_TIER_PARTITION, .partition = "GPU-1/1A=", .sms = 8},
                .pid = 4711,
                .start_time = 815,
                .is_void = true,
        };
        struct mps_container_limit limit = {
                .unit = "GPU-1", .cgroup = "/kubepods/pod1/c1", .allocation = "g1", .limit_mib = 1024};
        const struct mps_record record = {
                .generation = 7,
                .wanted = {&daemon, 1},
                .daemons = &process,
                .n_daemons = 1,
                .modes = &mode,
                .n_modes = 1,
                .allocations = &allocation,
                .n_allocations = 1,
                .limits = &limit,
                .n_limits = 1,
        };
        struct error err;

        assert_ok(mps_record_write(&record, path(), &err), &err);
}

static void test_what_was_written_is_read(void **state UNUSED)
{
        _cleanup_(mps_record_done) struct mps_record record;
        const struct mps_daemon_wanted daemon = wanted();
        struct error err;

        write_record();
        assert_ok(mps_record_read(&record, path(), &err), &err);
        assert_int_equal(record.generation, 7);
        assert_int_equal(record.wanted.n_daemons, 1);
        assert_true(mps_daemon_is_same(&record.wanted.daemons[0], &daemon));
        assert_int_equal(record.wanted.daemons[0].units[0].replica_mib, 1024);
        assert_int_equal(record.n_daemons, 1);
        assert_string_equal(record.daemons[0].settings.name, "MIG-1");
        assert_int_equal(record.daemons[0].pid, 4711);
        assert_int_equal(record.daemons[0].start_time, 815);
        assert_int_equal(record.daemons[0].inode, 17);
        assert_int_equal(record.daemons[0].options, 1);
        assert_int_equal(record.daemons[0].can, 5);
        assert_true(mps_daemon_is_same(&record.daemons[0].settings, &daemon));
        assert_string_equal(record.modes[0].uuid, "MIG-1");
        assert_int_equal(record.modes[0].before, NVML_COMPUTEMODE_PROHIBITED);
        assert_string_equal(record.allocations[0].request.id, "g1");
        assert_int_equal(record.allocations[0].request.threads_permille, 500);
        assert_string_equal(record.allocations[0].allocation.partition, "GPU-1/1A=");
        assert_null(record.allocations[0].allocation.pipe);
        assert_true(record.allocations[0].is_void);
        assert_int_equal(record.n_limits, 1);
        assert_string_equal(record.limits[0].unit, "GPU-1");
        assert_string_equal(record.limits[0].cgroup, "/kubepods/pod1/c1");
        assert_string_equal(record.limits[0].allocation, "g1");
        assert_int_equal(record.limits[0].limit_mib, 1024);
}

static void test_no_file_is_an_empty_record(void **state UNUSED)
{
        _cleanup_(mps_record_done) struct mps_record record;
        struct error err;

        assert_ok(mps_record_read(&record, path(), &err), &err);
        assert_int_equal(record.n_daemons + record.n_modes + record.n_allocations + record.wanted.n_daemons, 0);
}

static void assert_refused(const char *text)
{
        _cleanup_(mps_record_done) struct mps_record record;
        struct error err;

        assert_ok(file_write(path(), text, strlen(text), &err), &err);
        if (mps_record_read(&record, path(), &err) == 0)
                fail_msg("taken: %s", text);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_non_null(strstr(err.text, path()));
}

static void test_a_record_that_is_none_is_refused(void **state UNUSED)
{
        static const char *const texts[] = {
                "",
                "{\"generation\": 7",
                "[]",
                "{}",
                "{\"daemons\": [], \"processes\": 5}",
                "{\"daemons\": [], \"processes\": [{\"pid\": 0, \"startTime\": 1}]}",
                "{\"daemons\": [], \"processes\": [{\"pid\": 5, \"startTime\": 1, \"daemons\": []}]}",
                "{\"daemons\": [], \"computeModes\": [{\"uuid\": \"GPU-1 x\", \"before\": 0}]}",
                "{\"daemons\": [], \"computeModes\": [{\"uuid\": \"GPU-1\", \"before\": 9}]}",
                "{\"daemons\": [], \"grants\": [{\"id\": \"../etc\", \"daemon\": \"a\", \"unit\": \"GPU-1\"}]}",
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                assert_refused(texts[i]);
}

/* ---- the modes themselves ---- */

static void test_a_compute_mode_is_read_and_set(void **state UNUSED)
{
        static const char scenario[] = "gpus:\n- {model: T4, uuid: GPU-1, computeMode: exclusive-process}\n";
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        const char *library = getenv("WARPSHARE_SIM_NVML");
        nvmlComputeMode_t mode;
        struct error err;

        assert_non_null(library);
        assert_ok(file_write(path(), scenario, strlen(scenario), &err), &err);
        setenv("WARPSHARE_SIM_SCENARIO", path(), 1);
        assert_ok(nvml_open(&nvml, library, "", &err), &err);
        assert_int_equal(compute_mode_read(nvml, "GPU-1", &mode, &err), 1);
        assert_int_equal(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        assert_ok(compute_mode_set(nvml, "GPU-1", NVML_COMPUTEMODE_PROHIBITED, &err), &err);
        assert_int_equal(compute_mode_read(nvml, "GPU-1", &mode, &err), 1);
        assert_int_equal(mode, NVML_COMPUTEMODE_PROHIBITED);
        assert_int_equal(compute_mode_read(nvml, "GPU-2", &mode, &err), -1); /* no such unit */
        assert_int_equal(compute_mode_set(nvml, "GPU-2", NVML_COMPUTEMODE_DEFAULT, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_was_written_is_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_no_file_is_an_empty_record, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_record_that_is_none_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_compute_mode_is_read_and_set, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
