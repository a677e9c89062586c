#include "base/pack.h"

#include <stdint.h>
#include <string.h>

void pack_bytes(struct pack *pack, void *value, size_t size)
{
        if (pack->to) {
                strbuf_append(pack->to, value, size);
                return;
        }
        if (pack->left < size) {
                pack->is_short = true;
                pack->left = 0;
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
        if (pack->is_short || length > pack->left) {
                pack->is_short = pack->is_short || length != SIZE_MAX;
                *text = NULL;
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
                pack->is_short = true;
                *count = 0;
        }
        if (*count == 0)
                return;
        *items = memcpy(arena_alloc(pack->arena, *count, size), pack->from, *count * size);
        pack->from += *count * size;
        pack->left -= *count * size;
}
