// SPDX-License-Identifier: Apache-2.0
/*
 * The last good configuration, written and read back; and what a hostile or broken file of that name does, which is
 * nothing.
 */
#include "unit.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "node/config/version.h"

static char folder[64];
static char path[96];
static struct arena arena;
static struct error err;
static struct config_version *made[4]; /* and read, of one test */
static size_t n_made;

static struct config_version *keep(struct config_version *version)
{
        made[n_made++] = version;
        return version;
}

static struct config_version *make(const char *name, const char *source, const char *text, size_t size)
{
        struct strbuf content = STRBUF_INIT;

        strbuf_append(&content, text, size);
        return keep(config_version_new(name, source, "label", &content));
}

static int make_folder(void **state UNUSED)
{
        strcpy(folder, "/tmp/warpshare-record-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof(path), "%s/" CONFIG_RECORD_NAME, folder);
        return 0;
}

static int remove_folder(void **state UNUSED)
{
        while (n_made)
                config_version_unref(made[--n_made]);
        arena_done(&arena);
        unlink(path);
        return rmdir(folder);
}

static void test_what_was_written_is_read_back(void **state UNUSED)
{
        static const char content[] = "version: v1\n# \"quoted\", \xc3\xa9 and a tab\t\n";
        struct config_version *record = make("small", "ConfigMap gpu/configs", content, strlen(content));
        struct config_version *read = NULL;
        uint64_t generation = 0;

        assert_int_equal(config_record_read(&read, &generation, path, &err), CONFIG_RECORD_NONE);
        assert_ok(config_record_write(record, 7, path, &err), &err);
        assert_int_equal(config_record_read(&read, &generation, path, &err), 0);
        keep(read);
        assert_int_equal(generation, 7);
        assert_string_equal(read->name, "small");
        assert_string_equal(read->source, "ConfigMap gpu/configs");
        assert_int_equal(read->content.size, strlen(content));
        assert_string_equal(read->content.data, content);
}

static void test_the_empty_configuration_is_one_too(void **state UNUSED)
{
        struct config_version *record = make("", "folder '/x'", "", sizeof("") - 1);
        struct config_version *read = NULL;
        uint64_t generation = 0;

        assert_ok(config_record_write(record, 7, path, &err), &err);
        assert_int_equal(config_record_read(&read, &generation, path, &err), 0);
        keep(read);
        assert_string_equal(read->name, "");
        assert_int_equal(read->content.size, 0);
}

static void test_what_is_no_record_is_an_error(void **state UNUSED)
{
        static const char *const texts[] = {"", "{", "[]", "{}", "\"x\"",
                "{\"generation\": 0, \"name\": \"a\", \"source\": \"b\", \"sha256\": \"c\", \"content\": \"\"}",
                "{\"generation\": 1, \"name\": 1, \"source\": \"b\", \"sha256\": \"c\", \"content\": \"\"}",
                "{\"generation\": 1, \"name\": \"a\", \"source\": \"b\", \"sha256\": \"c\", \"content\": 5}"};
        struct config_version *read = NULL;
        uint64_t generation = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                assert_ok(file_write(path, texts[i], strlen(texts[i]), &err), &err);
                assert_fails(config_record_read(&read, &generation, path, &err), &err, ERROR_INVALID,
                        arena_printf(&arena, "'%s' is not a record of a configuration", path));
        }
}

static void test_a_content_that_is_not_the_recorded_one_is_an_error(void **state UNUSED)
{
        struct config_version *record = make("a", "b", "version: v1\n", sizeof("version: v1\n") - 1);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct config_version *read = NULL;
        uint64_t generation = 0;
        char *at;

        assert_ok(config_record_write(record, 7, path, &err), &err);
        assert_ok(file_read(path, 10000, &text, &err), &err);
        at = strstr(text.data, "v1");
        assert_non_null(at);
        at[1] = '2';
        assert_ok(file_write(path, text.data, text.size, &err), &err);
        assert_fails(config_record_read(&read, &generation, path, &err), &err, ERROR_INVALID,
                arena_printf(&arena, "'%s': the content is not the one that was recorded", path));
}

static void test_what_cannot_be_written_is_an_error(void **state UNUSED)
{
        struct config_version *record = make("a", "b", "\xff", sizeof("\xff") - 1);
        struct config_version *fine = make("a", "b", "", sizeof("") - 1);

        assert_fails(config_record_write(record, 7, path, &err), &err, ERROR_INVALID,
                "the configuration 'a' cannot be recorded: it is not UTF-8");
        assert_fails(config_record_write(fine, 7, "/nonexistent/x", &err), &err, ERROR_NOT_FOUND,
                "create a file beside '/nonexistent/x': No such file or directory");
}

static void test_beside_an_agent_its_configuration_counts_if_nothing_names_a_file(void **state UNUSED)
{
        static const struct {
                const char *options[2];
                bool is_recorded;
        } cases[] = {
                {{"--config-dir=/configs", NULL}, true},
                {{"--config-map=gpu/configs", NULL}, true},
                {{"--config-dir=/configs", "--config-file=/config.yaml"}, false},
                {{"--config-file=/config.yaml", NULL}, false},
                {{NULL, NULL}, false},
        };
        struct config_version *record =
                make("small", "ConfigMap gpu/configs", "version: v1\n", sizeof("version: v1\n") - 1);
        const char *const environment[] = {NULL};

        for (unsigned int is_there = 0; is_there < 2; is_there++) {
                if (is_there)
                        assert_ok(config_record_write(record, 7, path, &err), &err);
                for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                        const char *const arguments[] = {arena_printf(&arena, "--mps-directory=%s", folder),
                                cases[i].options[0], cases[i].options[0] ? cases[i].options[1] : NULL, NULL};
                        struct config_text text = {0};
                        struct option_set set;

                        options_take(&set, &arena, arguments, environment);
                        assert_int_equal(config_record_of_node(&text, &set, &arena, &err),
                                cases[i].is_recorded && is_there ? 0 : CONFIG_RECORD_NONE);
                        assert_string_equal(
                                text.name ? text.name : "none", cases[i].is_recorded && is_there ? "small" : "none");
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_was_written_is_read_back, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_the_empty_configuration_is_one_too, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_what_is_no_record_is_an_error, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_a_content_that_is_not_the_recorded_one_is_an_error, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_an_error, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_beside_an_agent_its_configuration_counts_if_nothing_names_a_file,
                        make_folder, remove_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
