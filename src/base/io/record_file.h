// SPDX-License-Identifier: Apache-2.0
/*
 * A file with the state of its owner, for the next process that does the owner's work. Only root reads it. When it
 * cannot be written, the first failure and each with another text are logged, and the owner is asked to write it again:
 * after a second, then with a back-off of up to a minute, until that succeeds.
 *
 * The owner makes the text: it knows when its state has changed, and by the time of the next attempt it may have
 * changed again.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/error.h"
#include "base/io/loop.h"

struct record_file_options {
        const char *path;                /* not copied, as |failure| */
        const char *failure;             /* what is logged: "the allocation record cannot be written, will try again" */
        void (*write_again)(void *data); /* calls record_file_write() */
        void *data;
};

struct record_file {
        struct record_file_options options;
        uv_timer_t retry; /* active while the file is behind its owner, until record_file_close() */
        struct backoff backoff;
        struct complaint complaint;
};

void record_file_init(struct record_file *file, uv_loop_t *loop, const struct record_file_options *options);

/*
 * Replaces the file's content as a whole (file_write_private()). On failure it has logged the error and arranged for
 * the retry; |err| is for an owner that must not continue without the record.
 */
int record_file_write(struct record_file *file, const char *text, struct error *err) MUST_USE;

/* The newest attempt to write it has failed. */
bool record_file_has_failed(const struct record_file *file);

/* No retry after this; a last record_file_write() is still possible. */
void record_file_close(struct record_file *file, struct closing *closing);
