// SPDX-License-Identifier: Apache-2.0
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "node/dra/status.h"
#include "net/kube/object.h"

#define UID "4b1eebbc-72a4-4636-8eff-c3fa3da6fe32"
#define SHARE "a93ea23f-542f-4ade-8801-4001aff664f7"
#define TIME "2026-11-23T06:00:00Z"
#define GIB (UINT64_C(1) << 30)

#define OF_SHARE(of_tier)                                                                                              \
        {                                                                                                              \
                .pool = "node1", .request = "gpu", .device = "gpu-0-shared", .unit = "GPU-0", .share_id = SHARE,       \
                .memory_bytes = 10 * GIB, .thread_percentage = 30, .tier = of_tier, .daemon = "GPU-0"                  \
        }

static json_t *apply_of(struct dra_result *results, size_t count)
{
        const struct dra_claim claim = {.uid = UID,
                .namespace = "default",
                .name = "small1-g-2lvxk",
                .state = DRA_CLAIM_PREPARED,
                .results = results,
                .n_results = count};

        return dra_status_apply(&claim, DRA_API_V1, "gpu.warpshare.dev", TIME);
}

/* |text| has ' for ". */
static void expect_json(json_t *is, const char *text)
{
        _free_ char *copy = strdup(text);
        json_t *wanted;

        for (char *at = copy; *at; at++)
                if (*at == '\'')
                        *at = '"';
        wanted = json_loads(copy, 0, NULL);
        assert_non_null(wanted);
        if (!json_equal(is, wanted))
                fail_msg("%s\nis not\n%s", json_dumps(is, JSON_INDENT(1)), json_dumps(wanted, JSON_INDENT(1)));
        json_decref(wanted);
}

static void test_a_share_is_shown_with_its_limits_and_how_they_are_enforced(void **state UNUSED)
{
        static struct dra_result share = OF_SHARE("verified");
        json_t *apply = apply_of(&share, 1);

        expect_json(apply,
                "{'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim',"
                " 'metadata': {'name': 'small1-g-2lvxk', 'namespace': 'default', 'uid': '" UID "'},"
                " 'status': {'devices': [{'driver': 'gpu.warpshare.dev', 'pool': 'node1', 'device': 'gpu-0-shared',"
                "  'shareID': '" SHARE "', 'conditions': ["
                "   {'type': 'Ready', 'status': 'True', 'reason': 'Prepared', 'lastTransitionTime': '" TIME "',"
                "    'message': '10240 MiB and 30 % of the threads of GPU-0, tier verified'},"
                "   {'type': 'LimitsEnforced', 'status': 'True', 'reason': 'Enforced', 'lastTransitionTime': '" TIME
                "',"
                "    'message': 'the limits of this share are enforced by tier verified'}],"
                "  'data': {'uuid': 'GPU-0', 'memoryMiB': 10240, 'threadPercentage': 30, 'tier': 'verified',"
                "   'mpsDaemon': 'GPU-0'}}]}}");
        json_decref(apply);
}

static void test_limits_that_are_not_enforced_are_shown_as_such(void **state UNUSED)
{
        static const char *const tiers[] = {"default", NULL};

        for (size_t i = 0; i < ARRAY_SIZE(tiers); i++) {
                struct dra_result share = OF_SHARE(tiers[i]);
                json_t *apply = apply_of(&share, 1);
                json_t *device = json_array_get(object_find(apply, "status", "devices", NULL), 0);
                json_t *condition = json_array_get(json_object_get(device, "conditions"), 1);

                expect_json(condition,
                        "{'type': 'LimitsEnforced', 'status': 'False', 'reason': 'NotEnforced', 'lastTransitionTime': '" TIME
                        "', 'message': 'MPS cannot enforce the limits of this share here'}");
                json_decref(apply);
        }
}

static void test_devices_without_limits_say_who_else_uses_them(void **state UNUSED)
{
        static struct dra_result results[] = {
                {.pool = "node1", .request = "a", .device = "gpu-1", .unit = "GPU-1"},
                {.pool = "node1", .request = "b", .device = "gpu-2-timeslice", .unit = "GPU-2", .share_id = SHARE},
        };
        json_t *apply = apply_of(results, ARRAY_SIZE(results));

        expect_json(object_find(apply, "status", "devices", NULL),
                "[{'driver': 'gpu.warpshare.dev', 'pool': 'node1', 'device': 'gpu-1', 'conditions': ["
                "   {'type': 'Ready', 'status': 'True', 'reason': 'Prepared', 'lastTransitionTime': '" TIME "',"
                "    'message': 'GPU-1, alone'}], 'data': {'uuid': 'GPU-1'}},"
                " {'driver': 'gpu.warpshare.dev', 'pool': 'node1', 'device': 'gpu-2-timeslice', 'shareID': '" SHARE "',"
                "  'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'Prepared', 'lastTransitionTime': '" TIME
                "',"
                "    'message': 'GPU-2, in turn with other claims, without limits'}], 'data': {'uuid': 'GPU-2'}}]");
        json_decref(apply);
}

