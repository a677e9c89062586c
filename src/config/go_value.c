// SPDX-License-Identifier: Apache-2.0
#include "config/go_value.h"

#include <string.h>

#include "base/macro.h"
#include "base/text.h"

static int go_digit_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* Takes the prefix, and says whether it was one: '_' may follow it, and cannot come first otherwise. */
static unsigned int take_base(const char **text, const char *end)
{
        char letter = end - *text > 1 ? (char)((*text)[1] | 0x20) : '\0';

        if (end - *text < 2 || **text != '0')
                return 10;
        if (letter == 'x' || letter == 'o' || letter == 'b') {
                *text += 2;
                return letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
        }
        *text += 1;
        return 8;
}

bool go_int_parse(const char *text, size_t length, int64_t *ret)
{
        const char *end = text + length;
        bool negative = length > 0 && *text == '-';
        uint64_t limit = (uint64_t)INT64_MAX + negative;
        uint64_t value = 0;
        unsigned int base;
        bool is_digit; /* the character before, or a prefix */

        if (length > 0 && (*text == '-' || *text == '+'))
                text++;
        base = take_base(&text, end);
        is_digit = base != 10;
        if (text == end)
                return false;
        for (; text < end; text++) {
                if (*text == '_') {
                        if (!is_digit)
                                return false;
                        is_digit = false;
                        continue;
                }
                if ((unsigned int)go_digit_value(*text) >= base || __builtin_mul_overflow(value, base, &value) ||
                        __builtin_add_overflow(value, (uint64_t)go_digit_value(*text), &value) || value > limit)
                        return false;
                is_digit = true;
        }
        if (!is_digit)
                return false;
        *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
        return true;
}

/* ---- durations ---- */

static bool go_take_unit(const char **text, uint64_t *ret_ns)
{
        static const struct {
                const char *name;
                uint64_t ns;
        } units[] = {{"ns", 1}, {"us", 1000}, {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000}, {"ms", 1000000},
                {"s", 1000000000}, {"m", UINT64_C(60) * 1000000000}, {"h", UINT64_C(3600) * 1000000000}};
        size_t length = strcspn(*text, ".0123456789"); /* a unit ends where the next number begins */

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                if (strlen(units[i].name) != length || memcmp(units[i].name, *text, length) != 0)
                        continue;
                *text += length;
                *ret_ns = units[i].ns;
                return true;
        }
        return false;
}

/* The digits at |*text|. Those that do not fit are an overflow, or after a point (|ret_scale|) lost. */
static bool go_take_digits(const char **text, uint64_t *ret, double *ret_scale, size_t *ret_count)
{
        bool is_full = false;

        for (; **text >= '0' && **text <= '9'; (*text)++, (*ret_count)++) {
                uint64_t next = *ret;

                is_full = is_full || __builtin_mul_overflow(next, 10U, &next) ||
                          __builtin_add_overflow(next, (uint64_t)(**text - '0'), &next) ||
                          next > (uint64_t)INT64_MAX + 1;
                if (is_full && !ret_scale)
                        return false;
                if (is_full)
                        continue;
                *ret = next;
                if (ret_scale)
                        *ret_scale *= 10;
        }
        return true;
}

/* "1.5h": digits, a fraction, at least one digit in all, and a unit; with the roundings of Go. */
static bool take_part(const char **text, uint64_t *ret_ns)
{
        uint64_t whole = 0;
        uint64_t fraction = 0;
        double scale = 1;
        uint64_t unit;
        size_t digits = 0;

        if (!go_take_digits(text, &whole, NULL, &digits))
                return false;
        if (**text == '.') {
                (*text)++;
                if (!go_take_digits(text, &fraction, &scale, &digits))
                        return false;
        }
        if (digits == 0 || !go_take_unit(text, &unit) || __builtin_mul_overflow(whole, unit, &whole))
                return false;
        return !__builtin_add_overflow(whole, (uint64_t)((double)fraction * ((double)unit / scale)), ret_ns);
}

bool go_duration_parse(const char *text, int64_t *ret_ns)
{
        bool negative = *text == '-';
        uint64_t limit = (uint64_t)INT64_MAX + negative;
        uint64_t sum = 0;

        if (strcmp(text, "infinite") == 0) {
                *ret_ns = INT64_MAX;
                return true;
        }
        text += *text == '-' || *text == '+';
        if (!*text)
                return false;
        if (strcmp(text, "0") == 0)
                text++;
        while (*text) {
                uint64_t part;

                if (!take_part(&text, &part) || __builtin_add_overflow(sum, part, &sum) || sum > limit)
                        return false;
        }
        *ret_ns = negative ? (int64_t)(0 - sum) : (int64_t)sum;
        return true;
}
