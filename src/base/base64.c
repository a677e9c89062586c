#include "base/base64.h"

#include <string.h>

#include "base/alloc.h"

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
