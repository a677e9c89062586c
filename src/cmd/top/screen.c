// SPDX-License-Identifier: Apache-2.0
#include "cmd/top/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "cmd/top/view.h"

/*
 * ncurses, loaded when a screen is wanted: no other command has its start and its memory. What is used of it is
 * declared here, as ABI 6 of libncursesw has it (curses.h of ncurses 6.4, Debian 12), so that nothing has to be
 * installed for a build: docs/decisions/0003-ncurses.md.
 */
struct _win_st;
struct screen;

/* Bits of an attribute; colours count from 0, black, and are pairs that ncurses_init_pair() made. */
#define NCURSES_REVERSE (1 << 18)
#define NCURSES_DIM (1 << 20)
#define NCURSES_BOLD (1 << 21)
#define NCURSES_PAIR(number) ((number) << 8)
enum { NCURSES_RED = 1, NCURSES_GREEN = 2, NCURSES_YELLOW = 3 };

struct ncurses {
        struct screen *(*newterm)(const char *type, FILE *out, FILE *in); /* NULL: the terminal's type is not known */
        void (*delscreen)(struct screen *screen);
        int (*endwin)(void);
        int (*cbreak)(void);
        int (*noecho)(void);
        int (*curs_set)(int visibility);
        int (*set_escdelay)(int ms);
        bool (*has_colors)(void);
        int (*start_color)(void);
        int (*use_default_colors)(void);
        int (*init_pair)(short pair, short foreground, short background);
        int (*keypad)(struct _win_st *window, bool is_on);
        void (*wtimeout)(struct _win_st *window, int ms);
        int (*wgetch)(struct _win_st *window); /* -1: the time is over */
        int (*getmaxx)(const struct _win_st *window);
        int (*getmaxy)(const struct _win_st *window);
        int (*wmove)(struct _win_st *window, int line, int column);
        int (*waddnstr)(struct _win_st *window, const char *text, int size);
        int (*wattrset)(struct _win_st *window, int attributes);
        int (*werase)(struct _win_st *window);
        int (*wrefresh)(struct _win_st *window);
        struct _win_st **stdscr; /* set by newterm() */
};

/* ncurses sees a terminal that changed its size just before the wait for a key only when that wait is over. */
#define RESIZE_MS 1000U

#define SYMBOL(name) LIBRARY_SYMBOL(struct ncurses, name, #name)

static const struct library_symbol symbols[] = {
        SYMBOL(newterm),
        SYMBOL(delscreen),
        SYMBOL(endwin),
        SYMBOL(cbreak),
        SYMBOL(noecho),
        SYMBOL(curs_set),
        SYMBOL(set_escdelay),
        SYMBOL(has_colors),
        SYMBOL(start_color),
        SYMBOL(use_default_colors),
        SYMBOL(init_pair),
        SYMBOL(keypad),
        SYMBOL(wtimeout),
        SYMBOL(wgetch),
        SYMBOL(getmaxx),
        SYMBOL(getmaxy),
        SYMBOL(wmove),
        SYMBOL(waddnstr),
        SYMBOL(wattrset),
        SYMBOL(werase),
        SYMBOL(wrefresh),
        SYMBOL(stdscr),
};

static const struct library ncurses = {
        .files = {"libncursesw.so.6"},
        .needs = "ncurses 6.1",
        .remedy = "install libncursesw6, or use --once",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

struct top_screen {
        struct ncurses curses;
        struct screen *screen;
        struct _win_st *window;
        bool has_colours;
};

int top_screen_new(struct top_screen **ret, bool has_colours, struct error *err)
{
        struct top_screen *screen = xcalloc(1, sizeof(*screen));
        struct ncurses *curses = &screen->curses;

        if (library_load(&ncurses, curses, err) < 0) {
                free(screen);
                return -1;
        }
        screen->screen = curses->newterm(NULL, stdout, stdin);
        if (!screen->screen) {
                free(screen);
                return error_set(err, ERROR_UNSUPPORTED, "the type of this terminal is not known: TERM");
        }
        screen->window = *curses->stdscr;
        curses->cbreak();
        curses->noecho();
        curses->curs_set(0);
        curses->set_escdelay(25);
        curses->keypad(screen->window, true);
        screen->has_colours = has_colours && curses->has_colors();
        if (screen->has_colours) {
                curses->start_color();
                curses->use_default_colors();
                for (int colour = NCURSES_RED; colour <= NCURSES_YELLOW; colour++)
                        curses->init_pair((short)colour, (short)colour, -1);
        }
        *ret = screen;
        return 0;
}

struct top_screen *top_screen_free(struct top_screen *screen)
{
        if (screen) {
                screen->curses.endwin();
                screen->curses.delscreen(screen->screen);
                free(screen);
        }
        return NULL;
}

void top_screen_size(const struct top_screen *screen, unsigned int *ret_width, unsigned int *ret_height)
{
        *ret_width = (unsigned int)screen->curses.getmaxx(screen->window);
        *ret_height = (unsigned int)screen->curses.getmaxy(screen->window);
}

static int attributes(const struct top_screen *screen, enum top_tint tint)
{
        switch (tint) {
        case TOP_BOLD:
                return NCURSES_BOLD;
        case TOP_DIM:
                return NCURSES_DIM;
        case TOP_REVERSE:
                return NCURSES_REVERSE;
        case TOP_GREEN:
                return screen->has_colours ? NCURSES_PAIR(NCURSES_GREEN) : 0;
        case TOP_YELLOW:
                return screen->has_colours ? NCURSES_PAIR(NCURSES_YELLOW) : 0;
        case TOP_RED:
                return screen->has_colours ? NCURSES_PAIR(NCURSES_RED) : NCURSES_BOLD;
        default:
                return 0;
        }
}

void top_screen_show(const struct top_screen *screen, const struct top_lines *lines)
{
        const struct ncurses *curses = &screen->curses;

        curses->werase(screen->window);
        for (size_t i = 0; i < lines->n_lines; i++) {
                curses->wmove(screen->window, (int)i, 0);
                for (size_t j = 0; j < lines->lines[i].n_spans; j++) {
                        curses->wattrset(screen->window, attributes(screen, lines->lines[i].spans[j].tint));
                        curses->waddnstr(screen->window, lines->lines[i].spans[j].text, -1);
                }
        }
        curses->wattrset(screen->window, 0);
        curses->wrefresh(screen->window);
}

int top_screen_key(const struct top_screen *screen, unsigned int ms)
{
        int key;

        do {
                const unsigned int wait_ms = MIN(ms, RESIZE_MS);

                screen->curses.wtimeout(screen->window, (int)wait_ms);
                key = screen->curses.wgetch(screen->window);
                ms -= wait_ms;
        } while (key == TOP_KEY_NONE && ms > 0);
        return key;
}
