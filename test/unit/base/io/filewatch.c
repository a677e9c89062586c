// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/filewatch.h"
#include "base/io/loop.h"

#define LIMIT ((size_t)1000)

/* A watch on <root>/config.yaml; the timer is far away unless a test wants it. */
struct fixture {
        uv_loop_t loop;
        struct filewatch *watch;
        char root[64];
        unsigned int changes;
        unsigned int changes_before;
};

/* Kept by cmocka's fixture alone: one test runs at a time. Two texts may be in use at once. */
static const char *at(const struct fixture *f, const char *name)
{
        static char paths[2][160];
        static unsigned int turn;
        char *path = paths[turn++ % 2];

        snprintf(path, sizeof(paths[0]), "%s/%s", f->root, name);
        return path;
}

static void on_changed(void *data)
{
        ((struct fixture *)data)->changes++;
}

static bool is_changed(void *data)
{
        const struct fixture *f = data;

        return f->changes != f->changes_before;
}

/* Runs the loop until a change is told or |ms| have passed; true for a change. */
static bool change_comes(struct fixture *f, uint64_t ms)
{
        f->changes_before = f->changes;
        return loop_run_until(&f->loop, is_changed, f, ms);
}

#define SOON 20000  /* on the slowest machine; less than the timer */
#define A_WHILE 400 /* longer than the 200 ms of quiet */

