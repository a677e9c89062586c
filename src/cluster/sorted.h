/*
 * Pointers to structs that begin with their key, a `char *`, in the order of their keys. For thousands: an insert moves
 * those behind it.
 */
#pragma once

#include <stddef.h>

struct sorted {
        void **items;
        size_t count;
        size_t capacity;
};

/* NULL: there is none; *ret_at, if |ret_at| is not NULL, is where it is, or belongs. */
void *sorted_find(const struct sorted *sorted, const char *key, size_t *ret_at);
void sorted_insert(struct sorted *sorted, size_t at, void *item); /* |at| of the last sorted_find() for its key */
void *sorted_remove(struct sorted *sorted, const char *key);      /* the item, or NULL */
void sorted_done(struct sorted *sorted);                          /* frees no item */
