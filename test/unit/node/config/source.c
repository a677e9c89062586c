// SPDX-License-Identifier: Apache-2.0
/*
 * Folders as kubelet mounts a ConfigMap, and the place where a component finds what was chosen.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "config/config.h"
#include "node/config/source.h"

static char folder[64];
static struct arena arena;
static struct error err;

static void run(const char *command)
{
        char line[400];

        snprintf(line, sizeof(line), "cd %s && { %s; }", folder, command);
        assert_int_equal(system(line), 0);
}

static int make_folder(void **state UNUSED)
{
        strcpy(folder, "/tmp/warpshare-config-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        run("mkdir ..one from && ln -s ..one ..data && echo a > ..one/a && echo b > ..one/b.yaml && ln -s ..data/a a && "
            "ln -s ..data/b.yaml b.yaml && mkdir sub && ln -s nowhere broken && mkfifo pipe && mkdir to");
        return 0;
}

static int remove_folder(void **state UNUSED)
{
        char line[100];

        arena_done(&arena);
        snprintf(line, sizeof(line), "rm -rf %s", folder);
        return system(line);
}

static const char *in_folder(const char *name)
{
        return arena_printf(&arena, "%s/%s", folder, name);
}

static void test_names_are_those_of_files_and_no_others(void **state UNUSED)
{
        struct config_names names;

        assert_ok(config_folder_list(&names, folder, &arena, &err), &err);
        assert_int_equal(names.count, 2);
        assert_string_equal(names.names[0], "a");
        assert_string_equal(names.names[1], "b.yaml");
}

static void test_an_empty_folder_has_none_and_a_missing_one_is_an_error(void **state UNUSED)
{
        struct config_names names;

        assert_ok(config_folder_list(&names, in_folder("sub"), &arena, &err), &err);
        assert_int_equal(names.count, 0);
        assert_fails(config_folder_list(&names, "/nonexistent", &arena, &err), &err, ERROR_NOT_FOUND,
                "open '/nonexistent': No such file or directory");
}

static void test_a_folder_of_something_else_is_an_error(void **state UNUSED)
{
        struct config_names names;

        run("i=0; while [ $i -lt 257 ]; do : > from/$i; i=$((i + 1)); done");
        assert_fails(config_folder_list(&names, in_folder("from"), &arena, &err), &err, ERROR_INVALID,
                arena_printf(&arena, "'%s/from' has more than 256 files; it is to hold configurations only", folder));
}

static void test_a_configuration_has_a_largest_size(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

        run("head -c 1048577 /dev/zero > from/big");
        assert_int_equal(config_folder_read(in_folder("from"), "big", &content, &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        strbuf_clear(&content);
        assert_ok(config_folder_read(folder, "a", &content, &err), &err);
        assert_string_equal(content.data, "a\n");
}

/* ---- the place ---- */

static void assert_place(const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        int rc = config_place_read(in_folder("to/config.yaml"), &content, &err);

        assert_ok(rc, &err);
        if (!expected) {
                assert_int_equal(rc, CONFIG_PLACE_NOTHING);
                return;
        }
        assert_int_equal(rc, 0);
        assert_string_equal(content.data, expected);
}

static void put(const char *name, const char *text)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

        strbuf_puts(&content, text);
        assert_ok(config_place_put(in_folder("to/config.yaml"), name, &content, &err), &err);
        assert_place(text);
}

static void assert_link(const char *expected)
{
        char target[300] = "";

        assert_true(readlink(in_folder("to/config.yaml"), target, sizeof(target) - 1) > 0);
        assert_string_equal(target, expected);
}

static void test_the_place_leads_to_a_copy_of_what_was_chosen_and_nothing_else_is_left(void **state UNUSED)
{
        assert_place(NULL);
        put("a", "one\n");
        assert_link(".config.yaml.d/a");
        run("test \"$(ls -A to/.config.yaml.d)\" = a");
        put("a", "two\n");
        put("b", "three\n");
        assert_link(".config.yaml.d/b");
        run("test \"$(ls -A to/.config.yaml.d)\" = b");
        put(NULL, "");
        assert_link("/dev/null");
        run("test \"$(ls -A to)\" = config.yaml");
        put("a", "four\n");
}

/* Of a ConfigMap: 253 characters at most, of the 255 that a file may have. */
static void test_a_name_may_be_as_long_as_a_key_of_a_config_map(void **state UNUSED)
{
        char name[254];

        memset(name, 'k', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        put(name, "one\n");
        put(name, "two\n");
        assert_link(arena_printf(&arena, ".config.yaml.d/%s", name));
        run("test $(ls -A to/.config.yaml.d | wc -l) = 1");
}

static void test_what_another_config_manager_left_is_replaced(void **state UNUSED)
{
        run("ln -s ../a to/config.yaml");
        assert_place("a\n");
        put("a", "a\n");
        assert_link(".config.yaml.d/a");
        run("rm to/config.yaml && echo file > to/config.yaml");
        put("b", "b\n");
        assert_link(".config.yaml.d/b");
        run("rm to/config.yaml && ln -s gone to/config.yaml");
        assert_place(NULL);
        put("b", "b\n");
}

static void test_a_place_that_cannot_be_one_is_an_error_and_stays(void **state UNUSED)
{
        struct strbuf content = STRBUF_INIT;

        run("mkdir to/config.yaml");
        assert_fails(config_place_put(in_folder("to/config.yaml"), "a", &content, &err), &err, ERROR_INVALID,
                arena_printf(&arena, "replace '%s/to/config.yaml': Is a directory", folder));
        assert_int_equal(config_place_read(in_folder("to/config.yaml"), &content, &err), -1);
        run("test -d to/config.yaml && test \"$(ls to)\" = config.yaml");
        assert_fails(config_place_put(in_folder("no/config.yaml"), "a", &content, &err), &err, ERROR_NOT_FOUND,
                arena_printf(&arena, "make the folder '%s/no/.config.yaml.d': No such file or directory", folder));
        strbuf_done(&content);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_names_are_those_of_files_and_no_others, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_an_empty_folder_has_none_and_a_missing_one_is_an_error, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_a_folder_of_something_else_is_an_error, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_a_configuration_has_a_largest_size, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_the_place_leads_to_a_copy_of_what_was_chosen_and_nothing_else_is_left, make_folder,
                        remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_a_name_may_be_as_long_as_a_key_of_a_config_map, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_what_another_config_manager_left_is_replaced, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_a_place_that_cannot_be_one_is_an_error_and_stays, make_folder, remove_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
