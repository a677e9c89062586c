// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/macro.h"
#include "node/dra/reconcile.h"

static void test_slices_are_the_same_after_a_rest(void **state)
{
        struct slice_cache cache = {0};
        json_t *slice = json_pack("{s: {s: s#, s: I}, s: f, s: [b, n, {}]}", "metadata", "name", "\xc3\xa4 \"1\"\n\0z",
                9, "generation", (json_int_t)INT64_MAX, "ratio", 0.1, "rest", 1);

        (void)state;
        assert_int_equal(json_object_size(slice_cache_slices(&cache)), 0);
        json_object_set(slice_cache_slices(&cache), "one", slice);
        slice_cache_compact(&cache);
        assert_null(cache.slices);
        assert_true(json_equal(json_object_get(slice_cache_slices(&cache), "one"), slice));
        assert_null(cache.text);

        /* And may be changed. */
        assert_int_equal(json_object_del(slice_cache_slices(&cache), "one"), 0);
        slice_cache_compact(&cache);
        slice_cache_compact(&cache);
        assert_int_equal(json_object_size(slice_cache_slices(&cache)), 0);
        slice_cache_clear(&cache);
        json_decref(slice);
}

static void test_nothing_is_left_of_slices_that_were_cleared_at_rest(void **state)
{
        struct slice_cache cache = {0};

        (void)state;
        json_object_set_new(slice_cache_slices(&cache), "one", json_object());
        slice_cache_compact(&cache);
        slice_cache_clear(&cache);
        slice_cache_compact(&cache); /* nothing to keep */
        assert_int_equal(json_object_size(slice_cache_slices(&cache)), 0);
        slice_cache_clear(&cache);
}

static enum slice_cache_news follow(
        struct slice_cache *cache, enum kube_change what, const char *version, const char *owner, const char *devices)
{
        json_t *slice = json_pack("{s: {s: s, s: s*, s: [{s: s}]}, s: {s: s}}", "metadata", "name", "one",
                "resourceVersion", version, "ownerReferences", "uid", owner, "spec", "devices", devices);
        enum slice_cache_news news = slice_cache_follow(cache, what, slice);

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
                enum slice_cache_news news;
        } table[] = {
                {KUBE_GONE, "1", "n1", "a", SLICE_CACHE_SAME}, /* unknown */
                {KUBE_PRESENT, "5", "n1", "a", SLICE_CACHE_CHANGED},
                {KUBE_PRESENT, "5", "n1", "a", SLICE_CACHE_SAME}, /* as an answer has said */
                {KUBE_PRESENT, "6", "n1", "a", SLICE_CACHE_SAME},
                {KUBE_PRESENT, "5", "n1", "b", SLICE_CACHE_SAME},
                {KUBE_GONE, "4", "n1", "a", SLICE_CACHE_SAME}, /* and made again since */
                {KUBE_PRESENT, "7", "n1", "b", SLICE_CACHE_CHANGED},
                {KUBE_PRESENT, "8", "n2", "b", SLICE_CACHE_CHANGED},
                {KUBE_GONE, NULL, "n2", "b", SLICE_CACHE_GONE}, /* not in a list any more */
                {KUBE_GONE, "9", "n2", "b", SLICE_CACHE_SAME},
                {KUBE_PRESENT, "10", "n2", "b", SLICE_CACHE_CHANGED},
                {KUBE_GONE, "11", "n2", "b", SLICE_CACHE_GONE},
        };
        struct slice_cache cache = {0};
        json_t *nameless = json_object();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                assert_int_equal(follow(&cache, table[i].what, table[i].version, table[i].owner, table[i].devices),
                        table[i].news);
                slice_cache_compact(&cache);
        }
        assert_int_equal(slice_cache_follow(&cache, KUBE_PRESENT, nameless), SLICE_CACHE_SAME);
        assert_int_equal(json_object_size(slice_cache_slices(&cache)), 0);
        json_decref(nameless);
        slice_cache_clear(&cache);
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
