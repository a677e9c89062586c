// SPDX-License-Identifier: Apache-2.0
/*
 * For LD_PRELOAD: the program's allocation with the number SHORT_MEMORY_AT finds no memory, the others do. With
 * SHORT_MEMORY_COUNT the last line on the standard error is how many there were. The processes that it forks count
 * along.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);

static atomic_long before;
static atomic_long *count = &before;

__attribute__((constructor)) static void share(void)
{
        atomic_long *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (shared == MAP_FAILED)
                abort();
        atomic_store(shared, before);
        count = shared;
}

static bool fails(void)
{
        const char *at = getenv("SHORT_MEMORY_AT");

        if (atomic_fetch_add(count, 1) + 1 != (at ? strtol(at, NULL, 10) : 0))
                return false;
        errno = ENOMEM;
        return true;
}

#pragma GCC visibility push(default)

void *malloc(size_t size)
{
        return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
        return fails() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *pointer, size_t size)
{
        return fails() ? NULL : __libc_realloc(pointer, size);
}

#pragma GCC visibility pop

__attribute__((destructor)) static void say(void)
{
        if (getenv("SHORT_MEMORY_COUNT"))
                dprintf(2, "%ld\n", (long)*count);
}
