#include "node/cdi/mounts.h"

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