static void write_in_place(const struct fixture *f, const char *name, const char *text)
{
        int fd = open(at(f, name), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

static void replace(const struct fixture *f, const char *name, const char *text)
{
        write_in_place(f, "new", text);
        assert_int_equal(rename(at(f, "new"), at(f, name)), 0);
}

static void turn_link(const struct fixture *f, const char *name, const char *target)
{
        assert_int_equal(symlink(target, at(f, "link")), 0);
        assert_int_equal(rename(at(f, "link"), at(f, name)), 0);
}

static void make_folder(const struct fixture *f, const char *name)
{
        assert_int_equal(mkdir(at(f, name), 0700), 0);
}

static void start_at(struct fixture *f, const char *name, uint64_t poll_ms)
{
        const struct filewatch_options options = {
                .path = at(f, name), .limit = LIMIT, .poll_ms = poll_ms, .changed = on_changed, .data = f};
        struct error err;

        assert_ok(filewatch_new(&f->watch, &f->loop, &options, &err), &err);
}

static void start(struct fixture *f)
{
        start_at(f, "config.yaml", 60000);
}

/* As kubelet lays a ConfigMap out in |folder|: "config.yaml" leads through "..data" to the folder |version|. */
static void swap_data(struct fixture *f, const char *folder, const char *version, const char *text)
{
        _free_ char *real = xasprintf("%s..%s", folder, version);
        _free_ char *file = xasprintf("%s/config.yaml", real);
        _free_ char *data = xasprintf("%s..data", folder);
        _free_ char *target = xasprintf("..%s", version);

        make_folder(f, real);
        write_in_place(f, file, text);
        turn_link(f, data, target);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        strcpy(f->root, "/tmp/warpshare-file-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        uv_loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        f->watch = filewatch_close(f->watch);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        free(f);
        return 0;
}

static void test_a_file_written_in_place_and_one_renamed_over_it_are_each_reported_once(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "config.yaml", "b");
        assert_true(change_comes(f, SOON));
        assert_false(change_comes(f, A_WHILE));
        replace(f, "config.yaml", "c");
        assert_true(change_comes(f, SOON));
        assert_false(change_comes(f, A_WHILE));
        assert_int_equal(f->changes, 2);
}

static void test_the_same_bytes_again_are_no_change(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        assert_int_equal(utimensat(AT_FDCWD, at(f, "config.yaml"), NULL, 0), 0);
        assert_false(change_comes(f, A_WHILE));
        replace(f, "config.yaml", "a");
        assert_false(change_comes(f, A_WHILE));
}

static void test_other_files_of_the_folder_do_not_matter(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        write_in_place(f, "other.yaml", "b");
        assert_false(change_comes(f, A_WHILE));
}

/* What the loop would wake for now. */
static bool is_woken(struct fixture *f)
{
        struct pollfd backend = {.fd = uv_backend_fd(&f->loop), .events = POLLIN};

        return poll(&backend, 1, 0) != 0;
}

static void test_what_is_written_to_other_files_wakes_nobody(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        write_in_place(f, "log", "1");
        start(f);
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "log", "2");
        assert_false(is_woken(f));
        write_in_place(f, "config.yaml", "b");
        assert_true(is_woken(f));
        assert_true(change_comes(f, SOON));
}

/* The config manager's "empty" configuration is a link to it. */
static void test_what_is_written_to_a_device_wakes_nobody(void **state)
{
        struct fixture *f = *state;
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        turn_link(f, "config.yaml", "/dev/null");
        start(f);
        assert_false(change_comes(f, A_WHILE));
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
        assert_false(is_woken(f));
        write_in_place(f, "new", "a");
        assert_int_equal(rename(at(f, "new"), at(f, "config.yaml")), 0);
        assert_true(change_comes(f, SOON));
}

/* The next thing to happen is the look of the timer, a minute away. */
static void test_files_that_come_and_go_beside_it_are_not_looked_at(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        write_in_place(f, "other.yaml", "b");
        replace(f, "other.yaml", "c");
        unlink(at(f, "other.yaml"));
        assert_false(change_comes(f, 50));
        uv_run(&f->loop, UV_RUN_NOWAIT); /* closes what loop_run_until() had */
        assert_true(uv_backend_timeout(&f->loop) > 10000);
}

static void test_a_folder_above_that_is_a_link_is_followed_by_event(void **state)
{
        struct fixture *f = *state;

        make_folder(f, "1");
        make_folder(f, "2");
        write_in_place(f, "1/config.yaml", "a");
        write_in_place(f, "2/config.yaml", "b");
        turn_link(f, "current", "1");
        start_at(f, "current/config.yaml", 600000);
        turn_link(f, "current", at(f, "2"));
        assert_true(change_comes(f, SOON));
        write_in_place(f, "2/config.yaml", "c");
        assert_true(change_comes(f, SOON));
}

static void test_a_folder_that_is_made_later_is_found(void **state)
{
        struct fixture *f = *state;

        start_at(f, "later/../later/config.yaml", 600000);
        make_folder(f, "made");
        write_in_place(f, "made/config.yaml", "a");
        assert_int_equal(rename(at(f, "made"), at(f, "later")), 0);
        assert_true(change_comes(f, SOON));
        replace(f, "later/config.yaml", "b");
        assert_true(change_comes(f, SOON));
}

static void test_each_swap_of_a_configmap_is_reported(void **state)
{
        struct fixture *f = *state;

        swap_data(f, "", "1", "a");
        assert_int_equal(symlink("..data/config.yaml", at(f, "config.yaml")), 0);
        start(f);
        swap_data(f, "", "2", "b");
        assert_true(change_comes(f, SOON));
        swap_data(f, "", "3", "b");
        assert_false(change_comes(f, A_WHILE));
        swap_data(f, "", "4", "c");
        assert_true(change_comes(f, SOON));
        write_in_place(f, "..4/config.yaml", "d"); /* the folder that the links lead to now is watched */
        assert_true(change_comes(f, SOON));
}

/* The config manager's link leads into another folder, where a ConfigMap lies; both may change. */
static void test_a_link_into_a_configmap_is_followed_wherever_it_leads(void **state)
{
        struct fixture *f = *state;

        make_folder(f, "available");
        swap_data(f, "available/", "1", "a");
        assert_int_equal(symlink("..data/config.yaml", at(f, "available/small")), 0);
        write_in_place(f, "available/large", "z");
        turn_link(f, "config.yaml", at(f, "available/small"));
        start(f);
        swap_data(f, "available/", "2", "b");
        assert_true(change_comes(f, SOON));
        turn_link(f, "config.yaml", "available/large");
        assert_true(change_comes(f, SOON));
        write_in_place(f, "available/large", "y");
        assert_true(change_comes(f, SOON));
        turn_link(f, "config.yaml", "/dev/null"); /* its fallback "empty" */
        assert_true(change_comes(f, SOON));
}

/* Whether the writes came so fast that there was no quiet between them; a machine may stand still for a moment. */
static bool write_often(struct fixture *f)
{
        static unsigned int number; /* never the same bytes again, which would be no change */
        uint64_t longest_ms = 0;

        for (int i = 0; i < 20; i++) {
                uint64_t start_ms = uv_hrtime() / 1000000;
                char text[16];

                snprintf(text, sizeof(text), "%u", number++);
                write_in_place(f, "config.yaml", text);
                change_comes(f, 10);
                longest_ms = MAX(longest_ms, uv_hrtime() / 1000000 - start_ms);
        }
        return longest_ms < 100;
}

static void test_many_changes_at_once_are_reported_as_one(void **state)
{
        struct fixture *f = *state;
        bool kept_pace;

        write_in_place(f, "config.yaml", "a");
        start(f);
        do {
                while (change_comes(f, A_WHILE))
                        ;
                f->changes = 0;
                kept_pace = write_often(f);
        } while (!kept_pace);
        assert_int_equal(f->changes, 0);
        assert_true(change_comes(f, SOON));
        assert_false(change_comes(f, A_WHILE));
}

static void test_a_file_that_changes_all_the_time_is_reported_after_a_second(void **state)
{
        struct fixture *f = *state;
        uint64_t start_ms = uv_hrtime() / 1000000;
        char text[16];

        write_in_place(f, "config.yaml", "a");
        start(f);
        for (int i = 0; !f->changes; i++) {
                snprintf(text, sizeof(text), "%d", i);
                write_in_place(f, "config.yaml", text);
                change_comes(f, 20);
                assert_true(uv_hrtime() / 1000000 - start_ms < 60000);
        }
}

static void test_a_missing_file_changes_nothing_and_one_that_comes_back_only_with_other_bytes(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        unlink(at(f, "config.yaml"));
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "config.yaml", "a");
        assert_false(change_comes(f, A_WHILE));
        unlink(at(f, "config.yaml"));
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "config.yaml", "b");
        assert_true(change_comes(f, SOON));
}

