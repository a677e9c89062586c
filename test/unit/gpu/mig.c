// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "gpu/mig_read.h"
#include "reading.h"

/* The machine's /proc, for one test. */
struct proc {
        char root[32];
};

static void proc_init(struct proc *proc)
{
        strcpy(proc->root, "/tmp/warpshare-proc-XXXXXX");
        assert_non_null(mkdtemp(proc->root));
}

static void proc_put(const struct proc *proc, const char *name, const char *text)
{
        _free_ char *path = xasprintf("%s/proc/driver/%s", proc->root, name);
        _free_ char *make = xasprintf("mkdir -p \"$(dirname %s)\"", path);
        struct error err;

        assert_int_equal(system(make), 0);
        assert_ok(file_write(path, text, strlen(text), &err), &err);
}

static void proc_done(struct proc *proc)
{
        _free_ char *clear = xasprintf("rm -r %s", proc->root);

        assert_int_equal(system(clear), 0);
}

static void test_mig_devices_are_read_with_their_instances(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- model: A100-40GB\n"
                "  mig:\n"
                "    devices:\n"
                "    - {profile: 3g.20gb, uuid: MIG-00000000-0000-4000-8000-000000000001}\n"
                "    - {profile: 1g.5gb, count: 2}\n"
                "- model: A100-40GB\n"
                "  mig: {enabled: true}\n");
        const struct gpu *gpu = inventory->gpus;

        assert_int_equal(inventory->n_gpus, 2);
        assert_null(gpu->failure);
        assert_true(gpu->mig_enabled);
        assert_int_equal(gpu->mig_max, 7);
        assert_int_equal(gpu->n_mig_devices, 3);
        assert_string_equal(gpu->mig_devices[0].uuid, "MIG-00000000-0000-4000-8000-000000000001");
        assert_int_equal(gpu->mig_devices[0].attributes.gpu_slices, 3);
        assert_int_equal(gpu->mig_devices[0].attributes.compute_slices, 3);
        assert_int_equal(gpu->mig_devices[0].attributes.multiprocessors, 42);
        assert_int_equal(gpu->mig_devices[0].memory, UINT64_C(20096) << 20);
        assert_int_equal(gpu->mig_devices[1].attributes.gpu_slices, 1);
        assert_int_equal(gpu->mig_devices[1].attributes.multiprocessors, 14);
        assert_int_not_equal(gpu->mig_devices[1].gpu_instance, gpu->mig_devices[2].gpu_instance);
        assert_int_equal(gpu->mig_devices[2].compute_instance, 0);
        /* MIG on without any instance is no failure. */
        assert_null(gpu[1].failure);
        assert_true(gpu[1].mig_enabled);
        assert_int_equal(gpu[1].n_mig_devices, 0);
}

static void test_the_places_of_mig_are_known_of_a_gpu_in_mig_mode(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- model: A100-40GB\n"
                "  mig: {devices: [{profile: 3g.20gb, start: 4}]}\n"
                "- model: A100-40GB\n");
        const struct gpu *gpu = inventory->gpus;
        const struct mig_instance_profile *profile = gpu->mig_instance_profiles;

        for (size_t i = 0; i < gpu->n_mig_instance_profiles && strcmp(profile->name, "3g.20gb") != 0; i++)
                profile++;
        assert_int_equal(profile->id, 9);
        assert_int_equal(profile->slices, 3);
        assert_int_equal(profile->size, 4);
        assert_int_equal(profile->count, 2);
        assert_int_equal(profile->starts, 0x11);
        assert_true(mig_attributes_are_same(&profile->attributes, &gpu->mig_devices[0].attributes));
        assert_int_equal(gpu->n_mig_placed, 1);
        assert_int_equal(gpu->mig_placed[0].gpu_instance, gpu->mig_devices[0].gpu_instance);
        assert_int_equal(gpu->mig_placed[0].profile_id, 9);
        assert_int_equal(gpu->mig_placed[0].start, 4);
        assert_null(gpu->mig_geometry_failure);
        assert_int_equal(inventory->gpus[1].n_mig_instance_profiles, 0);
}

static void test_a_geometry_that_may_not_be_read_leaves_the_mig_devices(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- model: A100-40GB\n"
                "  mig: {devices: [{profile: 3g.20gb}]}\n"
                "errors: {nvmlDeviceGetGpuInstances: NO_PERMISSION}\n");

        assert_int_equal(inventory->gpus->n_mig_devices, 1);
        assert_int_equal(inventory->gpus->n_mig_instance_profiles, 0);
        assert_non_null(strstr(inventory->gpus->mig_geometry_failure, "nvmlDeviceGetGpuInstances"));
}

