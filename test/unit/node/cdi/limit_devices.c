// SPDX-License-Identifier: Apache-2.0
/*
 * The variables of MPS clients as CDI devices: which there are, what they say, and what of an earlier file stays.
 */
#include "tree.h"

#define SPEC "/run/cdi/k8s.device-plugin.nvidia.com-mps.json"

/* All units of the tree by MPS, weighted, in |replicas|, each with 24 GiB. */
static void share(struct tree *tree, unsigned int replicas)
{
        struct sharing_section *section = ARENA_NEW(&tree->arena, struct sharing_section);
        struct shared_resource *shared = ARENA_NEW(&tree->arena, struct shared_resource);
        struct unit *units = (struct unit *)(uintptr_t)tree->resource.units;

        section->provisioning = PROVISIONING_WEIGHTED;
        shared->section = section;
        tree->resource.strategy = SHARING_MPS;
        tree->resource.provisioning = PROVISIONING_WEIGHTED;
        for (size_t i = 0; i < tree->resource.n_units; i++) {
                units[i].shared = shared;
                units[i].replicas = replicas;
                units[i].memory = UINT64_C(24) << 30;
        }
}

/* The variables of a device, separated by blanks; "none" where there is no such device. */
static const char *variables(struct tree *tree, const char *name)
{
        json_t *edits = tree_edits(tree, "mps", name);
        const char *texts = "";
        json_t *variable;
        size_t i;

        if (!edits)
                return "none";
        assert_int_equal(json_object_size(edits), 1);
        json_array_foreach(json_object_get(edits, "env"), i, variable)
        {
                texts = arena_printf(&tree->arena, "%s%s%s", texts, i ? " " : "", json_string_value(variable));
        }
        json_decref(edits);
        return texts;
}

static void write_earlier(struct tree *tree, const char *devices)
{
        char *text = arena_printf(
                &tree->arena, "{'cdiVersion': '0.3.0', 'kind': 'nvidia.com/mps', 'devices': [%s]}", devices);

        for (char *c = text; *c; c++)
                if (*c == '\'')
                        *c = '"';
        tree_write(tree, SPEC, text, strlen(text));
}

static void test_each_number_of_replicas_has_a_device_with_its_limits(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        share(tree, 3);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_true(tree->plan.cdi_limits);
        tree_assert_golden(tree, "mps", "mps");
}

static void test_a_share_that_no_container_can_have_has_no_device(void **state)
{
        static const struct {
                unsigned int most;
                bool only_one;
                const char *names;
        } table[] = {{0, false, "GPU-0 GPU-0-1 GPU-0-2 GPU-0-3"}, {2, false, "GPU-0 GPU-0-1 GPU-0-2"},
                {7, false, "GPU-0 GPU-0-1 GPU-0-2 GPU-0-3"}, {0, true, "GPU-0 GPU-0-1"}};

        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 3);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                tree->resource.max_per_request = table[i].most;
                tree->resource.fail_requests_greater_than_one = table[i].only_one;
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "mps"), table[i].names);
                assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
        }
}

/* The limits are the daemon's, or those of a container over several units. */
static void test_other_daemons_have_a_device_for_their_pipe_alone(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        share(tree, 3);
        tree->resource.provisioning = PROVISIONING_UNIFORM;
        assert_ok(tree_publish(tree), &tree->err);
        assert_true(tree->plan.cdi_limits);
        assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-1");
        assert_string_equal(variables(tree, "GPU-1"), "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-1/pipe");

        assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
        tree->resource.provisioning = PROVISIONING_WEIGHTED;
        tree->resource.daemon_scope = DAEMON_SCOPE_RESOURCE;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "mps"), "nvidia.com_gpu");
        assert_string_equal(variables(tree, "nvidia.com_gpu"), "CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe");
}

static void test_a_unit_of_unknown_memory_has_the_other_limits(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 4);
        ((struct unit *)(uintptr_t)tree->resource.units)->memory = 0;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(variables(tree, "GPU-0-1"),
                "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-0/pipe CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25");
}

static void test_without_mps_there_is_no_file_and_no_device(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        assert_ok(tree_publish(tree), &tree->err);
        assert_false(tree->plan.cdi_limits);
        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);

        share(tree, 2);
        tree->resource.strategy = SHARING_TIME_SLICING;
        assert_ok(tree_publish(tree), &tree->err);
        assert_false(tree->plan.cdi_limits);
        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);
}

static void test_more_devices_than_a_file_may_have_are_left_to_variables(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        share(tree, 511); /* and one for each daemon */
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_true(tree->plan.cdi_limits);

        share(tree, 512);
        assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data,
                "nvidia.com/gpu: variables of a pod override the variables of its share (CUDA_MPS_PIPE_DIRECTORY, "
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT), since there is no CDI device "
                "'GPU-1-511' to prevent that: there are more than 1024\n");
        assert_false(tree->plan.cdi_limits);
        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);
}

