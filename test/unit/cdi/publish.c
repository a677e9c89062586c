#include "tree.h"

/* ---- the whole document ---- */

static void test_a_gpu_is_written_as_nvidia_writes_it(void **state UNUSED)
{
        _cleanup_(tree_freep) struct tree *tree = tree_new(1);

        tree->inventory.gpus[0].bus = "0000:3b:00.0";
        tree_node(tree, "/system/dev/nvidia-uvm-tools", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-modeset", 0666, 0);
        tree_node(tree, "/system/dev/dri/card1", 0660, 44);
        tree_node(tree, "/system/dev/dri/renderD128", 0666, 105);
        tree_file(tree, "/system/sys/bus/pci/devices/0000:3b:00.0/drm/card1/dev");
        tree_file(tree, "/system/sys/bus/pci/devices/0000:3b:00.0/drm/renderD128/dev");
        tree_file(tree, "/driver/usr/bin/nvidia-smi");
        tree_socket(tree, "/driver/run/nvidia-persistenced/socket");
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        tree_assert_golden(tree, "gpu", "gpu");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_gpu_is_written_as_nvidia_writes_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
