// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/data/yaml.h"

static void collect(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static struct yaml *load(const char *text, struct strbuf *warnings)
{
        struct yaml *yaml;
        struct error err;

        assert_ok(yaml_load(&yaml, "config 'c.yaml'", text, strlen(text), collect, warnings, &err), &err);
        return yaml;
}

/* The text must load without a warning and be this JSON. */
static void assert_json(const char *text, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        _cleanup_(yaml_unloadp) struct yaml *yaml = load(text, &warnings);
        _free_ char *json = json_dumps(yaml->root, JSON_COMPACT | JSON_ENCODE_ANY);

        assert_string_equal(json, expected);
        assert_string_equal(warnings.data, "");
}

static void assert_refused(const char *text, const char *expected)
{
        struct yaml *yaml = NULL;
        struct error err;

        assert_fails(yaml_load(&yaml, "config 'c.yaml'", text, strlen(text), NULL, NULL, &err), &err, ERROR_INVALID,
                expected);
        assert_null(yaml);
}

static void test_scalars_resolve_as_in_yaml_1_1(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"yes", "true"},
                {"y", "true"},
                {"Y", "true"},
                {"ON", "true"},
                {"True", "true"},
                {"no", "false"},
                {"N", "false"},
                {"off", "false"},
                {"FALSE", "false"},
                {"yEs", "\"yEs\""},
                {"'yes'", "\"yes\""},
                {"\"on\"", "\"on\""},
                {"~", "null"},
                {"null", "null"},
                {"Null", "null"},
                {"nULL", "\"nULL\""},
                {"''", "\"\""},
                {"0", "0"},
                {"-0", "0"},
                {"10", "10"},
                {"+10", "10"},
                {"-10", "-10"},
                {"0x1F", "31"},
                {"-0x1f", "-31"},
                {"0o17", "15"},
                {"017", "15"},
                {"0b101", "5"},
                {"1_000", "1000"},
                {"0x_ff", "255"},
                {"08", "8.0"}, /* no octal number, but a float */
                {"9223372036854775807", "9223372036854775807"},
                {"-9223372036854775808", "-9223372036854775808"},
                {"9223372036854775808", "9.2233720368547758e18"},
                {"1.5", "1.5"},
                {".5", "0.5"},
                {"5.", "5.0"},
                {"-1.5e3", "-1500.0"},
                {"1e3", "1000.0"},
                {"0x", "\"0x\""},
                {"0x0x1", "\"0x0x1\""},
                {"0b0b1", "\"0b0b1\""},
                {"--1", "\"--1\""},
                {"+-1", "\"+-1\""},
                {"1-2", "\"1-2\""},
                {"0x1p4", "\"0x1p4\""},
                {".", "\".\""},
                {"e5", "\"e5\""},
                {"_1", "\"_1\""},
                {"1e", "\"1e\""},
                {".inf", "\".inf\""},
                {"nan", "\"nan\""},
                {"2026-11-20", "\"2026-11-20\""},
                {"GPU-4cf8db2d", "\"GPU-4cf8db2d\""},
                {"0:1", "\"0:1\""},
                {"nvidia.com/gpu", "\"nvidia.com/gpu\""},
                {"!!str 5", "\"5\""},
                {"! 5", "\"5\""},
                {"!!int '5'", "5"},
                {"!!float 5", "5"},
                {"!!bool 'yes'", "true"},
                {"!!null ''", "null"},
                {"\"\\u00e9\"", "\"\xc3\xa9\""},
                {"|\n  two\n  lines\n", "\"two\\nlines\\n\""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_json(table[i][0], table[i][1]);
}

static void test_collections_become_arrays_and_objects(void **state UNUSED)
{
        assert_json("", "null");
        assert_json("# nothing\n", "null");
        assert_json("---\n", "null");
        assert_json("version: v1\n", "{\"version\":\"v1\"}");
        assert_json("a:\n- 1\n- b: no\n  c:\n", "{\"a\":[1,{\"b\":false,\"c\":null}]}");
        assert_json("{a: [], b: {}}", "{\"a\":[],\"b\":{}}");
        assert_json("{\"a\": [1, 2.5, \"x\", null, true]}", "{\"a\":[1,2.5,\"x\",null,true]}");
        /* Keys keep their text, whatever they would be as values. */
        assert_json("yes: 1\n0x10: 2\n~: 3\n", "{\"yes\":1,\"0x10\":2,\"~\":3}");
}

static void test_aliases_and_merge_keys_are_resolved(void **state UNUSED)
{
        assert_json("a: &x [1]\nb: *x\n", "{\"a\":[1],\"b\":[1]}");
        assert_json("a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}");
        assert_json("a: &x [&x 1]\nb: *x\n", "{\"a\":[1],\"b\":[1]}");
        assert_json("a: &x {p: 1, q: 2}\nb:\n  q: 3\n  <<: *x\n", "{\"a\":{\"p\":1,\"q\":2},\"b\":{\"q\":3,\"p\":1}}");
        assert_json("<<: [{p: 1}, {p: 2, q: 2}]\nr: 3\n", "{\"r\":3,\"p\":1,\"q\":2}");
        assert_json("'<<': 1\n", "{\"<<\":1}");
        /* Several: what a later one says counts, and an own key before all of them. */
        assert_json("<<: {p: 1, q: 1, r: 1}\nr: 3\n<<: {q: 2, r: 2, s: 2}\n", "{\"r\":3,\"q\":2,\"s\":2,\"p\":1}");
        assert_refused("a: *x\n", "config 'c.yaml' line 1: alias '*x' has no anchor before it");
        assert_refused("a: &x\n  - *x\n", "config 'c.yaml' line 2: alias '*x' stands inside its own anchor");
        assert_refused(
                "a: 1\n<<: 5\n", "config 'c.yaml' line 2: the value of '<<' must be a mapping or a list of mappings");
}

static void test_every_value_knows_its_line(void **state UNUSED)
{
        static const char text[] = "# comment\n"
                                   "sharing:\n"
                                   "  mps:\n"
                                   "    resources:\n"
                                   "    - name: nvidia.com/gpu\n"
                                   "      replicas: 4\n"
                                   "    -\n"
                                   "      name: b\n"
                                   "list: [1,\n"
                                   "  2]\n"
                                   "base: &base\n"
                                   "  x: 1\n"
                                   "derived:\n"
                                   "  <<: *base\n"
                                   "  y: 2\n";
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        _cleanup_(yaml_unloadp) struct yaml *yaml = load(text, &warnings);
        const json_t *sharing = json_object_get(yaml->root, "sharing");
        const json_t *mps = json_object_get(sharing, "mps");
        const json_t *resources = json_object_get(mps, "resources");
        const json_t *list = json_object_get(yaml->root, "list");
        const json_t *derived = json_object_get(yaml->root, "derived");

        assert_int_equal(yaml_line(yaml, yaml->root), 2);
        assert_int_equal(yaml_line_of(yaml, yaml->root, "sharing"), 2);
        assert_int_equal(yaml_line_of(yaml, mps, "resources"), 4);
        assert_int_equal(yaml_line_at(yaml, resources, 0), 5);
        assert_int_equal(yaml_line_of(yaml, json_array_get(resources, 0), "replicas"), 6);
        assert_int_equal(yaml_line_of(yaml, json_array_get(resources, 1), "name"), 8);
        assert_int_equal(yaml_line_at(yaml, list, 1), 10);
        assert_int_equal(yaml_line_of(yaml, derived, "x"), 12);
        assert_int_equal(yaml_line_of(yaml, derived, "y"), 15);
        assert_int_equal(yaml_line_of(yaml, derived, "absent"), 0);
        assert_int_equal(yaml_line_at(yaml, list, 2), 0);
        assert_int_equal(yaml_line(yaml, NULL), 0);
}

static void test_what_is_ignored_is_warned_about(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        _cleanup_(yaml_unloadp) struct yaml *yaml = load("a: {x: 1}\nb: 2\na: 3\n---\nc: 4\n", &warnings);
        _free_ char *json = json_dumps(yaml->root, JSON_COMPACT);

        assert_string_equal(json, "{\"a\":3,\"b\":2}");
        assert_int_equal(yaml_line_of(yaml, yaml->root, "a"), 3);
        assert_string_equal(warnings.data,
                "config 'c.yaml' line 3: key 'a' is there already (line 1); the last one counts\n"
                "config 'c.yaml' line 4: a second document begins here; only the first is read\n");
}

static void test_broken_text_is_refused_with_its_line(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"a: [1, 2\n",
                        "config 'c.yaml' line 2: while parsing a flow sequence: did not find expected ',' or ']'"},
                {"a: 1\n b: 2\n", "config 'c.yaml' line 2: mapping values are not allowed in this context"},
                {"a: 1\n\tb: 2\n",
                        "config 'c.yaml' line 2: while scanning a plain scalar: found a tab character that violates indentation"},
                {"? [a]\n: 1\n", "config 'c.yaml' line 1: a key must be a plain word or a string"},
                {"a: \"x\\0y\"\n", "config 'c.yaml' line 1: a value with a NUL character"},
                {"\"x\\0y\": 1\n", "config 'c.yaml' line 1: a key with a NUL character or of more than 1024 bytes"},
                {"a: !!int x\n", "config 'c.yaml' line 1: 'x' cannot be read as 'tag:yaml.org,2002:int'"},
                {"a: !mine x\n", "config 'c.yaml' line 1: 'x' cannot be read as '!mine'"},
                {"a: 1\nb: \xff\n", "config 'c.yaml': byte 8: invalid leading UTF-8 octet"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_refused(table[i][0], table[i][1]);
}

static void test_numbers_beyond_a_double_stay_text(void **state UNUSED)
{
        assert_json("1e999", "\"1e999\"");
        assert_refused("!!float 1e999", "config 'c.yaml' line 1: '1e999' cannot be read as 'tag:yaml.org,2002:float'");
}

static void test_nesting_is_bounded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (int i = 0; i < 65; i++)
                strbuf_putc(&text, '[');
        for (int i = 0; i < 65; i++)
                strbuf_putc(&text, ']');
        assert_refused(text.data, "config 'c.yaml' line 1: nested deeper than 64 levels");
        text.data[0] = ' ';
        text.data[text.size - 1] = ' ';
        {
                _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;

                yaml_unload(load(text.data, &warnings));
        }
        strbuf_clear(&text);
        /* 40 levels below an anchor, and its alias 40 levels deep. */
        strbuf_puts(&text, "a: &a ");
        for (int i = 0; i < 40; i++)
                strbuf_putc(&text, '[');
        for (int i = 0; i < 40; i++)
                strbuf_putc(&text, ']');
        strbuf_puts(&text, "\nb: ");
        for (int i = 0; i < 40; i++)
                strbuf_putc(&text, '[');
        strbuf_puts(&text, "*a");
        for (int i = 0; i < 40; i++)
                strbuf_putc(&text, ']');
        assert_refused(text.data, "config 'c.yaml' line 2: nested deeper than 64 levels");
}

