/*
 * An error: what kind it is, for the program, and what happened, for people. It does not know where it ends up.
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
        ERROR_UNAVAILABLE, /* not now; worth trying again */
        ERROR_EXHAUSTED,   /* there is none left, until somebody gives something back */
        ERROR_DENIED,      /* not allowed to */
        ERROR_TIMEOUT,     /* the deadline passed */
        ERROR_UNSUPPORTED, /* this driver, kernel or build cannot */
        ERROR_INTERNAL,    /* our own fault */
};

struct error {
        enum error_kind kind;
        char text[508]; /* cut at the end when longer, never unterminated */
};

void error_raise(struct error *err, enum error_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);
void error_raise_errno(struct error *err, int errnum, const char *format, ...) PRINTF_LIKE(3, 4);
void error_raise_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * These three are -1 for the caller to return. They are macros for one reason: compilers and analysers then see the -1, and
 * do not follow paths on which a function failed and yet returned 0.
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

/* Lower-case word for logs: "invalid", "not found", … */
const char *error_kind_name(enum error_kind kind);
