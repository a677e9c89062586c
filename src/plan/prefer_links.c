// SPDX-License-Identifier: Apache-2.0
#include "plan/prefer_links.h"

#include <assert.h>
#include <stdbool.h>

/*
 * In tens: all scores of go-gpuallocator are multiples of ten (gpuallocator/besteffort_policy.go:
 * calculateGPUPairScore()).
 */
#define NVLINK_SCORE 10U
#define NVLINK_MAX 18U

static unsigned int level_score(int level)
{
        switch (level) {
        case 0: /* same board */
                return 6;
        case 10: /* one PCIe switch */
                return 5;
        case 20: /* several switches */
                return 4;
        case 30: /* one host bridge */
                return 3;
        case 40: /* one socket */
                return 2;
        case 50: /* across sockets */
                return 1;
        default: /* unknown: no preference */
                return 0;
        }
}

static const struct gpu_link *link_of(const struct unit *a, const struct unit *b)
{
        static const struct gpu_link unknown = {.level = GPU_UNKNOWN_INT};

        return a->gpu->links ? &a->gpu->links[b->position] : &unknown;
}

static unsigned int score_from(const struct unit *a, const struct unit *b)
{
        const struct gpu_link *link = link_of(a, b);

        return level_score(link->level) + NVLINK_SCORE * MIN(link->nvlinks, NVLINK_MAX);
}

static unsigned int score_of(const struct resource *resource, uint32_t a, uint32_t b)
{
        unsigned int there = score_from(&resource->units[a], &resource->units[b]);
        unsigned int back = score_from(&resource->units[b], &resource->units[a]);

        return MIN(there, back);
}

static int links_node(const struct resource *resource, uint32_t unit)
{
        return resource->units[unit].gpu->numa_node;
}

/* ---- one ---- */

struct lonely {
        unsigned int score;   /* score of its pairs with the others */
        unsigned int nvlinks; /* NVLinks to the others */
        unsigned int mates;   /* available units on its NUMA node */
};

static bool is_lonelier(const struct lonely *a, const struct lonely *b)
{
        if (a->score != b->score)
                return a->score < b->score;
        if (a->nvlinks != b->nvlinks)
                return a->nvlinks < b->nvlinks;
        return a->mates < b->mates;
}

static uint32_t find_loneliest(const struct resource *resource, const uint32_t *candidates, size_t n)
{
        struct lonely best = {0};
        uint32_t found = candidates[0];

        for (size_t i = 0; i < n; i++) {
                struct lonely one = {0};

                for (size_t j = 0; j < n; j++) {
                        if (i == j)
                                continue;
                        one.score += score_of(resource, candidates[i], candidates[j]);
                        one.nvlinks +=
                                link_of(&resource->units[candidates[i]], &resource->units[candidates[j]])->nvlinks;
                        one.mates += links_node(resource, candidates[i]) == links_node(resource, candidates[j]);
                }
                if (i > 0 && !is_lonelier(&one, &best))
                        continue;
                best = one;
                found = candidates[i];
        }
        return found;
}

/* ---- few: the best partition ---- */

/*
 * Finds the best set of a partition, exactly, for up to 16 whole units. Numbers only.
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
#define PARTITION_MAX 16
#define PARTITION_MAX_PAIR 186 /* the highest score of a pair */

_Static_assert(6 + NVLINK_SCORE * NVLINK_MAX == PARTITION_MAX_PAIR, "the highest score of a pair");

struct partition {
        size_t n;                                    /* units, at most PARTITION_MAX */
        size_t size;                                 /* of a set; 2 ≤ size ≤ n */
        uint32_t required;                           /* bits: the units that the answer must have; at most |size| */
        uint8_t pairs[PARTITION_MAX][PARTITION_MAX]; /* scores, symmetric; zero on the diagonal */
        uint8_t nodes[PARTITION_MAX];                /* NUMA node of each unit, numbered from 0 to 15 */
};

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
 * Tries all partitions of |units| with a set that contains |set| and |missing| of the units in |free|. Sets of adjacent
 * units come first: the sooner a good partition is found, the fewer sets are tried.
 */
