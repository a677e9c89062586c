// SPDX-License-Identifier: Apache-2.0
/*
 * A shared library that is loaded when it is first needed, and a struct of pointers to what is used of it. So a program
 * that does not need the library starts where it is not installed, and saves its time and memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/macro.h"

struct library_symbol {
        size_t offset;        /* of the pointer in the user's struct */
        const char *names[3]; /* best first */
        bool is_optional;     /* then the pointer may be NULL */
};

/* A row of the table for a member of |type|: LIBRARY_SYMBOL(struct curl, easy_init, "curl_easy_init"). */
#define LIBRARY_SYMBOL(type, member, ...)                                                                              \
        {                                                                                                              \
                .offset = offsetof(type, member), .names = { __VA_ARGS__ }                                             \
        }

/*
 * Fills the pointers of |ret| from the open library |handle|, and |ret_names|, if it is not NULL, with the name of
 * each. NULL, or the name of the first symbol that is missing and not optional.
 */
const char *library_find(void *handle, const struct library_symbol *symbols, size_t n_symbols, void *ret,
        const char **ret_names) MUST_USE;

struct library {
        const char *files[2]; /* the first that can be loaded */
        const char *needs;    /* for the error if a symbol is missing: "libcurl 7.88" */
        const char *remedy;   /* and if the library is: "install libcurl (Debian: libcurl4), or ..." */
        const struct library_symbol *symbols;
        size_t n_symbols;
};

/*
 * Loads |library| and fills |ret|. It is never unloaded. ERROR_NOT_FOUND if it is not installed, ERROR_UNSUPPORTED if
 * it is too old.
 */
int library_load(const struct library *library, void *ret, struct error *err) MUST_USE;
