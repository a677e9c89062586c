/*
 * Finds the best set of a partition, exactly, for up to 16 whole units; used by plan/prefer_links.h. Numbers only.
 *
 * NVIDIA's go-gpuallocator ("best effort") considers the whole node: it divides the available units into sets of the
 * wanted size (and one smaller set for a remainder) such that the sum of the scores of all pairs within the sets is
 * highest, and answers with the best set of that partition. It tries all partitions, 2 million for 16 units in pairs
 * and 22 million in threes. Here the same maximum comes from dynamic programming over subsets: the best partition of
 * some units is, over all sets that hold the first of them, that set and the best partition of the others. A million
 * steps at most.
 *
 * Of all sets that some best partition has: the highest own score, the lowest score of the pairs that it breaks, the
 * fewest NUMA nodes, the lowest units.
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

/* The set, as bits; the highest bit is the lowest unit. Needs 10 bytes << n of memory while it runs. */
uint32_t partition_choose(const struct partition *partition);
