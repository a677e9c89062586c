// SPDX-License-Identifier: Apache-2.0
/*
 * The stand-in for an API server and a scheduler, with our client and our publisher of ResourceSlices as its users: one
 * GPU, and what claims get of it.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "node/dra/publish.h"
#include "base/io/loop.h"
#include "test/unit/cluster_client.h"
#include "test/unit/node/dra/simulated.h"

#define PATIENCE_MS 60000
#define NODE "n1"

struct fixture {
        uv_loop_t loop;
        struct cluster_client api;
        char scenario[96];
        struct inventory *inventory;
        struct dra_publisher *publisher;
        bool is_published;
        bool is_answered;
        unsigned int status;
};

static void write_file(const char *path, const char *text)
{
        struct error err;

        assert_ok(file_write(path, text, strlen(text), &err), &err);
}

static void on_published(const struct error *error, void *data)
{
        if (!error)
                ((struct fixture *)data)->is_published = true;
}

static bool is_published(void *data)
{
        return ((struct fixture *)data)->is_published;
}

static void start_publisher(struct fixture *f)
{
        static const struct dra_options options = DRA_OPTIONS_DEFAULT;

        f->inventory = simulated_inventory(f->scenario);
        f->publisher = dra_publisher_new(&(struct dra_publisher_options){.loop = &f->loop,
                .client = f->api.client,
                .node = NODE,
                .driver = DRA_DRIVER,
                .pool = NODE "/" DRA_DRIVER,
                .retry_ms = 50,
                .done = on_published,
                .data = f});
        dra_publisher_put(f->publisher, f->inventory, &options);
        assert_true(loop_run_until(&f->loop, is_published, f, PATIENCE_MS));
}

static int set_up(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));

        uv_loop_init(&f->loop);
        cluster_client_open(&f->api, &f->loop, NODE);
        snprintf(f->scenario, sizeof(f->scenario), "%s/gpus.yaml", f->api.folder);
        write_file(f->scenario, "driverVersion: 580.105.08\ncudaVersion: \"13.0\"\ngpus:\n- {model: H100-80GB}\n");
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        dra_publisher_close(f->publisher);
        cluster_client_close(&f->api);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        inventory_free(f->inventory);
        unlink(f->scenario);
        cluster_client_remove(&f->api);
        free(f);
        return 0;
}

static void on_answer(const struct kube_answer *answer, void *data)
{
        struct fixture *f = data;

        f->is_answered = true;
        f->status = answer->status;
}

static bool is_answered(void *data)
{
        return ((struct fixture *)data)->is_answered;
}

static unsigned int ask(struct fixture *f, enum kube_method method, const char *path, json_t *body)
{
        f->is_answered = false;
        kube_client_send(f->api.client, &(struct kube_request){.method = method,
                                                .path = path,
                                                .body = body,
                                                .field_manager = method == KUBE_APPLY ? "test" : NULL,
                                                .done = on_answer,
                                                .data = f});
        assert_true(loop_run_until(&f->loop, is_answered, f, PATIENCE_MS));
        json_decref(body);
        return f->status;
}

/* ---- objects ---- */

static json_t *config_map(const char *key, const char *value)
{
        return json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap", "data", key, value);
}

static void test_objects_are_made_changed_and_removed(void **state)
{
        static const char path[] = "/api/v1/namespaces/default/configmaps/one";
        static const char collection[] = "/api/v1/namespaces/default/configmaps";
        struct fixture *f = *state;
        const json_t *object;

        assert_int_equal(ask(f, KUBE_GET, path, NULL), 404);
        assert_int_equal(ask(f, KUBE_APPLY, path, config_map("a", "1")), 201);
        assert_int_equal(ask(f, KUBE_MERGE_PATCH, path, json_pack("{s:{s:n, s:s}}", "data", "a", "b", "2")), 200);
        object = json_object_get(cluster_objects(f->api.cluster, collection), "one");
        assert_int_equal(json_object_size(json_object_get(object, "data")), 1);
        assert_int_equal(ask(f, KUBE_REPLACE, path, json_pack("{s:{s:s}}", "metadata", "resourceVersion", "1")), 409);
        assert_int_equal(ask(f, KUBE_CREATE, collection, json_pack("{s:{s:s}}", "metadata", "name", "one")), 409);
        assert_int_equal(ask(f, KUBE_DELETE, path, NULL), 200);
        assert_int_equal(ask(f, KUBE_MERGE_PATCH, path, json_object()), 404);
}

/* ---- slices and claims ---- */

static bool is_restored(void *data)
{
        return is_published(data) &&
               json_object_size(cluster_objects(((struct fixture *)data)->api.cluster, CLUSTER_SLICES)) == 2;
}

