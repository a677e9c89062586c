// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include "base/strbuf.h"
#include "cluster/dashboard/overview.h"

static struct dashboard_overview *overview;

static int set_up(void **state)
{
        overview = dashboard_overview_new(0xb007);
        return view_set_up(state);
}

static int tear_down(void **state)
{
        overview = dashboard_overview_free(overview);
        return view_tear_down(state);
}

static json_t *ask(const struct dashboard_scope *scope, const char *since)
{
        struct http_text *text = dashboard_overview_write(overview, &view, scope, since, 1000);
        json_t *json = json_loadb(text->data, text->size, 0, NULL);

        http_text_unref(text);
        assert_non_null(json);
        return json;
}

/* The version, for the caller to free. */
static char *version_of(json_t *answer)
{
        char *version = xstrdup(json_string_value(json_object_get(answer, "version")));

        json_decref(answer);
        return version;
}

/* "a b", and behind "|" those that are gone; "+" in front: all of them. */
static void assert_sent(json_t *answer, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *item;
        size_t i;

        strbuf_puts(&text, json_is_true(json_object_get(answer, "full")) ? "+" : "");
        json_array_foreach(json_object_get(answer, "nodes"), i, item)
                strbuf_printf(&text, "%s%s", i ? " " : "", json_string_value(json_object_get(item, "name")));
        json_array_foreach(json_object_get(answer, "gone"), i, item)
                strbuf_printf(&text, "%s%s", i ? " " : "|", json_string_value(item));
        json_decref(answer);
        assert_string_equal(text.data, expected);
}

static void change(struct cluster_node *node, const char *page)
{
        node->version = ++view.version;
        node->page = page_of(page);
}

/* ---- what is said ---- */

static void test_a_share_is_its_part_of_the_unit_and_what_is_used_of_it(void **state UNUSED)
{
        view_add("a", PAGE_A);
        view_wait_for("team-a", "later");
        assert_json(ask(&sees_all, NULL),
                "{'version': '000000000000b007-00000000-1', 'full': true, 'time': 1000, 'seesAll': true, 'isComplete': "
                "true, 'troubles': [], 'waiting': 1, 'gone': [], 'nodes': [{'name': 'a', 'state': 'answers', "
                "'namespaces': ['team-a', 'team-b'], 'gpus': [{'uuid': 'GPU-a', 'index': '0', 'model': 'NVIDIA L4', "
                "'memory': 1000, 'used': 31, 'sm': 20, 'units': [{'uuid': 'GPU-a', 'index': '0', 'sharing': 'mps', "
                "'by': 'device-plugin', 'replicas': 10, 'granted': 7, 'reserved': 2, "
                "'shares': [[300, 50, 10, 0], [400, null, null, 1]]}]}]}]}");
}

static const struct {
        const char *unit;  /* members of it */
        const char *share; /* likewise */
        const char *written;
} shares[] = {
        {"", "", "[[null, null, null, null]]"},
        {"'memory': 1000", "'memoryLimit': 250, 'memoryUsed': 50", "[[250, 20, null, null]]"}, /* DRA: no replicas */
        {"'memory': 1000", "'memoryUsed': 500", "[[null, 50, null, null]]"},
        {"'replicas': 4", "'replicas': 1, 'sm': 1", "[[250, null, 100, null]]"},
        {"'replicas': 4", "'replicas': 8, 'memoryLimit': 10, 'memoryUsed': 25", "[[2000, 250, null, null]]"},
        {"'replicas': 0, 'memory': 0", "'replicas': 0, 'memoryLimit': 0, 'memoryUsed': 1",
                "[[null, null, null, null]]"},
};

