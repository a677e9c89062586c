#include "plan/prefer_partition.h"

#include <assert.h>
#include <stdbool.h>

#include "base/alloc.h"

/*
 * Two values are stored for a set of units: the score of its best partition, and the rank of the best set in any such
 * partition. The rank is one number, the greater the better, of these parts, the most significant first: own score,
 * score of the pairs that the set leaves alone, NUMA nodes that it does without, and the set itself, whose highest bit
 * is the lowest unit.
 */
#define SET_BITS PARTITION_MAX
#define NODES_BITS 4
#define SPARED_BITS 14
#define NODES_SHIFT SET_BITS
#define SPARED_SHIFT (NODES_SHIFT + NODES_BITS)
#define OWN_SHIFT (SPARED_SHIFT + SPARED_BITS)
#define SET_MASK ((1U << SET_BITS) - 1)
#define BROKEN_MAX ((1U << SPARED_BITS) - 1)

/*
 * Every pair scores one more than it should. This does not change the order, since all partitions have the same number
 * of pairs, and a score of 0 can then mean "not computed yet".
 */
#define EXTRA 1U
#define MOST (PARTITION_MAX_PAIR + EXTRA)

_Static_assert(PARTITION_MAX *(PARTITION_MAX - 1) / 2 * MOST <= UINT16_MAX, "the score of all pairs is 16 bits");
_Static_assert(PARTITION_MAX / 2 * (PARTITION_MAX / 2) * MOST <= BROKEN_MAX, "the pairs that a set breaks fit");
_Static_assert(PARTITION_MAX <= 1 << NODES_BITS, "so do the nodes, of which a set has at least one");
_Static_assert(PARTITION_MAX_PAIR <= UINT8_MAX, "a pair is a byte");

struct solver {
        const struct partition *partition;
        uint32_t rows[PARTITION_MAX]; /* score of a unit's pairs with all others */
        uint16_t *scores;             /* of the best partition, by set; 0: unknown, or a single unit, or none */
        uint64_t *ranks;              /* by set; 0: no subset can be the answer */
        uint64_t best_rank;           /* the score of all pairs */
        uint32_t most_full;           /* the highest score of a set of the wanted size */
        uint32_t most_small;          /* and of the smaller set */
};

/* The best partition found so far. */
struct found {
        uint32_t score;
        uint64_t rank;
};

/* ---- sets ---- */

struct sums {
        uint32_t own;   /* score of the pairs in the set */
        uint32_t rows;  /* of its units */
        uint32_t nodes; /* as bits */
};

static struct sums sums_with(const struct solver *solver, const struct sums *sums, uint32_t set, size_t unit)
{
        struct sums more = {.own = sums->own,
                .rows = sums->rows + solver->rows[unit],
                .nodes = sums->nodes | 1U << solver->partition->nodes[unit]};

        for (; set; set &= set - 1)
                more.own += solver->partition->pairs[unit][__builtin_ctz(set)] + EXTRA;
        return more;
}

static uint64_t partition_rank(uint32_t set, const struct sums *sums)
{
        uint64_t spared = BROKEN_MAX - (sums->rows - 2 * sums->own);
        uint64_t nodes_spared = (uint64_t)(PARTITION_MAX - __builtin_popcount(sums->nodes));

        return (uint64_t)sums->own << OWN_SHIFT | spared << SPARED_SHIFT | nodes_spared << NODES_SHIFT | set;
}

static void value_set(struct solver *solver, uint32_t set, const struct sums *sums)
{
        bool is_small = (size_t)__builtin_popcount(set) < solver->partition->size;
        uint32_t *most = is_small ? &solver->most_small : &solver->most_full;

        solver->scores[set] = (uint16_t)sums->own;
        *most = MAX(*most, sums->own);
        /* Only sets of the wanted size with all required units can be the answer. */
        if (is_small || solver->partition->required & ~set)
                return;
        solver->ranks[set] = partition_rank(set, sums);
        solver->best_rank = MAX(solver->best_rank, solver->ranks[set]);
}

/* Computes the values of all sets that contain |set| (with |sums|) and |missing| units of |free|. */
static void value_sets(struct solver *solver, uint32_t set, uint32_t free, size_t missing, const struct sums *sums)
{
        if (missing == 0) {
                value_set(solver, set, sums);
                return;
        }
        for (size_t left = (size_t)__builtin_popcount(free); left >= missing; left--) {
                uint32_t unit = free & -free;
                struct sums more = sums_with(solver, sums, set, (size_t)__builtin_ctz(unit));

                free ^= unit;
                value_sets(solver, set | unit, free, missing - 1, &more);
        }
}

/* ---- partitions ---- */

static void solve(struct solver *solver, uint32_t units);

/* No partition of this many units has a higher score. */
static uint32_t limit_of(const struct solver *solver, size_t count)
{
        size_t size = solver->partition->size;

        return (uint32_t)(count / size) * solver->most_full + (count % size ? solver->most_small : 0);
}

/* False: no partition with |set| and any part of |rest| can be better than |best|. */
static bool is_worth_it(const struct solver *solver, uint32_t set, uint32_t rest, const struct found *best)
{
        uint32_t limit = solver->scores[set] + limit_of(solver, (size_t)__builtin_popcount(rest));

        return limit > best->score || (limit == best->score && best->rank < solver->best_rank);
}

