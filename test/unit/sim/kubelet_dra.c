// SPDX-License-Identifier: Apache-2.0
/*
 * The kubelet stand-in for DRA, with our registration and service behind the sockets: what it finds, whom it calls, and
 * what it makes of the answers.
 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "node/dra/prepare.h"
#include "node/dra/registration.h"
#include "base/io/loop.h"
#include "sim/kubelet/dra.h"

#define PATIENCE_MS 60000
#define DRIVER "gpu.warpshare.dev"

struct driver {
        const char *instance;
        struct dra_service *service;
        struct dra_registration *registration;
        const char *refuses; /* NULL: it does not */
        char heard[256];     /* " prepare UID", … */
};

struct fixture {
        uv_loop_t loop;
        char folder[64];
        char registry[96];
        char plugins[96];
        struct driver drivers[2];
        struct kubelet_dra *dra;
        bool is_answered;
        char said[256];
        char wiped[256]; /* "all DRIVER " */
};

static void hear(struct dra_prepare *prepare, const char *what, const struct dra_claim *claim,
        dra_prepare_done_fn *done, void *data)
{
        struct driver *driver = (struct driver *)prepare;
        struct dra_result results[] = {
                {.request = "a", .pool = "n1", .device = "gpu-0-shared", .cdi_id = "kind=one", .share_id = "s"},
                {.request = "b", .pool = "n1", .device = "gpu-1-shared", .cdi_id = "kind=two", .share_id = "t"}};
        const struct dra_claim prepared = {.uid = claim->uid, .results = results, .n_results = 2};
        size_t length = strlen(driver->heard);
        struct error err;

        snprintf(driver->heard + length, sizeof(driver->heard) - length, " %s %s/%s/%s", what, claim->namespace,
                claim->name, claim->uid);
        if (driver->refuses) {
                error_raise(&err, ERROR_UNAVAILABLE, "%s", driver->refuses);
                done(NULL, &err, data);
        } else {
                done(strcmp(what, "prepare") == 0 ? &prepared : NULL, NULL, data);
        }
}

void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        hear(prepare, "prepare", claim, done, data);
}

void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        hear(prepare, "unprepare", claim, done, data);
}

void dra_prepare_abandon(struct dra_prepare *prepare UNUSED, const struct dra_claim *claim UNUSED)
{
}

void dra_prepare_settle(struct dra_prepare *prepare UNUSED)
{
}

static void start_driver(struct fixture *f, size_t i)
{
        struct driver *driver = &f->drivers[i];
        struct error err;

        driver->instance = i ? "second" : "first";
        driver->service = dra_service_new(
                &(struct dra_service_options){.loop = &f->loop, .prepare = (struct dra_prepare *)driver});
        assert_ok(dra_registration_new(&driver->registration,
                          &(struct dra_registration_options){.loop = &f->loop,
                                  .registry = f->registry,
                                  .plugins = f->plugins,
                                  .driver = DRIVER,
                                  .instance = driver->instance,
                                  .service = driver->service},
                          &err),
                &err);
}

static void on_driver_closed(void *data)
{
        struct driver *driver = data;

        driver->service = dra_service_close(driver->service);
}

static void stop_driver(struct driver *driver)
{
        dra_registration_close(TAKE_PTR(driver->registration), 0, on_driver_closed, driver);
}

static void on_wipe(const char *driver, void *data)
{
        struct fixture *f = data;
        size_t length = strlen(f->wiped);

        snprintf(f->wiped + length, sizeof(f->wiped) - length, "%s ", driver ? driver : "all");
}

static int set_up(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));
        struct error err;

        signal(SIGPIPE, SIG_IGN);
        uv_loop_init(&f->loop);
        strcpy(f->folder, "/tmp/warpshare-sim-dra-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        snprintf(f->registry, sizeof(f->registry), "%s/registry", f->folder);
        snprintf(f->plugins, sizeof(f->plugins), "%s/plugins", f->folder);
        assert_int_equal(mkdir(f->registry, 0755), 0);
        assert_ok(
                kubelet_dra_new(&f->dra,
                        &(struct kubelet_dra_options){
                                .loop = &f->loop, .registry = f->registry, .wipe_ms = 1500, .wipe = on_wipe, .data = f},
                        &err),
                &err);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        _free_ char *folder = dra_sockets_directory(f->plugins, DRIVER);
        _free_ char *lock = xasprintf("%s/serialize.lock", folder);

        f->dra = kubelet_dra_close(f->dra);
        for (size_t i = 0; i < ARRAY_SIZE(f->drivers); i++)
                if (f->drivers[i].registration)
                        stop_driver(&f->drivers[i]);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        unlink(lock);
        rmdir(folder);
        rmdir(f->plugins);
        rmdir(f->registry);
        assert_int_equal(rmdir(f->folder), 0);
        free(f);
        return 0;
}

static bool has_driver(void *data)
{
        return kubelet_dra_has(((struct fixture *)data)->dra, DRIVER);
}

static bool has_none(void *data)
{
        return !has_driver(data);
}

static bool is_answered(void *data)
{
        return ((struct fixture *)data)->is_answered;
}

static void on_answer(const char *const *cdi_ids, size_t n_cdi_ids, const char *error, void *data)
{
        struct fixture *f = data;
        size_t length = (size_t)snprintf(f->said, sizeof(f->said), "%s", error ? error : "");

        f->is_answered = true;
        for (size_t i = 0; i < n_cdi_ids; i++)
                length += (size_t)snprintf(f->said + length, sizeof(f->said) - length, " %s", cdi_ids[i]);
}

