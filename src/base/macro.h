/*
 * The few macros that every file uses: attributes, sizes, and scope-bound cleanup.
 *
 * A cleanup macro stands next to the type it releases (`_cleanup_(arena_done)`); the ones here are for what the C library
 * gives. Ownership leaves a function by TAKE_PTR or TAKE_FD, which empty the variable.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */
#include <unistd.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((__format__(__printf__, text, first)))
#define UNUSED __attribute__((unused))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The struct that holds |member| at |pointer|: how callbacks of embedded handles find their owner. */
#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void free_pointer(void *pointer)
{
        free(*(void **)pointer);
}

static inline void close_pointer(int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

#define _free_ _cleanup_(free_pointer)
#define _close_ _cleanup_(close_pointer)

#define TAKE_PTR(pointer)                                                                                              \
        ({                                                                                                             \
                __typeof__(pointer) taken_ = (pointer);                                                                \
                (pointer) = NULL;                                                                                      \
                taken_;                                                                                                \
        })
#define TAKE_FD(fd)                                                                                                    \
        ({                                                                                                             \
                int taken_ = (fd);                                                                                     \
                (fd) = -1;                                                                                             \
                taken_;                                                                                                \
        })
