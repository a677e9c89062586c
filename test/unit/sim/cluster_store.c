// SPDX-License-Identifier: Apache-2.0
/*
 * What the stand-in for an API server refuses, and what it keeps of a write: requests in, answers out.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/cluster/store.h"

#define JSON "application/json"
#define MERGE "application/merge-patch+json"
#define APPLY "application/apply-patch+yaml"
#define NODES "/api/v1/nodes"
#define NODE "/api/v1/nodes/n1"
#define EVENTS "/api/v1/namespaces/default/events"
#define CLAIM "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c1"

struct fixture {
        struct store store;
        json_t *answer;
};

static unsigned int send_body(struct fixture *f, const char *method, const char *target, const char *type, json_t *body)
{
        _free_ char *path = xasprintf("%.*s", (int)strcspn(target, "?"), target);
        const char *query = target + strlen(path);
        const struct store_request request = {
                .method = method, .path = path, .query = *query ? query + 1 : "", .content_type = type, .body = body};
        unsigned int status;

        json_decref(f->answer);
        f->answer = NULL;
        status = store_serve(&f->store, &request, &f->answer);
        json_decref(body);
        assert_non_null(f->answer);
        if (status >= 300)
                assert_int_equal(json_integer_value(json_object_get(f->answer, "code")), status);
        return status;
}

/* |body| with ' in the place of ". */
static unsigned int send_text(
        struct fixture *f, const char *method, const char *target, const char *type, const char *body)
{
        _free_ char *text = xstrdup(body);

        for (char *at = text; *at; at++)
                if (*at == '\'')
                        *at = '"';
        return send_body(f, method, target, type, *text ? json_loads(text, 0, NULL) : NULL);
}

static const char *message(const struct fixture *f)
{
        return json_string_value(json_object_get(f->answer, "message"));
}

static void assert_stored(
        const struct fixture *f, const char *collection, const char *name, const char *part, const char *wanted)
{
        const json_t *object = json_object_get(json_object_get(f->store.collections, collection), name);
        const json_t *value = json_object_get(object, part);
        _free_ char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : xstrdup("-");

        for (char *at = text; *at; at++)
                if (*at == '"')
                        *at = '\'';
        assert_string_equal(text, wanted);
}

static int set_up(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));

        store_init(&f->store);
        assert_int_equal(
                send_text(f, "POST", NODES, JSON, "{'metadata': {'name': 'n1'}, 'status': {'phase': 'Running'}}"), 201);
        assert_int_equal(send_text(f, "POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", JSON,
                                 "{'metadata': {'name': 'c1'}, 'spec': {'devices': 1}}"),
                201);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        json_decref(f->answer);
        store_done(&f->store);
        free(f);
        return 0;
}

/* ---- paths and methods ---- */

static void test_a_path_that_leads_nowhere_is_not_found(void **state)
{
        static const char *const paths[] = {
                "/",
                "/api/v1",
                "/api/v1/nothing",
                "/api/v1/nodes/n1/scale",
                "/api/v1/nodes/n1/status/more",
                "/api/v1/namespaces/default/nodes/n1",
                "/api/v2/nodes",
                "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures",
                "/apis/resource.k8s.io/v1beta1/resourceslices",
                "/apis/resource.k8s.io/v1/resourceclaims/c1",
                "/api/v1/namespaces/default/events/e/status",
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                assert_int_equal(send_text(f, "GET", paths[i], "", ""), 404);
        assert_int_equal(send_text(f, "GET", "/api/v1/nodes/n1/status", "", ""), 200);
        assert_int_equal(send_text(f, "GET", "/api/v1/pods", "", ""), 200);
}

static void test_a_method_has_its_place(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "POST", NODE, JSON, "{}"), 405);
        assert_int_equal(send_text(f, "PUT", NODES, JSON, "{}"), 405);
        assert_int_equal(send_text(f, "DELETE", NODES, "", ""), 405);
        assert_int_equal(send_text(f, "POST", "/api/v1/pods", JSON, "{'metadata': {'name': 'p'}}"), 405);
        assert_int_equal(send_text(f, "BREW", NODE, JSON, "{}"), 405);
}

