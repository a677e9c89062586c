// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "gpu/platform.h"

#define ALL (NODE_NVIDIACTL | NODE_UVM | NODE_UVM_TOOLS | NODE_MODESET | NODE_IMEX_CHANNEL)

static void run(const char *script, const char *root)
{
        _free_ char *command = xasprintf("cd %s && %s", root, script);

        assert_int_equal(system(command), 0);
}

/*
 * A character device, which a user who may not make any real one can still make with the numbers 0:0 on most file
 * systems.
 */
static void put_node(const char *root, const char *path)
{
        _free_ char *node = xasprintf("%s/%s", root, path);

        if (mknod(node, S_IFCHR | 0600, makedev(1, 3)) == 0 || mknod(node, S_IFCHR | 0600, makedev(0, 0)) == 0)
                return;
        assert_int_equal(errno, EPERM);
        run("cd / && rm -r \"$OLDPWD\"", root);
        print_message("# no device node can be made here\n");
        skip();
}

static void test_only_character_devices_count(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-nodes-XXXXXX";
        struct gpu_paths paths = {.system_root = root, .driver_root = ""};

        assert_non_null(mkdtemp(root));
        assert_int_equal(nodes_find(&paths), 0);
        run("mkdir -p dev/nvidia-uvm dev/nvidia-caps-imex-channels && touch dev/nvidiactl && "
            "ln -s /dev/null dev/nvidia-modeset && mkfifo dev/nvidia-uvm-tools",
                root);
        assert_int_equal(nodes_find(&paths), 0);
        put_node(root, "dev/nvidia-caps-imex-channels/channel0");
        assert_int_equal(nodes_find(&paths), NODE_IMEX_CHANNEL);
        run("rm -r dev/nvidia-uvm dev/nvidiactl dev/nvidia-uvm-tools dev/nvidia-modeset", root);
        put_node(root, "dev/nvidiactl");
        put_node(root, "dev/nvidia-uvm");
        put_node(root, "dev/nvidia-uvm-tools");
        assert_int_equal(nodes_find(&paths), ALL & ~NODE_MODESET);
        put_node(root, "dev/nvidia-modeset");
        assert_int_equal(nodes_find(&paths), ALL);
        run("rm -r dev", root);
        assert_int_equal(rmdir(root), 0);
}

static void test_the_driver_roots_nodes_count_too(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-nodes-XXXXXX";
        _free_ char *driver = NULL;
        struct gpu_paths paths = {.system_root = root};

        assert_non_null(mkdtemp(root));
        driver = xasprintf("%s/driver", root);
        paths.driver_root = driver;
        run("mkdir -p dev driver/dev", root);
        put_node(root, "dev/nvidiactl");
        put_node(root, "driver/dev/nvidia-uvm");
        assert_int_equal(nodes_find(&paths), NODE_NVIDIACTL | NODE_UVM);
        paths.driver_root = "";
        assert_int_equal(nodes_find(&paths), NODE_NVIDIACTL);
        paths.driver_root = NULL;
        assert_int_equal(nodes_find(&paths), NODE_NVIDIACTL);
        run("rm -r dev driver", root);
        assert_int_equal(rmdir(root), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_character_devices_count),
                cmocka_unit_test(test_the_driver_roots_nodes_count_too),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
