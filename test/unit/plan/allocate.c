// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/allocate.h"
#include "plan/mps_limits.h"

/* One line for each thing in the order of the answer, to compare all of it at once. */
static void print(const struct allocate_answer *answer, struct strbuf *text)
{
        for (size_t i = 0; i < answer->n_annotations; i++)
                strbuf_printf(text, "@%s=%s\n", answer->annotations[i].name, answer->annotations[i].value);
        for (size_t i = 0; i < answer->n_cdi_devices; i++)
                strbuf_printf(text, "cdi %s\n", answer->cdi_devices[i]);
        for (size_t i = 0; i < answer->n_environment; i++)
                strbuf_printf(text, "%s=%s\n", answer->environment[i].name, answer->environment[i].value);
        for (size_t i = 0; i < answer->n_mounts; i++)
                strbuf_printf(text, "%s -> %s%s\n", answer->mounts[i].host_path, answer->mounts[i].container_path,
                        answer->mounts[i].read_only ? " (ro)" : "");
        for (size_t i = 0; i < answer->n_nodes; i++)
                strbuf_printf(text, "%s => %s (%s)\n", answer->nodes[i].host_path, answer->nodes[i].container_path,
                        answer->nodes[i].permissions);
}

/* |ids| are separated by blanks. */
static int request(struct node *node, const char *ids, struct allocate_answer *ret)
{
        char *copy = arena_strdup(&node->arena, ids);
        const char *list[32];
        size_t count = 0;

        for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
                list[count++] = at;
        const struct allocate_request request = {.ids = list, .n_ids = count, .tag = "tag", .binding = node->binding};

        return allocate(ret, &node->arena, node->plan, &node->plan->resources[0], &request, &node->err);
}

static void assert_answer(struct node *node, const char *ids, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct allocate_answer answer;

        assert_ok(request(node, ids, &answer), &node->err);
        print(&answer, &text);
        assert_string_equal(text.data, expected);
}

#define MOUNTS_OF(daemon)                                                                                              \
        "/run/nvidia/mps/" daemon "/pipe -> /mps/" daemon "/pipe (ro)\n"                                               \
        "/run/nvidia/mps/shm -> /dev/shm\n"
#define MOUNTS MOUNTS_OF("nvidia.com/gpu")
#define PIPE_OF(daemon) "CUDA_MPS_PIPE_DIRECTORY=/mps/" daemon "/pipe\n"
#define PIPE PIPE_OF("nvidia.com/gpu")
#define FACTS(replicas, fraction, memory, threads, tier)                                                               \
        "WARPSHARE_REPLICAS=" replicas "\n" fraction memory "WARPSHARE_THREAD_PERCENTAGE=" threads                     \
        "\nWARPSHARE_TIER=" tier "\n"
#define FRACTION(value) "WARPSHARE_FRACTION=" value "\n"
#define MEMORY(mib) "WARPSHARE_MEMORY_LIMIT_MIB=" mib "\n"
#define UNIFORM_FACTS FACTS("1/10", FRACTION("0.0999"), MEMORY("2457"), "10.0", "default")

#define VENDOR "k8s.device-plugin.nvidia.com"
#define ANNOTATION "@cdi.k8s.io/nvidia-device-plugin_tag="
#define VOLUMES "/var/run/nvidia-container-devices"

/* Everything that an answer can have beside MPS. */
static void want_all(struct node *node)
{
        node->config.cdi.annotation_prefix = "cdi.k8s.io/";
        node->config.driver.dev_root = "/";
        node->config.devices.pass_specs = true;
        node->config.devices.extras = EXTRA_GDRCOPY | EXTRA_GDS | EXTRA_MOFED;
        node->config.devices.has_imex_channel = true;
        node->inventory.nodes = NODE_NVIDIACTL | NODE_UVM | NODE_UVM_TOOLS | NODE_MODESET | NODE_IMEX_CHANNEL;
        for (size_t i = 0; i < node->inventory.n_gpus; i++)
                node->inventory.gpus[i].minor = (int)i + 4;
}

static void test_whole_gpus_are_named_in_the_order_of_the_request(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(4);

        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-2\n");
        assert_answer(&node, "GPU-2 GPU-0 GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-0\n");
        node.config.devices.id_strategy = ID_STRATEGY_INDEX;
        assert_answer(&node, "GPU-3 GPU-1", "NVIDIA_VISIBLE_DEVICES=3,1\n");
}

static void test_replicas_of_one_gpu_name_it_once(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocate_answer answer;

        node_share(&node, SHARING_TIME_SLICING, 4);
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-1::3 GPU-0::0 GPU-1::0 GPU-1::3", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n");
        assert_ok(request(&node, "GPU-1::3 GPU-0::0 GPU-1::0 GPU-1::3", &answer), &node.err);
        assert_int_equal(answer.n_parts, 2);
        assert_string_equal(answer.parts[0].unit->uuid, "GPU-1");
        assert_int_equal(answer.parts[0].replicas, 2);
        assert_int_equal(answer.parts[0].share.threads_permille, 1000);
        assert_string_equal(answer.parts[1].unit->uuid, "GPU-0");
        assert_int_equal(answer.parts[1].replicas, 1);
}

