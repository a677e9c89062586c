// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/context.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"

#define MAX_LINKS 40

static const char *without_slash(const char *path, struct arena *arena)
{
        size_t length = strlen(path);

        while (length && path[length - 1] == '/')
                length--;
        return arena_strndup(arena, path, length);
}

struct cdi_context cdi_context_of(const struct config *config, const struct plan *plan, struct arena *arena)
{
        return (struct cdi_context){.arena = arena,
                .plan = plan,
                .config = config,
                .roots = {
                        .driver = without_slash(config->driver.mounted_root, arena),
                        .driver_host = without_slash(config->driver.root, arena),
                        .dev_host = without_slash(
                                *config->driver.dev_root ? config->driver.dev_root : config->driver.root, arena),
                        .system = without_slash(config->system_root, arena),
                }};
}

void cdi_warn(const struct cdi_context *context, const char *format, ...)
{
        va_list args;

        if (!context->warn)
                return;
        va_start(args, format);
        context->warn(arena_vprintf(context->arena, format, args), context->warn_data);
        va_end(args);
}

bool cdi_lists(const char *const *list, const char *word)
{
        for (; list && *list; list++)
                if (strcmp(*list, word) == 0)
                        return true;
        return false;
}

bool cdi_is_plain(const char *name)
{
        for (const char *c = name; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("._+-@~", *c))
                        return false;
        return *name;
}

void cdi_note(const struct cdi_context *context, const struct error *err)
{
        if (context->unseen && context->unseen->kind == ERROR_NONE &&
                (err->kind == ERROR_EXHAUSTED || err->kind == ERROR_UNAVAILABLE))
                *context->unseen = *err;
}

void cdi_note_errno(const struct cdi_context *context, const char *path)
{
        struct error err;

        if (errno == ELOOP)
                return; /* links in a circle lead to nothing */
        error_raise_errno(&err, errno, "look at '%s'", path);
        cdi_note(context, &err);
}

bool cdi_look(const struct cdi_context *context, const char *root, const char *path, struct stat *ret)
{
        _free_ char *whole = xasprintf("%s%s", root, path);

        if (lstat(whole, ret) == 0)
                return true;
        cdi_note_errno(context, whole);
        return false;
}

/* ---- links ---- */

struct walk {
        const struct cdi_context *context;
        struct strbuf done; /* "/usr/lib": no link in it */
        struct strbuf rest; /* "x/../y": components that are still to be resolved */
        unsigned int links;
};

/* Removes the first component from the rest; false if there is none. */
static bool roots_take_component(struct walk *walk, char *ret)
{
        size_t start = strspn(walk->rest.data, "/");
        size_t length = strcspn(walk->rest.data + start, "/");

        if (length == 0 || length > NAME_MAX)
                return false;
        memcpy(ret, walk->rest.data + start, length);
        ret[length] = '\0';
        strbuf_consume(&walk->rest, start + length);
        return true;
}

static void go_up(struct walk *walk)
{
        const char *slash = strrchr(walk->done.data, '/');

        if (slash) {
                walk->done.size = (size_t)(slash - walk->done.data);
                walk->done.data[walk->done.size] = '\0';
        }
}

/* Puts the content of the link in front of the rest. */
static bool roots_follow(struct walk *walk, const char *link)
{
        char target[PATH_MAX];
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        _free_ char *rest = NULL;

        if (length < 0)
                cdi_note_errno(walk->context, link);
        if (length <= 0 || ++walk->links > MAX_LINKS || walk->rest.size + (size_t)length >= PATH_MAX)
                return false;
        target[length] = '\0';
        if (target[0] == '/')
                strbuf_clear(&walk->done);
        rest = strbuf_take(&walk->rest);
        strbuf_printf(&walk->rest, "%s/%s", target, rest);
        return true;
}

