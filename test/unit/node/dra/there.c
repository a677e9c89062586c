#include "unit.h"

#include "base/macro.h"
#include "node/dra/there.h"

static void test_slices_are_the_same_after_a_rest(void **state)
{
        struct dra_there there = {0};
        json_t *slice = json_pack("{s: {s: s#, s: I}, s: f, s: [b, n, {}]}", "metadata", "name", "\xc3\xa4 \"1\"\n\0z",
                9, "generation", (json_int_t)INT64_MAX, "ratio", 0.1, "rest", 1);

        (void)state;
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        json_object_set(dra_there_slices(&there), "one", slice);
        dra_there_rest(&there);
        assert_null(there.slices);
        assert_true(json_equal(json_object_get(dra_there_slices(&there), "one"), slice));
        assert_null(there.text);

        /* And may be changed. */
        assert_int_equal(json_object_del(dra_there_slices(&there), "one"), 0);
        dra_there_rest(&there);
        dra_there_rest(&there);
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        dra_there_clear(&there);
        json_decref(slice);
}

static void test_nothing_is_left_of_slices_that_were_cleared_at_rest(void **state)
{
        struct dra_there there = {0};

        (void)state;
        json_object_set_new(dra_there_slices(&there), "one", json_object());
        dra_there_rest(&there);
        dra_there_clear(&there);
        dra_there_rest(&there); /* nothing to keep */
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        dra_there_clear(&there);
}

static enum dra_there_news follow(
        struct dra_there *there, enum kube_change what, const char *version, const char *owner, const char *devices)
{
        json_t *slice = json_pack("{s: {s: s, s: s*, s: [{s: s}]}, s: {s: s}}", "metadata", "name", "one",
                "resourceVersion", version, "ownerReferences", "uid", owner, "spec", "devices", devices);
        enum dra_there_news news = dra_there_follow(there, what, slice);

        json_decref(slice);
        return news;
}

static void test_what_the_watch_reports_is_told_apart(void **state)
{
        static const struct {
                enum kube_change what;
                const char *version;
                const char *owner;
                const char *devices;
                enum dra_there_news news;
        } table[] = {
                {KUBE_GONE, "1", "n1", "a", DRA_THERE_SAME}, /* unknown */
                {KUBE_PRESENT, "5", "n1", "a", DRA_THERE_CHANGED},
                {KUBE_PRESENT, "5", "n1", "a", DRA_THERE_SAME}, /* as an answer has said */
                {KUBE_PRESENT, "6", "n1", "a", DRA_THERE_SAME},
                {KUBE_PRESENT, "5", "n1", "b", DRA_THERE_SAME},
                {KUBE_GONE, "4", "n1", "a", DRA_THERE_SAME}, /* and made again since */
                {KUBE_PRESENT, "7", "n1", "b", DRA_THERE_CHANGED},
                {KUBE_PRESENT, "8", "n2", "b", DRA_THERE_CHANGED},
                {KUBE_GONE, NULL, "n2", "b", DRA_THERE_GONE}, /* not in a list any more */
                {KUBE_GONE, "9", "n2", "b", DRA_THERE_SAME},
                {KUBE_PRESENT, "10", "n2", "b", DRA_THERE_CHANGED},
                {KUBE_GONE, "11", "n2", "b", DRA_THERE_GONE},
        };
        struct dra_there there = {0};
        json_t *nameless = json_object();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                assert_int_equal(follow(&there, table[i].what, table[i].version, table[i].owner, table[i].devices),
                        table[i].news);
                dra_there_rest(&there);
        }
        assert_int_equal(dra_there_follow(&there, KUBE_PRESENT, nameless), DRA_THERE_SAME);
        assert_int_equal(json_object_size(dra_there_slices(&there)), 0);
        json_decref(nameless);
        dra_there_clear(&there);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_slices_are_the_same_after_a_rest),
                cmocka_unit_test(test_nothing_is_left_of_slices_that_were_cleared_at_rest),
                cmocka_unit_test(test_what_the_watch_reports_is_told_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
