#include "share/prefer_links.h"

#include <stdbool.h>
#include <string.h>

/* All sets are looked at up to this many candidates: 16 choose 8 are 12,870. */
#define EXHAUSTIVE_MAX ((size_t)16)

#define NVLINK_SCORE 100
#define NVLINK_MAX 18U

/* go-gpuallocator, gpuallocator/besteffort_policy.go: calculateGPUPairScore(). */
static int level_score(int level)
{
        switch (level) {
        case 0: /* same board */
                return 60;
        case 10: /* one PCIe switch */
                return 50;
        case 20: /* several switches */
                return 40;
        case 30: /* one host bridge */
                return 30;
        case 40: /* one socket */
                return 20;
        case 50: /* across sockets */
                return 10;
        default: /* unknown: no reason to prefer it */
                return 0;
        }
}

static int pair_score(const struct unit *a, const struct unit *b)
{
        const struct gpu_link *link;

        if (!a->gpu->links)
                return 0;
        link = &a->gpu->links[b->position];
        return level_score(link->level) + NVLINK_SCORE * (int)MIN(link->nvlinks, NVLINK_MAX);
}

/* Both ways need not agree, so it is always the lower position that is asked. */
static int64_t score_of(const struct resource *resource, uint32_t a, uint32_t b)
{
        return pair_score(&resource->units[MIN(a, b)], &resource->units[MAX(a, b)]);
}

/* ---- few candidates: all sets ---- */

struct search {
        size_t n;
        size_t wanted;
        int pairs[EXHAUSTIVE_MAX][EXHAUSTIVE_MAX];
        int64_t base[EXHAUSTIVE_MAX]; /* links to those that are decided already */
        int64_t row[EXHAUSTIVE_MAX];  /* links to all other candidates */
        uint8_t chosen[EXHAUSTIVE_MAX];
        uint8_t best[EXHAUSTIVE_MAX];
        int64_t best_score;
        int64_t best_rest;
        bool have_best;
};

/*
 * Extends a set of |depth| members whose last is before |from|. |score| is the sum over its pairs, decided ones included.
 * |rest| ranks what would stay: the sum over the pairs that stay is a constant, less the rows of the chosen, plus the pairs
 * among the chosen, which the rows count twice. Sets come in ascending order, so only a better one replaces the best.
 */
static void search_sets(struct search *search, size_t depth, size_t from, int64_t score, int64_t rest)
{
        if (depth == search->wanted) {
                if (search->have_best &&
                        (score < search->best_score || (score == search->best_score && rest <= search->best_rest)))
                        return;
                memcpy(search->best, search->chosen, depth);
                search->best_score = score;
                search->best_rest = rest;
                search->have_best = true;
                return;
        }
        for (size_t i = from; i + (search->wanted - depth) <= search->n; i++) {
                int64_t inside = 0;

                for (size_t j = 0; j < depth; j++)
                        inside += search->pairs[i][search->chosen[j]];
                search->chosen[depth] = (uint8_t)i;
                search_sets(search, depth + 1, i + 1, score + search->base[i] + inside, rest - search->row[i] + inside);
        }
}

static void pick_exhaustively(const struct resource *resource, const uint32_t *candidates, size_t n, size_t wanted,
        uint32_t *picked, size_t n_picked)
{
        struct search search = {.n = n, .wanted = wanted};

        for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < n; j++) {
                        if (i == j)
                                continue;
                        search.pairs[i][j] = (int)score_of(resource, candidates[i], candidates[j]);
                        search.row[i] += search.pairs[i][j];
                }
                for (size_t j = 0; j < n_picked; j++)
                        search.base[i] += score_of(resource, candidates[i], picked[j]);
        }
        search_sets(&search, 0, 0, 0, 0);
        for (size_t i = 0; i < wanted; i++)
                picked[n_picked + i] = candidates[search.best[i]];
}

/* ---- many candidates: grown one by one, from each of the first as a start ---- */

#define MAX_STARTS ((size_t)64)

struct growth {
        int64_t base; /* links to those that are decided already */
        int64_t row;  /* links to all other candidates */
        int64_t gain; /* base, and links to those taken since */
        bool is_taken;
};

struct grown {
        uint32_t *members; /* positions among the candidates, in the order in which they were taken */
        int64_t score;
        int64_t rest; /* ranks what stays, as in search_sets() */
};

/* The candidate with the best links to the taken ones; among equals the one with the fewest links to the others. */
static size_t find_next(const struct growth *growth, size_t n)
{
        size_t best = n;

        for (size_t i = 0; i < n; i++) {
                if (growth[i].is_taken)
                        continue;
                if (best == n || growth[i].gain > growth[best].gain ||
                        (growth[i].gain == growth[best].gain && growth[i].row < growth[best].row))
                        best = i;
        }
        return best;
}

static void grow(const struct resource *resource, const uint32_t *candidates, size_t n, size_t wanted,
        struct growth *growth, size_t start, struct grown *grown)
{
        grown->score = grown->rest = 0;
        for (size_t i = 0; i < n; i++) {
                growth[i].gain = growth[i].base;
                growth[i].is_taken = false;
        }
        for (size_t count = 0; count < wanted; count++) {
                size_t taken = count == 0 ? start : find_next(growth, n);

                grown->members[count] = (uint32_t)taken;
                grown->score += growth[taken].gain;
                grown->rest += growth[taken].gain - growth[taken].base - growth[taken].row;
                growth[taken].is_taken = true;
                for (size_t i = 0; i < n; i++)
                        if (!growth[i].is_taken)
                                growth[i].gain += score_of(resource, candidates[i], candidates[taken]);
        }
}

static void pick_greedily(const struct resource *resource, struct arena *scratch, const uint32_t *candidates, size_t n,
        size_t wanted, uint32_t *picked, size_t n_picked)
{
        struct growth *growth = ARENA_ARRAY(scratch, struct growth, n);
        struct grown grown = {.members = ARENA_ARRAY(scratch, uint32_t, wanted)};
        struct grown best = {.members = ARENA_ARRAY(scratch, uint32_t, wanted)};

        for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < n; j++)
                        if (i != j)
                                growth[i].row += score_of(resource, candidates[i], candidates[j]);
                for (size_t j = 0; j < n_picked; j++)
                        growth[i].base += score_of(resource, candidates[i], picked[j]);
        }
        for (size_t start = 0; start < MIN(n, MAX_STARTS); start++) {
                struct grown spare = best;

                grow(resource, candidates, n, wanted, growth, start, &grown);
                if (start > 0 && (grown.score < best.score || (grown.score == best.score && grown.rest <= best.rest)))
                        continue;
                best = grown;
                grown = spare;
        }
        for (size_t i = 0; i < wanted; i++)
                picked[n_picked + i] = candidates[best.members[i]];
}

void prefer_links(const struct resource *resource, struct arena *scratch, const uint32_t *candidates,
        size_t n_candidates, size_t wanted, uint32_t *picked, size_t n_picked)
{
        if (wanted == 0)
                return;
        if (wanted == n_candidates)
                memcpy(picked + n_picked, candidates, n_candidates * sizeof(*candidates));
        else if (n_candidates <= EXHAUSTIVE_MAX)
                pick_exhaustively(resource, candidates, n_candidates, wanted, picked, n_picked);
        else
                pick_greedily(resource, scratch, candidates, n_candidates, wanted, picked, n_picked);
}
