// SPDX-License-Identifier: Apache-2.0
/*
 * Pods that use several claims.
 */
#include "unit.h"

#include <jansson.h>
#include <string.h>

#include "base/strbuf.h"
#include "node/dra/wanted.h"

/* ---- containers ---- */

/*
 * Containers "a" and "b" with these entries of the pod; entry "x" is claim "train", "y" claim "serve", "t" the claim of
 * a template.
 */
static json_t *make_pod(const char *of_a, const char *of_b)
{
        _free_ char *text = xasprintf(
                "{\"spec\": {\"resourceClaims\": [{\"name\": \"x\", \"resourceClaimName\": \"train\"}, "
                "{\"name\": \"y\", \"resourceClaimName\": \"serve\"}, "
                "{\"name\": \"t\", \"resourceClaimTemplateName\": \"any\"}], "
                "\"initContainers\": [{\"name\": \"a\", \"resources\": {\"claims\": [%s]}}], "
                "\"containers\": [{\"name\": \"b\", \"resources\": {\"claims\": [%s]}}, {\"name\": \"c\"}]}, "
                "\"status\": {\"resourceClaimStatuses\": [{\"name\": \"t\", \"resourceClaimName\": \"pod-t-1\"}], "
                "\"extendedResourceClaimStatus\": {\"resourceClaimName\": \"pod-e-1\", \"requestMappings\": "
                "[{\"containerName\": \"b\", \"requestName\": \"r\"}]}}}",
                of_a, of_b);
        json_error_t error;
        json_t *pod = json_loads(text, 0, &error);

        assert_non_null(pod);
        return pod;
}

#define X "{\"name\": \"x\"}"
#define Y "{\"name\": \"y\", \"request\": \"main\"}"
#define T "{\"name\": \"t\"}"

static void test_a_container_that_uses_both_claims_is_found(void **state UNUSED)
{
        static const struct {
                const char *of_a, *of_b, *claim, *other;
                const char *container; /* NULL: none */
                const char *of_claim;  /* its request with a share; NULL: not known */
        } cases[] = {
                {X, Y, "train", "serve", NULL},
                {X "," Y, "", "train", "serve", "a"},
                {"", Y "," X, "train", "serve", "b"},
                {X "," Y, X "," Y, "serve", "train", "a"},
                {"", T "," X, "pod-t-1", "train", "b"},
                {T, X, "pod-t-1", "train", NULL},
                {"", X, "train", "pod-e-1", "b"},
                {X, "", "train", "pod-e-1", NULL},
                {X "," Y, "", "train", "any", NULL},
                {"{\"name\": \"z\"}, 7, {}", "7", "train", "serve", NULL},
                {X "," Y, "", "serve", "train", "a", "main"},
                {X "," Y, "", "serve", "train", NULL, "other"}, /* what the container has of it is no share */
                {"", X, "pod-e-1", "train", "b", "r"},
                {"", X, "pod-e-1", "train", NULL, "q"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *pod = make_pod(cases[i].of_a, cases[i].of_b);
                const struct dra_pod_claim claim = {cases[i].claim, &cases[i].of_claim, cases[i].of_claim != NULL};
                const struct dra_pod_claim other = {.name = cases[i].other};
                const char *found = dra_pod_container_of_both(pod, &claim, &other);

                if (!found != !cases[i].container || (found && strcmp(found, cases[i].container) != 0))
                        fail_msg("case %zu: %s", i, found ? found : "none");
                json_decref(pod);
        }
        assert_null(dra_pod_container_of_both(
                NULL, &(struct dra_pod_claim){.name = "train"}, &(struct dra_pod_claim){.name = "serve"}));
}

/* "main+other *": a container with two requests, and one with all. */
static char *text_of(const struct dra_uses *uses)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < uses->count; i++) {
                strbuf_printf(&text, "%s%s", i ? " " : "", uses->all[i].n_requests ? "" : "*");
                for (size_t j = 0; j < uses->all[i].n_requests; j++)
                        strbuf_printf(&text, "%s%s", j ? "+" : "", uses->all[i].requests[j]);
        }
        return text.data;
}

