#include "base/backoff.h"

#include <sys/random.h>
#include <time.h>

#include "base/macro.h"

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
        struct timespec now;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random))
                return random;
        clock_gettime(CLOCK_MONOTONIC, &now); /* shortly after the boot, how long that took is random enough */
        return (uint32_t)now.tv_nsec;
}