static void test_mps_adds_the_pipe_and_the_shared_memory(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 10);
        assert_ok(node_plan(&node), &node.err);
        assert_answer(
                &node, "GPU-0::7", PIPE_OF("GPU-0") UNIFORM_FACTS "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
        node.config.mps.root = "/run/nvidia/mps//";
        assert_answer(
                &node, "GPU-0::7", PIPE_OF("GPU-0") UNIFORM_FACTS "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
}

static void test_a_daemon_of_a_resource_has_nvidias_paths_with_the_advertised_name(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 10);
        node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
        node.shared.rename = "nvidia.com/gpu.shared";
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0::0",
                PIPE_OF("nvidia.com/gpu.shared") UNIFORM_FACTS
                "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("nvidia.com/gpu.shared"));
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

#define LIMITS(threads, memory)                                                                                        \
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" threads "\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" memory "\n"

static void test_unequal_shares_are_limits_of_the_container(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                unsigned int replicas;
                const char *ids;
                const char *devices;
                const char *limits; /* and what is told of them, where there is one unit */
        } table[] = {
                {PROVISIONING_WEIGHTED, 20, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-0::4 GPU-0::5 GPU-0::6", "GPU-0",
                        LIMITS("35", "0=8332M") FACTS("7/20", FRACTION("0.339"), MEMORY("8332"), "35.0", "verified")},
                {PROVISIONING_WEIGHTED, 40, "GPU-0::0", "GPU-0",
                        LIMITS("2.5", "0=595M") FACTS("1/40", FRACTION("0.0242"), MEMORY("595"), "2.5", "verified")},
                {PROVISIONING_WEIGHTED, 3, "GPU-0::0 GPU-0::2", "GPU-0",
                        LIMITS("66.6", "0=15872M")
                                FACTS("2/3", FRACTION("0.6458"), MEMORY("15872"), "66.6", "verified")},
                {PROVISIONING_HALF, 4, "GPU-0::3", "GPU-0",
                        LIMITS("50", "0=5952M") FACTS("1/4", FRACTION("0.2421"), MEMORY("5952"), "50.0", "verified")},
                {PROVISIONING_HALF, 1, "GPU-0::0", "GPU-0",
                        LIMITS("100", "0=23808M")
                                FACTS("1/1", FRACTION("0.9687"), MEMORY("23808"), "100.0", "verified")},
                /* The second GPU allocations half of what the first does, and one percentage counts for both. */
                {PROVISIONING_WEIGHTED, 4, "GPU-0::3 GPU-1::0 GPU-0::1", "GPU-0,GPU-1",
                        LIMITS("25", "5952M") FRACTION("0.2421")},
                {PROVISIONING_WEIGHTED, 4, "GPU-1::0 GPU-0::3 GPU-0::1", "GPU-1,GPU-0",
                        LIMITS("25", "5952M") FRACTION("0.2421")},
                /* NVML does not report the memory of GPU-2: the limit of the other counts for both. */
                {PROVISIONING_WEIGHTED, 4, "GPU-2::0 GPU-2::1 GPU-1::0 GPU-1::1", "GPU-2,GPU-1",
                        LIMITS("50", "11904M")},
                {PROVISIONING_WEIGHTED, 4, "GPU-2::0", "GPU-2",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\n" FACTS(
                                "1/4", "", "", "25.0", "verified-no-memory-limit")},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);
                _free_ char *expected =
                        xasprintf(PIPE "%sNVIDIA_VISIBLE_DEVICES=%s\n" MOUNTS, table[i].limits, table[i].devices);

                node_share(&node, SHARING_MPS, table[i].replicas);
                node.section.provisioning = table[i].provisioning;
                node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
                node.inventory.gpus[2].memory = 0;
                assert_ok(node_plan(&node), &node.err);
                assert_answer(&node, table[i].ids, expected);
        }
}

/* Whatever CUDA reports as the total, at most what NVML does, this part of it is within the limit of each GPU. */
static void test_the_fraction_of_unequal_gpus_is_that_of_the_limit_in_the_largest(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                const char *expected;
        } table[] = {
                {PROVISIONING_WEIGHTED,
                        PIPE LIMITS("25", "5952M") FRACTION("0.0726") "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1\n" MOUNTS},
                {PROVISIONING_UNIFORM, PIPE FRACTION("0.25") "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1\n" MOUNTS},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);

                node.inventory.gpus[1].memory = 80 * GIB;
                node_share(&node, SHARING_MPS, 4);
                node.section.provisioning = table[i].provisioning;
                node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
                assert_ok(node_plan(&node), &node.err);
                assert_answer(&node, "GPU-0::0 GPU-1::0", table[i].expected);
        }
}

/* A configured size may be less than what CUDA reports, and the fraction of that would then be above the limit. */
static void test_a_gpu_whose_memory_is_only_configured_has_no_fraction(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node.inventory.gpus[0].memory = 0;
        node_share(&node, SHARING_MPS, 4);
        node.shared.memory_mib = 100 * 1024;
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0::0",
                PIPE_OF("GPU-0") FACTS("1/4", "", MEMORY("25600"), "25.0",
                        "default") "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
}

static void test_a_fraction_is_rounded_down(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(mps_limits_fraction(&arena, 5500, UINT64_C(11000) << 20), "0.5");
        assert_string_equal(mps_limits_fraction(&arena, 5500, (UINT64_C(11000) << 20) + 1), "0.4999");
        assert_null(mps_limits_fraction(&arena, 1, UINT64_C(11000) << 20));
        assert_null(mps_limits_fraction(&arena, 5500, 0));
}

/* Under uniform they are worth no more than one. */
static void test_several_equal_shares_are_one(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 10);
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0::7 GPU-0::8 GPU-0::9",
                PIPE_OF("GPU-0") FACTS("3/10", FRACTION("0.0999"), MEMORY("2457"), "10.0",
                        "default") "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
}

/* ---- where the ledger and the daemons put a request ---- */

#define SM_FACTS(allocation, tier, sms)                                                                                \
        allocation "WARPSHARE_REPLICAS=2/10\nWARPSHARE_FRACTION=0.1937\n" MEMORY(                                      \
                "4761") "WARPSHARE_THREAD_PERCENTAGE=20.0\nWARPSHARE_SMS=" sms "\nWARPSHARE_TIER=" tier "\n"

