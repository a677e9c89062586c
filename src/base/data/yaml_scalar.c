// SPDX-License-Identifier: Apache-2.0
#include "base/data/yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/text.h"

#define TAG_PREFIX "tag:yaml.org,2002:"

static bool is_among(const char *text, const char *const *words, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(text, words[i]) == 0)
                        return true;
        return false;
}

static bool is_null(const char *text)
{
        static const char *const words[] = {"", "~", "null", "Null", "NULL"};

        return is_among(text, words, ARRAY_SIZE(words));
}

static json_t *to_bool(const char *text)
{
        static const char *const yes[] = {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"};
        static const char *const no[] = {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};

        if (is_among(text, yes, ARRAY_SIZE(yes)))
                return json_true();
        return is_among(text, no, ARRAY_SIZE(no)) ? json_false() : NULL;
}

/* [-+]? then 0x, 0o, 0b or 0 (octal) and digits of that base, or a decimal number; within int64. */
static json_t *to_integer(const char *text)
{
        bool negative = *text == '-';
        unsigned long long magnitude;
        unsigned int base = 10;
        char *end;

        if (*text == '-' || *text == '+')
                text++;
        if (text[0] == '0' && text[1]) {
                int letter = tolower((unsigned char)text[1]);

                base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
                text += letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1;
        }
        /* strtoull would take blanks, a second sign and a second prefix. */
        if (!isxdigit((unsigned char)*text) || (base == 16 && tolower((unsigned char)text[1]) == 'x'))
                return NULL;
        errno = 0;
        magnitude = strtoull(text, &end, (int)base);
        if (*end || errno || magnitude > (unsigned long long)INT64_MAX + negative)
                return NULL;
        return json_integer(negative ? (json_int_t)(0 - magnitude) : (json_int_t)magnitude);
}

/*
 * [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?: neither hexadecimal floats nor words, which strtod would take.
 */
static json_t *to_real(const char *text)
{
        const char *at = text;
        size_t digits;

        at += *at == '-' || *at == '+';
        digits = strspn(at, "0123456789");
        at += digits;
        if (*at == '.') {
                size_t fraction = strspn(++at, "0123456789");

                digits += fraction;
                at += fraction;
        }
        if (digits == 0)
                return NULL;
        if (*at == 'e' || *at == 'E') {
                at++;
                at += *at == '-' || *at == '+';
                digits = strspn(at, "0123456789");
                at += digits;
                if (digits == 0)
                        return NULL;
        }
        return *at ? NULL : json_real(strtod(text, NULL)); /* json_real refuses infinity */
}

static json_t *to_number(const char *text, size_t size)
{
        _free_ char *digits = NULL;
        size_t length = 0;
        json_t *number;

        if (!strchr("+-.0123456789", *text) || strspn(text, "+-._0123456789abcdefABCDEFxXoO") != size)
                return NULL;
        digits = xmalloc(size + 1);
        for (size_t i = 0; i < size; i++)
                if (text[i] != '_')
                        digits[length++] = text[i];
        digits[length] = '\0';
        number = to_integer(digits);
        return number ? number : to_real(digits);
}

json_t *yaml_scalar(const char *tag, bool plain, const char *text, size_t size)
{
        json_t *value;

        if (tag && text_starts_with(tag, TAG_PREFIX)) {
                const char *kind = tag + strlen(TAG_PREFIX);

                if (strcmp(kind, "null") == 0)
                        return is_null(text) ? json_null() : NULL;
                if (strcmp(kind, "bool") == 0)
                        return to_bool(text);
                if (strcmp(kind, "int") == 0 || strcmp(kind, "float") == 0)
                        return size ? to_number(text, size) : NULL;
                return strcmp(kind, "str") == 0 ? json_stringn(text, size) : NULL;
        }
        if (tag && strcmp(tag, "!") != 0)
                return NULL;
        if (tag || !plain)
                return json_stringn(text, size);
        if (is_null(text))
                return json_null();
        value = to_bool(text);
        if (!value)
                value = to_number(text, size);
        return value ? value : json_stringn(text, size);
}

/* ---- yaml text ---- */

struct reader {
        const unsigned char *at;
        const unsigned char *end;
        bool is_big; /* endian */
};

/* Returns -1 when less than a whole unit is left. */
static int32_t take_unit(struct reader *reader)
{
        const unsigned char *at = reader->at;

        if (reader->end - at < 2)
                return -1;
        reader->at += 2;
        return reader->is_big ? at[0] << 8 | at[1] : at[1] << 8 | at[0];
}

/* -1: it is none. */
static int32_t take_character(struct reader *reader)
{
        int32_t unit = take_unit(reader);
        int32_t low;

        if (unit < 0xd800 || unit > 0xdfff)
                return unit;
        low = take_unit(reader);
        if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff)
                return -1;
        return 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
}

static void put_character(struct strbuf *text, int32_t character)
{
        unsigned char bytes[4];
        size_t size = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
        static const unsigned char leading[] = {0, 0, 0xc0, 0xe0, 0xf0};

        for (size_t i = size - 1; i > 0; i--, character >>= 6)
                bytes[i] = (unsigned char)(0x80 | (character & 0x3f));
        bytes[0] = (unsigned char)(leading[size] | character);
        strbuf_append(text, (const char *)bytes, size);
}

static bool convert(struct strbuf *text, struct reader *reader)
{
        while (reader->at < reader->end) {
                int32_t character = take_character(reader);

                if (character < 0)
                        return false;
                put_character(text, character);
        }
        return true;
}

bool yaml_text_read(struct yaml_text *ret, const char *text, size_t size)
{
        bool is_big = size >= 2 && memcmp(text, "\xfe\xff", 2) == 0;
        struct reader reader = {(const unsigned char *)text + 2, (const unsigned char *)text + size, is_big};

        *ret = (struct yaml_text){.at = text, .size = size, .converted = STRBUF_INIT};
        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
                ret->at += 3;
                ret->size -= 3;
        } else if (is_big || (size >= 2 && memcmp(text, "\xff\xfe", 2) == 0)) {
                if (!convert(&ret->converted, &reader)) {
                        yaml_text_done(ret);
                        return false;
                }
                ret->at = ret->converted.data;
                ret->size = ret->converted.size;
        }
        return true;
}

void yaml_text_done(struct yaml_text *text)
{
        strbuf_done(&text->converted);
}
