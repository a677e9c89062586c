/*
 * Counts what an object still has to close: uv handles, and parts that report their end by a callback. When all of it
 * has closed, a function of the owner runs, which frees the owner.
 *
 * It is embedded in the owner, zeroed at first. A handle may close at any time of the owner's life; the function runs
 * only after closing_end().
 */
#pragma once

#include <uv.h>

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
