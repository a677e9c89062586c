// SPDX-License-Identifier: Apache-2.0
/* A screen on the terminal, by ncurses: lines out, keys in. */
#pragma once

#include "cmd/top/top.h"

struct top_screen;

/* Takes the terminal. ERROR_NOT_FOUND, ERROR_UNSUPPORTED: ncurses is missing, or does not know the terminal. */
int top_screen_new(struct top_screen **ret, bool has_colours, struct error *err) MUST_USE;
struct top_screen *top_screen_free(struct top_screen *screen); /* gives it back; accepts NULL, returns NULL */

void top_screen_size(const struct top_screen *screen, unsigned int *ret_width, unsigned int *ret_height);
void top_screen_show(const struct top_screen *screen, const struct top_lines *lines);

/* The next key, as top_view_key() takes it; none came within |ms|: TOP_KEY_NONE. */
int top_screen_key(const struct top_screen *screen, unsigned int ms);
