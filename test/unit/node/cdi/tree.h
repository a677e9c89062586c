// SPDX-License-Identifier: Apache-2.0
/*
 * A made-up machine in a folder: a driver's tree with libraries, device nodes, sysfs, and the plan to publish. Device
 * nodes are real ones, so they need the right to make them (root has it); a test without it is skipped.
 */
#pragma once

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "unit.h"

#include "base/file.h"
#include "base/strbuf.h"
#include "node/cdi/cdi.h"

#define TREE_VERSION "580.105.08"
#define TREE_LIBRARIES "/driver/usr/lib/x86_64-linux-gnu"

struct tree {
        char *root; /* the folder; below it "driver" (the driver's root), "system" (/dev, /proc, /sys) and "run/cdi" */
        struct arena arena;
        struct inventory inventory;
        struct config config;
        struct resource resource;
        struct plan plan;
        struct strbuf warnings;
        struct error err;
};

static inline char *tree_path(struct tree *tree, const char *path)
{
        return arena_printf(&tree->arena, "%s%s", tree->root, path);
}

/* The folder that |path| is in, and those above it. */
static inline void tree_folder(struct tree *tree, const char *path)
{
        char *whole = tree_path(tree, path);

        for (char *slash = whole + strlen(tree->root) + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
}

static inline void tree_write(struct tree *tree, const char *path, const void *bytes, size_t size)
{
        struct error err;

        tree_folder(tree, path);
        assert_ok(file_write(tree_path(tree, path), bytes, size, &err), &err);
}

static inline void tree_file(struct tree *tree, const char *path)
{
        tree_write(tree, path, "x", 1);
}

static inline void tree_link(struct tree *tree, const char *path, const char *target)
{
        tree_folder(tree, path);
        assert_int_equal(symlink(target, tree_path(tree, path)), 0);
}

static inline void tree_node(struct tree *tree, const char *path, mode_t mode, gid_t gid)
{
        char *whole = tree_path(tree, path);

        tree_folder(tree, path);
        /* The null device, in case somebody opens it. */
        if (mknod(whole, S_IFCHR | 0600, makedev(1, 3)) < 0) {
                print_message("skipped: no right to make device nodes: %s\n", strerror(errno));
                skip();
        }
        assert_int_equal(chown(whole, 0, gid), 0);
        assert_int_equal(chmod(whole, mode), 0);
}

static inline void tree_socket(struct tree *tree, const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        tree_folder(tree, path);
        assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", tree->root, path) <
                    (int)sizeof(address.sun_path));
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

/* The least ELF library that has a SONAME: one segment of the whole file, its dynamic section, and the name. */
struct tree_elf {
        Elf64_Ehdr header;
        Elf64_Phdr segments[2];
        Elf64_Dyn dynamic[3];
        char names[64];
};

static inline struct tree_elf tree_elf(const char *soname)
{
        struct tree_elf elf = {
                .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                        .e_type = ET_DYN,
                        .e_version = EV_CURRENT,
                        .e_phoff = offsetof(struct tree_elf, segments),
                        .e_phentsize = sizeof(Elf64_Phdr),
                        .e_phnum = 2},
                .segments = {{.p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = sizeof(elf), .p_memsz = sizeof(elf)},
                        {.p_type = PT_DYNAMIC,
                                .p_offset = offsetof(struct tree_elf, dynamic),
                                .p_filesz = sizeof(elf.dynamic)}},
                .dynamic = {{.d_tag = DT_SONAME, .d_un.d_val = 1},
                        {.d_tag = DT_STRTAB, .d_un.d_ptr = 0x10000 + offsetof(struct tree_elf, names)}},
        };

        snprintf(elf.names + 1, sizeof(elf.names) - 1, "%s", soname);
        return elf;
}

static inline void tree_library(struct tree *tree, const char *path, const char *soname)
{
        struct tree_elf elf = tree_elf(soname);

        tree_write(tree, path, &elf, sizeof(elf));
}

/* ---- the machine ---- */

