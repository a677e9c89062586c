/*
 * Restarts the agent in the same process: execve() of the same program with the same arguments. The process id stays,
 * so the container does not restart, and all libraries are loaded again. That is needed when the driver's library was
 * replaced on disk.
 *
 * If a restart does not help, the agent must not restart in a loop. The environment tells the next process how many
 * restarts there were in a row and when the last one was. The wait before the next one doubles, from a minute to an
 * hour: one restart at once, the next after 1, 2, 4 … minutes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define RESTART_VARIABLE "WARPSHARE_RESTARTED"

struct restart {
        unsigned int count; /* how many in a row; 0: this is the first start */
        int64_t at_s;       /* when the last one was, in seconds since boot */
};

/* Reads the value of RESTART_VARIABLE; |mark| NULL or invalid: this is the first start. Pure. */
struct restart restart_read(const char *mark);

/* How many seconds the next restart has to wait, from |now_s| on; 0: it may be now. Pure. */
int64_t restart_wait(const struct restart *last, int64_t now_s);

/* The mark for the next process, which restart_read() reads. Pure; the caller frees. */
char *restart_mark(const struct restart *last, int64_t now_s);

int64_t restart_clock(void);

/*
 * Returns only after an error. Closes all descriptors above standard error, also those that the driver opened. Call
 * signals_hold() (io/signals.h) before: until the new process listens, signals would be lost.
 */
int restart_now(const struct restart *last, struct error *err) MUST_USE;