static void test_a_namespace_that_is_not_there_takes_nothing(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(
                send_text(f, "POST", "/api/v1/namespaces/gpu/configmaps", JSON, "{'metadata': {'name': 'm'}}"), 404);
        assert_string_equal(message(f), "namespaces \"gpu\" not found");
        assert_int_equal(send_text(f, "GET", "/api/v1/namespaces/gpu/configmaps", "", ""), 200);
}

/* ---- bodies ---- */

static void test_a_body_of_another_type_is_refused(void **state)
{
        static const struct {
                const char *method;
                const char *path;
                const char *type;
        } cases[] = {
                {"PATCH", NODE, JSON},
                {"PATCH", NODE, ""},
                {"PATCH", NODE, "application/json-patch+json"},
                {"PUT", NODE, MERGE},
                {"POST", NODES, "text/plain"},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(send_text(f, cases[i].method, cases[i].path, cases[i].type, "{}"), 415);
        assert_string_equal(message(f),
                "the body of the request was in an unknown format - accepted media types include: application/json");
}

static void test_a_body_that_is_no_object_is_refused(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "PUT", NODE, JSON, ""), 400);
        assert_int_equal(send_text(f, "PUT", NODE, JSON, "[]"), 400);
        assert_int_equal(send_text(f, "PUT", NODE, JSON, "{'metadata': 'n1'}"), 400);
}

static void test_a_body_of_more_than_3_mib_is_refused(void **state)
{
        struct fixture *f = *state;
        const struct store_request request = {
                .method = "PUT", .path = NODE, .query = "", .content_type = JSON, .size = ADMISSION_BODY_MAX + 1};

        json_decref(f->answer);
        assert_int_equal(store_serve(&f->store, &request, &f->answer), 413);
        assert_string_equal(message(f), "Request entity too large: limit is 3145728");
}

static void test_a_body_has_to_be_of_what_its_path_says(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "PUT", NODE, JSON, "{'kind': 'Pod'}"), 400);
        assert_int_equal(send_text(f, "PUT", NODE, JSON, "{'apiVersion': 'v2'}"), 400);
        assert_int_equal(send_text(f, "PATCH", NODE, MERGE, "{'metadata': {'name': 'n2'}}"), 400);
        assert_int_equal(send_text(f, "PATCH", CLAIM, MERGE, "{'metadata': {'namespace': 'kube-system'}}"), 400);
        assert_int_equal(
                send_text(f, "PATCH", CLAIM, MERGE, "{'metadata': {'namespace': 'default', 'name': 'c1'}}"), 200);
}

/* ---- metadata ---- */

static void test_a_name_is_a_subdomain(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "POST", NODES, JSON, "{'metadata': {'name': 'Bad_Name'}}"), 422);
        assert_string_equal(message(f), "metadata.name: Invalid value: 'Bad_Name': no RFC 1123 subdomain");
        assert_int_equal(send_text(f, "POST", NODES, JSON, "{'metadata': {}}"), 422);
        assert_int_equal(send_text(f, "POST", NODES, JSON, "{'metadata': {'name': 'n2.example'}}"), 201);
        assert_int_equal(send_text(f, "POST", NODES, JSON, "{'metadata': {'name': 'n2.example'}}"), 409);
        assert_string_equal(message(f), "nodes \"n2.example\" already exists");
}

static void test_labels_and_annotations_have_a_form(void **state)
{
        static const struct {
                const char *metadata;
                unsigned int status;
        } cases[] = {
                {"{'labels': {'nvidia.com/gpu.count': '8', 'plain': ''}}", 200},
                {"{'labels': {'nvidia.com/gpu.product': 'NVIDIA-H100_80GB.HBM3'}}", 200},
                {"{'labels': {'a': 'NVIDIA H100'}}", 422},
                {"{'labels': {'a': '-a'}}", 422},
                {"{'labels': {'a': '1234567890123456789012345678901234567890123456789012345678901234'}}", 422},
                {"{'labels': {'a': 8}}", 400},
                {"{'labels': {'a/b/c': '8'}}", 422},
                {"{'labels': {'Nvidia.com/a': '8'}}", 422},
                {"{'labels': {'/a': '8'}}", 422},
                {"{'labels': {'nvidia.com/': '8'}}", 422},
                {"{'labels': {'a b': '8'}}", 422},
                {"{'labels': ['a']}", 400},
                {"{'annotations': {'warpshare.dev/config': '/any text, as long as it is one'}}", 200},
                {"{'annotations': {'a b': ''}}", 422},
                {"{'annotations': {'a': true}}", 400},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _free_ char *body = xasprintf("{'metadata': %s}", cases[i].metadata);

                if (send_text(f, "PATCH", NODE, MERGE, body) != cases[i].status)
                        fail_msg("%s: %s", body, message(f) ? message(f) : "accepted");
        }
        assert_stored(f, NODES, "n1", "status", "{'phase':'Running'}");
}

