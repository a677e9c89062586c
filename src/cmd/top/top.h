// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of `warpshare top`. The model is the page of a node (node/report/node_page.h), filtered and sorted; it is
 * printed for programs, or drawn as lines of tinted text, which are printed or shown on a screen. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "node/report/node_page.h"

/* ---- the model ---- */

enum top_sort { TOP_BY_MEMORY, TOP_BY_SM, TOP_BY_PEAK, TOP_BY_POD };
#define TOP_SORTS 4U
enum top_amounts { TOP_AUTO, TOP_MIB, TOP_GIB }; /* of memory; TOP_AUTO: what fits */
#define TOP_AMOUNTS 3U

struct top_wish {
        enum top_sort sort;
        bool is_reversed;
        const char
                *filter; /* only pods whose "namespace/pod/container" contains it, and units that have one; "": all */
        enum top_amounts amounts;
        bool has_processes;
        bool has_history;
};

/* A pod on a unit, or (|other|) what else has memory of it. */
struct top_row {
        const struct report_share *share;
        const struct report_other *other; /* NULL: a pod's */
};

struct top_unit {
        const struct report_gpu *gpu;
        const struct report_unit *unit;
        const struct top_row *rows;
        size_t n_rows;
};

struct top {
        const struct node_page *page;
        const struct top_unit *units; /* in the order of the page */
        size_t n_units;
};

/* |ret| points into |arena| and into |page|. */
void top_make(struct top *ret, struct arena *arena, const struct node_page *page, const struct top_wish *wish);

/* ---- for programs ---- */

char *top_print_json(
        const struct top *top, const struct top_wish *wish); /* a page of a node; the caller frees it, and the next */
char *top_print_csv(const struct top *top);

/* ---- for people: lines ---- */

enum top_tint { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_GREEN, TOP_YELLOW, TOP_RED, TOP_REVERSE };

struct top_span {
        enum top_tint tint;
        const char *text; /* one column for each character */
};

#define TOP_SPANS_MAX 6U

struct top_line {
        struct top_span spans[TOP_SPANS_MAX];
        size_t n_spans;
};

struct top_lines {
        struct arena *arena;
        struct top_line *lines;
        size_t n_lines;
        size_t capacity;
};

/*
 * |width|: what does not fit is left out, a column of all tables or a part of a GPU's line, and what then does not is
 * cut; 0: neither. |is_utf8|: else ASCII.
 */
void top_draw(
        struct top_lines *to, const struct top *top, const struct top_wish *wish, unsigned int width, bool is_utf8);

/* Adds a line without spans, which the next function gives it. */
struct top_line *top_line_add(struct top_lines *lines);
/* Beyond TOP_SPANS_MAX the text is added to the last span. */
void top_span_add(struct top_lines *lines, struct top_line *line, enum top_tint tint, const char *format, ...)
        PRINTF_LIKE(4, 5);
/* |width| as above. */
void top_lines_cut(struct top_lines *lines, unsigned int width);
void top_lines_print(struct strbuf *text, const struct top_lines *lines, bool has_colours);
