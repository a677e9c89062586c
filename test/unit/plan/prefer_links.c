// SPDX-License-Identifier: Apache-2.0
/*
 * Whole units: small tables for the rules. That the choice is as good as NVIDIA's on every machine: prefer_partition.c.
 */
#include "rig.h"

struct row {
        const char *available;
        const char *required;
        size_t size;
        const char *expected;
};

static void assert_rows(struct rig *rig, const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct rig_query query = {
                        .available = rows[i].available, .required = rows[i].required, .size = rows[i].size};

                rig_assert(rig, &query, rows[i].expected);
        }
}

/* Two boards of two pairs: A-B and C-D by NVLink on one socket, E-F and G-H on the other. */
static void init_pairs(struct rig *rig)
{
        rig_init(rig, "A B C D E F G H");
        for (size_t a = 0; a < 8; a++)
                for (size_t b = a + 1; b < 8; b++)
                        rig_link(rig, a, b,
                                (struct gpu_link){
                                        .level = a / 4 == b / 4 ? 40 : 50, .nvlinks = a / 2 == b / 2 ? 4 : 0});
}

static void test_sets_are_chosen_by_their_links(void **state UNUSED)
{
        static const struct row rows[] = {
                {NULL, NULL, 2, "A B"},
                {NULL, NULL, 4, "A B C D"},
                {NULL, NULL, 8, "A B C D E F G H"},
                {NULL, "F", 2, "F E"},
                {NULL, "G F", 4, "G F E H"},
                {"B C E F H", NULL, 2, "E F"},
                {"B C E G H", NULL, 3, "E G H"},
                /* a pair and one of the same socket, so that the other socket stays whole */
                {NULL, NULL, 3, "A B C"},
                /* after A and B went, the rest of their socket goes, not half of the other */
                {"C D E F G H", NULL, 2, "C D"},
                {"A B C D G H", NULL, 2, "G H"},
                /* required ones need not be available */
                {"A C H", "G", 2, "G H"},
        };
        _cleanup_(rig_done) struct rig rig;

        init_pairs(&rig);
        assert_rows(&rig, rows, ARRAY_SIZE(rows));
}

/* NVIDIA's plugin takes the first that comes. */
static void test_a_single_unit_leaves_the_best_links_to_the_others(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A B C D E", NULL, 1, "E"}, /* no partner, no neighbour */
                {"A B C E F", NULL, 1, "C"}, /* no partner */
                {"A C F", NULL, 1, "F"},     /* no neighbour */
                {"D", NULL, 1, "D"},
                {"D A", "D", 1, "D"},
                {NULL, NULL, 1, "A"},
        };
        _cleanup_(rig_done) struct rig rig;

        init_pairs(&rig);
        assert_rows(&rig, rows, ARRAY_SIZE(rows));
}

static void test_a_single_unit_has_few_nvlinks_and_a_lonely_node(void **state UNUSED)
{
        static const struct row all = {NULL, NULL, 1, "C"};
        static const struct row some = {"A B D", NULL, 1, "D"};
        _cleanup_(rig_done) struct rig rig;

        /* A and B are on one node, C on another one, D on a third. */
        rig_init(&rig, "A B C D");
        for (size_t i = 0; i < 4; i++)
                rig.gpus[i].numa_node = i < 2 ? 0 : (int)i - 1;
        assert_rows(&rig, &all, 1);
        assert_rows(&rig, &some, 1);
        /* The same score by nearness as by an NVLink is fewer NVLinks: 60 + 60 and 110 + 10. */
        rig_link(&rig, 0, 1, (struct gpu_link){.level = 50, .nvlinks = 1});
        rig_link(&rig, 0, 2, (struct gpu_link){.level = 50});
        rig_link(&rig, 3, 1, (struct gpu_link){.level = 0});
        rig_link(&rig, 3, 2, (struct gpu_link){.level = 0});
        rig_link(&rig, 1, 2, (struct gpu_link){.level = 50, .nvlinks = 5});
        rig.gpus[3].numa_node = 0;
        rig.gpus[0].numa_node = 7;
        assert_rows(&rig, &(struct row){NULL, NULL, 1, "D"}, 1);
}

static void test_pair_scores_are_those_of_go_gpuallocator(void **state UNUSED)
{
        static const struct {
                int better_level;
                unsigned int better_links;
                int worse_level;
                unsigned int worse_links;
        } table[] = {
                {0, 0, 10, 0}, {10, 0, 20, 0}, {20, 0, 30, 0}, {30, 0, 40, 0}, {40, 0, 50, 0},
                {50, 0, GPU_UNKNOWN_INT, 0}, {50, 1, 0, 0}, /* 110 > 60 */
                {50, 2, 0, 1},                              /* 210 > 160 */
                {0, 18, 50, 19},                            /* both are 18 links */
                {50, 0, 7, 0},                              /* no level that is known */
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;
                struct rig_query query = {.size = 3};

                /* A triangle of each kind. */
                rig_init(&rig, "A B C D E F");
                for (size_t a = 0; a < 3; a++)
                        for (size_t b = a + 1; b < 3; b++) {
                                rig_link(&rig, a, b,
                                        (struct gpu_link){
                                                .level = table[i].worse_level, .nvlinks = table[i].worse_links});
                                rig_link(&rig, a + 3, b + 3,
                                        (struct gpu_link){
                                                .level = table[i].better_level, .nvlinks = table[i].better_links});
                        }
                rig_assert(&rig, &query, "D E F");
        }
}