static void test_directives_are_bounded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf few = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf many = STRBUF_INIT;

        strbuf_puts(&many, "# comment\r%TAG !x! x\n");
        for (int i = 0; i < 16; i++) {
                strbuf_printf(&few, "\n%%TAG !a%d! x", i);
                strbuf_printf(&many, "%%TAG !a%d! x\n", i);
        }
        strbuf_puts(&few, "\n--- 100%\n");
        strbuf_puts(&many, "--- 1\n");
        assert_json(few.data, "\"100%\"");
        assert_refused(many.data, "config 'c.yaml': 17 directives (lines that begin with '%'), at most 16");
}

/* The bytes, which may have NULs, must be this JSON; NULL: they are refused as UTF-16. */
static void assert_bytes(const char *bytes, size_t size, const char *expected)
{
        struct yaml *yaml = NULL;
        struct error err;
        int rc = yaml_load(&yaml, "config 'c.yaml'", bytes, size, NULL, NULL, &err);
        _free_ char *json = rc == 0 ? json_dumps(yaml->root, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

        yaml_unload(yaml);
        if (expected) {
                assert_ok(rc, &err);
                assert_string_equal(json, expected);
                return;
        }
        assert_int_equal(rc, -1);
        assert_string_equal(err.text, "config 'c.yaml': begins as UTF-16, but is not: write it as UTF-8");
}

#define BYTES(text) text, sizeof(text) - 1

static void test_a_byte_order_mark_says_which_utf_it_is(void **state UNUSED)
{
        assert_bytes(BYTES("\xef\xbb\xbf"
                           "a: 1\nb: 2\n"),
                "{\"a\":1,\"b\":2}");
        assert_bytes(BYTES("\xef\xbb\xbf{\"a\": 1}"), "{\"a\":1}");
        assert_bytes(BYTES("\xff\xfe"
                           "a\0:\0 \0\xe9\0\n\0b\0:\0 \0\xac\x20\n\0"),
                "{\"a\":\"\xc3\xa9\",\"b\":\"\xe2\x82\xac\"}");
        assert_bytes(BYTES("\xfe\xff"
                           "\0a\0:\0 \xd8\x3d\xde\x00\0\n\0b\0:\0 \0\x31"),
                "{\"a\":\"\xf0\x9f\x98\x80\",\"b\":1}");
        assert_bytes(BYTES("\xff\xfe"), "null");
        assert_bytes(BYTES("\xff\xfe"
                           "a"),
                NULL);
        assert_bytes(BYTES("\xfe\xff\xd8\x3d"), NULL);
        assert_bytes(BYTES("\xfe\xff\xd8\x3d\0a"), NULL);
        assert_bytes(BYTES("\xfe\xff\xde\0"), NULL);
        assert_refused("\xc3\x28", "config 'c.yaml': byte 1: invalid trailing UTF-8 octet");
}

/* The bound of directives holds whatever the text is written in. */
static void test_directives_are_counted_in_utf16_too(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct yaml *yaml = NULL;
        struct error err;

        strbuf_append(&text, BYTES("\xff\xfe%\0"));
        for (size_t i = 0; i < YAML_MAX_DIRECTIVES + 1; i++)
                strbuf_append(&text, BYTES("a\0\n\0%\0"));
        assert_fails(yaml_load(&yaml, "config 'c.yaml'", text.data, text.size, NULL, NULL, &err), &err, ERROR_INVALID,
                "config 'c.yaml': 17 directives (lines that begin with '%'), at most 16");
}

static void test_an_alias_bomb_is_refused(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for (int i = 1; i < 10; i++) {
                strbuf_printf(&text, "a%d: &a%d [", i, i);
                for (int j = 0; j < 10; j++)
                        strbuf_printf(&text, "*a%d%s", i - 1, j < 9 ? ", " : "]\n");
        }
        assert_refused(
                text.data, "config 'c.yaml' line 5: more than 20000 values (aliases count as what they stand for)");
}

static void test_a_merge_bomb_is_refused(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "base: &base {");
        for (int i = 0; i < 1000; i++)
                strbuf_printf(&text, "k%d: 1, ", i);
        strbuf_puts(&text, "}\nlist:\n");
        for (int i = 0; i < 20; i++)
                strbuf_puts(&text, "- {<<: *base}\n");
        assert_refused(
                text.data, "config 'c.yaml' line 12: more than 20000 values (aliases count as what they stand for)");
}

