// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "chance.h"
#include "cmd/doctor/toolkit.h"

/* As the packages of the toolkit install it. */
static const char installed[] = "#" TOOLKIT_ENVVAR " = true\n"
                                "#" TOOLKIT_MOUNTS " = false\n"
                                "disable-require = false\n"
                                "supported-driver-capabilities = \"compat32,compute,display\"\n"
                                "#swarm-resource = \"DOCKER_RESOURCE_GPU\"\n"
                                "\n"
                                "[nvidia-container-cli]\n"
                                "environment = []\n" TOOLKIT_ENVVAR " = false\n"
                                "[nvidia-container-runtime]\n"
                                "runtimes = [\n"
                                "  \"runc\",\n"
                                "]\n";

static void test_what_it_says_before_the_first_table_counts(void **state UNUSED)
{
        static const struct {
                const char *text;
                struct toolkit_config config;
        } cases[] = {
                {"", {true, false, false}},
                {installed, {true, false, false}},
                {TOOLKIT_ENVVAR " = true", {true, true, false}},
                {TOOLKIT_ENVVAR " = false\n" TOOLKIT_MOUNTS " = true\n", {false, true, true}},
                {TOOLKIT_ENVVAR "=false# a comment\n" TOOLKIT_MOUNTS "=true", {false, true, true}},
                {"\t" TOOLKIT_ENVVAR " \t=\tfalse \t# " TOOLKIT_ENVVAR " = true\r\n", {false, true, false}},
                {"\"" TOOLKIT_ENVVAR "\" = false\n'" TOOLKIT_MOUNTS "' = true", {false, true, true}},
                {TOOLKIT_ENVVAR "s = false\nx-" TOOLKIT_ENVVAR " = false\n", {true, false, false}},
                {"a." TOOLKIT_ENVVAR " = false\n" TOOLKIT_ENVVAR ".a = false", {true, false, false}},
                {"a = \"" TOOLKIT_ENVVAR " = false\"\nb = {" TOOLKIT_ENVVAR " = false} # x", {true, false, false}},
                {"a = \"\\\" # \\\\\"\nb = 'c:\\'\nc = [[1, 2], {x = ']'}] # ]\n" TOOLKIT_ENVVAR " = false",
                        {false, true, false}},
                {"  [table]\n" TOOLKIT_ENVVAR " = false\n", {true, false, false}},
                {"[[tables]]\n" TOOLKIT_ENVVAR " = nonsense\n", {true, false, false}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct toolkit_config config;
                struct error err;

                if (toolkit_config_read(&config, cases[i].text, &err) < 0)
                        fail_msg("case %zu: %s", i, err.text);
                if (config.takes_envvar != cases[i].config.takes_envvar ||
                        config.says_envvar != cases[i].config.says_envvar ||
                        config.takes_mounts != cases[i].config.takes_mounts)
                        fail_msg("case %zu: %d %d %d", i, config.takes_envvar, config.says_envvar, config.takes_mounts);
        }
}

#define NO_KEY "no key with a value that is on this line"

static void test_what_nobody_can_judge_is_refused(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *error;
        } cases[] = {
                {"\n" TOOLKIT_ENVVAR " = \"false\"", "line 2: " TOOLKIT_ENVVAR " is neither true nor false"},
                {TOOLKIT_ENVVAR " = False", "line 1: " TOOLKIT_ENVVAR " is neither true nor false"},
                {TOOLKIT_ENVVAR " = false false", "line 1: " TOOLKIT_ENVVAR " is neither true nor false"},
                {TOOLKIT_MOUNTS " = 1", "line 1: " TOOLKIT_MOUNTS " is neither true nor false"},
                {TOOLKIT_ENVVAR " = true\n" TOOLKIT_ENVVAR " = false",
                        "line 2: " TOOLKIT_ENVVAR " is there a second time"},
                {TOOLKIT_MOUNTS " = true\n'" TOOLKIT_MOUNTS "' = true",
                        "line 2: " TOOLKIT_MOUNTS " is there a second time"},
                {TOOLKIT_ENVVAR, "line 1: " NO_KEY},
                {TOOLKIT_ENVVAR " =", "line 1: " NO_KEY},
                {TOOLKIT_ENVVAR " = # false", "line 1: " NO_KEY},
                {TOOLKIT_ENVVAR ": false", "line 1: " NO_KEY},
                {"= false", "line 1: " NO_KEY},
                {"a. = false", "line 1: " NO_KEY},
                {"\"a = false", "line 1: " NO_KEY},
                {"a = \"\"\"\n" TOOLKIT_ENVVAR " = false\n\"\"\"", "line 1: " NO_KEY},
                {"a = '''", "line 1: " NO_KEY},
                {"a = \"\\\"", "line 1: " NO_KEY},
                {"a = [\n" TOOLKIT_ENVVAR " = false\n]", "line 1: " NO_KEY},
                {"a = 1]", "line 1: " NO_KEY},
                {"\xef\xbb\xbf" TOOLKIT_ENVVAR " = false", "line 1: " NO_KEY},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct toolkit_config config = {.takes_mounts = true};
                struct error err;

                assert_fails(toolkit_config_read(&config, cases[i].text, &err), &err, ERROR_INVALID, cases[i].error);
                assert_true(config.takes_mounts); /* as it was */
        }
}

/* Each text is in memory that ends where it does, so that a sanitizer sees what is read beyond it. */
static void test_no_text_is_read_beyond_its_end(void **state UNUSED)
{
        static const char some[] = "\"'\\[]{}=#. \t\r\n\x80";
        const size_t size = strlen(installed);

        for (uint64_t seed = 0; seed < 3000; seed++) {
                struct chance chance = chance_of_seed(seed);
                _free_ char *text = xstrdup(installed);
                _free_ char *cut = NULL;
                struct toolkit_config config;
                struct error err;

                for (uint64_t i = chance_draw(&chance, 8); i > 0; i--)
                        text[chance_draw(&chance, size)] = some[chance_draw(&chance, strlen(some))];
                text[chance_draw(&chance, size + 1)] = '\0';
                cut = xstrdup(text);
                if (toolkit_config_read(&config, cut, &err) < 0 && strncmp(err.text, "line ", 5) != 0)
                        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_it_says_before_the_first_table_counts),
                cmocka_unit_test(test_what_nobody_can_judge_is_refused),
                cmocka_unit_test(test_no_text_is_read_beyond_its_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
