// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * A page less malloc's header, so that a chunk fits into a page. Large plans consist of large objects, which get chunks
 * of their own.
 */
#define CHUNK_SIZE ((size_t)4096 - 64)
#define ALIGNMENT ((size_t)16)

struct arena_chunk {
        struct arena_chunk *next;
        size_t size;
        _Alignas(16) char bytes[];
};

void alloc_fail(void)
{
        static const char text[] = "out of memory\n";

        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        abort();
}

static void *alloc_check(void *pointer)
{
        if (!pointer)
                alloc_fail();
        return pointer;
}

void *xmalloc(size_t size)
{
        return alloc_check(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
        return alloc_check(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *pointer, size_t size)
{
        return alloc_check(realloc(pointer, size ? size : 1));
}

char *xstrdup(const char *text)
{
        return text ? alloc_check(strdup(text)) : NULL;
}

char *xasprintf(const char *format, ...)
{
        char *text = NULL;
        va_list args;

        va_start(args, format);
        if (vasprintf(&text, format, args) < 0)
                text = NULL;
        va_end(args);
        return alloc_check(text);
}

void arena_done(struct arena *arena)
{
        struct arena_chunk *next;

        for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = next) {
                next = chunk->next;
                free(chunk);
        }
        *arena = (struct arena)ARENA_INIT;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
        struct arena_chunk *chunk;
        size_t total;
        void *object;

        if (__builtin_mul_overflow(count, size, &total) || total > SIZE_MAX / 2)
                alloc_check(NULL);
        total = (total + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
        if (total > arena->left || !arena->chunks) { /* an empty arena has no chunk, even for 0 bytes */
                size_t chunk_size = MAX(total, CHUNK_SIZE);

                chunk = xcalloc(1, sizeof(*chunk) + chunk_size);
                chunk->size = chunk_size;
                /*
                 * A large object gets a chunk of its own behind the current one, so that the rest of the current one
                 * can still be used.
                 */
                if (arena->chunks && chunk_size - total < arena->left) {
                        chunk->next = arena->chunks->next;
                        arena->chunks->next = chunk;
                        return chunk->bytes;
                }
                chunk->next = arena->chunks;
                arena->chunks = chunk;
                arena->left = chunk_size;
        }
        object = arena->chunks->bytes + (arena->chunks->size - arena->left);
        arena->left -= total;
        return object;
}

char *arena_strndup(struct arena *arena, const char *text, size_t length)
{
        char *copy = arena_alloc(arena, 1, length + 1);

        memcpy(copy, text, length);
        return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
        return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

char *arena_vprintf(struct arena *arena, const char *format, va_list args)
{
        va_list again;
        char *text;
        int length;

        va_copy(again, args);
        length = vsnprintf(NULL, 0, format, args);
        if (length < 0)
                alloc_check(NULL);
        text = arena_alloc(arena, 1, (size_t)length + 1);
        vsnprintf(text, (size_t)length + 1, format, again);
        va_end(again);
        return text;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
        va_list args;
        char *text;

        va_start(args, format);
        text = arena_vprintf(arena, format, args);
        va_end(args);
        return text;
}

size_t arena_footprint(const struct arena *arena)
{
        size_t total = 0;

        for (const struct arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
                total += sizeof(*chunk) + chunk->size;
        return total;
}

char *arena_path(struct arena *arena, const char *root, const char *path)
{
        size_t length = strlen(root);

        while (length && root[length - 1] == '/')
                length--;
        return arena_printf(arena, "%.*s/%s", (int)length, root, path + (*path == '/'));
}
