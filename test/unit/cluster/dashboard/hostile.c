// SPDX-License-Identifier: Apache-2.0
/*
 * Names from the cluster are anybody's: whatever bytes they have, each answer is JSON, says them as they are, and
 * nothing of what the viewer may not know. That the page takes them for text and not for markup is browser/page's.
 */
#include "view.h"

#include <stdlib.h>

#include "base/text.h"
#include "cluster/dashboard/details.h"
#include "cluster/dashboard/viewer.h"
#include "cluster/dashboard/overview.h"
#include "cluster/dashboard/server.h"
#include "cluster/dashboard/search.h"

static const char *const pieces[] = {"<script>alert(1)</script>", "\"", "\\", "'", "</style>", "]}", "\n", "&lt;",
        "{\"a\":1}", "\xc3\xa4", "\xe2\x80\xae", "\xf0\x9f\x92\xa9", "javascript:", "%00", "../", "\t", "\x7f", "x"};

static char *any_name(void)
{
        char *name = arena_strdup(&view_arena, "");

        for (int i = 0; i < 1 + rand() % 4; i++)
                name = arena_printf(&view_arena, "%s%s", name, pieces[(size_t)rand() % ARRAY_SIZE(pieces)]);
        return name;
}

/* What the tables of a node's page write is cleaned once more; other texts are said as they are. */
static bool is_said(const json_t *strings, const char *name)
{
        _free_ char *cleaned = xstrdup(name);

        text_clean(cleaned);
        return json_object_get(strings, name) || json_object_get(strings, cleaned);
}

/* All strings of |json|, as keys of an object. */
static void collect(json_t *json, json_t *into)
{
        const char *key;
        json_t *value;
        size_t i;

        if (json_is_string(json))
                json_object_set_new(into, json_string_value(json), json_true());
        json_array_foreach(json, i, value) collect(value, into);
        json_object_foreach(json, key, value) collect(value, into);
}

/* Takes |json|. */
static void assert_says(json_t *json, const char *const *names, size_t n_names, const char *secret)
{
        _free_ char *text = json_dumps(json, DASHBOARD_JSON_FLAGS);
        json_t *again = json_loads(text, 0, NULL);
        json_t *strings = json_object();

        assert_true(json_equal(json, again));
        collect(again, strings);
        for (size_t i = 0; i < n_names; i++)
                if (!is_said(strings, names[i]))
                        fail_msg("'%s' is not in %s", names[i], text);
        assert_false(is_said(strings, secret));
        json_decref(strings);
        json_decref(again);
        json_decref(json);
}

static void test_any_name_is_said_as_it_is(void **state UNUSED)
{
        struct report_share shares[2] = {report_share_unknown, report_share_unknown};
        struct report_unit unit = report_unit_unknown;
        struct report_gpu gpu = report_gpu_unknown;
        struct report_event event = {.time = 1};
        struct node_page page = {.version = 1, .gpus = &gpu, .n_gpus = 1, .events = &event, .n_events = 1};

        srand(15);
        for (unsigned int round = 0; round < 500; round++) {
                const char *const secret = arena_printf(&view_arena, "secret%s", any_name());
                struct dashboard_overview *overview = dashboard_overview_new(round);
                const char *const all[] = {any_name(), any_name(), any_name(), any_name()};
                const struct dashboard_scope scope = {.namespaces = &all[0], .n_namespaces = 1};
                struct http_text *text;

                view.n_nodes = 0;
                view.version++;
                shares[0].pod_namespace = all[0];
                shares[0].pod = all[1];
                shares[1].pod_namespace = arena_printf(&view_arena, "%s-", all[0]);
                shares[1].pod = secret;
                event.text = secret;
                unit.uuid = gpu.uuid = all[2];
                unit.shares = shares;
                unit.n_shares = 2;
                gpu.units = &unit;
                gpu.n_units = 1;
                view_add(all[3], NULL)->page = &page;
                assert_says(dashboard_gpu(&view, &scope, all[2]), all, 4, secret);
                assert_says(dashboard_node(&view, &scope, all[3]), all, 4, secret);
                assert_says(dashboard_pod(&view, &scope, all[0], all[1]), all, 4, secret);
                assert_says(dashboard_search(&view, &scope, all[1]), &all[1], 1, secret);
                text = dashboard_overview_write(overview, &view, &scope, NULL, 1);
                assert_says(json_loadb(text->data, text->size, 0, NULL), &all[2], 2, secret);
                http_text_unref(text);
                dashboard_overview_free(overview);
        }
}

/* ---- the page's own files ---- */

static bool file_has(const struct embedded_file *file, const char *text)
{
        return memmem(file->data, file->size, text, strlen(text));
}

static void test_the_page_makes_no_markup_of_texts_and_asks_nobody_else(void **state UNUSED)
{
        static const char *const forbidden[] = {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                "eval(", "new Function", "DOMParser", "createContextualFragment", "localStorage", "sessionStorage",
                "document.cookie", "https://", "@import", "url("};

        for (const struct embedded_file *file = dashboard_page; file->name; file++)
                for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
                        if (file_has(file, forbidden[i]))
                                fail_msg("%s has '%s'", file->name, forbidden[i]);
        assert_true(file_has(dashboard_page_find("script.js"), "document"));
}

static void test_files_are_found_by_name_with_their_types(void **state UNUSED)
{
        assert_string_equal(dashboard_page_find("")->name, "index.html");
        assert_null(dashboard_page_find("nothing.js"));
        assert_null(dashboard_page_find("../index.html"));
        assert_string_equal(dashboard_page_type("index.html"), "text/html; charset=utf-8");
        assert_string_equal(dashboard_page_type("a.b.js"), "text/javascript; charset=utf-8");
        assert_string_equal(dashboard_page_type("a"), "application/octet-stream");
        for (const struct embedded_file *file = dashboard_page; file->name; file++) {
                assert_string_not_equal(dashboard_page_type(file->name), "application/octet-stream");
                assert_int_equal(file->data[file->size], 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_any_name_is_said_as_it_is, view_set_up, view_tear_down),
                cmocka_unit_test(test_the_page_makes_no_markup_of_texts_and_asks_nobody_else),
                cmocka_unit_test(test_files_are_found_by_name_with_their_types),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
