// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <sys/random.h>
#include <time.h>

#include "base/macro.h"

static struct timespec read_clock(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return now;
}

uint64_t clock_now_ms(void)
{
        const struct timespec now = read_clock(CLOCK_MONOTONIC);

        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t clock_unix_us(void)
{
        const struct timespec now = read_clock(CLOCK_REALTIME);

        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- backoff ---- */

uint64_t backoff_next(struct backoff *backoff, uint64_t asked_ms, uint32_t random)
{
        uint64_t wait = MIN(backoff->least_ms, backoff->most_ms);
        uint64_t asked = MIN(asked_ms, BACKOFF_ASKED_LIMIT_MS);
        uint64_t chance;

        for (unsigned int i = 0; i < backoff->failures && wait < backoff->most_ms; i++)
                wait = MIN(wait * 2, backoff->most_ms);
        backoff->failures++;
        chance = MAX(wait, asked) / 2;
        return MAX(wait - wait / 2, asked) + chance - chance * random / UINT32_MAX;
}

uint32_t backoff_random(void)
{
        uint32_t random;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random))
                return random;
        return (uint32_t)read_clock(CLOCK_MONOTONIC).tv_nsec; /* random enough: how long the boot took */
}
