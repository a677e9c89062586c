// SPDX-License-Identifier: Apache-2.0
#include "node/config/source.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/dirwatch.h"
#include "base/text.h"
#include "config/config.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"
#include "node/config/choice.h"

#define EMPTY "/dev/null"

struct config_source {
        struct config_source_options options;
        char *name;
        char *folder; /* NULL: a ConfigMap */
        struct dirwatch *directory;
        uv_timer_t quiet;
        uint64_t first_hint_ms;

        char *map;
        struct kube_watch *watch;
        bool is_known; /* a list has arrived */
        json_t *data;  /* the ConfigMap; NULL: it does not exist */
};

/* ---- a folder ---- */

static bool is_file(const char *folder, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);
        struct stat status;

        return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* False: there are too many. */
static bool source_add_name(struct config_names *names, struct arena *arena, const char *name)
{
        if (!names->names)
                names->names = ARENA_ARRAY(arena, const char *, CONFIG_FOLDER_MAX);
        if (names->count == CONFIG_FOLDER_MAX)
                return false;
        names->names[names->count++] = arena_strdup(arena, name);
        return true;
}

static void source_sort_names(struct config_names *names)
{
        if (names->count)
                qsort(names->names, names->count, sizeof(*names->names), text_compare);
}

int config_folder_list(struct config_names *ret, const char *folder, struct arena *arena, struct error *err)
{
        DIR *entries = opendir(folder);
        struct config_names names = {0};
        const struct dirent *entry;
        bool fits = true;

        if (!entries)
                return error_errno(err, errno, "open '%s'", folder);
        while (fits && (entry = readdir(entries)))
                if (config_name_counts(entry->d_name) && is_file(folder, entry->d_name))
                        fits = source_add_name(&names, arena, entry->d_name);
        closedir(entries);
        if (!fits)
                return error_set(err, ERROR_INVALID, "'%s' has more than %zu files; it is to hold configurations only",
                        folder, CONFIG_FOLDER_MAX);
        source_sort_names(&names);
        *ret = names;
        return 0;
}

int config_folder_read(const char *folder, const char *name, struct strbuf *content, struct error *err)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        return file_read(path, CONFIG_FILE_LIMIT, content, err);
}

static void on_source_quiet(uv_timer_t *timer)
{
        struct config_source *source = timer->data;

        source->options.changed(source->options.data);
}

static void on_hint(void *data)
{
        struct config_source *source = data;
        uint64_t now = uv_now(source->options.loop);

        if (!uv_is_active((uv_handle_t *)&source->quiet))
                source->first_hint_ms = now;
        if (now - source->first_hint_ms < CONFIG_SOURCE_PATIENCE_MS)
                uv_timer_start(&source->quiet, on_source_quiet, CONFIG_SOURCE_QUIET_MS, 0);
}

static void free_source(uv_handle_t *handle)
{
        struct config_source *source = handle->data;

        json_decref(source->data);
        free(source->map);
        free(source->folder);
        free(source->name);
        free(source);
}

/* ---- a ConfigMap ---- */

static void on_source_object(enum kube_change change, json_t *object, void *data)
{
        struct config_source *source = data;

        json_decref(source->data);
        source->data = NULL;
        if (change == KUBE_PRESENT) {
                json_t *content = object_find(object, "data", NULL);

                source->data = json_is_object(content) ? json_incref(content) : json_object();
        }
        if (source->is_known)
                source->options.changed(source->options.data);
}

static void on_source_synced(void *data)
{
        struct config_source *source = data;

        source->is_known = true;
        source->options.changed(source->options.data);
}

static void on_source_trouble(const struct error *error, void *data)
{
        struct config_source *source = data;

        if (source->options.trouble)
                source->options.trouble(error, source->options.data);
}

int config_source_check_map(const char *map, struct error *err)
{
        const char *slash = strchr(map, '/');
        _free_ char *scope = slash ? xasprintf("%.*s", (int)MIN(slash - map, (ptrdiff_t)1000), map) : NULL;

        if (!scope || !object_is_name(scope) || !object_is_name(slash + 1))
                return error_set(err, ERROR_INVALID,
                        "'%.300s' is not a ConfigMap, must be its namespace and name: gpu/configs", map);
        return 0;
}

static void watch_map(struct config_source *source)
{
        const char *slash = strchr(source->map, '/');
        _free_ char *scope = xasprintf("%.*s", (int)(slash - source->map), source->map);
        _free_ char *path = object_collection("/api/v1", scope, "configmaps");
        _free_ char *selector = xasprintf("metadata.name=%s", slash + 1);
        const struct kube_watch_options options = {
                .path = path,
                .field_selector = selector,
                .on_object = on_source_object,
                .on_synced = on_source_synced,
                .on_trouble = on_source_trouble,
                .data = source,
        };

        source->watch = kube_watch_new(source->options.client, &options);
}

/* ---- both ---- */

