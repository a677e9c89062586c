// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/platforms.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"

/* ---- WSL ---- */

#define STORES "/usr/lib/wsl/drivers"
#define WSL_LIBRARIES "/usr/lib/wsl/lib"

/* The modification time of a store's CUDA library; 0 if it has none. */
static time_t age_of(const struct cdi_context *context, const char *store)
{
        const char *path = arena_printf(context->arena, "%s/libcuda.so.1.1", store);
        struct stat info;

        return cdi_look(context, context->roots.driver, path, &info) && S_ISREG(info.st_mode) ? info.st_mtime : 0;
}

static const char *find_store(const struct cdi_context *context)
{
        const char *const *names;
        size_t count = cdi_list(context, context->roots.driver, STORES, (const char *const[]){"*", NULL}, &names);
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

static void add_store_file(struct driver *driver, const struct cdi_context *context, const char *path)
{
        const char *source = cdi_resolve(context, path);

        if (!source || !S_ISREG(cdi_type(context, source)))
                return;
        driver_add_file(driver, source, path, false);
        driver_add_library_folder(driver, context->arena, path);
}

int wsl_find(struct driver *ret, const struct cdi_context *context, struct error *err)
{
        static const char *const files[] = {"nvidia-smi", "*.so", "*.so.*", "*.bin", "*.dll", NULL};
        const char *root = *context->roots.driver ? context->roots.driver : "/";
        const char *store = find_store(context);
        const char *const *names;
        size_t count;

        if (!cdi_has_node(context, "/dev/dxg"))
                return error_set(err, ERROR_NOT_FOUND, "CDI: there is no '/dev/dxg', the GPU of WSL");
        if (!store)
                return error_set(err, ERROR_NOT_FOUND,
                        "CDI: no folder of '" STORES
                        "' below '%.150s' has libcuda.so.1.1: update the driver of Windows",
                        root);
        driver_init(ret, context->arena);
        ret->nodes[ret->n_nodes++] = "/dev/dxg";
        add_store_file(ret, context, WSL_LIBRARIES "/libdxcore.so");
        count = cdi_list(context, context->roots.driver, store, files, &names);
        for (size_t i = 0; i < count; i++) {
                const char *path = arena_printf(context->arena, "%s/%s", store, names[i]);

                add_store_file(ret, context, path);
                if (strcmp(names[i], "nvidia-smi") == 0)
                        driver_add_link(ret, path, "/usr/bin/nvidia-smi");
        }
        return 0;
}

/* ---- Tegra ---- */

#define LISTS "/etc/nvidia-container-runtime/host-files-for-container.d"
#define PATTERN "*?["
#define MAX_PATTERN ((size_t)256) /* bytes */
#define MAX_EXPANDED 4096U        /* files that patterns stand for */

struct reader {
        const struct cdi_context *context;
        struct driver *driver;
        unsigned int n_expanded;
};

static const char *const list_names[] = {"devices.csv", "drivers.csv", "l4t.csv"};

/*
 * Whether the path has only letters, digits and |others|: not a character that separates a list of folders (':') or
 * "target::link".
 */
static bool has_only(const char *path, const char *others)
{
        for (const char *c = path; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr(others, *c))
                        return false;
        return true;
}

static bool is_plain_text(const char *path)
{
        return has_only(path, "/._+-@~");
}

static void platforms_add_node(struct reader *reader, const char *path)
{
        struct driver *driver = reader->driver;

        if (!text_starts_with(path, "/dev/") || driver->n_nodes == DRIVER_MAX_NODES ||
                !cdi_has_node(reader->context, path))
                return;
        for (size_t i = 0; i < driver->n_nodes; i++)
                if (strcmp(driver->nodes[i], path) == 0)
                        return;
        driver->nodes[driver->n_nodes++] = path;
}

static void platforms_add_file(struct reader *reader, const char *path, mode_t type)
{
        const char *source = cdi_resolve(reader->context, path);

        if (!source || cdi_type(reader->context, source) != type)
                return;
        driver_add_file(reader->driver, source, path, false);
        if (type == S_IFREG)
                driver_add_library_folder(reader->driver, reader->context->arena, path);
}

/* Adds the link itself: it is created in the container with the same content. */
static void add_link(struct reader *reader, const char *path)
{
        struct arena *arena = reader->context->arena;
        const char *slash = strrchr(path, '/');
        const char *folder = cdi_resolve(reader->context, arena_strndup(arena, path, (size_t)(slash - path)));
        char link[PATH_MAX], target[PATH_MAX];
        ssize_t length;

        if (!folder || snprintf(link, sizeof(link), "%s%s%s", reader->context->roots.driver, folder, slash) >=
                               (int)sizeof(link))
                return;
        length = readlink(link, target, sizeof(target) - 1);
        if (length <= 0)
                return;
        target[length] = '\0';
        if (is_plain_text(target))
                driver_add_link(reader->driver, arena_strdup(arena, target), path);
}

static char *trim(char *text)
{
        size_t length;

        text += strspn(text, " \t\r");
        length = strlen(text);
        while (length && strchr(" \t\r", text[length - 1]))
                length--;
        text[length] = '\0';
        return text;
}

/* ---- patterns ---- */

typedef void found_fn(struct reader *reader, const char *path);

/* False: the lists stand for too much, and the rest is left out. */
static bool may_expand(struct reader *reader)
{
        if (reader->n_expanded == MAX_EXPANDED)
                cdi_warn(reader->context,
                        "CDI: the patterns in the lists of Tegra's files stand for more than %u files: "
                        "the rest is ignored",
                        MAX_EXPANDED);
        return reader->n_expanded++ < MAX_EXPANDED;
}

/*
 * Calls |found| for each path that |pattern| stands for, sorted, as the files in |root| are now; a path without a
 * pattern is not looked for.
 */
static void platforms_expand(struct reader *reader, const char *root, const char *pattern, found_fn *found)
{
        struct arena *arena = reader->context->arena;
        size_t plain = strcspn(pattern, PATTERN);
        const char *folder, *component, *rest;
        const char *const *names;
        size_t count;

        if (pattern[plain] == '\0') {
                found(reader, pattern);
                return;
        }
        while (pattern[plain] != '/')
                plain--;
        folder = arena_strndup(arena, pattern, plain);
        rest = pattern + plain + 1 + strcspn(pattern + plain + 1, "/");
        component = arena_strndup(arena, pattern + plain + 1, (size_t)(rest - pattern) - plain - 1);
        count = cdi_list(reader->context, root, folder, (const char *const[]){component, NULL}, &names);
        for (size_t i = 0; i < count && may_expand(reader); i++)
                platforms_expand(reader, root, arena_printf(arena, "%s/%s%s", folder, names[i], rest), found);
}

static void platforms_add_regular(struct reader *reader, const char *path)
{
        platforms_add_file(reader, path, S_IFREG);
}

static void platforms_add_folder(struct reader *reader, const char *path)
{
        platforms_add_file(reader, path, S_IFDIR);
}

/*
 * Device nodes are in the driver's tree or in the machine's /dev; all else is in the driver's tree
 * (node/cdi/context.h).
 */
static void add_all(struct reader *reader, const char *kind, const char *pattern)
{
        static const struct {
                const char *kind;
                found_fn *found;
        } kinds[] = {{"dev", platforms_add_node}, {"lib", platforms_add_regular}, {"dir", platforms_add_folder},
                {"sym", add_link}};
        const struct roots *roots = &reader->context->roots;

        if (strpbrk(pattern, PATTERN) && (strlen(pattern) > MAX_PATTERN || !may_expand(reader)))
                return;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(kind, kinds[i].kind) != 0)
                        continue;
                platforms_expand(reader, roots->driver, pattern, kinds[i].found);
                if (kinds[i].found == platforms_add_node && strcmp(roots->driver, roots->system) != 0)
                        platforms_expand(reader, roots->system, pattern, platforms_add_node);
        }
}

