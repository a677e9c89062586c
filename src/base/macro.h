// SPDX-License-Identifier: Apache-2.0
/*
 * The few macros that every file uses: attributes, sizes, and scope-bound cleanup.
 *
 * The cleanup function of a type is declared beside the type (`_cleanup_(arena_done)`); the macros here are for types
 * of the C library. TAKE_PTR and TAKE_FD pass ownership out of a function: they return the value and empty the
 * variable.
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

/*
 * The struct whose |member| is at |pointer|: a callback of an embedded handle finds the owner of the handle this way.
 */
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
