/*
 * Keeps the log of one control daemon small while it is written. Whoever reaches the daemon's socket makes it write, more than
 * 100 MiB a second were seen: so the file is looked at when it changes, not now and then. It costs nothing while nobody writes, and
 * at most twenty looks a second.
 *
 * The daemon writes into the file itself, not through a pipe into us: it outlives us, and a pipe that nobody reads would
 * stop it. While no supervisor runs, nothing bounds the file.
 */
#pragma once

#include <uv.h>

struct mps_log_watch;

/* |changed| is called some time after the file at |path| has changed; again only after a pause. */
struct mps_log_watch *mps_log_watch_new(uv_loop_t *loop, void (*changed)(void *data), void *data);
/* From now on that file, which is there; instead of the one before. */
void mps_log_watch_follow(struct mps_log_watch *watch, const char *path);
/* |closed| is called from the loop, |changed| never again. */
void mps_log_watch_close(struct mps_log_watch *watch, void (*closed)(void *data), void *data);
