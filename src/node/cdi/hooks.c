// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

/* ---- the program ---- */

#define HOOK_PROGRAM_LIMIT ((size_t)256 * 1024 * 1024)
#define CHUNK ((size_t)64 * 1024)
#define NAME_BYTES_MAX ((size_t)256)

static int open_program(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat info;

        if (fd >= 0 && (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || (size_t)info.st_size > HOOK_PROGRAM_LIMIT)) {
                close(fd);
                return -1;
        }
        return fd;
}

static bool is_script(const char *path)
{
        _close_ int fd = open_program(path);
        char begin[2];

        return fd >= 0 && read(fd, begin, sizeof(begin)) == sizeof(begin) && memcmp(begin, "#!", sizeof(begin)) == 0;
}

static const char *find_here(const struct cdi_context *context, const char *path)
{
        const char *resolved = cdi_resolve(context, path);

        return resolved && S_ISREG(cdi_type(context, resolved))
                       ? arena_printf(context->arena, "%s%s", context->roots.driver, resolved)
                       : NULL;
}

/*
 * The path at which this process sees the host's program: below the driver's root, with links resolved. If that is a
 * script, the program with ".real" after its name, since the toolkit's container installs both. NULL: it is not visible
 * here.
 */
static const char *hook_program_find(const struct cdi_context *context, const char *host_path)
{
        const char *host_root = context->roots.driver_host;
        size_t root = strlen(host_root);
        const char *found;

        if (!text_starts_with(host_path, host_root) || host_path[root] != '/')
                return NULL;
        found = find_here(context, host_path + root);
        if (!found || !is_script(found))
                return found;
        return find_here(context, arena_printf(context->arena, "%s.real", host_path + root));
}

/*
 * Whether the file has each of |names|; false if it cannot be read, or is larger than HOOK_PROGRAM_LIMIT. The program
 * is not run: the name of each of its subcommands is in its bytes (it is one file, in Go).
 */
static bool hook_program_read(const char *path, const char *const *names, size_t n_names, bool *ret_has)
{
        _close_ int fd = open_program(path);
        _free_ char *bytes = NULL;
        size_t kept = 0; /* the end of the last chunk, in which a name may begin */

        if (fd < 0)
                return false;
        memset(ret_has, 0, n_names * sizeof(*ret_has));
        bytes = xcalloc(1, NAME_BYTES_MAX + CHUNK);
        for (;;) {
                ssize_t got = read(fd, bytes + kept, CHUNK);
                size_t size;

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return got == 0;
                size = kept + (size_t)got;
                for (size_t i = 0; i < n_names; i++)
                        ret_has[i] = ret_has[i] || memmem(bytes, size, names[i], strlen(names[i]));
                kept = MIN(size, NAME_BYTES_MAX);
                memmove(bytes, bytes + size - kept, kept);
        }
}

/* ---- hooks ---- */

#define MAX_HEAD 3 /* the program's name, "hook", the hook's name */

static const char *host_path(const struct cdi_context *context)
{
        const char *configured = context->config->cdi.hook_path;

        return cdi_to_host(context, *configured ? configured : "/usr/bin/nvidia-cdi-hook");
}

static bool is_disabled(const struct cdi_context *context, const char *hook)
{
        const char *const *disabled = context->config->cdi.disable_hooks;

        return cdi_lists(disabled, "all") || cdi_lists(disabled, hook);
}

const char *const *hooks_find_unknown(const struct cdi_context *context, const char **ret_program)
{
        /*
         * The oldest hook first: a program whose text lacks that one is another program, whose hooks cannot be found
         * out this way.
         */
        static const char *const names[] = {"create-symlinks", "update-ldcache", "enable-cuda-compat",
                "disable-device-node-modification", "update-application-profile"};
        const char *program = hook_program_find(context, host_path(context));
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

void hooks_add_driver(const struct cdi_context *context, struct spec_edits *edits, const struct driver *driver)
{
        const struct inventory *inventory = context->plan->inventory;
        const char *version = arena_printf(context->arena, "--host-driver-version=%s", inventory->driver_version);
        bool has_nvml = inventory->platform == PLATFORM_NVML;

        hooks_add_links(context, edits, driver->links, driver->n_links);
        if (has_nvml)
                hooks_add(context, edits, "enable-cuda-compat", &version, 1);
        add_with_list(context, edits, "update-ldcache", "--folder", driver->library_folders, driver->n_library_folders);
        if (!has_nvml)
                return;
        hooks_add(context, edits, "disable-device-node-modification", NULL, 0);
        hooks_add(context, edits, "update-application-profile", NULL, 0);
}
