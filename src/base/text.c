// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"

bool text_to_uint(const char *text, uint64_t max, uint64_t *ret_value)
{
        uint64_t value = 0;

        if (!*text)
                return false;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return false;
                if (__builtin_mul_overflow(value, 10U, &value) ||
                        __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
                        return false;
        }
        if (value > max)
                return false;
        *ret_value = value;
        return true;
}

bool text_to_bool(const char *text, bool *ret_value)
{
        static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
        static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

        for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
                if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
                        *ret_value = strcmp(text, yes[i]) == 0;
                        return true;
                }
        }
        return false;
}

/* Levenshtein distance of words below 64 bytes; longer ones count as far apart. */
static size_t distance(const char *a, const char *b)
{
        size_t a_length = strlen(a);
        size_t b_length = strlen(b);
        size_t row[64];

        if (a_length >= ARRAY_SIZE(row) || b_length >= ARRAY_SIZE(row))
                return SIZE_MAX;
        for (size_t j = 0; j <= b_length; j++)
                row[j] = j;
        for (size_t i = 1; i <= a_length; i++) {
                size_t diagonal = row[0];

                row[0] = i;
                for (size_t j = 1; j <= b_length; j++) {
                        size_t substitute = diagonal + (a[i - 1] != b[j - 1]);

                        diagonal = row[j];
                        row[j] = MIN(substitute, MIN(row[j], row[j - 1]) + 1);
                }
        }
        return row[b_length];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
        size_t best_distance = MAX(strlen(word) / 2, (size_t)1) + 1;
        const char *best = NULL;

        for (size_t i = 0; i < count; i++) {
                size_t d = distance(word, candidates[i]);

                if (d < best_distance) {
                        best_distance = d;
                        best = candidates[i];
                }
        }
        return best;
}

size_t text_utf8_length(const char *text)
{
        const unsigned char *bytes = (const unsigned char *)text;
        unsigned int low = 0x80;
        unsigned int high = 0xbf;
        size_t length;

        if (bytes[0] < 0x80)
                return 1;
        if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
                length = 2;
        else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
                length = 3;
        else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
                length = 4;
        else
                return 0;
        if (bytes[0] == 0xe0)
                low = 0xa0;
        else if (bytes[0] == 0xed)
                high = 0x9f;
        else if (bytes[0] == 0xf0)
                low = 0x90;
        else if (bytes[0] == 0xf4)
                high = 0x8f;
        if (bytes[1] < low || bytes[1] > high)
                return 0;
        for (size_t i = 2; i < length; i++)
                if (bytes[i] < 0x80 || bytes[i] > 0xbf)
                        return 0;
        return length;
}

/* Hidden characters (text.h), sorted. */
static const struct {
        uint32_t first;
        uint32_t last;
} hidden[] = {
        {0x0001, 0x001f},   /* control characters (Cc); 0 ends the text */
        {0x007f, 0x009f},   /* Cc */
        {0x00ad, 0x00ad},   /* soft hyphen */
        {0x034f, 0x034f},   /* combining grapheme joiner */
        {0x061c, 0x061c},   /* Arabic letter mark */
        {0x115f, 0x1160},   /* Hangul fillers */
        {0x17b4, 0x17b5},   /* Khmer inherent vowels */
        {0x180b, 0x180f},   /* Mongolian selectors and vowel separator */
        {0x200b, 0x200f},   /* zero width, and marks of direction */
        {0x2028, 0x202e},   /* ends of line and paragraph (Zl, Zp), embedding and override of direction */
        {0x2060, 0x206f},   /* word joiner, invisible operators, isolation of direction, old controls */
        {0x3164, 0x3164},   /* Hangul filler */
        {0xfe00, 0xfe0f},   /* variation selectors */
        {0xfeff, 0xfeff},   /* byte order mark */
        {0xffa0, 0xffa0},   /* half-width Hangul filler */
        {0xfff0, 0xfff8},   /* reserved */
        {0x1bca0, 0x1bca3}, /* shorthand controls */
        {0x1d173, 0x1d17a}, /* musical controls */
        {0xe0000, 0xe0fff}, /* tags, and more variation selectors */
};

/* The character of a valid sequence of |length| bytes. */
static uint32_t decode(const char *text, size_t length)
{
        static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        uint32_t code = (unsigned char)text[0] & masks[length];

        for (size_t i = 1; i < length; i++)
                code = code << 6 | ((unsigned char)text[i] & 0x3fU);
        return code;
}

size_t text_hidden_length(const char *text, uint32_t *ret_code)
{
        const unsigned char first = (unsigned char)*text;
        size_t length;
        uint32_t code;

        if (first >= ' ' && first < 0x7f) /* nearly always */
                return 0;
        length = text_utf8_length(text);
        code = length ? decode(text, length) : 0;
        for (size_t i = 0; i < ARRAY_SIZE(hidden) && hidden[i].first <= code; i++)
                if (code <= hidden[i].last) {
                        if (ret_code)
                                *ret_code = code;
                        return length;
                }
        return 0;
}

static bool text_is_blank(uint32_t code)
{
        return (code >= '\t' && code <= '\r') || code == 0x85 || code == 0x2028 || code == 0x2029;
}

void text_clean(char *text)
{
        char *to = text;

        for (const char *from = text; *from;) {
                size_t length = text_utf8_length(from);
                uint32_t code = 0;

                if (length == 0) {
                        *to++ = '?';
                        from++;
                } else if (text_hidden_length(from, &code)) {
                        *to++ = text_is_blank(code) ? ' ' : '?';
                        from += length;
                } else {
                        for (; length > 0; length--)
                                *to++ = *from++;
                }
        }
        *to = '\0';
}