static void partition_complete(
        struct solver *solver, uint32_t units, uint32_t set, uint32_t free, size_t missing, struct found *best)
{
        if (missing == 0) {
                partition_try(solver, set, units ^ set, best);
                return;
        }
        for (size_t left = (size_t)__builtin_popcount(free); left >= missing; left--) {
                uint32_t unit = 1U << (31 - __builtin_clz(free));

                free ^= unit;
                partition_complete(solver, units, set | unit, free, missing - 1, best);
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

/* The set, as bits; the highest bit is the lowest unit. Needs 10 bytes << n of memory while it runs. */
static uint32_t partition_choose(const struct partition *partition)
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

/* The required units have the lowest bits, then come the candidates from the last to the first. */
static void pick_by_partition(const struct resource *resource, const uint32_t *candidates, size_t n_candidates,
        size_t wanted, uint32_t *picked, size_t n_picked)
{
        struct partition partition = {.n = n_picked + n_candidates, .size = n_picked + wanted};
        uint32_t units[PARTITION_MAX] = {0};
        uint32_t chosen;

        for (size_t i = 0; i < partition.n; i++)
                units[i] = i < n_picked ? picked[i] : candidates[partition.n - 1 - i];
        for (size_t i = 0; i < partition.n; i++) {
                size_t same = 0;

                for (size_t j = 0; j < i; j++)
                        partition.pairs[i][j] = partition.pairs[j][i] = (uint8_t)score_of(resource, units[i], units[j]);
                while (links_node(resource, units[same]) != links_node(resource, units[i]))
                        same++;
                partition.nodes[i] = (uint8_t)same;
        }
        partition.required = (1U << n_picked) - 1;
        chosen = partition_choose(&partition);
        picked += n_picked;
        for (size_t i = partition.n; i-- > n_picked;)
                if (chosen & 1U << i)
                        *picked++ = units[i];
}

/* ---- many units: sets that grow from each of the first units ---- */

#define MAX_STARTS ((size_t)64)

struct growth {
        int64_t base; /* links to the required units */
        int64_t row;  /* links to all other candidates */
        int64_t gain; /* base, plus links to the units taken since */
        bool is_taken;
        bool has_mate; /* another unit of its NUMA node is taken */
};

struct grown {
        uint32_t *members; /* positions among the candidates, in the order of their choice */
        int64_t score;
        int64_t rest;  /* score of the units that are left, plus a constant */
        int64_t nodes; /* NUMA nodes */
};

static bool is_better_next(const struct growth *a, const struct growth *b)
{
        if (a->gain != b->gain)
                return a->gain > b->gain;
        if (a->row != b->row)
                return a->row < b->row;
        return a->has_mate && !b->has_mate;
}

static bool links_is_better(const struct grown *a, const struct grown *b)
{
        if (a->score != b->score)
                return a->score > b->score;
        if (a->rest != b->rest)
                return a->rest > b->rest;
        return a->nodes < b->nodes;
}

static size_t find_next(const struct growth *growth, size_t n)
{
        size_t best = n;

        for (size_t i = 0; i < n; i++)
                if (!growth[i].is_taken && (best == n || is_better_next(&growth[i], &growth[best])))
                        best = i;
        return best;
}

struct field {
        const struct resource *resource;
        const uint32_t *candidates;
        size_t n;
        struct growth *growth; /* one per candidate */
        const uint32_t *picked;
        size_t n_picked;
};

static void make_field(struct field *field, struct arena *scratch)
{
        field->growth = ARENA_ARRAY(scratch, struct growth, field->n);
        for (size_t i = 0; i < field->n; i++) {
                for (size_t j = 0; j < field->n; j++)
                        if (i != j)
                                field->growth[i].row +=
                                        score_of(field->resource, field->candidates[i], field->candidates[j]);
                for (size_t j = 0; j < field->n_picked; j++)
                        field->growth[i].base += score_of(field->resource, field->candidates[i], field->picked[j]);
        }
}

/* Updates the other units: |unit| is in the set. */
static void prefer_links_report(const struct field *field, uint32_t unit)
{
        for (size_t i = 0; i < field->n; i++)
                if (links_node(field->resource, field->candidates[i]) == links_node(field->resource, unit))
                        field->growth[i].has_mate = true;
}

static void links_grow(const struct field *field, size_t wanted, size_t start, struct grown *grown)
{
        struct growth *growth = field->growth;

        grown->score = grown->rest = grown->nodes = 0;
        for (size_t i = 0; i < field->n; i++) {
                growth[i].gain = growth[i].base;
                growth[i].is_taken = growth[i].has_mate = false;
        }
        for (size_t i = 0; i < field->n_picked; i++)
                prefer_links_report(field, field->picked[i]);
        for (size_t count = 0; count < wanted; count++) {
                size_t taken = count == 0 ? start : find_next(growth, field->n);

                grown->members[count] = (uint32_t)taken;
                grown->score += growth[taken].gain;
                grown->rest += growth[taken].gain - growth[taken].base - growth[taken].row;
                grown->nodes += !growth[taken].has_mate;
                growth[taken].is_taken = true;
                prefer_links_report(field, field->candidates[taken]);
                for (size_t i = 0; i < field->n; i++)
                        if (!growth[i].is_taken)
                                growth[i].gain +=
                                        score_of(field->resource, field->candidates[i], field->candidates[taken]);
        }
}

static void pick_by_growth(struct field *field, struct arena *scratch, size_t wanted, uint32_t *ret)
{
        struct grown grown = {.members = ARENA_ARRAY(scratch, uint32_t, wanted)};
        struct grown best = {.members = ARENA_ARRAY(scratch, uint32_t, wanted)};

        make_field(field, scratch);
        for (size_t start = 0; start < MIN(field->n, MAX_STARTS); start++) {
                struct grown spare = best;

                links_grow(field, wanted, start, &grown);
                if (start > 0 && !links_is_better(&grown, &best))
                        continue;
                best = grown;
                grown = spare;
        }
        for (size_t i = 0; i < wanted; i++)
                ret[i] = field->candidates[best.members[i]];
}

void prefer_links(const struct resource *resource, struct arena *scratch, const uint32_t *candidates,
        size_t n_candidates, size_t wanted, uint32_t *picked, size_t n_picked)
{
        struct field field = {.resource = resource,
                .candidates = candidates,
                .n = n_candidates,
                .picked = picked,
                .n_picked = n_picked};

        if (n_picked + wanted == 1)
                picked[0] = find_loneliest(resource, candidates, n_candidates);
        else if (n_picked + n_candidates <= PARTITION_MAX)
                pick_by_partition(resource, candidates, n_candidates, wanted, picked, n_picked);
        else
                pick_by_growth(&field, scratch, wanted, picked + n_picked);
}
