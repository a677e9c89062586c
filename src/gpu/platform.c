// SPDX-License-Identifier: Apache-2.0
#include "gpu/platform.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "gpu/nvml.h"

/* ---- nodes ---- */

static const struct {
        unsigned int bit;
        const char *path;
} nodes[] = {
        {NODE_NVIDIACTL, "/dev/nvidiactl"},
        {NODE_UVM, "/dev/nvidia-uvm"},
        {NODE_UVM_TOOLS, "/dev/nvidia-uvm-tools"},
        {NODE_MODESET, "/dev/nvidia-modeset"},
        {NODE_IMEX_CHANNEL, "/dev/nvidia-caps-imex-channels/channel0"},
};

static unsigned int find_below(const char *root)
{
        unsigned int found = 0;

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
                _free_ char *path = xasprintf("%s%s", root, nodes[i].path);
                struct stat st;

                if (lstat(path, &st) == 0 && S_ISCHR(st.st_mode))
                        found |= nodes[i].bit;
        }
        return found;
}

unsigned int nodes_find(const struct gpu_paths *paths)
{
        unsigned int found = find_below(paths->system_root);

        if (paths->driver_root && *paths->driver_root && strcmp(paths->driver_root, "/") != 0)
                found |= find_below(paths->driver_root);
        return found;
}

#define FAMILY_MAX_SIZE ((size_t)4096)

bool platform_can_load(const char *library)
{
        void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);

        if (!handle)
                return false;
        dlclose(handle);
        return true;
}

static bool has_tegra_files(const struct gpu_paths *paths)
{
        const char *root = paths->driver_root && *paths->driver_root ? paths->driver_root : paths->system_root;
        _free_ char *release = xasprintf("%s/etc/nv_tegra_release", root);
        _free_ char *family = xasprintf("%s/sys/devices/soc0/family", root);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        struct stat st;

        if (stat(release, &st) == 0 && S_ISREG(st.st_mode))
                return true;
        return file_read(family, FAMILY_MAX_SIZE, &text, &ignored) == 0 && strncasecmp(text.data, "tegra", 5) == 0;
}

static bool can_load_nvml(const struct gpu_paths *paths, const char *library, platform_load_fn *can_load)
{
        _free_ char *path = nvml_locate(library, paths->driver_root);

        return can_load(path);
}

enum platform platform_detect(
        enum platform_choice choice, const struct gpu_paths *paths, const char *library, platform_load_fn *can_load)
{
        if (choice == PLATFORM_CHOICE_TEGRA)
                return PLATFORM_TEGRA;
        if (can_load("libdxcore.so"))
                return PLATFORM_WSL;
        if (choice == PLATFORM_CHOICE_AUTO && has_tegra_files(paths) && !can_load_nvml(paths, library, can_load))
                return PLATFORM_TEGRA;
        return PLATFORM_NVML;
}

bool platform_is_integrated(const struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (strstr(inventory->gpus[i].name, "(nvgpu)") || strstr(inventory->gpus[i].name, "NVIDIA Thor"))
                        return true;
        return false;
}

struct inventory *platform_inventory(enum platform platform)
{
        struct inventory *inventory = inventory_new();

        assert(platform != PLATFORM_NVML);
        inventory->platform = platform;
        inventory->driver_version = inventory->nvml_version = "";
        inventory->n_gpus = 1;
        inventory->gpus = ARENA_NEW(&inventory->arena, struct gpu);
        *inventory->gpus = inventory_unknown_gpu(platform == PLATFORM_WSL ? "all" : "tegra");
        inventory->gpus->links = ARENA_NEW(&inventory->arena, struct gpu_link);
        return inventory;
}