bool text_is_clean(const char *text)
{
        while (*text) {
                const size_t length = text_utf8_length(text);

                if (length == 0 || text_hidden_length(text, NULL))
                        return false;
                text += length;
        }
        return true;
}

bool text_starts_with(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

int text_compare(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool text_is_same(const char *a, const char *b)
{
        return a == b || (a && b && strcmp(a, b) == 0);
}

static bool text_is_alphanumeric(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool text_is_subdomain(const char *text)
{
        char previous = '.';

        for (; *text; previous = *text++) {
                if (text_is_alphanumeric(*text))
                        continue;
                if (*text != '-' && *text != '.')
                        return false;
                if (previous == '.' || (*text == '.' && previous == '-'))
                        return false;
        }
        return text_is_alphanumeric(previous);
}

/* ---- base64 ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int digit_of(char c)
{
        const char *found = c ? strchr(digits, c) : NULL;

        return found ? (int)(found - digits) : -1;
}

bool base64_decode(const char *text, size_t length, unsigned char *ret, size_t *ret_size)
{
        const char *end = text + length;
        unsigned int bits = 0;
        unsigned int n_bits = 0;
        size_t n_digits = 0;
        size_t size = 0;

        for (; text < end && *text != '='; text++) {
                int digit = digit_of(*text);

                if (*text == '\n' || *text == '\r')
                        continue;
                if (digit < 0)
                        return false;
                bits = (bits << 6 | (unsigned int)digit) & 0xffff;
                n_bits += 6;
                n_digits++;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        ret[size++] = (unsigned char)(bits >> n_bits & 0xff);
                }
        }
        for (; text < end && *text == '='; text++)
                n_digits++;
        while (text < end && (*text == '\n' || *text == '\r'))
                text++;
        *ret_size = size;
        return text == end && n_digits % 4 == 0;
}

char *base64_encode(const unsigned char *bytes, size_t size)
{
        char *text = xcalloc(size / 3 + 1, 4 + 1);
        char *to = text;

        for (size_t i = 0; i < size; i += 3) {
                size_t n = MIN(size - i, (size_t)3);
                unsigned int bits = (unsigned int)bytes[i] << 16 | (n > 1 ? (unsigned int)bytes[i + 1] << 8 : 0) |
                                    (n > 2 ? bytes[i + 2] : 0);

                for (size_t digit = 0; digit < 4; digit++)
                        *to++ = digit <= n ? digits[bits >> (18 - 6 * digit) & 63] : '=';
        }
        return text;
}

/* ---- quantity ---- */

/* |suffix| stands for 2^binary * 10^decimal. */
static bool read_suffix(const char *suffix, unsigned int *ret_binary, int *ret_decimal)
{
        static const struct {
                const char *suffix;
                unsigned int binary;
                int decimal;
        } suffixes[] = {{"", 0, 0}, {"Ki", 10, 0}, {"Mi", 20, 0}, {"Gi", 30, 0}, {"Ti", 40, 0}, {"Pi", 50, 0},
                {"Ei", 60, 0}, {"n", 0, -9}, {"u", 0, -6}, {"m", 0, -3}, {"k", 0, 3}, {"M", 0, 6}, {"G", 0, 9},
                {"T", 0, 12}, {"P", 0, 15}, {"E", 0, 18}};
        const bool is_negative = (*suffix == 'e' || *suffix == 'E') && suffix[1] == '-';
        uint64_t exponent;

        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
                if (strcmp(suffix, suffixes[i].suffix) == 0) {
                        *ret_binary = suffixes[i].binary;
                        *ret_decimal = suffixes[i].decimal;
                        return true;
                }
        if (*suffix != 'e' && *suffix != 'E')
                return false;
        suffix += suffix[1] == '+' || suffix[1] == '-' ? 2 : 1;
        if (!text_to_uint(suffix, 18, &exponent))
                return false;
        *ret_binary = 0;
        *ret_decimal = is_negative ? -(int)exponent : (int)exponent;
        return true;
}

bool quantity_value(const char *text, uint64_t *ret)
{
        unsigned __int128 value = 0; /* at most 10^19 * 2^60 */
        unsigned __int128 divisor = 1;
        unsigned int n_digits = 0;
        unsigned int binary;
        bool has_digit = false;
        bool has_point = false;
        int decimal;
        int n_fraction = 0;

        text += *text == '+';
        for (; isdigit((unsigned char)*text) || (*text == '.' && !has_point); text++) {
                if (*text == '.') {
                        has_point = true;
                        continue;
                }
                has_digit = true;
                n_digits += n_digits > 0 || *text != '0';
                n_fraction += has_point;
                if (n_digits > QUANTITY_DIGITS || n_fraction > (int)QUANTITY_DIGITS)
                        return false;
                value = value * 10 + (unsigned int)(*text - '0');
        }
        if (!has_digit || !read_suffix(text, &binary, &decimal))
                return false;
        value <<= binary;
        for (decimal -= n_fraction; decimal > 0; decimal--)
                value *= 10;
        for (; decimal < 0; decimal++)
                divisor *= 10;
        value = value / divisor + (value % divisor != 0);
        if (value > INT64_MAX)
                return false;
        *ret = (uint64_t)value;
        return true;
}
