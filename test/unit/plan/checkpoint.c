// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "plan/checkpoint.h"

#define GPU "GPU-12345678-1234-1234-1234-12345678000"
#define POD "4f3cdcd6-7dd5-4b1c-bb05-851a7011b4ad"

/* "<pod>/<container> <resource>=<id>,<id>" for each entry, separated by ';'. */
static void assert_entries(const char *prefix, const char *json, const char *expected)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct checkpoint checkpoint = {0};
        struct error err;

        assert_ok(checkpoint_read(&checkpoint, &arena, prefix, json, strlen(json), &err), &err);
        for (size_t i = 0; i < checkpoint.n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint.entries[i];

                strbuf_printf(&text, "%s%s/%s %s=", i ? ";" : "", entry->pod_uid, entry->container, entry->resource);
                for (size_t j = 0; j < entry->n_devices; j++)
                        strbuf_printf(&text, "%s%s", j ? "," : "", entry->devices[j]);
        }
        assert_string_equal(text.data, expected);
}

static void test_the_record_of_a_real_kubelet_is_read(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(KUBELET_FIXTURES "/" CHECKPOINT_NAME ".json", CHECKPOINT_MAX, &text, &err), &err);
        assert_entries("nvidia.com/", text.data,
                POD "/c nvidia.com/rec=" GPU "1::5," GPU "6::8," GPU "7::6;" POD "/d nvidia.com/rec=" GPU "3::9");
        assert_entries("nvidia.com/gpu", text.data, "");
}

static void test_ids_go_by_numa_node_or_are_a_list(void **state UNUSED)
{
        assert_entries("",
                "{\"Data\":{\"PodDeviceEntries\":["
                "{\"PodUID\":\"p\",\"ContainerName\":\"c\",\"ResourceName\":\"a/b\",\"DeviceIDs\":{\"0\":[\"x\",\"y\"],\"1\":[\"y\",\"z\"]}},"
                "{\"PodUID\":\"p\",\"ContainerName\":\"d\",\"ResourceName\":\"a/b\",\"DeviceIDs\":[\"v\",\"w\",\"v\"]}]}}",
                "p/c a/b=x,y,z;p/d a/b=v,w");
}

static void test_entries_that_are_not_as_expected_are_left_out(void **state UNUSED)
{
        assert_entries("",
                "{\"Data\":{\"PodDeviceEntries\":[7,{},null,"
                "{\"PodUID\":\"\",\"ContainerName\":\"c\",\"ResourceName\":\"r\",\"DeviceIDs\":[\"x\"]},"
                "{\"PodUID\":\"p\",\"ContainerName\":3,\"ResourceName\":\"r\",\"DeviceIDs\":[\"x\"]},"
                "{\"PodUID\":\"p\",\"ContainerName\":\"c\",\"DeviceIDs\":[\"x\"]},"
                "{\"PodUID\":\"p\",\"ContainerName\":\"c\",\"ResourceName\":\"r\"},"
                "{\"PodUID\":\"p\",\"ContainerName\":\"c\",\"ResourceName\":\"r\",\"DeviceIDs\":{\"0\":7,\"1\":[]}},"
                "{\"PodUID\":\"p\",\"ContainerName\":\"c\",\"ResourceName\":\"r\",\"DeviceIDs\":[7,\"x\"]}]}}",
                "p/c r=x");
}

static void test_a_kubelet_without_pods_has_none(void **state UNUSED)
{
        assert_entries("", "{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}},\"Checksum\":1}", "");
        assert_entries("", "{\"Data\":{\"PodDeviceEntries\":[]}}", "");
}

static void test_what_is_no_checkpoint_is_refused(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected;
        } rows[] = {
                {"", "no checkpoint of kubelet's devices: '[' or '{' expected near end of file"},
                {"[]", "no checkpoint of kubelet's devices: it has no Data.PodDeviceEntries"},
                {"{\"Data\":{}}", "no checkpoint of kubelet's devices: it has no Data.PodDeviceEntries"},
                {"{\"Data\":{\"PodDeviceEntries\":{}}}",
                        "no checkpoint of kubelet's devices: it has no Data.PodDeviceEntries"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint checkpoint;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_fails(checkpoint_read(&checkpoint, &arena, "", rows[i].text, strlen(rows[i].text), &err), &err,
                        ERROR_INVALID, rows[i].expected);
        assert_fails(checkpoint_read(&checkpoint, &arena, "", "", CHECKPOINT_MAX + 1, &err), &err, ERROR_INVALID,
                "16777217 bytes are more than the limit of 16777216");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_record_of_a_real_kubelet_is_read),
                cmocka_unit_test(test_ids_go_by_numa_node_or_are_a_list),
                cmocka_unit_test(test_entries_that_are_not_as_expected_are_left_out),
                cmocka_unit_test(test_a_kubelet_without_pods_has_none),
                cmocka_unit_test(test_what_is_no_checkpoint_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