static void test_a_mig_device_has_the_attributes_of_its_instance(void **state UNUSED)
{
        static const struct mig_attributes shared = {.gpu_slices = 3,
                .compute_slices = 2,
                .multiprocessors = 28,
                .copy_engines = 3,
                .decoders = 2,
                .memory_mib = 20096};
        static const struct mig_attributes media = {.gpu_slices = 1,
                .compute_slices = 1,
                .multiprocessors = 14,
                .copy_engines = 1,
                .decoders = 1,
                .jpegs = 1,
                .ofas = 1,
                .memory_mib = 4864};
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- model: A100-40GB\n"
                "  mig: {devices: [{profile: 2c.3g.20gb, gi: 2}, {profile: 1g.5gb+me}]}\n");
        const struct gpu *gpu = inventory->gpus;

        assert_int_equal(gpu->n_mig_devices, 2);
        assert_true(mig_attributes_are_same(&gpu->mig_devices[0].attributes, &shared));
        assert_true(mig_attributes_are_same(&gpu->mig_devices[1].attributes, &media));
}

static void test_a_mig_device_is_called_by_its_profile(void **state UNUSED)
{
        static const struct {
                const char *model;
                const char *profile;
        } table[] = {
                {"A100-40GB", "1g.5gb"},
                {"A100-40GB", "1g.5gb+me"},
                {"A100-40GB", "1g.10gb"},
                {"A100-40GB", "1c.3g.20gb"},
                {"A100-40GB", "4c.7g.40gb"},
                {"A30", "2g.12gb+me"},
                {"H100-80GB", "1g.20gb"},
                {"H200", "3g.71gb"},
                {"GB200", "7g.186gb"},
                {"RTX-PRO-6000", "1g.24gb+gfx"},
                {"RTX-PRO-6000", "1g.24gb-me"},
                {"RTX-PRO-6000", "2g.48gb+me.all"},
                {"RTX-PRO-6000", "1c.2g.48gb+gfx"},
                {"RTX-PRO-6000", "2c.4g.96gb"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf(
                        "gpus: [{model: %s, mig: {devices: [{profile: %s}]}}]\n", table[i].model, table[i].profile);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(text);

                assert_int_equal(inventory->gpus->n_mig_devices, 1);
                assert_non_null(inventory->gpus->mig_devices->profile);
                assert_string_equal(inventory->gpus->mig_devices->profile, table[i].profile);
        }
}

static void assert_text(const char *text, const char *expected)
{
        if (expected) {
                assert_non_null(text);
                assert_string_equal(text, expected);
        } else {
                assert_null(text);
        }
}

static void assert_one_mig_device(const char *scenario, const char *profile, const char *failure)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(scenario);
        const struct gpu *gpu = inventory->gpus;

        assert_null(gpu->failure);
        assert_int_equal(gpu->n_mig_devices, 1);
        assert_null(gpu->mig_devices->failure);
        assert_text(gpu->mig_devices->profile, profile);
        assert_text(gpu->mig_devices->profile_failure, failure);
        assert_int_equal(gpu->mig_devices->attributes.memory_mib, 5952);
}

static void test_a_profile_that_the_instances_do_not_tell_is_that_of_the_devices_name(void **state UNUSED)
{
        static const char *const calls[] = {"nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
                "nvmlGpuInstanceGetComputeInstanceById", "nvmlComputeInstanceGetInfo_v2",
                "nvmlGpuInstanceGetComputeInstanceProfileInfo"};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                _free_ char *text = xasprintf("gpus: [{model: A30, mig: {devices: [{profile: 1g.6gb+me}]}, "
                                              "errors: {%s: NO_PERMISSION}}]\n",
                        calls[i]);

                assert_one_mig_device(text, "1g.6gb+me", NULL);
        }
}

static void test_a_profile_that_nothing_tells_is_no_failure_and_says_what_nvml_said(void **state UNUSED)
{
        assert_one_mig_device(
                "gpus:\n"
                "- model: A30\n"
                "  mig: {devices: [{profile: 1g.6gb}]}\n"
                "  errors: {nvmlDeviceGetGpuInstanceById: NO_PERMISSION, nvmlDeviceGetName: {error: NO_PERMISSION, after: 1}}\n",
                NULL, "nvmlDeviceGetGpuInstanceById: Insufficient Permissions (NO_PERMISSION)");
}

