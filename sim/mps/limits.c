// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

bool limits_read_percentage(double *percentage, const char *text)
{
        double value = strtod(text, NULL);

        if (!(value > 0 && value <= 100))
                return false;
        *percentage = value;
        return true;
}

uint64_t limits_read_memory(const char *text)
{
        char *end;
        uint64_t value = (uint64_t)strtoll(text, &end, 10);

        if (*end == 'g' || *end == 'G')
                value <<= 10;
        return value &
               (UINT64_MAX >>
                       20); /* NVIDIA's daemon keeps bytes in 64 bits, so a negative value becomes 17179869183G */
}

const char *limits_value(const char *device, const char *next)
{
        char *end;

        strtol(device, &end, 10);
        if (end == device)
                return end + strlen(end);
        return *end ? end : next;
}

void limits_put_memory(struct strbuf *out, uint64_t mib)
{
        if (mib >= 1024)
                strbuf_printf(out, "%lluG\n", (unsigned long long)(mib >> 10));
        else if (mib)
                strbuf_printf(out, "%lluM\n", (unsigned long long)mib);
}

uint64_t limits_from_list(const char *list, int ordinal, const char *uuid)
{
        _free_ char *items = xstrdup(list);
        char *rest = NULL;

        for (char *item = strtok_r(items, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
                char *value = strchr(item, '=');
                uint64_t number;

                if (!value)
                        continue;
                *value++ = '\0';
                if (strcmp(item, uuid) == 0 || (text_to_uint(item, LIMITS_DEVICES, &number) && (int)number == ordinal))
                        return limits_read_memory(value);
        }
        return 0;
}
