// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

/* ---- class gpu ---- */

static void test_a_gpu_is_written_as_nvidia_writes_it(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
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

static void test_the_folder_and_the_file_can_be_read_by_all(void **state)
{
        struct tree *tree = *state;
        struct stat info;

        tree_gpus(tree, 1);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, "/run"), &info), 0);
        assert_int_equal(info.st_mode & 0777, 0755);
        assert_int_equal(stat(tree_path(tree, "/run/cdi"), &info), 0);
        assert_int_equal(info.st_mode & 0777, 0755);
        assert_int_equal(stat(tree_path(tree, "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"), &info), 0);
        assert_int_equal(info.st_mode & 0777, 0644);
}

static void test_groups_are_left_out_where_the_flag_says_so(void **state)
{
        static const char *const flags[] = {"unknown-flag", "no-additional-gids-for-device-nodes", NULL};
        struct tree *tree = *state;
        json_t *edits;

        tree_gpus(tree, 0);
        tree_node(tree, "/system/dev/nvidia0", 0660, 44);
        tree->inventory.gpus = &(struct gpu){.uuid = "GPU-0"};
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        assert_ok(tree_publish(tree), &tree->err);
        edits = tree_edits(tree, "gpu", "GPU-0");
        assert_int_equal(json_integer_value(json_array_get(json_object_get(edits, "additionalGids"), 0)), 44);
        json_decref(edits);

        tree->config.cdi.feature_flags = flags;
        assert_ok(tree_publish(tree), &tree->err);
        edits = tree_edits(tree, "gpu", "GPU-0");
        assert_null(json_object_get(edits, "additionalGids"));
        json_decref(edits);
}

static void test_a_coherent_gpu_is_marked_where_the_flag_says_so(void **state)
{
        static const char *const flags[] = {"enable-coherent-annotations", NULL};
        static const struct {
                int coherent;
                const char *const *flags;
                const char *mark; /* NULL: none */
        } table[] = {{1, flags, "true"}, {0, flags, "false"}, {-1, flags, NULL}, {1, NULL, NULL}};
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const json_t *device;
                json_t *document;

                tree->inventory.gpus[0].coherent = table[i].coherent;
                tree->config.cdi.feature_flags = table[i].flags;
                tree_plan(tree);
                assert_ok(tree_publish(tree), &tree->err);
                document = tree_load(tree, "gpu");
                device = json_array_get(json_object_get(document, "devices"), 0);
                if (table[i].mark)
                        assert_string_equal(json_string_value(json_object_get(
                                                    json_object_get(device, "annotations"), "gpu.nvidia.com/coherent")),
                                table[i].mark);
                else
                        assert_null(json_object_get(device, "annotations"));
                json_decref(document);
        }
}

static void test_mig_devices_come_with_their_capabilities(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 2);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        tree_assert_golden(tree, "gpu", "mig");
}

static void test_devices_are_named_by_index_where_ids_are(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 2);
        tree->config.devices.id_strategy = ID_STRATEGY_INDEX;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        tree_assert_golden(tree, "gpu", "mig-index");
}

static void test_a_mig_device_has_a_display_only_by_its_profile(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_mig(tree, 0, 2);
        tree->inventory.gpus[0].bus = "0000:3b:00.0";
        ((struct mig_device *)(uintptr_t)tree->inventory.gpus[0].mig_devices)[1].profile = "1g.5gb+gfx";
        tree_node(tree, "/system/dev/dri/renderD128", 0666, 0);
        tree_file(tree, "/system/sys/bus/pci/devices/0000:3b:00.0/drm/renderD128/dev");
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_nodes(tree, "gpu", "MIG-0-0"),
                "/dev/nvidia0 /dev/nvidia-caps/nvidia-cap10 /dev/nvidia-caps/nvidia-cap11");
        assert_string_equal(tree_nodes(tree, "gpu", "MIG-0-1"),
                "/dev/nvidia0 /dev/dri/renderD128 /dev/nvidia-caps/nvidia-cap20 /dev/nvidia-caps/nvidia-cap21");
}

/* NVIDIA's plugin advertises such a GPU under migStrategy none, and leaves it out of the specification (T21). */
static void test_a_divided_gpu_that_is_advertised_whole_has_a_device(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_mig(tree, 0, 1);
        tree->resource.units = &(struct unit){.uuid = "GPU-0", .index = "0", .gpu = &tree->inventory.gpus[0]};
        tree->resource.n_units = 1;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0 MIG-0-0");
        assert_string_equal(tree_nodes(tree, "gpu", "GPU-0"),
                "/dev/nvidia0 /dev/nvidia-caps/nvidia-cap10 /dev/nvidia-caps/nvidia-cap11");
}

