// SPDX-License-Identifier: Apache-2.0
#include "base/mps_value.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"

#define MIB_MAX (UINT64_C(1) << 32)

bool mps_value_threads(const char *text, unsigned int *ret_permille)
{
        uint64_t whole = 0;
        uint64_t tenth = 0;
        size_t digits = strspn(text, "0123456789");
        const char *rest = text + digits;

        if (digits == 0 || digits > 3)
                return false;
        for (size_t i = 0; i < digits; i++)
                whole = whole * 10 + (uint64_t)(text[i] - '0');
        if (*rest == '.') {
                if (!isdigit((unsigned char)rest[1]))
                        return false;
                tenth = (uint64_t)(rest[1] - '0');
                rest += 1 + strspn(rest + 1, "0123456789");
        }
        if (*rest || whole > 100)
                return false;
        *ret_permille = (unsigned int)MAX(whole * 10 + tenth, 1);
        return *ret_permille <= 1000;
}

/* "1630M", "8G", "1024". */
static bool read_size(const char *text, size_t length, uint64_t *ret_mib)
{
        char number[16];
        size_t digits = strspn(text, "0123456789");
        uint64_t value;

        if (digits == 0 || digits >= sizeof(number) || digits > length)
                return false;
        memcpy(number, text, digits);
        number[digits] = '\0';
        if (!text_to_uint(number, MIB_MAX, &value))
                return false;
        text += digits;
        length -= digits;
        if (length == 0 || strncasecmp(text, "M", length) == 0 || strncasecmp(text, "MB", length) == 0)
                *ret_mib = value;
        else if (strncasecmp(text, "G", length) == 0 || strncasecmp(text, "GB", length) == 0)
                *ret_mib = value << 10;
        else if (strncasecmp(text, "K", length) == 0 || strncasecmp(text, "KB", length) == 0)
                *ret_mib = value >> 10;
        else
                return false;
        return true;
}

/* |uuid| may have the prefix "GPU-" or "MIG-", or not. */
static bool is_key_of(const char *key, size_t length, int ordinal, const char *uuid)
{
        _free_ char *text = xasprintf("%.*s", (int)MIN(length, (size_t)128), key);
        uint64_t number;

        if (text_to_uint(text, INT32_MAX, &number))
                return number == (uint64_t)ordinal;
        if (!*uuid || !(text_starts_with(text, "GPU-") || text_starts_with(text, "MIG-")))
                return false;
        return strcasecmp(text, uuid) == 0 || strcasecmp(text + strlen("GPU-"), uuid) == 0;
}

bool mps_value_memory(const char *text, int ordinal, const char *uuid, uint64_t *ret_mib)
{
        while (*text) {
                size_t item = strcspn(text, ",");
                const char *equals = memchr(text, '=', item);
                uint64_t mib;

                if (!equals || !read_size(equals + 1, item - (size_t)(equals + 1 - text), &mib))
                        return false;
                if (is_key_of(text, (size_t)(equals - text), ordinal, uuid))
                        *ret_mib = mib;
                text += item + (text[item] == ',');
        }
        return true;
}

bool mps_value_memory_of_each(const char *text, uint64_t *ret_mib)
{
        return read_size(text, strlen(text), ret_mib);
}
