// SPDX-License-Identifier: Apache-2.0
/*
 * Each row is a node: what its label says, which configurations there are, what is set; and the one that it gets.
 */
#include "unit.h"

#include <string.h>

#include "base/text.h"
#include "node/config/choice.h"

#define MAX_NAMES 12

struct row {
        const char *label; /* NULL: none; "?": not known yet */
        const char *names; /* by blanks; NULL: not known yet */
        const char *default_name;
        const char *fallbacks;
        const char *expected; /* the name, "(empty)" or NULL */
        const char *reason;   /* the rule; or, where |expected| is NULL, why */
        const char *misled;
};

static const struct row rows[] = {
        /* The label. */
        {"a", "a b", "b", "single", "a", "label", NULL},
        {"default", "a default", "", "", "default", "label", NULL},
        /* The default. */
        {NULL, "a b", "b", "empty", "b", "default", NULL},
        {"", "a b", "b", "empty", "b", "default", NULL},
        {"c", "a b", "b", "empty", "b", "default", "the label names 'c', which is not there; there are: a, b"},
        /* The strategies, in their order. */
        {NULL, "a default", "", "named", "default", "named", NULL},
        {NULL, "a b", "", "named", NULL,
                "the node has no label, no default is set and no fallback strategy applies; there are: a, b", NULL},
        {NULL, "a", NULL, "single", "a", "single", NULL},
        {NULL, "a b", "", "single", NULL,
                "the node has no label, no default is set and no fallback strategy applies; there are: a, b", NULL},
        {NULL, "a b", "", "empty", "(empty)", "empty", NULL},
        {NULL, "default", "", "named,single", "default", "named", NULL},
        {NULL, "default", "", "single,named", "default", "single", NULL},
        {NULL, "a", "", "named,single,empty", "a", "single", NULL},
        {NULL, "a b", "", "named,single,empty", "(empty)", "empty", NULL},
        {NULL, "a b", "", "empty,named,single", "(empty)", "empty", NULL},
        {"c", "a", "", "single", "a", "single", "the label names 'c', which is not there; there are: a"},
        {"c", "a", "", "", NULL,
                "the node's label names no existing configuration, no default is set and no fallback strategy "
                "applies; there are: a",
                "the label names 'c', which is not there; there are: a"},
        /* A default that is not there: the next rule has its turn. */
        {NULL, "a b", "c", "empty", "(empty)", "empty", "the default 'c' is not there; there are: a, b"},
        {"d", "a", "c", "single", "a", "single",
                "neither 'd', which the label names, nor the default 'c' is there; there are: a"},
        {NULL, "a b", "c", "", NULL,
                "the node has no label, the default is not there and no fallback strategy applies; there are: a, b",
                "the default 'c' is not there; there are: a, b"},
        /* What is not known is waited for, whatever is set. */
        {"?", "a", "a", "single,empty", NULL, "the node's label is not known yet", NULL},
        {"a", NULL, "a", "empty", NULL, "it is not known yet which configurations there are", NULL},
        /* A folder that lost its content, as while it is mounted, is no reason to take a node's configuration away. */
        {"a", "", "a", "empty", NULL, "there is no configuration at all", NULL},
        /* A long list is not told whole. */
        {"x", "1 2 3 4 5 6 7 8 9 10 11 12", "1", "", "1", "default",
                "the label names 'x', which is not there; there are: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"},
};

static struct config_known read_known(const struct row *row, struct arena *arena)
{
        static const char *names[MAX_NAMES];
        struct config_known known = {.names = names, .has_names = row->names, .has_label = true};
        char *list = arena_strdup(arena, row->names ? row->names : "");

        if (row->label && strcmp(row->label, "?") == 0)
                known.has_label = false;
        else
                known.label = row->label;
        for (char *save = NULL, *word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save))
                names[known.n_names++] = word;
        return known;
}

static void assert_text(const char *got, const char *expected, size_t row)
{
        if (!text_is_same(got, expected))
                fail_msg("row %zu: '%s', expected '%s'", row, got ? got : "(none)", expected ? expected : "(none)");
}

static const char *name_of(const struct config_choice *choice)
{
        return choice->kind == CONFIG_CHOICE_NAMED   ? choice->name
               : choice->kind == CONFIG_CHOICE_EMPTY ? "(empty)"
                                                     : NULL;
}

static void test_each_node_gets_the_configuration_that_the_rules_say(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct arena arena = ARENA_INIT;
                struct config_rules rules = config_rules_of(rows[i].default_name, rows[i].fallbacks);
                struct config_known known = read_known(&rows[i], &arena);
                struct config_choice choice = config_choose(&rules, &known, &arena);

                assert_text(name_of(&choice), rows[i].expected, i);
                assert_text(rows[i].expected ? config_reason_name(choice.reason) : choice.why, rows[i].reason, i);
                assert_text(choice.misled, rows[i].misled, i);
                arena_done(&arena);
        }
}

static void test_before_the_label_is_known_only_the_default_may_be_begun_with(void **state UNUSED)
{
        static const struct {
                struct row row;
        } cases[] = {
                {{"?", "a b", "b", "", "b", "default", NULL}},
                {{"?", "a", "", "single,empty", NULL, "the node's label is not known yet, and no default is set",
                        NULL}},
                {{"?", "a", "c", "single,empty", NULL,
                        "the node's label is not known yet, and the default 'c' is not there", NULL}},
                {{"?", NULL, "c", "empty", NULL, "it is not known yet which configurations there are", NULL}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct arena arena = ARENA_INIT;
                struct config_rules rules = config_rules_of(cases[i].row.default_name, cases[i].row.fallbacks);
                struct config_known known = read_known(&cases[i].row, &arena);
                struct config_choice choice = config_choose_early(&rules, &known, &arena);

                assert_text(name_of(&choice), cases[i].row.expected, i);
                assert_text(
                        cases[i].row.expected ? config_reason_name(choice.reason) : choice.why, cases[i].row.reason, i);
                arena_done(&arena);
        }
}

static void test_kubelets_own_entries_are_no_configurations(void **state UNUSED)
{
        static const char *const others[] = {"..data", "..2026_11_22_13_00_00.123", "..", ".", "", "a/b"};
        char text[300];

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_false(config_name_counts(others[i]));
        memset(text, 'x', sizeof(text));
        text[256] = '\0';
        assert_false(config_name_counts(text));
        text[255] = '\0';
        assert_true(config_name_counts(text));
        assert_true(config_name_counts("a100.yaml"));
        assert_true(config_name_counts(".hidden"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_node_gets_the_configuration_that_the_rules_say),
                cmocka_unit_test(test_before_the_label_is_known_only_the_default_may_be_begun_with),
                cmocka_unit_test(test_kubelets_own_entries_are_no_configurations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
