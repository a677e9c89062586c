// SPDX-License-Identifier: Apache-2.0
/*
 * Whole units against the oracle: every partition is tried, as NVIDIA's go-gpuallocator does it ("best effort"; facts
 * of its algorithm, none of its code), on machines as they are sold and on thousands of random ones. NVIDIA's answer is
 * the best set with all that is required in the first partition of the highest score that it meets; which one comes
 * first depends on an order that is random, so the oracle takes the best of all of them, and NVIDIA's own answer is
 * never better.
 */
#include "rig.h"

#include <stdlib.h>

#include "topologies.h"

#define MAX_UNITS 16

struct oracle {
        const int *scores; /* by set */
        size_t size;
        uint32_t required;
        int total; /* of the best partition */
        int own;   /* of the best set in one such */
};

/* ---- the oracle ---- */

static void divide(struct oracle *oracle, uint32_t left, size_t remainder, int total, int own);

/* Completes |set| by |missing| of |free|, and divides what is left then. */
static void extend(struct oracle *oracle, uint32_t left, uint32_t set, uint32_t free, size_t missing, size_t remainder,
        int total, int own)
{
        if (missing > 0) {
                while (free) {
                        uint32_t unit = free & -free;

                        free ^= unit;
                        extend(oracle, left, set | unit, free, missing - 1, remainder, total, own);
                }
                return;
        }
        if ((size_t)__builtin_popcount(set) == oracle->size && !(oracle->required & ~set))
                own = MAX(own, oracle->scores[set]);
        divide(oracle, left & ~set, remainder, total + oracle->scores[set], own);
}

/* |own|: of the best set so far that may be the answer, -1 if there is none yet. */
static void divide(struct oracle *oracle, uint32_t left, size_t remainder, int total, int own)
{
        uint32_t first = left & -left;

        if (left == 0) {
                if (own < 0 || total < oracle->total)
                        return;
                oracle->own = total > oracle->total ? own : MAX(own, oracle->own);
                oracle->total = total;
                return;
        }
        if ((size_t)__builtin_popcount(left) >= oracle->size)
                extend(oracle, left, first, left ^ first, oracle->size - 1, remainder, total, own);
        if (remainder)
                extend(oracle, left, first, left ^ first, remainder - 1, 0, total, own);
}

static struct oracle ask_oracle(const int *scores, uint32_t available, uint32_t required, size_t size)
{
        struct oracle oracle = {.scores = scores, .size = size, .required = required, .total = -1, .own = -1};

        divide(&oracle, available, (size_t)__builtin_popcount(available) % size, 0, -1);
        return oracle;
}

/* The score of the best partition that has |set|. */
static int total_with(const int *scores, uint32_t available, uint32_t set)
{
        size_t size = (size_t)__builtin_popcount(set);
        struct oracle oracle = {.scores = scores, .size = size, .total = -1};

        divide(&oracle, available & ~set, (size_t)__builtin_popcount(available) % size, scores[set], scores[set]);
        return oracle.total;
}

/* What go-gpuallocator gives a pair; of two ends that disagree, the lower. */
static int score_from(const struct gpu_link *link)
{
        static const int levels[] = {60, 50, 40, 30, 20, 10};
        bool is_known = link->level >= 0 && link->level <= 50 && link->level % 10 == 0;

        return (is_known ? levels[link->level / 10] : 0) + 100 * (int)MIN(link->nvlinks, 18U);
}

static int score_pair(const struct rig *rig, size_t a, size_t b)
{
        int there = score_from(&rig->gpus[a].links[b]);
        int back = score_from(&rig->gpus[b].links[a]);

        return MIN(there, back);
}

