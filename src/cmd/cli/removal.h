/*
 * Lists what an uninstall found, and whether that was removed. It is printed as a table for people.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

enum removal_outcome {
        REMOVAL_DONE,   /* it was there, and is gone; where |is_dry|: it would be */
        REMOVAL_LEFT,   /* it is there, and stays, for a reason that is said */
        REMOVAL_ABSENT, /* it was not there */
        REMOVAL_UNSEEN, /* it was not looked for; the note says why */
};

struct removal {
        const char *what;  /* "CDI specification" */
        const char *where; /* a path, or the name of an object */
        enum removal_outcome outcome;
        const char *note; /* "" : nothing to add */
};

struct removals {
        bool is_dry; /* nothing is to be changed */
        struct arena arena;
        struct removal *rows;
        size_t n_rows;
};

void removals_done(struct removals *removals);

/* Copies the strings; |note| is a format. */
void removals_add(struct removals *removals, enum removal_outcome outcome, const char *what, const char *where,
        const char *note, ...) PRINTF_LIKE(5, 6);

/*
 * Adds the outcome of an attempt to remove something: it is gone, or stays for the reason |err|, if that is not NULL.
 */
void removals_end(struct removals *removals, const char *what, const char *where, const struct error *err);

/* Removes the file at |path|, unless |left| says why it stays. */
void removals_unlink(struct removals *removals, const char *what, const char *path, const char *left);

size_t removals_count(const struct removals *removals, enum removal_outcome outcome);

/* The table, one row each. */
void removals_print(const struct removals *removals, struct strbuf *text);
