// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "gpu/mig_instances.h"
#include "reading.h"

#define A100 "GPU-a100"

/* A node, its NVML, and its first GPU. */
struct rig {
        struct arena arena;
        struct nvml *nvml;
        struct mig_gpu gpu;
        struct mig_geometry geometry;
};

static void rig_read(struct rig *rig)
{
        struct error err;

        assert_ok(mig_instances_read(&rig->geometry, &rig->arena, &rig->gpu, &err), &err);
}

static void rig_init(struct rig *rig, const char *scenario, const char *uuid)
{
        struct error err;

        *rig = (struct rig){0};
        scenario_write(scenario);
        assert_ok(nvml_open(&rig->nvml, scenario_library(), "", &err), &err);
        assert_ok(mig_gpu_open(&rig->gpu, rig->nvml, uuid, &err), &err);
}

static void rig_done(struct rig *rig)
{
        nvml_close(rig->nvml);
        arena_done(&rig->arena);
}

static const struct mig_gpu_profile *profile(const struct rig *rig, const char *name)
{
        for (size_t i = 0; i < rig->geometry.n_profiles; i++)
                if (strcmp(rig->geometry.profiles[i].name, name) == 0)
                        return &rig->geometry.profiles[i];
        fail_msg("no profile %s", name);
        return NULL;
}

/* With one compute instance of all slices. */
static int create_whole(const struct mig_gpu *gpu, const struct mig_gpu_profile *of, unsigned int start,
        unsigned int *ret_id, struct error *err)
{
        return mig_instances_create(gpu, of, start, &of->slices, 1, ret_id, err);
}

static void create(struct rig *rig, const char *name, unsigned int start)
{
        struct error err;
        unsigned int id;

        assert_ok(create_whole(&rig->gpu, profile(rig, name), start, &id, &err), &err);
        rig_read(rig);
}

static void assert_create_fails(struct rig *rig, const char *name, unsigned int start, struct error *err)
{
        size_t before;
        unsigned int id;

        rig_read(rig);
        before = rig->geometry.n_instances;
        assert_int_equal(create_whole(&rig->gpu, profile(rig, name), start, &id, err), -1);
        rig_read(rig);
        assert_int_equal(rig->geometry.n_instances, before);
}

static void test_profiles_are_listed_with_their_placements(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        const struct mig_gpu_profile *two;

        rig_init(&rig, "driverVersion: 550.163.01\ngpus: [{model: H100-80GB, uuid: GPU-h100}]", "GPU-h100");
        rig_read(&rig);
        assert_false(rig.geometry.is_enabled);
        assert_false(rig.geometry.is_pending_enabled);
        assert_int_equal(rig.geometry.n_profiles, 7);
        assert_int_equal(rig.geometry.n_instances, 0);
        two = profile(&rig, "2g.20gb");
        assert_string_equal(two->driver_name, "2g.20gb");
        assert_int_equal(two->id, 14);
        assert_int_equal(two->slices, 2);
        assert_int_equal(two->max, 3);
        assert_int_equal(two->memory_mib, 20096);
        assert_int_equal(two->attributes.copy_engines, 2);
        assert_int_equal(two->attributes.decoders, 2);
        assert_int_equal(two->attributes.ofas, 0);
        assert_int_equal(profile(&rig, "7g.80gb")->attributes.ofas, 1);
        assert_int_equal(two->n_placements, 3);
        for (unsigned int i = 0; i < 3; i++) {
                assert_int_equal(two->placements[i].start, 2 * i);
                assert_int_equal(two->placements[i].size, 2);
        }
        assert_int_equal(profile(&rig, "1g.10gb+me")->max, 1);
}

static void test_an_old_driver_lists_no_profiles_while_mig_is_disabled(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "driverVersion: 535.261.03\ngpus: [{model: A30, uuid: GPU-a30}]", "GPU-a30");
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_profiles, 0);
}