/* Of every set, for the caller to free. */
static int *score_sets(const struct rig *rig, size_t n)
{
        int *scores = xcalloc((size_t)1 << n, sizeof(*scores));

        for (uint32_t set = 1; set < 1U << n; set++) {
                uint32_t rest = set & (set - 1);
                size_t unit = (size_t)__builtin_ctz(set);

                scores[set] = scores[rest];
                for (; rest; rest &= rest - 1)
                        scores[set] += score_pair(rig, unit, (size_t)__builtin_ctz(rest));
        }
        return scores;
}

/* ---- the comparison ---- */

static const char *write_ids(struct rig *rig, uint32_t units)
{
        char text[2 * MAX_UNITS + 1] = "";
        size_t length = 0;

        for (; units; units &= units - 1) {
                text[length++] = (char)('A' + __builtin_ctz(units));
                text[length++] = ' ';
        }
        return arena_strdup(&rig->arena, text);
}

static uint32_t ask(struct rig *rig, uint32_t available, uint32_t required, size_t size)
{
        const struct rig_query query = {
                .available = write_ids(rig, available), .required = write_ids(rig, required), .size = size};
        const char *answer = rig_ask(rig, &query);
        uint32_t units = 0;

        for (; *answer; answer++)
                units |= *answer == ' ' ? 0 : 1U << (*answer - 'A');
        return units;
}

static bool is_better(const struct rig *rig, const int *scores, uint32_t available, uint32_t a, uint32_t b)
{
        int own = scores[a] - scores[b];
        int rest = scores[available & ~a] - scores[available & ~b];
        int nodes[2] = {0};

        for (int node = -1; node < 4; node++) {
                uint32_t members = 0;

                for (size_t i = 0; i < MAX_UNITS; i++)
                        members |= rig->gpus[i].numa_node == node ? 1U << i : 0;
                nodes[0] += (a & members) != 0;
                nodes[1] += (b & members) != 0;
        }
        if (own != 0)
                return own > 0;
        if (rest != 0)
                return rest > 0;
        if (nodes[0] != nodes[1])
                return nodes[0] < nodes[1];
        return a & (a ^ b) & -(a ^ b); /* has the lowest unit that only one of them has */
}

/* Every rule at once: the one set that must be the answer. */
static uint32_t choose_slowly(
        const struct rig *rig, const int *scores, uint32_t available, const struct oracle *best, size_t size)
{
        uint32_t found = 0;

        for (uint32_t set = available; set; set = (set - 1) & available) {
                if ((size_t)__builtin_popcount(set) != size || best->required & ~set)
                        continue;
                if (total_with(scores, available, set) == best->total &&
                        (!found || is_better(rig, scores, available, set, found)))
                        found = set;
        }
        return found;
}

static uint32_t assert_as_good(struct rig *rig, const int *scores, uint32_t available, uint32_t required, size_t size)
{
        uint32_t answer = ask(rig, available, required, size);
        struct oracle best = ask_oracle(scores, available, required, size);

        assert_int_equal(__builtin_popcount(answer), size);
        assert_int_equal(answer & ~available, 0);
        assert_int_equal(required & ~answer, 0);
        /* A partition with the answer in it is among the best ones, and none of those has a better set. */
        assert_int_equal(total_with(scores, available, answer), best.total);
        assert_int_equal(scores[answer], best.own);
        return answer;
}

static void assert_exact(struct rig *rig, const int *scores, uint32_t available, uint32_t required, size_t size)
{
        uint32_t answer = assert_as_good(rig, scores, available, required, size);
        struct oracle best = ask_oracle(scores, available, required, size);

        assert_int_equal(answer, choose_slowly(rig, scores, available, &best, size));
}

/* ---- machines ---- */

static uint32_t choose_bits(uint32_t bits, unsigned int one_of, unsigned int *seed)
{
        uint32_t chosen = 0;

        for (; bits; bits &= bits - 1)
                if ((unsigned int)rand_r(seed) % one_of == 0)
                        chosen |= bits & -bits;
        return chosen;
}

