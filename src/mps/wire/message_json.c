#include "mps/wire/message_json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

/* ---- writing ---- */

/* What is cut in the middle of a character is no UTF-8 there, so the repair comes after the cut. */
void message_put_text(json_t *object, const char *key, const char *text)
{
        char copy[MESSAGE_TEXT_MAX + 1];
        size_t length;

        if (!text)
                return;
        length = strnlen(text, MESSAGE_TEXT_MAX);
        memcpy(copy, text, length);
        copy[length] = '\0';
        text_make_utf8(copy);
        for (char *c = copy; *c; c++)
                if ((unsigned char)*c < ' ' || *c == 0x7f)
                        *c = '?';
        json_object_set_new(object, key, json_string(copy));
}

void message_put_uint(json_t *object, const char *key, uint64_t number)
{
        json_object_set_new(object, key, json_integer((json_int_t)MIN(number, (uint64_t)INT64_MAX)));
}

char *message_print(json_t *json, size_t flags)
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

void message_bad(struct message_in *in, const char *format, ...)
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

void message_bad_item(struct message_in *in, const char *key, size_t index)
{
        if (in->is_bad)
                error_raise_prefix(in->err, "%s[%zu]", key, index);
}

json_t *message_load(struct message_in *in, const char *text, size_t length)
{
        json_error_t error;
        json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

        if (json_is_object(json))
                return json;
        if (json)
                message_bad(in, "no JSON object");
        else
                message_bad(in, "no JSON: %s", error.text);
        json_decref(json);
        return NULL;
}

static bool is_letter_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_any(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool is_uuid(const char *text)
{
        if (!is_letter_or_digit(*text))
                return false;
        for (; *text; text++)
                if (!is_letter_or_digit(*text) && *text != '-' && *text != '/')
                        return false;
        return true;
}

static bool is_allocation(const char *text)
{
        size_t length = strlen(text);

        return length >= 1 && length <= 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static bool is_path(const char *text)
{
        for (;;) {
                size_t length = strcspn(text, "/");

                if (length == 0 || (length <= 2 && strspn(text, ".") == length))
                        return false;
                for (size_t i = 0; i < length; i++)
                        if (!is_letter_or_digit(text[i]) && !strchr(".-_", text[i]))
                                return false;
                if (!text[length])
                        return true;
                text += length + 1;
        }
}

static const struct {
        bool (*is)(const char *text);
        size_t most;
        const char *must;
} text_kinds[] = {
        [MESSAGE_ANY] = {is_any, MESSAGE_TEXT_MAX, "text without control characters"},
        [MESSAGE_PATH] = {is_path, 255, "a relative path of letters, digits, '.', '-' and '_'"},
        [MESSAGE_UUID] = {is_uuid, 127, "a UUID: letters, digits, '-' and '/'"},
        [MESSAGE_ALLOCATION] = {is_allocation, 64, "1 to 64 of a-z, 0-9 and '_'"},
};

static const char *take_text(struct message_in *in, const json_t *value, const char *key, enum message_text kind)
{
        const char *text = json_string_value(value);

        if (!value)
                return NULL;
        if (!text || json_string_length(value) > text_kinds[kind].most || !text_kinds[kind].is(text)) {
                message_bad(
                        in, "%s: must be %s, of at most %zu bytes", key, text_kinds[kind].must, text_kinds[kind].most);
                return NULL;
        }
        return arena_strdup(in->arena, text);
}

const char *message_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind)
{
        return take_text(in, json_object_get(object, key), key, kind);
}

const char *message_need_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind)
{
        const char *text = message_text(in, object, key, kind);

        if (!text)
                message_bad(in, "%s: missing", key);
        return text ? text : "";
}

uint64_t message_uint(struct message_in *in, const json_t *object, const char *key, uint64_t least, uint64_t most)
{
        const json_t *value = json_object_get(object, key);
        json_int_t number = json_integer_value(value);

        if ((value && !json_is_integer(value)) || number < 0 || (uint64_t)number < least || (uint64_t)number > most) {
                message_bad(in, "%s: must be a number from %" PRIu64 " to %" PRIu64, key, least, most);
                return least;
        }
        return (uint64_t)number;
}

bool message_bool(struct message_in *in, const json_t *object, const char *key)
{
        const json_t *value = json_object_get(object, key);

        if (value && !json_is_boolean(value))
                message_bad(in, "%s: must be true or false", key);
        return json_is_true(value);
}

unsigned int message_word(struct message_in *in, const json_t *object, const char *key,
        const char *(*name)(unsigned int position), unsigned int count)
{
        const json_t *value = json_object_get(object, key);

        if (!value)
                return 0;
        for (unsigned int i = 0; i < count; i++)
                if (json_is_string(value) && strcmp(json_string_value(value), name(i)) == 0)
                        return i;
        message_bad(in, "%s: is none of the known words, of which '%s' is one", key, name(0));
        return 0;
}

const json_t *message_array(
        struct message_in *in, const json_t *object, const char *key, size_t most, size_t *ret_count)
{
        const json_t *value = json_object_get(object, key);

        *ret_count = 0;
        if (!value)
                return NULL;
        if (!json_is_array(value) || json_array_size(value) > most) {
                message_bad(in, "%s: must be a list of at most %zu", key, most);
                return NULL;
        }
        *ret_count = json_array_size(value);
        return value;
}

const json_t *message_object(struct message_in *in, const json_t *object, const char *key)
{
        const json_t *value = json_object_get(object, key);

        if (value && !json_is_object(value))
                message_bad(in, "%s: must be an object", key);
        return json_is_object(value) ? value : NULL;
}

const char *const *message_texts(struct message_in *in, const json_t *object, const char *key, enum message_text kind,
        size_t most, size_t *ret_count)
{
        size_t count;
        const json_t *array = message_array(in, object, key, most, &count);
        const char **texts = ARENA_ARRAY(in->arena, const char *, count);

        for (size_t i = 0; i < count; i++)
                texts[i] = take_text(in, json_array_get(array, i), key, kind);
        *ret_count = in->is_bad ? 0 : count;
        return texts;
}
