#include "node/config/record.h"

#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "config/option.h"

/* JSON may need six characters for one character of the content. */
#define RECORD_LIMIT (6 * CONFIG_FILE_LIMIT + 4096)

static int parse(
        struct config_record *ret, const json_t *root, const char *path, struct arena *arena, struct error *err)
{
        const json_t *content = json_object_get(root, "content");
        const char *name = json_string_value(json_object_get(root, "name"));
        const char *source = json_string_value(json_object_get(root, "source"));
        const char *hash = json_string_value(json_object_get(root, "sha256"));
        json_int_t generation = json_integer_value(json_object_get(root, "generation"));
        char now[SHA256_HEX + 1];

        if (!json_is_string(content) || !name || !source || !hash || generation < 1)
                return error_set(err, ERROR_INVALID, "'%s' is not a record of a configuration", path);
        sha256_hex(json_string_value(content), json_string_length(content), now);
        if (strcmp(now, hash) != 0)
                return error_set(err, ERROR_INVALID, "'%s': the content is not the one that was recorded", path);
        *ret = (struct config_record){
                .generation = (uint64_t)generation,
                .name = arena_strdup(arena, name),
                .source = arena_strdup(arena, source),
                .content = arena_strndup(arena, json_string_value(content), json_string_length(content)),
                .size = json_string_length(content),
        };
        return 0;
}

int config_record_read(struct config_record *ret, const char *path, struct arena *arena, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *root;
        int rc;

        if (file_read_private(path, RECORD_LIMIT, &text, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? CONFIG_RECORD_NONE : -1;
        root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
        rc = parse(ret, root, path, arena, err);
        json_decref(root);
        return rc;
}

int config_record_write(const struct config_record *record, const char *path, struct error *err)
{
        _free_ char *text = NULL;
        char hash[SHA256_HEX + 1];
        json_t *root;
        json_t *content = json_stringn(record->content, record->size);

        if (!content)
                return error_set(
                        err, ERROR_INVALID, "the configuration '%s' cannot be recorded: it is not UTF-8", record->name);
        sha256_hex(record->content, record->size, hash);
        root = json_pack("{s:I, s:s, s:s, s:s, s:o}", "generation", (json_int_t)record->generation, "name",
                record->name, "source", record->source, "sha256", hash, "content", content);
        text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
        json_decref(root);
        if (!text)
                return error_set(err, ERROR_INVALID, "the configuration '%s' cannot be recorded: its name is not UTF-8",
                        record->name);
        return file_write_private(path, text, strlen(text), err);
}

int config_record_of_node(
        struct config_text *ret, const struct option_set *options, struct arena *arena, struct error *err)
{
        struct config_record record;
        const char *path;
        int rc;

        if (*option_set_value(options, "config-file") ||
                (!*option_set_value(options, "config-dir") && !*option_set_value(options, "config-map")))
                return CONFIG_RECORD_NONE;
        path = arena_printf(arena, "%s/" CONFIG_RECORD_NAME, option_set_value(options, "mps-directory"));
        rc = config_record_read(&record, path, arena, err);
        if (rc == 0)
                *ret = (struct config_text){*record.name ? record.name : "(empty)", record.content, record.size};
        return rc;
}
