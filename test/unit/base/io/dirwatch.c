// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io/dirwatch.h"
#include "base/file.h"
#include "base/io/loop.h"

#define POLL_MS 60000     /* far away: what comes before it is no poll of a directory that is followed */
#define PATIENCE_MS 20000 /* for what comes at once, on the slowest machine */
#define QUIET_MS 1500

/* A watch on <root>/d whose hints are counted. */
struct fixture {
        uv_loop_t loop;
        struct dirwatch *watch;
        char root[64];
        char directory[80];
        char file[96];
        unsigned int hints;
        unsigned int hints_before;
};

static void on_changed(void *data)
{
        ((struct fixture *)data)->hints++;
}

static bool is_hinted(void *data)
{
        const struct fixture *f = data;

        return f->hints != f->hints_before;
}

/* Runs the loop until a hint comes or |ms| have passed; true for a hint. */
static bool hint_comes(struct fixture *f, uint64_t ms)
{
        f->hints_before = f->hints;
        return loop_run_until(&f->loop, is_hinted, f, ms);
}

/* By now the directory is followed, or the looks for one that is missing, once a second, would not have ended. */
static void wait_quiet(struct fixture *f)
{
        while (hint_comes(f, QUIET_MS))
                ;
}

static void write_file(const char *path)
{
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        close(fd);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        strcpy(f->root, "/tmp/warpshare-watch-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        snprintf(f->directory, sizeof(f->directory), "%s/d", f->root);
        snprintf(f->file, sizeof(f->file), "%s/f", f->directory);
        uv_loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        f->watch = dirwatch_close(f->watch);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        unlink(f->file);
        rmdir(f->directory);
        rmdir(f->root);
        free(f);
        return 0;
}

static void start(struct fixture *f, uint64_t poll_ms)
{
        struct error err;

        assert_ok(dirwatch_new(&f->watch, &f->loop, f->directory, poll_ms, on_changed, f, &err), &err);
}

static void test_a_new_entry_is_hinted_at_once(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(mkdir(f->directory, 0700), 0);
        start(f, POLL_MS);
        assert_false(hint_comes(f, 30));
        write_file(f->file);
        assert_true(hint_comes(f, PATIENCE_MS));
        wait_quiet(f);
        unlink(f->file);
        assert_true(hint_comes(f, PATIENCE_MS));
}

static void test_a_directory_that_comes_later_is_watched(void **state)
{
        struct fixture *f = *state;

        start(f, POLL_MS);
        assert_int_equal(mkdir(f->directory, 0700), 0);
        assert_true(hint_comes(f, PATIENCE_MS));
        wait_quiet(f);
        write_file(f->file);
        assert_true(hint_comes(f, PATIENCE_MS));
}

static void test_a_directory_made_again_is_followed(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(mkdir(f->directory, 0700), 0);
        start(f, POLL_MS);
        assert_int_equal(rmdir(f->directory), 0);
        assert_true(hint_comes(f, PATIENCE_MS));
        assert_int_equal(mkdir(f->directory, 0700), 0);
        assert_true(hint_comes(f, PATIENCE_MS));
        wait_quiet(f);
        write_file(f->file);
        assert_true(hint_comes(f, PATIENCE_MS));
}

/* As a lock on it does: the kernel then keeps quiet about the directory's end. */
static void test_a_directory_that_is_in_use_is_also_followed_soon(void **state)
{
        struct fixture *f = *state;
        int held;

        assert_int_equal(mkdir(f->directory, 0700), 0);
        write_file(f->file);
        start(f, POLL_MS);
        held = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        unlink(f->file);
        assert_int_equal(rmdir(f->directory), 0);
        assert_int_equal(mkdir(f->directory, 0700), 0);
        assert_true(hint_comes(f, PATIENCE_MS));
        wait_quiet(f);
        write_file(f->file);
        assert_true(hint_comes(f, PATIENCE_MS));
        close(held);
}

static void test_a_file_made_again_has_another_identity(void **state)
{
        struct fixture *f = *state;
        struct file_mark none = file_mark_at(f->file);
        struct file_mark first;
        struct file_mark second;

        assert_false(file_mark_exists(&none));
        assert_int_equal(mkdir(f->directory, 0700), 0);
        write_file(f->file);
        first = file_mark_at(f->file);
        assert_true(file_mark_exists(&first));
        assert_true(file_mark_is_same(&first, &first));
        usleep(20000); /* the kernel's clock for files ticks every few milliseconds */
        unlink(f->file);
        write_file(f->file);
        second = file_mark_at(f->file);
        assert_false(file_mark_is_same(&first, &second));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_new_entry_is_hinted_at_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_directory_that_comes_later_is_watched, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_directory_made_again_is_followed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_directory_that_is_in_use_is_also_followed_soon, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_file_made_again_has_another_identity, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
