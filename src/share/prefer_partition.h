/*
 * The best set of a partition: the exact choice behind share/prefer_links.h, for up to 16 whole units. Numbers only.
 *
 * NVIDIA's go-gpuallocator ("best effort") looks at a whole node: it divides what is available into sets of the wanted size,
 * one smaller set if there is a remainder, so that the sum over all sets of the scores of the pairs in them is the highest, and
 * answers with the best set of that partition. It tries all partitions, 2 million for 16 units in pairs and 22 million in
 * threes. Here the same maximum comes from dynamic programming over subsets: the best partition of some units is, over all
 * sets that hold the first of them, that set and the best partition of the others. A million steps at most.
 *
 * Of all sets that some best partition has: the highest own score, the lowest score of the pairs that it breaks, the fewest
 * NUMA nodes, the lowest units.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PARTITION_MAX 16
#define PARTITION_MAX_PAIR 186 /* the highest score of a pair */

struct partition {
        size_t n;                                    /* units, at most PARTITION_MAX */
        size_t size;                                 /* of a set; 2 ≤ size ≤ n */
        uint32_t required;                           /* bits: the units that the answer must have; at most |size| */
        uint8_t pairs[PARTITION_MAX][PARTITION_MAX]; /* scores, symmetric; zero on the diagonal */
        uint8_t nodes[PARTITION_MAX];                /* NUMA node of each unit, numbered from 0 to 15 */
};

/* The set, as bits. The unit of the highest bit counts as the lowest one. Meanwhile it needs 10 bytes << n. */
uint32_t partition_choose(const struct partition *partition);
