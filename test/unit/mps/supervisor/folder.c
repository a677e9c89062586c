// SPDX-License-Identifier: Apache-2.0
/*
 * What is seen of a pipe directory, and what is not: each look of the module comes here first, and may fail.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "mps/supervisor/folder.h"

static int looks_left = -1; /* before one fails; -1: none does */

static bool fails(void)
{
        if (looks_left < 0 || looks_left-- > 0)
                return false;
        errno = ENOMEM;
        return true;
}

int fstatat(int folder, const char *path, struct stat *ret, int flags)
{
        return fails() ? -1 : (int)syscall(SYS_newfstatat, folder, path, ret, flags);
}

int stat(const char *path, struct stat *ret)
{
        return fails() ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

struct fixture {
        char root[32];
        struct mps_folder folder;
        int sockets[2];
};

static char *path_of(const struct fixture *fixture, const char *name)
{
        return xasprintf("%s/%s", fixture->folder.pipe, name);
}

static int listen_as(const struct fixture *fixture, const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _free_ char *path = path_of(fixture, name);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_true(strlen(path) < sizeof(address.sun_path));
        strcpy(address.sun_path, path);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 4), 0);
        return fd;
}

/* This process is the daemon. */
static int set_up(void **state)
{
        struct fixture *fixture = xcalloc(1, sizeof(*fixture));
        _free_ char *lock = NULL;
        struct error err;

        strcpy(fixture->root, "/tmp/ws-folder-XXXXXX");
        assert_non_null(mkdtemp(fixture->root));
        mps_folder_init(&fixture->folder, fixture->root, "GPU-0");
        assert_ok(mps_folder_make(&fixture->folder, fixture->root, &err), &err);
        fixture->sockets[0] = listen_as(fixture, "control");
        fixture->sockets[1] = listen_as(fixture, "control_privileged");
        lock = path_of(fixture, "control_lock");
        close(open(lock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        mps_folder_note_doors(&fixture->folder, getpid());
        *state = fixture;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *command = xasprintf("rm -r '%s'", fixture->root);

        close(fixture->sockets[0]);
        close(fixture->sockets[1]);
        mps_folder_done(&fixture->folder);
        assert_int_equal(system(command), 0);
        free(fixture);
        return 0;
}

static void test_doors_that_were_replaced_or_are_gone_are_named(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *lock = path_of(fixture, "control_lock");
        _free_ char *aside = path_of(fixture, "aside");
        _free_ char *door = path_of(fixture, "control_privileged");

        assert_null(mps_folder_changed_door(&fixture->folder));
        assert_int_equal(rename(lock, aside), 0);
        assert_string_equal(mps_folder_changed_door(&fixture->folder), "control_lock");
        assert_int_equal(rename(aside, lock), 0);
        assert_null(mps_folder_changed_door(&fixture->folder));
        assert_int_equal(rename(door, aside), 0);
        close(fixture->sockets[1]);
        fixture->sockets[1] = listen_as(fixture, "control_privileged");
        assert_string_equal(mps_folder_changed_door(&fixture->folder), "control_privileged");
}

static void test_a_door_that_is_not_the_daemons_is_named_from_the_start(void **state)
{
        struct fixture *fixture = *state;

        mps_folder_note_doors(&fixture->folder, 1);
        assert_string_equal(mps_folder_changed_door(&fixture->folder), "control");
}

static void test_what_cannot_be_looked_at_now_has_not_changed(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *lock = path_of(fixture, "control_lock");

        for (int i = 0; i < 3; i++) {
                looks_left = i;
                assert_null(mps_folder_changed_door(&fixture->folder));
                assert_int_equal(looks_left, -1);
        }
        looks_left = 0;
        assert_true(mps_folder_is_same(&fixture->folder));
        assert_int_equal(looks_left, -1);
        assert_int_equal(unlink(lock), 0);
        looks_left = 2;
        assert_null(mps_folder_changed_door(&fixture->folder));
        assert_string_equal(mps_folder_changed_door(&fixture->folder), "control_lock");
}

static void test_a_pipe_directory_that_was_moved_away_is_another(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *aside = xasprintf("%s/aside", fixture->root);

        assert_true(mps_folder_is_same(&fixture->folder));
        assert_int_equal(rename(fixture->folder.pipe, aside), 0);
        assert_false(mps_folder_is_same(&fixture->folder));
        assert_int_equal(mkdir(fixture->folder.pipe, 0755), 0);
        assert_false(mps_folder_is_same(&fixture->folder));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_doors_that_were_replaced_or_are_gone_are_named, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_door_that_is_not_the_daemons_is_named_from_the_start, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_cannot_be_looked_at_now_has_not_changed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_pipe_directory_that_was_moved_away_is_another, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
