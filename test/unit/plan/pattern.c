// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "plan/plan_build.h"

static void test_a_pattern_matches_the_whole_text(void **state UNUSED)
{
        static const struct {
                const char *pattern;
                const char *text;
                bool matches;
        } table[] = {
                {"1g.24gb", "1g.24gb", true},
                {"1g.24gb", "2g.48gb", false},
                {"1g.24gb", "1g.24gb-me", false},
                {"1g.24gb", "1g.24gb+me.all", false},
                {"1g.24gb", "1g.24gb+gfx", false},
                {"1g.24gb", "x1g.24gb", false},
                {"1g.24gb", "1gx24gb", false},
                {"1g.24gb-me", "1g.24gb-me", true},
                {"1g.24gb+me.all", "1g.24gb+me.all", true},
                {"1g.24gb+gfx", "1g.24gb+gfx", true},
                {"*", "1g.24gb", true},
                {"*", "", true},
                {"1g.*", "1g.24gb", true},
                {"1g.*", "1g.", true},
                {"1g.*", "11g.24gb", false},
                {"*gb", "1g.24gb", true},
                {"*gb", "1g.24gb-me", false},
                {"*H100*", "NVIDIA H100 80GB HBM3", true},
                {"*h100*", "NVIDIA H100 80GB HBM3", false},
                {"NVIDIA*HBM3", "NVIDIA H100 80GB HBM3", true},
                {"*a*b", "aab ab", true},
                {"*ab*ab", "abab", true},
                {"*ab*ab", "aab", false},
                {"a**b", "ab", true},
                {"**", "", true},
                {"", "", true},
                {"", "a", false},
                {"a", "", false},
                {"?", "a", false},
                {"[a]", "a", false},
                {"\\*", "*", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (plan_pattern_matches(table[i].pattern, table[i].text) != table[i].matches)
                        fail_msg("'%s' and '%s'", table[i].pattern, table[i].text);
}

/* Seconds, or forever, with the obvious recursion. */
static void test_many_stars_cost_no_more_than_their_number(void **state UNUSED)
{
        char pattern[2 * 64 + 2];
        char text[4096];

        for (size_t i = 0; i < sizeof(pattern) - 2; i += 2) {
                pattern[i] = '*';
                pattern[i + 1] = 'a';
        }
        pattern[sizeof(pattern) - 2] = 'b';
        pattern[sizeof(pattern) - 1] = '\0';
        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        assert_false(plan_pattern_matches(pattern, text));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_pattern_matches_the_whole_text),
                cmocka_unit_test(test_many_stars_cost_no_more_than_their_number),
        };

        return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
