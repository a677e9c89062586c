// SPDX-License-Identifier: Apache-2.0
#include "base/pack.h"

#include <stdint.h>
#include <string.h>

/* The bytes that are left would be read as another value. */
static void end_short(struct pack *pack)
{
        pack->is_short = true;
        pack->left = 0;
}

void pack_bytes(struct pack *pack, void *value, size_t size)
{
        if (pack->to) {
                strbuf_append(pack->to, value, size);
                return;
        }
        if (pack->left < size) {
                end_short(pack);
                memset(value, 0, size);
                return;
        }
        memcpy(value, pack->from, size);
        pack->from += size;
        pack->left -= size;
}

void pack_text(struct pack *pack, const char **text)
{
        size_t length = pack_reads(pack) || !*text ? SIZE_MAX : strlen(*text);

        PACK(pack, length);
        if (pack->to) {
                if (*text)
                        strbuf_append(pack->to, *text, length);
                return;
        }
        *text = NULL;
        if (pack->is_short || length == SIZE_MAX)
                return;
        if (length > pack->left) {
                end_short(pack);
                return;
        }
        *text = arena_strndup(pack->arena, pack->from, length);
        pack->from += length;
        pack->left -= length;
}

void pack_array(struct pack *pack, const void **items, size_t *count, size_t size)
{
        if (pack->to) {
                strbuf_append(pack->to, *items, *count * size);
                return;
        }
        *items = NULL;
        if (*count > pack->left / size) {
                end_short(pack);
                *count = 0;
        }
        if (*count == 0)
                return;
        *items = memcpy(arena_alloc(pack->arena, *count, size), pack->from, *count * size);
        pack->from += *count * size;
        pack->left -= *count * size;
}
