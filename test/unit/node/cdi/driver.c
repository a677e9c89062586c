// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <sys/utsname.h>

#include "node/cdi/driver.h"

#define LIB "/usr/lib/x86_64-linux-gnu"

static int try_find(struct tree *tree, const char *flag, struct driver *ret)
{
        const char *const flags[] = {flag, NULL};
        struct config config = tree->config;
        const struct plan plan = {.config = &config, .inventory = &tree->inventory};
        const struct cdi_context context = cdi_context_of(&config, &plan, &tree->arena);

        config.cdi.feature_flags = flags;
        return driver_find(ret, &context, &tree->err);
}

static struct driver find(struct tree *tree, const char *flag)
{
        struct driver driver;

        assert_ok(try_find(tree, flag, &driver), &tree->err);
        return driver;
}

/* Where in the container |source| is mounted; "" when it is not. */
static const char *target_of(const struct driver *driver, const char *source)
{
        for (size_t i = 0; i < driver->n_files; i++)
                if (strcmp(driver->files[i].source, source) == 0)
                        return driver->files[i].target;
        return "";
}

static bool has_file(const struct driver *driver, const char *path)
{
        return strcmp(target_of(driver, path), path) == 0;
}

/* What the link says; "" when there is none. */
static const char *link_of(const struct driver *driver, const char *link)
{
        for (size_t i = 0; i < driver->n_links; i++)
                if (strcmp(driver->links[i].link, link) == 0)
                        return driver->links[i].target;
        return "";
}

/* ---- libraries ---- */

