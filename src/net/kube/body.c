// SPDX-License-Identifier: Apache-2.0
#include "net/kube/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "net/kube/client.h"

static void print_text(struct strbuf *to, const char *at, size_t length)
{
        static const char digits[] = "0123456789ABCDEF";
        static const char letters[' '] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
        const char *end = at + length;

        strbuf_putc(to, '"');
        while (at < end) {
                const char *from = at;
                unsigned char c;

                while (at < end && (unsigned char)*at >= ' ' && *at != '"' && *at != '\\')
                        at++;
                strbuf_append(to, from, (size_t)(at - from));
                if (at == end)
                        break;
                c = (unsigned char)*at++;
                strbuf_putc(to, '\\');
                if (c >= ' ' || letters[c])
                        strbuf_putc(to, c >= ' ' ? (char)c : letters[c]);
                else
                        strbuf_append(to, (const char[]){'u', '0', '0', digits[c / 16], digits[c % 16]}, 5);
        }
        strbuf_putc(to, '"');
}

static void kube_body_print(struct strbuf *to, const json_t *value);

static void print_object(struct strbuf *to, const json_t *value)
{
        json_t *object = (json_t *)(uintptr_t)value;
        const char *before = "{";

        for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
                const char *key = json_object_iter_key(i);

                strbuf_puts(to, before);
                print_text(to, key, strlen(key));
                strbuf_putc(to, ':');
                kube_body_print(to, json_object_iter_value(i));
                before = ",";
        }
        strbuf_puts(to, *before == '{' ? "{}" : "}");
}

static void print_array(struct strbuf *to, const json_t *value)
{
        strbuf_putc(to, '[');
        for (size_t i = 0; i < json_array_size(value); i++) {
                if (i)
                        strbuf_putc(to, ',');
                kube_body_print(to, json_array_get(value, i));
        }
        strbuf_putc(to, ']');
}

/* jansson's own form of these, which nothing here sends often. */
static void print_other(struct strbuf *to, const json_t *value)
{
        char *text = json_dumps(value, JSON_ENCODE_ANY);

        strbuf_puts(to, text ? text : "null");
        free(text);
}

static void kube_body_print(struct strbuf *to, const json_t *value)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                print_object(to, value);
                break;
        case JSON_ARRAY:
                print_array(to, value);
                break;
        case JSON_STRING:
                print_text(to, json_string_value(value), json_string_length(value));
                break;
        case JSON_INTEGER:
        case JSON_REAL:
        case JSON_TRUE:
        case JSON_FALSE:
        case JSON_NULL:
                print_other(to, value);
                break;
        }
}

char *body_print(const json_t *value)
{
        struct strbuf text = STRBUF_INIT;

        kube_body_print(&text, value);
        return strbuf_take(&text);
}

/* ---- answers ---- */

size_t body_count(const char *text, size_t size)
{
        bool is_quoted = false;
        size_t count = 0;

        for (size_t i = 0; i < size; i++) {
                if (text[i] == '"')
                        is_quoted = !is_quoted;
                else if (is_quoted)
                        i += text[i] == '\\';
                else
                        count += text[i] == ',' || text[i] == '[' || text[i] == '{';
        }
        return count;
}

static enum error_kind body_error_kind(unsigned int status)
{
        static const struct {
                unsigned int status;
                enum error_kind kind;
        } kinds[] = {{400, ERROR_INVALID}, {401, ERROR_DENIED}, {403, ERROR_DENIED}, {404, ERROR_NOT_FOUND},
                {405, ERROR_UNSUPPORTED}, {406, ERROR_UNSUPPORTED}, {408, ERROR_TIMEOUT}, {410, ERROR_NOT_FOUND},
                {413, ERROR_INVALID}, {415, ERROR_UNSUPPORTED}, {422, ERROR_INVALID}, {504, ERROR_TIMEOUT}};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (kinds[i].status == status)
                        return kinds[i].kind;
        return ERROR_UNAVAILABLE;
}

void body_status_error(struct error *err, unsigned int status, const json_t *object)
{
        const char *reason = json_string_value(json_object_get(object, "reason"));
        const char *message = json_string_value(json_object_get(object, "message"));

        error_raise(err, body_error_kind(status), "status %u%s%.60s%s%.300s", status, reason && *reason ? " " : "",
                reason ? reason : "", message && *message ? ": " : "", message ? message : "");
}

/* The object of an answer; NULL and an error if it is a 2xx without one, or has another status. */
static int body_read_object(struct kube_answer *answer, struct error *err)
{
        json_error_t problem;
        json_t *object;

        if (body_count(answer->text, answer->size) > KUBE_ANSWER_VALUES) {
                answer->is_too_large = true;
                return error_set(
                        err, ERROR_INVALID, "status %u with more than %zu values", answer->status, KUBE_ANSWER_VALUES);
        }
        object = json_loadb(answer->text, answer->size, JSON_ALLOW_NUL, &problem);
        if (json_is_object(object))
                answer->object = object;
        else
                json_decref(object);
        if (answer->status / 100 != 2) {
                body_status_error(err, answer->status, answer->object);
                return -1;
        }
        if (!answer->object)
                return error_set(err, ERROR_INVALID, "status %u with %zu bytes that are no JSON object", answer->status,
                        answer->size);
        return 0;
}

void body_read(struct kube_answer *answer, const char *method, const char *path, bool is_text, struct error *err)
{
        const char *reason;
        int rc = 0;

        if (answer->error) {
                *err = *answer->error;
                rc = -1;
        } else if (!is_text || answer->status / 100 != 2) {
                rc = body_read_object(answer, err);
        }
        reason = json_string_value(json_object_get(answer->object, "reason"));
        if (answer->status / 100 != 2 && reason)
                answer->reason = reason;
        if (rc < 0) {
                error_prefix(err, "%s %.200s", method, path);
                answer->error = err;
        }
}