static void test_missing_nodes_are_warned_about(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 3);
        tree_mig(tree, 0, 1);
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia-uvm")), 0);
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia-caps/nvidia-cap11")), 0);
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia1")), 0);
        tree_file(tree, "/system/dev/nvidia1"); /* no device node */
        tree->inventory.gpus[2].minor = -1;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data,
                "CDI device 'MIG-0-0' has no access to its compute instance: there is no "
                "'/dev/nvidia-caps/nvidia-cap11'; nvidia-modprobe makes it\n"
                "containers get no '/dev/nvidia-uvm', since it is not there, and CUDA will not work in them: "
                "nvidia-modprobe -u -c0 makes it\n"
                "nvidia.com/gpu: no container that gets 'GPU-1' will start, since it has no CDI device: there is no "
                "'/dev/nvidia1'\n"
                "nvidia.com/gpu: no container that gets 'GPU-2' will start, since it has no CDI device: the minor "
                "number of its GPU is unknown\n");
        assert_string_equal(tree_names(tree, "gpu"), "MIG-0-0");
}

static void test_an_early_mig_uuid_is_no_name(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 1);
        ((struct mig_device *)(uintptr_t)tree->inventory.gpus[0].mig_devices)[0].uuid = "MIG-GPU-0/1/0";
        tree_plan(tree);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data,
                "nvidia.com/gpu: no container that gets 'MIG-GPU-0/1/0' will start, since it has no CDI device: the "
                "format does not allow such a name; use --device-id-strategy=index\n");
        assert_string_equal(tree_names(tree, "gpu"), "GPU-1");
}

static void test_without_any_device_nothing_is_written(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia0")), 0);
        assert_fails(tree_publish(tree), &tree->err, ERROR_NOT_FOUND,
                "CDI: no unit has a device: there is no '/dev/nvidia0'");
        assert_int_equal(access(tree_path(tree, "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"), F_OK), -1);
}

/* NVIDIA's plugin exits (T20). */
static void test_without_units_all_stays_as_it_is(void **state)
{
        static const char path[] = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json";
        struct tree *tree = *state;

        tree_plan(tree);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(access(tree_path(tree, "/run"), F_OK), -1);
        tree_file(tree, path);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(access(tree_path(tree, path), F_OK), 0);
}

static void test_without_a_cdi_strategy_nothing_happens(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.devices.lists = DEVICE_LIST_ENVVAR | DEVICE_LIST_VOLUME_MOUNTS;
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(access(tree_path(tree, "/run"), F_OK), -1);
        tree->config.devices.lists |= DEVICE_LIST_CDI_ANNOTATIONS;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0");
}

static void test_another_version_keeps_the_old_file(void **state)
{
        struct tree *tree = *state;
        json_t *before;

        tree_gpus(tree, 1);
        assert_ok(tree_publish(tree), &tree->err);
        before = tree_load(tree, "gpu");
        tree->inventory.driver_version = "590.1.1";
        assert_int_equal(tree_publish(tree), -1);
        assert_int_equal(tree->err.kind, ERROR_UNAVAILABLE);
        tree_assert_same(tree_load(tree, "gpu"), before);
}

/* ---- roots ---- */

