#include "node/cdi/hooks.h"

#include <string.h>

#include "base/file.h"
#include "node/cdi/hook_program.h"

#define MAX_HEAD 3 /* the program's name, "hook", the hook's name */

static const char *host_path(const struct cdi_context *context)
{
        const char *configured = context->config->cdi_hook_path;

        return roots_to_host(&context->roots, context->arena, *configured ? configured : "/usr/bin/nvidia-cdi-hook");
}

static bool is_disabled(const struct cdi_context *context, const char *hook)
{
        const char *const *disabled = context->config->cdi_disable_hooks;

        return cdi_lists(disabled, "all") || cdi_lists(disabled, hook);
}

const char *const *hooks_find_unknown(const struct cdi_context *context, const char **ret_program)
{
        /* The oldest first: a program without that one is none of these, and what it knows cannot be found out so. */
        static const char *const names[] = {"create-symlinks", "update-ldcache", "enable-cuda-compat",
                "disable-device-node-modification", "update-application-profile"};
        const char *program = hook_program_find(&context->roots, context->arena, host_path(context));
        const char **unknown = ARENA_ARRAY(context->arena, const char *, ARRAY_SIZE(names) + 1);
        bool has[ARRAY_SIZE(names)];
        size_t count = 0;

        if (ret_program)
                *ret_program = program;
        if (!program || !hook_program_read(program, names, ARRAY_SIZE(names), has) || !has[0])
                return unknown;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!has[i] && !is_disabled(context, names[i]))
                        unknown[count++] = names[i];
        return unknown;
}

/* Adds a hook with |n_args| arguments. */
static void hooks_add(const struct cdi_context *context, struct spec_edits *edits, const char *hook,
        const char *const *args, size_t n_args)
{
        const char *path = host_path(context);
        const char *program = file_base_name(path);
        const char **line = ARENA_ARRAY(context->arena, const char *, MAX_HEAD + n_args + 1);
        size_t count = 0;

        if (is_disabled(context, hook) || cdi_lists(context->unknown_hooks, hook))
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
