#include "node/usage/ring.h"

#include <string.h>

#include "base/macro.h"

void usage_ring_put(struct usage_ring *ring, uint64_t minute, uint32_t value)
{
        uint32_t *highest = &ring->highest[minute % USAGE_RING_MINUTES];

        if (minute - ring->minute >= USAGE_RING_MINUTES)
                memset(ring->highest, 0, sizeof(ring->highest));
        for (uint64_t passed = ring->minute + 1; passed <= minute && minute - ring->minute < USAGE_RING_MINUTES;
                passed++)
                ring->highest[passed % USAGE_RING_MINUTES] = 0;
        ring->minute = minute;
        *highest = MAX(*highest, MIN(value, USAGE_RING_NONE - 1) + 1);
}

uint32_t usage_ring_peak(const struct usage_ring *ring, uint64_t minute)
{
        uint32_t peak = 0;

        for (uint64_t age = minute - ring->minute; age < USAGE_RING_MINUTES; age++)
                peak = MAX(peak, ring->highest[(minute - age) % USAGE_RING_MINUTES]);
        return peak ? peak - 1 : 0;
}

size_t usage_ring_read(const struct usage_ring *ring, uint64_t minute, uint32_t ret[USAGE_RING_MINUTES])
{
        const uint64_t age = minute - ring->minute; /* of the newest value */
        size_t count = 0;

        for (uint64_t passed = USAGE_RING_MINUTES; passed-- > 0;) {
                const uint32_t highest =
                        passed < age || passed > minute ? 0 : ring->highest[(minute - passed) % USAGE_RING_MINUTES];

                if (highest || count)
                        ret[count++] = highest ? highest - 1 : USAGE_RING_NONE;
        }
        return count;
}
