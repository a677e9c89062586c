// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/strbuf.h"
#include "node/cdi/spec.h"

static const char *const no_options[] = {NULL};

static char *print(const struct spec *spec)
{
        struct strbuf printed = STRBUF_INIT;
        struct error err;

        assert_ok(spec_print(spec, &printed, &err), &err);
        return strbuf_take(&printed);
}

static void test_names_are_what_the_format_allows(void **state UNUSED)
{
        static const struct {
                const char *name;
                bool is_name;
        } table[] = {
                {"GPU-8dd5a4b4-1d47-4c3b-a7b0-a5f2a4e9b9c1", true},
                {"MIG-5a4b1d47", true},
                {"0", true},
                {"0:1", true},
                {"all", true},
                {"GPU-0::3", true},
                {"a_b.c", true},
                {"", false},
                {"MIG-GPU-5a4b/1/0", false},
                {"a,b", false},
                {"a=b", false},
                {"a b", false},
                {"-a", false},
                {"a:", false},
                {"gr\xc3\xb6n", false},
        };
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                assert_int_equal(spec_is_name(table[i].name), table[i].is_name);
                assert_int_equal(spec_device(spec, table[i].name) != NULL, table[i].is_name);
                assert_int_equal(spec_has(spec, table[i].name), table[i].is_name);
        }
}

static void test_the_version_is_the_least_that_has_the_fields(void **state UNUSED)
{
        static const struct {
                const char *name;
                const struct spec_node node;
                const char *version;
        } table[] = {
                {"all", {0}, "0.3.0"},
                {"0", {0}, "0.5.0"},
                {"all", {.path = "/dev/a", .host_path = "/dev/a", .mode = 0666}, "0.5.0"},
                {"all", {.path = "/dev/a", .host_path = "/dev/a", .gid = 44}, "0.5.0"},
                {"all", {.path = "/dev/a", .host_path = "/dev/a", .gid = 0, .needs_group = true}, "0.5.0"},
                {"all", {.path = "/dev/a", .host_path = "/dev/a", .gid = 44, .needs_group = true}, "0.7.0"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
                _free_ char *printed = NULL;
                char wanted[64];

                spec_add_env(spec_device(spec, table[i].name), "A=B");
                if (table[i].node.path)
                        spec_add_node(spec_common(spec), &table[i].node);
                printed = print(spec);
                snprintf(wanted, sizeof(wanted), "\"cdiVersion\": \"%s\"", table[i].version);
                assert_non_null(strstr(printed, wanted));
        }
}

static void test_a_remark_needs_a_version_of_its_own(void **state UNUSED)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
        _free_ char *printed = NULL;

        spec_add_env(spec_device(spec, "a"), "A=B");
        spec_annotate(spec_device(spec, "a"), "example.com/x", "true");
        printed = print(spec);
        assert_non_null(strstr(printed, "\"cdiVersion\": \"0.6.0\""));
        assert_non_null(strstr(printed, "\"annotations\": {\n        \"example.com/x\": \"true\"\n      }"));
}

static void test_an_edit_is_there_once_and_common_ones_only_there(void **state UNUSED)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
        _free_ char *printed = NULL;

        spec_add_env(spec_common(spec), "A=common");
        spec_add_env(spec_common(spec), "A=common");
        spec_add_env(spec_device(spec, "b"), "A=own");
        spec_add_env(spec_device(spec, "b"), "A=common");
        spec_add_env(spec_device(spec, "a"), "A=common"); /* or it would be empty, which is not allowed */
        printed = print(spec);
        assert_string_equal(printed,
                "{\n  \"cdiVersion\": \"0.3.0\",\n  \"kind\": \"vendor/class\",\n  \"devices\": [\n"
                "    {\n      \"name\": \"a\",\n      \"containerEdits\": {\n        \"env\": [\n"
                "          \"A=common\"\n        ]\n      }\n    },\n"
                "    {\n      \"name\": \"b\",\n      \"containerEdits\": {\n        \"env\": [\n"
                "          \"A=own\"\n        ]\n      }\n    }\n  ],\n"
                "  \"containerEdits\": {\n    \"env\": [\n      \"A=common\"\n    ]\n  }\n}\n");
}

