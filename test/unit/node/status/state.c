// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "node/status/state.h"

#define OURS "{'key': 'a/b', 'value': 'c', 'effect': 'NoSchedule'}"
#define THEIRS "{'key': 'x', 'effect': 'NoExecute', 'timeAdded': '2026-11-22T13:00:00Z'}"
#define NOTE "'annotations': {'warpshare.dev/taint': 'a/b=c:NoSchedule'}"

/* JSON with ' instead of ". */
static json_t *parse(const char *text)
{
        _free_ char *copy = strdup(text);
        json_error_t err;
        json_t *value;

        for (char *at = copy; *at; at++)
                if (*at == '\'')
                        *at = '"';
        value = json_loads(copy, 0, &err);
        if (!value)
                fail_msg("%s: %s", err.text, copy);
        return value;
}

static void test_only_a_taint_of_ours_comes_and_goes(void **state UNUSED)
{
        static const struct node_taint taint = {"a/b", "c", "NoSchedule"};
        static const struct node_taint plain = {"a/b", "", "NoSchedule"};
        static const struct {
                const char *what;
                const char *before;
                const struct node_taint *wanted;
                const char *after; /* NULL: it stays as it is */
        } cases[] = {
                {"set on a node without any", "{'metadata': {}}", &taint,
                        "{'metadata': {" NOTE "}, 'spec': {'taints': [" OURS "]}}"},
                {"set beside others", "{'spec': {'podCIDR': '10.0.0.0/24', 'taints': [" THEIRS "]}}", &taint,
                        "{'metadata': {" NOTE "}, 'spec': {'podCIDR': '10.0.0.0/24', 'taints': [" THEIRS ", " OURS
                        "]}}"},
                {"set without a value", "{}", &plain,
                        "{'metadata': {'annotations': {'warpshare.dev/taint': 'a/b:NoSchedule'}}, "
                        "'spec': {'taints': [{'key': 'a/b', 'effect': 'NoSchedule'}]}}"},
                {"beside the same key with another effect",
                        "{'spec': {'taints': [{'key': 'a/b', 'value': 'c', 'effect': 'NoExecute'}]}}", &taint,
                        "{'metadata': {" NOTE "}, 'spec': {'taints': [{'key': 'a/b', 'value': 'c', 'effect': "
                        "'NoExecute'}, " OURS "]}}"},
                {"there already", "{'metadata': {" NOTE "}, 'spec': {'taints': [" OURS ", " THEIRS "]}}", &taint, NULL},
                {"there, but somebody else's", "{'metadata': {}, 'spec': {'taints': [" OURS "]}}", &taint, NULL},
                {"there with another value, somebody else's",
                        "{'spec': {'taints': [{'key': 'a/b', 'value': 'z', 'effect': 'NoSchedule'}]}}", &taint, NULL},
                {"taken away by hand", "{'metadata': {" NOTE "}, 'spec': {'taints': [" THEIRS "]}}", &taint,
                        "{'metadata': {" NOTE "}, 'spec': {'taints': [" THEIRS ", " OURS "]}}"},
                {"ours, with a value that somebody changed",
                        "{'metadata': {" NOTE "}, 'spec': {'taints': [{'key': 'a/b', 'value': 'z', 'effect': "
                        "'NoSchedule'}]}}",
                        &taint,
                        "{'metadata': {'annotations': {}}, 'spec': {'taints': [{'key': 'a/b', 'value': 'z', 'effect': "
                        "'NoSchedule'}]}}"},
                {"another one than before", "{'metadata': {" NOTE "}, 'spec': {'taints': [" OURS ", " THEIRS "]}}",
                        &plain,
                        "{'metadata': {'annotations': {'warpshare.dev/taint': 'a/b:NoSchedule'}}, 'spec': {'taints': "
                        "[" THEIRS ", {'key': 'a/b', 'effect': 'NoSchedule'}]}}"},
                {"removed", "{'metadata': {" NOTE "}, 'spec': {'taints': [" THEIRS ", " OURS "]}}", NULL,
                        "{'metadata': {'annotations': {}}, 'spec': {'taints': [" THEIRS "]}}"},
                {"removed, the last one", "{'metadata': {" NOTE "}, 'spec': {'taints': [" OURS "]}}", NULL,
                        "{'metadata': {'annotations': {}}, 'spec': {'taints': []}}"},
                {"not removed without the note", "{'spec': {'taints': [" OURS "]}}", NULL, NULL},
                {"not removed where somebody changed it",
                        "{'metadata': {" NOTE "}, 'spec': {'taints': [{'key': 'a/b', 'effect': 'NoSchedule'}]}}", NULL,
                        "{'metadata': {'annotations': {}}, 'spec': {'taints': [{'key': 'a/b', 'effect': 'NoSchedule'}]}}"},
                {"nothing to remove", "{'spec': {'taints': [" THEIRS "]}}", NULL, NULL},
                {"nothing at all", "{}", NULL, NULL},
                {"a note that says nothing",
                        "{'metadata': {'annotations': {'warpshare.dev/taint': '%', 'y': 'z'}}, 'spec': {'taints': [" OURS
                        "]}}",
                        NULL, "{'metadata': {'annotations': {'y': 'z'}}, 'spec': {'taints': [" OURS "]}}"},
                {"rubbish where taints are", "{'spec': {'taints': 7}}", NULL, NULL},
                {"rubbish among the taints", "{'metadata': {" NOTE "}, 'spec': {'taints': [7, {'key': 1}, " OURS "]}}",
                        NULL, "{'metadata': {'annotations': {}}, 'spec': {'taints': [7, {'key': 1}]}}"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *node = parse(cases[i].before);
                json_t *expected = parse(cases[i].after ? cases[i].after : cases[i].before);
                bool is_changed = node_taint_merge(node, cases[i].wanted);

                if (!json_equal(node, expected))
                        fail_msg("%s: %s", cases[i].what, json_dumps(node, 0));
                if (is_changed != (cases[i].after != NULL))
                        fail_msg("%s: changed: %d", cases[i].what, is_changed);
                if (node_taint_merge(node, cases[i].wanted))
                        fail_msg("%s: changed again", cases[i].what);
                json_decref(node);
                json_decref(expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_a_taint_of_ours_comes_and_goes),
        };

        return cmocka_run_group_tests_name("node_taint", tests, NULL, NULL);
}
