// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "gpu/nvml.h"
#include "gpu/nvml_read.h"

static void test_a_given_library_is_taken_as_it_is(void **state UNUSED)
{
        _free_ char *path = nvml_locate("/opt/x/libnvidia-ml.so.1", "/");

        assert_string_equal(path, "/opt/x/libnvidia-ml.so.1");
}

static void test_without_a_driver_root_the_linker_searches(void **state UNUSED)
{
        static const char *const roots[] = {"", "/", NULL, "/nowhere/at/all"};

        for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                _free_ char *path = nvml_locate("", roots[i]);

                assert_string_equal(path, "libnvidia-ml.so.1");
        }
}

static void touch(const char *path)
{
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fclose(file);
}

/* A driver root as a distribution leaves it: the versioned file, and a link to it. */
static void test_a_library_below_the_driver_root_is_found_through_its_links(void **state UNUSED)
{
        static const char *const folders[] = {"usr", "usr/lib", "usr/lib/aarch64-linux-gnu", "usr/lib64"};
        char root[] = "/tmp/warpshare-nvml-XXXXXX";
        char resolved[PATH_MAX];
        _free_ char *command = NULL;

        assert_non_null(mkdtemp(root));
        assert_non_null(realpath(root, resolved));
        for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
                _free_ char *path = xasprintf("%s/%s", root, folders[i]);

                assert_int_equal(mkdir(path, 0755), 0);
        }
        for (size_t i = 2; i < ARRAY_SIZE(folders); i++) {
                _free_ char *file = xasprintf("%s/%s/libnvidia-ml.so.580.1", root, folders[i]);
                _free_ char *link = xasprintf("%s/%s/libnvidia-ml.so.1", root, folders[i]);
                _free_ char *expected = xasprintf("%s/%s/libnvidia-ml.so.580.1", resolved, folders[i]);
                _free_ char *found = NULL;

                /* A link that leads nowhere is none; usr/lib64 comes first once it has the library. */
                assert_int_equal(symlink("libnvidia-ml.so.580.1", link), 0);
                if (i == 2) {
                        _free_ char *none = nvml_locate("", root);

                        assert_string_equal(none, "libnvidia-ml.so.1");
                }
                touch(file);
                found = nvml_locate(NULL, root);
                assert_string_equal(found, expected);
        }
        command = xasprintf("rm -r %s", root);
        assert_int_equal(system(command), 0);
}

static void test_a_missing_library_is_explained(void **state UNUSED)
{
        struct nvml *nvml = NULL;
        struct error err;

        assert_fails(nvml_open(&nvml, "/nowhere/libnvidia-ml.so.1", "", &err), &err, ERROR_NOT_FOUND,
                "/nowhere/libnvidia-ml.so.1 not found: is the NVIDIA driver installed on this node, and was this container "
                "started with the NVIDIA runtime (or with the driver mounted at its driver root)?");
        assert_null(nvml);
}

static void test_another_library_is_recognised_by_missing_functions(void **state UNUSED)
{
        struct nvml *nvml = NULL;
        struct error err;

        assert_fails(nvml_open(&nvml, "libm.so.6", "", &err), &err, ERROR_INVALID,
                "libm.so.6 is not NVIDIA's management library: it has no nvmlInit_v2");
}

/* NVIDIA's own mock of NVML is such a library, and NVIDIA's programs load it. */
static void test_a_library_may_need_what_we_never_call(void **state UNUSED)
{
        struct nvml *nvml = NULL;
        struct error err;

        assert_ok(nvml_open(&nvml, getenv("WARPSHARE_UNDEFINED_NVML"), "", &err), &err);
        assert_null(nvml->functions.device_get_remapped_rows);
        nvml_close(nvml);
}

static void test_a_file_that_is_no_library_is_named(void **state UNUSED)
{
        char path[] = "/tmp/warpshare-nvml-XXXXXX";
        struct nvml *nvml = NULL;
        struct error err;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "text", 4), 4);
        close(fd);
        assert_int_equal(nvml_open(&nvml, path, "", &err), -1);
        unlink(path);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_non_null(strstr(err.text, "cannot load NVML: "));
        assert_non_null(strstr(err.text, path));
}

/* NVIDIA's own library, where tools/fetch-nonfree has put one, on a machine without a driver. */
static void test_the_real_library_without_a_driver_is_explained(void **state UNUSED)
{
        const char *library = getenv("WARPSHARE_REAL_NVML");
        struct nvml *nvml = NULL;
        struct error err;

        if (!library || access(library, R_OK) < 0 || access("/proc/driver/nvidia", F_OK) == 0) {
                /* cmocka's own skip() prints "not ok", which Meson takes at its word. */
                print_message("# skipped: no library from tools/fetch-nonfree, or a driver is loaded\n");
                return;
        }
        assert_int_equal(nvml_open(&nvml, library, "", &err), -1);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_non_null(strstr(err.text, "the NVIDIA driver is not loaded"));
}

static void test_an_error_has_the_call_and_the_code(void **state UNUSED)
{
        struct error err;

        assert_fails(nvml_fail(NULL, NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetName", &err), &err, ERROR_UNAVAILABLE,
                "nvmlDeviceGetName: GPU_IS_LOST");
        assert_fails(nvml_fail(NULL, NVML_ERROR_NO_PERMISSION, "nvmlInit", &err), &err, ERROR_DENIED,
                "nvmlInit: NO_PERMISSION");
        assert_fails(
                nvml_fail(NULL, (nvmlReturn_t)77, "nvmlInit", &err), &err, ERROR_UNAVAILABLE, "nvmlInit: error 77");
}

static void test_bus_ids_are_spelled_as_in_sysfs(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"00000000:3B:00.0", "0000:3b:00.0"},
                {"0000FEDC:3B:00.0", "fedc:3b:00.0"},
                {"00010000:07:00.0", "10000:07:00.0"},
                {"ABCD0000:07:00.0", "abcd0000:07:00.0"},
                {"0000:3B:00.0", "0000:3b:00.0"},
                {"", ""},
                {"garbage", "garbage"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char text[32];

                nvml_bus_to_sysfs(table[i][0], text, sizeof(text));
                assert_string_equal(text, table[i][1]);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_given_library_is_taken_as_it_is),
                cmocka_unit_test(test_without_a_driver_root_the_linker_searches),
                cmocka_unit_test(test_a_library_below_the_driver_root_is_found_through_its_links),
                cmocka_unit_test(test_a_missing_library_is_explained),
                cmocka_unit_test(test_another_library_is_recognised_by_missing_functions),
                cmocka_unit_test(test_a_library_may_need_what_we_never_call),
                cmocka_unit_test(test_a_file_that_is_no_library_is_named),
                cmocka_unit_test(test_the_real_library_without_a_driver_is_explained),
                cmocka_unit_test(test_an_error_has_the_call_and_the_code),
                cmocka_unit_test(test_bus_ids_are_spelled_as_in_sysfs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
