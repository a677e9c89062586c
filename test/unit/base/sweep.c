// SPDX-License-Identifier: Apache-2.0
/*
 * The folder is a tenant's, who goes on working in it: between two slices, which are one step each where a test says
 * so.
 */
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/sweep.h"
#include "chance.h"
#include "old_kernel.h"

#define DEPTH 5000U
#define LONG_MS 600000U

static char root[] = "/dev/shm/warpshare-sweep-XXXXXX";
static char inside[64];  /* is swept */
static char outside[64]; /* is not */

static void make_folders(void)
{
        assert_int_equal(mkdir(inside, 0700), 0);
        assert_int_equal(mkdir(outside, 0700), 0);
}

static int setup_root(void **state UNUSED)
{
        if (!mkdtemp(root))
                return -1;
        snprintf(inside, sizeof(inside), "%s/inside", root);
        snprintf(outside, sizeof(outside), "%s/outside", root);
        return 0;
}

static int remove_root(void **state UNUSED)
{
        return rmdir(root);
}

static int open_folder(const char *path)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

/* Folders in folders below |at|, which it closes. */
static void nest(int at, unsigned int depth)
{
        for (unsigned int i = 0; i < depth; i++) {
                int below;

                assert_int_equal(mkdirat(at, "d", 0700), 0);
                below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                assert_true(below >= 0);
                close(at);
                at = below;
        }
        close(at);
}

static void put_at(int folder, const char *name)
{
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
}

static void put(const char *folder, const char *name)
{
        int fd = open_folder(folder);

        put_at(fd, name);
        close(fd);
}

static size_t count_in(const char *path)
{
        DIR *folder = opendir(path);
        size_t count = 0;

        assert_non_null(folder);
        while (readdir(folder))
                count++;
        closedir(folder);
        return count - 2; /* . and .. */
}

static int sweep_path(const char *path, struct error *err)
{
        int above = open_folder(root);
        int rc = sweep_folder(above, file_base_name(path), path, LONG_MS, err);

        close(above);
        return rc;
}

static void remove_all(void)
{
        struct error err;

        assert_ok(sweep_path(inside, &err), &err);
        assert_ok(sweep_path(outside, &err), &err);
}

static void test_a_folder_goes_with_all_that_is_in_it(void **state UNUSED)
{
        _free_ char *text = xasprintf("open '%s': No such file or directory", inside);
        struct error err;
        int fd;

        make_folders();
        put(inside, "file");
        fd = open_folder(inside);
        assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
        assert_int_equal(symlinkat(outside, fd, "link"), 0);
        assert_int_equal(mkdirat(fd, "unreadable", 0), 0);
        nest(fd, 3);
        put(outside, "kept");
        assert_ok(sweep_path(inside, &err), &err);
        assert_int_equal(access(inside, F_OK), -1);
        assert_int_equal(count_in(outside), 1);
        assert_fails(sweep_path(inside, &err), &err, ERROR_NOT_FOUND, text);
        mkdir(inside, 0700);
        remove_all();
}

static void test_a_link_in_its_place_is_not_followed(void **state UNUSED)
{
        _free_ char *text = xasprintf("open '%s': Not a directory", inside);
        struct error err;

        make_folders();
        put(outside, "kept");
        rmdir(inside);
        assert_int_equal(symlink(outside, inside), 0);
        assert_fails(sweep_path(inside, &err), &err, ERROR_INVALID, text);
        assert_int_equal(count_in(outside), 1);
        assert_int_equal(unlink(inside), 0);
        mkdir(inside, 0700);
        remove_all();
}

static void test_no_depth_is_too_much_and_few_files_are_open_for_it(void **state UNUSED)
{
        struct sweep *sweep;
        size_t before;

        make_folders();
        nest(open_folder(inside), DEPTH);
        before = count_in("/proc/self/fd");
        sweep = sweep_new(open_folder(inside), NULL, NULL);
        while (!sweep_run(sweep, 0))
                if (count_in("/proc/self/fd") > before + 20)
                        fail_msg("%zu files are open", count_in("/proc/self/fd") - before);
        assert_int_equal(sweep_removed(sweep), DEPTH);
        sweep_free(sweep);
        assert_int_equal(count_in(inside), 0);
        remove_all();
}

static void test_a_wide_tree_of_deep_folders_goes_at_once(void **state UNUSED)
{
        make_folders();
        for (unsigned int i = 0; i < 40; i++) {
                _free_ char *path = xasprintf("%s/%u", inside, i);

                assert_int_equal(mkdir(path, 0700), 0);
                nest(open_folder(path), 60);
                put(path, "file");
        }
        remove_all();
        assert_int_equal(access(inside, F_OK), -1);
}

/* ---- mounts ---- */