static void test_instances_are_listed_with_their_mig_devices(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        const struct mig_gpu_instance *shared;
        const struct mig_gpu_instance *small;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig:\n    devices:\n"
                "    - {profile: 1c.3g.20gb, gi: 2, uuid: MIG-a}\n    - {profile: 2c.3g.20gb, gi: 2, uuid: MIG-b}\n"
                "    - {profile: 1g.5gb, start: 0, uuid: MIG-c}\n",
                A100);
        rig_read(&rig);
        assert_true(rig.geometry.is_enabled);
        assert_int_equal(rig.geometry.n_instances, 2);
        small = &rig.geometry.instances[0];
        shared = &rig.geometry.instances[1];
        assert_ptr_equal(small->profile, profile(&rig, "1g.5gb"));
        assert_int_equal(small->placement.start, 0);
        assert_int_equal(small->placement.size, 1);
        assert_int_equal(small->n_devices, 1);
        assert_string_equal(small->devices[0].uuid, "MIG-c");
        assert_ptr_equal(shared->profile, profile(&rig, "3g.20gb"));
        assert_int_equal(shared->id, 2);
        assert_int_equal(shared->placement.start, 4);
        assert_int_equal(shared->n_devices, 2);
        assert_string_equal(shared->devices[0].uuid, "MIG-a");
        assert_int_equal(shared->devices[0].slices, 1);
        assert_string_equal(shared->devices[1].uuid, "MIG-b");
        assert_int_equal(shared->devices[1].compute_instance, 1);
        assert_int_equal(shared->devices[1].slices, 2);
}

static void test_an_instance_is_created_where_it_is_to_be_and_has_one_device_of_all_slices(void **state UNUSED)
{
        static const char *const names[] = {
                "1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"};
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {enabled: true}}]", A100);
        rig_read(&rig);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const struct mig_gpu_profile *wanted = profile(&rig, names[i]);

                for (size_t j = 0; j < wanted->n_placements; j++) {
                        const struct mig_gpu_instance *made;
                        unsigned int id;

                        assert_ok(create_whole(&rig.gpu, wanted, wanted->placements[j].start, &id, &err), &err);
                        rig_read(&rig);
                        assert_int_equal(rig.geometry.n_instances, 1);
                        made = &rig.geometry.instances[0];
                        assert_int_equal(made->id, id);
                        assert_string_equal(made->profile->name, names[i]);
                        assert_int_equal(made->placement.start, wanted->placements[j].start);
                        assert_int_equal(made->n_devices, 1);
                        assert_int_equal(made->devices[0].slices, wanted->slices);
                        assert_ok(mig_instances_destroy(&rig.gpu, made, &err), &err);
                        rig_read(&rig);
                        assert_int_equal(rig.geometry.n_instances, 0);
                }
        }
}

static void assert_slices(const struct mig_gpu_instance *instance, const unsigned int *slices, size_t count)
{
        assert_int_equal(instance->n_devices, count);
        for (size_t i = 0; i < count; i++)
                assert_int_equal(instance->devices[i].slices, slices[i]);
}

static void test_an_instance_is_created_with_the_compute_instances_that_are_asked_for(void **state UNUSED)
{
        static const unsigned int split[] = {1, 2};
        _cleanup_(rig_done) struct rig rig;
        struct error err;
        unsigned int id;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {enabled: true}}]", A100);
        rig_read(&rig);
        assert_ok(mig_instances_create(&rig.gpu, profile(&rig, "3g.20gb"), 4, split, 2, &id, &err), &err);
        assert_ok(mig_instances_create(&rig.gpu, profile(&rig, "2g.10gb"), 0, NULL, 0, &id, &err), &err);
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_instances, 2);
        assert_slices(&rig.geometry.instances[0], NULL, 0);
        assert_slices(&rig.geometry.instances[1], split, 2);
}

