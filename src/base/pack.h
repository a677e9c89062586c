// SPDX-License-Identifier: Apache-2.0
/*
 * Values as bytes between two processes of the same program: one function for each struct, which both writes and reads.
 *
 *         static void pack_unit(struct pack *pack, struct unit *unit)
 *         {
 *                 PACK(pack, *unit);                  numbers, and the addresses, which mean nothing on the other side
 *                 pack_text(pack, &unit->uuid);       so each address is replaced
 *                 PACK_ARRAY(pack, unit->parts, unit->n_parts);
 *         }
 *
 * What is read lives in the arena. Bytes that end too early are noted once: from there on, zeros are read and arrays
 * are empty, so only pack_end() has to be looked at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/strbuf.h"

struct pack {
        struct strbuf *to; /* writes; NULL: reads */
        const char *from;
        size_t left;
        struct arena *arena; /* of what is read */
        bool is_short;
};

static inline struct pack pack_writer(struct strbuf *to)
{
        return (struct pack){.to = to};
}

static inline struct pack pack_reader(const void *from, size_t size, struct arena *arena)
{
        return (struct pack){.from = from, .left = size, .arena = arena};
}

static inline bool pack_reads(const struct pack *pack)
{
        return !pack->to;
}

void pack_bytes(struct pack *pack, void *value, size_t size);
#define PACK(pack, value) pack_bytes((pack), &(value), sizeof(value))

/* NULL stays NULL. */
void pack_text(struct pack *pack, const char **text);

/*
 * Replaces the address of |count| items of |size| bytes, which are copied as they are. Where items contain addresses,
 * the caller then packs what these point to. |count| has been packed before, and is 0 afterwards where there are fewer
 * bytes.
 */
void pack_array(struct pack *pack, const void **items, size_t *count, size_t size);
#define PACK_ARRAY(pack, items, count)                                                                                 \
        do {                                                                                                           \
                const void *pack_items = (items);                                                                      \
                pack_array((pack), &pack_items, &(count), sizeof(*(items)));                                           \
                (items) = (__typeof__(items))(uintptr_t)pack_items;                                                    \
        } while (0)

/* True if all was read and nothing is left. */
static inline bool pack_end(const struct pack *pack)
{
        return !pack->is_short && pack->left == 0;
}
