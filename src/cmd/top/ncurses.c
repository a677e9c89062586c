#include "cmd/top/ncurses.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "base/macro.h"

int ncurses_load(struct ncurses *ret, struct error *err)
{
        /* In the order of the struct, which has pointers only. */
        static const char *const symbols[] = {"newterm", "delscreen", "endwin", "cbreak", "noecho", "curs_set",
                "set_escdelay", "has_colors", "start_color", "use_default_colors", "init_pair", "keypad", "wtimeout",
                "wgetch", "getmaxx", "getmaxy", "wmove", "waddnstr", "wattrset", "werase", "wrefresh", "stdscr"};
        void *addresses[ARRAY_SIZE(symbols)];
        void *library = dlopen(NCURSES_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

        static_assert(sizeof(addresses) == sizeof(*ret), "one symbol a member");
        if (!library)
                return error_set(err, ERROR_NOT_FOUND, "%s: install libncursesw6, or use --once", dlerror());
        for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
                addresses[i] = dlsym(library, symbols[i]);
                if (!addresses[i])
                        return error_set(
                                err, ERROR_UNSUPPORTED, NCURSES_LIBRARY " has no %s: version 6.1 does", symbols[i]);
        }
        memcpy(ret, addresses, sizeof(*ret));
        return 0;
}
