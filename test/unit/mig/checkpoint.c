// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "mig/checkpoint.h"
#include "model_gpu.h"

/* As mig-parted v0.15 writes it: no blanks, null where a GPU has none. */
#define NVIDIA                                                                                                         \
        "{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-0\",\"MigMode\":1,\"GpuInstances\":["          \
        "{\"ProfileID\":2,\"Placement\":{\"Start\":4,\"Size\":4},\"ComputeInstances\":["                               \
        "{\"ProfileID\":0,\"EngProfileID\":0},{\"ProfileID\":1,\"EngProfileID\":0}]},"                                 \
        "{\"ProfileID\":9,\"Placement\":{\"Start\":0,\"Size\":2},\"ComputeInstances\":["                               \
        "{\"ProfileID\":7,\"EngProfileID\":0}]}]},"                                                                    \
        "{\"UUID\":\"GPU-2\",\"MigMode\":0,\"GpuInstances\":%s}]}}"

static void a_node_s_geometry_is_written_as_nvidia_writes_it(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_node_gpu gpus[] = {
                model_gpu(&arena, 0, "A100-40GB"), model_gpu(&arena, 1, "T4"), model_gpu(&arena, 2, "A100-40GB")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        const struct mig_gpu_device some[] = {{.slices = 1}, {.slices = 2}};
        const struct mig_gpu_instance instances[] = {
                {.profile = &gpus[0].geometry.profiles[4], .placement = {4, 4}, .devices = some, .n_devices = 2},
                {.profile = &gpus[0].geometry.profiles[2], .placement = {0, 2}, .devices = some, .n_devices = 1}};
        struct mig_checkpoint checkpoint;
        struct error err;

        gpus[0].geometry.instances = instances;
        gpus[0].geometry.n_instances = ARRAY_SIZE(instances);
        gpus[2].geometry.is_enabled = false;
        assert_ok(mig_checkpoint_take(&checkpoint, &arena, &node, &err), &err);
        mig_checkpoint_print(&text, &checkpoint);
        assert_string_equal(text.data, arena_printf(&arena, NVIDIA "\n", "[]"));
        gpus[1].problem = "GPU GPU-1: lost";
        assert_fails(mig_checkpoint_take(&checkpoint, &arena, &node, &err), &err, ERROR_UNAVAILABLE, "GPU GPU-1: lost");
}

static void what_nvidia_writes_is_read(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf again = STRBUF_INIT;
        const char *text = arena_printf(&arena, NVIDIA, "null");
        struct mig_checkpoint checkpoint;
        struct error err;

        assert_ok(mig_checkpoint_parse(&checkpoint, &arena, text, strlen(text), &err), &err);
        assert_int_equal(checkpoint.n_gpus, 2);
        assert_string_equal(checkpoint.gpus[1].uuid, "GPU-2");
        assert_int_equal(checkpoint.gpus[1].n_instances, 0);
        assert_int_equal(checkpoint.gpus[0].instances[0].placement.start, 4);
        assert_int_equal(checkpoint.gpus[0].instances[0].computes[1].profile, 1);
        mig_checkpoint_print(&again, &checkpoint);
        assert_string_equal(again.data, arena_printf(&arena, NVIDIA "\n", "[]"));
}

static void what_is_wrong_in_a_checkpoint_is_named(void **state)
{
        (void)state;
        static const struct {
                const char *text, *error;
        } bad[] = {
                {"[]", "no JSON object"},
                {"{}", "Version: missing"},
                {"{\"Version\":\"v2\"}", "Version: must be v1, 2 bytes"},
                {"{\"Version\":\"v1\"}", "MigState: missing"},
                {"{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"x\",\"MigMode\":1}]}}",
                        "MigState: Devices[0]: UUID: must be the UUID of a GPU of at most 80 bytes"},
                {"{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-1\",\"MigMode\":2}]}}",
                        "MigState: Devices[0]: MigMode: 2, must be a number from 0 to 1"},
                {"{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-1\",\"MigMode\":1,\"GpuInstances\":"
                 "[{\"ProfileID\":18}]}]}}",
                        "MigState: Devices[0]: GpuInstances[0]: ProfileID: 18, must be a number from 0 to 17"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct mig_checkpoint checkpoint;
                struct error err;

                assert_fails(mig_checkpoint_parse(&checkpoint, &arena, bad[i].text, strlen(bad[i].text), &err), &err,
                        ERROR_INVALID, bad[i].error);
        }
}

/* ---- restoring ---- */

static const struct mig_gpu_profile *profile_of(const struct mig_node_gpu *gpu, unsigned int index)
{
        size_t i = 0;

        while (i + 1 < gpu->geometry.n_profiles && gpu->geometry.profiles[i].index != index)
                i++;
        return &gpu->geometry.profiles[i];
}

static void what_is_at_its_place_stays_when_a_checkpoint_is_restored(void **state)
{
        (void)state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node_gpu gpus[] = {
                model_gpu(&arena, 0, "A100-40GB"), model_gpu(&arena, 1, "A100-40GB"), model_gpu(&arena, 2, "T4")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        const struct mig_gpu_device whole = {.slices = 1}, half = {.slices = 2};
        const struct mig_gpu_instance present[] = {
                {.profile = profile_of(&gpus[0], 0), .placement = {6, 1}, .devices = &whole, .n_devices = 1},
                {.profile = profile_of(&gpus[0], 0), .placement = {5, 1}, .devices = &whole, .n_devices = 1},
                {.profile = profile_of(&gpus[0], 2), .placement = {0, 4}, .devices = &half, .n_devices = 1}};
        const struct mig_checkpoint_compute one = {0, 0}, three = {2, 0};
        const struct mig_checkpoint_instance wanted[] = {
                {.profile = 0, .placement = {6, 1}, .computes = &one, .n_computes = 1},
                {.profile = 0, .placement = {4, 1}, .computes = &one, .n_computes = 1},
                {.profile = 2, .placement = {0, 4}, .computes = &three, .n_computes = 1}};
        const struct mig_checkpoint_gpu of[] = {
                {.uuid = "GPU-0", .mode = 1, .instances = wanted, .n_instances = 3}, {.uuid = "GPU-1", .mode = 0}};
        const struct mig_checkpoint checkpoint = {of, 2};
        struct mig_plan plan;
        struct error err;

        gpus[0].geometry.instances = present;
        gpus[0].geometry.n_instances = 3;
        gpus[0].geometry.mode_needs_reset = gpus[1].geometry.mode_needs_reset = true;
        assert_ok(mig_checkpoint_plan(&plan, &arena, &node, &checkpoint, false, &err), &err);
        assert_true(plan.fits && plan.changes);
        assert_int_equal(plan.gpus[0].n_stays, 1);
        assert_ptr_equal(plan.gpus[0].stays[0], &present[0]);
        assert_int_equal(plan.gpus[0].n_goes, 2); /* the other place, and the one that is cut further */
        assert_int_equal(plan.gpus[0].n_made, 2);
        assert_int_equal(plan.gpus[0].made[0].start, 4);
        assert_string_equal(plan.gpus[0].made[1].profile, "3g.20gb");
        assert_false(plan.gpus[0].changes_mode);
        assert_true(plan.gpus[1].changes_mode && plan.gpus[1].needs_reset);
        assert_false(plan.gpus[0].needs_reset);
        assert_false(plan.gpus[2].changes || plan.gpus[2].wanted->is_named);
        assert_ok(mig_checkpoint_plan(&plan, &arena, &node, &checkpoint, true, &err), &err);
        assert_false(plan.gpus[0].changes);
        assert_int_equal(plan.gpus[0].n_stays, 3);
        assert_true(plan.gpus[1].changes_mode);
}

static void what_a_gpu_cannot_have_is_not_restored(void **state)
{
        (void)state;
        static const struct mig_checkpoint_compute one = {0, 0};
        static const struct mig_checkpoint_compute fours[] = {{3, 0}};
        static const struct {
                struct mig_checkpoint_gpu gpu;
                struct mig_checkpoint_instance instance;
                const char *error;
        } bad[] = {
                {{.uuid = "GPU-9"}, {0}, "GPU GPU-9 of the checkpoint is not in this node"},
                {{.uuid = "GPU-1", .mode = 1}, {0}, "GPU GPU-1 has no MIG"},
                {{.uuid = "GPU-0", .mode = 1, .n_instances = 1}, {.profile = 17},
                        "GPU GPU-0: it has no profile with index 17: the checkpoint is of another model"},
                {{.uuid = "GPU-0", .mode = 1, .n_instances = 1},
                        {.profile = 2, .placement = {2, 4}, .computes = &one, .n_computes = 1},
                        "GPU GPU-0: 3g.20gb cannot be at memory slice 2 with 4 slices"},
                {{.uuid = "GPU-0", .mode = 1, .n_instances = 1},
                        {.profile = 2, .placement = {4, 4}, .computes = fours, .n_computes = 1},
                        "GPU GPU-0: the compute instances of 3g.20gb at 4 are none that it can have: it has 3 slices"},
                {{.uuid = "GPU-0", .mode = 1, .n_instances = 1}, {.profile = 2, .placement = {4, 4}},
                        "GPU GPU-0: the compute instances of 3g.20gb at 4 are none that it can have: it has 3 slices"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mig_node_gpu gpus[] = {model_gpu(&arena, 0, "A100-40GB"), model_gpu(&arena, 1, "T4")};
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct mig_checkpoint_gpu gpu = bad[i].gpu;
                const struct mig_checkpoint checkpoint = {&gpu, 1};
                struct mig_plan plan;
                struct error err;

                gpu.instances = &bad[i].instance;
                assert_int_equal(mig_checkpoint_plan(&plan, &arena, &node, &checkpoint, false, &err), -1);
                assert_string_equal(err.text, bad[i].error);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_node_s_geometry_is_written_as_nvidia_writes_it),
                cmocka_unit_test(what_nvidia_writes_is_read),
                cmocka_unit_test(what_is_wrong_in_a_checkpoint_is_named),
                cmocka_unit_test(what_is_at_its_place_stays_when_a_checkpoint_is_restored),
                cmocka_unit_test(what_a_gpu_cannot_have_is_not_restored),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
