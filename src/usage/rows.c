#include "usage/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"

struct rows {
        struct arena *arena;
        struct usage_row *rows;
        size_t count;
        struct map by_key; /* "<unit>|<pod UID>" → struct usage_row * */
};

static struct usage_row *get_row(struct rows *rows, const char *unit, const char *pod_uid)
{
        const char *key = arena_printf(rows->arena, "%s|%s", unit, pod_uid);
        struct usage_row *row = map_find(&rows->by_key, key);

        if (row)
                return row;
        row = &rows->rows[rows->count++];
        row->unit = unit;
        row->pod_uid = pod_uid;
        map_add(&rows->by_key, key, row);
        return row;
}

/* Two containers, or two claims, have no name in common. */
static const char *common(bool is_first, const char *before, const char *name)
{
        return is_first || text_is_same(before, name) ? name : NULL;
}

static void grant(struct usage_row *row, const struct usage_owner *owner)
{
        const bool is_first = !row->is_granted;

        row->pod_namespace = owner->pod_namespace ? owner->pod_namespace : row->pod_namespace;
        row->pod = owner->pod ? owner->pod : row->pod;
        row->container = common(is_first, row->container, owner->container);
        row->claim = common(is_first, row->claim, owner->claim);
        row->limit = owner->limit && (is_first || row->limit) ? row->limit + owner->limit : 0;
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
                row->container = common(is_first, row->container, owner->container);
                row->claim = common(is_first, row->claim, owner->claim);
                is_first = false;
        }
}

static int compare_owners(const void *a, const void *b)
{
        const struct usage_owner *const *first = a;
        const struct usage_owner *const *second = b;

        return strcmp((*first)->pod_uid, (*second)->pod_uid);
}

static int compare_rows(const void *a, const void *b)
{
        const struct usage_row *first = a;
        const struct usage_row *second = b;
        int result = strcmp(first->unit, second->unit);

        return result ? result : strcmp(first->pod_uid, second->pod_uid);
}

/* The owners of the pod among those that are sorted by it. */
static size_t find_owners(const struct usage_owner *const *sorted, size_t count, const char *pod_uid, size_t *ret_first)
{
        size_t low = 0;
        size_t high = count;

        while (low < high) {
                const size_t middle = (low + high) / 2;

                if (strcmp(sorted[middle]->pod_uid, pod_uid) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret_first = low;
        while (high < count && strcmp(sorted[high]->pod_uid, pod_uid) == 0)
                high++;
        return high - low;
}

static void drop_ended(struct rows *rows, const struct usage_owner *const *sorted, size_t n_owners)
{
        size_t kept = 0;

        for (size_t i = 0; i < rows->count; i++) {
                struct usage_row *row = &rows->rows[i];
                size_t first;
                size_t n_own = find_owners(sorted, n_owners, row->pod_uid, &first);
                bool is_known = false;

                name_row(row, sorted + first, n_own, &is_known);
                if (is_known || (row->share && row->share->n_processes))
                        rows->rows[kept++] = *row;
        }
        rows->count = kept;
}

size_t usage_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n_shares,
        struct arena *arena, const struct usage_row **ret)
{
        const struct usage_owner **sorted = ARENA_ARRAY(arena, const struct usage_owner *, n_owners);
        struct rows rows = {.arena = arena, .rows = ARENA_ARRAY(arena, struct usage_row, n_owners + n_shares)};

        for (size_t i = 0; i < n_owners; i++) {
                sorted[i] = &owners[i];
                if (owners[i].unit)
                        grant(get_row(&rows, owners[i].unit, owners[i].pod_uid), &owners[i]);
        }
        for (size_t i = 0; i < n_shares; i++)
                if (shares[i].kind == USAGE_POD)
                        get_row(&rows, shares[i].unit, shares[i].pod_uid)->share = &shares[i];
        map_done(&rows.by_key);
        if (n_owners)
                qsort(sorted, n_owners, sizeof(*sorted), compare_owners);
        drop_ended(&rows, sorted, n_owners);
        if (rows.count)
                qsort(rows.rows, rows.count, sizeof(*rows.rows), compare_rows);
        *ret = rows.rows;
        return rows.count;
}
