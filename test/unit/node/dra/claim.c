// SPDX-License-Identifier: Apache-2.0
#include "recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "node/dra/claim.h"

#define UID "15ebfed7-be35-49d4-b3d5-a749dcd593f9"
#define SHARE "e7a17ed6-d8c3-4e50-8bf1-502a38e8773d"

static const struct dra_claim named = {.namespace = "team", .name = "train", .uid = UID};

/* ---- made by the test ---- */

struct made {
        struct arena arena;
        json_t *object;
        struct dra_claim claim;
        struct error err;
};

static void made_done(struct made *made)
{
        arena_done(&made->arena);
        json_decref(made->object);
}

/* Of a claim with these results and configurations (JSON lists in which ' stands for "). */
static int read_claim(struct made *made, const char *results, const char *configs)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        *made = (struct made){.arena = ARENA_INIT, .claim = named};
        strbuf_printf(&text,
                "{'metadata': {'uid': '" UID "'}, 'status': {'allocation': {'devices': {'results': %s, 'config': %s}},"
                " 'reservedFor': [{'resource': 'pods', 'name': 'a', 'uid': 'p-1'}, {'resource': 'jobs', 'uid': 'j'}, 7, {'resource': 'pods', 'uid': 'p-2'},"
                " {'apiGroup': 'scheduling.k8s.io', 'resource': 'podgroups', 'name': 'gang', 'uid': 'g-1'}]}}",
                results, configs);
        for (size_t i = 0; i < text.size; i++)
                if (text.data[i] == '\'')
                        text.data[i] = '"';
        made->object = json_loads(text.data, 0, NULL);
        assert_non_null(made->object);
        return dra_claim_read(&made->claim, &made->arena, made->object, "gpu.warpshare.dev", "n1", &made->err);
}

#define OURS "'driver': 'gpu.warpshare.dev', 'pool': 'n1', "
#define RESULT "{" OURS "'request': 'main', 'device': 'gpu-0-shared'}"

static void expect_refusal(const char *results, const char *configs, const char *text)
{
        struct made made;

        assert_int_equal(read_claim(&made, results, configs), -1);
        assert_string_equal(made.err.text, text);
        assert_int_equal(made.err.kind, ERROR_INVALID);
        made_done(&made);
}

static void test_a_share_is_read_with_what_it_takes(void **state UNUSED)
{
        struct made made;
        const struct dra_result *result;

        assert_ok(read_claim(&made,
                          "[{" OURS "'request': 'main/small', 'device': 'gpu-0-shared', 'shareID': '" SHARE "',"
                          " 'consumedCapacity': {'memory': '10Gi', 'threadPercentage': '30'}}]",
                          "[]"),
                &made.err);
        assert_int_equal(made.claim.n_results, 1);
        result = &made.claim.results[0];
        assert_string_equal(result->request, "main");
        assert_string_equal(result->subrequest, "small");
        assert_string_equal(result->device, "gpu-0-shared");
        assert_string_equal(result->share_id, SHARE);
        assert_false(result->is_admin);
        assert_int_equal(dra_claim_capacity(result, "memory", 0), INT64_C(10) << 30);
        assert_int_equal(dra_claim_capacity(result, "threadPercentage", 0), 30);
        assert_int_equal(dra_claim_capacity(result, "clients", 7), 7);
        assert_int_equal(made.claim.n_pods, 1);
        assert_string_equal(made.claim.pods[0].uid, "p-1");
        assert_string_equal(made.claim.pods[0].name, "a");
        assert_string_equal(made.claim.namespace, "team");
        made_done(&made);
}

/* The annotation may be written by a tenant, and becomes a part of a path. */
static void test_the_name_in_the_pod_is_read_if_it_can_be_one(void **state UNUSED)
{
        static const struct {
                const char *annotation; /* NULL: none */
                bool is_name;
        } cases[] = {{"gpu", true}, {NULL, false}, {"", false}, {"..", false}, {"../../etc", false}, {"a/b", false},
                {"GPU", false}, {"a-", false},
                {"a234567890123456789012345678901234567890123456789012345678901234", false}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct made made;
                struct dra_claim claim = named;

                assert_ok(read_claim(&made, "[" RESULT "]", "[]"), &made.err);
                json_object_set_new(json_object_get(made.object, "metadata"), "annotations",
                        json_pack("{s:s*}", "resource.kubernetes.io/pod-claim-name", cases[i].annotation));
                assert_ok(dra_claim_read(&claim, &made.arena, made.object, "gpu.warpshare.dev", "n1", &made.err),
                        &made.err);
                if (cases[i].is_name)
                        assert_string_equal(claim.pod_claim_name, cases[i].annotation);
                else
                        assert_null(claim.pod_claim_name);
                made_done(&made);
        }
}

