// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "node/dra/reconcile.h"
#include "net/kube/object.h"

#define SLICES_MAX 4

/* The slices of a pool by content: "ab" is a slice with content a and one with b. */
static json_t *wanted_of(const char *contents)
{
        json_t *wanted = json_array();

        for (size_t i = 0; i < strlen(contents); i++)
                json_array_append_new(wanted,
                        json_pack("{s: o, s: {s: {s: s, s: i, s: i}, s: o}}", "name", json_sprintf("slice-%zu", i),
                                "spec", "pool", "name", "n1", "generation", 0, "resourceSliceCount",
                                (int)strlen(contents), "devices", json_sprintf("%c", contents[i])));
        return wanted;
}

static void put(json_t *there, const char *name, const json_t *spec, json_int_t generation, const char *owner)
{
        json_t *object = json_pack(
                "{s: {s: [{s: s}]}, s: o}", "metadata", "ownerReferences", "uid", owner, "spec", json_deep_copy(spec));

        json_object_set_new(object_find(object, "spec", "pool", NULL), "generation", json_integer(generation));
        json_object_set_new(there, name, object);
}

/* |contents| as they are there, all with |generation|; a '.' is missing. */
static json_t *there_of(const char *contents, json_int_t generation)
{
        json_t *there = json_object();
        json_t *wanted = wanted_of(contents);
        size_t i;
        json_t *slice;

        json_array_foreach(wanted, i, slice) if (contents[i] != '.')
                put(there, object_text(slice, "name", NULL), json_object_get(slice, "spec"), generation, "uid");
        json_decref(wanted);
        return there;
}

/* What a consumer takes: the contents of the highest generation, "" where it is not complete. */
static const char *seen(json_t *there, char text[SLICES_MAX + 1])
{
        json_int_t newest = 0;
        json_int_t count = 0;
        size_t n = 0;
        const char *name;
        json_t *slice;

        json_object_foreach(there, name, slice) newest =
                MAX(newest, json_integer_value(object_find(slice, "spec", "pool", "generation", NULL)));
        for (size_t i = 0; i < SLICES_MAX; i++) {
                char key[16];

                snprintf(key, sizeof(key), "slice-%zu", i);
                slice = json_object_get(there, key);
                if (!slice || json_integer_value(object_find(slice, "spec", "pool", "generation", NULL)) != newest)
                        continue;
                count = json_integer_value(object_find(slice, "spec", "pool", "resourceSliceCount", NULL));
                text[n++] = *object_text(slice, "spec", "devices", NULL);
        }
        text[n] = '\0';
        return n > 0 && (json_int_t)n == count ? text : "";
}

/* One step; false: there is none. */
static bool step(const json_t *wanted, json_t *there, char *ret)
{
        const struct dra_pool pool = {.wanted = wanted, .there = there, .owner_uid = "uid"};
        struct dra_action action = dra_reconcile(&pool);
        _free_ char *name = NULL;

        *ret = "-drc"[action.step];
        if (action.step == DRA_STEP_NONE)
                return false;
        assert_int_equal(action.step == DRA_STEP_CREATE, !json_object_get(there, action.name));
        name = strdup(action.name);
        if (action.step == DRA_STEP_DELETE)
                json_object_del(there, name);
        else
                put(there, name, action.spec, action.generation, "uid");
        return true;
}

static size_t writes_left(const json_t *wanted, json_t *there)
{
        const struct dra_pool pool = {.wanted = wanted, .there = there, .owner_uid = "uid"};

        return dra_reconcile(&pool).n_writes;
}

static void check_change(const char *before, const char *after, const char *steps, json_int_t generation)
{
        json_t *there = there_of(before, 5);
        json_t *wanted = wanted_of(after);
        char done[16] = "";
        char first[SLICES_MAX + 1];
        char text[SLICES_MAX + 1];
        const char *old = strcpy(first, seen(there, text));
        size_t n = 0;
        const char *name;
        json_t *slice;

        assert_int_equal(writes_left(wanted, there), strlen(steps));
        while (n < sizeof(done) - 1 && step(wanted, there, &done[n])) {
                const char *now = seen(there, text);

                n++;
                assert_int_equal(writes_left(wanted, there), strlen(steps) - n);
                assert_true(!*now || strcmp(now, old) == 0 || strcmp(now, after) == 0);
        }
        done[n] = '\0';
        assert_string_equal(done, steps);
        assert_string_equal(seen(there, text), after);
        json_object_foreach(there, name, slice) assert_int_equal(
                json_integer_value(object_find(slice, "spec", "pool", "generation", NULL)), generation);
        json_decref(there);
        json_decref(wanted);
}

