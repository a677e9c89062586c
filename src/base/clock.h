// SPDX-License-Identifier: Apache-2.0
/*
 * Time: its two clocks, and how long to wait before the next attempt.
 */
#pragma once

#include <stdint.h>

/* Since some moment before the boot ended (CLOCK_MONOTONIC): for how long something takes. */
uint64_t clock_now_ms(void);

/* Microseconds since 1970 (CLOCK_REALTIME), which an admin may set back: for dates. */
int64_t clock_unix_us(void);

/* ---- backoff ---- */

/*
 * Computes the wait before the next attempt: it doubles from attempt to attempt, up to a limit, and each time a random
 * part of up to half is subtracted, so that the nodes of a cluster do not retry at the same moment. A wait that the
 * server asks for is the same for all of them, so a random part of up to half is added to it. Pure but
 * for backoff_random().
 */

struct backoff {
        uint64_t least_ms; /* before the second attempt, at least 1 */
        uint64_t most_ms;
        unsigned int failures; /* in a row; set it to 0 to start again */
};

#define BACKOFF_ASKED_LIMIT_MS UINT64_C(600000) /* of what the server asks for */

/*
 * Counts a failure and returns the wait after it: at least |asked_ms|, the wait that the server asked for (0: none),
 * which is cut to its limit.
 */
uint64_t backoff_next(struct backoff *backoff, uint64_t asked_ms, uint32_t random);

/* A number to pass to it: of the kernel, also before its pool is filled. */
uint32_t backoff_random(void);