static void test_an_instance_is_taken_back_with_the_compute_instances_that_it_has_already(void **state UNUSED)
{
        static const unsigned int split[] = {1, 2};
        _cleanup_(rig_done) struct rig rig;
        struct error err;
        unsigned int id;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig: {enabled: true}\n"
                "  errors: {nvmlGpuInstanceCreateComputeInstance: {error: UNKNOWN, after: 1}}\n",
                A100);
        rig_read(&rig);
        assert_int_equal(mig_instances_create(&rig.gpu, profile(&rig, "3g.20gb"), 4, split, 2, &id, &err), -1);
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_instances, 0);
}

static void test_a_driver_says_whether_a_mode_needs_a_reset_or_the_architecture_does(void **state UNUSED)
{
        static const struct {
                const char *model;
                bool needs_reset;
        } cases[] = {{"A100-40GB", true}, {"A30", true}, {"H100-80GB", false}, {"GB200", false}};

        for (unsigned int i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
                _free_ char *scenario = xasprintf("gpus: [{model: %s, uuid: GPU-%u%s}]", cases[i / 2].model, i,
                        i % 2 ? ", errors: {nvmlDeviceGetFieldValues: NOT_SUPPORTED}" : "");
                _free_ char *uuid = xasprintf("GPU-%u", i);
                _cleanup_(rig_done) struct rig rig;

                rig_init(&rig, scenario, uuid);
                rig_read(&rig);
                assert_int_equal(rig.geometry.mode_needs_reset, cases[i / 2].needs_reset);
        }
}

static void test_a_placement_that_is_taken_is_refused_with_the_way_out(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {enabled: true}}]", A100);
        rig_read(&rig);
        create(&rig, "1g.5gb", 5);
        assert_create_fails(&rig, "3g.20gb", 4, &err);
        assert_int_equal(err.kind, ERROR_EXHAUSTED);
        assert_string_equal(err.text,
                "GPU " A100 ": create 3g.20gb at 4: nvmlDeviceCreateGpuInstanceWithPlacement: Insufficient Resources "
                "(INSUFFICIENT_RESOURCES); another instance has these slices, or the GPU has no more engines for this "
                "profile: destroy the instances that overlap it ('nvidia-smi mig -lgi' lists them)");
        create(&rig, "3g.20gb", 0);
}

static void test_a_start_that_the_profile_does_not_have_is_refused_without_a_call(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {enabled: true}}]", A100);
        assert_create_fails(&rig, "3g.20gb", 2, &err);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_string_equal(err.text, "GPU " A100 ": create 3g.20gb at 2: it can start at 0, 4 only");
}

static void test_nothing_is_created_while_mig_is_disabled(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig, "driverVersion: 550.163.01\ngpus: [{model: A100-40GB, uuid: " A100 "}]", A100);
        assert_create_fails(&rig, "7g.40gb", 0, &err);
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "'nvidia-smi -mig 1' enables it"));
}

/* No GPU instance is left that nobody can use. */
static void test_an_instance_without_its_compute_instance_is_taken_back(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig: {enabled: true}\n"
                "  errors: {nvmlGpuInstanceCreateComputeInstance: UNKNOWN}\n",
                A100);
        assert_create_fails(&rig, "2g.10gb", 2, &err);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(err.text,
                "GPU " A100 ": create 2g.10gb at 2: nvmlGpuInstanceCreateComputeInstance: Unknown Error (UNKNOWN); the "
                "kernel's log may say more ('dmesg | grep NVRM')");
}

static void test_what_cannot_be_taken_back_is_said(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;
        unsigned int id;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig: {enabled: true}\n"
                "  errors: {nvmlGpuInstanceCreateComputeInstance: UNKNOWN, nvmlGpuInstanceDestroy: IN_USE}\n",
                A100);
        rig_read(&rig);
        assert_int_equal(create_whole(&rig.gpu, profile(&rig, "2g.10gb"), 2, &id, &err), -1);
        assert_string_equal(err.text,
                "GPU " A100 ": create 2g.10gb at 2: nvmlGpuInstanceCreateComputeInstance: Unknown Error (UNKNOWN); the "
                "kernel's log may say more ('dmesg | grep NVRM'); its GPU instance 4 is left without a compute instance "
                "(nvmlGpuInstanceDestroy: In use by another client (IN_USE)): 'nvidia-smi mig -dgi' destroys it");
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_instances, 1);
        assert_int_equal(rig.geometry.instances[0].n_devices, 0);
}