static void test_annotations_have_a_bound(void **state)
{
        struct fixture *f = *state;
        _free_ char *text = xmalloc(256 * 1024 + 1);

        memset(text, 'a', 256 * 1024);
        text[256 * 1024] = '\0';
        assert_int_equal(
                send_body(f, "PATCH", NODE, MERGE, json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "a", text)),
                422);
        assert_int_equal(send_body(f, "PATCH", NODE, MERGE,
                                 json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "a", text + 1)),
                200);
}

/* ---- versions ---- */

static void test_a_write_of_another_version_or_object_is_a_conflict(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "PUT", NODE, JSON, "{'metadata': {'resourceVersion': '1'}}"), 409);
        assert_int_equal(send_text(f, "PATCH", NODE, MERGE, "{'metadata': {'resourceVersion': '1'}}"), 409);
        assert_int_equal(send_text(f, "PATCH", NODE, MERGE, "{'metadata': {'uid': 'another'}}"), 409);
        assert_string_equal(
                message(f), "Operation cannot be fulfilled on nodes \"n1\": the object has been modified: uid");
        assert_int_equal(send_text(f, "PATCH", NODE "?fieldManager=m", APPLY,
                                 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'uid': 'another'}}"),
                409);
        assert_int_equal(send_text(f, "DELETE", NODE, JSON, "{'preconditions': {'resourceVersion': '1'}}"), 409);
        assert_int_equal(send_text(f, "PATCH", NODE, MERGE, "{'metadata': {'resourceVersion': '2'}}"), 200);
        assert_int_equal(send_text(f, "DELETE", NODE, JSON, "{'preconditions': {'resourceVersion': '4'}}"), 200);
        assert_int_equal(send_text(f, "DELETE", NODE, JSON, ""), 404);
        assert_string_equal(message(f), "nodes \"n1\" not found");
}

/* ---- the status ---- */

static void test_status_and_spec_are_written_apart(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "PATCH", CLAIM, MERGE, "{'spec': {'devices': 2}, 'status': {'a': 1}}"), 200);
        assert_stored(f, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "c1", "spec", "{'devices':2}");
        assert_stored(f, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "c1", "status", "-");
        assert_int_equal(
                send_text(f, "PATCH", CLAIM "/status", MERGE, "{'spec': {'devices': 3}, 'status': {'a': 1}}"), 200);
        assert_stored(f, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "c1", "spec", "{'devices':2}");
        assert_stored(f, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "c1", "status", "{'a':1}");
        assert_int_equal(send_text(f, "PUT", NODE, JSON, "{'metadata': {}}"), 200);
        assert_stored(f, NODES, "n1", "status", "{'phase':'Running'}");
}

/* ---- server-side apply ---- */

#define APPLIED(rest) "{'apiVersion': 'v1', 'kind': 'Node', " rest "}"

static void test_apply_says_who_applies_and_what(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "PATCH", NODE, APPLY, APPLIED("'metadata': {}")), 422);
        assert_string_equal(message(f), "fieldManager: is required for apply patch");
        assert_int_equal(send_text(f, "PATCH", NODE "?fieldManager=m", APPLY, "{'metadata': {}}"), 400);
        assert_int_equal(
                send_text(f, "PATCH", NODE "?fieldManager=m", APPLY, APPLIED("'metadata': {'managedFields': []}")),
                400);
        assert_int_equal(send_text(f, "PATCH", NODE "?force=true", MERGE, "{}"), 422);
        assert_int_equal(send_text(f, "PATCH", NODES "/n2/status?fieldManager=m", APPLY, APPLIED("'status': {}")), 404);
        assert_int_equal(send_text(f, "PATCH", NODES "/n2?fieldManager=m", APPLY, APPLIED("'metadata': {}")), 201);
}

