// SPDX-License-Identifier: Apache-2.0
#include "base/data/json_fields.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

static void *load_pointer(const char *at)
{
        void *pointer;

        memcpy(&pointer, at, sizeof(pointer));
        return pointer;
}

static void store_pointer(char *at, const void *pointer)
{
        memcpy(at, &pointer, sizeof(pointer));
}

/* ---- writing ---- */

/* A cut in the middle of a character leaves bytes that are not UTF-8, so the text is cleaned after the cut. */
static json_t *repaired(const char *text, size_t most)
{
        _free_ char *copy = strndup(text, most);

        assert(copy);
        text_clean(copy);
        return json_string(copy);
}

static json_t *of_text(const struct json_text *how, const char *text)
{
        json_t *json = how->is_repaired ? repaired(text, how->most) : json_string(text);

        return json ? json : json_null();
}

/* A signed number is returned by its bits, with the sign extended. */
static uint64_t load_number(const struct json_field *field, const char *at)
{
        uint32_t small;
        uint64_t number;

        if (field->size == sizeof(small)) {
                memcpy(&small, at, sizeof(small));
                return field->kind == JSON_FIELD_INT ? (uint64_t)(int32_t)small : small;
        }
        assert(field->size == sizeof(number));
        memcpy(&number, at, sizeof(number));
        return number;
}

static json_t *of_number(const struct json_field *field, uint64_t number)
{
        if (field->leaves_out && number == field->absent)
                return NULL;
        if (field->kind == JSON_FIELD_INT && number > INT64_MAX)
                number = 0;
        return json_integer((json_int_t)MIN(number, (uint64_t)INT64_MAX));
}

static double load_real(const char *at)
{
        double number;

        memcpy(&number, at, sizeof(number));
        return number;
}

static json_t *of_real(double number)
{
        const double bounded = MIN(MAX(number, 0.0), JSON_REAL_MOST);

        return bounded == (double)(json_int_t)bounded ? json_integer((json_int_t)bounded) : json_real(bounded);
}

static json_t *of_list(const struct json_field *field, const char *from)
{
        const char *items = field->kind == JSON_FIELD_ARRAY ? from + field->offset : load_pointer(from + field->offset);
        size_t count = field->count ? *(const size_t *)(from + field->count) : field->most;
        json_t *list = field->leaves_out && count == 0 ? NULL : json_array();

        for (size_t i = 0; i < count; i++) {
                json_t *item;

                if (field->kind == JSON_FIELD_TEXTS) {
                        item = of_text(field->text, load_pointer(items + i * sizeof(char *)));
                } else if (field->kind == JSON_FIELD_REALS) {
                        const double number = load_real(items + i * sizeof(double));

                        item = isnan(number) ? json_null() : of_real(number);
                } else {
                        item = json_object();
                        json_fields_put(item, field->shape, items + i * field->shape->size);
                }
                json_array_append_new(list, item);
        }
        return list;
}

/* NULL: it is left out. */
static json_t *of_field(const struct json_field *field, const char *from)
{
        const char *at = from + field->offset;
        const char *text;
        json_t *object;

        switch (field->kind) {
        case JSON_FIELD_TEXT:
                text = load_pointer(at);
                return text ? of_text(field->text, text) : NULL;
        case JSON_FIELD_UINT:
        case JSON_FIELD_INT:
                return of_number(field, load_number(field, at));
        case JSON_FIELD_REAL:
                return isnan(load_real(at)) ? NULL : of_real(load_real(at));
        case JSON_FIELD_BOOL:
                return json_boolean(*(const bool *)at);
        case JSON_FIELD_WORD:
                return json_string(field->word((unsigned int)load_number(field, at)));
        case JSON_FIELD_OBJECT:
                object = json_object();
                json_fields_put(object, field->shape, at);
                return object;
        case JSON_FIELD_TEXTS:
        case JSON_FIELD_REALS:
        case JSON_FIELD_ITEMS:
        case JSON_FIELD_ARRAY:
                return of_list(field, from);
        }
        return NULL;
}

void json_fields_put(json_t *object, const struct json_shape *shape, const void *from)
{
        for (size_t i = 0; i < shape->n_fields; i++) {
                const struct json_field *field = &shape->fields[i];
                bool is_there = !field->has || *(const bool *)((const char *)from + field->has);

                json_object_set_new(object, field->name, is_there ? of_field(field, from) : NULL);
        }
}

char *json_fields_print(json_t *json, size_t flags)
{
        char *text = json_dumps(json, flags);
        size_t length;

        json_decref(json);
        assert(text);
        length = strlen(text);
        text = xrealloc(text, length + 2);
        memcpy(text + length, "\n", 2);
        return text;
}

/* ---- reading ---- */

void json_fields_bad(struct json_in *in, const char *format, ...)
{
        char text[sizeof(in->err->text)];
        va_list args;

        if (in->is_bad)
                return;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        error_raise(in->err, ERROR_INVALID, "%s", text);
        in->is_bad = true;
}

json_t *json_fields_load(struct json_in *in, const char *text, size_t length)
{
        json_error_t error;
        json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

        if (json_is_object(json))
                return json;
        if (json)
                json_fields_bad(in, "no JSON object");
        else
                json_fields_bad(in, "no JSON: %s", error.text);
        json_decref(json);
        return NULL;
}