static void test_what_is_not_known_of_a_share_is_null(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
                _free_ char *page = xasprintf("{'version': 1, 'node': 'a', 'gpus': [{'uuid': 'GPU-a', 'units': "
                                              "[{'uuid': 'GPU-a'%s%s, 'shares': [{%s}]}]}]}",
                        *shares[i].unit ? ", " : "", shares[i].unit, shares[i].share);
                json_t *answer;
                json_t *node;

                view.n_nodes = 0;
                view.version++;
                view_add("a", page);
                answer = ask(&sees_all, NULL);
                node = json_array_get(json_object_get(answer, "nodes"), 0);
                node = json_array_get(json_object_get(node, "gpus"), 0);
                node = json_array_get(json_object_get(node, "units"), 0);
                assert_json(json_incref(json_object_get(node, "shares")), shares[i].written);
                json_decref(answer);
        }
}

static void test_an_unhealthy_unit_says_why(void **state UNUSED)
{
        json_t *answer;
        json_t *units;

        view_add("a", "{'version': 1, 'node': 'a', 'gpus': [{'uuid': 'GPU-a', 'units': [{'uuid': 'MIG-1', 'healthy': "
                      "false, 'reason': 'Xid 79'}, {'uuid': 'MIG-2', 'healthy': false}, {'uuid': 'MIG-3', 'healthy': "
                      "true}, {'uuid': 'MIG-4'}]}]}");
        answer = ask(&sees_all, NULL);
        units = json_object_get(json_array_get(json_object_get(answer, "nodes"), 0), "gpus");
        units = json_object_get(json_array_get(units, 0), "units");
        assert_json(json_incref(units),
                "[{'uuid': 'MIG-1', 'unhealthy': 'Xid 79', 'shares': []}, {'uuid': 'MIG-2', 'unhealthy': '', 'shares': []}, "
                "{'uuid': 'MIG-3', 'shares': []}, {'uuid': 'MIG-4', 'shares': []}]");
        json_decref(answer);
}

static void test_nodes_without_gpus_are_left_out(void **state UNUSED)
{
        const struct cluster_resource gpus[] = {{"nvidia.com/gpu", 8, 8}};
        const struct cluster_resource others[] = {{"example.com/fpga", 1, 1}, {"nvidia.com/gpu", 0, 0}};
        const struct cluster_label label = {"nvidia.com/gpu.present", "true"};
        const struct cluster_node_object objects[] = {
                {.resources = gpus, .n_resources = 1},
                {.resources = others, .n_resources = 2},
                {.labels = &label, .n_labels = 1},
        };

        view_add("answers", PAGE_A);
        view_add("cpu", NULL);
        view_add("nvidia", NULL)->object = &objects[0];
        view_add("other", NULL)->object = &objects[1];
        view_add("present", NULL)->object = &objects[2];
        view_add("silent", NULL)->state = CLUSTER_AGENT_SILENT;
        assert_sent(ask(&sees_all, NULL), "+answers nvidia present silent");
}

/* ---- what is sent again ---- */

static void test_what_has_not_changed_is_not_sent_again(void **state UNUSED)
{
        _free_ char *version = NULL;
        struct cluster_node *node;

        view_add("a", PAGE_A);
        node = view_add("b", PAGE_A);
        version = version_of(ask(&sees_all, NULL));
        assert_sent(ask(&sees_all, version), "");
        change(node, "{'version': 1, 'node': 'b', 'gpus': []}");
        assert_sent(ask(&sees_all, version), "b");
        free(version);
        version = version_of(ask(&sees_all, NULL));
        assert_sent(ask(&sees_all, version), "");
}

static void test_a_node_that_says_the_same_again_has_not_changed(void **state UNUSED)
{
        _free_ char *version = NULL;
        struct cluster_node *node = view_add("a", PAGE_A);

        version = version_of(ask(&sees_all, NULL));
        change(node, PAGE_A);
        assert_sent(ask(&sees_all, version), "");
}

static void test_nodes_that_are_gone_are_named(void **state UNUSED)
{
        _free_ char *version = NULL;

        view_add("a", PAGE_A);
        view_add("b", PAGE_A);
        view_add("c", PAGE_A);
        version = version_of(ask(&sees_all, NULL));
        view_nodes[1] = view_nodes[2];
        view.n_nodes = 2;
        view.version++;
        assert_sent(ask(&sees_all, version), "|b");
        view.n_nodes = 0;
        view.version++;
        assert_sent(ask(&sees_all, version), "|b a c");
}

