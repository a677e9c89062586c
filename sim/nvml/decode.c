// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/decode.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sim/nvml/scenario.h"

static int fail_at(const struct decode *decode, int line, const char *path, struct error *err, const char *format,
        va_list args) PRINTF_LIKE(5, 0);

static int fail_at(
        const struct decode *decode, int line, const char *path, struct error *err, const char *format, va_list args)
{
        struct error cause;

        vsnprintf(cause.text, sizeof(cause.text), format, args);
        return yaml_fail(decode->yaml, line, err, "%s%s%s", path, *path ? ": " : "", cause.text);
}

static const char *path_of(const struct decode *decode, const char *key)
{
        return arena_printf(decode->arena, "%s%s%s", decode->path, *decode->path ? "." : "", key);
}

int decode_fail(const struct decode *decode, const char *key, struct error *err, const char *format, ...)
{
        int line = yaml_line_of(decode->yaml, decode->object, key);
        va_list args;

        va_start(args, format);
        fail_at(decode, line ? line : yaml_line(decode->yaml, decode->object), path_of(decode, key), err, format, args);
        va_end(args);
        return -1;
}

int decode_fail_item(const struct decode *decode, const char *key, const json_t *array, size_t index, struct error *err,
        const char *format, ...)
{
        const char *path = arena_printf(decode->arena, "%s[%zu]", path_of(decode, key), index);
        va_list args;

        va_start(args, format);
        fail_at(decode, yaml_line_at(decode->yaml, array, index), path, err, format, args);
        va_end(args);
        return -1;
}

int decode_object(const struct decode *decode, const char *const *keys, struct error *err)
{
        size_t count = 0;
        const char *key;
        const json_t *value;

        if (!json_is_object(decode->object))
                return yaml_fail(
                        decode->yaml, decode->line, err, "%s%smust be a map", decode->path, *decode->path ? ": " : "");
        while (keys[count])
                count++;
        json_object_foreach((json_t *)(uintptr_t)decode->object, key, value)
        {
                const char *near;
                bool known = false;

                for (size_t i = 0; i < count; i++)
                        known = known || strcmp(keys[i], key) == 0;
                if (known)
                        continue;
                near = text_nearest(key, keys, count);
                if (near)
                        return decode_fail(decode, key, err, "unknown key, did you mean '%s'?", near);
                return decode_fail(decode, key, err, "unknown key");
        }
        return 0;
}

/* The value, or NULL if it is missing or null. */
static const json_t *member(const struct decode *decode, const char *key)
{
        const json_t *value = json_object_get(decode->object, key);

        return json_is_null(value) ? NULL : value;
}

bool decode_has(const struct decode *decode, const char *key)
{
        return member(decode, key);
}

int decode_bool(const struct decode *decode, const char *key, bool *value, struct error *err)
{
        const json_t *found = member(decode, key);

        if (!found)
                return 0;
        if (!json_is_boolean(found))
                return decode_fail(decode, key, err, "must be true or false");
        *value = json_is_true(found);
        return 0;
}

int decode_uint(const struct decode *decode, const char *key, uint64_t max, uint64_t *value, struct error *err)
{
        const json_t *found = member(decode, key);
        json_int_t number;

        if (!found)
                return 0;
        number = json_integer_value(found);
        if (!json_is_integer(found) || number < 0 || (uint64_t)number > max)
                return decode_fail(decode, key, err, "must be a whole number from 0 to %llu", (unsigned long long)max);
        *value = (uint64_t)number;
        return 0;
}

int decode_uint32(const struct decode *decode, const char *key, uint64_t max, unsigned int *value, struct error *err)
{
        uint64_t wide = *value;

        if (decode_uint(decode, key, max, &wide, err) < 0)
                return -1;
        *value = (unsigned int)wide;
        return 0;
}

int decode_text(const struct decode *decode, const char *key, size_t size, const char **value, struct error *err)
{
        const json_t *found = member(decode, key);

        if (!found)
                return 0;
        if (json_is_integer(found)) {
                *value = arena_printf(decode->arena, "%lld", (long long)json_integer_value(found));
                return 0;
        }
        if (!json_is_string(found))
                return decode_fail(decode, key, err, "must be a text");
        if (json_string_length(found) >= size || json_string_length(found) == 0)
                return decode_fail(decode, key, err, "must have 1 to %zu bytes", size - 1);
        *value = arena_strdup(decode->arena, json_string_value(found));
        return 0;
}