static void test_a_change_takes_few_writes_and_no_reader_sees_half_of_it(void **state UNUSED)
{
        static const struct {
                const char *before;
                const char *after;
                const char *steps;
                json_int_t generation;
        } table[] = {
                {"ab", "ab", "", 5},      /* nothing changes */
                {"ab", "ax", "r", 5},     /* one in place */
                {"ab", "xy", "rr", 6},    /* several */
                {"abc", "axy", "rrr", 6}, /* several, and one that only follows */
                {"ab", "abc", "rrc", 6},  /* one more */
                {"abc", "ab", "drr", 6},  /* one less */
                {"abc", "x", "ddr", 6}, {"ab", "", "dd", 0}, {"a.", "ab", "c", 5}, /* one was deleted */
                {"..", "ab", "cc", 1},                                             /* all were */
                {".b", "xy", "rc", 5}, /* one was deleted, and the others changed */
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check_change(table[i].before, table[i].after, table[i].steps, table[i].generation);
}

static void test_every_change_ends_though_it_is_interrupted_by_another(void **state UNUSED)
{
        srand(1);
        for (unsigned int round = 0; round < 2000; round++) {
                json_t *there = json_object();
                json_t *wanted = NULL;
                char contents[SLICES_MAX + 1] = "";
                char text[SLICES_MAX + 1];
                char what;
                size_t left;

                for (unsigned int change = 0; change < 6; change++) {
                        size_t count = (size_t)rand() % (SLICES_MAX + 1);

                        for (size_t i = 0; i < count; i++)
                                contents[i] = (char)('a' + rand() % 3);
                        contents[count] = '\0';
                        json_decref(wanted);
                        wanted = wanted_of(contents);
                        for (int steps = rand() % 5; steps > 0; steps--)
                                step(wanted, there, &what);
                        if (rand() % 3 == 0)
                                json_object_del(there, "slice-1");
                }
                left = writes_left(wanted, there);
                assert_true(left < 3 * SLICES_MAX);
                for (; step(wanted, there, &what); left--)
                        assert_int_not_equal(left, 0);
                assert_int_equal(left, 0);
                assert_string_equal(seen(there, text), contents);
                json_decref(wanted);
                json_decref(there);
        }
}

static void test_what_the_server_makes_of_a_slice_is_not_written_again(void **state UNUSED)
{
        json_t *wanted = wanted_of("a");
        json_t *there = there_of("b", 5);
        const json_t *sent = object_find(json_array_get(wanted, 0), "spec", NULL);
        json_t *accepted = json_pack(
                "{s: {s: O, s: O}}", "slice-0", "sent", sent, "kept", object_find(there, "slice-0", "spec", NULL));
        struct dra_pool pool = {.wanted = wanted, .there = there, .accepted = accepted, .owner_uid = "uid"};

        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_NONE);
        pool.there = there_of("c", 5);
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_REPLACE);
        json_decref(pool.there);
        pool.there = there;
        pool.accepted = NULL;
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_REPLACE);
        json_decref(accepted);
        json_decref(there);
        json_decref(wanted);
}

static void test_a_slice_of_another_owner_is_changed_and_one_of_another_pool_goes(void **state UNUSED)
{
        json_t *wanted = wanted_of("a");
        json_t *there = there_of("a", 5);
        struct dra_pool pool = {.wanted = wanted, .there = there, .owner_uid = "other"};

        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_REPLACE);
        pool.owner_uid = "uid";
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_NONE);
        json_object_set_new(object_find(there, "slice-0", "spec", "pool", NULL), "name", json_string("n2"));
        assert_int_equal(dra_reconcile(&pool).step, DRA_STEP_DELETE);
        json_decref(there);
        json_decref(wanted);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_change_takes_few_writes_and_no_reader_sees_half_of_it),
                cmocka_unit_test(test_every_change_ends_though_it_is_interrupted_by_another),
                cmocka_unit_test(test_what_the_server_makes_of_a_slice_is_not_written_again),
                cmocka_unit_test(test_a_slice_of_another_owner_is_changed_and_one_of_another_pool_goes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