static void test_what_containers_use_of_a_claim_is_found(void **state UNUSED)
{
        static const struct {
                const char *of_a, *of_b, *claim, *expected;
        } cases[] = {
                {X, X, "train", "* *"},
                {Y, "", "serve", "main"},
                {Y ",{\"name\": \"y\", \"request\": \"other\"}", Y, "serve", "main+other main"},
                {Y ",{\"name\": \"y\"}", "", "serve", "*"},
                {Y, X, "none", ""},
                {"", "", "pod-e-1", "r"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                json_t *pod = make_pod(cases[i].of_a, cases[i].of_b);
                struct dra_uses uses = {.is_whole = true};
                _free_ char *text = NULL;

                dra_pod_add_uses(pod, cases[i].claim, &arena, &uses);
                json_decref(pod);
                text = text_of(&uses);
                assert_string_equal(text, cases[i].expected);
                assert_true(uses.is_whole);
        }
}

static void test_more_containers_than_are_remembered_are_said_to_be_missing(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *pod = make_pod(X, X);
        struct dra_uses uses = {.is_whole = true};

        for (size_t i = 0; i < DRA_USES_MAX / 2; i++)
                dra_pod_add_uses(pod, "train", &arena, &uses);
        assert_true(uses.is_whole);
        dra_pod_add_uses(pod, "train", &arena, &uses);
        assert_false(uses.is_whole);
        assert_int_equal(uses.count, DRA_USES_MAX);
        json_decref(pod);
}

/* ---- pods ---- */

static const struct ledger_claim_device share = {.id = "c1_0", .unit = "GPU-0", .is_shared = true};
static const struct ledger_claim_device whole = {.id = "c2_0", .unit = "GPU-1", .is_alone = true};
static const struct ledger_claim_pod pods[] = {{.uid = "p1", .name = "one"}, {.uid = "p2", .name = "two"}};
static const struct ledger_claim by_mps = {
        .uid = "u1", .name = "team/train", .devices = &share, .n_devices = 1, .pods = pods, .n_pods = 2};
static const struct ledger_claim without = {
        .uid = "u2", .name = "team/whole", .devices = &whole, .n_devices = 1, .pods = pods, .n_pods = 2};

static void test_another_claim_counts_if_it_has_a_share_and_the_pod_uses_it(void **state UNUSED)
{
        assert_true(dra_claim_is_beside(&by_mps, "u9", "p2"));
        assert_false(dra_claim_is_beside(&by_mps, "u9", "p3"));
        assert_false(dra_claim_is_beside(&by_mps, "u1", "p2")); /* itself */
        assert_false(dra_claim_is_beside(&without, "u9", "p2"));
}

static void test_the_pods_of_a_claim_that_use_others_come_one_by_one(void **state UNUSED)
{
        const struct ledger_claim_state states[] = {{&without, true}, {&by_mps, false}};
        static const struct ledger_claim_pod three[] = {{"p0", "one"}, {"p1", "two"}, {"p2", "four"}};
        const struct dra_claim claim = {.uid = "u9", .pods = three, .n_pods = ARRAY_SIZE(three)};
        size_t position = 0;

        assert_string_equal(dra_pod_with_others(&claim, states, ARRAY_SIZE(states), &position)->name, "two");
        assert_string_equal(dra_pod_with_others(&claim, states, ARRAY_SIZE(states), &position)->name, "four");
        assert_null(dra_pod_with_others(&claim, states, ARRAY_SIZE(states), &position));
        position = 0;
        assert_null(dra_pod_with_others(&claim, states, 1, &position));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_container_that_uses_both_claims_is_found),
                cmocka_unit_test(test_what_containers_use_of_a_claim_is_found),
                cmocka_unit_test(test_more_containers_than_are_remembered_are_said_to_be_missing),
                cmocka_unit_test(test_another_claim_counts_if_it_has_a_share_and_the_pod_uses_it),
                cmocka_unit_test(test_the_pods_of_a_claim_that_use_others_come_one_by_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