static void test_libraries_of_the_version_are_found_and_no_others(void **state)
{
        static const char *const wanted[] = {"libcuda.so." TREE_VERSION, "libnvidia-ml.so." TREE_VERSION,
                "libnvidia-glcore.so." TREE_VERSION, "vdpau/libvdpau_nvidia.so." TREE_VERSION, "libnvidia-nvvm70.so.4",
                "libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-wayland.so.1.1.19", "libnvidia-egl-wayland2.so.1.0.0"};
        static const char *const others[] = {"libcuda.so.570.1.1", "libc.so.6", "libnvidia-egl-gbm.so.1",
                "xlibfoo." TREE_VERSION, "lib foo.so." TREE_VERSION, "libGL.so.1.7.0", "libnvidia-api.so"};
        struct tree *tree = *state;
        struct driver driver;

        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
                tree_file(tree, arena_printf(&tree->arena, TREE_LIBRARIES "/%s", wanted[i]));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                tree_file(tree, arena_printf(&tree->arena, TREE_LIBRARIES "/%s", others[i]));
        tree_link(tree, TREE_LIBRARIES "/libGL.so", "libGL.so.1.7.0");
        driver = find(tree, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
                assert_true(has_file(&driver, arena_printf(&tree->arena, LIB "/%s", wanted[i])));
        assert_int_equal(driver.n_files, ARRAY_SIZE(wanted));
        assert_int_equal(driver.n_cuda_folders, 1);
        assert_string_equal(driver.cuda_folders[0], LIB);
        assert_int_equal(driver.n_library_folders, 2);
        assert_string_equal(driver.library_folders[0], LIB);
        assert_string_equal(driver.library_folders[1], LIB "/vdpau");
        driver = find(tree, "enable-explicit-driver-libraries");
        assert_true(has_file(&driver, LIB "/libGL.so.1.7.0"));
        assert_true(has_file(&driver, LIB "/libnvidia-api.so"));
        assert_int_equal(driver.n_files, ARRAY_SIZE(wanted) + 2);
}

static void test_a_folder_by_two_names_is_one(void **state)
{
        struct tree *tree = *state;
        struct driver driver;

        tree_driver(tree);
        tree_link(tree, "/driver/lib", "usr/lib");
        tree_link(tree, "/driver/usr/lib64", "/usr/lib/x86_64-linux-gnu");
        driver = find(tree, NULL);
        assert_int_equal(driver.n_files, 2);
        assert_int_equal(driver.n_cuda_folders, 1);
        assert_true(has_file(&driver, LIB "/libcuda.so." TREE_VERSION));
}

static void test_libraries_that_only_the_linker_knows_are_found(void **state)
{
        struct {
                char magic[20];
                uint32_t header[7];
                uint32_t flags, key, value, os_version;
                uint64_t hwcap;
                char strings[64];
        } cache = {.magic = "glibc-ld.so.cache1.", .header = {1}, .flags = 0x0303, .key = 72, .value = 85};
        struct tree *tree = *state;
        struct driver driver;

        cache.magic[19] = '1';
#ifdef __aarch64__
        cache.flags = 0x0a03;
#endif
        memcpy(cache.strings, "libcuda.so.1\0/opt/odd/libcuda.so.1", 35);
        tree_library(tree, "/driver/opt/odd/libcuda.so." TREE_VERSION, "libcuda.so.1");
        tree_link(tree, "/driver/opt/odd/libcuda.so.1", "libcuda.so." TREE_VERSION);
        tree_write(tree, "/driver/var/cache/ld.so.cache", &cache, sizeof(cache));
        tree_link(tree, "/driver/etc/ld.so.cache", "/var/cache/ld.so.cache"); /* below the root, not ours */
        driver = find(tree, NULL);
        assert_true(has_file(&driver, "/opt/odd/libcuda.so." TREE_VERSION));
        assert_string_equal(driver.cuda_folders[0], "/opt/odd");
}

static void test_links_are_made_as_the_host_has_them(void **state)
{
        struct tree *tree = *state;
        struct driver driver;

        tree_driver(tree);
        tree_library(tree, TREE_LIBRARIES "/libnvcuvid.so." TREE_VERSION, "libnvcuvid.so.1");
        tree_library(tree, TREE_LIBRARIES "/libnvidia-glcore.so." TREE_VERSION, "libnvidia-glcore.so." TREE_VERSION);
        tree_library(tree, TREE_LIBRARIES "/libnvidia-evil.so." TREE_VERSION, "a::/etc/shadow");
        tree_link(tree, TREE_LIBRARIES "/libnvcuvid.so.1", "libnvcuvid.so." TREE_VERSION);
        tree_link(tree, TREE_LIBRARIES "/libnvcuvid.so", "libnvcuvid.so.1");
        tree_link(tree, TREE_LIBRARIES "/libcuda.so.1", "libcuda.so." TREE_VERSION);
        driver = find(tree, NULL);
        assert_string_equal(link_of(&driver, LIB "/libnvcuvid.so.1"), "libnvcuvid.so." TREE_VERSION);
        assert_string_equal(link_of(&driver, LIB "/libnvcuvid.so"), "libnvcuvid.so.1");
        assert_string_equal(link_of(&driver, LIB "/libcuda.so.1"), "libcuda.so." TREE_VERSION);
        assert_string_equal(link_of(&driver, LIB "/libcuda.so"), "libcuda.so.1"); /* the host has it not */
        assert_int_equal(driver.n_links, 4); /* none for libnvidia-ml, whose links the host has not */
}

static void test_links_that_programs_expect_are_made(void **state)
{
        static const struct {
                const char *library, *link, *target;
        } table[] = {
                {"libcuda", "libcuda.so", "libcuda.so.1"},
                {"libGLX_nvidia", "libGLX_indirect.so.0", "libGLX_nvidia.so." TREE_VERSION},
                {"libnvidia-opticalflow", "libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"},
                {"libnvidia-allocator", "gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"},
                {"libnvidia-vulkan-producer", "libnvidia-vulkan-producer.so",
                        "libnvidia-vulkan-producer.so." TREE_VERSION},
                {"libcudadebugger", NULL, NULL},
        };
        struct tree *tree = *state;
        struct driver driver;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                tree_file(tree, arena_printf(&tree->arena, TREE_LIBRARIES "/%s.so." TREE_VERSION, table[i].library));
        tree_file(tree, "/driver/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so." TREE_VERSION);
        tree_file(tree, "/driver/usr/lib/xorg/modules/drivers/nvidia_drv.so");
        tree_file(tree, "/driver/usr/lib/xorg/modules/drivers/nouveau_drv.so");
        driver = find(tree, NULL);
        for (size_t i = 0; table[i].link; i++)
                assert_string_equal(
                        link_of(&driver, arena_printf(&tree->arena, LIB "/%s", table[i].link)), table[i].target);
        assert_string_equal(link_of(&driver, "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so"),
                "libglxserver_nvidia.so." TREE_VERSION);
        assert_int_equal(driver.n_links, ARRAY_SIZE(table));
        assert_true(has_file(&driver, "/usr/lib/xorg/modules/drivers/nvidia_drv.so"));
        assert_int_equal(driver.n_files, ARRAY_SIZE(table) + 2);
}

/* ---- the version ---- */

static void test_libraries_of_another_version_are_an_error(void **state)
{
        struct tree *tree = *state;
        char *expected;

        tree_file(tree, TREE_LIBRARIES "/libcuda.so.570.86.15");
        expected = arena_printf(&tree->arena,
                "driver " TREE_VERSION " runs, but below '%s/driver' is '" LIB
                "/libcuda.so.570.86.15': the driver was changed; unload the old one, or restart the node",
                tree->root);
        assert_fails(try_find(tree, NULL, &(struct driver){0}), &tree->err, ERROR_UNAVAILABLE, expected);
        /* An old library that was left behind is none of our business. */
        tree_file(tree, TREE_LIBRARIES "/libcuda.so." TREE_VERSION);
        assert_ok(try_find(tree, NULL, &(struct driver){0}), &tree->err);
}

static void test_no_libraries_are_an_error_that_says_where(void **state)
{
        struct tree *tree = *state;
        char *expected = arena_printf(&tree->arena,
                "below '%s/driver' is neither libcuda.so." TREE_VERSION " nor libnvidia-ml.so." TREE_VERSION
                ": mount the root of the driver there, or set --driver-root-ctr-path",
                tree->root);

        tree_file(tree, TREE_LIBRARIES "/libcuda.so.1"); /* says no version */
        assert_fails(try_find(tree, NULL, &(struct driver){0}), &tree->err, ERROR_NOT_FOUND, expected);
        tree_file(tree, "/driver/etc/ld.so.cache");
        assert_fails(try_find(tree, NULL, &(struct driver){0}), &tree->err, ERROR_NOT_FOUND, expected);
        assert_int_equal(unlink(tree_path(tree, "/driver/etc/ld.so.cache")), 0);
        assert_int_equal(mkfifo(tree_path(tree, "/driver/etc/ld.so.cache"), 0666), 0); /* reading it would never end */
        assert_fails(try_find(tree, NULL, &(struct driver){0}), &tree->err, ERROR_NOT_FOUND, expected);
}

static void test_a_version_that_is_none_is_an_error(void **state)
{
        static const char *const versions[] = {NULL, "", "../../etc", "1 2"};
        struct tree *tree = *state;

        for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
                tree->inventory.driver_version = versions[i];
                assert_fails(try_find(tree, NULL, &(struct driver){0}), &tree->err, ERROR_UNAVAILABLE,
                        "NVML does not say which version the driver has");
        }
}

