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
