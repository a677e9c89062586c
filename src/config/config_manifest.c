#include "config/config_manifest.h"

#include <string.h>

#include "base/strbuf.h"

static const char *list_keys(struct arena *arena, json_t *data)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *key;
        json_t *value;

        json_object_foreach(data, key, value) strbuf_printf(&text, "%s%.60s", text.size ? ", " : "", key);
        return arena_strndup(arena, text.data, text.size < 200 ? text.size : 200);
}

int config_manifest_open(const struct yaml *yaml, const char *chosen, struct arena *arena, const char **ret,
        const char **ret_name, struct error *err)
{
        const char *kind = json_string_value(json_object_get(yaml->root, "kind"));
        json_t *data = json_object_get(yaml->root, "data");
        const json_t *text;

        if (!kind || !json_object_get(yaml->root, "apiVersion"))
                return 0;
        if (strcmp(kind, "ConfigMap") != 0)
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "kind"), err,
                        "kind: a manifest of a '%.60s'; a configuration is the file itself, or the ConfigMap that has it",
                        kind);
        if (!json_object_size(data))
                return yaml_fail(yaml, yaml_line(yaml, yaml->root), err, "data: the ConfigMap has no configuration");
        if (!*chosen && json_object_size(data) > 1)
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "data"), err,
                        "data: several configurations: %s; name one by --config-default", list_keys(arena, data));
        *ret_name = *chosen ? chosen : json_object_iter_key(json_object_iter(data));
        text = json_object_get(data, *ret_name);
        if (!json_is_string(text))
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "data"), err,
                        "data: no configuration '%.60s' among: %s", *ret_name, list_keys(arena, data));
        *ret_name = arena_strdup(arena, *ret_name);
        *ret = arena_strndup(arena, json_string_value(text), json_string_length(text));
        return 1;
}