static void test_results_of_other_drivers_and_of_other_nodes_are_left_out(void **state UNUSED)
{
        struct made made;

        assert_ok(read_claim(&made,
                          "[{'driver': 'nic.example.com', 'pool': 'n1', 'request': 'nic', 'device': 'eth0'},"
                          " {'driver': 'gpu.warpshare.dev', 'pool': 'n2', 'request': 'far', 'device': 'gpu-7'},"
                          " {'pool': 'n1'}, 5, {" OURS "'request': 'main', 'device': 'gpu-0', 'adminAccess': true}]",
                          "[]"),
                &made.err);
        assert_int_equal(made.claim.n_results, 1);
        assert_string_equal(made.claim.results[0].device, "gpu-0");
        assert_null(made.claim.results[0].share_id);
        assert_null(made.claim.results[0].subrequest);
        assert_true(made.claim.results[0].is_admin);
        made_done(&made);
}

static void test_a_claim_without_anything_of_ours_is_refused(void **state UNUSED)
{
        expect_refusal("[{'driver': 'nic.example.com', 'pool': 'n1', 'request': 'nic', 'device': 'eth0'}]", "[]",
                "ResourceClaim team/train: status.allocation.devices: no result is of driver 'gpu.warpshare.dev' and pool 'n1'");
}