static void test_nodes_and_mounts_stand_by_depth_and_name(void **state UNUSED)
{
        static const char *const nodes[] = {"/dev/b/a", "/dev/c", "/dev/a"};
        static const char *const mounts[] = {"/usr/lib/x/y", "/run/b", "/run/a", "/etc"};
        static const char *const order[] = {"\"path\": \"/dev/a\"", "\"path\": \"/dev/c\"", "\"path\": \"/dev/b/a\"",
                "\"containerPath\": \"/etc\"", "\"containerPath\": \"/run/a\"", "\"containerPath\": \"/run/b\"",
                "\"containerPath\": \"/usr/lib/x/y\""};
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
        _free_ char *printed = NULL;
        const char *at;

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
                spec_add_node(spec_device(spec, "all"),
                        &(struct spec_node){.path = nodes[i], .host_path = nodes[i], .mode = 0666});
        for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
                spec_add_mount(spec_device(spec, "all"), mounts[i], mounts[i], no_options);
        at = printed = print(spec);
        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                at = strstr(at, order[i]);
                assert_non_null(at);
        }
}

static void test_what_is_no_text_makes_no_document(void **state UNUSED)
{
        static const char *const good[] = {"a", NULL};
        static const char *const bad[] = {"a", "\xff", NULL};

        for (int i = 0; i < 6; i++) {
                _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
                _cleanup_(strbuf_done) struct strbuf printed = STRBUF_INIT;
                struct spec_edits *edits = i % 2 ? spec_common(spec) : spec_device(spec, "all");
                struct error err;

                spec_add_env(spec_device(spec, "all"), "A=B");
                if (i == 0)
                        spec_add_env(edits, "A=\xff");
                else if (i == 1)
                        spec_add_node(edits, &(struct spec_node){.path = "/dev/a", .host_path = "\xc3/dev/a"});
                else if (i == 2)
                        spec_add_mount(edits, "/a", "/\xe2\x82", good);
                else if (i == 3)
                        spec_add_mount(edits, "/a", "/a", bad);
                else
                        spec_add_hook(edits, i == 4 ? "/\xff" : "/a", i == 4 ? good : bad, "A=B");
                assert_fails(spec_print(spec, &printed, &err), &err, ERROR_INVALID,
                        "CDI specification vendor/class: a path is not UTF-8; check the driver root and the path of "
                        "the hook");
                assert_string_equal(printed.data, "");
        }
}

static void test_a_document_needs_a_device(void **state UNUSED)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
        _cleanup_(strbuf_done) struct strbuf printed = STRBUF_INIT;
        struct error err;

        assert_null(spec_device(spec, "no/name"));
        assert_fails(
                spec_print(spec, &printed, &err), &err, ERROR_INTERNAL, "CDI specification vendor/class: no device");
}

static void test_devices_have_an_end(void **state UNUSED)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new("vendor", "class");
        char name[32];

        for (size_t i = 0; i < SPEC_MAX_DEVICES; i++) {
                snprintf(name, sizeof(name), "GPU-%zu", i);
                assert_non_null(spec_device(spec, name));
        }
        assert_null(spec_device(spec, "one-more"));
        assert_non_null(spec_device(spec, "GPU-0"));
        assert_int_equal(spec_count(spec), SPEC_MAX_DEVICES);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_are_what_the_format_allows),
                cmocka_unit_test(test_the_version_is_the_least_that_has_the_fields),
                cmocka_unit_test(test_a_remark_needs_a_version_of_its_own),
                cmocka_unit_test(test_an_edit_is_there_once_and_common_ones_only_there),
                cmocka_unit_test(test_nodes_and_mounts_stand_by_depth_and_name),
                cmocka_unit_test(test_what_is_no_text_makes_no_document),
                cmocka_unit_test(test_a_document_needs_a_device),
                cmocka_unit_test(test_devices_have_an_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