static void test_a_device_that_a_claim_has_twice_by_is_admin_is_shown_once(void **state UNUSED)
{
        static struct dra_result results[] = {
                {.pool = "node1", .request = "a", .device = "gpu-1", .unit = "GPU-1", .is_admin = true},
                {.pool = "node1", .request = "b", .device = "gpu-1", .unit = "GPU-1", .is_admin = true},
        };
        json_t *apply = apply_of(results, ARRAY_SIZE(results));

        expect_json(object_find(apply, "status", "devices", NULL),
                "[{'driver': 'gpu.warpshare.dev', 'pool': 'node1', 'device': 'gpu-1', 'conditions': ["
                "   {'type': 'Ready', 'status': 'True', 'reason': 'Prepared', 'lastTransitionTime': '" TIME "',"
                "    'message': 'GPU-1, by admin access beside its users'}], 'data': {'uuid': 'GPU-1'}}]");
        json_decref(apply);
}

static void test_the_apply_without_devices_takes_all_back(void **state UNUSED)
{
        const struct dra_claim claim = {.uid = UID, .namespace = "team", .name = "train"};
        json_t *apply = dra_status_apply(&claim, DRA_API_V1BETA2, "gpu.warpshare.dev", NULL);

        expect_json(apply, "{'apiVersion': 'resource.k8s.io/v1beta2', 'kind': 'ResourceClaim',"
                           " 'metadata': {'name': 'train', 'namespace': 'team', 'uid': '" UID "'}, 'status': {}}");
        json_decref(apply);
}

/*
 * Each field that we send is one that a real server has kept under the same key, except those of data, which it does
 * not look at.
 */
static void test_the_fields_are_those_that_a_real_server_kept(void **state UNUSED)
{
        static struct dra_result share = OF_SHARE("verified");
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
        json_t *apply = apply_of(&share, 1);
        json_t *ours = json_array_get(object_find(apply, "status", "devices", NULL), 0), *kept, *recorded, *value;
        const char *key;

        assert_int_equal(recorded_read(DRA_FIXTURES "/claim-status-apply.http", "HTTP/2", &body), 200);
        recorded = json_loadb(body.data, body.size, 0, NULL);
        assert_true(object_covers(json_object_get(recorded, "metadata"), json_object_get(apply, "metadata")));
        kept = json_array_get(object_find(recorded, "status", "devices", NULL), 0);
        json_object_foreach(ours, key, value)
        {
                if (json_is_string(value))
                        assert_string_equal(json_string_value(value), object_text(kept, key, NULL));
                else
                        assert_non_null(json_object_get(kept, key));
        }
        kept = json_array_get(json_object_get(kept, "conditions"), 0);
        ours = json_array_get(json_object_get(ours, "conditions"), 0);
        json_object_foreach(ours, key, value)
        {
                assert_true(json_is_string(json_object_get(kept, key)));
        }
        json_decref(apply);
        json_decref(recorded);
}

static void test_texts_stay_within_the_bounds_of_the_api(void **state UNUSED)
{
        static char unit[DRA_RECORD_TEXT_MAX + 1], daemon[DRA_RECORD_TEXT_MAX + 1];
        struct dra_result share = OF_SHARE("verified");
        json_t *apply, *device;
        char *data;

        for (size_t i = 0; i + 4 < sizeof(unit); i += 2)
                memcpy(unit + i + 1, "\xc3\xa4", 2);
        unit[0] = 'x';                           /* so that a cut at an even byte would be inside a character */
        memset(daemon, '"', sizeof(daemon) - 1); /* each is two bytes in JSON */
        share.unit = unit;
        share.daemon = daemon;
        apply = apply_of(&share, 1);
        device = json_array_get(object_find(apply, "status", "devices", NULL), 0);
        data = json_dumps(json_object_get(device, "data"), JSON_COMPACT);
        assert_non_null(data);
        assert_in_range(strlen(data), 1, DRA_STATUS_DATA_MAX);
        assert_int_equal(strlen(object_text(device, "data", "uuid", NULL)), DRA_STATUS_DATA_MAX / 16 - 1);
        free(data);
        json_decref(apply);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_share_is_shown_with_its_limits_and_how_they_are_enforced),
                cmocka_unit_test(test_limits_that_are_not_enforced_are_shown_as_such),
                cmocka_unit_test(test_devices_without_limits_say_who_else_uses_them),
                cmocka_unit_test(test_a_device_that_a_claim_has_twice_by_is_admin_is_shown_once),
                cmocka_unit_test(test_the_apply_without_devices_takes_all_back),
                cmocka_unit_test(test_the_fields_are_those_that_a_real_server_kept),
                cmocka_unit_test(test_texts_stay_within_the_bounds_of_the_api),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