/* cmocka's setup: an empty machine. */
static inline int tree_setup(void **state)
{
        struct tree *tree = xcalloc(1, sizeof(*tree));
        char root[] = "/tmp/warpshare-cdi-XXXXXX";

        if (!mkdtemp(root))
                return -1;
        tree->root = xstrdup(root);
        tree->warnings = (struct strbuf)STRBUF_INIT;
        tree->inventory = (struct inventory){.driver_version = TREE_VERSION};
        tree->config = (struct config){
                .driver.root = "/",
                .driver.dev_root = "/",
                .driver.mounted_root = tree_path(tree, "/driver"),
                .devices.lists = DEVICE_LIST_CDI_CRI,
                .cdi.hook_path = "/usr/bin/nvidia-cdi-hook",
                .cdi.root = tree_path(tree, "/run/cdi"),
                .system_root = tree_path(tree, "/system"),
        };
        tree->resource = (struct resource){.name = "nvidia.com/gpu"};
        tree->plan =
                (struct plan){.config = &tree->config, .inventory = &tree->inventory, .resources = &tree->resource};
        *state = tree;
        return 0;
}

static inline int tree_remove_entry(
        const char *path, const struct stat *info UNUSED, int type UNUSED, struct FTW *ftw UNUSED)
{
        return remove(path);
}

static inline int tree_teardown(void **state)
{
        struct tree *tree = *state;
        int removed = nftw(tree->root, tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);

        strbuf_done(&tree->warnings);
        arena_done(&tree->arena);
        free(tree->root);
        free(tree);
        return removed;
}

#define TREE_TEST(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

/* libcuda and libnvidia-ml of TREE_VERSION. */
static inline void tree_driver(struct tree *tree)
{
        tree_library(tree, TREE_LIBRARIES "/libcuda.so." TREE_VERSION, "libcuda.so.1");
        tree_library(tree, TREE_LIBRARIES "/libnvidia-ml.so." TREE_VERSION, "libnvidia-ml.so.1");
}

/* A unit for each whole GPU without MIG, and for each MIG device; replaces those that the plan has. */
static inline void tree_plan(struct tree *tree)
{
        struct unit *units = ARENA_ARRAY(&tree->arena, struct unit, 64);
        size_t count = 0;

        for (size_t i = 0; i < tree->inventory.n_gpus; i++) {
                const struct gpu *gpu = &tree->inventory.gpus[i];

                if (!gpu->mig_enabled)
                        units[count++] = (struct unit){
                                .uuid = gpu->uuid, .index = arena_printf(&tree->arena, "%u", gpu->index), .gpu = gpu};
                for (size_t j = 0; j < gpu->n_mig_devices; j++)
                        units[count++] = (struct unit){.uuid = gpu->mig_devices[j].uuid,
                                .index = arena_printf(&tree->arena, "%u:%u", gpu->index, gpu->mig_devices[j].index),
                                .gpu = gpu,
                                .mig = &gpu->mig_devices[j]};
        }
        tree->resource.units = units;
        tree->resource.n_units = count;
        tree->plan.n_resources = count ? 1 : 0;
}

/*
 * GPUs "GPU-0", …, of minors 0, …, advertised as nvidia.com/gpu, with their nodes, those that CUDA needs, and a driver.
 */
static inline void tree_gpus(struct tree *tree, size_t n_gpus)
{
        struct gpu *gpus = ARENA_ARRAY(&tree->arena, struct gpu, n_gpus);

        for (size_t i = 0; i < n_gpus; i++) {
                gpus[i] = (struct gpu){
                        .uuid = arena_printf(&tree->arena, "GPU-%zu", i), .index = (unsigned int)i, .minor = (int)i};
                tree_node(tree, arena_printf(&tree->arena, "/system/dev/nvidia%zu", i), 0666, 0);
        }
        tree->inventory.gpus = gpus;
        tree->inventory.n_gpus = n_gpus;
        tree_node(tree, "/system/dev/nvidiactl", 0666, 0);
        tree_node(tree, "/system/dev/nvidia-uvm", 0666, 0);
        tree_driver(tree);
        tree_plan(tree);
}

