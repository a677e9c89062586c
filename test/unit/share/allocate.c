#include "unit.h"

#include "node.h"
#include "share/allocate.h"

/* "NAME=value\n…" and "host → container\n…", to compare a whole answer at once. */
static void print(const struct allocation *allocation, struct strbuf *text)
{
        for (size_t i = 0; i < allocation->n_environment; i++)
                strbuf_printf(text, "%s=%s\n", allocation->environment[i].name, allocation->environment[i].value);
        for (size_t i = 0; i < allocation->n_mounts; i++)
                strbuf_printf(text, "%s -> %s%s\n", allocation->mounts[i].host_path,
                        allocation->mounts[i].container_path, allocation->mounts[i].read_only ? " (ro)" : "");
}

/* |ids| are separated by blanks. */
static int request(struct node *node, const char *ids, struct allocation *ret)
{
        char *copy = arena_strdup(&node->arena, ids);
        const char *list[32];
        size_t count = 0;

        for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
                list[count++] = at;
        const struct allocate_request request = {.ids = list, .n_ids = count, .tag = "tag"};

        return allocate(ret, &node->arena, node->plan, &node->plan->resources[0], &request, &node->err);
}

static void assert_answer(struct node *node, const char *ids, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct allocation allocation;

        assert_ok(request(node, ids, &allocation), &node->err);
        print(&allocation, &text);
        assert_string_equal(text.data, expected);
}

#define MOUNTS                                                                                                         \
        "/run/nvidia/mps/nvidia.com/gpu/pipe -> /mps/nvidia.com/gpu/pipe\n"                                            \
        "/run/nvidia/mps/shm -> /dev/shm\n"

static void test_whole_gpus_are_named_in_the_order_of_the_request(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(4);

        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-2\n");
        assert_answer(&node, "GPU-2 GPU-0 GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-0\n");
        node.config.id_strategy = ID_STRATEGY_INDEX;
        assert_answer(&node, "GPU-3 GPU-1", "NVIDIA_VISIBLE_DEVICES=3,1\n");
}

static void test_replicas_of_one_gpu_name_it_once(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocation allocation;

        node_share(&node, SHARING_TIME_SLICING, 4);
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-1::3 GPU-0::0 GPU-1::0 GPU-1::3", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n");
        assert_ok(request(&node, "GPU-1::3 GPU-0::0 GPU-1::0 GPU-1::3", &allocation), &node.err);
        assert_int_equal(allocation.n_parts, 2);
        assert_string_equal(allocation.parts[0].unit->uuid, "GPU-1");
        assert_int_equal(allocation.parts[0].replicas, 2);
        assert_int_equal(allocation.parts[0].share.threads_permille, 1000);
        assert_string_equal(allocation.parts[1].unit->uuid, "GPU-0");
        assert_int_equal(allocation.parts[1].replicas, 1);
}

static void test_mps_adds_the_pipe_and_the_shared_memory(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 10);
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0::7",
                "NVIDIA_VISIBLE_DEVICES=GPU-0\nCUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe\n" MOUNTS);
        node.config.mps_root = "/run/nvidia/mps//";
        assert_answer(&node, "GPU-0::7",
                "NVIDIA_VISIBLE_DEVICES=GPU-0\nCUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe\n" MOUNTS);
}

static void test_mps_paths_carry_the_advertised_name(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 2);
        node.shared.rename = "nvidia.com/gpu.shared";
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0::0",
                "NVIDIA_VISIBLE_DEVICES=GPU-0\n"
                "CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu.shared/pipe\n"
                "/run/nvidia/mps/nvidia.com/gpu.shared/pipe -> /mps/nvidia.com/gpu.shared/pipe\n"
                "/run/nvidia/mps/shm -> /dev/shm\n");
}

static void test_a_resource_that_is_not_shared_has_no_part_in_mps(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 2);
        node.shared.name = "nvidia.com/mig-1g.10gb";
        node.section.fail_requests_greater_than_one = true;
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0", "NVIDIA_VISIBLE_DEVICES=GPU-0\n");
}

