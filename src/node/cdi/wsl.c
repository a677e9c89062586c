#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/cdi/nodes.h"
#include "node/cdi/platforms.h"

#define STORES "/usr/lib/wsl/drivers"
#define WSL_LIBRARIES "/usr/lib/wsl/lib"

static bool is_any(const char *name, const void *data UNUSED)
{
        return name[0] != '.';
}

static bool is_driver_file(const char *name, const void *data UNUSED)
{
        static const char *const patterns[] = {"nvidia-smi", "*.so", "*.so.*", "*.bin", "*.dll"};

        for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
                if (fnmatch(patterns[i], name, 0) == 0)
                        return true;
        return false;
}

/* The modification time of a store's CUDA library; 0 if it has none. */
static time_t age_of(const struct cdi_context *context, const char *store)
{
        char path[PATH_MAX];
        struct stat info;

        if (snprintf(path, sizeof(path), "%s%s/libcuda.so.1.1", context->roots.driver, store) >= (int)sizeof(path) ||
                !roots_look(&context->roots, path, &info) || !S_ISREG(info.st_mode))
                return 0;
        return info.st_mtime;
}

static const char *find_store(const struct cdi_context *context)
{
        const char *const *names;
        size_t count = roots_list(&context->roots, context->roots.driver, STORES, context->arena, &names, is_any, NULL);
        const char *newest = NULL;
        time_t newest_age = 0;

        for (size_t i = 0; i < count; i++) {
                const char *store = arena_printf(context->arena, STORES "/%s", names[i]);
                time_t age = age_of(context, store);

                if (age > newest_age) {
                        newest = store;
                        newest_age = age;
                }
        }
        return newest;
}

static void add_file(struct driver *driver, const struct cdi_context *context, const char *path)
{
        const char *source = roots_resolve(&context->roots, context->arena, path);

        if (!source || !S_ISREG(roots_type(&context->roots, source)))
                return;
        driver_add_file(driver, source, path, false);
        driver_add_library_folder(driver, context->arena, path);
}

int wsl_find(struct driver *ret, const struct cdi_context *context, const char ***ret_nodes, size_t *ret_n_nodes,
        struct error *err)
{
        const char *root = *context->roots.driver ? context->roots.driver : "/";
        const char *store = find_store(context);
        const char *const *names;
        const char **nodes = ARENA_ARRAY(context->arena, const char *, 1);
        size_t count;

        if (!nodes_exist(context, "/dev/dxg"))
                return error_set(err, ERROR_NOT_FOUND, "CDI: there is no '/dev/dxg', the GPU of WSL");
        if (!store)
                return error_set(err, ERROR_NOT_FOUND,
                        "CDI: no folder of '" STORES
                        "' below '%.150s' has libcuda.so.1.1: update the driver of Windows",
                        root);
        nodes[0] = "/dev/dxg";
        driver_init(ret, context->arena);
        add_file(ret, context, WSL_LIBRARIES "/libdxcore.so");
        count = roots_list(&context->roots, context->roots.driver, store, context->arena, &names, is_driver_file, NULL);
        for (size_t i = 0; i < count; i++) {
                const char *path = arena_printf(context->arena, "%s/%s", store, names[i]);

                add_file(ret, context, path);
                if (strcmp(names[i], "nvidia-smi") == 0)
                        driver_add_link(ret, path, "/usr/bin/nvidia-smi");
        }
        *ret_nodes = nodes;
        *ret_n_nodes = 1;
        return 0;
}
