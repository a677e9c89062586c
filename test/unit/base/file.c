// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

static int make_folder(void **state)
{
        char *folder = xstrdup("/tmp/warpshare-file-XXXXXX");

        *state = folder;
        return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
        rmdir(*state);
        free(*state);
        return 0;
}

static void test_what_was_written_is_read(void **state)
{
        _free_ char *path = xasprintf("%s/f", (char *)*state);
        struct strbuf content = STRBUF_INIT;
        struct stat status;
        struct error err;

        assert_ok(file_write(path, "one", 3, &err), &err);
        assert_ok(file_write(path, "other", 5, &err), &err);
        assert_ok(file_read(path, 5, &content, &err), &err);
        assert_string_equal(content.data, "other");
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0644);
        assert_ok(file_write_private(path, "mine", 4, &err), &err);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        strbuf_done(&content);
        unlink(path);
}

static unsigned int mode_of(const char *path)
{
        struct stat status;

        assert_int_equal(stat(path, &status), 0);
        return status.st_mode & 0777;
}

static void test_a_private_file_is_its_owner_s_alone(void **state)
{
        _free_ char *path = xasprintf("%s/f", (char *)*state);
        _free_ char *other = xasprintf("%s/other", (char *)*state);
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_ok(file_write_private(path, "one", 3, &err), &err);
        assert_int_equal(mode_of(path), 0600);
        assert_int_equal(chmod(path, 0644), 0); /* as an older release left it */
        assert_ok(file_read_private(path, 5, &content, &err), &err);
        assert_string_equal(content.data, "one");
        assert_int_equal(mode_of(path), 0600);
        assert_ok(file_write(other, "two", 3, &err), &err);
        unlink(path);
        assert_int_equal(symlink(other, path), 0);
        assert_int_equal(file_read_private(path, 5, &content, &err), -1);
        assert_int_equal(mode_of(other), 0644);
        strbuf_done(&content);
        unlink(path);
        unlink(other);
}

/*
 * Whether it is on the disk no test can see; that it replaces a file with another mode and fails without the folder, it
 * can.
 */
static void test_a_durable_file_is_private_and_replaces_what_was_there(void **state)
{
        _free_ char *path = xasprintf("%s/f", (char *)*state);
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_ok(file_write(path, "longer", 6, &err), &err);
        assert_ok(file_write_durable(path, "two", 3, &err), &err);
        assert_int_equal(mode_of(path), 0600);
        assert_ok(file_read(path, 6, &content, &err), &err);
        assert_string_equal(content.data, "two");
        assert_fails(file_write_durable("/nonexistent/f", "x", 1, &err), &err, ERROR_NOT_FOUND,
                "open '/nonexistent': No such file or directory");
        strbuf_done(&content);
        unlink(path);
}

static void test_a_file_beyond_the_limit_is_refused(void **state)
{
        _free_ char *path = xasprintf("%s/f", (char *)*state);
        _free_ char *expected = xasprintf("'%s' is larger than the limit of 4 bytes", path);
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_ok(file_write(path, "12345", 5, &err), &err);
        assert_fails(file_read(path, 4, &content, &err), &err, ERROR_INVALID, expected);
        strbuf_done(&content);
        unlink(path);
}

static void test_a_missing_file_is_named(void **state UNUSED)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_fails(file_read("/nonexistent/f", 4, &content, &err), &err, ERROR_NOT_FOUND,
                "open '/nonexistent/f': No such file or directory");
        assert_int_equal(file_write("/nonexistent/f", "x", 1, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void test_each_path_has_a_folder(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"f", "."}, {"/f", "/"}, {"/a/f", "/a"}, {"a/b/f", "a/b"}, {"/a/", "/a"}, {"/", "/"}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *folder = file_folder(table[i][0]);

                assert_string_equal(folder, table[i][1]);
        }
}

static void test_a_folder_is_made_with_all_that_it_is_in(void **state)
{
        _free_ char *path = xasprintf("%s/a/b", (char *)*state);
        _free_ char *inner = xasprintf("%s/a", (char *)*state);
        _free_ char *file = xasprintf("%s/f", path);
        _free_ char *below = xasprintf("%s/g", file);
        _free_ char *expected = xasprintf("create folder '%s': Not a directory", file);
        _free_ char *expected_below = xasprintf("create folder '%s': Not a directory", below);
        const mode_t before = umask(077);
        struct stat status;
        struct error err;

        assert_ok(file_make_folder(path, &err), &err);
        assert_ok(file_make_folder(path, &err), &err);
        umask(before);
        assert_int_equal(stat(inner, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0755);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0755);
        assert_ok(file_write(file, "", 0, &err), &err);
        assert_fails(file_make_folder(file, &err), &err, ERROR_INVALID, expected);
        assert_fails(file_make_folder(below, &err), &err, ERROR_INVALID, expected_below);
        unlink(file);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(inner), 0);
}

static void test_two_paths_may_lead_to_one_file(void **state)
{
        _free_ char *path = xasprintf("%s/f", (char *)*state);
        _free_ char *link = xasprintf("%s/link", (char *)*state);
        _free_ char *other = xasprintf("%s/other", (char *)*state);
        struct error err;

        assert_ok(file_write(path, "", 0, &err), &err);
        assert_false(file_is_at_both(path, link));
        assert_int_equal(symlink(path, link), 0);
        assert_true(file_is_at_both(path, link));
        assert_ok(file_write(other, "", 0, &err), &err);
        assert_false(file_is_at_both(path, other));
        unlink(path);
        assert_false(file_is_at_both(path, link));
        unlink(link);
        unlink(other);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_was_written_is_read),
                cmocka_unit_test(test_a_private_file_is_its_owner_s_alone),
                cmocka_unit_test(test_a_durable_file_is_private_and_replaces_what_was_there),
                cmocka_unit_test(test_a_file_beyond_the_limit_is_refused),
                cmocka_unit_test(test_a_missing_file_is_named),
                cmocka_unit_test(test_each_path_has_a_folder),
                cmocka_unit_test(test_a_folder_is_made_with_all_that_it_is_in),
                cmocka_unit_test(test_two_paths_may_lead_to_one_file),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
