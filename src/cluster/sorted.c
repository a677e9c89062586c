#include "cluster/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void *sorted_find(const struct sorted *sorted, const char *key, size_t *ret_at)
{
        size_t low = 0;
        size_t high = sorted->count;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;
                const int order = strcmp(*(char **)sorted->items[middle], key);

                if (order == 0) {
                        if (ret_at)
                                *ret_at = middle;
                        return sorted->items[middle];
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (ret_at)
                *ret_at = low;
        return NULL;
}

void sorted_insert(struct sorted *sorted, size_t at, void *item)
{
        if (sorted->count == sorted->capacity) {
                sorted->capacity = MAX(2 * sorted->capacity, (size_t)16);
                sorted->items = xrealloc(sorted->items, sorted->capacity * sizeof(*sorted->items));
        }
        memmove(sorted->items + at + 1, sorted->items + at, (sorted->count - at) * sizeof(*sorted->items));
        sorted->items[at] = item;
        sorted->count++;
}

void *sorted_remove(struct sorted *sorted, const char *key)
{
        size_t at;
        void *item = sorted_find(sorted, key, &at);

        if (!item)
                return NULL;
        sorted->count--;
        memmove(sorted->items + at, sorted->items + at + 1, (sorted->count - at) * sizeof(*sorted->items));
        return item;
}

void sorted_done(struct sorted *sorted)
{
        free(sorted->items);
        *sorted = (struct sorted){0};
}