static void test_slices_are_published_and_put_back(void **state)
{
        struct fixture *f = *state;
        _free_ char *path = NULL;

        start_publisher(f);
        assert_true(is_restored(f));
        path = xasprintf(CLUSTER_SLICES "/%s",
                json_object_iter_key(json_object_iter(cluster_objects(f->api.cluster, CLUSTER_SLICES))));
        f->is_published = false;
        assert_int_equal(ask(f, KUBE_DELETE, path, NULL), 200);
        assert_true(loop_run_until(&f->loop, is_restored, f, PATIENCE_MS));
}

static void test_slices_that_kubelet_wipes_are_put_back(void **state)
{
        struct fixture *f = *state;
        size_t count;

        start_publisher(f);
        assert_true(is_restored(f));
        count = json_object_size(cluster_objects(f->api.cluster, CLUSTER_SLICES));
        cluster_wipe_slices(f->api.cluster, "another-node", NULL);
        cluster_wipe_slices(f->api.cluster, NODE, "another.driver");
        assert_int_equal(json_object_size(cluster_objects(f->api.cluster, CLUSTER_SLICES)), count);
        f->is_published = false;
        cluster_wipe_slices(f->api.cluster, NODE, NULL);
        assert_int_equal(json_object_size(cluster_objects(f->api.cluster, CLUSTER_SLICES)), 0);
        assert_true(loop_run_until(&f->loop, is_restored, f, PATIENCE_MS));
        assert_int_equal(json_object_size(cluster_objects(f->api.cluster, CLUSTER_SLICES)), count);
}

/* "gpu-0-shared memory=10Gi …", or "" where nothing fits. The claim is kept. */
static char *claim(struct fixture *f, const char *name, const char *class_name, json_t *capacity)
{
        struct strbuf text = STRBUF_INIT;
        json_t *object = json_pack("{s:{s:s}, s:{s:{s:[{s:s, s:{s:s, s:{s:o*}}}]}}}", "metadata", "name", name, "spec",
                "devices", "requests", "name", "gpu", "exactly", "deviceClassName", class_name, "capacity", "requests",
                capacity);
        const json_t *kept = cluster_put(f->api.cluster, CLUSTER_CLAIMS, object);
        json_t *allocation = cluster_allocate(kept, cluster_objects(f->api.cluster, CLUSTER_SLICES),
                cluster_objects(f->api.cluster, CLUSTER_CLAIMS), NODE);
        const json_t *result = json_array_get(json_object_get(json_object_get(allocation, "devices"), "results"), 0);
        const char *key;
        json_t *value;

        if (allocation) {
                strbuf_puts(&text, json_string_value(json_object_get(result, "device")));
                json_object_foreach(json_object_get(result, "consumedCapacity"), key, value)
                        strbuf_printf(&text, " %s=%s", key, json_string_value(value));
                cluster_put(f->api.cluster, CLUSTER_CLAIMS,
                        json_pack("{s:{s:s}, s:{s:o}}", "metadata", "name", name, "status", "allocation", allocation));
        }
        return strbuf_take(&text);
}

static void assert_claim(
        struct fixture *f, const char *name, const char *memory, const char *threads, const char *wanted)
{
        _free_ char *got = claim(f, name, "shared.gpu.warpshare.dev",
                json_pack("{s:s*, s:s*}", "memory", memory, "threadPercentage", threads));

        assert_string_equal(got, wanted);
}

static void assert_whole(struct fixture *f, const char *name, const char *wanted)
{
        _free_ char *got = claim(f, name, "gpu.warpshare.dev", NULL);

        assert_string_equal(got, wanted);
}

static void test_three_shares_of_one_gpu_and_not_the_whole_gpu_meanwhile(void **state)
{
        struct fixture *f = *state;

        start_publisher(f);
        assert_claim(f, "big", "40Gi", "55", "gpu-0-shared memory=40Gi threadPercentage=55 clients=1");
        assert_claim(f, "small", "10Gi", "30", "gpu-0-shared memory=10Gi threadPercentage=30 clients=1");
        assert_claim(f, "tiny", "8Gi", NULL, "gpu-0-shared memory=8Gi threadPercentage=10 clients=1");
        assert_claim(f, "late", "1Gi", NULL, "");
        assert_whole(f, "whole", "");
}

static void test_the_whole_gpu_and_no_share_meanwhile(void **state)
{
        struct fixture *f = *state;

        start_publisher(f);
        assert_whole(f, "whole", "gpu-0");
        assert_whole(f, "second", "");
        assert_claim(f, "small", "10Gi", "30", "");
}

static void test_what_is_asked_for_is_rounded_up(void **state)
{
        struct fixture *f = *state;

        start_publisher(f);
        assert_claim(f, "odd", "1073741825", "30", "gpu-0-shared memory=1074790400 threadPercentage=30 clients=1");
        assert_claim(f, "little", "1Mi", "30", "gpu-0-shared memory=268435456 threadPercentage=30 clients=1");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_objects_are_made_changed_and_removed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_slices_are_published_and_put_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_slices_that_kubelet_wipes_are_put_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_three_shares_of_one_gpu_and_not_the_whole_gpu_meanwhile, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_whole_gpu_and_no_share_meanwhile, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_asked_for_is_rounded_up, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
