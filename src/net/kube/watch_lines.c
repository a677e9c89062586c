// SPDX-License-Identifier: Apache-2.0
#include "net/kube/watch_lines.h"

#include <string.h>

#include "net/kube/body.h"
#include "net/kube/client.h"

static const char *const types[] = {
        [WATCH_ADDED] = "ADDED",
        [WATCH_MODIFIED] = "MODIFIED",
        [WATCH_DELETED] = "DELETED",
        [WATCH_BOOKMARK] = "BOOKMARK",
        [WATCH_ERROR] = "ERROR",
};

void watch_lines_init(struct watch_lines *lines, size_t limit)
{
        *lines = (struct watch_lines){.text = STRBUF_INIT, .limit = limit};
}

void watch_lines_done(struct watch_lines *lines)
{
        strbuf_done(&lines->text);
}

void watch_lines_add(struct watch_lines *lines, const void *bytes, size_t size)
{
        strbuf_consume(&lines->text, lines->taken); /* search once per piece, not once per line */
        lines->scanned -= lines->taken;
        lines->taken = 0;
        strbuf_append(&lines->text, bytes, size);
}

static int read_event(const char *line, size_t length, struct watch_event *ret, struct error *err)
{
        json_t *json, *object;
        json_error_t problem;
        const char *type;

        if (body_count(line, length) > KUBE_ANSWER_VALUES)
                return error_set(err, ERROR_INVALID, "an event of more than %zu values", KUBE_ANSWER_VALUES);
        json = json_loadb(line, length, JSON_ALLOW_NUL, &problem);
        object = json_object_get(json, "object");
        type = json_string_value(json_object_get(json, "type"));
        if (!json)
                return error_set(err, ERROR_INVALID, "an event that is no JSON: %s", problem.text);
        for (size_t i = 0; type && json_is_object(object) && i < ARRAY_SIZE(types); i++)
                if (strcmp(types[i], type) == 0) {
                        *ret = (struct watch_event){.type = (enum watch_event_type)i, .object = json_incref(object)};
                        json_decref(json);
                        return 1;
                }
        error_raise(err, ERROR_INVALID, "an event of type '%.40s'%s, must be one of Kubernetes' with an object",
                type ? type : "", json_is_object(object) ? "" : " without an object");
        json_decref(json);
        return -1;
}

static int too_long(const struct watch_lines *lines, struct error *err)
{
        return error_set(err, ERROR_INVALID, "an event longer than the limit of %zu bytes", lines->limit);
}

int watch_lines_next(struct watch_lines *lines, struct watch_event *ret, struct error *err)
{
        for (;;) {
                const char *start = lines->text.data + lines->taken;
                const char *newline =
                        memchr(lines->text.data + lines->scanned, '\n', lines->text.size - lines->scanned);
                size_t length;

                if (!newline) {
                        lines->scanned = lines->text.size;
                        return lines->text.size - lines->taken > lines->limit ? too_long(lines, err) : 0;
                }
                length = (size_t)(newline - start);
                lines->taken += length + 1;
                lines->scanned = lines->taken;
                if (length > lines->limit)
                        return too_long(lines, err);
                if (length > 0 && !(length == 1 && start[0] == '\r'))
                        return read_event(start, length, ret, err);
        }
}
