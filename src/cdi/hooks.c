#include "cdi/hooks.h"

#include <string.h>

#define MAX_HEAD 3 /* the program's name, "hook", the hook's name */

/* Adds a hook with |n_args| arguments. */
static void hooks_add(const struct cdi_context *context, struct spec_edits *edits, const char *hook,
        const char *const *args, size_t n_args)
{
        const struct config *config = context->config;
        const char *configured = *config->cdi_hook_path ? config->cdi_hook_path : "/usr/bin/nvidia-cdi-hook";
        const char *path = roots_to_host(&context->roots, context->arena, configured);
        const char *slash = strrchr(path, '/');
        const char *program = slash ? slash + 1 : path;
        const char **line = ARENA_ARRAY(context->arena, const char *, MAX_HEAD + n_args + 1);
        size_t count = 0;

        if (cdi_lists(config->cdi_disable_hooks, "all") || cdi_lists(config->cdi_disable_hooks, hook))
                return;
        line[count++] = program;
        if (strcmp(program, "nvidia-ctk") == 0)
                line[count++] = "hook";
        line[count++] = hook;
        for (size_t i = 0; i < n_args; i++)
                line[count++] = args[i];
        spec_add_hook(edits, path, line, "NVIDIA_CTK_DEBUG=false");
}

/* Adds a hook with the arguments "<option> <value>" for each value. */
static void add_with_list(const struct cdi_context *context, struct spec_edits *edits, const char *hook,
        const char *option, const char *const *values, size_t n_values)
{
        const char **args = ARENA_ARRAY(context->arena, const char *, 2 * n_values);

        for (size_t i = 0; i < n_values; i++) {
                args[2 * i] = option;
                args[2 * i + 1] = values[i];
        }
        if (n_values)
                hooks_add(context, edits, hook, args, 2 * n_values);
}

void hooks_add_links(
        const struct cdi_context *context, struct spec_edits *edits, const struct driver_link *links, size_t n_links)
{
        const char **texts = ARENA_ARRAY(context->arena, const char *, n_links);

        for (size_t i = 0; i < n_links; i++)
                texts[i] = arena_printf(context->arena, "%s::%s", links[i].target, links[i].link);
        add_with_list(context, edits, "create-symlinks", "--link", texts, n_links);
}

void hooks_add_ldcache(
        const struct cdi_context *context, struct spec_edits *edits, const char *const *folders, size_t n_folders)
{
        add_with_list(context, edits, "update-ldcache", "--folder", folders, n_folders);
}

void hooks_add_cuda_compat(const struct cdi_context *context, struct spec_edits *edits)
{
        const char *version =
                arena_printf(context->arena, "--host-driver-version=%s", context->plan->inventory->driver_version);

        hooks_add(context, edits, "enable-cuda-compat", &version, 1);
}

void hooks_add_restrictions(const struct cdi_context *context, struct spec_edits *edits)
{
        hooks_add(context, edits, "disable-device-node-modification", NULL, 0);
        hooks_add(context, edits, "update-application-profile", NULL, 0);
}