static void test_every_file_is_named_as_the_host_names_it(void **state)
{
        static const struct {
                const char *driver_root, *dev_root;
                bool has_dev; /* the driver's tree has a dev/ with the nodes */
                const char *mount, *node;
        } table[] = {
                {"/", "/", false, "/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION, "/dev/nvidia0"},
                {"/", "/", true, "/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION, "/dev/nvidia0"},
                {"/run/nvidia/driver", "/run/nvidia/driver", false,
                        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION,
                        "/run/nvidia/driver/dev/nvidia0"},
                {"/run/nvidia/driver/", "/", false,
                        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION, "/dev/nvidia0"},
                {"/run/nvidia/driver", "", false,
                        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION,
                        "/run/nvidia/driver/dev/nvidia0"},
                /* The node that was seen is below the driver's root, whatever the root of devices is said to be. */
                {"/run/nvidia/driver", "/", true,
                        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION,
                        "/run/nvidia/driver/dev/nvidia0"},
        };
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *edits, *mount;

                if (table[i].has_dev)
                        tree_node(tree, "/driver/dev/nvidia0", 0666, 0);
                tree->config.driver.root = table[i].driver_root;
                tree->config.driver.dev_root = table[i].dev_root;
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_nodes(tree, "gpu", "GPU-0"), table[i].node);
                edits = tree_edits(tree, "gpu", NULL);
                mount = json_array_get(json_object_get(edits, "mounts"), 0);
                assert_string_equal(json_string_value(json_object_get(mount, "hostPath")), table[i].mount);
                assert_string_equal(json_string_value(json_object_get(mount, "containerPath")),
                        "/usr/lib/x86_64-linux-gnu/libcuda.so." TREE_VERSION);
                json_decref(edits);
                if (table[i].has_dev)
                        assert_int_equal(unlink(tree_path(tree, "/driver/dev/nvidia0")), 0);
        }
}

static void test_an_empty_dev_in_the_drivers_tree_hides_nothing(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_file(tree, "/driver/dev/null");
        tree->config.driver.root = "/run/nvidia/driver";
        tree->config.driver.dev_root = "/";
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_string_equal(tree_nodes(tree, "gpu", "GPU-0"), "/dev/nvidia0");
}

/* ---- hooks ---- */

/* Path and arguments of the common hooks, without the program's own name. */
static const char *hooks(struct tree *tree)
{
        json_t *edits = tree_edits(tree, "gpu", NULL);
        const char *lines = "";
        json_t *hook, *arg;
        size_t i, j;

        json_array_foreach(json_object_get(edits, "hooks"), i, hook)
        {
                lines = arena_printf(&tree->arena, "%s%s", lines, json_string_value(json_object_get(hook, "path")));
                json_array_foreach(json_object_get(hook, "args"), j, arg)
                {
                        if (j > 0)
                                lines = arena_printf(&tree->arena, "%s %s", lines, json_string_value(arg));
                }
                lines = arena_printf(&tree->arena, "%s\n", lines);
        }
        json_decref(edits);
        return lines;
}

static void test_hooks_can_be_left_out(void **state)
{
        static const char *const some[] = {"enable-cuda-compat", "update-application-profile", "no-such-hook", NULL};
        static const char *const all[] = {"all", NULL};
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.cdi.disable_hooks = some;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(hooks(tree), "/usr/bin/nvidia-cdi-hook create-symlinks --link "
                                         "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so\n"
                                         "/usr/bin/nvidia-cdi-hook update-ldcache --folder /usr/lib/x86_64-linux-gnu\n"
                                         "/usr/bin/nvidia-cdi-hook disable-device-node-modification\n");
        tree->config.cdi.disable_hooks = all;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(hooks(tree), "");
}

static void test_the_hook_is_called_by_its_path_on_the_host(void **state)
{
        static const char *const some[] = {
                "enable-cuda-compat", "update-application-profile", "update-ldcache", "create-symlinks", NULL};
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.cdi.disable_hooks = some;
        tree->config.cdi.hook_path = "/usr/local/nvidia/toolkit/nvidia-ctk";
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(
                hooks(tree), "/usr/local/nvidia/toolkit/nvidia-ctk hook disable-device-node-modification\n");
        tree->config.cdi.hook_path = tree_path(tree, "/driver/usr/bin/nvidia-cdi-hook");
        tree->config.driver.root = "/run/nvidia/driver";
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(
                hooks(tree), "/run/nvidia/driver/usr/bin/nvidia-cdi-hook disable-device-node-modification\n");
        tree->config.cdi.hook_path = "";
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(hooks(tree), "/usr/bin/nvidia-cdi-hook disable-device-node-modification\n");
}

/* ---- the other classes ---- */

