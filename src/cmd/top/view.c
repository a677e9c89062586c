// SPDX-License-Identifier: Apache-2.0
#include "cmd/top/view.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const char *const sort_names[TOP_SORTS] = {"memory", "sm", "peak", "pod"};
static const char *const amount_names[TOP_AMOUNTS] = {"auto", "MiB", "GiB"};

void top_view_init(struct top_view *view, const struct top_wish *wish)
{
        *view = (struct top_view){.wish = *wish};
        strncpy(view->filter, wish->filter, sizeof(view->filter) - 1);
        view->wish.filter = view->filter;
}

/* ---- keys ---- */

static void type(struct top_view *view, int key)
{
        const size_t length = strlen(view->filter);

        if (key == TOP_KEY_ESCAPE)
                view->filter[0] = '\0';
        if (key == TOP_KEY_ENTER || key == '\r' || key == TOP_KEY_ESCAPE)
                view->is_typing = false;
        else if ((key == TOP_KEY_BACKSPACE || key == TOP_KEY_DELETE || key == '\b') && length)
                view->filter[length - 1] = '\0';
        else if (key > ' ' && key < TOP_KEY_DELETE && length + 1 < sizeof(view->filter))
                view->filter[length] = (char)key;
}

static void show(struct top_view *view, unsigned int what)
{
        view->shows = view->shows == what ? TOP_SHOWS_UNITS : what;
        view->scroll = 0;
}

static void scroll_down(struct top_view *view, size_t lines)
{
        view->scroll = MIN(view->scroll + lines, view->most_scroll);
}

static void scroll_up(struct top_view *view, size_t lines)
{
        view->scroll -= MIN(view->scroll, lines);
}

void top_view_key(struct top_view *view, int key)
{
        struct top_wish *wish = &view->wish;

        if (key == TOP_KEY_NONE)
                return;
        if (view->is_typing) {
                view->scroll = 0;
                type(view, key);
                return;
        }
        switch (key) {
        case 'q':
                view->is_over = true;
                break;
        case TOP_KEY_ESCAPE:
                view->shows = TOP_SHOWS_UNITS;
                view->scroll = 0;
                break;
        case 'h':
        case '?':
                show(view, TOP_SHOWS_HELP);
                break;
        case 'e':
                show(view, TOP_SHOWS_EVENTS);
                break;
        case 's':
                wish->sort = (wish->sort + 1) % TOP_SORTS;
                break;
        case 'r':
                wish->is_reversed = !wish->is_reversed;
                break;
        case 'u':
                wish->amounts = (wish->amounts + 1) % TOP_AMOUNTS;
                break;
        case '/':
                view->shows = TOP_SHOWS_UNITS;
                view->is_typing = true;
                break;
        case 'p':
                wish->has_processes = !wish->has_processes;
                view->wants_page = true;
                break;
        case 'l':
                wish->has_history = !wish->has_history;
                view->wants_page = true;
                break;
        case ' ':
                view->wants_page = true;
                break;
        case TOP_KEY_DOWN:
        case 'j':
                scroll_down(view, 1);
                break;
        case TOP_KEY_UP:
        case 'k':
                scroll_up(view, 1);
                break;
        case TOP_KEY_PAGE_DOWN:
                scroll_down(view, view->page_lines);
                break;
        case TOP_KEY_PAGE_UP:
                scroll_up(view, view->page_lines);
                break;
        case TOP_KEY_HOME:
                view->scroll = 0;
                break;
        case TOP_KEY_END:
                view->scroll = view->most_scroll;
                break;
        default:
                break;
        }
}

/* ---- drawing ---- */

static const char *clock_of(struct arena *arena, double seconds)
{
        const time_t whole = isnan(seconds) ? 0 : (time_t)seconds;
        struct tm time;

        if (isnan(seconds) || !gmtime_r(&whole, &time))
                return "-";
        return arena_printf(arena, "%02d:%02d:%02d UTC", time.tm_hour, time.tm_min, time.tm_sec);
}

static void draw_head(struct top_lines *to, const struct node_page *page, const char *trouble)
{
        struct top_line *line = top_line_add(to);

        top_span_add(to, line, TOP_BOLD, "%s", page && page->node ? page->node : "this node");
        if (page && page->driver)
                top_span_add(to, line, TOP_DIM, "  driver %s", page->driver);
        if (page && page->configuration)
                top_span_add(to, line, TOP_DIM, "  configuration %s", page->configuration);
        if (page)
                top_span_add(
                        to, line, TOP_DIM, "  %s%s", clock_of(to->arena, page->time), page->agent ? "" : ", no agent");
        if (trouble)
                top_span_add(to, line, TOP_RED, "  %s", trouble);
}

