#include "cmd/top/screen.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cmd/top/ncurses.h"

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

        if (ncurses_load(curses, err) < 0) {
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
        screen->curses.wtimeout(screen->window, (int)ms);
        return screen->curses.wgetch(screen->window);
}