static void test_an_instance_that_a_process_uses_stays(void **state UNUSED)
{
        static const char idle[] =
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig: {devices: [{profile: 3g.20gb, gi: 2}]}\n";
        _free_ char *busy = xasprintf("%s  processes: [{pid: 5, memory: 1GiB, gi: 2, ci: 0}]\n", idle);
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig, busy, A100);
        rig_read(&rig);
        assert_int_equal(mig_instances_destroy(&rig.gpu, &rig.geometry.instances[0], &err), -1);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(err.text,
                "GPU " A100 ": destroy 3g.20gb at 4: nvmlComputeInstanceDestroy: In use by another client (IN_USE); a "
                "process uses it: end the processes that 'nvidia-smi' lists on it; if it lists none, a program that watches "
                "GPUs keeps it opened (DCGM, dcgm-exporter, another agent): restart that, then try again");
        scenario_write(idle);
        rig_read(&rig);
        assert_int_equal(rig.geometry.instances[0].n_devices, 1);
        assert_ok(mig_instances_destroy(&rig.gpu, &rig.geometry.instances[0], &err), &err);
}

static void test_all_compute_instances_go_with_their_gpu_instance(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig:\n    devices:\n"
                "    - {profile: 1c.3g.20gb, gi: 2}\n    - {profile: 2c.3g.20gb, gi: 2}\n    - {profile: 1g.5gb}\n",
                A100);
        rig_read(&rig);
        assert_ok(mig_instances_destroy(&rig.gpu, &rig.geometry.instances[1], &err), &err);
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_instances, 1);
        assert_string_equal(rig.geometry.instances[0].profile->name, "1g.5gb");
}