static struct gpu_link random_link(unsigned int *seed)
{
        static const int levels[] = {0, 10, 20, 30, 40, 50, GPU_UNKNOWN_INT};

        return (struct gpu_link){.level = levels[(size_t)rand_r(seed) % ARRAY_SIZE(levels)],
                .nvlinks = rand_r(seed) % 2 ? (unsigned int)rand_r(seed) % 4 : 0};
}

static const char all_units[] = "A B C D E F G H I J K L M N O P";

static void init_machine(struct rig *rig, size_t n)
{
        char text[sizeof(all_units)];

        memcpy(text, all_units, sizeof(all_units));
        text[2 * n - 1] = '\0';
        rig_init(rig, text);
}

static void init_random(struct rig *rig, size_t n, unsigned int *seed)
{
        bool is_asymmetric = rand_r(seed) % 4 == 0;
        int n_nodes = 1 + rand_r(seed) % 3;

        init_machine(rig, n);
        for (size_t a = 0; a < n; a++) {
                rig->gpus[a].numa_node = rand_r(seed) % n_nodes - (rand_r(seed) % 8 == 0);
                for (size_t b = 0; b < a; b++) {
                        rig_link(rig, a, b, random_link(seed));
                        if (is_asymmetric && rand_r(seed) % 4 == 0)
                                ((struct gpu_link *)(uintptr_t)rig->gpus[a].links)[b] = random_link(seed);
                }
        }
}

static void init_topology(struct rig *rig, const struct topology *topology)
{
        init_machine(rig, topology->n_gpus);
        for (size_t a = 0; a < topology->n_gpus; a++) {
                rig->gpus[a].numa_node = (int)(2 * a / topology->n_gpus);
                for (size_t b = 0; b < a; b++)
                        rig_link(rig, a, b, topology->link(a, b));
        }
}

/* ---- tests ---- */

static void test_random_machines_get_the_best_set_of_a_best_partition(void **state UNUSED)
{
        unsigned int seed = 815;

        for (int round = 0; round < 1500; round++) {
                size_t n = 2 + (size_t)rand_r(&seed) % 7;
                _cleanup_(rig_done) struct rig rig;
                uint32_t available;
                size_t count;
                int *scores;

                init_random(&rig, n, &seed);
                scores = score_sets(&rig, n);
                available = ~choose_bits((1U << n) - 1, 6, &seed) & ((1U << n) - 1);
                count = (size_t)__builtin_popcount(available);
                for (size_t size = 2; size <= count; size++) {
                        uint32_t required = choose_bits(available, 4, &seed);

                        if ((size_t)__builtin_popcount(required) > size)
                                required = 0;
                        assert_exact(&rig, scores, available, 0, size);
                        assert_exact(&rig, scores, available, required, size);
                }
                free(scores);
        }
}

static void test_every_remnant_of_a_machine_with_eight_gpus_gets_the_best(void **state UNUSED)
{
        unsigned int seed = 4711;

        for (size_t i = 0; i < ARRAY_SIZE(topologies); i++) {
                _cleanup_(rig_done) struct rig rig = {0};
                int *scores;

                if (topologies[i].n_gpus != 8)
                        continue;
                init_topology(&rig, &topologies[i]);
                scores = score_sets(&rig, 8);
                for (uint32_t available = 1; available < 256; available++) {
                        for (size_t size = 2; size <= (size_t)__builtin_popcount(available); size++) {
                                uint32_t required = choose_bits(available, 6, &seed);

                                if ((size_t)__builtin_popcount(required) > size)
                                        required = 0;
                                assert_exact(&rig, scores, available, 0, size);
                                assert_exact(&rig, scores, available, required, size);
                        }
                }
                free(scores);
        }
}

