/*
 * Whether a node has what is to be kept on it. That it is put back is in test/e2e: agent_config, mig_manager.
 */
#include "unit.h"

#include "base/macro.h"
#include "node/status/apply.h"

#define NODE(labels, annotations) "{\"metadata\": {\"labels\": {" labels "}, \"annotations\": {" annotations "}}}"

static void test_a_node_that_lacks_a_word_does_not_have_it(void **state UNUSED)
{
        static const struct {
                const char *node;
                bool is_on;
        } cases[] = {
                {NODE("\"a\": \"1\"", "\"b\": \"2\""), true},
                {NODE("\"a\": \"1\", \"mine\": \"too\"", "\"b\": \"2\", \"mine\": \"too\""), true},
                {NODE("\"a\": \"1\"", "\"b\": \"3\""), false},
                {NODE("\"a\": \"3\"", "\"b\": \"2\""), false},
                {NODE("\"b\": \"2\"", "\"a\": \"1\""), false},
                {"{\"metadata\": {\"name\": \"n1\"}}", false},
        };
        json_t *object = json_loads(NODE("\"a\": \"1\"", "\"b\": \"2\""), 0, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *node = json_loads(cases[i].node, 0, NULL);

                assert_non_null(node);
                assert_int_equal(node_apply_is_on(node, object), cases[i].is_on);
                json_decref(node);
        }
        json_decref(object);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_node_that_lacks_a_word_does_not_have_it)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