static void draw_events(struct top_lines *to, const struct node_page *page)
{
        if (page->n_events == 0)
                top_span_add(to, top_line_add(to), TOP_DIM, "nothing has happened since the agent began to serve");
        for (size_t i = page->n_events; i-- > 0;) {
                const struct report_event *event = &page->events[i];
                struct top_line *line = top_line_add(to);
                const bool is_warning = event->kind && strcmp(event->kind, "Warning") == 0;

                top_span_add(to, line, TOP_DIM, "%s  ", clock_of(to->arena, event->time));
                top_span_add(
                        to, line, is_warning ? TOP_YELLOW : TOP_GREEN, "%s  ", event->reason ? event->reason : "-");
                top_span_add(to, line, TOP_PLAIN, "%s", event->text ? event->text : "");
        }
}

static void draw_help(struct top_lines *to)
{
        static const char *const rows[][2] = {
                {"q", "quit"},
                {"up, down, page up, page down, home, end", "move"},
                {"s", "order of the pods: memory, sm, peak, pod"},
                {"r", "the other way round"},
                {"/", "only pods whose namespace/pod/container contains a text; Enter keeps it, Escape drops it"},
                {"p", "processes of each share"},
                {"l", "the last hour: of each GPU a character a minute, of each pod one for five minutes"},
                {"u", "amounts of memory: what fits, MiB, GiB"},
                {"e", "what happened on the node"},
                {"space", "look again now"},
                {"h, ?", "this page"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct top_line *line = top_line_add(to);

                top_span_add(to, line, TOP_BOLD, "  %s", rows[i][0]);
                top_span_add(to, line, TOP_PLAIN, "  %s", rows[i][1]);
        }
        top_span_add(to, top_line_add(to), TOP_DIM,
                "  A pod is yellow from 75 %% of its memory limit on, and red from 90 %%. \"-\" is not known.");
}

static void draw_units(const struct top_view *view, struct top_lines *to, const struct node_page *page,
        unsigned int width, bool is_utf8)
{
        struct top top;

        top_make(&top, to->arena, page, &view->wish);
        if (top.n_units == 0)
                top_span_add(
                        to, top_line_add(to), TOP_PLAIN, "%s", *view->filter ? "no such pod" : "no GPU is known here");
        top_draw(to, &top, &view->wish, width, is_utf8);
        if (page->owners_unknown)
                top_span_add(to, top_line_add(to), TOP_DIM, "%s", page->owners_unknown);
}

static void draw_foot(const struct top_view *view, struct top_lines *to)
{
        struct top_line *line = top_line_add(to);

        if (view->is_typing) {
                top_span_add(to, line, TOP_REVERSE, "/%s", view->filter);
                return;
        }
        top_span_add(to, line, TOP_REVERSE, "q quit  h help  s sort: %s%s  u units: %s  ", sort_names[view->wish.sort],
                view->wish.is_reversed ? " (r)" : "", amount_names[view->wish.amounts]);
        top_span_add(to, line, TOP_REVERSE, "/ filter%s%s  p processes  l last hour  e events",
                *view->filter ? ": " : "", view->filter);
}

void top_view_draw(struct top_view *view, struct top_lines *to, const struct node_page *page, const char *trouble,
        unsigned int width, unsigned int height, bool is_utf8)
{
        struct top_lines body = {.arena = to->arena};

        if (view->shows == TOP_SHOWS_HELP)
                draw_help(&body);
        else if (page && view->shows == TOP_SHOWS_EVENTS)
                draw_events(&body, page);
        else if (page)
                draw_units(view, &body, page, width, is_utf8);
        view->page_lines = height > 2 ? height - 2 : 0;
        view->most_scroll = body.n_lines > view->page_lines ? body.n_lines - view->page_lines : 0;
        view->scroll = MIN(view->scroll, view->most_scroll);
        if (height == 0)
                return;
        draw_head(to, page, trouble);
        for (size_t i = 0; i < view->page_lines && view->scroll + i < body.n_lines; i++)
                *top_line_add(to) = body.lines[view->scroll + i];
        while (to->n_lines < height - 1)
                top_line_add(to);
        if (height > 1)
                draw_foot(view, to);
        top_lines_cut(to, width);
}