/* Tries one more partition: |set|, and the best partition of |rest|. */
static inline void partition_try(struct solver *solver, uint32_t set, uint32_t rest, struct found *best)
{
        uint32_t score;
        uint64_t rank;

        if (solver->scores[rest] == 0) {
                if (!is_worth_it(solver, set, rest, best))
                        return;
                solve(solver, rest);
        }
        score = (uint32_t)solver->scores[set] + solver->scores[rest];
        if (score < best->score)
                return;
        rank = MAX(solver->ranks[set], solver->ranks[rest]);
        if (score == best->score && rank <= best->rank)
                return;
        best->score = score;
        best->rank = rank;
}

/*
 * Converts a number whose bits count the units of a set into the units, by its lower and upper bits. The lowest bit is
 * the highest unit: small numbers are sets of adjacent units, and the sooner a good partition is found, the fewer sets
 * are tried.
 */
struct spread {
        uint32_t low[1U << PARTITION_MAX / 2];
        uint32_t high[1U << PARTITION_MAX / 2];
};

static uint32_t spread_half(uint32_t *table, uint32_t units, size_t n)
{
        table[0] = 0;
        for (size_t i = 0; i < n; i++) {
                uint32_t unit = 1U << (31 - __builtin_clz(units));

                units ^= unit;
                for (uint32_t number = 0; number < 1U << i; number++)
                        table[number | 1U << i] = table[number] | unit;
        }
        return units;
}

/* The next number with the same count of bits. */
static uint32_t next_number(uint32_t number)
{
        uint32_t ripple = number + (number & -number);

        return ripple | (number ^ ripple) >> (2 + __builtin_ctz(number));
}

/* Tries all partitions of |units| with a set that contains |set| and |missing| of the |n_free| units in |free|. */
static void partition_complete(
        struct solver *solver, uint32_t units, uint32_t set, uint32_t free, size_t missing, struct found *best)
{
        struct spread spread;
        size_t n_free = (size_t)__builtin_popcount(free);
        size_t n_low = n_free / 2;
        uint32_t low_mask = (1U << n_low) - 1;

        if (missing == 0) {
                partition_try(solver, set, units ^ set, best);
                return;
        }
        spread_half(spread.high, spread_half(spread.low, free, n_low), n_free - n_low);
        for (uint32_t number = (1U << missing) - 1; number < 1U << n_free; number = next_number(number)) {
                uint32_t full = set | spread.low[number & low_mask] | spread.high[number >> n_low];

                partition_try(solver, full, units ^ full, best);
        }
}

/*
 * |units| are a multiple of the size, plus the remainder while the smaller set is among them. Up to the size of a set,
 * the score is that of the set, even if it is 0.
 */
static void solve(struct solver *solver, uint32_t units)
{
        size_t size = solver->partition->size;
        size_t count = (size_t)__builtin_popcount(units);
        struct found best = {0};
        uint32_t first;

        if (count <= size)
                return;
        first = 1U << (31 - __builtin_clz(units));
        partition_complete(solver, units, first, units ^ first, size - 1, &best);
        if (count % size)
                partition_complete(solver, units, first, units ^ first, count % size - 1, &best);
        solver->scores[units] = (uint16_t)best.score;
        solver->ranks[units] = best.rank;
}

static bool is_uniform(const struct partition *partition)
{
        for (size_t i = 0; i < partition->n; i++)
                for (size_t j = 0; j < i; j++)
                        if (partition->pairs[i][j] != partition->pairs[1][0])
                                return false;
        return true;
}

uint32_t partition_choose(const struct partition *partition)
{
        static const struct sums none = {0};
        _free_ uint16_t *scores = xcalloc((size_t)1 << partition->n, sizeof(*scores));
        _free_ uint64_t *ranks = xcalloc((size_t)1 << partition->n, sizeof(*ranks));
        struct solver solver = {.partition = partition, .scores = scores, .ranks = ranks};
        uint32_t all = (1U << partition->n) - 1;
        uint32_t required = partition->required;
        size_t n_required = (size_t)__builtin_popcount(required);
        struct found best = {0};

        assert(partition->n <= PARTITION_MAX && partition->size >= 2 && partition->size <= partition->n);
        assert((required & ~all) == 0 && n_required <= partition->size);
        for (size_t i = 0; i < partition->n; i++)
                for (size_t j = 0; j < partition->n; j++)
                        solver.rows[i] += i == j ? 0 : partition->pairs[i][j] + EXTRA;
        value_sets(&solver, 0, all, partition->size, &none);
        /* If all pairs have the same score, as behind NVSwitch, so do all partitions. */
        if (is_uniform(partition))
                return (uint32_t)(solver.best_rank & SET_MASK);
        if (partition->n % partition->size)
                value_sets(&solver, 0, all, partition->n % partition->size, &none);
        /* If the answer must contain certain units, its set is chosen first. */
        if (required) {
                partition_complete(&solver, all, required, all ^ required, partition->size - n_required, &best);
                return (uint32_t)(best.rank & SET_MASK);
        }
        solve(&solver, all);
        return (uint32_t)(solver.ranks[all] & SET_MASK);
}