/* The same id may be another instance by now: 3g.20gb at 0 after 4g.20gb at 0. */
static void test_an_instance_that_is_another_one_by_now_is_not_destroyed(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct mig_gpu_instance before;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {enabled: true}}]", A100);
        rig_read(&rig);
        create(&rig, "4g.20gb", 0);
        before = rig.geometry.instances[0];
        assert_ok(mig_instances_destroy(&rig.gpu, &before, &err), &err);
        create(&rig, "3g.20gb", 0);
        assert_int_equal(rig.geometry.instances[0].id, before.id);
        assert_int_equal(mig_instances_destroy(&rig.gpu, &before, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_string_equal(err.text,
                "GPU " A100
                ": destroy 4g.20gb at 0: another program has changed GPU instance 1 since it was read: read "
                "the geometry again");
        rig_read(&rig);
        assert_int_equal(rig.geometry.n_instances, 1);
}

static void test_without_the_right_to_change_the_geometry_the_error_says_what_is_needed(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct error err;

        rig_init(&rig,
                "gpus:\n- model: A100-40GB\n  uuid: " A100 "\n  mig: {enabled: true}\n"
                "  errors: {nvmlDeviceCreateGpuInstanceWithPlacement: NO_PERMISSION}\n",
                A100);
        assert_create_fails(&rig, "7g.40gb", 0, &err);
        assert_int_equal(err.kind, ERROR_DENIED);
        assert_non_null(strstr(err.text, "NVIDIA_MIG_CONFIG_DEVICES=all"));
}

static void test_a_gpu_without_mig_has_no_geometry(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct mig_gpu gpu;
        struct error err;

        rig_init(&rig, "gpus: [{model: T4, uuid: GPU-t4}]", "GPU-t4");
        assert_int_equal(mig_instances_read(&rig.geometry, &rig.arena, &rig.gpu, &err), -1);
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
        assert_string_equal(err.text, "GPU GPU-t4 has no MIG");
        assert_int_equal(mig_gpu_open(&gpu, rig.nvml, "GPU-none", &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_string_equal(err.text, "GPU GPU-none: nvmlDeviceGetHandleByUUID: Not Found (NOT_FOUND)");
}

static void set_mode(struct rig *rig, bool is_enabled, enum mig_activation expected)
{
        enum mig_activation activation;
        struct error err;

        assert_ok(mig_gpu_set_mode(&rig->gpu, is_enabled, &activation, &err), &err);
        assert_int_equal(activation, expected);
        rig_read(rig);
}

static void test_a_mode_is_in_force_at_once_or_pending(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "gpus: [{model: H100-80GB, uuid: GPU-h100, processes: [{pid: 5, memory: 1GiB}]}]", "GPU-h100");
        set_mode(&rig, true, MIG_MODE_IN_USE);
        assert_false(rig.geometry.is_enabled);
        assert_true(rig.geometry.is_pending_enabled);
        scenario_write("gpus: [{model: H100-80GB, uuid: GPU-h100}]");
        set_mode(&rig, true, MIG_MODE_ACTIVE);
        assert_true(rig.geometry.is_enabled);
        set_mode(&rig, false, MIG_MODE_ACTIVE);
        assert_false(rig.geometry.is_enabled);
}

static void test_the_mode_of_ampere_needs_a_reset(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 "}]", A100);
        set_mode(&rig, true, MIG_MODE_NEEDS_RESET);
        assert_false(rig.geometry.is_enabled);
        assert_true(rig.geometry.is_pending_enabled);
        scenario_write("gpus: [{model: A100-40GB, uuid: " A100 ", resets: 1}]");
        rig_read(&rig);
        assert_true(rig.geometry.is_enabled);
}

static void test_a_mode_that_cannot_be_set_says_why(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        enum mig_activation activation;
        struct mig_gpu other;
        struct error err;

        rig_init(&rig,
                "gpus:\n- {model: T4, uuid: GPU-t4}\n- model: A30\n  uuid: GPU-a30\n"
                "  errors: {nvmlDeviceSetMigMode: NO_PERMISSION}\n",
                "GPU-t4");
        assert_int_equal(mig_gpu_set_mode(&rig.gpu, true, &activation, &err), -1);
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
        assert_string_equal(err.text, "GPU GPU-t4 has no MIG");
        assert_ok(mig_gpu_open(&other, rig.nvml, "GPU-a30", &err), &err);
        assert_int_equal(mig_gpu_set_mode(&other, true, &activation, &err), -1);
        assert_int_equal(err.kind, ERROR_DENIED);
        assert_non_null(strstr(err.text,
                "GPU GPU-a30: enable MIG: nvmlDeviceSetMigMode: Insufficient Permissions (NO_PERMISSION); changing"));
}

/* A GPU with a 3g.20gb at 4, on which |call| fails from now on. */
static void break_call(const char *call)
{
        _free_ char *scenario = xasprintf("gpus:\n- model: A100-40GB\n  uuid: " A100
                                          "\n  mig: {devices: [{profile: 3g.20gb}]}\n  errors: {%s: UNKNOWN}\n",
                call);

        scenario_write(scenario);
}

static void assert_names(const struct error *err, const char *call)
{
        _free_ char *expected = xasprintf(": %s: Unknown Error (UNKNOWN); ", call);

        assert_int_equal(err->kind, ERROR_UNAVAILABLE);
        if (!strstr(err->text, expected))
                fail_msg("'%s' lacks '%s'", err->text, expected);
}

static void test_whatever_call_fails_is_named(void **state UNUSED)
{
        static const char *const reading[] = {"nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo",
                "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstancePossiblePlacements",
                "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo", "nvmlDeviceGetMaxMigDeviceCount",
                "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
                "nvmlDeviceGetAttributes", "nvmlDeviceGetUUID"};
        static const char *const creating[] = {"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceGetInfo",
                "nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceCreateComputeInstance"};
        static const char *const destroying[] = {"nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
                "nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceGetComputeInstances",
                "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"};
        _cleanup_(rig_done) struct rig rig;
        struct mig_geometry ignored;
        struct error err;
        unsigned int id;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: " A100 ", mig: {devices: [{profile: 3g.20gb}]}}]", A100);
        rig_read(&rig);
        for (size_t i = 0; i < ARRAY_SIZE(reading); i++) {
                break_call(reading[i]);
                assert_int_equal(mig_instances_read(&ignored, &rig.arena, &rig.gpu, &err), -1);
                assert_names(&err, reading[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(creating); i++) {
                break_call(creating[i]);
                assert_int_equal(create_whole(&rig.gpu, profile(&rig, "1g.5gb"), 0, &id, &err), -1);
                assert_names(&err, creating[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(destroying); i++) {
                break_call(destroying[i]);
                assert_int_equal(mig_instances_destroy(&rig.gpu, &rig.geometry.instances[0], &err), -1);
                assert_names(&err, destroying[i]);
        }
}

/* ---- any sequence of changes ---- */

#define SEQUENCE_STEPS 150U

static unsigned int pick(uint32_t *seed, size_t count)
{
        *seed = *seed * 1664525U + 1013904223U;
        return (unsigned int)((*seed >> 8) % count);
}

static bool is_placement_of(const struct mig_gpu_profile *of, struct mig_placement placement)
{
        for (size_t i = 0; i < of->n_placements; i++)
                if (of->placements[i].start == placement.start && of->placements[i].size == placement.size)
                        return true;
        return false;
}

static void assert_geometry_is_sound(const struct mig_geometry *geometry)
{
        unsigned int compute_slices = 0;
        unsigned int all_compute_slices = 0;
        uint32_t memory_slices = 0;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                all_compute_slices = MAX(all_compute_slices, geometry->profiles[i].slices);
        for (size_t i = 0; i < geometry->n_instances; i++) {
                const struct mig_gpu_instance *instance = &geometry->instances[i];
                uint32_t taken = ((1U << instance->placement.size) - 1) << instance->placement.start;
                size_t same = 0;

                assert_int_equal(memory_slices & taken, 0);
                assert_true(is_placement_of(instance->profile, instance->placement));
                memory_slices |= taken;
                compute_slices += instance->profile->slices;
                for (size_t j = 0; j < geometry->n_instances; j++)
                        same += geometry->instances[j].profile == instance->profile;
                assert_true(same <= instance->profile->max);
                assert_int_equal(instance->n_devices, 1);
                assert_int_equal(instance->devices[0].slices, instance->profile->slices);
        }
        assert_true(compute_slices <= all_compute_slices);
}

static const struct mig_gpu_instance *find_device(const struct mig_geometry *geometry, const char *uuid)
{
        for (size_t i = 0; i < geometry->n_instances; i++)
                if (strcmp(geometry->instances[i].devices[0].uuid, uuid) == 0)
                        return &geometry->instances[i];
        return NULL;
}

/* Every instance of |before| but |destroyed| is there, the same as it was. */
static void assert_others_stay(
        const struct mig_geometry *before, const struct mig_geometry *now, const struct mig_gpu_instance *destroyed)
{
        for (size_t i = 0; i < before->n_instances; i++) {
                const struct mig_gpu_instance *was = &before->instances[i];
                const struct mig_gpu_instance *is = find_device(now, was->devices[0].uuid);

                if (was == destroyed) {
                        assert_null(is);
                        continue;
                }
                assert_non_null(is);
                assert_int_equal(is->id, was->id);
                assert_int_equal(is->placement.start, was->placement.start);
                assert_int_equal(is->profile->id, was->profile->id);
        }
}

/* A step that creates fails only if something is in its way. */
static void take_step(struct rig *rig, uint32_t *seed)
{
        struct mig_geometry before = rig->geometry;
        const struct mig_gpu_instance *destroyed = NULL;
        size_t expected = before.n_instances;
        struct error err;

        if (before.n_instances && pick(seed, 3) == 0) {
                destroyed = &before.instances[pick(seed, before.n_instances)];
                assert_ok(mig_instances_destroy(&rig->gpu, destroyed, &err), &err);
                expected--;
        } else {
                const struct mig_gpu_profile *made = &before.profiles[pick(seed, before.n_profiles)];
                unsigned int start = made->placements[pick(seed, made->n_placements)].start;
                unsigned int id;

                if (create_whole(&rig->gpu, made, start, &id, &err) == 0) {
                        expected++;
                } else {
                        assert_int_equal(err.kind, ERROR_EXHAUSTED);
                        assert_int_not_equal(before.n_instances, 0);
                }
        }
        rig_read(rig);
        assert_int_equal(rig->geometry.n_instances, expected);
        assert_geometry_is_sound(&rig->geometry);
        assert_others_stay(&before, &rig->geometry, destroyed);
}

static void test_no_sequence_of_changes_lets_instances_overlap(void **state UNUSED)
{
        static const char *const models[] = {
                "A30", "A100-40GB", "A100-80GB", "H100-80GB", "H200", "GB200", "RTX-PRO-6000"};

        for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
                _free_ char *scenario =
                        xasprintf("gpus: [{model: %s, uuid: GPU-%zu, mig: {enabled: true}}]", models[i], i);
                _free_ char *uuid = xasprintf("GPU-%zu", i);
                _cleanup_(rig_done) struct rig rig;
                uint32_t seed = (uint32_t)i + 1;
                size_t most = 0;

                rig_init(&rig, scenario, uuid);
                rig_read(&rig);
                for (unsigned int step = 0; step < SEQUENCE_STEPS; step++) {
                        take_step(&rig, &seed);
                        most = MAX(most, rig.geometry.n_instances);
                }
                assert_true(most > 2); /* the sequence got somewhere */
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_profiles_are_listed_with_their_placements),
                cmocka_unit_test(test_an_old_driver_lists_no_profiles_while_mig_is_disabled),
                cmocka_unit_test(test_instances_are_listed_with_their_mig_devices),
                cmocka_unit_test(test_an_instance_is_created_where_it_is_to_be_and_has_one_device_of_all_slices),
                cmocka_unit_test(test_an_instance_is_created_with_the_compute_instances_that_are_asked_for),
                cmocka_unit_test(test_an_instance_is_taken_back_with_the_compute_instances_that_it_has_already),
                cmocka_unit_test(test_a_driver_says_whether_a_mode_needs_a_reset_or_the_architecture_does),
                cmocka_unit_test(test_a_placement_that_is_taken_is_refused_with_the_way_out),
                cmocka_unit_test(test_a_start_that_the_profile_does_not_have_is_refused_without_a_call),
                cmocka_unit_test(test_nothing_is_created_while_mig_is_disabled),
                cmocka_unit_test(test_an_instance_without_its_compute_instance_is_taken_back),
                cmocka_unit_test(test_what_cannot_be_taken_back_is_said),
                cmocka_unit_test(test_an_instance_that_a_process_uses_stays),
                cmocka_unit_test(test_all_compute_instances_go_with_their_gpu_instance),
                cmocka_unit_test(test_an_instance_that_is_another_one_by_now_is_not_destroyed),
                cmocka_unit_test(test_without_the_right_to_change_the_geometry_the_error_says_what_is_needed),
                cmocka_unit_test(test_a_gpu_without_mig_has_no_geometry),
                cmocka_unit_test(test_a_mode_is_in_force_at_once_or_pending),
                cmocka_unit_test(test_the_mode_of_ampere_needs_a_reset),
                cmocka_unit_test(test_a_mode_that_cannot_be_set_says_why),
                cmocka_unit_test(test_whatever_call_fails_is_named),
                cmocka_unit_test(test_no_sequence_of_changes_lets_instances_overlap),
        };

        return cmocka_run_group_tests_name("gpu/mig_instances", tests, scenario_setup, scenario_teardown);
}
