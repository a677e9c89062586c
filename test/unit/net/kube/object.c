// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/alloc.h"
#include "net/kube/object.h"

static json_t *parse(const char *text)
{
        json_error_t problem;
        json_t *json = json_loads(text, 0, &problem);

        if (!json)
                fail_msg("%s: %s", text, problem.text);
        return json;
}

static void test_a_path_leads_to_a_value_or_nowhere(void **state UNUSED)
{
        json_t *node =
                parse("{\"metadata\": {\"labels\": {\"nvidia.com/gpu.count\": \"8\", \"n\": 8}}, \"spec\": [1]}");

        assert_string_equal(object_text(node, "metadata", "labels", "nvidia.com/gpu.count", NULL), "8");
        assert_null(object_text(node, "metadata", "labels", "n", NULL));
        assert_int_equal(json_integer_value(object_find(node, "metadata", "labels", "n", NULL)), 8);
        assert_null(object_find(node, "spec", "labels", NULL));
        assert_null(object_find(node, "metadata", "annotations", "a", NULL));
        assert_null(object_find(NULL, "metadata", NULL));
        json_decref(node);
}

static void test_a_path_is_made_where_it_is_missing(void **state UNUSED)
{
        json_t *object = parse("{\"metadata\": {\"name\": \"n1\"}, \"spec\": 3}");
        json_t *expected = parse("{\"metadata\": {\"name\": \"n1\", \"labels\": {}}, \"spec\": {\"a\": {}}}");
        json_t *made;

        made = object_make(object, "metadata", "labels", NULL);
        assert_ptr_equal(made, object_find(object, "metadata", "labels", NULL));
        object_make(object, "spec", "a", NULL);
        assert_true(json_equal(object, expected));
        json_decref(object);
        json_decref(expected);
}

static void test_a_difference_is_what_changed_and_no_more(void **state UNUSED)
{
        static const struct {
                const char *before;
                const char *after;
                const char *patch;
        } table[] = {
                {"{}", "{}", "{}"},
                {"{\"a\":1}", "{\"a\":1}", "{}"},
                {"{\"a\":1}", "{\"a\":2}", "{\"a\":2}"},
                {"{\"a\":1}", "{}", "{\"a\":null}"},
                {"{}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
                {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1,\"c\":3}}", "{\"a\":{\"c\":3}}"},
                {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"c\":2}}", "{\"a\":{\"b\":null}}"},
                {"{\"a\":[1,2]}", "{\"a\":[1,3]}", "{\"a\":[1,3]}"},
                {"{\"a\":[1,2]}", "{\"a\":[1,2]}", "{}"},
                {"{\"a\":{\"b\":1}}", "{\"a\":[1]}", "{\"a\":[1]}"},
                {"{\"a\":1}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
                {"{\"a\":1,\"n\":null}", "{\"a\":null}", "{\"a\":null}"},
                {"{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1,\"c\":null}}", "{}"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *before = parse(table[i].before);
                json_t *after = parse(table[i].after);
                json_t *patch = object_difference(before, after);
                char *text = json_dumps(patch, JSON_COMPACT | JSON_SORT_KEYS);

                assert_string_equal(text, table[i].patch);
                free(text);
                json_decref(before);
                json_decref(after);
                json_decref(patch);
        }
}

static void test_names_are_those_of_kubernetes(void **state UNUSED)
{
        static const char *const good[] = {"n1", "a", "0", "ip-10-0-0-1.eu.compute.internal", "a.b.c"};
        static const char *const bad[] = {
                "", "N1", "-a", "a-", "a..b", "a.-b", "a-.b", ".a", "a.", "a_b", "a/b", "a b", "a%", "ü"};
        char text[256];

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_true(object_is_name(good[i]));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(object_is_name(bad[i]));
        memset(text, 'a', sizeof(text));
        text[254] = '\0';
        assert_false(object_is_name(text));
        text[253] = '\0';
        assert_true(object_is_name(text));
}

static void test_text_is_escaped_for_addresses(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf url = STRBUF_INIT;

        object_escape(&url, "metadata.name=n-1,a!=b&c ü%/~_");
        assert_string_equal(url.data, "metadata.name%3Dn-1%2Ca%21%3Db%26c%20%C3%BC%25%2F~_");
}

static void test_paths_are_escaped_part_by_part(void **state UNUSED)
{
        _free_ char *maps = object_collection("/api/v1", "gpu/..", "configmaps");
        _free_ char *map = object_path(maps, "a b");

        assert_string_equal(map, "/api/v1/namespaces/gpu%2F../configmaps/a%20b");
}

static void test_times_are_those_of_kubernetes(void **state UNUSED)
{
        _free_ char *text = object_time(INT64_C(1795352400000042));

        assert_string_equal(text, "2026-11-22T13:00:00Z");
}

static void test_an_object_covers_what_it_has_all_of(void **state UNUSED)
{
        static const struct {
                const char *object;
                const char *part;
                bool covers;
        } cases[] = {
                {"{}", "{}", true},
                {"{\"a\": \"1\", \"b\": \"2\"}", "{\"a\": \"1\"}", true},
                {"{\"a\": \"1\", \"b\": \"2\"}", "{\"a\": \"2\"}", false},
                {"{\"b\": \"2\"}", "{\"a\": \"1\"}", false},
                {NULL, "{}", true},
                {NULL, "{\"a\": \"1\"}", false},
                {"{\"a\": \"1\"}", NULL, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *object = cases[i].object ? json_loads(cases[i].object, 0, NULL) : NULL;
                json_t *part = cases[i].part ? json_loads(cases[i].part, 0, NULL) : NULL;

                assert_int_equal(object_covers(object, part), cases[i].covers);
                json_decref(object);
                json_decref(part);
        }
}

static void test_times_of_the_api_are_read(void **state UNUSED)
{
        static const struct {
                const char *text;
                int64_t seconds; /* -1: it is none */
        } table[] = {
                {"1970-01-01T00:00:01Z", 1},
                {"2026-11-26T10:00:00Z", 1795687200},
                {"2026-11-26T10:00:00.123456Z", 1795687200},
                {"2026-11-26T11:30:00+01:30", 1795687200},
                {"2026-11-26T08:00:00-02:00", 1795687200},
                {"2026-11-26T10:00:00", -1},
                {"2026-11-26T10:00:00+1", -1},
                {"2026-11-26T10:00:00+01:00x", -1},
                {"2026-11-26", -1},
                {"", -1},
                {NULL, -1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                int64_t seconds = -1;

                assert_int_equal(object_read_time(table[i].text, &seconds), table[i].seconds != -1);
                assert_int_equal(seconds, table[i].seconds);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_object_covers_what_it_has_all_of),
                cmocka_unit_test(test_a_path_leads_to_a_value_or_nowhere),
                cmocka_unit_test(test_a_path_is_made_where_it_is_missing),
                cmocka_unit_test(test_a_difference_is_what_changed_and_no_more),
                cmocka_unit_test(test_names_are_those_of_kubernetes),
                cmocka_unit_test(test_text_is_escaped_for_addresses),
                cmocka_unit_test(test_paths_are_escaped_part_by_part),
                cmocka_unit_test(test_times_are_those_of_kubernetes),
                cmocka_unit_test(test_times_of_the_api_are_read),
        };

        return cmocka_run_group_tests_name("object", tests, NULL, NULL);
}
