// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "gpu/platform.h"

/* The libraries of a machine, for platform_detect(). */
static const char *libraries[3];
static bool nvml_was_asked;

static bool can_load(const char *library)
{
        nvml_was_asked = nvml_was_asked || strstr(library, "nvidia-ml");
        for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
                if (libraries[i] && strcmp(libraries[i], library) == 0)
                        return true;
        return false;
}

static void put(const char *root, const char *name, const char *text)
{
        _free_ char *path = xasprintf("%s/%s", root, name);
        _free_ char *make = xasprintf("mkdir -p \"$(dirname %s)\"", path);
        struct error err;

        assert_int_equal(system(make), 0);
        assert_ok(file_write(path, text, strlen(text), &err), &err);
}

static void clear(const char *root)
{
        _free_ char *command = xasprintf("rm -rf %s", root);

        assert_int_equal(system(command), 0);
}

static void test_the_platform_follows_from_libraries_and_files(void **state UNUSED)
{
        static const struct {
                enum platform_choice choice;
                bool dxcore;
                bool nvml;
                const char *file;
                const char *text;
                enum platform expected;
        } table[] = {
                {PLATFORM_CHOICE_AUTO, false, true, NULL, NULL, PLATFORM_NVML},
                {PLATFORM_CHOICE_AUTO, true, true, NULL, NULL, PLATFORM_WSL},
                {PLATFORM_CHOICE_AUTO, true, false, "etc/nv_tegra_release", "", PLATFORM_WSL},
                {PLATFORM_CHOICE_AUTO, false, false, "etc/nv_tegra_release", "# R36", PLATFORM_TEGRA},
                {PLATFORM_CHOICE_AUTO, false, false, "sys/devices/soc0/family", "Tegra\n", PLATFORM_TEGRA},
                {PLATFORM_CHOICE_AUTO, false, false, "sys/devices/soc0/family", "TEGRA194", PLATFORM_TEGRA},
                {PLATFORM_CHOICE_AUTO, false, false, "sys/devices/soc0/family", "i.MX Tegra\n", PLATFORM_NVML},
                {PLATFORM_CHOICE_AUTO, false, false, "sys/devices/soc0/family", "", PLATFORM_NVML},
                /* A folder of that name is no release file. */
                {PLATFORM_CHOICE_AUTO, false, false, "etc/nv_tegra_release/x", "", PLATFORM_NVML},
                /* With an NVML, its GPUs decide: platform_is_integrated(). */
                {PLATFORM_CHOICE_AUTO, false, true, "etc/nv_tegra_release", "", PLATFORM_NVML},
                {PLATFORM_CHOICE_AUTO, false, false, NULL, NULL, PLATFORM_NVML},
                {PLATFORM_CHOICE_NVML, false, false, "etc/nv_tegra_release", "", PLATFORM_NVML},
                {PLATFORM_CHOICE_NVML, true, true, NULL, NULL, PLATFORM_WSL},
                {PLATFORM_CHOICE_TEGRA, false, true, NULL, NULL, PLATFORM_TEGRA},
                {PLATFORM_CHOICE_TEGRA, true, true, NULL, NULL, PLATFORM_TEGRA},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char root[] = "/tmp/warpshare-platform-XXXXXX";
                struct gpu_paths paths = {.system_root = "/nowhere", .driver_root = root};
                enum platform found;

                assert_non_null(mkdtemp(root));
                libraries[0] = table[i].dxcore ? "libdxcore.so" : NULL;
                libraries[1] = table[i].nvml ? "libnvidia-ml.so.1" : NULL;
                if (table[i].file)
                        put(root, table[i].file, table[i].text);
                found = platform_detect(table[i].choice, &paths, "", can_load);
                if (found != table[i].expected)
                        fail_msg("case %zu: platform %d", i, (int)found);
                clear(root);
        }
}

static void test_without_a_driver_root_the_machines_own_files_count(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-platform-XXXXXX";
        struct gpu_paths paths = {.system_root = root, .driver_root = ""};

        assert_non_null(mkdtemp(root));
        libraries[0] = libraries[1] = NULL;
        put(root, "etc/nv_tegra_release", "");
        assert_int_equal(platform_detect(PLATFORM_CHOICE_AUTO, &paths, "", can_load), PLATFORM_TEGRA);
        clear(root);
}

