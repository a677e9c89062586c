/*
 * Keeps the log of one control daemon small while it is written. Every process that reaches the daemon's socket can
 * make it write to its log (more than 100 MiB a second were seen), so the file is checked whenever it changes. This
 * costs nothing while nobody writes, and at most twenty checks a second.
 *
 * The daemon writes into the file itself, not into a pipe to us: it survives the supervisor, and a pipe without a
 * reader would block it. While no supervisor runs, the size of the file is not bounded.
 */
#pragma once

#include <uv.h>

struct mps_log_watch;

/* |changed| is called shortly after the file at |path| has changed, with a pause between two calls. */
struct mps_log_watch *mps_log_watch_new(uv_loop_t *loop, void (*changed)(void *data), void *data);
/* Watches the present file at this path, instead of the previous one. */
void mps_log_watch_follow(struct mps_log_watch *watch, const char *path);
/* |closed| is called from the loop; |changed| is not called any more. */
void mps_log_watch_close(struct mps_log_watch *watch, void (*closed)(void *data), void *data);
