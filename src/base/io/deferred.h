/*
 * Runs a function once at the end of this turn of the loop, however often it is scheduled: after the callbacks of what
 * is ready now, and before the loop waits again. So several changes make one message, and a callback does not run
 * inside of the function that caused it.
 *
 * It is embedded in its owner. While it is scheduled it keeps the loop alive, otherwise it does not.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/io/closing.h"

struct deferred {
        uv_idle_t idle;
        void (*run)(void *data);
        void *data;
};

void deferred_init(struct deferred *deferred, uv_loop_t *loop, void (*run)(void *data), void *data);

/* Out of |run| itself: it runs again in the next turn, after what is ready then. Nothing after deferred_close(). */
void deferred_schedule(struct deferred *deferred);

bool deferred_is_scheduled(const struct deferred *deferred);

/* Runs it now if it is scheduled, and then not at the end of the turn. */
void deferred_flush(struct deferred *deferred);

/* Cancels it. |closing| counts its handle. May be called out of |run|. */
void deferred_close(struct deferred *deferred, struct closing *closing);
