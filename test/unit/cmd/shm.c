/*
 * What needs no right to mount; the rest is in test/e2e/test_mps_daemon.py.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "cmd/shm.h"

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
        assert_int_equal(shm_size_kib("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), 8192000);
        assert_int_equal(shm_size_kib("MemFree: 1 kB\nMemTotal: 3 kB\n"), 1);
}

static void test_without_a_figure_the_size_is_64_mib(void **state UNUSED)
{
        assert_int_equal(shm_size_kib(""), 65536);
        assert_int_equal(shm_size_kib("MemTotal: much\n"), 65536);
        assert_int_equal(shm_size_kib("MemTotal: 1 kB\n"), 65536);
}

static void test_a_folder_without_a_mount_is_removed(void **state UNUSED)
{
        struct error err;
        pid_t user;

        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(shm_unmount(folder, &user, &err), 0);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(shm_unmount(folder, &user, &err), 0); /* again */
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
        assert_fails(shm_mount(folder, &mounted, &err), &err, ERROR_INVALID, text);
        unlink(path);
}

static void test_a_root_that_is_not_there_is_named(void **state UNUSED)
{
        struct error err;
        bool mounted;

        assert_fails(shm_mount("/nonexistent", &mounted, &err), &err, ERROR_NOT_FOUND,
                "look at '/nonexistent': No such file or directory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_size_is_half_of_the_memory),
                cmocka_unit_test(test_without_a_figure_the_size_is_64_mib),
                cmocka_unit_test(test_a_folder_without_a_mount_is_removed),
                cmocka_unit_test(test_a_file_in_its_place_is_an_error),
                cmocka_unit_test(test_a_root_that_is_not_there_is_named),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
