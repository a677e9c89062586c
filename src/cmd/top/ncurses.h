/*
 * ncurses, loaded when a screen is wanted: no other command has its start and its memory. What is used of it is
 * declared here, as ABI 6 of libncursesw has it (curses.h of ncurses 6.4, Debian 12), so that nothing has to be
 * installed for a build: docs/decisions/0003-ncurses.md.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

#define NCURSES_LIBRARY "libncursesw.so.6"

struct _win_st;
struct screen;

/* Of an attribute; colours count from 0, black, and are pairs that ncurses_init_pair() made. */
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

/* ERROR_NOT_FOUND where it is not installed. The library stays for good. */
int ncurses_load(struct ncurses *ret, struct error *err) MUST_USE;