bool decode_find_word(const struct decode_word *table, const char *word, uint64_t *value)
{
        for (; table->word; table++) {
                if (strcmp(table->word, word) == 0) {
                        *value = table->value;
                        return true;
                }
        }
        return false;
}

int decode_word(const struct decode *decode, const char *key, const struct decode_word *table, uint64_t *value,
        struct error *err)
{
        const json_t *found = member(decode, key);
        struct error list = {0};
        size_t used = 0;

        if (!found || (json_is_string(found) && decode_find_word(table, json_string_value(found), value)))
                return 0;
        for (const struct decode_word *w = table; w->word && used < sizeof(list.text); w++)
                used += (size_t)snprintf(list.text + used, sizeof(list.text) - used, "%s%s", used ? ", " : "", w->word);
        return decode_fail(decode, key, err, "must be one of %s", list.text);
}

int decode_size(const struct decode *decode, const char *key, uint64_t *value, struct error *err)
{
        static const struct {
                const char *unit;
                unsigned int shift;
        } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
        const json_t *found = member(decode, key);
        const char *text = json_string_value(found);
        char digits[16];
        size_t length;
        uint64_t number;

        if (!found)
                return 0;
        if (json_is_integer(found))
                return decode_uint(decode, key, UINT64_C(1) << 50, value, err);
        length = text ? strspn(text, "0123456789") : 0;
        if (length && length < sizeof(digits)) {
                memcpy(digits, text, length);
                digits[length] = '\0';
                text += length + (text[length] == ' ');
                for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                        if (strcmp(text, units[i].unit) == 0 &&
                                text_to_uint(digits, (UINT64_C(1) << 50) >> units[i].shift, &number)) {
                                *value = number << units[i].shift;
                                return 0;
                        }
                }
        }
        return decode_fail(decode, key, err, "must be bytes, or a number with KiB, MiB, GiB or TiB");
}

bool decode_duration_value(const json_t *value, unsigned int *value_ms)
{
        const char *text = json_string_value(value);
        char digits[16];
        size_t length;
        uint64_t number;

        if (json_is_integer(value) && json_integer_value(value) == 0) {
                *value_ms = 0;
                return true;
        }
        length = text ? strspn(text, "0123456789") : 0;
        if (length == 0 || length >= sizeof(digits))
                return false;
        memcpy(digits, text, length);
        digits[length] = '\0';
        if (!text_to_uint(digits, SCENARIO_MAX_DELAY_MS, &number))
                return false;
        if (strcmp(text + length, "s") == 0)
                number *= 1000;
        else if (strcmp(text + length, "ms") != 0)
                return false;
        if (number > SCENARIO_MAX_DELAY_MS)
                return false;
        *value_ms = (unsigned int)number;
        return true;
}

int decode_duration(const struct decode *decode, const char *key, unsigned int *value_ms, struct error *err)
{
        const json_t *found = member(decode, key);

        if (!found || decode_duration_value(found, value_ms))
                return 0;
        return decode_fail(
                decode, key, err, "must be a time such as 200ms or 2s, at most %us", SCENARIO_MAX_DELAY_MS / 1000);
}

int decode_member(const struct decode *decode, const char *key, struct decode *nested, bool *found, struct error *err)
{
        const json_t *value = member(decode, key);

        *found = value;
        if (!value)
                return 0;
        if (!json_is_object(value))
                return decode_fail(decode, key, err, "must be a map");
        *nested = (struct decode){decode->yaml, value, path_of(decode, key), decode->arena,
                yaml_line_of(decode->yaml, decode->object, key)};
        return 0;
}

int decode_array(const struct decode *decode, const char *key, size_t max, const json_t **array, struct error *err)
{
        const json_t *value = member(decode, key);

        *array = NULL;
        if (!value)
                return 0;
        if (!json_is_array(value))
                return decode_fail(decode, key, err, "must be a list");
        if (json_array_size(value) > max)
                return decode_fail(decode, key, err, "has %zu items, at most %zu", json_array_size(value), max);
        *array = value;
        return 0;
}

struct decode decode_item(const struct decode *decode, const char *key, const json_t *array, size_t index)
{
        return (struct decode){decode->yaml, json_array_get(array, index),
                arena_printf(decode->arena, "%s[%zu]", path_of(decode, key), index), decode->arena,
                yaml_line_at(decode->yaml, array, index)};
}
