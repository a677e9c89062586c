/*
 * Streaming multiprocessors: how many a unit has, in which steps they can be given away, and how many a replica gets under
 * provisioning sm. Pure.
 *
 * Static partitions are made of whole chunks (MPS manual, r590): 8 SMs from compute capability 9.0 on, 4 before. SMs beyond
 * the last whole chunk are nobody's. Shares are the same where the driver cannot make partitions and percentages stand in.
 */
#pragma once

#include "share/plan.h"

/* SMs of one chunk. A GPU that does not tell its compute capability has the larger one, which is a multiple of the other. */
unsigned int sm_chunk(const struct gpu *gpu);

/* SMs of the GPU or MIG device; 0 unknown. */
unsigned int sm_count(const struct unit *unit);

/* SMs of one replica of |unit|, which is shared: what its entry says, or as many whole chunks as there are for each. */
unsigned int sm_of_replica(const struct unit *unit);

/* The least percentage × 10 of |total| that is at least |sms| of it, once the driver has rounded it down; of 0, 1000. */
unsigned int sm_permille(unsigned int sms, unsigned int total);