static void test_apply_removes_what_its_manager_leaves_out(void **state)
{
        static const char metadata[] = "'metadata': {'labels': {'a': '1', 'b': '1'}}, 'x': {'y': 1}";
        struct fixture *f = *state;
        _free_ char *all = xasprintf(APPLIED("%s"), metadata);

        assert_int_equal(send_text(f, "PATCH", NODES "/n2?fieldManager=m&force=true", APPLY, all), 201);
        assert_int_equal(send_text(f, "PATCH", NODES "/n2?fieldManager=other", APPLY, APPLIED("'z': 1")), 200);
        assert_int_equal(
                send_text(f, "PATCH", NODES "/n2?fieldManager=m", APPLY, APPLIED("'metadata': {'labels': {'a': '2'}}")),
                200);
        assert_stored(f, NODES, "n2", "x", "{}");
        assert_stored(f, NODES, "n2", "z", "1");
        assert_string_equal(json_string_value(json_object_get(
                                    json_object_get(json_object_get(f->answer, "metadata"), "labels"), "a")),
                "2");
        assert_null(json_object_get(json_object_get(json_object_get(f->answer, "metadata"), "labels"), "b"));
}

static void test_a_dry_run_stores_nothing(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "POST", NODES "?dryRun=All", JSON, "{'metadata': {'name': 'n2'}}"), 201);
        assert_int_equal(send_text(f, "POST", NODES "?dryRun=All", JSON, "{'metadata': {'name': 'N2'}}"), 422);
        assert_int_equal(send_text(f, "PATCH", NODE "?dryRun=All", MERGE, "{'x': 1}"), 200);
        assert_stored(f, NODES, "n2", "metadata", "-");
        assert_stored(f, NODES, "n1", "x", "-");
}

/* ---- events ---- */

static void test_an_event_stands_where_its_object_does(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(send_text(f, "POST", EVENTS, JSON,
                                 "{'metadata': {'name': 'n1.1'}, 'involvedObject': {'kind': 'Node', 'name': 'n1'}}"),
                201);
        assert_int_equal(
                send_text(f, "POST", EVENTS, JSON,
                        "{'metadata': {'name': 'p.1'}, 'involvedObject': {'kind': 'Pod', 'namespace': 'default'}}"),
                201);
        assert_int_equal(
                send_text(f, "POST", EVENTS, JSON,
                        "{'metadata': {'name': 'p.2'}, 'involvedObject': {'kind': 'Pod', 'namespace': 'gpu'}}"),
                422);
        assert_string_equal(message(f), "involvedObject.namespace: Invalid value: 'gpu': does not match 'default'");
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                STORE_TEST(test_a_path_that_leads_nowhere_is_not_found),
                STORE_TEST(test_a_method_has_its_place),
                STORE_TEST(test_a_namespace_that_is_not_there_takes_nothing),
                STORE_TEST(test_a_body_of_another_type_is_refused),
                STORE_TEST(test_a_body_that_is_no_object_is_refused),
                STORE_TEST(test_a_body_of_more_than_3_mib_is_refused),
                STORE_TEST(test_a_body_has_to_be_of_what_its_path_says),
                STORE_TEST(test_a_name_is_a_subdomain),
                STORE_TEST(test_labels_and_annotations_have_a_form),
                STORE_TEST(test_annotations_have_a_bound),
                STORE_TEST(test_a_write_of_another_version_or_object_is_a_conflict),
                STORE_TEST(test_status_and_spec_are_written_apart),
                STORE_TEST(test_apply_says_who_applies_and_what),
                STORE_TEST(test_apply_removes_what_its_manager_leaves_out),
                STORE_TEST(test_a_dry_run_stores_nothing),
                STORE_TEST(test_an_event_stands_where_its_object_does),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
