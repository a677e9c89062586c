// SPDX-License-Identifier: Apache-2.0
/* NVML and the one daemon are fakes here, which the linker takes before those of the library. */
#include "unit.h"

#include "own_clock.h"

#include <stdio.h>
#include <string.h>

#include "gpu/process_list.h"
#include "mps/supervisor/usage.h"

#define UNIT "GPU-1"

static struct {
        struct mps_usages usages;
        struct nvml_request *asked; /* NULL: nothing waits for answer() */
        bool has_clients;
        unsigned int n_changes;
        char lost[256]; /* what the daemon was told */
        nvmlReturn_t code;
        struct gpu_listed_process processes[2];
} node;

/* ---- the daemon ---- */

bool mps_daemon_record(const struct mps_daemon *daemon UNUSED, struct mps_record_daemon *ret)
{
        static const struct mps_unit unit = {.uuid = UNIT};

        *ret = (struct mps_record_daemon){.pid = 1, .settings = {.units = &unit, .n_units = 1}};
        return true;
}

bool mps_daemon_has_clients(const struct mps_daemon *daemon UNUSED)
{
        return node.has_clients;
}

bool mps_daemon_holds(const struct mps_daemon *daemon UNUSED, const char *uuid)
{
        return strcmp(uuid, UNIT) == 0;
}

void mps_daemon_lose(struct mps_daemon *daemon UNUSED, const char *reason)
{
        snprintf(node.lost, sizeof(node.lost), "%s", reason);
}

/* ---- NVML ---- */

static nvmlReturn_t find_device(const char *uuid UNUSED, nvmlDevice_t *device)
{
        *device = (nvmlDevice_t)(uintptr_t)&node;
        return node.code;
}

static struct nvml nvml = {.functions = {.device_get_by_uuid = find_device}};

nvmlReturn_t gpu_process_list(const struct nvml *library UNUSED, nvmlDevice_t device UNUSED, unsigned int kind UNUSED,
        struct gpu_listed_process *ret, unsigned int *count)
{
        memcpy(ret, node.processes, sizeof(node.processes));
        *count = 2;
        return NVML_SUCCESS;
}

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
        node.asked = request;
}

void nvml_pool_renew(struct nvml_pool *pool UNUSED)
{
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
        question = pack_reader(asked.data, asked.size, &arena);
        assert_ok(request->serve(&serving, &question, &to, &problem), &problem);
        from = pack_reader(bytes.data, err ? 0 : bytes.size, &arena);
        request->done(request, err, &from);
        assert_true(err || pack_end(&from));
}

/* ---- tests ---- */

static int write_record(struct error *err UNUSED, void *data UNUSED)
{
        return 0;
}

static void on_changed(bool is_record UNUSED, void *data UNUSED)
{
        node.n_changes++;
}

static int set_up(void **state UNUSED)
{
        static struct mps_daemon *items[] = {NULL};
        static const struct mps_daemons daemons = {.items = items, .n_items = 1};
        const struct mps_record_owner owner = {write_record, on_changed, NULL};

        memset(&node, 0, sizeof(node));
        node.has_clients = true;
        node.processes[0] = (struct gpu_listed_process){.pid = 7, .memory = 4711};
        node.processes[1] = (struct gpu_listed_process){.pid = 8, .memory = UINT64_MAX};
        mps_usages_init(&node.usages, (struct nvml_pool *)(uintptr_t)&node, &daemons, &owner);
        return 0;
}

static int tear_down(void **state UNUSED)
{
        mps_usages_done(&node.usages);
        return 0;
}

static void poll_once(void)
{
        mps_usages_poll(&node.usages);
        answer(NULL);
}

static uint64_t memory_of(pid_t pid)
{
        return mps_usages_memory(&node.usages, UNIT, pid);
}

static void test_memory_that_was_read_too_long_ago_is_not_known(void **state UNUSED)
{
        poll_once();
        own_clock_ms += MPS_USAGE_FRESH_MS;
        assert_int_equal(memory_of(7), 4711);
        assert_int_equal(mps_usages_memory(&node.usages, NULL, 7), 4711);
        assert_int_equal(mps_usages_memory(&node.usages, "GPU-2", 7), UINT64_MAX);
        assert_int_equal(memory_of(8), UINT64_MAX);
        assert_int_equal(memory_of(9), UINT64_MAX);
        own_clock_ms++;
        assert_int_equal(memory_of(7), UINT64_MAX);
}

static void test_figures_are_reported_when_they_change(void **state UNUSED)
{
        poll_once();
        assert_int_equal(node.n_changes, 1);
        own_clock_ms += 2000;
        poll_once();
        assert_int_equal(node.n_changes, 1);
        node.processes[1].memory = 1;
        poll_once();
        assert_int_equal(node.n_changes, 2);
        own_clock_ms += MPS_USAGE_FRESH_MS + 1;
        poll_once(); /* they were unknown meanwhile */
        assert_int_equal(node.n_changes, 3);
}

static void test_figures_stay_while_nvml_does_not_answer_until_they_are_old(void **state UNUSED)
{
        struct error err;

        error_raise(&err, ERROR_TIMEOUT, "it hangs");
        poll_once();
        mps_usages_poll(&node.usages);
        answer(&err);
        assert_int_equal(memory_of(7), 4711);
        assert_int_equal(node.n_changes, 1);
        mps_usages_poll(&node.usages);
        own_clock_ms += MPS_USAGE_FRESH_MS + 1;
        mps_usages_poll(&node.usages); /* not asked again meanwhile */
        assert_int_equal(node.n_changes, 2);
        assert_int_equal(memory_of(7), UINT64_MAX);
        answer(&err);
        assert_int_equal(node.n_changes, 2);
}

static void test_a_daemon_is_told_that_its_unit_is_lost(void **state UNUSED)
{
        poll_once();
        assert_string_equal(node.lost, "");
        node.code = NVML_ERROR_UNKNOWN;
        poll_once();
        assert_string_equal(node.lost, "");
        node.code = NVML_ERROR_GPU_IS_LOST;
        poll_once();
        assert_memory_equal(node.lost, "its unit GPU-1 is lost: ", strlen("its unit GPU-1 is lost: "));
        assert_int_equal(memory_of(7), UINT64_MAX);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_memory_that_was_read_too_long_ago_is_not_known),
                TEST(test_figures_are_reported_when_they_change),
                TEST(test_figures_stay_while_nvml_does_not_answer_until_they_are_old),
                TEST(test_a_daemon_is_told_that_its_unit_is_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
