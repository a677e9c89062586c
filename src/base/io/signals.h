/*
 * The signals that ask a program for something: SIGHUP (look again) and those that end it. A program that serves holds
 * them back from its first line until it listens, so that one that comes early is carried out later, instead of ending
 * the process.
 */
#pragma once

#include <uv.h>

#include "base/error.h"

/*
 * Blocks the signals from now on; threads that are made later keep them blocked. A program that is executed inherits
 * that.
 */
void signals_hold(void);

/* Unblocks the signals: they end the process again, or do what else is set. Those that waited come now. */
void signals_release(void);

struct signals {
        uv_signal_t handles[4];
        size_t count;
};

/* |on_signal| is called for each from the loop, with |data| in the handle; those that waited come now. */
int signals_listen(
        struct signals *signals, uv_loop_t *loop, uv_signal_cb on_signal, void *data, struct error *err) MUST_USE;

/* May be called after signals_listen(), even if that failed, and for a zeroed |signals|. */
void signals_close(struct signals *signals);