static void test_a_file_that_was_not_there_at_first_is_reported(void **state)
{
        struct fixture *f = *state;

        start(f);
        write_in_place(f, "config.yaml", "a");
        assert_true(change_comes(f, SOON));
}

static void test_a_file_that_is_too_large_is_a_change_and_reported_once(void **state)
{
        struct fixture *f = *state;
        char large[LIMIT + 2];

        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        write_in_place(f, "config.yaml", "a");
        start(f);
        write_in_place(f, "config.yaml", large);
        assert_true(change_comes(f, SOON));
        large[0] = 'y';
        write_in_place(f, "config.yaml", large);
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "config.yaml", "a");
        assert_true(change_comes(f, SOON));
}

/* Opening it would wait for a writer, and the node with it. */
static void test_a_pipe_in_the_place_of_the_file_is_no_file(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        assert_int_equal(mkfifo(at(f, "pipe"), 0600), 0);
        assert_int_equal(rename(at(f, "pipe"), at(f, "config.yaml")), 0);
        assert_false(change_comes(f, A_WHILE));
}

static void test_an_accepted_content_is_not_reported(void **state)
{
        struct fixture *f = *state;

        write_in_place(f, "config.yaml", "a");
        start(f);
        write_in_place(f, "config.yaml", "b");
        filewatch_accept(f->watch);
        assert_false(change_comes(f, A_WHILE));
        write_in_place(f, "config.yaml", "a");
        assert_true(change_comes(f, SOON));
}

/* A link among the folders above is nobody's entry that is watched. */
static void test_the_timer_finds_changes_without_an_event(void **state)
{
        struct fixture *f = *state;

        make_folder(f, "1");
        make_folder(f, "2");
        write_in_place(f, "1/config.yaml", "a");
        write_in_place(f, "2/config.yaml", "b");
        turn_link(f, "current", "1");
        start_at(f, "current/config.yaml", 100);
        turn_link(f, "current", "2");
        assert_true(change_comes(f, SOON));
        write_in_place(f, "2/config.yaml", "c");
        assert_true(change_comes(f, SOON));
}

static void test_links_in_a_circle_are_a_missing_file(void **state)
{
        struct fixture *f = *state;

        turn_link(f, "config.yaml", "other");
        turn_link(f, "other", "config.yaml");
        start(f);
        assert_false(change_comes(f, A_WHILE));
        replace(f, "other", "a");
        assert_true(change_comes(f, SOON));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_file_written_in_place_and_one_renamed_over_it_are_each_reported_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_same_bytes_again_are_no_change, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_other_files_of_the_folder_do_not_matter, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_written_to_other_files_wakes_nobody, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_written_to_a_device_wakes_nobody, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_files_that_come_and_go_beside_it_are_not_looked_at, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_folder_above_that_is_a_link_is_followed_by_event, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_folder_that_is_made_later_is_found, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_each_swap_of_a_configmap_is_reported, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_link_into_a_configmap_is_followed_wherever_it_leads, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_many_changes_at_once_are_reported_as_one, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_file_that_changes_all_the_time_is_reported_after_a_second, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_missing_file_changes_nothing_and_one_that_comes_back_only_with_other_bytes, set_up,
                        tear_down),
                cmocka_unit_test_setup_teardown(test_a_file_that_was_not_there_at_first_is_reported, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_file_that_is_too_large_is_a_change_and_reported_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_pipe_in_the_place_of_the_file_is_no_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_accepted_content_is_not_reported, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_timer_finds_changes_without_an_event, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_links_in_a_circle_are_a_missing_file, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
