// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "base/proc.h"

static void test_each_line_has_its_device_place_and_propagation(void **state UNUSED)
{
        static const char text[] = "36 35 98:1 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
                                   "1 2 3 4\n"
                                   "\n"
                                   "37 36 0:24 / / rw,relatime shared:7 master:2 - tmpfs shm rw\n"
                                   "38 36 0:25 / /mnt rw - tmpfs is shared:8";
        const char *at = text;
        struct mountinfo_line line;

        assert_true(mountinfo_next(&at, &line));
        assert_int_equal(line.device, makedev(98, 1));
        assert_true(mountinfo_is_at(&line, "/mnt2"));
        assert_false(mountinfo_is_at(&line, "/mnt"));
        assert_false(mountinfo_is_at(&line, "/mnt2/a"));
        assert_false(line.is_shared);
        assert_true(mountinfo_next(&at, &line));
        assert_int_equal(line.device, makedev(0, 24));
        assert_true(mountinfo_is_at(&line, "/"));
        assert_true(line.is_shared);
        assert_true(mountinfo_next(&at, &line));
        assert_true(mountinfo_is_at(&line, "/mnt"));
        assert_false(line.is_shared); /* that is the source */
        assert_false(mountinfo_next(&at, &line));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_line_has_its_device_place_and_propagation)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
