// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/proc.h"
#include "base/file.h"

static void test_the_boot_id_is_the_first_line(void **state UNUSED)
{
        char path[] = "/dev/shm/test-boot-id-XXXXXX";
        int fd = mkstemp(path);
        _free_ char *expected = xasprintf("boot id: '%s' is empty", path);
        _free_ char *id = NULL;
        struct error err;

        assert_true(fd >= 0);
        close(fd);
        assert_ok(file_write(path, "\n", 1, &err), &err);
        assert_fails(boot_id_read(&id, path, &err), &err, ERROR_INVALID, expected);
        assert_ok(file_write(path, "6f1c3d3e-0000\n", 14, &err), &err);
        assert_ok(boot_id_read(&id, path, &err), &err);
        assert_string_equal(id, "6f1c3d3e-0000");
        unlink(path);
}

static void test_this_boot_has_an_id(void **state UNUSED)
{
        _free_ char *first = NULL;
        _free_ char *second = NULL;
        struct error err;

        assert_ok(boot_id_read(&first, BOOT_ID_PATH, &err), &err);
        assert_ok(boot_id_read(&second, BOOT_ID_PATH, &err), &err);
        assert_string_equal(first, second);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_boot_id_is_the_first_line),
                cmocka_unit_test(test_this_boot_has_an_id),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
