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
        ERROR_DENIED,      /* not allowed to */
        ERROR_TIMEOUT,     /* the deadline passed */
        ERROR_UNSUPPORTED, /* this driver, kernel or build cannot */
        ERROR_INTERNAL,    /* our own fault */
};

struct error {
        enum error_kind kind;
        char text[508]; /* cut at the end when longer, never unterminated */
};

/* All return -1. */
int error_set(struct error *err, enum error_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);

/* "<what>: <text of errnum>"; the kind follows from |errnum| (ENOENT: not found, EACCES: denied, …). */
int error_errno(struct error *err, int errnum, const char *format, ...) PRINTF_LIKE(3, 4);

/* Puts "<where>: " before the text. */
int error_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* Lower-case word for logs: "invalid", "not found", … */
const char *error_kind_name(enum error_kind kind);
