// SPDX-License-Identifier: Apache-2.0
/* NVML is a fake here, which the linker takes before the pool of the library. */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mps/supervisor/memory_limits.h"

/* ---- NVML ---- */

static struct {
        char root[64];
        struct nvml_request *asked; /* NULL: nothing waits for answer() */
        unsigned int n_asked;
        unsigned int n_changes;
        unsigned int n_records;
        nvmlReturn_t code;
        unsigned long long limit; /* what it has */
} node;

static nvmlReturn_t find_device(const char *uuid UNUSED, nvmlDevice_t *device)
{
        *device = (nvmlDevice_t)(uintptr_t)&node;
        return NVML_SUCCESS;
}

static nvmlReturn_t read_limit(nvmlDevice_t device UNUSED, nvmlGetMemoryLimits_v1_t *limits)
{
        limits->hardLimit = node.limit;
        return node.code;
}

static nvmlReturn_t set_limit(nvmlDevice_t device UNUSED, nvmlSetMemoryLimits_v1_t *limits)
{
        node.limit = node.code == NVML_SUCCESS ? limits->hardLimit : node.limit;
        return node.code;
}

static struct nvml nvml = {.functions = {.device_get_by_uuid = find_device,
                                   .device_get_memory_limits = read_limit,
                                   .device_set_memory_limits = set_limit}};

int nvml_serving_open(struct nvml_serving *serving UNUSED, const struct nvml **ret, struct error *err UNUSED)
{
        *ret = &nvml;
        return 0;
}

void nvml_request_init(struct nvml_request *request, nvml_serve_fn *serve, const char *gpu,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer))
{
        *request = (struct nvml_request){.serve = serve, .done = done, .question = STRBUF_INIT};
        snprintf(request->gpu, sizeof(request->gpu), "%s", gpu);
}

void nvml_pool_ask(struct nvml_pool *pool UNUSED, struct nvml_request *request)
{
        assert_null(node.asked);
        node.asked = request;
        node.n_asked++;
}

static void answer(const struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf asked = STRBUF_INIT;
        struct nvml_request *request = TAKE_PTR(node.asked);
        struct nvml_serving serving = {.nvml = NULL};
        struct pack question;
        struct pack to = pack_writer(&bytes);
        struct pack from;
        struct error problem;

        assert_non_null(request);
        asked = request->question;
        request->question = (struct strbuf)STRBUF_INIT;
        question = pack_reader(asked.data, asked.size, &arena);
        if (!err)
                assert_ok(request->serve(&serving, &question, &to, &problem), &problem);
        from = pack_reader(bytes.data, bytes.size, &arena);
        request->done(request, err, &from);
}

static int write_record(struct error *err UNUSED, void *data UNUSED)
{
        return 0;
}

static void on_changed(bool is_record, void *data UNUSED)
{
        node.n_changes++;
        node.n_records += is_record;
}

/* ---- limits ---- */

static const char *const gpu[] = {"GPU-1"};
static const char *const mig[] = {"MIG-1"};
static const char *const two[] = {"GPU-1", "GPU-2"};

static struct mps_record_allocation allocations[] = {
        {.request = {.id = "g1", .unit = "GPU-1", .limit_mib = 2048}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "g2", .unit = "GPU-1", .limit_mib = 4096}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "other", .unit = "GPU-2", .limit_mib = 1}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "none", .unit = "GPU-1"}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
        {.request = {.id = "sm", .unit = "GPU-1", .limit_mib = 7}, .allocation = {.tier = MPS_TIER_PARTITION}},
        {.request = {.id = "mig", .unit = "MIG-1", .limit_mib = 7}, .allocation = {.tier = MPS_TIER_NAMESPACE}},
};
static const struct mps_record granted = {.allocations = allocations, .n_allocations = ARRAY_SIZE(allocations)};
static const struct mps_record nothing;

static struct mps_memory_limits limits;

static void make_folder(const char *cgroup)
{
        _free_ char *path = xasprintf("%s/sys/fs/cgroup%s", node.root, cgroup);

        for (char *at = path + strlen(node.root) + 1; (at = strchr(at, '/')); *at++ = '/') {
                *at = '\0';
                mkdir(path, 0755);
        }
        mkdir(path, 0755);
}

static void remove_folder(const char *cgroup)
{
        _free_ char *path = xasprintf("%s/sys/fs/cgroup%s", node.root, cgroup);

        assert_int_equal(rmdir(path), 0);
}

