/*
 * Streaming multiprocessors: how many a unit has, in which steps they can be divided, and how many a replica gets under
 * provisioning sm. Pure.
 *
 * Static partitions are made of whole chunks (MPS manual, r590): 8 SMs from compute capability 9.0 on, 4 before. SMs
 * beyond the last whole chunk are not used. If the driver cannot make partitions, percentages give the same shares.
 */
#pragma once

#include "share/plan.h"

/* SMs of one chunk. A GPU without a known compute capability gets the larger one, which is a multiple of the other. */
unsigned int sm_chunk(const struct gpu *gpu);

/* SMs of the GPU or MIG device; 0: unknown. */
unsigned int sm_count(const struct unit *unit);

/* SMs of one replica of |unit|, which is shared: as its entry says, or as many whole chunks as there are for each. */
unsigned int sm_of_replica(const struct unit *unit);

/*
 * The lowest percentage × 10 of |total| that gives at least |sms| after the driver has rounded down; 1000 if |total| is
 * 0.
 */
unsigned int sm_permille(unsigned int sms, unsigned int total);