/* A container that is not privileged may be refused the memory of a GPU in MIG mode, but not its MIG devices. */
static void test_the_gpus_memory_is_not_needed_to_name_its_profiles(void **state UNUSED)
{
        static const char *const more[] = {"", ", nvmlDeviceGetGpuInstanceProfileInfoV: FUNCTION_NOT_FOUND"};

        for (size_t i = 0; i < ARRAY_SIZE(more); i++) { /* the driver has names of profiles, or is older than R535 */
                _free_ char *text = xasprintf("gpus:\n"
                                              "- model: A30\n"
                                              "  mig: {devices: [{profile: 1c.2g.12gb}, {profile: 1g.6gb+me}]}\n"
                                              "  errors: {nvmlDeviceGetMemoryInfo: NO_PERMISSION%s}\n",
                        more[i]);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(text);
                const struct gpu *gpu = inventory->gpus;

                assert_null(gpu->failure);
                assert_int_equal(gpu->n_mig_devices, 2);
                assert_text(gpu->mig_devices[0].profile, "1c.2g.12gb");
                assert_text(gpu->mig_devices[1].profile, "1g.6gb+me");
                assert_int_equal(gpu->mig_devices[0].memory, UINT64_C(12032) << 20);
                if (i == 0) {
                        assert_int_equal(gpu->n_mig_profiles, 5);
                        assert_int_equal(gpu->n_mig_instance_profiles, 5);
                        assert_null(gpu->mig_geometry_failure);
                } else {
                        assert_non_null(gpu->mig_geometry_failure);
                        assert_non_null(
                                strstr(gpu->mig_geometry_failure, "nvmlDeviceGetMemoryInfo: Insufficient Permissions"));
                }
        }
}

static void assert_profiles(const struct gpu *gpu, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < gpu->n_mig_profiles; i++)
                strbuf_printf(&text, "%s%s", i ? " " : "", gpu->mig_profiles[i]);
        assert_string_equal(text.data, expected);
}

static void test_what_could_be_made_is_known_before_it_is_made(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "driverVersion: 550.163.01\n"
                "gpus:\n"
                "- model: A100-40GB\n"
                "- {model: A30, mig: {enabled: true}}\n"
                "- {model: A30, errors: {nvmlDeviceGetGpuInstanceProfileInfo: UNKNOWN}}\n"
                "- model: T4\n"
                "- model: RTX-PRO-6000\n");

        assert_profiles(&inventory->gpus[0], "1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb 1g.5gb+me 1g.10gb");
        assert_profiles(&inventory->gpus[1], "1g.6gb 2g.12gb 4g.24gb 1g.6gb+me 2g.12gb+me");
        assert_null(inventory->gpus[2].failure);
        assert_int_equal(inventory->gpus[2].n_mig_profiles, 0);
        assert_int_equal(inventory->gpus[3].n_mig_profiles, 0);
        assert_profiles(&inventory->gpus[4], "1g.24gb 2g.48gb 4g.96gb 1g.24gb+me 1g.24gb+gfx 2g.48gb+gfx 4g.96gb+gfx "
                                             "1g.24gb-me 2g.48gb-me 1g.24gb+me.all 2g.48gb+me.all");
}

static void test_an_old_driver_reports_profiles_only_while_mig_is_on(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "driverVersion: 535.261.03\n"
                "gpus: [{model: A30}, {model: A30, mig: {enabled: true}}]\n");

        assert_null(inventory->gpus[0].failure);
        assert_int_equal(inventory->gpus[0].n_mig_profiles, 0);
        assert_int_equal(inventory->gpus[1].n_mig_profiles, 5);
}

static void test_a_mig_device_that_fails_leaves_the_others_alone(void **state UNUSED)
{
        static const char *const calls[] = {"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
                "nvmlDeviceGetAttributes", "nvmlDeviceGetMigDeviceHandleByIndex"};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                _free_ char *text = xasprintf("gpus:\n"
                                              "- model: A100-40GB\n"
                                              "  mig: {devices: [{profile: 1g.5gb, count: 3}]}\n"
                                              "  errors: {%s: {error: UNKNOWN, after: 1, times: 1}}\n",
                        calls[i]);
                _free_ char *expected = xasprintf("MIG device 1: %s: ", calls[i]);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(text);
                const struct gpu *gpu = inventory->gpus;

                assert_null(gpu->failure);
                assert_int_equal(gpu->n_mig_devices, 2);
                assert_int_equal(gpu->mig_devices[0].index, 0);
                assert_int_equal(gpu->mig_devices[1].index, 2);
                assert_int_equal(gpu->n_mig_failures, 1);
                assert_memory_equal(gpu->mig_failures[0], expected, strlen(expected));
        }
}

#define TWO_INSTANCES                                                                                                  \
        "gpus:\n"                                                                                                      \
        "- model: T4\n"                                                                                                \
        "- {model: A100-40GB, minor: 5, mig: {devices: [{profile: 1c.3g.20gb, gi: 2}, {profile: 1g.5gb, gi: 9}]}}\n"