static void test_what_cannot_be_is_refused_with_field_value_and_bound(void **state UNUSED)
{
#define AT "ResourceClaim team/train: status.allocation.devices: results[0]: "
        static const struct {
                const char *result;
                const char *text;
        } cases[] = {
                {"{" OURS "'device': 'gpu-0'}",
                        AT "request: '', must be a DNS label of at most 63 characters, or two with a '/' between"},
                {"{" OURS "'request': '../x', 'device': 'gpu-0'}",
                        AT "request: '../x', must be a DNS label of at most 63 characters, or two with a '/' between"},
                {"{" OURS "'request': 'a/', 'device': 'gpu-0'}",
                        AT "request: 'a/', must be a DNS label of at most 63 characters, or two with a '/' between"},
                {"{" OURS "'request': 'a/b/c', 'device': 'gpu-0'}",
                        AT "request: 'a/b/c', must be a DNS label of at most 63 characters, or two with a '/' between"},
                {"{" OURS "'request': 'a', 'device': 'GPU 0'}",
                        AT "device: 'GPU 0', must be a DNS label of at most 63 characters"},
                {"{" OURS "'request': 'a', 'device': '../../etc'}",
                        AT "device: '../../etc', must be a DNS label of at most 63 characters"},
                {"{" OURS "'request': 'a', 'device': '-x'}",
                        AT "device: '-x', must be a DNS label of at most 63 characters"},
                {"{" OURS "'request': 'a', 'device': 'b', 'shareID': '../x'}",
                        AT "shareID: '../x', must be a UUID in lower case"},
                {"{" OURS "'request': 'a', 'device': 'b', 'shareID': 7}",
                        AT "shareID: '', must be a UUID in lower case"},
                {"{" OURS "'request': 'a', 'device': 'b', 'shareID': '" SHARE "0'}",
                        AT "shareID: '" SHARE "0', must be a UUID in lower case"},
                {"{" OURS "'request': 'a', 'device': 'b', 'consumedCapacity': {'memory': '-1'}}",
                        AT "consumedCapacity memory: '-1', must be a quantity from 0 to 2^63-1"},
                {"{" OURS "'request': 'a', 'device': 'b', 'consumedCapacity': {'memory': 5}}",
                        AT "consumedCapacity memory: '', must be a quantity from 0 to 2^63-1"},
                {"{" OURS "'request': 'a', 'device': 'b', 'consumedCapacity': []}",
                        AT "consumedCapacity: must be an object of at most 32 entries"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(strbuf_done) struct strbuf results = STRBUF_INIT;

                strbuf_printf(&results, "[%s]", cases[i].result);
                expect_refusal(results.data, "[]", cases[i].text);
        }
}

static void test_a_device_is_given_once_unless_as_shares_or_for_an_admin(void **state UNUSED)
{
        static const char other[] = "15ebfed7-be35-49d4-b3d5-a749dcd593f9";
        _cleanup_(strbuf_done) struct strbuf results = STRBUF_INIT;
        struct made made;

        expect_refusal("[" RESULT ", " RESULT "]", "[]",
                "ResourceClaim team/train: status.allocation.devices: results[1]: device 'gpu-0-shared' is there twice");
        strbuf_printf(&results,
                "[{" OURS "'request': 'a', 'device': 'b', 'shareID': '" SHARE "'}, {" OURS
                "'request': 'a', 'device': 'b', 'shareID': '%s'}, {" OURS
                "'request': 'c', 'device': 'b', 'adminAccess': true}]",
                other);
        assert_ok(read_claim(&made, results.data, "[]"), &made.err);
        assert_int_equal(made.claim.n_results, 3);
        made_done(&made);
}

static void test_more_than_the_api_allows_is_refused(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf results = STRBUF_INIT;

        strbuf_puts(&results, "[5");
        for (size_t i = 0; i < DRA_CLAIM_RESULTS_MAX; i++)
                strbuf_puts(&results, ", 5");
        strbuf_puts(&results, "]");
        expect_refusal(results.data, "[]",
                "ResourceClaim team/train: status.allocation.devices: results: 33 entries, at most 32 are allowed");
        expect_refusal("{}", "[]", "ResourceClaim team/train: status.allocation.devices: results: not a list");
}

/* ---- configurations ---- */

static void test_what_the_claim_says_comes_after_what_its_class_says(void **state UNUSED)
{
        struct made made;

        assert_ok(
                read_claim(&made, "[" RESULT "]",
                        "[{'source': 'FromClaim', 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {'n': 1}}},"
                        " {'source': 'FromClass', 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {'n': 2}}},"
                        " {'source': 'FromClass', 'opaque': {'driver': 'nic.example.com', 'parameters': {'n': 3}}},"
                        " {'source': 'FromClass', 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {'n': 4}}}]"),
                &made.err);
        assert_int_equal(made.claim.n_configs, 3);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(json_integer_value(json_object_get(made.claim.configs[i].parameters, "n")),
                        ((const int[]){2, 4, 1})[i]);
        assert_true(made.claim.configs[1].is_of_class);
        assert_false(made.claim.configs[2].is_of_class);
        made_done(&made);
}

static void test_a_configuration_is_for_the_requests_that_it_names(void **state UNUSED)
{
        static const char *const requests[] = {"[]", "['main']", "['main/small']", "['other', 'main/small']",
                "['main/large']", "['mai']", "['mainly']", "['other']"};
        static const bool applies[] = {true, true, true, true, false, false, false, false};

        for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
                _cleanup_(strbuf_done) struct strbuf configs = STRBUF_INIT;
                struct made made;

                strbuf_printf(&configs,
                        "[{'source': 'FromClaim', 'requests': %s, 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {}}}]",
                        requests[i]);
                assert_ok(read_claim(&made, "[{" OURS "'request': 'main/small', 'device': 'gpu-0'}]", configs.data),
                        &made.err);
                if (dra_claim_config_applies(&made.claim.configs[0], &made.claim.results[0]) != applies[i])
                        fail_msg("%s", requests[i]);
                made_done(&made);
        }
}

static void test_a_configuration_that_cannot_be_is_refused(void **state UNUSED)
{
        expect_refusal("[" RESULT "]",
                "[{'source': 'FromSpace', 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {}}}]",
                "ResourceClaim team/train: status.allocation.devices: config[0]: source: 'FromSpace', must be FromClass or "
                "FromClaim");
        expect_refusal("[" RESULT "]",
                "[{'source': 'FromClaim', 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': 5}}]",
                "ResourceClaim team/train: status.allocation.devices: config[0]: opaque.parameters: not an object");
        expect_refusal("[" RESULT "]",
                "[{'source': 'FromClaim', 'requests': [5], 'opaque': {'driver': 'gpu.warpshare.dev', 'parameters': {}}}]",
                "ResourceClaim team/train: status.allocation.devices: config[0]: request: '', must be a DNS label of at most 63 "
                "characters, or two with a '/' between");
}

/* ---- of a real API server ---- */

