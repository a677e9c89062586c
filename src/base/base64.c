#include "base/base64.h"

#include <string.h>

static int digit_of(char c)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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
