// SPDX-License-Identifier: Apache-2.0
#include "base/map.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

/*
 * FNV-1a over eight bytes at a time, to be fast: device ids have 40 to 50 bytes, and a request may have 10,000 of them.
 */
static uint32_t hash_bytes(const char *bytes, size_t length)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ length;

        while (length >= 8) {
                uint64_t word;

                memcpy(&word, bytes, 8);
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
                hash ^= hash >> 32;
                bytes += 8;
                length -= 8;
        }
        for (; length; length--)
                hash = (hash ^ (unsigned char)*bytes++) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
        hash *= UINT64_C(0x9e3779b97f4a7c15);
        return (uint32_t)(hash >> 32);
}

static struct map_entry *slot_of(const struct map *map, const char *key, size_t length, uint32_t hash)
{
        size_t mask = map->capacity - 1;

        for (size_t i = hash & mask;; i = (i + 1) & mask) {
                struct map_entry *entry = &map->entries[i];

                if (!entry->key)
                        return entry;
                if (entry->hash == hash && entry->length == length && memcmp(entry->key, key, length) == 0)
                        return entry;
        }
}

void map_done(struct map *map)
{
        free(map->entries);
        *map = (struct map)MAP_INIT;
}

void map_reserve(struct map *map, size_t count)
{
        struct map grown = {.count = map->count, .capacity = map->capacity ? map->capacity : 16};

        while (grown.capacity < count * 2)
                grown.capacity *= 2;
        if (grown.capacity == map->capacity)
                return;
        grown.entries = xcalloc(grown.capacity, sizeof(*grown.entries));
        for (size_t i = 0; i < map->capacity; i++) {
                const struct map_entry *entry = &map->entries[i];

                if (entry->key)
                        *slot_of(&grown, entry->key, entry->length, entry->hash) = *entry;
        }
        free(map->entries);
        *map = grown;
}

bool map_add(struct map *map, const char *key, void *value)
{
        size_t length = strlen(key);
        uint32_t hash = hash_bytes(key, length);
        struct map_entry *entry;

        assert(length <= UINT32_MAX);
        map_reserve(map, map->count + 1);
        entry = slot_of(map, key, length, hash);
        if (entry->key)
                return false;
        *entry = (struct map_entry){.key = key, .length = (uint32_t)length, .hash = hash, .value = value};
        map->count++;
        return true;
}

void *map_find_bytes(const struct map *map, const char *key, size_t length)
{
        if (map->capacity == 0 || length > UINT32_MAX)
                return NULL;
        return slot_of(map, key, length, hash_bytes(key, length))->value;
}

void *map_find(const struct map *map, const char *key)
{
        return map_find_bytes(map, key, strlen(key));
}
