// SPDX-License-Identifier: Apache-2.0
/* When libcurl is loaded; what it does then is tested in test/e2e. */
#include "unit.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "net/kube/transport.h"

static const char library[] = "libcurl.so.4";

static bool is_loaded(void)
{
        return dlopen(library, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

static void on_end(struct kube_answer *answer UNUSED, void *data UNUSED)
{
        fail_msg("a transfer that was cancelled has no end");
}

static void on_closed(void *data)
{
        *(bool *)data = true;
}

/* For want of descriptors, which is over a moment later. */
static void test_the_first_transfer_that_can_loads_the_library(void **state UNUSED)
{
        const struct kube_credentials credentials = {.server = "https://127.0.0.1:1", .token = "token"};
        const struct transfer_request request = {.method = "GET", .path = "/", .timeout_ms = 1000, .on_end = on_end};
        struct closing closing = {0};
        struct transport transport;
        struct transfer *transfer;
        bool is_closed = false;
        struct rlimit before;
        struct rlimit none;
        uv_loop_t loop;
        struct error err;

        uv_loop_init(&loop);
        transport_init(&transport, &loop, &closing);
        assert_ok(transport_equip(&transport, &credentials, &err), &err);
        assert_false(is_loaded());
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 3; /* fewer than are open */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(transfer_start(&transfer, &transport, &request, &err), -1);
        assert_non_null(strstr(err.text, library));
        assert_non_null(strstr(err.text, "install libcurl"));
        assert_false(is_loaded());
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_ok(transfer_start(&transfer, &transport, &request, &err), &err);
        assert_true(is_loaded());
        transfer_cancel(transfer);
        transport_close(&transport);
        closing_end(&closing, on_closed, &is_closed);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_true(is_closed);
        assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_first_transfer_that_can_loads_the_library),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