static void test_shares_by_sms_are_a_partition_or_a_percentage(void **state UNUSED)
{
        static const struct allocate_binding partition = {
                .allocation = "g1", .tier = MPS_TIER_PARTITION, .partition = "GPU-0/AAAAEGV", .sms = 16};
        static const struct allocate_binding none = {.allocation = "g1", .tier = MPS_TIER_VERIFIED};
        _cleanup_(node_done) struct node node = node_new(1);

        node.inventory.gpus[0].multiprocessors = 80;
        node_share(&node, SHARING_MPS, 10);
        node.section.provisioning = PROVISIONING_SM;
        node.inventory.driver_version = "590.10";
        assert_ok(node_plan(&node), &node.err);
        node.binding = &partition;
        assert_answer(&node, "GPU-0::7 GPU-0::8",
                PIPE_OF("GPU-0") "CUDA_MPS_SM_PARTITION=GPU-0/AAAAEGV\n"
                                 "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4761M\n" SM_FACTS("WARPSHARE_GRANT=g1\n",
                                         "partition", "16") "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
        node.binding = &none;
        assert_answer(&node, "GPU-0::7 GPU-0::8",
                PIPE_OF("GPU-0") LIMITS("20", "0=4761M") SM_FACTS(
                        "WARPSHARE_GRANT=g1\n", "verified", "16") "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
        node.binding = NULL; /* what is expected of this driver */
        assert_answer(&node, "GPU-0::7 GPU-0::8",
                PIPE_OF("GPU-0") LIMITS("20", "0=4761M")
                        SM_FACTS("", "partition", "16") "NVIDIA_VISIBLE_DEVICES=GPU-0\n" MOUNTS_OF("GPU-0"));
}

static void test_a_bound_request_is_of_its_unit_whatever_its_ids_say(void **state UNUSED)
{
        static const struct allocate_binding binding = {
                .allocation = "g2", .unit = "GPU-1", .tier = MPS_TIER_NAMESPACE, .pipe = "GPU-1/pipe/server/g2"};
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocate_answer answer;

        want_all(&node);
        node.config.devices.extras = 0;
        node.config.devices.has_imex_channel = false;
        node.inventory.nodes = 0;
        node.config.devices.lists = DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_CRI;
        node_share(&node, SHARING_MPS, 4);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        assert_ok(node_plan(&node), &node.err);
        node.binding = &binding;
        assert_answer(&node, "GPU-0::3 GPU-1::0 GPU-0::3",
                "cdi " VENDOR
                "/gpu=GPU-1\n" PIPE_OF("GPU-1") "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\nWARPSHARE_GRANT=g2\n" FACTS(
                        "2/4", FRACTION("0.4843"), MEMORY("11904"), "50.0",
                        "namespace") "NVIDIA_VISIBLE_DEVICES=GPU-1\n"
                                     "/run/nvidia/mps/GPU-1/pipe/server/g2 -> /mps/GPU-1/pipe (ro)\n"
                                     "/run/nvidia/mps/shm -> /dev/shm\n"
                                     "/dev/nvidia5 => /dev/nvidia5 (rw)\n");
        assert_ok(request(&node, "GPU-0::3 GPU-0::1 GPU-1::0", &answer), &node.err);
        assert_int_equal(answer.n_parts, 1);
        assert_string_equal(answer.parts[0].unit->uuid, "GPU-1");
        assert_int_equal(answer.parts[0].replicas, 3);
        assert_int_equal(answer.parts[0].share.threads_permille, 750);
}

static void test_a_request_that_its_unit_cannot_hold_is_refused(void **state UNUSED)
{
        static const struct allocate_binding gone = {.unit = "GPU-9"};
        static const struct allocate_binding binding = {.unit = "GPU-1"};
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocate_answer answer;

        node_share(&node, SHARING_MPS, 2);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        assert_ok(node_plan(&node), &node.err);
        node.binding = &gone;
        assert_fails(request(&node, "GPU-0::0", &answer), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': it no longer has the unit 'GPU-9', which was chosen "
                "for this container");
        node.binding = &binding;
        assert_fails(request(&node, "GPU-0::0 GPU-0::1 GPU-1::0", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': 3 replicas of GPU-1, which has 2");
        assert_fails(request(&node, "GPU-0::0 GPU-0::2", &answer), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-0::2'");
}

static void test_several_units_need_a_daemon_that_serves_them_all(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocate_answer answer;

        node_share(&node, SHARING_MPS, 4);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        assert_ok(node_plan(&node), &node.err);
        assert_fails(request(&node, "GPU-0::0 GPU-1::0 GPU-0::1", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': devices of 2 units, but with daemonScope gpu a "
                "container gets devices of one unit only; set sharing.mps.placement to same-gpu, or "
                "sharing.mps.daemonScope to resource");
        plan_done(node.plan);
        node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
        assert_ok(node_plan(&node), &node.err);
        assert_ok(request(&node, "GPU-0::0 GPU-1::0 GPU-0::1", &answer), &node.err);
        assert_int_equal(answer.n_parts, 2);
        plan_done(node.plan);
        node.section.daemon_scope = DAEMON_SCOPE_GPU;
        node_share(&node, SHARING_TIME_SLICING, 4);
        assert_ok(node_plan(&node), &node.err);
        assert_ok(request(&node, "GPU-0::0 GPU-1::0 GPU-0::1", &answer), &node.err);
}

static void test_requests_that_cannot_be_met_say_why(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct allocate_answer answer;

        node_share(&node, SHARING_MPS, 4);
        node.section.fail_requests_greater_than_one = true;
        assert_ok(node_plan(&node), &node.err);
        assert_fails(request(&node, "GPU-0::0 GPU-0::1 GPU-0::2", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 3; to allow "
                "more, set sharing.mps.failRequestsGreaterThanOne to false");
        assert_fails(request(&node, "GPU-0::0 GPU-0::0", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 2; to allow "
                "more, set sharing.mps.failRequestsGreaterThanOne to false");
        assert_fails(request(&node, "GPU-0::0 GPU-0::4", &answer), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-0::4'");
        assert_fails(request(&node, "GPU-0", &answer), &node.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-0'");
}

static void test_time_slicing_names_its_own_key(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct allocate_answer answer;

        node_share(&node, SHARING_TIME_SLICING, 4);
        node.section.fail_requests_greater_than_one = true;
        assert_ok(node_plan(&node), &node.err);
        assert_fails(request(&node, "GPU-0::0 GPU-0::1", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 2; to allow "
                "more, set sharing.timeSlicing.failRequestsGreaterThanOne to false");
}

/* ---- how the devices reach the container ---- */

static void test_each_strategy_hands_the_devices_out_in_its_own_way(void **state UNUSED)
{
        static const struct {
                unsigned int lists;
                const char *by_uuid;
                const char *by_index;
        } table[] = {
                {0, "", ""},
                {DEVICE_LIST_ENVVAR, "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n", "NVIDIA_VISIBLE_DEVICES=1,0\n"},
                {DEVICE_LIST_VOLUME_MOUNTS,
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/GPU-1\n"
                        "/dev/null -> " VOLUMES "/GPU-0\n",
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/1\n"
                        "/dev/null -> " VOLUMES "/0\n"},
                /* The folder replaces the list, as NVIDIA's plugin has it. */
                {DEVICE_LIST_ENVVAR | DEVICE_LIST_VOLUME_MOUNTS,
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/GPU-1\n"
                        "/dev/null -> " VOLUMES "/GPU-0\n",
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/1\n"
                        "/dev/null -> " VOLUMES "/0\n"},
                {DEVICE_LIST_CDI_ANNOTATIONS, ANNOTATION VENDOR "/gpu=GPU-1," VENDOR "/gpu=GPU-0\n",
                        ANNOTATION VENDOR "/gpu=1," VENDOR "/gpu=0\n"},
                {DEVICE_LIST_CDI_CRI, "cdi " VENDOR "/gpu=GPU-1\ncdi " VENDOR "/gpu=GPU-0\n",
                        "cdi " VENDOR "/gpu=1\ncdi " VENDOR "/gpu=0\n"},
                {DEVICE_LIST_CDI,
                        ANNOTATION VENDOR "/gpu=GPU-1," VENDOR "/gpu=GPU-0\n"
                                          "cdi " VENDOR "/gpu=GPU-1\ncdi " VENDOR "/gpu=GPU-0\n",
                        ANNOTATION VENDOR "/gpu=1," VENDOR "/gpu=0\n"
                                          "cdi " VENDOR "/gpu=1\ncdi " VENDOR "/gpu=0\n"},
                {DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_ANNOTATIONS,
                        ANNOTATION VENDOR "/gpu=GPU-1," VENDOR "/gpu=GPU-0\n"
                                          "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n",
                        ANNOTATION VENDOR "/gpu=1," VENDOR "/gpu=0\n"
                                          "NVIDIA_VISIBLE_DEVICES=1,0\n"},
                {DEVICE_LIST_VOLUME_MOUNTS | DEVICE_LIST_CDI_CRI,
                        "cdi " VENDOR "/gpu=GPU-1\ncdi " VENDOR "/gpu=GPU-0\n"
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/GPU-1\n"
                        "/dev/null -> " VOLUMES "/GPU-0\n",
                        "cdi " VENDOR "/gpu=1\ncdi " VENDOR "/gpu=0\n"
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                        "/dev/null -> " VOLUMES "/1\n"
                        "/dev/null -> " VOLUMES "/0\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);

                node.config.cdi.annotation_prefix = "cdi.k8s.io/";
                node_share(&node, SHARING_TIME_SLICING, 4);
                assert_ok(node_plan(&node), &node.err);
                node.config.devices.lists = table[i].lists;
                assert_answer(&node, "GPU-1::1 GPU-0::3 GPU-1::0", table[i].by_uuid);
                node.config.devices.id_strategy = ID_STRATEGY_INDEX;
                assert_answer(&node, "GPU-1::1 GPU-0::3 GPU-1::0", table[i].by_index);
        }
}

#define EXTRAS "NVIDIA_GDRCOPY=enabled\nNVIDIA_GDS=enabled\nNVIDIA_MOFED=enabled\n"
#define EXTRA_VOLUMES "/dev/null -> " VOLUMES "/GPU-1\n/dev/null -> " VOLUMES "/imex/0\n"
#define CONTROL_NODES                                                                                                  \
        "/dev/nvidiactl => /dev/nvidiactl (rw)\n"                                                                      \
        "/dev/nvidia-uvm => /dev/nvidia-uvm (rw)\n"                                                                    \
        "/dev/nvidia-uvm-tools => /dev/nvidia-uvm-tools (rw)\n"                                                        \
        "/dev/nvidia-modeset => /dev/nvidia-modeset (rw)\n"
#define IMEX_NODE "/dev/nvidia-caps-imex-channels/channel0 => /dev/nvidia-caps-imex-channels/channel0 (rw)\n"
#define EXTRA_NODES CONTROL_NODES "/dev/nvidia5 => /dev/nvidia5 (rw)\n" IMEX_NODE

static void test_each_strategy_has_its_own_extras_imex_channel_and_nodes(void **state UNUSED)
{
        static const struct {
                unsigned int lists;
                const char *expected;
        } table[] = {
                {0, EXTRAS},
                {DEVICE_LIST_ENVVAR, EXTRAS "NVIDIA_VISIBLE_DEVICES=GPU-1\nNVIDIA_IMEX_CHANNELS=0\n" EXTRA_NODES},
                {DEVICE_LIST_VOLUME_MOUNTS, EXTRAS "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n" EXTRA_VOLUMES EXTRA_NODES},
                {DEVICE_LIST_ENVVAR | DEVICE_LIST_VOLUME_MOUNTS, EXTRAS
                        "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\nNVIDIA_IMEX_CHANNELS=0\n" EXTRA_VOLUMES EXTRA_NODES},
                /* Of the extras, those whose specification is there. */
                {DEVICE_LIST_CDI_ANNOTATIONS, ANNOTATION VENDOR "/gpu=GPU-1," VENDOR "/imex-channel=0," VENDOR
                                                                "/gdrcopy=all," VENDOR "/mofed=all\n" EXTRAS},
                {DEVICE_LIST_CDI_CRI,
                        "cdi " VENDOR "/gpu=GPU-1\ncdi " VENDOR "/imex-channel=0\ncdi " VENDOR "/gdrcopy=all\n"
                        "cdi " VENDOR "/mofed=all\n" EXTRAS},
                {DEVICE_LIST_CDI_CRI | DEVICE_LIST_ENVVAR,
                        "cdi " VENDOR "/gpu=GPU-1\ncdi " VENDOR "/imex-channel=0\ncdi " VENDOR "/gdrcopy=all\n"
                        "cdi " VENDOR "/mofed=all\n" EXTRAS
                        "NVIDIA_VISIBLE_DEVICES=GPU-1\nNVIDIA_IMEX_CHANNELS=0\n" EXTRA_NODES},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);

                want_all(&node);
                assert_ok(node_plan(&node), &node.err);
                node.plan->cdi_extras = EXTRA_GDRCOPY | EXTRA_MOFED;
                node.config.devices.lists = table[i].lists;
                assert_answer(&node, "GPU-1", table[i].expected);
        }
}

static void test_mps_stands_beside_every_strategy(void **state UNUSED)
{
        static const struct {
                unsigned int lists;
                const char *expected;
        } table[] = {
                {0, PIPE_OF("GPU-0") UNIFORM_FACTS "NVIDIA_GDS=enabled\n" MOUNTS_OF("GPU-0")},
                {DEVICE_LIST_CDI_CRI, "cdi " VENDOR "/gpu=GPU-0\n" PIPE_OF("GPU-0") UNIFORM_FACTS
                        "NVIDIA_GDS=enabled\n" MOUNTS_OF("GPU-0")},
                {DEVICE_LIST_VOLUME_MOUNTS,
                        PIPE_OF("GPU-0") UNIFORM_FACTS "NVIDIA_GDS=enabled\nNVIDIA_VISIBLE_DEVICES=" VOLUMES
                                                       "\n" MOUNTS_OF("GPU-0") "/dev/null -> " VOLUMES "/GPU-0\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(1);

                node_share(&node, SHARING_MPS, 10);
                assert_ok(node_plan(&node), &node.err);
                node.config.devices.extras = EXTRA_GDS;
                node.config.devices.lists = table[i].lists;
                assert_answer(&node, "GPU-0::7", table[i].expected);
        }
}

static void test_a_container_has_the_shared_memory_of_its_daemon(void **state UNUSED)
{
        static const struct allocate_binding own = {
                .allocation = "g1", .unit = "GPU-1", .tier = MPS_TIER_VERIFIED, .shm = "GPU-1/shm"};
        static const struct allocate_binding of_node = {.allocation = "g1", .unit = "GPU-1", .tier = MPS_TIER_VERIFIED};
        _cleanup_(node_done) struct node node = node_new(2);
        struct allocate_answer answer;

        node_share(&node, SHARING_MPS, 4);
        assert_ok(node_plan(&node), &node.err);
        node.binding = &own;
        assert_ok(request(&node, "GPU-1::0", &answer), &node.err);
        assert_string_equal(answer.mounts[1].container_path, "/dev/shm");
        assert_string_equal(answer.mounts[1].host_path, "/run/nvidia/mps/GPU-1/shm");
        node.binding = &of_node;
        assert_ok(request(&node, "GPU-1::0", &answer), &node.err);
        assert_string_equal(answer.mounts[1].host_path, "/run/nvidia/mps/shm");
}

/* The answers of a request's containers are sent together, each long after its binding went. */
static void test_nothing_of_the_binding_is_in_the_answer(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        char allocation[] = "g1", pipe[] = "GPU-0/ns/1", partition[] = "7";
        struct allocate_binding binding = {
                .tier = MPS_TIER_PARTITION, .allocation = allocation, .pipe = pipe, .partition = partition};
        _cleanup_(strbuf_done) struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;
        struct allocate_answer answer;

        node_share(&node, SHARING_MPS, 4);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        node.binding = &binding;
        assert_ok(node_plan(&node), &node.err);
        assert_ok(request(&node, "GPU-0::1", &answer), &node.err);
        print(&answer, &before);
        allocation[0] = pipe[0] = partition[0] = 'x';
        print(&answer, &after);
        assert_non_null(strstr(before.data, "WARPSHARE_GRANT=g1\n"));
        assert_string_equal(after.data, before.data);
}

/* Never a name for which there is no specification. */
static void test_limits_are_named_where_their_cdi_devices_are(void **state UNUSED)
{
        static const struct allocate_binding partition = {.tier = MPS_TIER_PARTITION, .partition = "7"};
        static const struct allocate_binding namespace = {.tier = MPS_TIER_NAMESPACE, .pipe = "GPU-0/ns/1"};
        static const struct allocate_binding other = {.tier = MPS_TIER_VERIFIED, .unit = "GPU-1"};
        static const struct {
                unsigned int lists;
                bool are_there;
                enum provisioning provisioning;
                enum daemon_scope scope;
                unsigned int most;
                const struct allocate_binding *binding;
                const char *expected; /* the names, beside that of the unit */
        } table[] = {
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 0, NULL, "nvidia.com/mps=GPU-0-2"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 2, NULL, "nvidia.com/mps=GPU-0-2"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 0, &other,
                        "nvidia.com/mps=GPU-1-2"},
                /* Where limits are of no use, not the container's, or the namespace's, the pipe alone. */
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_HALF, DAEMON_SCOPE_GPU, 0, &namespace, "nvidia.com/mps=GPU-0"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_SM, DAEMON_SCOPE_GPU, 0, &partition, "nvidia.com/mps=GPU-0"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 1, NULL, "nvidia.com/mps=GPU-0"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_UNIFORM, DAEMON_SCOPE_GPU, 0, NULL, "nvidia.com/mps=GPU-0"},
                {DEVICE_LIST_CDI_CRI, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_RESOURCE, 0, NULL,
                        "nvidia.com/mps=nvidia.com_gpu"},
                {DEVICE_LIST_CDI_CRI, false, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 0, NULL, NULL},
                {DEVICE_LIST_ENVVAR, true, PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, 0, NULL, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);
                struct allocate_answer answer;

                node_share(&node, SHARING_MPS, 10);
                node.section.provisioning = table[i].provisioning;
                node.section.daemon_scope = table[i].scope;
                node.config.devices.lists = table[i].lists;
                node.inventory.gpus[0].multiprocessors = node.inventory.gpus[1].multiprocessors = 80;
                node.binding = table[i].binding;
                assert_ok(node_plan(&node), &node.err);
                node.plan->cdi_limits = table[i].are_there;
                node.plan->resources[0].max_per_request = table[i].most;
                assert_ok(request(&node, "GPU-0::3 GPU-0::7", &answer), &node.err);
                if (!table[i].expected) {
                        assert_int_equal(answer.n_cdi_devices, table[i].lists & DEVICE_LIST_CDI ? 1 : 0);
                        continue;
                }
                assert_int_equal(answer.n_cdi_devices, 2);
                assert_string_equal(answer.cdi_devices[1], table[i].expected);
        }
}

/* Other runtimes, and older ones, know nothing of them. */
static void test_limits_by_cdi_leave_the_variables_where_they_are(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 20);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        node.config.devices.lists = DEVICE_LIST_CDI_ANNOTATIONS;
        node.config.cdi.annotation_prefix = "cdi.k8s.io/";
        assert_ok(node_plan(&node), &node.err);
        node.plan->cdi_limits = true;
        assert_answer(&node, "GPU-0::3",
                ANNOTATION VENDOR "/gpu=GPU-0,nvidia.com/mps=GPU-0-1\n" PIPE_OF("GPU-0") LIMITS("5", "0=1190M")
                        FACTS("1/20", FRACTION("0.0484"), MEMORY("1190"), "5.0", "verified") MOUNTS_OF("GPU-0"));
}

static void test_a_whole_unit_has_no_limits_by_cdi(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node.config.devices.lists = DEVICE_LIST_CDI_CRI;
        assert_ok(node_plan(&node), &node.err);
        node.plan->cdi_limits = true;
        assert_answer(&node, "GPU-0", "cdi " VENDOR "/gpu=GPU-0\n");
}

static void test_an_imex_channel_without_its_node_is_not_given_to_containers(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        want_all(&node);
        node.config.devices.extras = 0;
        node.config.devices.pass_specs = false;
        node.inventory.nodes = NODE_NVIDIACTL;
        node.config.devices.lists = DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_CRI;
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-0", "cdi " VENDOR "/gpu=GPU-0\nNVIDIA_VISIBLE_DEVICES=GPU-0\n");
        node.inventory.nodes = NODE_IMEX_CHANNEL;
        node.config.devices.has_imex_channel = false;
        assert_answer(&node, "GPU-0", "cdi " VENDOR "/gpu=GPU-0\nNVIDIA_VISIBLE_DEVICES=GPU-0\n");
}

/* kubelet never asks for no device; NVIDIA's tests do. */
static void test_an_annotation_is_there_for_whatever_device_there_is(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        want_all(&node);
        node.config.devices.extras = 0;
        node.config.devices.has_imex_channel = false;
        node.config.devices.lists = DEVICE_LIST_CDI;
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "", "");
        node.config.cdi.annotation_prefix = "custom.cdi.k8s.io/";
        assert_answer(&node, "GPU-0",
                "@custom.cdi.k8s.io/nvidia-device-plugin_tag=" VENDOR "/gpu=GPU-0\ncdi " VENDOR "/gpu=GPU-0\n");
        node.config.devices.lists = DEVICE_LIST_CDI_ANNOTATIONS;
        node.config.devices.has_imex_channel = true;
        assert_answer(&node, "", "@custom.cdi.k8s.io/nvidia-device-plugin_tag=" VENDOR "/imex-channel=0\n");
        node.config.devices.has_imex_channel = false;
        node.plan->cdi_extras = EXTRA_GDS | EXTRA_MOFED;
        assert_answer(&node, "GPU-0",
                "@custom.cdi.k8s.io/nvidia-device-plugin_tag=" VENDOR "/gpu=GPU-0," VENDOR "/gds=all," VENDOR
                "/mofed=all\n");
}

/* ---- device nodes ---- */

static void test_device_nodes_are_those_that_exist_below_the_dev_root(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(3);

        want_all(&node);
        node.config.devices.extras = 0;
        node.config.devices.has_imex_channel = false;
        node.config.driver.dev_root = "/run/nvidia/driver/";
        node.inventory.nodes = NODE_NVIDIACTL | NODE_UVM_TOOLS;
        node.inventory.gpus[1].minor = GPU_UNKNOWN_INT;
        assert_ok(node_plan(&node), &node.err);
        assert_answer(&node, "GPU-2 GPU-1 GPU-0",
                "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-1,GPU-0\n"
                "/run/nvidia/driver/dev/nvidiactl => /dev/nvidiactl (rw)\n"
                "/run/nvidia/driver/dev/nvidia-uvm-tools => /dev/nvidia-uvm-tools (rw)\n"
                "/run/nvidia/driver/dev/nvidia6 => /dev/nvidia6 (rw)\n"
                "/run/nvidia/driver/dev/nvidia4 => /dev/nvidia4 (rw)\n");
}

static void test_a_platform_without_control_nodes_has_none(void **state UNUSED)
{
        static const struct {
                enum platform platform;
                const char *expected;
        } table[] = {
                {PLATFORM_WSL, "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n/dev/dxg => /dev/dxg (rw)\n"},
                {PLATFORM_TEGRA, "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);

                want_all(&node);
                node.config.devices.extras = 0;
                node.config.devices.has_imex_channel = false;
                assert_ok(node_plan(&node), &node.err);
                node.inventory.platform = table[i].platform;
                assert_answer(&node, "GPU-1 GPU-0", table[i].expected);
        }
}

/* A plan of these units and no others, as one resource. */
static void plan_units(struct node *node, enum sharing_strategy strategy, const struct unit *units, size_t n_units)
{
        struct resource *resource = ARENA_NEW(&node->arena, struct resource);
        struct device *devices = ARENA_ARRAY(&node->arena, struct device, 64);

        for (size_t i = 0; i < n_units; i++) {
                for (unsigned int replica = 0; replica < units[i].replicas; replica++) {
                        struct device *device = &devices[resource->n_devices++];

                        device->id = units[i].shared ? arena_printf(&node->arena, "%s::%u", units[i].uuid, replica)
                                                     : units[i].uuid;
                        device->unit = (uint32_t)i;
                        device->replica = replica;
                        assert_true(map_add(&resource->by_id, device->id, device));
                }
        }
        resource->name = "nvidia.com/gpu";
        resource->strategy = strategy;
        resource->units = units;
        resource->n_units = n_units;
        resource->devices = devices;
        node->plan = ARENA_NEW(&node->arena, struct plan);
        node->plan->config = &node->config;
        node->plan->inventory = &node->inventory;
        node->plan->resources = resource;
        node->plan->n_resources = 1;
}

static void test_mig_devices_of_one_gpu_share_its_node(void **state UNUSED)
{
        static const struct mig_device migs[] = {
                {.gpu_instance_cap = 30, .compute_instance_cap = 31},
                {.gpu_instance_cap = 30, .compute_instance_cap = 32}, /* in the same GPU instance */
                {.gpu_instance_cap = 39, .compute_instance_cap = GPU_UNKNOWN_INT},
                {.gpu_instance_cap = GPU_UNKNOWN_INT, .compute_instance_cap = 165},
        };
        _cleanup_(node_done) struct node node = node_new(2);
        const struct unit units[] = {
                {.uuid = "MIG-a", .index = "1:0", .gpu = &node.inventory.gpus[1], .mig = &migs[0], .replicas = 1},
                {.uuid = "MIG-b", .index = "1:1", .gpu = &node.inventory.gpus[1], .mig = &migs[1], .replicas = 1},
                {.uuid = "MIG-c", .index = "1:2", .gpu = &node.inventory.gpus[1], .mig = &migs[2], .replicas = 1},
                {.uuid = "MIG-d", .index = "0:0", .gpu = &node.inventory.gpus[0], .mig = &migs[3], .replicas = 1},
        };

        want_all(&node);
        node.config.devices.extras = 0;
        node.config.devices.has_imex_channel = false;
        node.inventory.nodes = 0;
        plan_units(&node, SHARING_NONE, units, ARRAY_SIZE(units));
        assert_answer(&node, "MIG-b MIG-a MIG-d MIG-c",
                "NVIDIA_VISIBLE_DEVICES=MIG-b,MIG-a,MIG-d,MIG-c\n"
                "/dev/nvidia5 => /dev/nvidia5 (rw)\n"
                "/dev/nvidia-caps/nvidia-cap30 => /dev/nvidia-caps/nvidia-cap30 (rw)\n"
                "/dev/nvidia-caps/nvidia-cap32 => /dev/nvidia-caps/nvidia-cap32 (rw)\n"
                "/dev/nvidia-caps/nvidia-cap31 => /dev/nvidia-caps/nvidia-cap31 (rw)\n"
                "/dev/nvidia4 => /dev/nvidia4 (rw)\n"
                "/dev/nvidia-caps/nvidia-cap165 => /dev/nvidia-caps/nvidia-cap165 (rw)\n"
                "/dev/nvidia-caps/nvidia-cap39 => /dev/nvidia-caps/nvidia-cap39 (rw)\n");
        node.config.devices.pass_specs = false;
        node.config.devices.id_strategy = ID_STRATEGY_INDEX;
        node.config.devices.lists = DEVICE_LIST_VOLUME_MOUNTS | DEVICE_LIST_CDI_CRI;
        assert_answer(&node, "MIG-b MIG-d",
                "cdi " VENDOR "/gpu=1:1\ncdi " VENDOR "/gpu=0:0\n"
                "NVIDIA_VISIBLE_DEVICES=" VOLUMES "\n"
                "/dev/null -> " VOLUMES "/1:1\n"
                "/dev/null -> " VOLUMES "/0:0\n");
}

/* ---- a resource of shared and whole units ---- */

static void test_whole_units_among_shared_ones_have_no_part_in_sharing(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(3);
        const struct sharing_section section = {.strategy = SHARING_MPS, .has_memory_reserve = true};
        const struct shared_resource shared = {.section = &section};
        const struct gpu *gpus = node.inventory.gpus;
        const struct unit units[] = {
                {.uuid = "GPU-0", .gpu = &gpus[0], .shared = &shared, .memory = 24 * GIB, .replicas = 4},
                {.uuid = "GPU-1", .gpu = &gpus[1], .memory = 24 * GIB, .replicas = 1},
                {.uuid = "GPU-2", .gpu = &gpus[2], .shared = &shared, .memory = 24 * GIB, .replicas = 8},
        };
        struct allocate_answer answer;
        struct resource *resource;

        plan_units(&node, SHARING_MPS, units, ARRAY_SIZE(units));
        resource = node.plan->resources;
        resource->daemon_scope = DAEMON_SCOPE_RESOURCE;
        resource->fail_requests_greater_than_one = true;
        assert_answer(&node, "GPU-1", "NVIDIA_VISIBLE_DEVICES=GPU-1\n");
        assert_answer(&node, "GPU-1 GPU-1", "NVIDIA_VISIBLE_DEVICES=GPU-1\n"); /* no replica is among them */
        assert_answer(&node, "GPU-2::7",
                PIPE FACTS("1/8", FRACTION("0.125"), MEMORY("3072"), "12.0",
                        "default") "NVIDIA_VISIBLE_DEVICES=GPU-2\n" MOUNTS);
        assert_fails(request(&node, "GPU-1 GPU-2::0", &answer), &node.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 2; to allow "
                "more, set sharing.mps.failRequestsGreaterThanOne to false");

        resource->fail_requests_greater_than_one = false;
        resource->provisioning = PROVISIONING_WEIGHTED;
        assert_answer(&node, "GPU-1", "NVIDIA_VISIBLE_DEVICES=GPU-1\n");
        assert_ok(request(&node, "GPU-2::3 GPU-1 GPU-0::0 GPU-2::5", &answer), &node.err);
        assert_int_equal(answer.n_parts, 3);
        assert_int_equal(answer.parts[0].share.memory_mib, 6144);
        assert_int_equal(answer.parts[0].share.threads_permille, 250);
        assert_int_equal(answer.parts[1].share.memory_mib, 0);
        assert_int_equal(answer.parts[1].share.threads_permille, 1000);
        assert_int_equal(answer.parts[2].share.memory_mib, 6144);
        assert_answer(&node, "GPU-2::3 GPU-1 GPU-0::0",
                "CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe\n"
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5\n"
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=3072M\n" FRACTION(
                        "0.125") "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-1,GPU-0\n" MOUNTS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_are_named_in_the_order_of_the_request),
                cmocka_unit_test(test_replicas_of_one_gpu_name_it_once),
                cmocka_unit_test(test_mps_adds_the_pipe_and_the_shared_memory),
                cmocka_unit_test(test_a_daemon_of_a_resource_has_nvidias_paths_with_the_advertised_name),
                cmocka_unit_test(test_a_resource_that_is_not_shared_has_no_part_in_mps),
                cmocka_unit_test(test_unequal_shares_are_limits_of_the_container),
                cmocka_unit_test(test_the_fraction_of_unequal_gpus_is_that_of_the_limit_in_the_largest),
                cmocka_unit_test(test_a_gpu_whose_memory_is_only_configured_has_no_fraction),
                cmocka_unit_test(test_a_fraction_is_rounded_down),
                cmocka_unit_test(test_several_equal_shares_are_one),
                cmocka_unit_test(test_shares_by_sms_are_a_partition_or_a_percentage),
                cmocka_unit_test(test_a_bound_request_is_of_its_unit_whatever_its_ids_say),
                cmocka_unit_test(test_a_request_that_its_unit_cannot_hold_is_refused),
                cmocka_unit_test(test_several_units_need_a_daemon_that_serves_them_all),
                cmocka_unit_test(test_requests_that_cannot_be_met_say_why),
                cmocka_unit_test(test_time_slicing_names_its_own_key),
                cmocka_unit_test(test_each_strategy_hands_the_devices_out_in_its_own_way),
                cmocka_unit_test(test_each_strategy_has_its_own_extras_imex_channel_and_nodes),
                cmocka_unit_test(test_mps_stands_beside_every_strategy),
                cmocka_unit_test(test_a_container_has_the_shared_memory_of_its_daemon),
                cmocka_unit_test(test_nothing_of_the_binding_is_in_the_answer),
                cmocka_unit_test(test_limits_are_named_where_their_cdi_devices_are),
                cmocka_unit_test(test_limits_by_cdi_leave_the_variables_where_they_are),
                cmocka_unit_test(test_a_whole_unit_has_no_limits_by_cdi),
                cmocka_unit_test(test_an_imex_channel_without_its_node_is_not_given_to_containers),
                cmocka_unit_test(test_an_annotation_is_there_for_whatever_device_there_is),
                cmocka_unit_test(test_device_nodes_are_those_that_exist_below_the_dev_root),
                cmocka_unit_test(test_a_platform_without_control_nodes_has_none),
                cmocka_unit_test(test_mig_devices_of_one_gpu_share_its_node),
                cmocka_unit_test(test_whole_units_among_shared_ones_have_no_part_in_sharing),
        };

        return cmocka_run_group_tests_name("allocate", tests, NULL, NULL);
}