static void test_extras_are_written_as_nvidia_writes_them(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.devices.extras = EXTRA_GDRCOPY | EXTRA_GDS | EXTRA_MOFED;
        tree->config.devices.has_imex_channel = true;
        tree_node(tree, "/system/dev/gdrdrv", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-fs1", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-fs0", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-fs12", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-fsx", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-fs0x", 0666, 0);
        tree_file(tree, "/driver/etc/cufile.json");
        tree_file(tree, "/driver/run/udev/data/x");
        tree_node(tree, "/system/dev/infiniband/uverbs0", 0666, 0);
        tree_node(tree, "/system/dev/infiniband/rdma_cm", 0666, 0);
        tree_node(tree, "/system/dev/infiniband/issm0", 0666, 0);
        tree_node(tree, "/system/dev/infiniband/uverbs0-old", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-caps-imex-channels/channel0", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-caps-imex-channels/channel1", 0666, 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_int_equal(tree->plan.cdi_extras, EXTRA_GDRCOPY | EXTRA_GDS | EXTRA_MOFED);
        tree_assert_golden(tree, "gdrcopy", "gdrcopy");
        tree_assert_golden(tree, "gds", "gds");
        tree_assert_golden(tree, "mofed", "mofed");
        tree_assert_golden(tree, "imex-channel", "imex-channel");
}

static void test_extras_without_nodes_are_not_given_to_containers(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.devices.extras = EXTRA_GDRCOPY | EXTRA_MOFED;
        tree->config.devices.has_imex_channel = true;
        tree->plan.cdi_extras = EXTRA_GDS; /* of an earlier turn */
        tree_node(tree, "/system/dev/infiniband/uverbs0", 0666, 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(tree->plan.cdi_extras, EXTRA_MOFED);
        assert_string_equal(tree->warnings.data,
                "gdrcopy is enabled, but none of its device nodes is in '/dev'\n"
                "imex-channel is enabled, but none of its device nodes is in '/dev/nvidia-caps-imex-channels'\n");
        assert_int_equal(access(tree_path(tree, "/run/cdi/k8s.device-plugin.nvidia.com-gdrcopy.json"), F_OK), -1);
}

/* A container that was made with it may start again. */
static void test_an_extra_that_is_switched_off_keeps_its_file(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.devices.extras = EXTRA_GDRCOPY;
        tree_node(tree, "/system/dev/gdrdrv", 0666, 0);
        assert_ok(tree_publish(tree), &tree->err);
        tree->config.devices.extras = 0;
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(tree->plan.cdi_extras, 0);
        tree_assert_golden(tree, "gdrcopy", "gdrcopy");
}

/* ---- WSL and Tegra ---- */

static void test_wsl_gets_the_driver_store_of_windows(void **state)
{
        static const char *const old_stores[] = {"/driver/usr/lib/wsl/drivers/nv_a.inf/libcuda.so.1.1",
                "/driver/usr/lib/wsl/drivers/nv_z.inf/libcuda.so.1.1"};
        const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        struct tree *tree = *state;

        tree->inventory.platform = PLATFORM_WSL;
        tree->inventory.gpus = &(struct gpu){.uuid = "all", .minor = -1};
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        assert_fails(tree_publish(tree), &tree->err, ERROR_NOT_FOUND, "CDI: there is no '/dev/dxg', the GPU of WSL");
        tree_node(tree, "/system/dev/dxg", 0666, 0);
        tree_file(tree, "/driver/usr/lib/wsl/lib/libdxcore.so");
        tree_file(tree, "/driver/usr/lib/wsl/drivers/intel.inf/libigd.so");
        assert_fails(tree_publish(tree), &tree->err, ERROR_NOT_FOUND,
                arena_printf(&tree->arena,
                        "CDI: no folder of '/usr/lib/wsl/drivers' below '%s/driver' has libcuda.so.1.1: update the "
                        "driver of Windows",
                        tree->root));
        for (size_t i = 0; i < ARRAY_SIZE(old_stores); i++) {
                char *library = tree_path(tree, old_stores[i]);

                tree_file(tree, old_stores[i]);
                assert_int_equal(utimensat(AT_FDCWD, library, old, 0), 0);
        }
        tree_file(tree, "/driver/usr/lib/wsl/drivers/nv_new.inf/libcuda.so.1.1");
        tree_file(tree, "/driver/usr/lib/wsl/drivers/nv_new.inf/nvidia-smi");
        tree_file(tree, "/driver/usr/lib/wsl/drivers/nv_new.inf/nvcubins.bin");
        tree_file(tree, "/driver/usr/lib/wsl/drivers/nv_new.inf/nv_dispi.inf");
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        tree_assert_golden(tree, "gpu", "wsl");
}

#define LISTS "/etc/nvidia-container-runtime/host-files-for-container.d"

static void test_tegra_gets_what_its_lists_name(void **state)
{
        static const char devices[] = "dev, /dev/nvhost-ctrl\ndev,/dev/nvmap\r\ndev, /dev/missing\n"
                                      "dev, /dev/../dev/nvmap\ndev, /sys/x\n\n# a comment\nnonsense, /dev/nvmap\n";
        static const char files[] = "lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1\n"
                                    "dir, /usr/share/nvidia\n dir , /usr/lib/missing\nlib, /usr/share/nvidia\n"
                                    "sym, /usr/lib/aarch64-linux-gnu/libcuda.so\nsym, /usr/share/nvidia/hostile\n";
        static const char *const roots[] = {"/driver", "/system"};
        struct tree *tree = *state;

        tree->inventory.platform = PLATFORM_TEGRA;
        tree->inventory.driver_version = NULL;
        tree->inventory.gpus = &(struct gpu){.uuid = "tegra", .minor = -1};
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        assert_fails(tree_publish(tree), &tree->err, ERROR_NOT_FOUND,
                arena_printf(&tree->arena,
                        "CDI: no list of Tegra's files in '" LISTS "', neither below '%s/driver' nor here",
                        tree->root));
        tree_folder(tree, "/system" LISTS "/drivers.csv");
        assert_int_equal(mkfifo(tree_path(tree, "/system" LISTS "/drivers.csv"), 0666), 0); /* never ends */
        tree_file(tree, "/driver/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1");
        tree_link(tree, "/driver/usr/lib/aarch64-linux-gnu/libcuda.so", "tegra/libcuda.so");
        tree_link(tree, "/driver/usr/share/nvidia/hostile", "a::/etc/passwd");
        for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                const char *list = arena_printf(&tree->arena, "%s" LISTS "/devices.csv", roots[i]);

                tree_write(tree, list, devices, strlen(devices));
                if (i == 0)
                        assert_fails(tree_publish(tree), &tree->err, ERROR_NOT_FOUND,
                                "CDI: none of the device nodes that the lists in '" LISTS "' name is there");
                if (i == 0) {
                        tree_node(tree, "/system/dev/nvhost-ctrl", 0666, 0);
                        tree_node(tree, "/system/dev/nvmap", 0666, 0);
                }
                tree_write(tree, arena_printf(&tree->arena, "%s" LISTS "/l4t.csv", roots[i]), files, strlen(files));
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree->warnings.data, "");
                tree_assert_golden(tree, "gpu", "tegra");
                assert_int_equal(unlink(tree_path(tree, list)), 0);
                assert_int_equal(
                        unlink(tree_path(tree, arena_printf(&tree->arena, "%s" LISTS "/l4t.csv", roots[i]))), 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_a_gpu_is_written_as_nvidia_writes_it),
                TREE_TEST(test_the_folder_and_the_file_can_be_read_by_all),
                TREE_TEST(test_groups_are_left_out_where_the_flag_says_so),
                TREE_TEST(test_a_coherent_gpu_is_marked_where_the_flag_says_so),
                TREE_TEST(test_mig_devices_come_with_their_capabilities),
                TREE_TEST(test_devices_are_named_by_index_where_ids_are),
                TREE_TEST(test_a_mig_device_has_a_display_only_by_its_profile),
                TREE_TEST(test_a_divided_gpu_that_is_advertised_whole_has_a_device),
                TREE_TEST(test_missing_nodes_are_warned_about),
                TREE_TEST(test_an_early_mig_uuid_is_no_name),
                TREE_TEST(test_without_any_device_nothing_is_written),
                TREE_TEST(test_without_units_all_stays_as_it_is),
                TREE_TEST(test_without_a_cdi_strategy_nothing_happens),
                TREE_TEST(test_another_version_keeps_the_old_file),
                TREE_TEST(test_every_file_is_named_as_the_host_names_it),
                TREE_TEST(test_an_empty_dev_in_the_drivers_tree_hides_nothing),
                TREE_TEST(test_hooks_can_be_left_out),
                TREE_TEST(test_the_hook_is_called_by_its_path_on_the_host),
                TREE_TEST(test_extras_are_written_as_nvidia_writes_them),
                TREE_TEST(test_extras_without_nodes_are_not_given_to_containers),
                TREE_TEST(test_an_extra_that_is_switched_off_keeps_its_file),
                TREE_TEST(test_wsl_gets_the_driver_store_of_windows),
                TREE_TEST(test_tegra_gets_what_its_lists_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