static void test_whoever_has_missed_too_many_gone_nodes_is_sent_all(void **state UNUSED)
{
        _free_ char *version = NULL;
        char name[32];

        view_add("a", PAGE_A);
        version = version_of(ask(&sees_all, NULL));
        for (unsigned int round = 0; round < 3; round++) {
                for (unsigned int i = 0; i < 500; i++) {
                        snprintf(name, sizeof(name), "n%03u", i);
                        view_add(name, NULL)->state = CLUSTER_AGENT_ASKED;
                }
                view.version++;
                json_decref(ask(&sees_all, NULL));
                view.n_nodes = 1;
                view.version++;
                json_decref(ask(&sees_all, NULL));
        }
        assert_sent(ask(&sees_all, version), "+a");
}

static void test_an_unknown_version_is_answered_with_all(void **state UNUSED)
{
        static const char *const versions[] = {"", "x", "000000000000b007-00000000-", "000000000000b007-00000000-9",
                "000000000000b007-00000000-01x", "000000000000b008-00000000-1", "000000000000b007-00000001-1",
                "000000000000b007-00000000--1", "000000000000b007-00000000-99999999999999999999"};

        view_add("a", PAGE_A);
        for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
                assert_sent(ask(&sees_all, versions[i]), "+a");
}

/* ---- who sees what ---- */

static void test_whose_a_share_is_is_for_those_who_may_list_pods_there(void **state UNUSED)
{
        static const char *const namespaces[] = {"team-b"};
        const struct dashboard_scope scope = {.namespaces = namespaces, .n_namespaces = 1};
        struct http_text *text;

        view_add("a", PAGE_A);
        view_wait_for("team-a", "later");
        text = dashboard_overview_write(overview, &view, &scope, NULL, 1000);
        assert_null(strstr(text->data, "team-a"));
        assert_non_null(strstr(text->data, "\"namespaces\":[\"team-b\"]"));
        assert_non_null(strstr(text->data, "[[300,50,10,null],[400,null,null,0]]"));
        assert_non_null(strstr(text->data, "\"waiting\":0"));
        http_text_unref(text);
}

static void test_a_viewer_whose_rights_change_is_sent_all(void **state UNUSED)
{
        static const char *const namespaces[] = {"team-a", "team-b"};
        const struct dashboard_scope two = {.namespaces = namespaces, .n_namespaces = 2};
        const struct dashboard_scope one = {.namespaces = namespaces, .n_namespaces = 1};
        _free_ char *version = NULL;

        view_add("a", PAGE_A);
        version = version_of(ask(&two, NULL));
        assert_sent(ask(&two, version), "");
        assert_sent(ask(&one, version), "+a");
        assert_sent(ask(&sees_all, version), "+a");
}

static void test_those_who_see_all_share_one_text(void **state UNUSED)
{
        struct http_text *first;
        struct http_text *second;

        view_add("a", PAGE_A);
        first = dashboard_overview_write(overview, &view, &sees_all, NULL, 1000);
        second = dashboard_overview_write(overview, &view, &sees_all, NULL, 1001);
        assert_ptr_equal(first, second);
        http_text_unref(second);
        view.version++;
        second = dashboard_overview_write(overview, &view, &sees_all, NULL, 1001);
        assert_ptr_not_equal(first, second);
        http_text_unref(first);
        http_text_unref(second);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_share_is_its_part_of_the_unit_and_what_is_used_of_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_not_known_of_a_share_is_null, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_unhealthy_unit_says_why, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_nodes_without_gpus_are_left_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_has_not_changed_is_not_sent_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_node_that_says_the_same_again_has_not_changed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_nodes_that_are_gone_are_named, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_whoever_has_missed_too_many_gone_nodes_is_sent_all, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_unknown_version_is_answered_with_all, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_whose_a_share_is_is_for_those_who_may_list_pods_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_viewer_whose_rights_change_is_sent_all, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_those_who_see_all_share_one_text, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
