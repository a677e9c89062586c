/*
 * How long to wait before the next attempt: doubled from one to the next, up to a limit, each time shortened by chance by up to half, so
 * that the nodes of a cluster do not come back in step. Pure: the random number is given.
 */
#pragma once

#include <stdint.h>

struct backoff {
        uint64_t least_ms; /* of the first attempt, at least 1 */
        uint64_t most_ms;
        unsigned int failures; /* so far; 0 begins anew */
};

#define BACKOFF_ASKED_LIMIT_MS UINT64_C(600000) /* longer is not believed */

/*
 * Counts a failure, and returns how long to wait after it: never less than |asked_ms|, which the server named (0: nothing), as far as that
 * is believed.
 */
uint64_t backoff_next(struct backoff *backoff, uint64_t asked_ms, uint32_t random);
