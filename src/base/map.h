// SPDX-License-Identifier: Apache-2.0
/*
 * A map from strings to pointers: open addressing, grows by doubling, no removal.
 *
 * It is for tables that are built once and then only read: devices by id, options by name. The map does not copy keys:
 * they must live as long as the map. Not for keys that a peer chooses: the hash is not secret, so a peer could choose
 * keys that collide.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
        const char *key; /* NULL: free */
        uint32_t length;
        uint32_t hash;
        void *value;
};

struct map {
        struct map_entry *entries;
        size_t count;
        size_t capacity; /* a power of two, or 0 */
};

#define MAP_INIT                                                                                                       \
        {                                                                                                              \
                0                                                                                                      \
        }

void map_done(struct map *map);
void map_reserve(struct map *map, size_t count);

/* False: |key| is in the map already, and the map is unchanged. */
bool map_add(struct map *map, const char *key, void *value);

void *map_find(const struct map *map, const char *key);
void *map_find_bytes(const struct map *map, const char *key, size_t length);
