// SPDX-License-Identifier: Apache-2.0
/*
 * Memory: allocation that cannot fail, and arenas.
 *
 * Running out of memory aborts the process. kubelet starts it again, which is better than an agent that continues with
 * half of its data. In exchange, every size from outside is capped before it reaches a function of this file.
 *
 * An arena holds data that is freed together: a generation, one request, one scenario. Its objects are never freed one
 * by one and have no destructors. Objects are aligned to 16 bytes.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/macro.h"

/* Says so on the standard error, and aborts. Also for what fails only where memory is short. */
void alloc_fail(void) __attribute__((noreturn));

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size); /* zeroed; aborts on overflow too */
void *xrealloc(void *pointer, size_t size);
char *xstrdup(const char *text); /* NULL if |text| is NULL */
char *xasprintf(const char *format, ...) PRINTF_LIKE(1, 2);

struct arena_chunk;

struct arena {
        struct arena_chunk *chunks; /* newest first */
        size_t left;                /* bytes free in the newest chunk */
};

#define ARENA_INIT                                                                                                     \
        {                                                                                                              \
                0                                                                                                      \
        }

/* Frees everything; the arena is empty and usable again. Accepts an arena that was only zeroed. */
void arena_done(struct arena *arena);

/* Zeroed memory. |count| × |size| is checked for overflow. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), 1, sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type)))

char *arena_strdup(struct arena *arena, const char *text); /* NULL if |text| is NULL */
char *arena_strndup(struct arena *arena, const char *text, size_t length);
char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(struct arena *arena, const char *format, va_list args) PRINTF_LIKE(2, 0);
/* |path| below |root|, with one slash between them: "/" and "a", "/b/" and "/a". */
char *arena_path(struct arena *arena, const char *root, const char *path);

/* How many bytes the arena got from malloc(), for budgets and tests. */
size_t arena_footprint(const struct arena *arena);