static void test_the_number_of_values_is_bounded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;

        for (int i = 0; i < 19999; i++)
                strbuf_puts(&text, "- 1\n");
        yaml_unload(load(text.data, &warnings));
        strbuf_puts(&text, "- 1\n");
        assert_refused(
                text.data, "config 'c.yaml' line 20000: more than 20000 values (aliases count as what they stand for)");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scalars_resolve_as_in_yaml_1_1),
                cmocka_unit_test(test_collections_become_arrays_and_objects),
                cmocka_unit_test(test_aliases_and_merge_keys_are_resolved),
                cmocka_unit_test(test_every_value_knows_its_line),
                cmocka_unit_test(test_what_is_ignored_is_warned_about),
                cmocka_unit_test(test_broken_text_is_refused_with_its_line),
                cmocka_unit_test(test_numbers_beyond_a_double_stay_text),
                cmocka_unit_test(test_nesting_is_bounded),
                cmocka_unit_test(test_directives_are_bounded),
                cmocka_unit_test(test_a_byte_order_mark_says_which_utf_it_is),
                cmocka_unit_test(test_directives_are_counted_in_utf16_too),
                cmocka_unit_test(test_an_alias_bomb_is_refused),
                cmocka_unit_test(test_a_merge_bomb_is_refused),
                cmocka_unit_test(test_the_number_of_values_is_bounded),
        };

        return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