int config_source_new(struct config_source **ret, const struct config_source_options *options, struct error *err)
{
        struct config_source *source;

        if (!*options->folder && config_source_check_map(options->map, err) < 0)
                return -1;
        source = xcalloc(1, sizeof(*source));
        source->options = *options;
        uv_timer_init(options->loop, &source->quiet);
        source->quiet.data = source;
        if (*options->folder) {
                source->folder = xstrdup(options->folder);
                source->name = xasprintf("folder '%s'", options->folder);
                if (dirwatch_new(&source->directory, options->loop, options->folder, CONFIG_SOURCE_POLL_MS, on_hint,
                            source, err) < 0) {
                        config_source_close(source);
                        return -1;
                }
        } else {
                source->map = xstrdup(options->map);
                source->name = xasprintf("ConfigMap %s", options->map);
                watch_map(source);
        }
        *ret = source;
        return 0;
}

const char *config_source_name(const struct config_source *source)
{
        return source->name;
}

static int list_map(
        const struct config_source *source, struct config_names *ret, struct arena *arena, struct error *err)
{
        struct config_names names = {0};
        const char *key;
        const json_t *value;

        if (!source->is_known)
                return error_set(err, ERROR_UNAVAILABLE, "%s: the API server has not answered yet", source->name);
        if (!source->data)
                return error_set(err, ERROR_NOT_FOUND, "%s: there is none", source->name);
        json_object_foreach(source->data, key, value)
        {
                if (json_is_string(value) && config_name_counts(key) && !source_add_name(&names, arena, key))
                        return error_set(err, ERROR_INVALID,
                                "%s has more than %zu keys; it is to hold configurations only", source->name,
                                CONFIG_FOLDER_MAX);
        }
        source_sort_names(&names);
        *ret = names;
        return 0;
}

int config_source_list(
        const struct config_source *source, struct config_names *ret, struct arena *arena, struct error *err)
{
        if (source->folder)
                return config_folder_list(ret, source->folder, arena, err);
        return list_map(source, ret, arena, err);
}

int config_source_read(const struct config_source *source, const char *name, struct strbuf *content, struct error *err)
{
        const json_t *value;

        if (source->folder)
                return config_folder_read(source->folder, name, content, err);
        value = json_object_get(source->data, name);
        if (!json_is_string(value))
                return error_set(err, ERROR_NOT_FOUND, "%s has no key '%.253s'", source->name, name);
        if (json_string_length(value) > CONFIG_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "%s: '%.253s' is larger than the limit of %zu bytes", source->name,
                        name, CONFIG_FILE_LIMIT);
        strbuf_append(content, json_string_value(value), json_string_length(value));
        return 0;
}

struct config_source *config_source_close(struct config_source *source)
{
        if (!source)
                return NULL;
        source->directory = dirwatch_close(source->directory);
        source->watch = kube_watch_close(source->watch);
        uv_close((uv_handle_t *)&source->quiet, free_source);
        return NULL;
}

/* ---- the destination ---- */

int config_place_read(const char *place, struct strbuf *content, struct error *err)
{
        struct stat status;

        if (stat(place, &status) < 0)
                return errno == ENOENT || errno == ENOTDIR ? CONFIG_PLACE_NOTHING
                                                           : error_errno(err, errno, "inspect '%s'", place);
        if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) /* /dev/null is the empty configuration */
                return error_set(err, ERROR_INVALID, "'%s' is not a regular file", place);
        return file_read(place, CONFIG_FILE_LIMIT, content, err);
}

/* Replaces what |place| is now, except a folder. */
static int turn_link(const char *place, const char *target, struct error *err)
{
        _free_ char *temporary = xasprintf("%s.%d.new", place, (int)getpid());
        int saved;

        unlink(temporary); /* left by a process that ended in between */
        if (symlink(target, temporary) < 0)
                return error_errno(err, errno, "make a link beside '%s'", place);
        if (rename(temporary, place) < 0) {
                saved = errno;
                unlink(temporary);
                return error_errno(err, saved, "replace '%s'", place);
        }
        return 0;
}

static bool leads_to(const char *place, const char *target)
{
        char now[PATH_MAX];
        ssize_t length = readlink(place, now, sizeof(now) - 1);

        return length > 0 && (size_t)length == strlen(target) && memcmp(now, target, (size_t)length) == 0;
}

static int folder_follow(const char *place, const char *target, struct error *err)
{
        return leads_to(place, target) ? 0 : turn_link(place, target, err);
}

/* A copy that cannot be removed does no harm. */
static void remove_copies(const char *folder, const char *but)
{
        DIR *entries = opendir(folder);
        const struct dirent *entry;

        if (!entries)
                return;
        while ((entry = readdir(entries)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                        (!but || strcmp(entry->d_name, but) != 0))
                        unlinkat(dirfd(entries), entry->d_name, 0);
        closedir(entries);
        if (!but)
                rmdir(folder);
}

int config_place_put(const char *place, const char *name, const struct strbuf *content, struct error *err)
{
        _free_ char *parent = file_folder(place);
        _free_ char *folder = xasprintf("%s/.%s.d", parent, file_base_name(place));
        _free_ char *copy = NULL;
        _free_ char *target = NULL;

        if (!name) {
                if (folder_follow(place, EMPTY, err) < 0)
                        return -1;
                remove_copies(folder, NULL);
                return 0;
        }
        copy = xasprintf("%s/%s", folder, name);
        target = xasprintf(".%s.d/%s", file_base_name(place), name);
        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make the folder '%s'", folder);
        if (file_write(copy, content->data, content->size, err) < 0 || folder_follow(place, target, err) < 0)
                return -1;
        remove_copies(folder, name);
        return 0;
}