static bool roots_step(struct walk *walk, const char *name)
{
        _free_ char *path = NULL;
        struct stat info;

        if (strcmp(name, ".") == 0)
                return true;
        if (strcmp(name, "..") == 0) {
                go_up(walk);
                return true;
        }
        path = xasprintf("%s%s/%s", walk->context->roots.driver, walk->done.data, name);
        if (!cdi_is_plain(name) || !cdi_look(walk->context, "", path, &info))
                return false;
        if (S_ISLNK(info.st_mode))
                return roots_follow(walk, path);
        strbuf_printf(&walk->done, "/%s", name);
        return true;
}

const char *cdi_resolve(const struct cdi_context *context, const char *path)
{
        struct walk walk = {.context = context, .done = STRBUF_INIT, .rest = STRBUF_INIT};
        const char *resolved = NULL;
        char name[NAME_MAX + 1];

        strbuf_puts(&walk.rest, path);
        while (roots_take_component(&walk, name))
                if (!roots_step(&walk, name))
                        goto out;
        if (walk.rest.data[strspn(walk.rest.data, "/")] == '\0')
                resolved = arena_strdup(context->arena, walk.done.size ? walk.done.data : "/");
out:
        strbuf_done(&walk.done);
        strbuf_done(&walk.rest);
        return resolved;
}

unsigned int cdi_type(const struct cdi_context *context, const char *path)
{
        struct stat info;

        return cdi_look(context, context->roots.driver, path, &info) ? info.st_mode & S_IFMT : 0;
}

/* ---- folders ---- */

static bool matches_any(const char *name, const char *const *patterns)
{
        for (; *patterns; patterns++)
                if (fnmatch(*patterns, name, FNM_PERIOD) == 0)
                        return true;
        return false;
}

size_t cdi_list(const struct cdi_context *context, const char *root, const char *path, const char *const *patterns,
        const char *const **ret)
{
        _free_ char *folder = xasprintf("%s%s", root, path);
        DIR *handle = opendir(folder);
        const char **names;
        const struct dirent *entry;
        size_t count = 0;

        *ret = NULL;
        if (!handle) {
                cdi_note_errno(context, folder);
                return 0;
        }
        names = ARENA_ARRAY(context->arena, const char *, CDI_MAX_NAMES);
        while (count < CDI_MAX_NAMES && (entry = readdir(handle)))
                if (cdi_is_plain(entry->d_name) && matches_any(entry->d_name, patterns))
                        names[count++] = arena_strdup(context->arena, entry->d_name);
        closedir(handle);
        qsort(names, count, sizeof(*names), text_compare);
        *ret = names;
        return count;
}

const char *cdi_to_host(const struct cdi_context *context, const char *path)
{
        const struct roots *roots = &context->roots;
        size_t length = strlen(roots->driver);

        if (length == 0 || strncmp(path, roots->driver, length) != 0 || path[length] != '/')
                return path;
        return arena_printf(context->arena, "%s%s", roots->driver_host, path + length);
}

/* ---- device nodes ---- */

/*
 * The root on the host of the node |path|; NULL: it does not exist. Nodes in the driver's tree come first: a driver in
 * a container creates its nodes there.
 */
static const char *context_find_node(const struct cdi_context *context, const char *path, struct stat *ret)
{
        const struct roots *roots = &context->roots;

        /* If the driver's root is "/", there is only the machine's /dev. */
        if (*roots->driver && cdi_look(context, roots->driver, path, ret) && S_ISCHR(ret->st_mode))
                return roots->driver_host;
        return cdi_look(context, roots->system, path, ret) && S_ISCHR(ret->st_mode) ? roots->dev_host : NULL;
}

bool cdi_has_node(const struct cdi_context *context, const char *path)
{
        struct stat info;

        return context_find_node(context, path, &info);
}

bool cdi_add_node(const struct cdi_context *context, struct spec_edits *edits, const char *path)
{
        struct stat info;
        const char *host_root = context_find_node(context, path, &info);

        if (!host_root)
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
