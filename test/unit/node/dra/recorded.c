// SPDX-License-Identifier: Apache-2.0
/*
 * Answers of a real API server about ResourceSlices, in test/fixtures/kube-apiserver-1.36, fed to our reading of them.
 */
#include "recorded.h"

#include <stdio.h>
#include <string.h>

#include "node/dra/reconcile.h"
#include "node/dra/slices.h"
#include "net/kube/body.h"
#include "net/kube/client.h"
#include "net/kube/object.h"
#include "net/kube/watch_lines.h"

/* The body of a recorded answer, and its status. */
static unsigned int read_answer(const char *name, struct strbuf *body)
{
        char path[512];

        snprintf(path, sizeof(path), APISERVER_FIXTURES "/%s.http", name);
        return recorded_read(path, "HTTP/1.1", body);
}

static json_t *read_object(const char *name)
{
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
        json_t *object;

        read_answer(name, &body);
        object = json_loads(body.data, 0, NULL);
        assert_non_null(object);
        return object;
}

static void follow(struct watch_lines *lines, struct strbuf *log)
{
        struct watch_event event;
        struct error err;
        int rc;

        while ((rc = watch_lines_next(lines, &event, &err)) > 0) {
                const char *name = object_text(event.object, "metadata", "name", NULL);
                const json_t *pool = object_find(event.object, "spec", "pool", NULL);

                strbuf_printf(log, "%d %.8s %lld %zu, ", (int)event.type, name ? name : "-",
                        json_integer_value(json_object_get(pool, "resourceSliceCount")),
                        json_array_size(object_find(event.object, "spec", "devices", NULL)));
                json_decref(event.object);
        }
        assert_int_equal(rc, 0);
}

static void test_a_watch_of_slices_is_read_however_it_is_cut(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;

        assert_int_equal(read_answer("slice-watch", &body), 200);
        for (size_t cut = 0; cut <= body.size; cut++) {
                _cleanup_(strbuf_done) struct strbuf log = STRBUF_INIT;
                struct watch_lines lines;

                watch_lines_init(&lines, body.size);
                watch_lines_add(&lines, body.data, cut);
                follow(&lines, &log);
                watch_lines_add(&lines, body.data + cut, body.size - cut);
                follow(&lines, &log);
                watch_lines_done(&lines);
                assert_string_equal(log.data, "0 00000-gp 2 0, 0 00000-ot 1 1, 0 00001-gp 2 4, 2 00000-ot 1 1, ");
        }
}

/* In the form in which we write it, which is not the server's in every letter. */
static void test_what_a_real_server_kept_is_what_was_wanted(void **state UNUSED)
{
        struct dra_features features = {true, true, true, true};
        json_t *answer = read_object("slice-create");
        json_t *kept = json_object_get(answer, "spec");
        json_t *wanted = json_deep_copy(kept);
        json_t *device = json_array_get(json_object_get(wanted, "devices"), 0);

        json_object_del(json_array_get(json_object_get(device, "taints"), 0), "timeAdded");
        json_object_set_new(object_find(device, "capacity", "memory", NULL), "value", json_string("81920Mi"));
        assert_true(dra_slices_are_same(wanted, kept));
        dra_slices_dropped(&features, wanted, kept);
        assert_true(features.consumable_capacity && features.partitionable_devices && features.device_taints);
        json_object_set_new(object_find(device, "capacity", "memory", NULL), "value", json_string("81919Mi"));
        assert_false(dra_slices_are_same(wanted, kept));
        json_decref(wanted);
        json_decref(answer);
}

static void test_the_slices_of_another_program_are_at_rest_where_they_say_the_same(void **state UNUSED)
{
        json_t *list = read_object("slice-list");
        json_t *wanted = json_array();
        json_t *there = json_object();
        struct dra_pool pool = {.wanted = wanted, .there = there};
        size_t i;
        json_t *slice;

        json_array_foreach(json_object_get(list, "items"), i, slice)
        {
                if (strcmp(object_text(slice, "spec", "driver", NULL), DRA_DRIVER) != 0)
                        continue;
                json_array_append_new(
                        wanted, json_pack("{s: O, s: O}", "name", object_find(slice, "metadata", "name", NULL), "spec",
                                        json_object_get(slice, "spec")));
                json_object_set(there, object_text(slice, "metadata", "name", NULL), slice);
                pool.owner_uid = object_text(
                        json_array_get(object_find(slice, "metadata", "ownerReferences", NULL), 0), "uid", NULL);
        }
        assert_int_equal(json_array_size(wanted), 2);
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_NONE);
        json_array_remove(wanted, 1);
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_DELETE);
        json_decref(there);
        json_decref(wanted);
        json_decref(list);
}

static void test_a_conflict_may_be_tried_again_and_a_refusal_not(void **state UNUSED)
{
        static const struct {
                const char *name;
                enum error_kind kind;
                const char *reason;
        } table[] = {
                {"slice-replace-conflict", ERROR_UNAVAILABLE, "Conflict"},
                {"slice-invalid-422", ERROR_INVALID, "Invalid"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
                struct kube_answer answer = {.status = read_answer(table[i].name, &body), .reason = ""};
                struct error err;

                answer.text = body.data;
                answer.size = body.size;
                body_read(&answer, "PUT", "/x", false, &err);
                assert_int_equal(answer.error->kind, table[i].kind);
                assert_string_equal(answer.reason, table[i].reason);
                json_decref(answer.object);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_watch_of_slices_is_read_however_it_is_cut),
                cmocka_unit_test(test_what_a_real_server_kept_is_what_was_wanted),
                cmocka_unit_test(test_the_slices_of_another_program_are_at_rest_where_they_say_the_same),
                cmocka_unit_test(test_a_conflict_may_be_tried_again_and_a_refusal_not),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
