// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "gpu/driver_change.h"

static char root[64];

static const char *below(const char *path)
{
        static char text[8][200];
        static unsigned int next;
        char *own = text[next++ % ARRAY_SIZE(text)];

        snprintf(own, sizeof(text[0]), "%s%s", root, path);
        return own;
}

static void put(const char *path, const char *content)
{
        char folder[200];
        struct error err;

        snprintf(folder, sizeof(folder), "%s", below(path));
        for (char *c = folder + strlen(root) + 1; (c = strchr(c, '/')); *c++ = '/') {
                *c = '\0';
                mkdir(folder, 0755);
        }
        if (content)
                assert_ok(file_write(below(path), content, strlen(content), &err), &err);
        else
                mkdir(below(path), 0755);
}

static int setup(void **state UNUSED)
{
        snprintf(root, sizeof(root), "/tmp/warpshare-driver-XXXXXX");
        return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state UNUSED)
{
        char command[100];

        snprintf(command, sizeof(command), "rm -rf %s", root);
        return system(command);
}

static bool is_changed(struct driver_mark *before)
{
        struct driver_mark now = driver_mark_take(below("/lib.so"), root);
        bool changed = !driver_mark_is_same(before, &now);

        *before = now;
        return changed;
}

static void test_another_library_or_another_kernel_driver_is_another_mark(void **state UNUSED)
{
        struct driver_mark mark = driver_mark_take(NULL, root);
        struct driver_mark none = {0};

        assert_true(driver_mark_is_same(&mark, &none));
        put("/v1.so", "one");
        put("/v2.so", "two");
        assert_int_equal(symlink("v1.so", below("/lib.so")), 0);
        assert_true(is_changed(&mark));
        assert_int_not_equal(mark.library.inode, 0);
        assert_false(is_changed(&mark));

        /* The link leads elsewhere; the file is replaced, and then written in place. */
        unlink(below("/lib.so"));
        assert_int_equal(symlink("v2.so", below("/lib.so")), 0);
        assert_true(is_changed(&mark));
        put("/v2.so", "two");
        assert_true(is_changed(&mark));
        assert_int_equal(truncate(below("/v2.so"), 1), 0);
        assert_true(is_changed(&mark));

        put("/proc/driver/nvidia/version", "NVRM version: 550.163.01\nGCC version: 12\n");
        assert_true(is_changed(&mark));
        assert_string_equal(mark.version, "NVRM version: 550.163.01");
        put("/sys/module/nvidia/version", "550.163.01\n");
        assert_true(is_changed(&mark));
        assert_string_equal(mark.version, "550.163.01");
        put("/sys/module/nvidia/version", "580.95.05\n");
        assert_true(is_changed(&mark));
        assert_false(is_changed(&mark));
        unlink(below("/lib.so"));
        assert_true(is_changed(&mark));
        assert_int_equal(mark.library.inode, 0);
}

static void test_a_version_of_any_length_is_taken(void **state UNUSED)
{
        char *text = calloc(1, 8192);
        struct driver_mark mark;

        memset(text, 'x', 3000);
        put("/sys/module/nvidia/version", text);
        mark = driver_mark_take(NULL, root);
        assert_int_equal(strlen(mark.version), sizeof(mark.version) - 1);
        memset(text, 'x', 8000);
        put("/sys/module/nvidia/version", text);
        mark = driver_mark_take(NULL, root);
        assert_string_equal(mark.version, "");
        free(text);
}

static void test_gpus_are_counted_where_the_kernel_has_them(void **state UNUSED)
{
        struct driver_gpus gpus = driver_gpus_take(root);
        struct driver_gpus other;

        assert_false(gpus.known);
        put("/proc/driver/nvidia/gpus/0000:3b:00.0", NULL);
        gpus = driver_gpus_take(root);
        assert_true(gpus.known);
        assert_int_equal(gpus.count, 1);

        /* The first of the two that is there; and what is no device does not count. */
        put("/sys/bus/pci/drivers/nvidia/module", NULL);
        put("/sys/bus/pci/drivers/nvidia/bind", "");
        put("/sys/bus/pci/drivers/nvidia/0000:3b:00", NULL);
        put("/sys/bus/pci/drivers/nvidia/0000:3b:00.0x", NULL);
        gpus = driver_gpus_take(root);
        assert_true(gpus.known);
        assert_int_equal(gpus.count, 0);
        put("/sys/bus/pci/drivers/nvidia/0000:3b:00.0", NULL);
        put("/sys/bus/pci/drivers/nvidia/10000:af:00.0", NULL);
        gpus = driver_gpus_take(root);
        assert_int_equal(gpus.count, 2);
        other = driver_gpus_take(root);
        assert_true(driver_gpus_are_same(&gpus, &other));

        /* One goes and another comes: as many as before, but others. */
        rmdir(below("/sys/bus/pci/drivers/nvidia/0000:3b:00.0"));
        put("/sys/bus/pci/drivers/nvidia/0000:3c:00.0", NULL);
        other = driver_gpus_take(root);
        assert_int_equal(other.count, 2);
        assert_false(driver_gpus_are_same(&gpus, &other));
}

static void copy_file(const char *from, const char *to)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(from, (size_t)64 << 20, &content, &err), &err);
        assert_ok(file_write(to, content.data, content.size, &err), &err);
        strbuf_done(&content);
}

static void test_the_path_of_a_loaded_library_is_told(void **state UNUSED)
{
        _free_ char *path = NULL;
        struct nvml *nvml = NULL;
        struct error err;

        copy_file(getenv("WARPSHARE_SIM_NVML"), below("/libnvidia-ml.so.1"));
        put("/scenario.yaml", "gpus: []\n");
        setenv("WARPSHARE_SIM_SCENARIO", below("/scenario.yaml"), 1);
        assert_ok(nvml_open(&nvml, below("/libnvidia-ml.so.1"), "", &err), &err);
        path = driver_library_path(nvml);
        assert_string_equal(path, below("/libnvidia-ml.so.1"));
        nvml_close(nvml);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_another_library_or_another_kernel_driver_is_another_mark),
                TEST(test_a_version_of_any_length_is_taken),
                TEST(test_gpus_are_counted_where_the_kernel_has_them),
                TEST(test_the_path_of_a_loaded_library_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
