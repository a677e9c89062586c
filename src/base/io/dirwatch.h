// SPDX-License-Identifier: Apache-2.0
/*
 * Notices that the entries of a directory may have changed, for as long as the loop runs: also when the directory does
 * not exist yet, is removed, or is made again.
 *
 * It only hints: |changed| is called after a change was seen, once a turn of the loop, and at every poll as well, since
 * inotify may lose events (overflow, a bind mount replaced). The owner compares what it finds with what it knew (struct
 * file_mark).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

struct dirwatch;

/* |poll_ms| is the period of the fallback; while the directory is missing it is a second at most. */
int dirwatch_new(struct dirwatch **ret, uv_loop_t *loop, const char *directory, uint64_t poll_ms,
        void (*changed)(void *data), void *data, struct error *err) MUST_USE;

/* Stops at once, |changed| is not called again; the memory goes when the loop has closed the handles. Accepts NULL. */
struct dirwatch *dirwatch_close(struct dirwatch *watch);
