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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_node_s_geometry_is_written_as_nvidia_writes_it),
                cmocka_unit_test(what_nvidia_writes_is_read),
                cmocka_unit_test(what_is_wrong_in_a_checkpoint_is_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
