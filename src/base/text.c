#include "base/text.h"

#include <string.h>

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

void text_make_utf8(char *text)
{
        unsigned char *at = (unsigned char *)text;

        while (*at) {
                size_t length = text_utf8_length((const char *)at);

                if (length == 0)
                        *at = '?';
                at += MAX(length, (size_t)1);
        }
}

/* How many bytes the control character at |text| has; 0: none is there. */
static size_t control_length(const char *text)
{
        const unsigned char first = (unsigned char)text[0];
        const unsigned char second = first ? (unsigned char)text[1] : 0;

        if (first < ' ' || first == 0x7f)
                return first ? 1 : 0;
        return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

bool text_has_controls(const char *text)
{
        while (*text && control_length(text) == 0)
                text++;
        return *text;
}

void text_replace_controls(char *text, char with)
{
        while (*text) {
                const size_t length = control_length(text);

                memset(text, with, length);
                text += MAX(length, (size_t)1);
        }
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

static bool is_alphanumeric(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool text_is_subdomain(const char *text)
{
        char previous = '.';

        for (; *text; previous = *text++) {
                if (is_alphanumeric(*text))
                        continue;
                if (*text != '-' && *text != '.')
                        return false;
                if (previous == '.' || (*text == '.' && previous == '-'))
                        return false;
        }
        return is_alphanumeric(previous);
}