static void test_a_name_that_the_format_does_not_allow_is_left_to_variables(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 2);
        tree->resource.daemon_scope = DAEMON_SCOPE_RESOURCE;
        tree->resource.name = "nvidia.com/gpu+";
        assert_ok(tree_publish(tree), &tree->err);
        assert_non_null(strstr(tree->warnings.data, "'nvidia.com_gpu+' to prevent that: the format does not allow"));
        assert_false(tree->plan.cdi_limits);
}

/* Old drivers: "MIG-GPU-…/1/0", which is the daemon's name, too. */
static void test_a_uuid_with_slashes_has_the_name_of_its_daemon(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        share(tree, 1);
        ((struct unit *)(uintptr_t)tree->resource.units)[1].uuid = "MIG-GPU-1/1/0";
        assert_ok(tree_publish(tree), &tree->err);
        assert_true(tree->plan.cdi_limits);
        assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-0-1 MIG-GPU-1-1-0 MIG-GPU-1-1-0-1");
}

/* ---- an earlier file ---- */

static void test_what_is_not_shared_any_more_stays_resolvable(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 2);
        assert_ok(tree_publish(tree), &tree->err);
        share(tree, 1);
        for (int i = 0; i < 2; i++) { /* also when it is published again */
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-0-1 GPU-0-2");
                /* The same name is now worth twice as much; the other is what it was. */
                assert_non_null(strstr(variables(tree, "GPU-0-1"), "PERCENTAGE=100 "));
                assert_non_null(strstr(variables(tree, "GPU-0-2"), "PERCENTAGE=100 "));
        }
        tree->resource.strategy = SHARING_NONE;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-0-1 GPU-0-2");
}

static void test_the_same_limits_are_not_written_again(void **state)
{
        struct stat before, after;
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 2);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &before), 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &after), 0);
        assert_int_equal(after.st_ino, before.st_ino);
        assert_true(tree->plan.cdi_limits);
}

static void test_only_variables_of_mps_are_kept_of_a_file(void **state)
{
        static const char *const devices[] = {
                "{'name': 'old', 'containerEdits': {'env': ['LD_PRELOAD=/x', 'CUDA_MPS_', 8, null]}}",
                "{'name': 'old', 'containerEdits': {'env': 'CUDA_MPS_PIPE_DIRECTORY=/x'}}",
                "{'name': 'old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia0'}]}}",
                "{'name': 'o/d', 'containerEdits': {'env': ['CUDA_MPS_PIPE_DIRECTORY=/x']}}",
                "{'name': 8, 'containerEdits': {'env': ['CUDA_MPS_PIPE_DIRECTORY=/x']}}",
                "{'containerEdits': {'env': ['CUDA_MPS_PIPE_DIRECTORY=/x']}}",
                "null, 8, 'old', [], {}",
        };
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 1);
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                write_earlier(tree, devices[i]);
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-0-1");
        }
        write_earlier(tree,
                "{'name': 'old', 'annotations': {'a': 'b'}, 'containerEdits': {'hooks': [{'hookName': 'prestart', 'path': "
                "'/x'}], 'env': ['CUDA_MPS_A=1', 'LD_PRELOAD=/x', 'CUDA_MPS_B=2', 'CUDA_MPS_C=3']}}");
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(variables(tree, "old"), "CUDA_MPS_A=1 CUDA_MPS_B=2");
}

static void test_a_file_that_is_none_of_ours_is_replaced(void **state)
{
        static const char other_kind[] =
                "{\"kind\": \"k8s.device-plugin.nvidia.com/gpu\", \"devices\": [{\"name\": \"old\","
                " \"containerEdits\": {\"env\": [\"CUDA_MPS_A=1\"]}}]}";
        static const char *const contents[] = {"", "{", "[]", "null", "{\"kind\": 8}", other_kind};
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        share(tree, 1);
        for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
                tree_write(tree, SPEC, contents[i], strlen(contents[i]));
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "mps"), "GPU-0 GPU-0-1");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_each_number_of_replicas_has_a_device_with_its_limits),
                TREE_TEST(test_a_share_that_no_container_can_have_has_no_device),
                TREE_TEST(test_other_daemons_have_a_device_for_their_pipe_alone),
                TREE_TEST(test_a_unit_of_unknown_memory_has_the_other_limits),
                TREE_TEST(test_without_mps_there_is_no_file_and_no_device),
                TREE_TEST(test_more_devices_than_a_file_may_have_are_left_to_variables),
                TREE_TEST(test_a_name_that_the_format_does_not_allow_is_left_to_variables),
                TREE_TEST(test_a_uuid_with_slashes_has_the_name_of_its_daemon),
                TREE_TEST(test_what_is_not_shared_any_more_stays_resolvable),
                TREE_TEST(test_the_same_limits_are_not_written_again),
                TREE_TEST(test_only_variables_of_mps_are_kept_of_a_file),
                TREE_TEST(test_a_file_that_is_none_of_ours_is_replaced),
        };

        return cmocka_run_group_tests_name("limit_devices", tests, NULL, NULL);
}