/* NVIDIA's plugin crashes here. */
static void test_a_link_that_one_end_does_not_see_does_not_count(void **state UNUSED)
{
        static const struct row rows[] = {{NULL, NULL, 2, "C D"}, {"A B C", NULL, 2, "A B"}};
        static const struct gpu_link good = {.level = 40, .nvlinks = 8};
        static const struct gpu_link fair = {.level = 40, .nvlinks = 2};
        static const struct gpu_link bad = {.level = 40, .nvlinks = 1};
        _cleanup_(rig_done) struct rig rig;

        for (int side = 0; side < 2; side++) {
                rig_init(&rig, "A B C D");
                rig_link(&rig, 0, 1, good);
                ((struct gpu_link *)(uintptr_t)rig.gpus[side].links)[1 - side] = bad;
                rig_link(&rig, 2, 3, fair);
                assert_rows(&rig, rows, ARRAY_SIZE(rows));
                if (side == 0)
                        rig_done(&rig);
        }
}

static void test_a_gpu_whose_links_are_unknown_comes_last(void **state UNUSED)
{
        static const struct row rows[] = {
                {NULL, NULL, 2, "B C"},
                {NULL, NULL, 3, "B C D"},
                {NULL, NULL, 1, "A"},
                {NULL, "A", 2, "A B"},
        };
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "A B C D");
        for (size_t a = 0; a < 4; a++)
                for (size_t b = 0; b < a; b++)
                        rig_link(&rig, a, b, (struct gpu_link){.level = 30});
        rig.gpus[0].links = NULL;
        assert_rows(&rig, rows, ARRAY_SIZE(rows));
}

static void test_without_links_numa_nodes_and_then_positions_decide(void **state UNUSED)
{
        static const struct row rows[] = {
                {"D B C", NULL, 2, "B C"},
                {NULL, NULL, 3, "A B C"},
                {NULL, NULL, 2, "A B"},
        };
        static const struct row rows_of_nodes[] = {
                {NULL, NULL, 2, "A C"},
                {"B C D E F", NULL, 2, "B D"},
                {"B C D E F", NULL, 3, "B D E"},
                {NULL, "F", 2, "F A"},
                {"B C D E F", "F", 2, "F C"},
                {"C D E F", NULL, 3, "C D E"},
        };
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "A B C D E F");
        assert_rows(&rig, rows, ARRAY_SIZE(rows));
        for (size_t i = 0; i < 6; i++) {
                rig.gpus[i].numa_node = i == 0 || i == 2 || i == 5 ? 1 : 0;
                rig.gpus[i].links = NULL;
        }
        assert_rows(&rig, rows_of_nodes, ARRAY_SIZE(rows_of_nodes));
}

static void test_links_come_before_numa_nodes(void **state UNUSED)
{
        static const struct row rows[] = {{NULL, NULL, 2, "B C"}, {"A B D", NULL, 2, "A B"}};
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "A B C D");
        for (size_t a = 0; a < 4; a++) {
                rig.gpus[a].numa_node = (int)a / 2;
                for (size_t b = 0; b < a; b++)
                        rig_link(&rig, a, b, (struct gpu_link){.level = a == 2 && b == 1 ? 10 : 40});
        }
        assert_rows(&rig, rows, ARRAY_SIZE(rows));
}

/* 24 GPUs in boards of four, the boards by turns on two nodes. */
static void test_more_than_sixteen_are_grown_one_by_one(void **state UNUSED)
{
        static const struct row without_last[] = {
                {"A B C D E F G H I J K L M N O P Q R S T U V W", NULL, 1, "U"}, /* a member of the broken board */
                {"A B C D E F G H I J K L M N O P Q R S T U V W", NULL, 2, "U V"},
                {"A B C D E F G H I J K L M N O P Q R S T U V W", NULL, 4, "A B C D"},
                {"A B C D E F G H I J K L M N O P Q R S T U V W", NULL, 5, "E F G H U"},
                {"A B C D E F G H I J K L M N O P Q R S T U V W", "J", 3, "J I K"},
                {"A B C D E F G H I J K L M N O P Q R S T U V W", "J W", 2, "J W"},
        };
        static const struct row all[] = {
                {NULL, NULL, 6, "A B C D I J"}, /* the second board on the node of the first */
                {NULL, "F", 8, "F E G H M N O P"},
        };
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig, "A B C D E F G H I J K L M N O P Q R S T U V W X");
        for (size_t a = 0; a < 24; a++) {
                rig.gpus[a].numa_node = (int)(a / 4 % 2);
                for (size_t b = a + 1; b < 24; b++)
                        rig_link(&rig, a, b, (struct gpu_link){.level = a / 4 == b / 4 ? 10 : 50});
        }
        assert_rows(&rig, without_last, ARRAY_SIZE(without_last));
        assert_rows(&rig, all, ARRAY_SIZE(all));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sets_are_chosen_by_their_links),
                cmocka_unit_test(test_a_single_unit_leaves_the_best_links_to_the_others),
                cmocka_unit_test(test_a_single_unit_has_few_nvlinks_and_a_lonely_node),
                cmocka_unit_test(test_pair_scores_are_those_of_go_gpuallocator),
                cmocka_unit_test(test_a_link_that_one_end_does_not_see_does_not_count),
                cmocka_unit_test(test_a_gpu_whose_links_are_unknown_comes_last),
                cmocka_unit_test(test_without_links_numa_nodes_and_then_positions_decide),
                cmocka_unit_test(test_links_come_before_numa_nodes),
                cmocka_unit_test(test_more_than_sixteen_are_grown_one_by_one),
        };

        return cmocka_run_group_tests_name("prefer_links", tests, NULL, NULL);
}
