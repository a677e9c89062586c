#include "unit.h"

#include <stdlib.h>

#include "node.h"
#include "share/prefer.h"

struct query {
        struct node *node;
        const char *available; /* separated by blanks; NULL: all */
        const char *required;
        size_t size;
        enum placement policy;
};

static size_t split(struct node *node, const char *text, const char **ids)
{
        char *copy = arena_strdup(&node->arena, text ? text : "");
        size_t count = 0;

        for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
                ids[count++] = at;
        return count;
}

static int ask(const struct query *query, struct strbuf *answer)
{
        const struct resource *resource = &query->node->plan->resources[0];
        struct arena *arena = &query->node->arena;
        const char **available = ARENA_ARRAY(arena, const char *, 256);
        const char **required = ARENA_ARRAY(arena, const char *, 256);
        const char **ids = ARENA_ARRAY(arena, const char *, query->size + 1);
        struct prefer_request request = {.available = available, .required = required, .size = query->size};
        size_t n_ids;

        request.n_available = split(query->node, query->available, available);
        request.n_required = split(query->node, query->required, required);
        for (size_t i = 0; !query->available && i < resource->n_devices; i++)
                available[request.n_available++] = resource->devices[i].id;
        if (prefer(resource, query->policy, &request, arena, ids, &n_ids, &query->node->err) < 0)
                return -1;
        assert_int_equal(n_ids, query->size);
        for (size_t i = 0; i < n_ids; i++)
                strbuf_printf(answer, "%s%s", i ? " " : "", ids[i]);
        return 0;
}

static void assert_choice(const struct query *query, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;

        assert_ok(ask(query, &answer), &query->node->err);
        assert_string_equal(answer.data, expected);
}

/* ---- shared units ---- */

