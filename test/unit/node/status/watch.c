// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/alloc.h"
#include "node/status/watch.h"

#define CLIENT "\"nvidia.com/gpu.deploy.client\""
#define UPGRADE "\"nvidia.com/gpu-driver-upgrade-state\""

static void test_a_node_says_by_its_labels_that_clients_of_the_driver_leave(void **state UNUSED)
{
        static const struct {
                const char *labels;
                const char *reason; /* NULL: they may be here */
        } cases[] = {
                {"null", NULL},
                {"{}", NULL},
                {"{" CLIENT ": \"true\"}", NULL},
                {"{" CLIENT ": \"paused-for-driver-upgrade\"}",
                        "nvidia.com/gpu.deploy.client=paused-for-driver-upgrade"},
                {"{" CLIENT ": \"paused-for-mig-change\"}", "nvidia.com/gpu.deploy.client=paused-for-mig-change"},
                {"{" CLIENT ": \"false\"}", "nvidia.com/gpu.deploy.client=false"},
                {"{" CLIENT ": 1}", NULL}, /* no API server says so */
                {"{" UPGRADE ": \"drain-required\"}", NULL},
                {"{" UPGRADE ": \"pod-restart-required\"}", "nvidia.com/gpu-driver-upgrade-state=pod-restart-required"},
                {"{" UPGRADE ": \"validation-required\"}", NULL},
                {"{" UPGRADE ": \"upgrade-done\"}", NULL},
                /* An operator that has the label says by it whether the driver goes. */
                {"{" CLIENT ": \"true\", " UPGRADE ": \"pod-restart-required\"}", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _free_ char *text = xasprintf("{\"metadata\": {\"labels\": %s}}", cases[i].labels);
                json_t *node = json_loads(text, 0, NULL);
                _free_ char *reason = node_clients_reason(node);

                assert_non_null(node);
                if (cases[i].reason)
                        assert_string_equal(reason, cases[i].reason);
                else if (reason)
                        fail_msg("%s: %s", cases[i].labels, reason);
                json_decref(node);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_node_says_by_its_labels_that_clients_of_the_driver_leave),
        };

        return cmocka_run_group_tests_name("node_clients", tests, NULL, NULL);
}