static const char *fields_take_text(struct json_in *in, const struct json_text *how, const json_t *value)
{
        const char *text = json_string_value(value);
        char *copy;

        if (!text || json_string_length(value) > how->most || !how->is(text)) {
                json_fields_bad(in, "must be %s%zu bytes", how->must, how->most);
                return NULL;
        }
        copy = arena_strdup(in->arena, text);
        if (how->is_repaired)
                text_clean(copy);
        return copy;
}

static uint64_t fields_take_number(struct json_in *in, const struct json_field *field, const json_t *value)
{
        json_int_t number = json_integer_value(value);

        if (!value && !field->least)
                return field->absent;
        if (!json_is_integer(value))
                json_fields_bad(in, "must be a number from %" PRIu64 " to %" PRIu64, field->least, field->most);
        else if (number < 0 || (uint64_t)number < field->least || (uint64_t)number > field->most)
                json_fields_bad(in, "%" JSON_INTEGER_FORMAT ", must be a number from %" PRIu64 " to %" PRIu64, number,
                        field->least, field->most);
        return (uint64_t)number;
}

static uint64_t fields_take_word(struct json_in *in, const struct json_field *field, const json_t *value)
{
        if (!value)
                return 0;
        for (unsigned int i = 0; i < field->most; i++)
                if (json_is_string(value) && strcmp(json_string_value(value), field->word(i)) == 0)
                        return i;
        json_fields_bad(in, "is none of the known words, of which '%s' is one", field->word(0));
        return 0;
}

static void store_number(const struct json_field *field, char *at, uint64_t number)
{
        const uint32_t small = (uint32_t)number;

        if (field->size == sizeof(small))
                memcpy(at, &small, sizeof(small));
        else
                memcpy(at, &number, sizeof(number));
}

static void take_real(struct json_in *in, const json_t *value, char *at)
{
        const double number = value ? json_number_value(value) : NAN;

        if (value && (!json_is_number(value) || !(number >= 0 && number <= JSON_REAL_MOST)))
                json_fields_bad(in, "must be a number from 0 to %.0f", JSON_REAL_MOST);
        memcpy(at, &number, sizeof(number));
}

static void fields_take_value(struct json_in *in, const struct json_field *field, const json_t *value, char *at)
{
        switch (field->kind) {
        case JSON_FIELD_TEXT:
                store_pointer(at, value ? fields_take_text(in, field->text, value) : NULL);
                break;
        case JSON_FIELD_UINT:
        case JSON_FIELD_INT:
                store_number(field, at, fields_take_number(in, field, value));
                break;
        case JSON_FIELD_REAL:
                take_real(in, value, at);
                break;
        case JSON_FIELD_BOOL:
                if (value && !json_is_boolean(value))
                        json_fields_bad(in, "must be true or false");
                *(bool *)at = json_is_true(value);
                break;
        case JSON_FIELD_WORD:
                store_number(field, at, fields_take_word(in, field, value));
                break;
        case JSON_FIELD_OBJECT:
                if (value && !json_is_object(value))
                        json_fields_bad(in, "must be an object");
                else if (value)
                        json_fields_take(in, value, field->shape, at);
                break;
        default:
                assert(false);
        }
        if (in->is_bad)
                error_raise_prefix(in->err, "%s", field->name);
}

static size_t item_size(const struct json_field *field)
{
        if (field->kind == JSON_FIELD_REALS)
                return sizeof(double);
        return field->kind == JSON_FIELD_TEXTS ? sizeof(char *) : field->shape->size;
}

static void fields_take_list(struct json_in *in, const struct json_field *field, const json_t *list, char *to)
{
        const size_t size = item_size(field);
        const size_t count = json_array_size(list);
        char *items = to + field->offset;

        if ((list && !json_is_array(list)) || count < field->least || count > field->most) {
                json_fields_bad(
                        in, "%s: must be a list of %" PRIu64 " to %" PRIu64, field->name, field->least, field->most);
                return;
        }
        if (field->kind != JSON_FIELD_ARRAY) {
                items = arena_alloc(in->arena, count, size);
                store_pointer(to + field->offset, items);
        }
        if (field->count)
                *(size_t *)(to + field->count) = count;
        for (size_t i = 0; i < count && !in->is_bad; i++) {
                const json_t *item = json_array_get(list, i);

                if (field->kind == JSON_FIELD_TEXTS)
                        store_pointer(items + i * size, fields_take_text(in, field->text, item));
                else if (field->kind == JSON_FIELD_REALS)
                        take_real(in, json_is_null(item) ? NULL : item, items + i * size);
                else
                        json_fields_take(in, item, field->shape, items + i * size);
                if (in->is_bad)
                        error_raise_prefix(in->err, "%s[%zu]", field->name, i);
        }
}

void json_fields_take(struct json_in *in, const json_t *object, const struct json_shape *shape, void *to)
{
        for (size_t i = 0; i < shape->n_fields && !in->is_bad; i++) {
                const struct json_field *field = &shape->fields[i];
                const json_t *value = json_object_get(object, field->name);

                if (field->has)
                        *(bool *)((char *)to + field->has) = value;
                if (!value && field->is_needed)
                        json_fields_bad(in, "%s: missing", field->name);
                else if (field->kind >= JSON_FIELD_TEXTS)
                        fields_take_list(in, field, value, to);
                else
                        fields_take_value(in, field, value, (char *)to + field->offset);
        }
}
