// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "cmd/cli/command.h"
#include "config/word.h"

static const char *const shared[] = {"mps-directory", "driver-root-ctr-path", "mig-strategy", "log-level", NULL};
static const struct option own[] = {
        {.flag = "grace", .type = OPTION_STRING, .fallback = "20", .argument = "SECONDS", .help = "how long"},
        {.flag = "quiet", .environment = {"QUIET"}, .type = OPTION_BOOL, .fallback = "false", .help = "say nothing"},
        {.flag = "fallbacks",
                .environment = {"FALLBACKS"},
                .type = OPTION_LIST,
                .choices = config_fallback_words,
                .fallback = "",
                .argument = "LIST",
                .help = "one after the other"},
};
static const struct command line = {.shared = shared, COMMAND_OWN(own)};

static struct arena arena;
static struct option_set set;
static const char *values[ARRAY_SIZE(own)];

static int empty_arena(void **state UNUSED)
{
        arena_done(&arena);
        return 0;
}

static char *no_environment[] = {NULL};

/* |words|: up to five, NULL-terminated. */
static int parse(const char *const *words, char *const *environment, struct error *err)
{
        char *argv[7] = {(char *)(uintptr_t) "mps"};
        int argc = 1;

        for (; *words; words++)
                argv[argc++] = (char *)(uintptr_t)*words;
        return command_parse(&line, &set, values, &arena, argc, argv, environment, err);
}

static void test_defaults_hold_where_nothing_is_set(void **state UNUSED)
{
        struct error err;

        assert_ok(parse((const char *const[]){NULL}, no_environment, &err), &err);
        assert_string_equal(values[0], "20");
        assert_string_equal(values[1], "false");
        assert_string_equal(option_set_value(&set, "mps-directory"), "/mps");
}

static void test_own_and_shared_options_may_be_mixed(void **state UNUSED)
{
        struct error err;

        assert_ok(
                parse((const char *const[]){"--quiet", "-mps-directory", "/x", "--grace=5", "--log-level=debug", NULL},
                        no_environment, &err),
                &err);
        assert_string_equal(values[0], "5");
        assert_string_equal(values[1], "true");
        assert_string_equal(option_set_value(&set, "mps-directory"), "/x");
        assert_string_equal(option_set_value(&set, "log-level"), "debug");
}

static void test_a_value_that_looks_like_an_option_is_a_value(void **state UNUSED)
{
        struct error err;

        assert_ok(parse((const char *const[]){"--grace", "--quiet", "--container-driver-root", "--grace", NULL},
                          no_environment, &err),
                &err);
        assert_string_equal(values[0], "--quiet");
        assert_string_equal(values[1], "false");
        assert_string_equal(option_set_value(&set, "driver-root-ctr-path"), "--grace");
}

static void test_the_environment_counts_for_what_is_shared_only(void **state UNUSED)
{
        static char directory[] = "WARPSHARE_MPS_DIRECTORY=/y";
        static char other[] = "DEVICE_ID_STRATEGY=nonsense";
        char *environment[] = {other, directory, NULL};
        struct error err;

        assert_ok(parse((const char *const[]){NULL}, environment, &err), &err);
        assert_string_equal(option_set_value(&set, "mps-directory"), "/y");
        assert_null(option_set_get(&set, "device-id-strategy"));
}

static void test_what_is_wrong_is_said(void **state UNUSED)
{
        static const struct {
                const char *word;
                const char *text;
        } wrong[] = {
                {"--kubelet-socket=x", "unknown flag '--kubelet-socket'; --help lists all"},
                {"--grac=1", "unknown flag '--grac'; did you mean '--grace'?"},
                {"--check", "unknown flag '--check'; --help lists all"},
                {"--grace", "--grace: needs a value"},
                {"--mps-directory", "--mps-directory: needs a value"},
                {"--quiet=maybe", "quiet: 'maybe' is not a boolean, use true or false"},
                {"status", "unexpected argument 'status'; --help lists the flags"},
                {"--", "unexpected argument '--'; --help lists the flags"},
                {"---quiet", "unexpected argument '---quiet'; --help lists the flags"},
        };
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_fails(parse((const char *const[]){wrong[i].word, NULL}, no_environment, &err), &err,
                        ERROR_INVALID, wrong[i].text);
}

static void test_help_has_all_options_and_no_others(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        command_print_help(&line, &text);
        assert_non_null(strstr(text.data, "  --grace SECONDS "));
        assert_non_null(strstr(text.data, "  --mps-directory PATH "));
        assert_null(strstr(text.data, "device-id-strategy"));
}