/* 0: what is mounted stays as it was, and is named; 77: this process may not mount; else: it does not stay. */
static int sweep_over_a_mount(bool is_old_kernel)
{
        _free_ char *point = xasprintf("%s/d", inside);
        _free_ char *expected = xasprintf(
                "something is mounted in '%s': unmount it, and run this again; the rest of it is removed", inside);
        struct error err;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount(outside, point, NULL, MS_BIND, NULL) < 0)
                return 77;
        if (is_old_kernel)
                old_kernel_without_openat2();
        if (sweep_path(inside, &err) == 0)
                return 1;
        return strcmp(err.text, expected) == 0 && count_in(inside) == 1 && count_in(outside) == 1 ? 0 : 2;
}

static void expect_that_a_mount_stays(bool is_old_kernel)
{
        pid_t child;
        int status;

        make_folders();
        nest(open_folder(inside), 2);
        put(inside, "file");
        put(outside, "kept");
        child = fork();
        if (child == 0)
                _exit(sweep_over_a_mount(is_old_kernel));
        assert_int_equal(waitpid(child, &status, 0), child);
        remove_all();
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_mount_of_the_same_file_system_is_not_entered(void **state UNUSED)
{
        expect_that_a_mount_stays(false);
}

static void test_nor_is_it_where_the_kernel_cannot_be_told(void **state UNUSED)
{
        expect_that_a_mount_stays(true);
}

static bool keeps_files(const struct stat *status, void *data)
{
        return S_ISREG(status->st_mode) && status->st_nlink == *(nlink_t *)data;
}

static void test_what_is_to_stay_stays_with_the_folders_above_it(void **state UNUSED)
{
        nlink_t kept = 1;
        _free_ char *path = NULL;
        struct sweep *sweep;
        int fd;

        make_folders();
        fd = open_folder(inside);
        nest(fcntl(fd, F_DUPFD_CLOEXEC, 0), 2);
        assert_int_equal(mkdirat(fd, "empty", 0700), 0);
        put_at(fd, "two names");
        assert_int_equal(linkat(fd, "two names", fd, "another", 0), 0);
        path = xasprintf("%s/d/d", inside);
        put(path, "one name");
        sweep = sweep_new(fd, keeps_files, &kept);
        while (!sweep_run(sweep, 0))
                ;
        /* The last name of two is the only one. */
        assert_int_equal(sweep_removed(sweep), 2);
        sweep_free(sweep);
        assert_int_equal(count_in(path), 1);
        assert_int_equal(count_in(inside), 2);
        remove_all();
}

/* ---- a tenant who works against it ---- */

static char *draw_path(struct chance *chance, unsigned int depth)
{
        char *path = xstrdup(inside);

        for (uint64_t i = chance_draw(chance, depth) + 1; i > 0; i--) {
                char *next = xasprintf("%s/%s", path, chance_happens(chance, 8) ? "e" : "d");

                free(path);
                path = next;
        }
        return path;
}

/* Whatever it does may fail, where what it needs is gone. */
static void do_harm(struct chance *chance)
{
        _free_ char *from = draw_path(chance, 40);
        _free_ char *to = draw_path(chance, 40);
        int fd;

        switch ((unsigned int)chance_draw(chance, 5)) {
        case 0:
                (void)!mkdir(to, 0700);
                break;
        case 1:
                (void)!symlink(outside, to);
                break;
        case 2:
                (void)!rename(from, to);
                break;
        case 3:
                (void)!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
                break;
        default:
                fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_EXCL, 0600);
                if (fd >= 0)
                        close(fd);
        }
}

static void test_whatever_is_moved_meanwhile_nothing_else_is_removed(void **state UNUSED)
{
        _free_ char *kept = xasprintf("%s/kept", outside); /* the tenant comes to |outside| by its own links, too */

        for (uint64_t seed = 0; seed < 60; seed++) {
                struct chance chance = chance_of_seed(seed);
                unsigned int steps = 0;
                struct sweep *sweep;

                make_folders();
                put(outside, "kept");
                nest(open_folder(inside), 60);
                for (unsigned int i = 0; i < 1000; i++)
                        do_harm(&chance);
                sweep = sweep_new(open_folder(inside), NULL, NULL);
                while (!sweep_run(sweep, 0)) {
                        if (++steps < 3000)
                                do_harm(&chance);
                        if (steps > 100000)
                                fail_msg("seed %llu: it has no end", (unsigned long long)seed);
                }
                sweep_free(sweep);
                assert_int_equal(access(kept, F_OK), 0);
                remove_all();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_folder_goes_with_all_that_is_in_it),
                cmocka_unit_test(test_a_link_in_its_place_is_not_followed),
                cmocka_unit_test(test_no_depth_is_too_much_and_few_files_are_open_for_it),
                cmocka_unit_test(test_a_wide_tree_of_deep_folders_goes_at_once),
                cmocka_unit_test(test_a_mount_of_the_same_file_system_is_not_entered),
                cmocka_unit_test(test_nor_is_it_where_the_kernel_cannot_be_told),
                cmocka_unit_test(test_what_is_to_stay_stays_with_the_folders_above_it),
                cmocka_unit_test(test_whatever_is_moved_meanwhile_nothing_else_is_removed),
        };

        return cmocka_run_group_tests(tests, setup_root, remove_root);
}
