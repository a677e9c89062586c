#include "base/quantity.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

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