/* Divides the GPU into MIG devices "MIG-<gpu>-0", … with the caps 10 and 11, 20 and 21, …; the nodes of all exist. */
static inline void tree_mig(struct tree *tree, size_t gpu, size_t n_devices)
{
        struct mig_device *devices = ARENA_ARRAY(&tree->arena, struct mig_device, n_devices);

        for (size_t i = 0; i < n_devices; i++) {
                int cap = (int)(10 * (i + 1));

                devices[i] = (struct mig_device){.uuid = arena_printf(&tree->arena, "MIG-%zu-%zu", gpu, i),
                        .profile = "1g.5gb",
                        .index = (unsigned int)i,
                        .gpu_instance_cap = cap,
                        .compute_instance_cap = cap + 1};
                for (int j = cap; j <= cap + 1; j++)
                        tree_node(tree, arena_printf(&tree->arena, "/system/dev/nvidia-caps/nvidia-cap%d", j), 0444, 0);
        }
        tree->inventory.gpus[gpu].mig_enabled = true;
        tree->inventory.gpus[gpu].mig_devices = devices;
        tree->inventory.gpus[gpu].n_mig_devices = n_devices;
        tree_plan(tree);
}

/* ---- publishing ---- */

static inline void tree_warn(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static inline int tree_publish(struct tree *tree)
{
        strbuf_clear(&tree->warnings);
        return cdi_publish(&tree->plan, NULL, tree_warn, &tree->warnings, &tree->err);
}

static inline json_t *tree_load(struct tree *tree, const char *class_name)
{
        json_t *json = json_load_file(
                tree_path(
                        tree, arena_printf(&tree->arena, "/run/cdi/k8s.device-plugin.nvidia.com-%s.json", class_name)),
                JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(json);
        return json;
}

/* |json| must be |wanted|, in any order of keys. Takes both. */
static inline void tree_assert_same(json_t *json, json_t *wanted)
{
        _free_ char *seen = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
        _free_ char *expected = json_dumps(wanted, JSON_INDENT(2) | JSON_SORT_KEYS);
        size_t line = 0;

        json_decref(json);
        json_decref(wanted);
        for (size_t i = 0; seen[i] || expected[i]; i++) {
                if (seen[i] != expected[i])
                        fail_msg("instead of:\n%.300s\nthere is:\n%.300s", expected + line, seen + line);
                if (seen[i] == '\n')
                        line = i;
        }
}

/* The specification of the class must be what is in golden/<name>.json. */
static inline void tree_assert_golden(struct tree *tree, const char *class_name, const char *name)
{
        json_error_t error;
        json_t *golden = json_load_file(
                arena_printf(&tree->arena, "%s/%s.json", TREE_GOLDEN, name), JSON_REJECT_DUPLICATES, &error);

        if (!golden)
                fail_msg("golden/%s.json line %d: %s", name, error.line, error.text);
        tree_assert_same(tree_load(tree, class_name), golden);
}

/* The names of the devices, in order, separated by blanks. */
static inline const char *tree_names(struct tree *tree, const char *class_name)
{
        json_t *json = tree_load(tree, class_name);
        const char *names = "";
        json_t *device;
        size_t i;

        json_array_foreach(json_object_get(json, "devices"), i, device)
        {
                names = arena_printf(&tree->arena, "%s%s%s", names, i ? " " : "",
                        json_string_value(json_object_get(device, "name")));
        }
        json_decref(json);
        return names;
}

/*
 * The edits of a device, or the common ones without a name; NULL when there is no such device. The caller releases
 * them.
 */
static inline json_t *tree_edits(struct tree *tree, const char *class_name, const char *name)
{
        json_t *json = tree_load(tree, class_name);
        json_t *found = name ? NULL : json_incref(json_object_get(json, "containerEdits"));
        json_t *device;
        size_t i;

        json_array_foreach(json_object_get(json, "devices"), i, device)
        {
                if (name && strcmp(name, json_string_value(json_object_get(device, "name"))) == 0)
                        found = json_incref(json_object_get(device, "containerEdits"));
        }
        json_decref(json);
        return found;
}

/* The paths of a device's nodes as the host names them, separated by blanks. */
static inline const char *tree_nodes(struct tree *tree, const char *class_name, const char *name)
{
        json_t *edits = tree_edits(tree, class_name, name);
        const char *paths = "";
        json_t *node;
        size_t i;

        json_array_foreach(json_object_get(edits, "deviceNodes"), i, node)
        {
                paths = arena_printf(&tree->arena, "%s%s%s", paths, i ? " " : "",
                        json_string_value(json_object_get(node, "hostPath")));
        }
        json_decref(edits);
        return paths;
}