static int set_up(void **state UNUSED)
{
        const struct mps_record_owner owner = {write_record, on_changed, NULL};

        memset(&node, 0, sizeof(node));
        node.limit = NVML_DEVICE_MEMORY_LIMIT_MAX;
        strcpy(node.root, "/dev/shm/warpshare-limits-XXXXXX");
        assert_non_null(mkdtemp(node.root));
        make_folder("/c1");
        make_folder("/c2");
        make_folder("/c3");
        mps_memory_limits_init(&limits, (struct nvml_pool *)(uintptr_t)&node, node.root, &owner);
        return 0;
}

static int remove_one(const char *path, const struct stat *status UNUSED, int kind UNUSED, struct FTW *place UNUSED)
{
        return remove(path);
}

static int tear_down(void **state UNUSED)
{
        assert_null(node.asked);
        mps_memory_limits_done(&limits);
        return nftw(node.root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct mps_daemon_status daemon_with(const struct mps_client *clients, size_t n_clients)
{
        return (struct mps_daemon_status){
                .tier = MPS_TIER_NAMESPACE, .units = gpu, .n_units = 1, .clients = clients, .n_clients = n_clients};
}

/* What the status has of the limit at |position|. */
static struct mps_container_limit described(size_t position)
{
        static struct arena arena;
        struct mps_daemon_status daemon = {.units = gpu, .n_units = 1};

        arena_done(&arena);
        mps_memory_limits_describe(&limits, &arena, &daemon);
        assert_true(position < daemon.n_limits);
        return daemon.limits[position];
}

static bool add(const struct mps_client *clients, size_t n_clients)
{
        const struct mps_daemon_status daemon = daemon_with(clients, n_clients);

        return mps_memory_limits_add(&limits, &daemon, &granted);
}

static void add_one(void)
{
        assert_true(add(&(const struct mps_client){.cgroup = "/c1", .name_space = "g1"}, 1));
}

static void test_each_container_in_a_namespace_has_one_limit_whatever_it_says_of_itself(void **state UNUSED)
{
        static const struct mps_client clients[] = {
                {.cgroup = "/c1", .name_space = "g1", .allocation = "g2"}, /* the claim is the tenant's */
                {.cgroup = "/c1", .name_space = "g1"},                     /* a second process of it */
                {.cgroup = "/c2", .name_space = "g2"}, {.cgroup = "/c3", .name_space = "default"},
                {.cgroup = "/c3", .name_space = "other"}, /* of another unit */
                {.cgroup = "/c3", .name_space = "none"}, {.cgroup = "/c3", .name_space = "sm"},
                {.cgroup = "/c3", .allocation = "g2"}, {.cgroup = "/gone", .name_space = "g1"},
                {.name_space = "g2"}, /* not a container's, or one that cannot be seen */
        };

        assert_true(add(clients, ARRAY_SIZE(clients)));
        assert_int_equal(limits.n_items, 2);
        assert_string_equal(described(0).cgroup, "/c1");
        assert_string_equal(described(0).allocation, "g1");
        assert_true(described(0).limit_mib == 2048);
        assert_string_equal(described(1).cgroup, "/c2");
        assert_true(described(1).limit_mib == 4096);
        assert_false(add(clients, ARRAY_SIZE(clients))); /* all are there */
        assert_int_equal(limits.n_items, 2);
}

static void test_other_tiers_mig_devices_and_daemons_of_several_units_have_none(void **state UNUSED)
{
        static const struct mps_client clients[] = {
                {.cgroup = "/c1", .name_space = "g1"}, {.cgroup = "/c2", .name_space = "mig"}};
        struct mps_daemon_status daemon = daemon_with(clients, ARRAY_SIZE(clients));

        daemon.tier = MPS_TIER_VERIFIED;
        assert_false(mps_memory_limits_add(&limits, &daemon, &granted));
        daemon.tier = MPS_TIER_NAMESPACE;
        daemon.units = mig;
        assert_false(mps_memory_limits_add(&limits, &daemon, &granted));
        daemon.units = two;
        daemon.n_units = 2;
        assert_false(mps_memory_limits_add(&limits, &daemon, &granted));
        assert_int_equal(limits.n_items, 0);
}

static void test_a_limit_is_set_and_removed_when_its_allocation_is_gone(void **state UNUSED)
{
        add_one();
        mps_memory_limits_start(&limits, &granted, false);
        answer(NULL);
        assert_true(node.limit == UINT64_C(2048) << 20);
        assert_true(described(0).is_in_force);
        assert_null(described(0).problem);
        assert_int_equal(node.n_records, 0);
        mps_memory_limits_start(&limits, &granted, false); /* it is there */
        assert_int_equal(node.n_asked, 1);
        mps_memory_limits_start(&limits, &granted, true);
        answer(NULL);
        mps_memory_limits_start(&limits, &nothing, false);
        answer(NULL);
        assert_true(node.limit == NVML_DEVICE_MEMORY_LIMIT_MAX);
        assert_int_equal(limits.n_items, 0);
        assert_int_equal(node.n_records, 1);
}

/* Every container ends, so that is no warning. */
static void test_a_limit_is_forgotten_without_a_word_when_its_folder_is_gone(void **state UNUSED)
{
        const int errors = dup(STDERR_FILENO);
        const int log = memfd_create("log", 0);
        struct stat status;

        add_one();
        remove_folder("/c1");
        mps_memory_limits_start(&limits, &granted, false);
        dup2(log, STDERR_FILENO);
        answer(NULL);
        dup2(errors, STDERR_FILENO);
        assert_int_equal(limits.n_items, 0);
        assert_int_equal(fstat(log, &status), 0);
        assert_int_equal(status.st_size, 0);
        close(errors);
        close(log);
}

static void test_a_driver_that_has_no_limits_is_asked_at_each_check_of_all(void **state UNUSED)
{
        add_one();
        node.code = NVML_ERROR_NOT_SUPPORTED;
        mps_memory_limits_start(&limits, &granted, false);
        answer(NULL);
        assert_false(described(0).is_in_force);
        assert_non_null(described(0).problem);
        mps_memory_limits_start(&limits, &granted, false);
        assert_int_equal(node.n_asked, 1);
        mps_memory_limits_start(&limits, &granted, true);
        answer(NULL);
        mps_memory_limits_start(&limits, &nothing, false); /* there is none to remove */
        answer(NULL);
        assert_int_equal(limits.n_items, 0);
}

static void test_a_failure_is_tried_again_at_the_next_check_of_all(void **state UNUSED)
{
        struct error err;

        error_raise(&err, ERROR_TIMEOUT, "it hangs");
        add_one();
        add(&(const struct mps_client){.cgroup = "/c2", .name_space = "g2"}, 1);
        mps_memory_limits_start(&limits, &granted, false);
        answer(&err); /* for all of the unit */
        assert_string_equal(described(0).problem, "it hangs");
        assert_string_equal(described(1).problem, "it hangs");
        mps_memory_limits_start(&limits, &granted, false);
        assert_int_equal(node.n_asked, 1);
        mps_memory_limits_start(&limits, &nothing, false);
        answer(&err);
        assert_int_equal(limits.n_items, 2); /* a limit that cannot be removed stays on record */
        node.code = NVML_ERROR_UNKNOWN;
        mps_memory_limits_start(&limits, &granted, true);
        answer(NULL);
        answer(NULL);
        assert_non_null(described(0).problem);
        assert_int_equal(limits.n_items, 2);
        node.code = NVML_SUCCESS;
        mps_memory_limits_start(&limits, &granted, true);
        answer(NULL);
        answer(NULL);
        assert_null(described(0).problem);
        assert_true(described(0).is_in_force);
}

static void test_all_limits_of_a_unit_are_reported_at_once(void **state UNUSED)
{
        struct mps_container_limit recorded[100];

        for (size_t i = 0; i < ARRAY_SIZE(recorded); i++)
                recorded[i] = (struct mps_container_limit){
                        .unit = "GPU-1", .cgroup = "/gone", .allocation = "old", .limit_mib = 1};
        mps_memory_limits_restore(&limits, recorded, ARRAY_SIZE(recorded));
        mps_memory_limits_start(&limits, &granted, false);
        for (size_t i = 0; i < ARRAY_SIZE(recorded); i++)
                answer(NULL);
        assert_int_equal(limits.n_items, 0);
        assert_int_equal(node.n_changes, 1);
        assert_int_equal(node.n_records, 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_each_container_in_a_namespace_has_one_limit_whatever_it_says_of_itself),
                TEST(test_other_tiers_mig_devices_and_daemons_of_several_units_have_none),
                TEST(test_a_limit_is_set_and_removed_when_its_allocation_is_gone),
                TEST(test_a_limit_is_forgotten_without_a_word_when_its_folder_is_gone),
                TEST(test_a_driver_that_has_no_limits_is_asked_at_each_check_of_all),
                TEST(test_a_failure_is_tried_again_at_the_next_check_of_all),
                TEST(test_all_limits_of_a_unit_are_reported_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