/* ---- what belongs to it ---- */

static void test_configuration_is_found_in_order_and_vulkan_goes_to_etc(void **state)
{
        struct tree *tree = *state;
        struct driver driver;

        tree_driver(tree);
        tree_file(tree, "/driver/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
        tree_file(tree, "/driver/etc/OpenCL/vendors/nvidia.icd");
        tree_file(tree, "/driver/usr/share/OpenCL/vendors/nvidia.icd");
        tree_file(tree, "/driver/usr/share/vulkan/icd.d/nvidia_icd.json");
        driver = find(tree, NULL);
        assert_true(has_file(&driver, "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"));
        assert_true(has_file(&driver, "/etc/OpenCL/vendors/nvidia.icd"));
        assert_string_equal(
                target_of(&driver, "/usr/share/vulkan/icd.d/nvidia_icd.json"), "/etc/vulkan/icd.d/nvidia_icd.json");
        assert_int_equal(driver.n_files, 2 + 3);
}

/* Debian has it so; what is mounted at the end of the links would be in nobody's PATH. */
static void test_a_program_keeps_its_place_when_alternatives_manage_it(void **state)
{
        struct tree *tree = *state;
        struct driver driver;

        tree_driver(tree);
        tree_file(tree, "/driver/usr/lib/nvidia/current/nvidia-smi");
        tree_link(tree, "/driver/etc/alternatives/nvidia--nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi");
        tree_link(tree, "/driver/usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi");
        tree_file(tree, "/driver/usr/sbin/nvidia-persistenced");
        tree_file(tree, "/driver/bin/nvidia-persistenced");
        driver = find(tree, NULL);
        assert_string_equal(target_of(&driver, "/usr/lib/nvidia/current/nvidia-smi"), "/usr/bin/nvidia-smi");
        assert_true(has_file(&driver, "/usr/sbin/nvidia-persistenced"));
        assert_false(has_file(&driver, "/bin/nvidia-persistenced"));
}

static void test_sockets_are_found_and_can_be_left_out(void **state)
{
        struct tree *tree = *state;
        struct driver driver;

        tree_driver(tree);
        tree_link(tree, "/driver/var/run", "/run");
        tree_socket(tree, "/driver/run/nvidia-persistenced/socket");
        tree_file(tree, "/driver/run/nvidia-fabricmanager/socket"); /* no socket */
        tree_socket(tree, "/driver/tmp/nvidia-mps/control");
        driver = find(tree, NULL);
        assert_true(has_file(&driver, "/run/nvidia-persistenced/socket"));
        assert_true(driver.files[2].is_socket);
        assert_int_equal(driver.n_files, 3);
        assert_int_equal(find(tree, "disable-ipc-discoverer").n_files, 2);
}

static void test_firmware_is_taken_from_where_the_kernel_takes_it(void **state)
{
        static const char parameter[] = "/run/nvidia/driver/opt/firmware\n";
        struct tree *tree = *state;
        struct driver driver;
        struct utsname kernel;
        const char *release;

        tree_driver(tree);
        tree_file(tree, "/driver/lib/firmware/nvidia/" TREE_VERSION "/gsp_ga10x.bin");
        tree_file(tree, "/driver/lib/firmware/nvidia/" TREE_VERSION "/gsp_tu10x.bin");
        tree_file(tree, "/driver/lib/firmware/nvidia/" TREE_VERSION "/other.bin");
        tree_file(tree, "/driver/lib/firmware/nvidia/570.1.1/gsp_ga10x.bin");
        driver = find(tree, NULL);
        assert_true(has_file(&driver, "/lib/firmware/nvidia/" TREE_VERSION "/gsp_ga10x.bin"));
        assert_true(has_file(&driver, "/lib/firmware/nvidia/" TREE_VERSION "/gsp_tu10x.bin"));
        assert_int_equal(driver.n_files, 4);

        assert_int_equal(uname(&kernel), 0);
        release = arena_printf(&tree->arena, "/lib/firmware/%s/nvidia/" TREE_VERSION "/gsp_ga10x.bin", kernel.release);
        tree_file(tree, arena_printf(&tree->arena, "/driver%s", release));
        driver = find(tree, NULL);
        assert_true(has_file(&driver, release));
        assert_int_equal(driver.n_files, 3);

        /* Written as the host sees it, which has the driver's root elsewhere. */
        tree->config.driver.root = "/run/nvidia/driver";
        tree_write(tree, "/system/sys/module/firmware_class/parameters/path", parameter, strlen(parameter));
        tree_file(tree, "/driver/opt/firmware/nvidia/" TREE_VERSION "/gsp_ga10x.bin");
        driver = find(tree, NULL);
        assert_true(has_file(&driver, "/opt/firmware/nvidia/" TREE_VERSION "/gsp_ga10x.bin"));
        assert_int_equal(driver.n_files, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_libraries_of_the_version_are_found_and_no_others),
                TREE_TEST(test_a_folder_by_two_names_is_one),
                TREE_TEST(test_libraries_that_only_the_linker_knows_are_found),
                TREE_TEST(test_links_are_made_as_the_host_has_them),
                TREE_TEST(test_links_that_programs_expect_are_made),
                TREE_TEST(test_libraries_of_another_version_are_an_error),
                TREE_TEST(test_no_libraries_are_an_error_that_says_where),
                TREE_TEST(test_a_version_that_is_none_is_an_error),
                TREE_TEST(test_configuration_is_found_in_order_and_vulkan_goes_to_etc),
                TREE_TEST(test_a_program_keeps_its_place_when_alternatives_manage_it),
                TREE_TEST(test_sockets_are_found_and_can_be_left_out),
                TREE_TEST(test_firmware_is_taken_from_where_the_kernel_takes_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
