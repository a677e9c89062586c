// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io/lock.h"

static char folder[64];
static int failure; /* of the next stat(); 0: none */

/* The module's. */
int stat(const char *path, struct stat *ret)
{
        if (!failure)
                return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
        errno = failure;
        failure = 0;
        return -1;
}

static int make_folder(void **state UNUSED)
{
        strcpy(folder, "/tmp/warpshare-lock-XXXXXX");
        return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state UNUSED)
{
        return rmdir(folder);
}

static void test_a_directory_is_locked_once(void **state UNUSED)
{
        struct lock first = LOCK_INIT;
        struct lock second = LOCK_INIT;
        struct error err;

        assert_ok(lock_take(&first, folder, &err), &err);
        assert_int_equal(lock_take(&second, folder, &err), LOCK_BUSY);
        assert_int_equal(second.fd, -1);
        lock_release(&first);
        assert_int_equal(lock_take(&second, folder, &err), 0);
        lock_release(&second);
}

/* As after a kill: the child has the descriptor until it executes something. */
static void test_a_lock_that_a_killed_process_left_to_its_child_is_waited_for(void **state UNUSED)
{
        struct lock held = LOCK_INIT;
        struct lock next = LOCK_INIT;
        struct error err;
        pid_t child;

        assert_ok(lock_take(&held, folder, &err), &err);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                usleep(200 * 1000);
                _exit(0);
        }
        close(held.fd); /* without an unlock, as when a process ends */
        held.fd = -1;
        assert_int_equal(lock_take(&next, folder, &err), LOCK_BUSY);
        assert_int_equal(lock_take_within(&next, folder, 60000, &err), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(lock_take_within(&held, folder, 40, &err), LOCK_BUSY);
        lock_release(&next);
}

/* Of the events of a directory that libuv asks for. */
static void test_a_waiter_learns_that_the_lock_is_free(void **state UNUSED)
{
        struct lock first = LOCK_INIT;
        struct lock second = LOCK_INIT;
        struct error err;
        struct pollfd watch = {.fd = inotify_init1(IN_CLOEXEC), .events = POLLIN};

        assert_true(watch.fd >= 0);
        assert_true(inotify_add_watch(watch.fd, folder, IN_ATTRIB | IN_CREATE | IN_MODIFY | IN_DELETE) >= 0);
        assert_ok(lock_take(&first, folder, &err), &err);
        assert_int_equal(lock_take(&second, folder, &err), LOCK_BUSY);
        assert_int_equal(poll(&watch, 1, 0), 0); /* who tries wakes nobody, himself least of all */
        lock_release(&first);                    /* nor does who only looked */
        assert_int_equal(poll(&watch, 1, 0), 0);
        assert_ok(lock_take(&first, folder, &err), &err);
        lock_hand_over(&first);
        assert_int_equal(poll(&watch, 1, 0), 1);
        assert_int_equal(lock_take(&second, folder, &err), 0);
        lock_release(&second);
        close(watch.fd);
}

static void test_a_process_that_dies_gives_the_lock_back(void **state UNUSED)
{
        struct lock lock = LOCK_INIT;
        struct error err;
        int status;
        pid_t child = fork();

        if (child == 0)
                _exit(lock_take(&lock, folder, &err) == 0 ? 7 : 1); /* dies with the lock held */
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WEXITSTATUS(status), 7);
        assert_int_equal(lock_take(&lock, folder, &err), 0);
        lock_release(&lock);
}

static void test_a_directory_made_again_is_not_the_locked_one(void **state UNUSED)
{
        char parked[80];
        struct lock lock = LOCK_INIT;
        struct error err;

        assert_ok(lock_take(&lock, folder, &err), &err);
        assert_true(lock_is_current(&lock, folder));
        snprintf(parked, sizeof(parked), "%s-old", folder);
        assert_int_equal(rename(folder, parked), 0);
        assert_false(lock_is_current(&lock, folder));
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_false(lock_is_current(&lock, folder));
        assert_ok(lock_take(&lock, folder, &err), &err);
        assert_true(lock_is_current(&lock, folder));
        lock_release(&lock);
        assert_false(lock_is_current(&lock, folder));
        assert_int_equal(rmdir(parked), 0);
}

static void test_a_directory_that_cannot_be_looked_at_now_is_the_locked_one(void **state UNUSED)
{
        static const struct {
                int failure;
                bool is_current;
        } rows[] = {{ENOMEM, true}, {EIO, true}, {ENOENT, false}, {ENOTDIR, false}};
        struct lock lock = LOCK_INIT;
        struct error err;

        assert_false(lock_is_current(&lock, folder));
        assert_ok(lock_take(&lock, folder, &err), &err);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                failure = rows[i].failure;
                assert_int_equal(lock_is_current(&lock, folder), rows[i].is_current);
                assert_true(lock_is_current(&lock, folder));
        }
        lock_release(&lock);
}

static void test_a_missing_directory_is_named(void **state UNUSED)
{
        struct lock lock = LOCK_INIT;
        struct error err;

        assert_fails(lock_take(&lock, "/nonexistent", &err), &err, ERROR_NOT_FOUND,
                "open directory '/nonexistent': No such file or directory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_directory_is_locked_once),
                cmocka_unit_test(test_a_lock_that_a_killed_process_left_to_its_child_is_waited_for),
                cmocka_unit_test(test_a_waiter_learns_that_the_lock_is_free),
                cmocka_unit_test(test_a_process_that_dies_gives_the_lock_back),
                cmocka_unit_test(test_a_directory_made_again_is_not_the_locked_one),
                cmocka_unit_test(test_a_directory_that_cannot_be_looked_at_now_is_the_locked_one),
                cmocka_unit_test(test_a_missing_directory_is_named),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
