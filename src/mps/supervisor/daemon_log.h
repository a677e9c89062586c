/*
 * The log of one control daemon, control.log: keeps it small while it is written, and reads the last words of a process
 * in it. Every process that reaches the daemon's socket can make it write to its log (more than 100 MiB a second were
 * seen), so the file is checked whenever it changes, at most twenty times a second.
 *
 * The daemon writes into the file itself, not into a pipe to us: it survives the supervisor, and a pipe without a
 * reader would block it. While no supervisor runs, the size of the file is not bounded.
 */
#pragma once

#include <uv.h>

#include "base/io/loop.h"
#include "mps/supervisor/folder.h"

struct daemon_log;

/* |flooded| is called when the log was cut twice within a minute. */
struct daemon_log *daemon_log_new(
        uv_loop_t *loop, const struct mps_folder *folder, void (*flooded)(void *data), void *data);
/* The log of a process that starts now, or runs: watches the present file, and remembers its size. */
void daemon_log_follow(struct daemon_log *log);
/* The last line that the process printed, for messages; the caller frees. */
char *daemon_log_last_words(const struct daemon_log *log);
/* |flooded| is not called any more. */
void daemon_log_close(struct daemon_log *log, struct closing *closing);
