/*
 * Starting anew in the same process: the same program with the same arguments, by execve. The process id stays, so a container
 * does not restart, and everything that was loaded goes: what a driver's library that was replaced on disk needs.
 *
 * A restart that does not help must not become a loop. Each process hands the next one, in the environment, how many restarts
 * there were in a row and when the last one was; the wait before another one doubles, from a minute to an hour.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define RESTART_VARIABLE "WARPSHARE_RESTARTED"

struct restart {
        unsigned int count; /* in a row; 0: this is the first start */
        int64_t at_s;       /* of the last one, by the clock of the machine since boot */
};

/* Of the value of RESTART_VARIABLE, or NULL. What cannot be read counts as a first start. Pure. */
struct restart restart_read(const char *mark);

/* Seconds from |now_s| until the next restart may be; 0: now. Pure. */
int64_t restart_wait(const struct restart *last, int64_t now_s);

/* The next mark: what restart_read() reads. Pure; the caller frees. */
char *restart_mark(const struct restart *last, int64_t now_s);

int64_t restart_clock(void);

/* Does not return but for an error. Descriptors above standard error are closed, also those that the driver opened. Signals are to be held
 * before (io/signals.h): nobody listens until the new process does. */
int restart_now(const struct restart *last, struct error *err) MUST_USE;
