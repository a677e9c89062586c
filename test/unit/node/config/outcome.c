// SPDX-License-Identifier: Apache-2.0
/*
 * What the node's annotations say. That they arrive is in test/e2e/test_agent_config.py.
 */
#include "unit.h"

#include "node/config/outcome.h"

static void assert_node(const struct config_status *status, const char *expected)
{
        json_t *node = config_report_node("n1", status);
        json_t *wanted = json_loads(expected, 0, NULL);
        _free_ char *text = json_dumps(node, JSON_SORT_KEYS);

        assert_non_null(wanted);
        if (!json_equal(node, wanted))
                fail_msg("%s", text);
        json_decref(wanted);
        json_decref(node);
}

#define NODE(annotations)                                                                                              \
        "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\", \"annotations\": {" annotations \
        "}}}"
#define SMALL                                                                                                          \
        "\"warpshare.dev/config\": \"small\", \"warpshare.dev/config-source\": \"ConfigMap gpu/configs, by label\", "  \
        "\"warpshare.dev/config-generation\": \"7\", \"warpshare.dev/config-hash\": \"0123456789abcdef\", "

static const struct config_status small = {.name = "small",
        .source = "ConfigMap gpu/configs",
        .by = "label",
        .hash = "0123456789abcdef",
        .generation = 7,
        .state = CONFIG_ACCEPTED};

static void test_the_report_has_the_configuration_in_force_and_the_fate_of_the_newest(void **state UNUSED)
{
        struct config_status status = small;

        assert_node(&status, NODE(SMALL "\"warpshare.dev/config-status\": \"accepted\""));
        status.state = CONFIG_REFUSED;
        status.why = "config 'small' line 3: no";
        assert_node(&status, NODE(SMALL "\"warpshare.dev/config-status\": \"refused: config 'small' line 3: no\""));
}

static void test_without_a_configuration_in_force_only_the_status_is_reported(void **state UNUSED)
{
        const struct config_status status = {.state = CONFIG_WAITING, .why = "the node's label is not known yet"};

        assert_node(&status, NODE("\"warpshare.dev/config-status\": \"waiting: the node's label is not known yet\""));
}

static void test_a_text_that_is_not_utf_8_is_reported_with_replacements(void **state UNUSED)
{
        const struct config_status status = {.state = CONFIG_REFUSED, .why = "'\xff' is none"};

        assert_node(&status, NODE("\"warpshare.dev/config-status\": \"refused: '?' is none\""));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_report_has_the_configuration_in_force_and_the_fate_of_the_newest),
                cmocka_unit_test(test_without_a_configuration_in_force_only_the_status_is_reported),
                cmocka_unit_test(test_a_text_that_is_not_utf_8_is_reported_with_replacements),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
