// SPDX-License-Identifier: Apache-2.0
/*
 * Which components of the GPU Operator are paused during a change of the MIG geometry, and which pods are theirs.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cmd/nvidia/mig_clients.h"

#define DEPLOY "nvidia.com/gpu.deploy."

static json_t *node_of(const char *labels)
{
        _free_ char *text = xasprintf("{\"metadata\": {\"labels\": {%s}}}", labels);
        json_t *node = json_loads(text, 0, NULL);

        assert_non_null(node);
        return node;
}

static void test_only_what_is_true_is_paused_and_only_what_is_paused_goes_on(void **state UNUSED)
{
        static const struct {
                const char *labels;
                bool pause;
                const char *patch; /* NULL: none */
        } cases[] = {
                {"", true, NULL},
                {"\"" DEPLOY "device-plugin\": \"true\", \"" DEPLOY "dcgm\": \"false\"", true,
                        "\"" DEPLOY "device-plugin\": \"paused-for-mig-change\""},
                {"\"" DEPLOY "dcgm\": \"true\", \"" DEPLOY "dcgm-exporter\": \"true\", \"" DEPLOY
                 "gpu-feature-discovery\": \"true\", \"" DEPLOY "nvsm\": \"true\", \"" DEPLOY
                 "client\": \"true\", \"" DEPLOY "driver\": \"true\"",
                        true,
                        "\"" DEPLOY "gpu-feature-discovery\": \"paused-for-mig-change\", \"" DEPLOY
                        "dcgm-exporter\": \"paused-for-mig-change\", \"" DEPLOY
                        "dcgm\": \"paused-for-mig-change\", \"" DEPLOY "nvsm\": \"paused-for-mig-change\", \"" DEPLOY
                        "client\": \"paused-for-mig-change\""},
                {"\"" DEPLOY "device-plugin\": \"paused-for-mig-change\"", true, NULL},
                {"\"" DEPLOY "device-plugin\": \"paused-for-mig-change\", \"" DEPLOY "dcgm\": \"false\"", false,
                        "\"" DEPLOY "device-plugin\": \"true\""},
                /* NVIDIA's sets labels that were never there, so that components come which were not. */
                {"\"" DEPLOY "dcgm\": \"\"", false, NULL},
                {"", false, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *node = node_of(cases[i].labels);
                json_t *patch = mig_clients_patch(node, cases[i].pause);
                json_t *wanted = cases[i].patch ? node_of(cases[i].patch) : NULL;

                assert_true(wanted ? json_equal(patch, wanted) : !patch);
                json_decref(wanted);
                json_decref(patch);
                json_decref(node);
        }
}

/*
 * NVIDIA's goes by the name of the plugin's pods, so it waits neither for the MPS control daemon nor for another
 * vendor's plugin.
 */
static void test_pods_are_those_whose_node_selector_is_paused(void **state UNUSED)
{
        static const struct {
                const char *pod;
                bool is_one;
        } cases[] = {
                {"{\"spec\": {\"nodeSelector\": {\"" DEPLOY
                 "device-plugin\": \"true\"}}, \"status\": {\"phase\": \"Running\"}}",
                        true},
                {"{\"spec\": {\"nodeSelector\": {\"" DEPLOY "device-plugin\": \"true\", \"x\": \"y\"}}}", true},
                {"{\"spec\": {\"nodeSelector\": {\"" DEPLOY
                 "device-plugin\": \"true\"}}, \"status\": {\"phase\": \"Succeeded\"}}",
                        false},
                {"{\"spec\": {\"nodeSelector\": {\"" DEPLOY "dcgm\": \"true\"}}}", false}, /* which is not paused */
                {"{\"spec\": {\"nodeSelector\": {\"" DEPLOY "mig-manager\": \"true\"}}}", false},
                {"{\"spec\": {}}", false},
        };
        json_t *node = node_of("\"" DEPLOY "device-plugin\": \"paused-for-mig-change\", \"" DEPLOY "dcgm\": \"false\"");

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *pod = json_loads(cases[i].pod, 0, NULL);

                assert_non_null(pod);
                assert_int_equal(mig_clients_has(node, pod), cases[i].is_one);
                json_decref(pod);
        }
        json_decref(node);
}

static void test_the_services_of_a_file_are_names_of_services(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected; /* the names, or the error behind the path */
        } cases[] = {
                {"version: v1\nsystemd-services:\n- nvsm.service\n- nvidia-dcgm\n", "nvsm.service nvidia-dcgm "},
                {"version: v1\nsystemd-services: []\n", ""},
                {"version: v1\n", ""},
                {"version: v2\n", "': version: must be v1"},
                {"version: v1\nsystemd-services:\n- --now\n", "' line 3: not the name of a service"},
                {"version: v1\nsystemd-services:\n- a b\n", "' line 3: not the name of a service"},
                {"version: v1\nsystemd-services:\n- 7\n", "' line 3: not the name of a service"},
        };
        char path[] = "/tmp/warpshare-mig-clients-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _cleanup_(strbuf_done) struct strbuf found = STRBUF_INIT;
                const char *const *names;
                size_t count;
                struct error err;

                assert_int_equal(file_write(path, cases[i].text, strlen(cases[i].text), &err), 0);
                strbuf_printf(&found, "%s", "");
                if (mig_clients_read(&names, &count, &arena, path, &err) < 0) {
                        assert_string_equal(err.text + strlen("GPU clients '") + strlen(path), cases[i].expected);
                        continue;
                }
                for (size_t j = 0; j < count; j++)
                        strbuf_printf(&found, "%s ", names[j]);
                assert_string_equal(found.data, cases[i].expected);
        }
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_what_is_true_is_paused_and_only_what_is_paused_goes_on),
                cmocka_unit_test(test_pods_are_those_whose_node_selector_is_paused),
                cmocka_unit_test(test_the_services_of_a_file_are_names_of_services),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
