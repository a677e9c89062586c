// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "config/kube_name.h"

static void test_a_label_has_the_name_that_kube_state_metrics_gives_it(void **state UNUSED)
{
        static const char *const keys[] = {"team", "app.kubernetes.io/name", "Cost-Center", NULL};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *const *names;
        struct error err;

        assert_ok(pod_labels_name(&names, &arena, keys, &err), &err);
        assert_string_equal(names[0], "label_team");
        assert_string_equal(names[1], "label_app_kubernetes_io_name");
        assert_string_equal(names[2], "label_Cost_Center");
        assert_null(names[3]);
}

static void test_what_cannot_be_is_refused_with_the_reason(void **state UNUSED)
{
        static const struct {
                const char *keys[POD_LABELS_MAX + 2];
                const char *text;
        } table[] = {
                {{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, "more than 8 labels of pods"},
                {{"team", "a b"}, "'a b' is not a key of a label: write them as team,app.kubernetes.io/name"},
                {{"a.b/c", "a_b_c"}, "'a.b/c' and 'a_b_c' are both label_a_b_c in metrics: choose one"},
                {{"team", "team"}, "'team' and 'team' are both label_team in metrics: choose one"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *const *names;
                struct error err;

                assert_int_equal(pod_labels_name(&names, &arena, table[i].keys, &err), -1);
                assert_string_equal(err.text, table[i].text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_label_has_the_name_that_kube_state_metrics_gives_it),
                cmocka_unit_test(test_what_cannot_be_is_refused_with_the_reason),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