static const struct kubelet_dra_claim train = {"team", "u-1", "train"};

static const char *ask(struct fixture *f, void (*function)(struct kubelet_dra *, const char *,
                                                  const struct kubelet_dra_claim *, kubelet_dra_answer_fn *, void *))
{
        f->is_answered = false;
        function(f->dra, DRIVER, &train, on_answer, f);
        assert_true(loop_run_until(&f->loop, is_answered, f, PATIENCE_MS));
        return f->said;
}

static void test_a_driver_is_found_and_prepares_and_unprepares(void **state)
{
        struct fixture *f = *state;

        start_driver(f, 0);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        assert_string_equal(ask(f, kubelet_dra_prepare), " kind=one kind=two");
        assert_string_equal(ask(f, kubelet_dra_unprepare), "");
        assert_string_equal(f->drivers[0].heard, " prepare team/train/u-1 unprepare team/train/u-1");
}

static void test_a_missing_driver_and_a_refusal_are_errors(void **state)
{
        struct fixture *f = *state;

        assert_string_equal(ask(f, kubelet_dra_prepare), "DRA driver " DRIVER " is not registered");
        start_driver(f, 0);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        f->drivers[0].refuses = "no room";
        assert_string_equal(ask(f, kubelet_dra_prepare), "no room");
        assert_string_equal(ask(f, kubelet_dra_unprepare), "no room");
}

static void test_of_two_instances_the_one_that_came_last_is_called(void **state)
{
        struct fixture *f = *state;

        start_driver(f, 0);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        start_driver(f, 1);
        while (!f->drivers[1].heard[0])
                ask(f, kubelet_dra_prepare);
        f->drivers[0].heard[0] = '\0';
        stop_driver(&f->drivers[1]);
        while (!f->drivers[0].heard[0])
                ask(f, kubelet_dra_prepare);
        stop_driver(&f->drivers[0]);
        assert_true(loop_run_until(&f->loop, has_none, f, PATIENCE_MS));
}

static bool is_healthy(void *data)
{
        return kubelet_dra_health(((struct fixture *)data)->dra, DRIVER, "gpu-0") == KUBELET_DRA_HEALTHY;
}

static bool is_unhealthy(void *data)
{
        return kubelet_dra_health(((struct fixture *)data)->dra, DRIVER, "gpu-0") == KUBELET_DRA_UNHEALTHY;
}

static bool is_unknown(void *data)
{
        return kubelet_dra_health(((struct fixture *)data)->dra, DRIVER, "gpu-0") == KUBELET_DRA_UNKNOWN;
}

static void say(struct fixture *f, enum dra_health_status status)
{
        const struct dra_health_device device = {
                .pool_name = "n1", .device_name = "gpu-0", .status = status, .updated_unix_s = 1};

        dra_health_stream_set(dra_service_health(f->drivers[0].service), &device, 1);
}

static void test_the_health_of_devices_is_heard_until_the_driver_goes(void **state)
{
        struct fixture *f = *state;

        start_driver(f, 0);
        say(f, DRA_HEALTH_HEALTHY);
        assert_true(loop_run_until(&f->loop, is_healthy, f, PATIENCE_MS));
        assert_int_equal(kubelet_dra_health(f->dra, DRIVER, "gpu-1"), KUBELET_DRA_UNKNOWN);
        say(f, DRA_HEALTH_UNHEALTHY);
        assert_true(loop_run_until(&f->loop, is_unhealthy, f, PATIENCE_MS));
        stop_driver(&f->drivers[0]);
        assert_true(loop_run_until(&f->loop, is_unknown, f, PATIENCE_MS));
}

static bool is_wiped(void *data)
{
        return strcmp(((struct fixture *)data)->wiped, "all " DRIVER " ") == 0;
}

/* Its slices; what other drivers have at the start was there before this kubelet. */
static void test_slices_are_wiped_at_the_start_and_when_a_driver_is_away(void **state)
{
        struct fixture *f = *state;

        assert_string_equal(f->wiped, "all ");
        start_driver(f, 0);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        assert_false(loop_run_until(&f->loop, is_wiped, f, 4000));
        stop_driver(&f->drivers[0]);
        assert_true(loop_run_until(&f->loop, is_wiped, f, PATIENCE_MS));
        start_driver(f, 1);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        assert_string_equal(f->wiped, "all " DRIVER " ");
}

static void test_a_call_that_is_not_answered_ends_with_it(void **state)
{
        struct fixture *f = *state;

        start_driver(f, 0);
        assert_true(loop_run_until(&f->loop, has_driver, f, PATIENCE_MS));
        f->is_answered = false;
        kubelet_dra_prepare(f->dra, DRIVER, &train, on_answer, f);
        assert_false(f->is_answered);
        f->dra = kubelet_dra_close(f->dra);
        assert_true(f->is_answered);
        assert_string_equal(f->said, "the client was closed");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_driver_is_found_and_prepares_and_unprepares, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_missing_driver_and_a_refusal_are_errors, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_of_two_instances_the_one_that_came_last_is_called, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_health_of_devices_is_heard_until_the_driver_goes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_slices_are_wiped_at_the_start_and_when_a_driver_is_away, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_call_that_is_not_answered_ends_with_it, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
