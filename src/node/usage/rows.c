// SPDX-License-Identifier: Apache-2.0
#include "node/usage/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"

struct keyed_row {
        struct usage_row row;
        const char *key; /* the pod's UID, or what stands for it */
};

struct rows {
        struct arena *arena;
        struct keyed_row *rows;
        size_t count;
        struct map by_key; /* "<unit>|<key>" → struct keyed_row * */
};

/* 40 bits: of a thousand rows two have the same id once in two million nodes. */
static void make_id(const char *key, char ret[USAGE_ROW_ID_LENGTH + 1])
{
        uint64_t hash = HASH_INIT;

        hash_add(&hash, key, strlen(key));
        hash ^= hash >> 32;
        for (unsigned int i = 0; i < USAGE_ROW_ID_LENGTH; i++, hash >>= 5)
                ret[i] = "abcdefghijklmnopqrstuvwxyz234567"[hash % 32];
        ret[USAGE_ROW_ID_LENGTH] = '\0';
}

static struct usage_row *get_row(struct rows *rows, const char *unit, const char *pod_uid, const char *key)
{
        const char *both = arena_printf(rows->arena, "%s|%s", unit, key);
        struct keyed_row *row = map_find(&rows->by_key, both);

        if (row)
                return &row->row;
        row = &rows->rows[rows->count++];
        *row = (struct keyed_row){.row = {.unit = unit, .pod_uid = pod_uid}, .key = key};
        make_id(both, row->row.id);
        map_add(&rows->by_key, both, row);
        return &row->row;
}

static const char *rows_key_of(const struct usage_owner *owner)
{
        return owner->pod_uid ? owner->pod_uid : owner->key;
}

/* Two containers, or two claims, have no name in common. */
static const char *rows_common_name(bool is_first, const char *before, const char *name)
{
        return is_first || text_is_same(before, name) ? name : NULL;
}

static void rows_add_grant(struct usage_row *row, const struct usage_owner *owner)
{
        const bool is_first = !row->is_granted;

        row->pod_namespace = owner->pod_namespace ? owner->pod_namespace : row->pod_namespace;
        row->pod = owner->pod ? owner->pod : row->pod;
        row->container = rows_common_name(is_first, row->container, owner->container);
        row->claim = rows_common_name(is_first, row->claim, owner->claim);
        row->resource = rows_common_name(is_first, row->resource, owner->resource);
        row->tier = rows_common_name(is_first, row->tier, owner->tier);
        row->limit = owner->limit && (is_first || row->limit) ? row->limit + owner->limit : 0;
        row->replicas += owner->replicas;
        row->threads_permille += owner->threads_permille;
        row->is_granted = true;
}

/* Names from what the pod was given anywhere on this node. */
static void name_row(
        struct usage_row *row, const struct usage_owner *const *owners, size_t n_owners, bool *ret_is_known)
{
        bool is_first = true;

        for (size_t i = 0; i < n_owners; i++) {
                const struct usage_owner *owner = owners[i];

                *ret_is_known = true;
                row->pod_namespace = row->pod_namespace ? row->pod_namespace : owner->pod_namespace;
                row->pod = row->pod ? row->pod : owner->pod;
                if (row->is_granted)
                        continue;
                row->container = rows_common_name(is_first, row->container, owner->container);
                row->claim = rows_common_name(is_first, row->claim, owner->claim);
                is_first = false;
        }
}

static int compare_owners(const void *a, const void *b)
{
        const struct usage_owner *const *first = a;
        const struct usage_owner *const *second = b;

        return strcmp(rows_key_of(*first), rows_key_of(*second));
}

static int rows_compare_rows(const void *a, const void *b)
{
        const struct keyed_row *first = a;
        const struct keyed_row *second = b;
        int result = strcmp(first->row.unit, second->row.unit);

        return result ? result : strcmp(first->key, second->key);
}

/* The owners of the pod among those that are sorted by it. */
static size_t rows_find_owners(
        const struct usage_owner *const *sorted, size_t count, const char *key, size_t *ret_first)
{
        size_t low = 0;
        size_t high = count;

        while (low < high) {
                const size_t middle = (low + high) / 2;

                if (strcmp(rows_key_of(sorted[middle]), key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret_first = low;
        while (high < count && strcmp(rows_key_of(sorted[high]), key) == 0)
                high++;
        return high - low;
}

static void drop_ended(struct rows *rows, const struct usage_owner *const *sorted, size_t n_owners)
{
        size_t kept = 0;

        for (size_t i = 0; i < rows->count; i++) {
                struct usage_row *row = &rows->rows[i].row;
                size_t first;
                size_t n_own = rows_find_owners(sorted, n_owners, rows->rows[i].key, &first);
                bool is_known = false;

                name_row(row, sorted + first, n_own, &is_known);
                if (is_known || (row->share && row->share->n_processes))
                        rows->rows[kept++] = rows->rows[i];
        }
        rows->count = kept;
}

size_t usage_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n_shares,
        struct arena *arena, const struct usage_row **ret)
{
        const struct usage_owner **sorted = ARENA_ARRAY(arena, const struct usage_owner *, n_owners);
        struct rows rows = {.arena = arena, .rows = ARENA_ARRAY(arena, struct keyed_row, n_owners + n_shares)};
        struct usage_row *plain;

        for (size_t i = 0; i < n_owners; i++) {
                const struct usage_owner *owner = &owners[i];

                sorted[i] = owner;
                if (owner->unit || owner->is_granted)
                        rows_add_grant(
                                get_row(&rows, owner->unit ? owner->unit : "", owner->pod_uid, rows_key_of(owner)),
                                owner);
        }
        for (size_t i = 0; i < n_shares; i++)
                if (shares[i].kind == USAGE_POD)
                        get_row(&rows, shares[i].unit, shares[i].pod_uid, shares[i].pod_uid)->share = &shares[i];
        map_done(&rows.by_key);
        if (n_owners)
                qsort(sorted, n_owners, sizeof(*sorted), compare_owners);
        drop_ended(&rows, sorted, n_owners);
        if (rows.count)
                qsort(rows.rows, rows.count, sizeof(*rows.rows), rows_compare_rows);
        plain = ARENA_ARRAY(arena, struct usage_row, rows.count);
        for (size_t i = 0; i < rows.count; i++)
                plain[i] = rows.rows[i].row;
        *ret = plain;
        return rows.count;
}