static void platforms_read_line(struct reader *reader, char *line)
{
        char *comma = strchr(line, ',');
        const char *kind, *path;

        if (!comma)
                return;
        *comma = '\0';
        kind = trim(line);
        path = arena_strdup(reader->context->arena, trim(comma + 1));
        if (path[0] == '/' && !strstr(path, "..") &&
                has_only(path, strcmp(kind, "dev") == 0 ? "/._+-@~*?[]:" : "/._+-@~*?[]"))
                add_all(reader, kind, path);
}

/* Reads the lists below |root|; returns how many there are. */
static size_t platforms_read_lists(struct reader *reader, const char *root)
{
        size_t n_read = 0;

        for (size_t i = 0; i < ARRAY_SIZE(list_names); i++) {
                _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
                _free_ char *path = xasprintf("%s" LISTS "/%s", root, list_names[i]);
                struct stat info;
                struct error err;
                char *state = NULL;

                if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
                        continue;
                if (file_read(path, TEGRA_LIST_LIMIT, &content, &err) < 0) {
                        cdi_note(reader->context, &err);
                        if (err.kind != ERROR_NOT_FOUND)
                                cdi_warn(reader->context, "CDI: a list of Tegra's files is ignored: %s", err.text);
                        continue;
                }
                n_read++;
                for (char *line = strtok_r(content.data, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
                        platforms_read_line(reader, line);
        }
        return n_read;
}

int tegra_find(struct driver *ret, const struct cdi_context *context, struct error *err)
{
        struct reader reader = {.context = context, .driver = ret};

        driver_init(ret, context->arena);
        if (platforms_read_lists(&reader, context->roots.driver) == 0 &&
                platforms_read_lists(&reader, context->roots.system) == 0)
                return error_set(err, ERROR_NOT_FOUND,
                        "CDI: no list of Tegra's files in '" LISTS "', neither below '%.150s' nor here",
                        context->roots.driver);
        if (ret->n_nodes == 0)
                return error_set(err, ERROR_NOT_FOUND,
                        "CDI: none of the device nodes that the lists in '" LISTS "' name is there");
        return 0;
}
