#include "plan/prefer_links.h"

#include <stdbool.h>

#include "plan/prefer_partition.h"

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

_Static_assert(6 + NVLINK_SCORE * NVLINK_MAX == PARTITION_MAX_PAIR, "the highest score of a pair");

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

/* The required units have the lowest bits, then come the candidates from the last to the first. */
static void pick_by_partition(const struct resource *resource, const uint32_t *candidates, size_t n_candidates,
        size_t wanted, uint32_t *picked, size_t n_picked)
{
        struct partition partition = {.n = n_picked + n_candidates, .size = n_picked + wanted};
        uint32_t units[PARTITION_MAX];
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