static void assert_caps(const struct proc *proc, int gi_a, int ci_a, int gi_b, int ci_b)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_below(TWO_INSTANCES, proc->root);
        const struct mig_device *mig = inventory->gpus[1].mig_devices;

        assert_null(inventory->gpus[1].failure);
        assert_int_equal(inventory->gpus[1].n_mig_devices, 2);
        assert_int_equal(mig[0].gpu_instance_cap, gi_a);
        assert_int_equal(mig[0].compute_instance_cap, ci_a);
        assert_int_equal(mig[1].gpu_instance_cap, gi_b);
        assert_int_equal(mig[1].compute_instance_cap, ci_b);
}

/* The number after "gpu" is the minor, 5 here, and not the index, 1. */
static void test_caps_are_those_of_the_gpus_minor(void **state UNUSED)
{
        struct proc proc;

        proc_init(&proc);
        proc_put(&proc, "nvidia-caps/mig-minors",
                "config 1\n"
                "monitor 2\n"
                "gpu1/gi2/access 21\n"
                "gpu1/gi2/ci0/access 22\n"
                "gpu5/gi2/access 30\n"
                "gpu5/gi2/ci0/access 31\n"
                "gpu5/gi2/ci1/access 32\n"
                "gpu5/gi9/access 93\n"
                "gpu5/gi9/ci0/access 94\n");
        assert_caps(&proc, 30, 31, 93, 94);
        proc_done(&proc);
}

static void test_lines_that_make_no_sense_are_passed_over(void **state UNUSED)
{
        struct proc proc;

        proc_init(&proc);
        proc_put(&proc, "nvidia-caps/mig-minors",
                "\n"
                "gpu5/gi2/access\n"
                "gpu5/gi2/access -3\n"
                "gpu5/gi2/access 3 \n"
                "gpu5/gi2/access 0x3\n"
                "gpu5/gi2/access 99999999999\n"
                "gpu5/gi2/access 4294967299\n"
                "gpu5/gi2/ci/access 3\n"
                "gpu5/gi2/ci0/ci0/access 3\n"
                "gpu5/gi2 access 3\n"
                "gpu/gi2/access 3\n"
                " gpu5/gi2/access 3\n"
                "gpu5/gi00000000000000000000000000000002/access 3\n"
                "gpu5/gi9/access 93");
        assert_caps(&proc, -1, -1, 93, -1);
        proc_done(&proc);
}

static void test_caps_come_from_the_instances_own_files_where_the_list_has_none(void **state UNUSED)
{
        struct proc proc;

        proc_init(&proc);
        assert_caps(&proc, -1, -1, -1, -1);
        proc_put(&proc, "nvidia/capabilities/gpu5/mig/gi2/access",
                "DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
        proc_put(&proc, "nvidia/capabilities/gpu5/mig/gi2/ci0/access", "DeviceFileMode: 292\nDeviceFileMinor: 31\n");
        proc_put(&proc, "nvidia/capabilities/gpu5/mig/gi9/access", "DeviceFileMinor: many\n");
        assert_caps(&proc, 30, 31, -1, -1);
        proc_put(&proc, "nvidia-caps/mig-minors", "gpu5/gi2/access 40\n");
        assert_caps(&proc, 40, 31, -1, -1);
        proc_done(&proc);
}

static void test_a_list_of_caps_beyond_reason_is_not_read(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct proc proc;

        while (text.size <= MIG_CAPS_MAX_SIZE)
                strbuf_puts(&text, "gpu5/gi2/access 40\n");
        proc_init(&proc);
        proc_put(&proc, "nvidia-caps/mig-minors", text.data);
        assert_caps(&proc, -1, -1, -1, -1);
        proc_done(&proc);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mig_devices_are_read_with_their_instances),
                cmocka_unit_test(test_the_places_of_mig_are_known_of_a_gpu_in_mig_mode),
                cmocka_unit_test(test_a_geometry_that_may_not_be_read_leaves_the_mig_devices),
                cmocka_unit_test(test_a_mig_device_has_the_attributes_of_its_instance),
                cmocka_unit_test(test_a_mig_device_is_called_by_its_profile),
                cmocka_unit_test(test_a_profile_that_the_instances_do_not_tell_is_that_of_the_devices_name),
                cmocka_unit_test(test_a_profile_that_nothing_tells_is_no_failure_and_says_what_nvml_said),
                cmocka_unit_test(test_the_gpus_memory_is_not_needed_to_name_its_profiles),
                cmocka_unit_test(test_what_could_be_made_is_known_before_it_is_made),
                cmocka_unit_test(test_an_old_driver_reports_profiles_only_while_mig_is_on),
                cmocka_unit_test(test_a_mig_device_that_fails_leaves_the_others_alone),
                cmocka_unit_test(test_caps_are_those_of_the_gpus_minor),
                cmocka_unit_test(test_lines_that_make_no_sense_are_passed_over),
                cmocka_unit_test(test_caps_come_from_the_instances_own_files_where_the_list_has_none),
                cmocka_unit_test(test_a_list_of_caps_beyond_reason_is_not_read),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
