// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "node/cdi/mps_devices.h"

#define FILE_OF(allocation) "k8s.device-plugin.nvidia.com-mps-" allocation ".json"

static const char *const variables[] = {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1M,1=2M"};

static char *make_folder(void)
{
        char *folder = xstrdup("/tmp/ws-start-XXXXXX");

        assert_non_null(mkdtemp(folder));
        return folder;
}

static void remove_folder(char *folder)
{
        _free_ char *command = xasprintf("rm -r '%s'", folder);

        assert_int_equal(system(command), 0);
        free(folder);
}

static bool is_there(const char *folder, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        return access(path, F_OK) == 0;
}

static void test_a_device_is_a_file_of_its_own_with_all_variables(void **state UNUSED)
{
        char *folder = make_folder();
        _free_ char *root = xasprintf("%s/cdi", folder);
        _free_ char *path = xasprintf("%s/" FILE_OF("g12"), root);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        assert_ok(start_device_write(root, "g12", variables, 2, &err), &err);
        assert_ok(file_read(path, 4096, &text, &err), &err);
        assert_non_null(strstr(text.data, "\"nvidia.com/mps\""));
        assert_non_null(strstr(text.data, "\"g12\""));
        for (size_t i = 0; i < 2; i++)
                assert_non_null(strstr(text.data, variables[i]));
        remove_folder(folder);
}

static void test_the_same_again_is_not_written_and_other_variables_are(void **state UNUSED)
{
        char *folder = make_folder();
        _free_ char *path = xasprintf("%s/" FILE_OF("g12"), folder);
        struct stat first, second, third;
        struct error err;

        assert_ok(start_device_write(folder, "g12", variables, 2, &err), &err);
        assert_int_equal(stat(path, &first), 0);
        assert_ok(start_device_write(folder, "g12", variables, 2, &err), &err);
        assert_int_equal(stat(path, &second), 0);
        assert_int_equal(first.st_ino, second.st_ino);
        assert_ok(start_device_write(folder, "g12", variables, 1, &err), &err);
        assert_int_equal(stat(path, &third), 0);
        assert_true(third.st_size < first.st_size);
        remove_folder(folder);
}

static bool is_g2(const char *allocation, void *data UNUSED)
{
        return strcmp(allocation, "g2") == 0;
}

static void test_only_files_of_allocations_that_are_over_are_removed(void **state UNUSED)
{
        static const char *const others[] = {"k8s.device-plugin.nvidia.com-mps.json", "nvidia.com-mps-g1.json",
                "k8s.device-plugin.nvidia.com-mps-g1.yaml", "k8s.device-plugin.nvidia.com-gpu.json"};
        char *folder = make_folder();
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                _free_ char *path = xasprintf("%s/%s", folder, others[i]);

                assert_ok(file_write(path, "", 0, &err), &err);
        }
        assert_ok(start_device_write(folder, "g1", variables, 2, &err), &err);
        assert_ok(start_device_write(folder, "g2", variables, 2, &err), &err);
        start_devices_sweep(folder, is_g2, NULL);
        assert_false(is_there(folder, FILE_OF("g1")));
        assert_true(is_there(folder, FILE_OF("g2")));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_true(is_there(folder, others[i]));
        start_devices_sweep("/nonexistent", is_g2, NULL);
        remove_folder(folder);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_device_is_a_file_of_its_own_with_all_variables),
                cmocka_unit_test(test_the_same_again_is_not_written_and_other_variables_are),
                cmocka_unit_test(test_only_files_of_allocations_that_are_over_are_removed),
        };

        return cmocka_run_group_tests_name("start_devices", tests, NULL, NULL);
}
