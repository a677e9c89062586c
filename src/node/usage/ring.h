/*
 * The last hour of one number, small: the highest value of each minute. Pure; the caller counts the minutes, which
 * never go back.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define USAGE_RING_MINUTES 60U
#define USAGE_RING_NONE UINT32_MAX

/* Zeroed at first. */
struct usage_ring {
        uint64_t minute;                      /* the newest one that has a value */
        uint32_t highest[USAGE_RING_MINUTES]; /* and one more; 0: none */
};

/* |value| is below USAGE_RING_NONE. */
void usage_ring_put(struct usage_ring *ring, uint64_t minute, uint32_t value);

/*
 * The highest value of |minute| and the 59 minutes before it; 0: there was none. |minute| is not before the newest one.
 */
uint32_t usage_ring_peak(const struct usage_ring *ring, uint64_t minute);

/*
 * The values of |minute|, which is the last one, and of the minutes before it, from the first that has a value. Minutes
 * without a value are USAGE_RING_NONE. Returns their number.
 */
size_t usage_ring_read(const struct usage_ring *ring, uint64_t minute, uint32_t ret[USAGE_RING_MINUTES]);
