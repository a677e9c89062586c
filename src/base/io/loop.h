// SPDX-License-Identifier: Apache-2.0
/*
 * A loop of libuv: its beginning, and turning it until something has come true, for what does one thing after the
 * other.
 *
 * uv_run(UV_RUN_ONCE) in a while will not do (libuv 1.44): timers that are due run at the beginning of such a turn, and
 * then it waits for a descriptor although one of them has made the condition true. With no other timer that is for
 * ever.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "base/error.h"

/* A process without a loop can do nothing: where the system has no descriptor for one, it says so and ends. */
void loop_init(uv_loop_t *loop);

typedef bool loop_condition_fn(void *data);

/*
 * Whether |is_true| holds in the end: at once, or within |timeout_ms| (0: no limit). It is asked often, and must only
 * look. Two handles are closed in a later turn of the loop.
 */
bool loop_run_until(uv_loop_t *loop, loop_condition_fn *is_true, void *data, uint64_t timeout_ms);

/* ---- closing ---- */

/*
 * Counts what an object still has to close: uv handles, and parts that report their end by a callback. When all of it
 * has closed, a function of the owner runs, which frees the owner.
 *
 * It is embedded in the owner, zeroed at first. A handle may close at any time of the owner's life; the function runs
 * only after closing_end().
 */

struct closing {
        unsigned int n_open; /* what closes now */
        void (*closed)(void *data);
        void *data;
};

/*
 * Closes |handle| (any uv handle). Its data points to |closing| from now on: the callback of a request that this
 * cancels must not look for its owner there.
 */
void closing_close(struct closing *closing, void *handle);

/*
 * Counts a part that reports its end by closing_release(closing); returns |closing|, so that both fit into one call:
 * rpc_server_close(server, grace_ms, closing_release, closing_hold(&owner->closing)).
 */
struct closing *closing_hold(struct closing *closing);
void closing_release(void *closing);

/*
 * Call it once, after the last handle and part: |closed| runs when all of them have closed, at once if there are none.
 * It may free the owner, |closing| included.
 */
void closing_end(struct closing *closing, void (*closed)(void *data), void *data);

/* ---- deferred ---- */

/*
 * Runs a function once at the end of this turn of the loop, however often it is scheduled: after the callbacks of what
 * is ready now, and before the loop waits again. So several changes make one message, and a callback does not run
 * inside of the function that caused it.
 *
 * It is embedded in its owner. While it is scheduled it keeps the loop alive, otherwise it does not.
 */

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

/* ---- signals ---- */

/*
 * The signals that ask a program for something: SIGHUP (look again) and those that end it. A program that serves holds
 * them back from its first line until it listens, so that one that comes early is carried out later, instead of ending
 * the process.
 */

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

/* ---- trying again ---- */

/* Tries again what has failed: after a second, then with a back-off of up to a minute. Embedded in its owner. */
struct retry {
        uv_timer_t timer;
        struct backoff backoff;
};

/* |data|: of the timer that is passed to |callback| of retry_later(). */
void retry_init(struct retry *retry, uv_loop_t *loop, void *data);
void retry_later(struct retry *retry, uv_timer_cb callback);
/* The attempt has succeeded, or is not needed any more. */
void retry_settle(struct retry *retry);
/* The next pause has the first length again; a running pause is not changed. */
void retry_reset(struct retry *retry);
bool retry_has_failed(const struct retry *retry);
void retry_close(struct retry *retry);
