#include "node/config/source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "config/config.h"
#include "base/io/dirwatch.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"
#include "node/config/choice.h"

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
        const char **names;
        const char *key;
        const json_t *value;
        size_t count = 0;

        if (!source->is_known)
                return error_set(err, ERROR_UNAVAILABLE, "%s: the API server has not answered yet", source->name);
        if (!source->data)
                return error_set(err, ERROR_NOT_FOUND, "%s: there is none", source->name);
        names = ARENA_ARRAY(arena, const char *, CONFIG_FOLDER_MAX);
        json_object_foreach(source->data, key, value)
        {
                if (!json_is_string(value) || !config_name_counts(key))
                        continue;
                if (count == CONFIG_FOLDER_MAX)
                        return error_set(err, ERROR_INVALID,
                                "%s has more than %zu keys; it is to hold configurations only", source->name,
                                CONFIG_FOLDER_MAX);
                names[count++] = arena_strdup(arena, key);
        }
        qsort(names, count, sizeof(*names), text_compare);
        *ret = (struct config_names){names, count};
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