static void test_options_that_help_leaves_out_still_work(void **state UNUSED)
{
        static const char *const expected[] = {
                "grace", "quiet", "fallbacks", "check", "print-schema", "help", "version"};
        const struct command all = {.own = own, .n_own = ARRAY_SIZE(own), .lists_own_only = true, .is_agent = true};
        const struct option *option;
        size_t count = 0;

        for (; (option = command_option(&all, count)); count++)
                if (count < ARRAY_SIZE(expected))
                        assert_string_equal(option->flag, expected[count]);
                else
                        assert_ptr_equal(option, &option_table[count - ARRAY_SIZE(expected)]);
        assert_int_equal(count, ARRAY_SIZE(expected) + option_count);
}

static void test_own_options_are_read_from_the_environment_by_the_rules_of_the_shared_ones(void **state UNUSED)
{
        static char *said[] = {(char *)(uintptr_t) "QUIET=1", (char *)(uintptr_t) "FALLBACKS=single, named", NULL};
        static char *empty[] = {(char *)(uintptr_t) "QUIET=", (char *)(uintptr_t) "FALLBACKS=", NULL};
        static char *wrong[] = {(char *)(uintptr_t) "FALLBACKS=any", NULL};
        struct error err;

        assert_ok(parse((const char *const[]){NULL}, said, &err), &err);
        assert_string_equal(values[1], "true");
        assert_string_equal(values[2], "single,named");
        assert_ok(parse((const char *const[]){"--quiet=false", "--fallbacks=empty", "--fallbacks", "named", NULL}, said,
                          &err),
                &err);
        assert_string_equal(values[1], "false");
        assert_string_equal(values[2], "empty,named");
        assert_ok(parse((const char *const[]){NULL}, empty, &err), &err);
        assert_string_equal(values[1], "false");
        assert_string_equal(values[2], "");
        assert_fails(parse((const char *const[]){NULL}, wrong, &err), &err, ERROR_INVALID,
                "fallbacks (environment variable FALLBACKS): 'any' is not a known value, use named, single or empty");
}

static void test_words_and_letters_are_read_where_a_command_takes_them(void **state UNUSED)
{
        static const struct option letters[] = {
                {.flag = "name", .aliases = {"n"}, .type = OPTION_STRING, .fallback = "", .argument = "X", .help = "x"},
                {.flag = "all", .aliases = {"A"}, .type = OPTION_BOOL, .fallback = "false", .help = "x"},
        };
        static const struct command takes = {
                .shared = command_none, COMMAND_OWN(letters), .most_words = 2, .takes_letters = true};
        static const struct command takes_none = {.shared = command_none, COMMAND_OWN(letters)};
        static char texts[][8] = {"x", "one", "-nfoo", "two", "-A", "three"};
        char *argv[] = {texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]};
        const char *found[ARRAY_SIZE(letters)];
        struct error err;

        assert_ok(command_parse(&takes, &set, found, &arena, 5, argv, no_environment, &err), &err);
        assert_string_equal(found[0], "foo");
        assert_string_equal(found[1], "true");
        assert_int_equal(set.n_words, 2);
        assert_string_equal(set.words[0], "one");
        assert_string_equal(set.words[1], "two");
        assert_fails(command_parse(&takes, &set, found, &arena, 6, argv, no_environment, &err), &err, ERROR_INVALID,
                "unexpected argument 'three'; --help lists the flags");
        assert_fails(command_parse(&takes_none, &set, found, &arena, 2, argv, no_environment, &err), &err,
                ERROR_INVALID, "unexpected argument 'one'; --help lists the flags");
        argv[1] = texts[2];
        assert_int_equal(command_parse(&takes_none, &set, found, &arena, 2, argv, no_environment, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_defaults_hold_where_nothing_is_set, empty_arena),
                cmocka_unit_test_teardown(test_own_and_shared_options_may_be_mixed, empty_arena),
                cmocka_unit_test_teardown(test_a_value_that_looks_like_an_option_is_a_value, empty_arena),
                cmocka_unit_test_teardown(test_the_environment_counts_for_what_is_shared_only, empty_arena),
                cmocka_unit_test_teardown(test_what_is_wrong_is_said, empty_arena),
                cmocka_unit_test(test_help_has_all_options_and_no_others),
                cmocka_unit_test(test_options_that_help_leaves_out_still_work),
                cmocka_unit_test_teardown(
                        test_own_options_are_read_from_the_environment_by_the_rules_of_the_shared_ones, empty_arena),
                cmocka_unit_test_teardown(test_words_and_letters_are_read_where_a_command_takes_them, empty_arena),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