/* Sizes of which the oracle has up to 2.6 million partitions to try. In threes there are 22 million. */
static void test_machines_with_sixteen_gpus_get_the_best(void **state UNUSED)
{
        unsigned int seed = 42;

        for (size_t i = 0; i < ARRAY_SIZE(topologies); i++) {
                _cleanup_(rig_done) struct rig rig = {0};
                int *scores;

                if (topologies[i].n_gpus != 16)
                        continue;
                init_topology(&rig, &topologies[i]);
                scores = score_sets(&rig, 16);
                for (size_t size = 6; size <= 16; size++) {
                        assert_as_good(&rig, scores, 0xffff, 0, size);
                        assert_as_good(&rig, scores, 0xffff, choose_bits(0xffff, 8, &seed) & 0x7777, size);
                }
                for (size_t size = 2; size <= 5; size++)
                        assert_as_good(&rig, scores, 0x3fb7, 0, size);
                free(scores);
        }
}

/*
 * NVIDIA's plugin loses the best partition on the way when it has seven sets or more: its sets share memory with later
 * ones.
 */
static void test_partitions_of_seven_sets_and_more_are_not_forgotten(void **state UNUSED)
{
        unsigned int seed = 1066;

        for (int round = 0; round < 6; round++) {
                size_t n = round == 0 ? 16 : 13 + (size_t)round % 3;
                _cleanup_(rig_done) struct rig rig;
                int *scores;

                init_random(&rig, n, &seed);
                scores = score_sets(&rig, n);
                assert_as_good(&rig, scores, (1U << n) - 1, 0, 2);
                free(scores);
        }
}

struct vector {
        const char *topology;
        const char *available;
        size_t size;
        const char *expected;
};

/* What a person expects who knows the machine. */
static void test_known_machines_get_what_their_owners_expect(void **state UNUSED)
{
        static const struct vector table[] = {
                {"dgx1-8", NULL, 2, "C D"},        /* two NVLinks and one switch */
                {"dgx1-8", NULL, 4, "A B C D"},    /* one half of the cube */
                {"dgx1-8", "A B D E H", 2, "E H"}, /* as good as A D, but leaves more */
                {"dgx1-8", "A B C D E", 1, "E"},
                {"bridges-8", NULL, 2, "A B"},
                {"bridges-8", "A C D E G", 2, "C D"},
                {"bridges-8", NULL, 4, "A B C D"},
                {"bridges-8", "A B C E F", 1, "C"},
                {"pcie-8", NULL, 2, "A B"},
                {"pcie-8", "B C D E F G H", 1, "B"},
                {"pcie-8", "B C D E F G H", 3, "B C D"},
                {"hgx-8", NULL, 4, "A B C D"},
                {"hgx-8", "B D E F G H", 4, "E F G H"},
                {"nvswitch-vm-8", NULL, 3, "A B C"},
                {"nvswitch-vm-8", "C D F G H", 3, "F G H"}, /* one NUMA node */
                {"dgx2-16", NULL, 8, "A B C D E F G H"},
                {"dgx2-16", NULL, 4, "A B C D"},
                {"dgx2-16", "B C D E F G H I J K L M N O P", 4, "E F G H"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct rig_query query = {.available = table[i].available, .size = table[i].size};

                for (size_t j = 0; j < ARRAY_SIZE(topologies); j++) {
                        _cleanup_(rig_done) struct rig rig = {0};

                        if (strcmp(topologies[j].name, table[i].topology) != 0)
                                continue;
                        init_topology(&rig, &topologies[j]);
                        rig_assert(&rig, &query, table[i].expected);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_random_machines_get_the_best_set_of_a_best_partition),
                cmocka_unit_test(test_every_remnant_of_a_machine_with_eight_gpus_gets_the_best),
                cmocka_unit_test(test_machines_with_sixteen_gpus_get_the_best),
                cmocka_unit_test(test_partitions_of_seven_sets_and_more_are_not_forgotten),
                cmocka_unit_test(test_known_machines_get_what_their_owners_expect),
        };

        return cmocka_run_group_tests_name("prefer_partition", tests, NULL, NULL);
}
