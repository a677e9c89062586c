// SPDX-License-Identifier: Apache-2.0
/*
 * Tables. For people: cells in aligned columns, two blanks between them. A column in which no cell says anything, as
 * "-" does, is left out, unless |keeps_idle| is set after columns_init(). For programs: comma-separated values (RFC 4180).
 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"

struct column {
        const char *head;
        bool is_number; /* aligned at the right */
};

struct columns {
        const struct column *columns;
        size_t n_columns;
        struct columns_cell *cells; /* row by row */
        size_t n_cells;
        size_t capacity;
        bool keeps_idle;
        unsigned int hidden; /* a bit for each column that is left out in any case */
};

/* |list| outlives the table. */
void columns_init(struct columns *columns, const struct column *list, size_t n_columns);
void columns_done(struct columns *columns);

/* The next cell, from left to right and line by line. It is cleaned (base/text.h): names of files may be anybody's. */
void columns_add(struct columns *columns, const char *format, ...) PRINTF_LIKE(2, 3);

/* The cells of a whole line: as many texts as there are columns; more are ignored, and NULL is "-". */
void columns_add_row(struct columns *columns, ...);

/* The colour of the cell that was added last: an escape sequence that lasts. */
void columns_tint(struct columns *columns, const char *colour);

/* Heads and rows, each behind |indent|; a line has no blanks at its end. |has_colours|: the heads are dim. */
void columns_print(struct strbuf *text, const struct columns *columns, const char *indent, bool has_colours);

/* A cell of CSV, quoted where it has to be, and |end| after it: ',' or '\n'. NULL: an empty one. */
void csv_put(struct strbuf *text, const char *cell, char end);
/* A cell with a number, in full precision; NaN: an empty one. */
void csv_put_number(struct strbuf *text, double number, char end);