static void test_unequal_shares_are_limits_of_the_container(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                unsigned int replicas;
                const char *ids;
                const char *devices;
                const char *limits;
        } table[] = {
                {PROVISIONING_WEIGHTED, 20, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-0::4 GPU-0::5 GPU-0::6", "GPU-0",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=35\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8601M\n"},
                {PROVISIONING_WEIGHTED, 40, "GPU-0::0", "GPU-0",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=2.5\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=614M\n"},
                {PROVISIONING_HALF, 4, "GPU-0::3", "GPU-0",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6144M\n"},
                /* The second GPU grants half of what the first does, and one percentage counts for both. */
                {PROVISIONING_WEIGHTED, 4, "GPU-0::3 GPU-1::0 GPU-0::1", "GPU-0,GPU-1",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6144M,1=6144M\n"},
                {PROVISIONING_WEIGHTED, 4, "GPU-1::0 GPU-0::3 GPU-0::1", "GPU-1,GPU-0",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6144M,1=6144M\n"},
                /* GPU-2 does not tell its memory: what is known of the others counts. */
                {PROVISIONING_WEIGHTED, 4, "GPU-2::0 GPU-2::1 GPU-1::0 GPU-1::1", "GPU-2,GPU-1",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=12288M,1=12288M\n"},
                {PROVISIONING_WEIGHTED, 4, "GPU-2::0", "GPU-2", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);
                _free_ char *expected =
                        xasprintf("NVIDIA_VISIBLE_DEVICES=%s\nCUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe\n"
                                  "%s" MOUNTS,
                                table[i].devices, table[i].limits);

                node_share(&node, SHARING_MPS, table[i].replicas);
                node.section.provisioning = table[i].provisioning;
                node.inventory.gpus[2].memory = 0;
                assert_ok(node_plan(&node), &node.err);
                assert_answer(&node, table[i].ids, expected);
        }
}

static void test_requests_that_cannot_be_met_say_why(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct allocation allocation;

        node_share(&node, SHARING_MPS, 4);
        node.section.fail_requests_greater_than_one = true;
        assert_ok(node_plan(&node), &node.err);
        assert_fails(request(&node, "GPU-0::0 GPU-0::1 GPU-0::2", &allocation), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 3; to allow "
                "more, set sharing.mps.failRequestsGreaterThanOne to false");
        assert_ok(request(&node, "GPU-0::0 GPU-0::0", &allocation), &node.err); /* one device, named twice */
        assert_fails(request(&node, "GPU-0::0 GPU-0::4", &allocation), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-0::4'");
        assert_fails(request(&node, "GPU-0", &allocation), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-0'");
}

static void test_time_slicing_names_its_own_key(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct allocation allocation;

        node_share(&node, SHARING_TIME_SLICING, 4);
        node.section.fail_requests_greater_than_one = true;
        assert_ok(node_plan(&node), &node.err);
        assert_fails(request(&node, "GPU-0::0 GPU-0::1", &allocation), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 2; to allow "
                "more, set sharing.timeSlicing.failRequestsGreaterThanOne to false");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_are_named_in_the_order_of_the_request),
                cmocka_unit_test(test_replicas_of_one_gpu_name_it_once),
                cmocka_unit_test(test_mps_adds_the_pipe_and_the_shared_memory),
                cmocka_unit_test(test_mps_paths_carry_the_advertised_name),
                cmocka_unit_test(test_a_resource_that_is_not_shared_has_no_part_in_mps),
                cmocka_unit_test(test_unequal_shares_are_limits_of_the_container),
                cmocka_unit_test(test_requests_that_cannot_be_met_say_why),
                cmocka_unit_test(test_time_slicing_names_its_own_key),
        };

        return cmocka_run_group_tests_name("allocate", tests, NULL, NULL);
}
