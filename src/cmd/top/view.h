// SPDX-License-Identifier: Apache-2.0
/*
 * The screen of `warpshare top`: what is to be seen of a page, and what keys do. Pure: keys, pages and sizes in, lines
 * out. It knows no terminal (screen.h) and fetches no pages (command.c).
 *
 *   line 1            the node, its driver and configuration, when it was read; or why nothing newer came
 *   the next          units and shares (draw.c), events or help, from |scroll| on
 *   the last          what keys do; or the filter, while it is typed
 */
#pragma once

#include "cmd/top/top.h"

/* Keys that are not characters, by ncurses' numbers. */
enum top_key {
        TOP_KEY_NONE = -1, /* time passed */
        TOP_KEY_ENTER = '\n',
        TOP_KEY_ESCAPE = 27,
        TOP_KEY_DELETE = 127,
        TOP_KEY_DOWN = 0402,
        TOP_KEY_UP,
        TOP_KEY_HOME = 0406,
        TOP_KEY_BACKSPACE,
        TOP_KEY_PAGE_DOWN = 0522,
        TOP_KEY_PAGE_UP,
        TOP_KEY_END = 0550,
        TOP_KEY_RESIZE = 0632,
};

#define TOP_FILTER_MAX 128U

struct top_view {
        struct top_wish wish; /* its filter is |filter| */
        char filter[TOP_FILTER_MAX];
        enum { TOP_SHOWS_UNITS, TOP_SHOWS_EVENTS, TOP_SHOWS_HELP } shows;
        bool is_typing;     /* the filter */
        size_t scroll;      /* lines above */
        size_t page_lines;  /* visible at a time, as of the last drawing */
        size_t most_scroll; /* likewise */
        bool wants_page;    /* a newer one is wanted now: the caller sets it back */
        bool is_over;
};

void top_view_init(struct top_view *view, const struct top_wish *wish);

void top_view_key(struct top_view *view, int key);

/*
 * |height| lines of |width| columns at most. |page| is NULL before the first one has come. |trouble|: why no newer page
 * came; NULL: one did.
 */
void top_view_draw(struct top_view *view, struct top_lines *to, const struct node_page *page, const char *trouble,
        unsigned int width, unsigned int height, bool is_utf8);
