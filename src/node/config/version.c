// SPDX-License-Identifier: Apache-2.0
#include "node/config/version.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* JSON may need six characters for one character of the content. */
#define RECORD_LIMIT (6 * CONFIG_FILE_LIMIT + 4096)

struct config_version *config_version_new(const char *name, const char *source, const char *by, struct strbuf *content)
{
        struct config_version *version = xcalloc(1, sizeof(*version));

        *version = (struct config_version){
                .references = 1, .name = xstrdup(name), .source = xstrdup(source), .by = by, .content = *content};
        *content = (struct strbuf)STRBUF_INIT;
        sha256_hex(version->content.data, version->content.size, version->hash);
        return version;
}

struct config_version *config_version_unref(struct config_version *version)
{
        if (!version || --version->references)
                return NULL;
        free(version->name);
        free(version->source);
        strbuf_done(&version->content);
        free(version);
        return NULL;
}

void config_version_set(struct config_version **place, struct config_version *version)
{
        if (version)
                version->references++;
        config_version_unref(*place);
        *place = version;
}

bool config_version_is_same(const struct config_version *a, const struct config_version *b)
{
        return a && b && strcmp(a->hash, b->hash) == 0;
}

const char *config_version_name(const struct config_version *version)
{
        return *version->name ? version->name : "(empty)";
}

const char *config_state_name(enum config_state state)
{
        static const char *const names[] = {
                [CONFIG_WAITING] = "waiting", [CONFIG_ACCEPTED] = "accepted", [CONFIG_REFUSED] = "refused"};

        return names[state];
}

/* ---- the record ---- */

static int version_parse(
        struct config_version **ret, uint64_t *ret_generation, const json_t *root, const char *path, struct error *err)
{
        const json_t *content = json_object_get(root, "content");
        const char *name = json_string_value(json_object_get(root, "name"));
        const char *source = json_string_value(json_object_get(root, "source"));
        const char *hash = json_string_value(json_object_get(root, "sha256"));
        json_int_t generation = json_integer_value(json_object_get(root, "generation"));
        struct strbuf text = STRBUF_INIT;
        struct config_version *version;

        if (!json_is_string(content) || !name || !source || !hash || generation < 1)
                return error_set(err, ERROR_INVALID, "'%s' is not a record of a configuration", path);
        strbuf_append(&text, json_string_value(content), json_string_length(content));
        version = config_version_new(name, source, CONFIG_RECORD_BY, &text);
        if (strcmp(version->hash, hash) != 0) {
                config_version_unref(version);
                return error_set(err, ERROR_INVALID, "'%s': the content is not the one that was recorded", path);
        }
        *ret = version;
        *ret_generation = (uint64_t)generation;
        return 0;
}

int config_record_read(struct config_version **ret, uint64_t *ret_generation, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *root;
        int rc;

        if (file_read_private(path, RECORD_LIMIT, &text, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? CONFIG_RECORD_NONE : -1;
        root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
        rc = version_parse(ret, ret_generation, root, path, err);
        json_decref(root);
        return rc;
}

int config_record_write(const struct config_version *version, uint64_t generation, const char *path, struct error *err)
{
        json_t *content = json_stringn(version->content.data, version->content.size);
        _free_ char *text = NULL;
        json_t *root;

        if (!content)
                return error_set(err, ERROR_INVALID, "the configuration '%s' cannot be recorded: it is not UTF-8",
                        version->name);
        root = json_pack("{s:I, s:s, s:s, s:s, s:o}", "generation", (json_int_t)generation, "name", version->name,
                "source", version->source, "sha256", version->hash, "content", content);
        text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
        json_decref(root);
        if (!text)
                return error_set(err, ERROR_INVALID, "the configuration '%s' cannot be recorded: its name is not UTF-8",
                        version->name);
        return file_write_private(path, text, strlen(text), err);
}

int config_record_of_node(
        struct config_text *ret, const struct option_set *options, struct arena *arena, struct error *err)
{
        struct config_version *version;
        uint64_t generation;
        const char *path;
        int rc;

        if (*option_set_value(options, "config-file") ||
                (!*option_set_value(options, "config-dir") && !*option_set_value(options, "config-map")))
                return CONFIG_RECORD_NONE;
        path = arena_printf(arena, "%s/" CONFIG_RECORD_NAME, option_set_value(options, "mps-directory"));
        rc = config_record_read(&version, &generation, path, err);
        if (rc != 0)
                return rc;
        *ret = (struct config_text){arena_strdup(arena, config_version_name(version)),
                arena_strndup(arena, version->content.data, version->content.size), version->content.size};
        config_version_unref(version);
        return 0;
}