static void test_replicas_are_packed_or_distributed(void **state UNUSED)
{
        static const struct {
                size_t n_gpus;
                unsigned int replicas;
                enum placement policy;
                const char *available;
                const char *required;
                size_t size;
                const char *expected;
        } table[] = {
                /* the cases of NVIDIA's tests (internal/rm/allocate_test.go) */
                {2, 4, PLACEMENT_DISTRIBUTED, NULL, NULL, 2, "GPU-0::0 GPU-1::0"},
                {2, 4, PLACEMENT_DISTRIBUTED, NULL, NULL, 4, "GPU-0::0 GPU-1::0 GPU-0::1 GPU-1::1"},
                {2, 4, PLACEMENT_PACKED, NULL, NULL, 2, "GPU-0::0 GPU-0::1"},
                {2, 4, PLACEMENT_PACKED, NULL, NULL, 4, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3"},
                {2, 4, PLACEMENT_PACKED, NULL, NULL, 5, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-1::0"},
                {3, 2, PLACEMENT_DISTRIBUTED, NULL, NULL, 3, "GPU-0::0 GPU-1::0 GPU-2::0"},
                /* the emptiest and the fullest first */
                {2, 4, PLACEMENT_DISTRIBUTED, "GPU-0::3 GPU-1::0 GPU-1::1", NULL, 1, "GPU-1::0"},
                {2, 4, PLACEMENT_PACKED, "GPU-1::0 GPU-1::1 GPU-0::3", NULL, 1, "GPU-0::3"},
                {2, 4, PLACEMENT_PACKED, "GPU-1::0 GPU-1::1 GPU-0::3", NULL, 2, "GPU-0::3 GPU-1::0"},
                {3, 4, PLACEMENT_PACKED, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-1::2 GPU-1::3 GPU-2::0 GPU-2::1 GPU-2::2",
                        NULL, 3, "GPU-1::2 GPU-1::3 GPU-0::0"},
                /* among equally full ones, those that this request has taken less of */
                {2, 4, PLACEMENT_DISTRIBUTED, "GPU-0::0 GPU-0::1 GPU-0::2 GPU-1::0 GPU-1::1", NULL, 3,
                        "GPU-0::0 GPU-1::0 GPU-0::1"},
                /* required ones come first, count as gone, and need not be available */
                {2, 4, PLACEMENT_DISTRIBUTED, NULL, "GPU-0::2", 2, "GPU-0::2 GPU-1::0"},
                {2, 4, PLACEMENT_PACKED, NULL, "GPU-1::2", 3, "GPU-1::2 GPU-1::0 GPU-1::1"},
                {2, 4, PLACEMENT_PACKED, "GPU-0::1", "GPU-1::2 GPU-1::2", 2, "GPU-1::2 GPU-0::1"},
                {2, 4, PLACEMENT_PACKED, NULL, "GPU-1::2 GPU-0::0", 2, "GPU-1::2 GPU-0::0"},
                /* unknown and repeated ids are ignored */
                {2, 2, PLACEMENT_DISTRIBUTED, "GPU-9::0 GPU-0 GPU-0::0 GPU-0::0 GPU-1::1", "GPU-0::7", 2,
                        "GPU-0::0 GPU-1::1"},
                {2, 2, PLACEMENT_DISTRIBUTED, NULL, NULL, 0, ""},
                {2, 2, PLACEMENT_PACKED, NULL, NULL, 4, "GPU-0::0 GPU-0::1 GPU-1::0 GPU-1::1"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(table[i].n_gpus);
                struct query query = {.node = &node,
                        .available = table[i].available,
                        .required = table[i].required,
                        .size = table[i].size,
                        .policy = table[i].policy};

                node_share(&node, SHARING_TIME_SLICING, table[i].replicas);
                assert_ok(node_plan(&node), &node.err);
                assert_choice(&query, table[i].expected);
        }
}

static void test_requests_that_cannot_be_met_are_refused(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        struct query scarce = {.node = &node, .available = "GPU-0::0 GPU-0::1 GPU-0::9", .size = 3};
        struct query narrow = {.node = &node, .required = "GPU-0::0 GPU-0::1", .size = 1};

        node_share(&node, SHARING_TIME_SLICING, 4);
        assert_ok(node_plan(&node), &node.err);
        assert_fails(ask(&scarce, &answer), &node.err, ERROR_INVALID,
                "resource 'nvidia.com/gpu': not enough available devices: 3 are wanted, 2 are there");
        assert_fails(ask(&narrow, &answer), &node.err, ERROR_INVALID,
                "resource 'nvidia.com/gpu': 1 devices are wanted, but more than that must be among them");
}

/* What the answer must be, computed the slow way: sort before each pick. */
static void choose_slowly(const struct resource *resource, enum placement policy, const bool *candidates, size_t needed,
        unsigned int *taken_of)
{
        unsigned int *left = xcalloc(resource->n_units, sizeof(*left));

        for (size_t i = 0; i < resource->n_devices; i++)
                left[resource->devices[i].unit] += candidates[i];
        for (; needed; needed--) {
                size_t best = resource->n_units;

                for (size_t i = 0; i < resource->n_units; i++) {
                        unsigned int gone = resource->units[i].replicas - left[i];
                        unsigned int best_gone =
                                best < resource->n_units ? resource->units[best].replicas - left[best] : 0;

                        if (left[i] == 0)
                                continue;
                        if (best == resource->n_units ||
                                (policy == PLACEMENT_PACKED ? gone > best_gone : gone < best_gone) ||
                                (gone == best_gone && taken_of[i] < taken_of[best]))
                                best = i;
                }
                left[best]--;
                taken_of[best]++;
        }
        free(left);
}

static void check_random_request(struct node *node, unsigned int *seed)
{
        const struct resource *resource = &node->plan->resources[0];
        enum placement policy = rand_r(seed) % 2 ? PLACEMENT_PACKED : PLACEMENT_DISTRIBUTED;
        bool *is_available = xcalloc(resource->n_devices, sizeof(*is_available));
        bool *is_candidate = xcalloc(resource->n_devices, sizeof(*is_candidate));
        unsigned int *expected = xcalloc(resource->n_units, sizeof(*expected));
        const char **available = xcalloc(resource->n_devices, sizeof(*available));
        const char **required = xcalloc(resource->n_devices, sizeof(*required));
        const char **ids = xcalloc(resource->n_devices, sizeof(*ids));
        struct prefer_request request = {.available = available, .required = required};
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        size_t n_ids;

        for (size_t i = 0; i < resource->n_devices; i++) {
                if (rand_r(seed) % 3 == 0)
                        continue;
                is_available[i] = true;
                /* in any order, as kubelet sends them */
                available[request.n_available] = resource->devices[i].id;
                if (rand_r(seed) % 2) {
                        size_t other = (size_t)rand_r(seed) % (request.n_available + 1);
                        const char *id = available[other];

                        available[other] = available[request.n_available];
                        available[request.n_available] = id;
                }
                request.n_available++;
                if (rand_r(seed) % 8 == 0)
                        required[request.n_required++] = resource->devices[i].id;
                else
                        is_candidate[i] = true;
        }
        request.size = request.n_required;
        if (request.n_available > request.n_required)
                request.size += (size_t)rand_r(seed) % (request.n_available - request.n_required + 1);
        assert_ok(prefer(resource, policy, &request, &scratch, ids, &n_ids, &node->err), &node->err);
        assert_int_equal(n_ids, request.size);
        for (size_t i = 0; i < request.n_required; i++)
                assert_string_equal(ids[i], required[i]);
        choose_slowly(resource, policy, is_candidate, request.size - request.n_required, expected);
        for (size_t i = 0; i < n_ids; i++) {
                const struct device *device = map_find(&resource->by_id, ids[i]);

                assert_non_null(device);
                /* available, and not there twice */
                assert_true(is_available[device - resource->devices]);
                is_available[device - resource->devices] = false;
                if (i >= request.n_required)
                        expected[device->unit]--;
        }
        for (size_t i = 0; i < resource->n_units; i++)
                assert_int_equal(expected[i], 0);
        free(is_available);
        free(is_candidate);
        free(expected);
        free(available);
        free(required);
        free(ids);
}

static void test_random_requests_get_what_sorting_before_each_pick_gives(void **state UNUSED)
{
        unsigned int seed = 4711;

        for (int round = 0; round < 2000; round++) {
                _cleanup_(node_done) struct node node = node_new(1 + (size_t)rand_r(&seed) % 9);

                node_share(&node, SHARING_TIME_SLICING, 2 + (unsigned int)rand_r(&seed) % 12);
                assert_ok(node_plan(&node), &node.err);
                check_random_request(&node, &seed);
        }
}

/* ---- whole units ---- */

/* Two boards of two pairs: 0-1 and 2-3 by NVLink on one socket, 4-5 and 6-7 on the other. */
static struct node paired_node(void)
{
        struct node node = node_new(8);

        for (size_t a = 0; a < 8; a++)
                for (size_t b = a + 1; b < 8; b++)
                        node_link(&node, a, b, a / 4 == b / 4 ? 40 : 50, a / 2 == b / 2 ? 4 : 0);
        return node;
}

static void test_whole_gpus_are_chosen_by_their_links(void **state UNUSED)
{
        static const struct {
                const char *available;
                const char *required;
                size_t size;
                const char *expected;
        } table[] = {
                {NULL, NULL, 2, "GPU-0 GPU-1"},
                {NULL, NULL, 4, "GPU-0 GPU-1 GPU-2 GPU-3"},
                {NULL, NULL, 8, "GPU-0 GPU-1 GPU-2 GPU-3 GPU-4 GPU-5 GPU-6 GPU-7"},
                {NULL, "GPU-5", 2, "GPU-5 GPU-4"},
                {NULL, "GPU-6 GPU-5", 4, "GPU-6 GPU-5 GPU-4 GPU-7"},
                {"GPU-1 GPU-2 GPU-4 GPU-5 GPU-7", NULL, 2, "GPU-4 GPU-5"},
                {"GPU-1 GPU-2 GPU-4 GPU-6 GPU-7", NULL, 3, "GPU-4 GPU-6 GPU-7"},
                /* one alone: the one without a partner, and of several such the one with the fewest neighbours */
                {"GPU-0 GPU-1 GPU-2 GPU-3 GPU-4", NULL, 1, "GPU-4"},
                {"GPU-0 GPU-1 GPU-2 GPU-4 GPU-5", NULL, 1, "GPU-2"},
                {"GPU-0 GPU-2 GPU-5", NULL, 1, "GPU-5"},
                /* three of eight: a pair and one of the same socket, so that the other socket stays whole */
                {NULL, NULL, 3, "GPU-0 GPU-1 GPU-2"},
                {"GPU-3", NULL, 1, "GPU-3"},
                {NULL, NULL, 0, ""},
                {"GPU-2 GPU-9 GPU-2::0", NULL, 1, "GPU-2"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = paired_node();
                struct query query = {.node = &node,
                        .available = table[i].available,
                        .required = table[i].required,
                        .size = table[i].size};

                assert_ok(node_plan(&node), &node.err);
                assert_choice(&query, table[i].expected);
        }
}

static void test_sharing_with_one_replica_goes_by_links_too(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = paired_node();
        struct query query = {
                .node = &node, .available = "GPU-1::0 GPU-2::0 GPU-3::0", .size = 2, .policy = PLACEMENT_PACKED};

        node_share(&node, SHARING_MPS, 1);
        assert_ok(node_plan(&node), &node.err);
        assert_choice(&query, "GPU-2::0 GPU-3::0");
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
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(4);
                struct query query = {.node = &node, .size = 2};

                node_link(&node, 0, 1, table[i].worse_level, table[i].worse_links);
                node_link(&node, 2, 3, table[i].better_level, table[i].better_links);
                assert_ok(node_plan(&node), &node.err);
                assert_choice(&query, "GPU-2 GPU-3");
        }
}

static void test_without_links_the_lowest_positions_are_taken(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(4);
        struct query query = {.node = &node, .available = "GPU-3 GPU-1 GPU-2", .size = 2};

        for (size_t i = 0; i < 4; i++)
                node.inventory.gpus[i].links = NULL;
        assert_ok(node_plan(&node), &node.err);
        assert_choice(&query, "GPU-1 GPU-2");
}

/* The same aims as prefer_links.h has, by bits and without any increment. */
static uint32_t choose_by_all_masks(
        const struct resource *resource, size_t n, uint32_t available, uint32_t required, size_t size)
{
        int64_t best_score = -1;
        int64_t best_rest = -1;
        uint32_t best = 0;

        for (uint32_t mask = 0; mask < 1U << n; mask++) {
                int64_t score = 0;
                int64_t rest = 0;

                if ((mask & ~available) || (required & ~mask) || (size_t)__builtin_popcount(mask) != size)
                        continue;
                for (size_t a = 0; a < n; a++) {
                        for (size_t b = a + 1; b < n; b++) {
                                const struct gpu_link *link = &resource->units[a].gpu->links[b];
                                int64_t pair = (link->level == 50          ? 10
                                                       : link->level == 40 ? 20
                                                                           : 60) +
                                               100 * link->nvlinks;
                                uint32_t both = 1U << a | 1U << b;

                                if ((mask & both) == both)
                                        score += pair;
                                if ((available & ~mask & both) == both)
                                        rest += pair;
                        }
                }
                if (score < best_score || (score == best_score && rest < best_rest))
                        continue;
                /* Among equals the set that has the lowest position in which they differ. */
                if (score == best_score && rest == best_rest && !(mask & (mask ^ best) & -(mask ^ best)))
                        continue;
                best_score = score;
                best_rest = rest;
                best = mask;
        }
        return best;
}

static void link_at_random(struct node *node, size_t n, unsigned int *seed)
{
        static const int levels[] = {0, 40, 50};

        for (size_t a = 0; a < n; a++)
                for (size_t b = a + 1; b < n; b++)
                        node_link(node, a, b, levels[rand_r(seed) % 3], (unsigned int)rand_r(seed) % 3);
}

static void test_random_sets_are_the_best_of_all(void **state UNUSED)
{
        unsigned int seed = 815;

        for (int round = 0; round < 400; round++) {
                size_t n = 1 + (size_t)rand_r(&seed) % 9;
                _cleanup_(node_done) struct node node = node_new(n);
                _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
                _cleanup_(strbuf_done) struct strbuf available = STRBUF_INIT;
                _cleanup_(strbuf_done) struct strbuf required = STRBUF_INIT;
                uint32_t available_mask = 0;
                uint32_t required_mask = 0;
                uint32_t answer_mask = 0;
                struct query query = {.node = &node};
                const char *ids[16];
                size_t n_ids;

                link_at_random(&node, n, &seed);
                for (size_t i = 0; i < n; i++) {
                        if (rand_r(&seed) % 5 == 0)
                                continue;
                        available_mask |= 1U << i;
                        strbuf_printf(&available, "GPU-%zu ", i);
                        if (rand_r(&seed) % 5)
                                continue;
                        required_mask |= 1U << i;
                        strbuf_printf(&required, "GPU-%zu ", i);
                }
                query.available = available.data;
                query.required = required.data;
                query.size = (size_t)__builtin_popcount(required_mask);
                query.size += (size_t)rand_r(&seed) % ((size_t)__builtin_popcount(available_mask & ~required_mask) + 1);
                assert_ok(node_plan(&node), &node.err);
                assert_ok(ask(&query, &answer), &node.err);
                n_ids = split(&node, answer.data, ids);
                for (size_t i = 0; i < n_ids; i++)
                        answer_mask |= 1U << atoi(ids[i] + strlen("GPU-"));
                assert_int_equal(answer_mask,
                        choose_by_all_masks(&node.plan->resources[0], n, available_mask, required_mask, query.size));
        }
}

static void test_many_gpus_are_chosen_one_by_one(void **state UNUSED)
{
        /* 24 GPUs in boards of four; of the last board one is gone. */
        static const struct {
                const char *required;
                size_t size;
                const char *expected;
        } table[] = {
                {NULL, 1, "GPU-20"}, /* a member of the broken board */
                {NULL, 2, "GPU-20 GPU-21"},
                {NULL, 4, "GPU-0 GPU-1 GPU-2 GPU-3"},
                {"GPU-9", 3, "GPU-9 GPU-8 GPU-10"},
                {"GPU-9 GPU-22", 2, "GPU-9 GPU-22"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(24);
                _cleanup_(strbuf_done) struct strbuf available = STRBUF_INIT;
                struct query query = {.node = &node, .required = table[i].required, .size = table[i].size};

                for (size_t a = 0; a < 24; a++)
                        for (size_t b = a + 1; b < 24; b++)
                                node_link(&node, a, b, a / 4 == b / 4 ? 10 : 50, 0);
                for (size_t a = 0; a < 23; a++)
                        strbuf_printf(&available, "GPU-%zu ", a);
                query.available = available.data;
                assert_ok(node_plan(&node), &node.err);
                assert_choice(&query, table[i].expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replicas_are_packed_or_distributed),
                cmocka_unit_test(test_requests_that_cannot_be_met_are_refused),
                cmocka_unit_test(test_random_requests_get_what_sorting_before_each_pick_gives),
                cmocka_unit_test(test_whole_gpus_are_chosen_by_their_links),
                cmocka_unit_test(test_sharing_with_one_replica_goes_by_links_too),
                cmocka_unit_test(test_pair_scores_are_those_of_go_gpuallocator),
                cmocka_unit_test(test_without_links_the_lowest_positions_are_taken),
                cmocka_unit_test(test_random_sets_are_the_best_of_all),
                cmocka_unit_test(test_many_gpus_are_chosen_one_by_one),
        };

        return cmocka_run_group_tests_name("prefer", tests, NULL, NULL);
}