static json_t *parse(const struct strbuf *text)
{
        json_t *object = json_loads(text->data, 0, NULL);

        assert_non_null(object);
        return object;
}

/* "gpu: gpu-0-shared 40960 MiB 55 %" */
static void expect_recorded(
        const json_t *object, const char *name, const char *uid, const char *pod_claim_name, const char *text)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf seen = STRBUF_INIT;
        struct dra_claim claim = {.namespace = "default", .name = name, .uid = uid};
        struct error err;

        assert_ok(dra_claim_read(&claim, &arena, object, "gpu.warpshare.dev", "node1", &err), &err);
        for (size_t i = 0; i < claim.n_results; i++)
                strbuf_printf(&seen, "%s: %s %zu MiB %zu %%", claim.results[i].request, claim.results[i].device,
                        (size_t)(dra_claim_capacity(&claim.results[i], "memory", 0) >> 20),
                        (size_t)dra_claim_capacity(&claim.results[i], "threadPercentage", 0));
        assert_string_equal(seen.data, text);
        assert_int_equal(claim.n_pods, 1);
        assert_string_equal(claim.pod_claim_name ? claim.pod_claim_name : "", pod_claim_name);
}

static void test_recorded_claims_are_read(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf listed = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf got = STRBUF_INIT;
        const json_t *items;
        struct error err;
        json_t *list;
        json_t *one;

        assert_ok(file_read(DRA_FIXTURES "/resourceclaims.json", (size_t)1 << 20, &listed, &err), &err);
        assert_int_equal(recorded_read(DRA_FIXTURES "/claim-get.http", "HTTP/1.1", &got), 200);
        list = parse(&listed);
        one = parse(&got);
        items = json_object_get(list, "items");
        expect_recorded(json_array_get(items, 0), "big1-g-j8qtn", "3c013d61-0790-4a3c-abe0-848069c95dd5", "g",
                "gpu: gpu-0-shared 40960 MiB 55 %");
        expect_recorded(json_array_get(items, 1), "ext1-extended-resources-7qdws",
                "c389078c-4dff-46cf-a8a1-afac17074765", "", "container-0-request-0: gpu-0-shared 8192 MiB 10 %");
        expect_recorded(
                one, "small1-g-2lvxk", "4b1eebbc-72a4-4636-8eff-c3fa3da6fe32", "g", "gpu: gpu-0-shared 10240 MiB 30 %");
        json_decref(list);
        json_decref(one);
}

static void test_another_claim_of_that_name_is_not_found_and_one_without_an_allocation_not_ready(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dra_claim claim = named;
        struct error err;
        json_t *object = json_pack("{s{ss}s{}}", "metadata", "uid", "another", "status");

        assert_non_null(object);
        assert_fails(dra_claim_read(&claim, &arena, object, "gpu.warpshare.dev", "n1", &err), &err, ERROR_NOT_FOUND,
                "ResourceClaim team/train: it is another one now: its UID is 'another' instead of '" UID "'");
        json_object_set_new(json_object_get(object, "metadata"), "uid", json_string(UID));
        assert_fails(dra_claim_read(&claim, &arena, object, "gpu.warpshare.dev", "n1", &err), &err, ERROR_UNAVAILABLE,
                "ResourceClaim team/train: it is not allocated");
        json_decref(object);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_share_is_read_with_what_it_takes),
                cmocka_unit_test(test_the_name_in_the_pod_is_read_if_it_can_be_one),
                cmocka_unit_test(test_results_of_other_drivers_and_of_other_nodes_are_left_out),
                cmocka_unit_test(test_a_claim_without_anything_of_ours_is_refused),
                cmocka_unit_test(test_what_cannot_be_is_refused_with_field_value_and_bound),
                cmocka_unit_test(test_a_device_is_given_once_unless_as_shares_or_for_an_admin),
                cmocka_unit_test(test_more_than_the_api_allows_is_refused),
                cmocka_unit_test(test_what_the_claim_says_comes_after_what_its_class_says),
                cmocka_unit_test(test_a_configuration_is_for_the_requests_that_it_names),
                cmocka_unit_test(test_a_configuration_that_cannot_be_is_refused),
                cmocka_unit_test(test_recorded_claims_are_read),
                cmocka_unit_test(test_another_claim_of_that_name_is_not_found_and_one_without_an_allocation_not_ready),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
