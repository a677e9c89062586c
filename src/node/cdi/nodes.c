#include "node/cdi/nodes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Nodes in the driver's tree come first: a driver in a container creates its nodes there. */
static bool cdi_nodes_find(
        const struct cdi_context *context, const char *path, struct stat *ret_info, const char **ret_host_root)
{
        const char *const here[] = {context->roots.driver, context->roots.system};
        const char *const host[] = {context->roots.driver_host, context->roots.dev_host};

        /* If the driver's root is "/", there is only the machine's /dev. */
        for (size_t i = *here[0] ? 0 : 1; i < ARRAY_SIZE(here); i++) {
                char whole[PATH_MAX];

                if (snprintf(whole, sizeof(whole), "%s%s", here[i], path) >= (int)sizeof(whole) ||
                        !roots_look(&context->roots, whole, ret_info) || !S_ISCHR(ret_info->st_mode))
                        continue;
                *ret_host_root = host[i];
                return true;
        }
        return false;
}

bool nodes_exist(const struct cdi_context *context, const char *path)
{
        const char *host_root;
        struct stat info;

        return cdi_nodes_find(context, path, &info, &host_root);
}

bool nodes_add(const struct cdi_context *context, struct spec_edits *edits, const char *path)
{
        const char *host_root;
        struct stat info;

        if (!cdi_nodes_find(context, path, &info, &host_root))
                return false;
        spec_add_node(edits,
                &(struct spec_node){
                        .path = path,
                        .host_path = arena_printf(context->arena, "%s%s", host_root, path),
                        .mode = info.st_mode & 0777,
                        .gid = info.st_gid,
                        .needs_group = (info.st_mode & 06) != 06 && !cdi_lists(context->config->cdi.feature_flags,
                                                                            "no-additional-gids-for-device-nodes"),
                });
        return true;
}

size_t nodes_list(const struct cdi_context *context, const char *folder, roots_filter_fn *is_wanted, const void *data,
        const char ***ret)
{
        const char *const here[] = {context->roots.driver, context->roots.system};
        size_t n_found = 0;

        /* Only one of the two folders is used: if the driver's /dev has any of the nodes, it has all. */
        for (size_t i = *here[0] ? 0 : 1; i < ARRAY_SIZE(here) && n_found == 0; i++) {
                const char *const *names;
                size_t count = roots_list(&context->roots, here[i], folder, context->arena, &names, is_wanted, data);

                *ret = ARENA_ARRAY(context->arena, const char *, count);
                for (size_t j = 0; j < count; j++) {
                        const char *path = arena_printf(context->arena, "%s/%s", folder, names[j]);

                        if (nodes_exist(context, path))
                                (*ret)[n_found++] = path;
                }
        }
        return n_found;
}

/* ---- files ---- */

void mounts_add(const struct cdi_context *context, struct spec_edits *edits, const struct driver_file *file)
{
        static const char *const read_only[] = {"ro", "nosuid", "nodev", "rbind", "rprivate", NULL};
        static const char *const socket_options[] = {"nosuid", "nodev", "rbind", "rprivate", "noexec", NULL};

        spec_add_mount(edits, arena_printf(context->arena, "%s%s", context->roots.driver_host, file->source),
                file->target, file->is_socket ? socket_options : read_only);
}

void mounts_add_void(struct spec_edits *edits)
{
        spec_add_env(edits, "NVIDIA_VISIBLE_DEVICES=void");
}