static void test_nvml_is_the_one_that_would_be_used(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-platform-XXXXXX";
        struct gpu_paths paths = {.system_root = root, .driver_root = root};
        _free_ char *path = NULL;

        assert_non_null(mkdtemp(root));
        path = xasprintf("%s/usr/lib64/libnvidia-ml.so.1", root);
        put(root, "etc/nv_tegra_release", "");
        put(root, "usr/lib64/libnvidia-ml.so.1", "");
        libraries[0] = NULL;
        libraries[1] = path;
        assert_int_equal(platform_detect(PLATFORM_CHOICE_AUTO, &paths, "", can_load), PLATFORM_NVML);
        libraries[1] = "/opt/nvml.so";
        assert_int_equal(platform_detect(PLATFORM_CHOICE_AUTO, &paths, "", can_load), PLATFORM_TEGRA);
        assert_int_equal(platform_detect(PLATFORM_CHOICE_AUTO, &paths, "/opt/nvml.so", can_load), PLATFORM_NVML);
        clear(root);
}

/* Loading NVML only to close it again would be for nothing. */
static void test_nvml_is_not_loaded_where_there_is_no_doubt(void **state UNUSED)
{
        struct gpu_paths paths = {.system_root = "/nowhere", .driver_root = ""};

        libraries[0] = libraries[1] = NULL;
        nvml_was_asked = false;
        assert_int_equal(platform_detect(PLATFORM_CHOICE_AUTO, &paths, "", can_load), PLATFORM_NVML);
        assert_false(nvml_was_asked);
}

static void test_the_dynamic_linker_has_the_last_word(void **state UNUSED)
{
        assert_true(platform_can_load("libc.so.6"));
        assert_false(platform_can_load("libwarpshare-has-no-such.so"));
}

static void test_integrated_gpus_are_known_by_name(void **state UNUSED)
{
        static const struct {
                const char *name;
                bool integrated;
        } table[] = {{"Orin (nvgpu)", true}, {"NVIDIA Thor", true}, {"NVIDIA Thor iGPU", true}, {"Tesla T4", false},
                {"", false}, {"nvgpu", false}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct gpu gpus[2] = {{.uuid = "GPU-0", .name = "Tesla T4"}, {.uuid = "GPU-1"}};
                struct inventory inventory = {.gpus = gpus, .n_gpus = 2};

                gpus[1].name = table[i].name;
                assert_int_equal(platform_is_integrated(&inventory), table[i].integrated);
        }
}

static void test_each_platform_without_nvml_has_one_gpu_without_details(void **state UNUSED)
{
        static const struct {
                enum platform platform;
                const char *uuid;
        } table[] = {{PLATFORM_WSL, "all"}, {PLATFORM_TEGRA, "tegra"}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(inventory_freep) struct inventory *inventory = platform_inventory(table[i].platform);
                _cleanup_(inventory_freep) struct inventory *copy = inventory_copy(inventory);
                const struct gpu *gpu = inventory->gpus;

                assert_int_equal(inventory->platform, table[i].platform);
                assert_int_equal(inventory->nodes, 0);
                assert_int_equal(inventory->n_gpus, 1);
                assert_string_equal(gpu->uuid, table[i].uuid);
                assert_null(gpu->failure);
                assert_null(gpu->bus);
                assert_int_equal(gpu->minor, -1);
                assert_int_equal(gpu->numa_node, -1);
                assert_int_equal(gpu->compute_major, -1);
                assert_int_equal(gpu->memory, 0);
                assert_false(gpu->mig_capable);
                assert_true(inventory_is_same(inventory, copy));
                assert_int_equal(copy->platform, table[i].platform);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_platform_follows_from_libraries_and_files),
                cmocka_unit_test(test_without_a_driver_root_the_machines_own_files_count),
                cmocka_unit_test(test_nvml_is_the_one_that_would_be_used),
                cmocka_unit_test(test_nvml_is_not_loaded_where_there_is_no_doubt),
                cmocka_unit_test(test_the_dynamic_linker_has_the_last_word),
                cmocka_unit_test(test_integrated_gpus_are_known_by_name),
                cmocka_unit_test(test_each_platform_without_nvml_has_one_gpu_without_details),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
