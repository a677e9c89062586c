// SPDX-License-Identifier: Apache-2.0
/*
 * An error: its kind, for the program, and a text that says what happened, for people. Whether it is logged is up to
 * the caller.
 *
 * A function that can fail returns 0, or -1 with |err| filled, and is MUST_USE. |err| comes last and is never NULL. The
 * value lives on the caller's stack: there is nothing to free. Raise and return in one line:
 *
 *         return error_set(err, ERROR_INVALID, "replicas: %u, must be at least 1", replicas);
 *
 * Each layer adds where it was with error_prefix(), and never repeats what the layer below said.
 */
#pragma once

#include "base/macro.h"

enum error_kind {
        ERROR_NONE,
        ERROR_INVALID,     /* the input is wrong; trying again is useless */
        ERROR_NOT_FOUND,   /* the thing named does not exist */
        ERROR_UNAVAILABLE, /* not now; trying again may help */
        ERROR_EXHAUSTED,   /* none is left until another user releases one */
        ERROR_DENIED,      /* not allowed to */
        ERROR_TIMEOUT,     /* the deadline passed */
        ERROR_UNSUPPORTED, /* this driver, kernel or build cannot */
        ERROR_INTERNAL,    /* our own fault */
};

struct error {
        enum error_kind kind;
        /* Always terminated; a longer text is cut. It is clean (base/text.h), since it may repeat what others say. */
        char text[508];
};

void error_raise(struct error *err, enum error_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);
void error_raise_errno(struct error *err, int errnum, const char *format, ...) PRINTF_LIKE(3, 4);
void error_raise_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * These three have the value -1, for the caller to return. They are macros so that compilers and analysers see the -1,
 * and do not follow paths on which a function failed and yet returned 0.
 */
#define error_set(err, kind, ...)                                                                                      \
        ({                                                                                                             \
                error_raise((err), (kind), __VA_ARGS__);                                                               \
                -1;                                                                                                    \
        })

/* "<what>: <text of errnum>"; the kind follows from |errnum| (ENOENT: not found, EACCES: denied, …). */
#define error_errno(err, errnum, ...)                                                                                  \
        ({                                                                                                             \
                error_raise_errno((err), (errnum), __VA_ARGS__);                                                       \
                -1;                                                                                                    \
        })

/* Puts "<where>: " before the text. */
#define error_prefix(err, ...)                                                                                         \
        ({                                                                                                             \
                error_raise_prefix((err), __VA_ARGS__);                                                                \
                -1;                                                                                                    \
        })

/* The exit statuses of our programs beside 0, as those of NVIDIA's: what a command's function returns. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Lower-case word for logs: "invalid", "not found", … */
const char *error_kind_name(enum error_kind kind);
