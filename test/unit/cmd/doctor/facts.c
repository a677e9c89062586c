// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "cmd/doctor/facts.h"

static void test_the_drivers_version_is_found_in_both_forms(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *version; /* NULL: none */
        } cases[] = {
                {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
                 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
                        "550.163.01"},
                {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (root@host)\n",
                        "580.105.08"},
                {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  615.10", "615.10"},
                {"NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version: 12.2.0\n", NULL},
                {"GCC version: 12.2.0\n", NULL},
                {"NVRM version: 5 550. .5 5x.1 1.2x", NULL},
                {"NVRM version: 1111111111.1111111111.1111111111", NULL}, /* longer than any */
                {"", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char version[FACTS_VERSION_MAX] = "untouched";

                assert_int_equal(facts_driver_version(cases[i].text, version), cases[i].version != NULL);
                assert_string_equal(version, cases[i].version ? cases[i].version : "untouched");
        }
}

static void test_mounts_on_one_path_are_counted(void **state UNUSED)
{
        static const char text[] = "22 28 0:20 / /sys rw - sysfs sysfs rw\n"
                                   "36 35 0:50 / /mps/shm rw,nosuid shared:1 - tmpfs shm rw\n"
                                   "37 35 0:51 / /mps/shm rw,nosuid shared:1 - tmpfs shm rw\n"
                                   "38 35 0:52 /mps/shm /dev/shm rw - tmpfs shm rw\n"
                                   "39 35 0:53 / /mps/shm2 rw - tmpfs shm rw\n"
                                   "broken\n";

        assert_int_equal(facts_count_mounts(text, "/mps/shm"), 2);
        assert_int_equal(facts_count_mounts(text, "/mps/shm2"), 1);
        assert_int_equal(facts_count_mounts(text, "/mps"), 0);
        assert_int_equal(facts_count_mounts("", "/mps"), 0);
        assert_int_equal(facts_count_mounts("1 2 3 4", "/mps"), 0);
}

static void test_labels_of_containers_are_known(void **state UNUSED)
{
        assert_true(facts_is_container_label("system_u:object_r:container_file_t:s0"));
        assert_true(facts_is_container_label("system_u:object_r:svirt_sandbox_file_t:s0:c1,c2"));
        assert_false(facts_is_container_label("system_u:object_r:var_run_t:s0"));
        assert_false(facts_is_container_label(""));
}

static void test_sockets_of_nvidias_plugins_are_distinguished_from_others(void **state UNUSED)
{
        assert_true(facts_is_nvidia_socket("nvidia-gpu.sock"));
        assert_true(facts_is_nvidia_socket("nvidia-mig-1g.5gb.sock"));
        assert_false(facts_is_nvidia_socket("kubelet.sock"));
        assert_false(facts_is_nvidia_socket("warpshare-gpu-1-1.sock"));
        assert_false(facts_is_nvidia_socket("nvidia-"));
        assert_false(facts_is_nvidia_socket("nvidia-gpu.sock.old"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_drivers_version_is_found_in_both_forms),
                cmocka_unit_test(test_mounts_on_one_path_are_counted),
                cmocka_unit_test(test_labels_of_containers_are_known),
                cmocka_unit_test(test_sockets_of_nvidias_plugins_are_distinguished_from_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
