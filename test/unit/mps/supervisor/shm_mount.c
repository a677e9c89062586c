// SPDX-License-Identifier: Apache-2.0
/*
 * What needs a right to mount is skipped without; how daemons use it is in test/e2e/test_mps_daemon.py.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "mps/supervisor/shm.h"
#include "mps/supervisor/shm_mount.h"

#define CLOCK_STEP_US 50000 /* longer than the clock by which files are dated stands still */

static char folder[64];
static char path[80];

static int make_folder(void **state UNUSED)
{
        strcpy(folder, "/tmp/warpshare-shm-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof(path), "%s/shm", folder);
        return 0;
}

static int remove_folder(void **state UNUSED)
{
        return rmdir(folder);
}

static void test_the_size_is_half_of_the_memory(void **state UNUSED)
{
        assert_int_equal(mps_shm_size_kib("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), 8192000);
        assert_int_equal(mps_shm_size_kib("MemFree: 1 kB\nMemTotal: 3 kB\n"), 1);
}

static void test_without_a_figure_the_size_is_64_mib(void **state UNUSED)
{
        assert_int_equal(mps_shm_size_kib(""), 65536);
        assert_int_equal(mps_shm_size_kib("MemTotal: much\n"), 65536);
        assert_int_equal(mps_shm_size_kib("MemTotal: 1 kB\n"), 65536);
}

static int open_folder(void)
{
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static void unmount(void)
{
        _close_ int fd = open_folder();
        struct error err;
        pid_t user;

        assert_int_equal(mps_shm_unmount(fd, folder, &user, &err), 0);
        assert_false(mps_shm_is_mounted(fd));
}

static void test_a_folder_without_a_mount_is_removed(void **state UNUSED)
{
        assert_int_equal(mkdir(path, 0755), 0);
        unmount();
        assert_int_equal(access(path, F_OK), -1);
        unmount(); /* again */
}

static void test_a_file_in_its_place_is_an_error(void **state UNUSED)
{
        FILE *file = fopen(path, "we");
        char text[200];
        struct error err;
        bool mounted;

        assert_non_null(file);
        fclose(file);
        snprintf(text, sizeof(text), "'%s' is neither a folder nor a tmpfs; unmount or remove it", path);
        assert_fails(mps_shm_mount(folder, 1024, &mounted, &err), &err, ERROR_INVALID, text);
        unlink(path);
}

static void test_a_link_in_its_place_is_an_error_and_not_followed(void **state UNUSED)
{
        _free_ char *other = xasprintf("%s/other", folder);
        _free_ char *text = xasprintf("'%s' is neither a folder nor a tmpfs; unmount or remove it", path);
        struct error err;
        struct stat status;
        bool mounted;

        assert_int_equal(mkdir(other, 0755), 0);
        assert_int_equal(symlink("other", path), 0);
        assert_fails(mps_shm_mount(folder, 1024, &mounted, &err), &err, ERROR_INVALID, text);
        unmount();
        assert_int_equal(lstat(path, &status), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(other), 0);
}

static void test_a_root_that_is_not_there_is_named(void **state UNUSED)
{
        struct error err;
        bool mounted;

        assert_fails(mps_shm_mount("/nonexistent", 1024, &mounted, &err), &err, ERROR_NOT_FOUND,
                "inspect '/nonexistent/shm': No such file or directory");
}

#define LINE(point, optional) "36 27 0:52 / " point " rw,nosuid" optional " - tmpfs shm rw,size=4k\n"

static void test_a_mount_below_a_private_volume_is_invisible_elsewhere(void **state UNUSED)
{
        static const struct {
                const char *mountinfo;
                bool is_in_first_namespace;
                bool is_seen;
        } cases[] = {
                {"", true, true},
                {"", false, false},
                {LINE("/", " shared:1") LINE("/run", " shared:7"), false, true},
                {LINE("/", "") LINE("/run", ""), true, true}, /* a host whose mounts are private */
                {LINE("/", "") LINE("/run", ""), false, false},
                {LINE("/", "") LINE("/mps", ""), true, false}, /* a container may have no first process but its own */
                {LINE("/", " shared:1") LINE("/mps", " master:3"), false, false},
                {LINE("/", "") LINE("/mps", " shared:3"), false, true},
                {LINE("/", "") LINE("/mps", " shared:3 master:4"), false, true},
                {LINE("/mps", " shared:3") LINE("/mps", ""), true, false}, /* another on top */
                {LINE("/mps/shm", "") LINE("/mps2", "") LINE("/", " shared:1"), false, true},
                {"nonsense\n/mps\n - \n", true, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (mps_shm_is_seen_by_others(cases[i].mountinfo, "/mps", cases[i].is_in_first_namespace) !=
                        cases[i].is_seen)
                        fail_msg("case %zu", i);
}

/* ---- what ended containers left: as root, who may mount ---- */

struct tenant {
        pid_t pid;
        int orders; /* closed: it ends */
};

/* A process that has |path| as /dev/shm. */
static struct tenant start_tenant(void)
{
        int orders[2];
        int said[2];
        char byte;
        struct tenant tenant;

        assert_int_equal(pipe(orders), 0);
        assert_int_equal(pipe(said), 0);
        tenant.pid = fork();
        assert_true(tenant.pid >= 0);
        if (tenant.pid == 0) {
                struct error err;

                close(orders[1]);
                if (mps_shm_enter(path, folder, &err) < 0 || write(said[1], "x", 1) != 1)
                        _exit(1);
                (void)!read(orders[0], &byte, 1);
                _exit(0);
        }
        close(orders[0]);
        close(said[1]);
        assert_int_equal(read(said[0], &byte, 1), 1);
        close(said[0]);
        tenant.orders = orders[1];
        return tenant;
}

static void end_tenant(const struct tenant *tenant)
{
        close(tenant->orders);
        assert_int_equal(waitpid(tenant->pid, NULL, 0), tenant->pid);
}

static void put_file(const char *name)
{
        _free_ char *file = xasprintf("%s/%s", path, name);
        FILE *to = fopen(file, "we");

        assert_non_null(to);
        fputs("x", to);
        fclose(to);
}

static bool has_file(const char *name)
{
        _free_ char *file = xasprintf("%s/%s", path, name);
        struct stat status;

        return lstat(file, &status) == 0;
}

static void mount_or_skip(void)
{
        struct stat status;
        struct error err;
        bool mounted = false;

        if (geteuid() != 0 || mps_shm_mount(folder, 4096, &mounted, &err) < 0 ||
                stat("/proc/self/ns/pid", &status) < 0 || status.st_ino != 0xEFFFFFFC)
                skip();
        assert_true(mounted);
}

/* In slices, as short as they can be. Returns how many files and folders are gone. */
static size_t remove_left(pid_t daemon, unsigned int age_s)
{
        struct mps_shm_left left = {.daemon = daemon, .age_s = age_s};
        size_t removed;
        bool is_over;

        snprintf(left.path, sizeof(left.path), "%s", path);
        removed = mps_shm_remove_left(&left, 60000, &is_over);
        assert_true(is_over);
        return removed;
}

static void test_files_are_removed_when_no_container_has_them_any_more(void **state UNUSED)
{
        struct tenant tenant;

        mount_or_skip();
        tenant = start_tenant();
        put_file("large");
        assert_int_equal(remove_left(0, 0), 0);
        assert_true(has_file("large"));
        end_tenant(&tenant);
        usleep(CLOCK_STEP_US);
        assert_int_equal(remove_left(0, 60), 0);
        assert_true(has_file("large"));
        assert_int_equal(remove_left(0, 0), 1);
        assert_false(has_file("large"));
        unmount();
}

/* A child that has it as /dev/shm is the daemon here; it inherits what is open. */
static void test_what_daemon_or_server_has_open_or_mapped_stays(void **state UNUSED)
{
        _free_ char *file = NULL;
        struct tenant daemon;
        void *mapped;
        int fd;

        mount_or_skip();
        file = xasprintf("%s/mapped", path);
        put_file("open");
        put_file("mapped");
        put_file("left");
        fd = open(file, O_RDWR | O_CLOEXEC);
        mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
        assert_true(mapped != MAP_FAILED);
        close(fd);
        free(TAKE_PTR(file));
        file = xasprintf("%s/open", path);
        fd = open(file, O_RDONLY | O_CLOEXEC);
        daemon = start_tenant();
        munmap(mapped, 1);
        close(fd);
        usleep(CLOCK_STEP_US);
        assert_int_equal(remove_left(daemon.pid, 0), 1);
        assert_true(has_file("open") && has_file("mapped") && !has_file("left"));
        end_tenant(&daemon);
        unmount();
}

static void test_no_link_is_followed(void **state UNUSED)
{
        static char outside[] = "/tmp/warpshare-shm-outside-XXXXXX";
        _free_ char *link = NULL;
        struct stat status;
        int fd;

        mount_or_skip();
        fd = mkstemp(outside);
        assert_true(fd >= 0);
        close(fd);
        link = xasprintf("%s/link", path);
        assert_int_equal(symlink(outside, link), 0);
        usleep(CLOCK_STEP_US);
        assert_int_equal(remove_left(0, 0), 1);
        assert_int_equal(stat(outside, &status), 0);
        unmount();
        unlink(outside);
}

#define DEPTH 5000U

static void test_folders_in_folders_are_removed_at_once(void **state UNUSED)
{
        struct mps_shm shm;
        struct error err;
        int at;

        mount_or_skip();
        at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned int i = 0; i < DEPTH; i++) {
                int below;

                assert_int_equal(mkdirat(at, "d", 0700), 0);
                below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                assert_true(below >= 0);
                close(at);
                at = below;
        }
        close(at);
        usleep(CLOCK_STEP_US);
        assert_int_equal(remove_left(0, 0), DEPTH);
        assert_int_equal(mps_shm_poll(&shm, path, &err), 0);
        assert_int_equal(shm.files, 1); /* itself */
        unmount();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_size_is_half_of_the_memory),
                cmocka_unit_test(test_without_a_figure_the_size_is_64_mib),
                cmocka_unit_test(test_a_folder_without_a_mount_is_removed),
                cmocka_unit_test(test_a_file_in_its_place_is_an_error),
                cmocka_unit_test(test_a_link_in_its_place_is_an_error_and_not_followed),
                cmocka_unit_test(test_a_root_that_is_not_there_is_named),
                cmocka_unit_test(test_a_mount_below_a_private_volume_is_invisible_elsewhere),
                cmocka_unit_test(test_files_are_removed_when_no_container_has_them_any_more),
                cmocka_unit_test(test_what_daemon_or_server_has_open_or_mapped_stays),
                cmocka_unit_test(test_no_link_is_followed),
                cmocka_unit_test(test_folders_in_folders_are_removed_at_once),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
