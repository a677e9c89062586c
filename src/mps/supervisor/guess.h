/*
 * The settings of a daemon that nobody has on record: its units, which its process sees. Nothing else is known, so it
 * counts as having the wanted settings if it has their units: it is configured when it is adopted. Pure.
 */
#pragma once

#include "plan/mps_wanted.h"

/* False, and no guess: |name| or |units|, a list with commas, is nothing that a supervisor starts a daemon with. */
bool mps_guess(struct mps_daemon_wanted *ret, struct arena *arena, const char *name, const char *units) MUST_USE;
/* Also of one that has been on record since. */
bool mps_guess_is(const struct mps_daemon_wanted *settings);
bool mps_guess_fits(const struct mps_daemon_wanted *guess, const struct mps_daemon_wanted *wanted);
