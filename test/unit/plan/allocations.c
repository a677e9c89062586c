// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/allocations.h"

/* ---- a resource, its record, and what they say ---- */

struct fixture {
        struct rig *rig;
        struct allocations *allocations;
        struct error err;
        int64_t now;
        unsigned int n_asked;
        struct strbuf released;
};

static struct rig *new_rig(const char *units)
{
        struct rig *rig = xcalloc(1, sizeof(*rig));

        rig_init(rig, units);
        return rig;
}

static void free_rig(struct rig *rig)
{
        rig_done(rig);
        free(rig);
}

static void fixture_init(struct fixture *fixture, const char *units, unsigned int max_per_request)
{
        *fixture = (struct fixture){.rig = new_rig(units), .now = 1000, .released = STRBUF_INIT};
        fixture->allocations = allocations_new(&fixture->rig->resource, max_per_request);
}

static void fixture_done(struct fixture *fixture)
{
        allocations_free(fixture->allocations);
        strbuf_done(&fixture->released);
        free_rig(fixture->rig);
}

/* Another plan. */
static void fixture_replan(struct fixture *fixture, const char *units, unsigned int max_per_request)
{
        struct rig *rig = new_rig(units);

        allocations_set_resource(fixture->allocations, &rig->resource, max_per_request);
        free_rig(fixture->rig);
        fixture->rig = rig;
}

/* Ids separated by blanks. The allocations are called g1, g2, … */
static int make(struct fixture *fixture, const char *ids, enum allocations_try which, const struct allocation **ret)
{
        const char **devices;
        size_t n_devices = rig_split(fixture->rig, ids, &devices);
        char id[16];

        snprintf(id, sizeof(id), "g%u", fixture->n_asked + 1);
        if (allocations_make(fixture->allocations, devices, n_devices,
                    (struct allocations_moment){fixture->now, fixture->now}, id, which, ret, &fixture->err) < 0)
                return -1;
        fixture->n_asked++;
        return 0;
}

static int try(struct fixture *fixture, const char *ids, const struct allocation **ret)
{
        return make(fixture, ids, ALLOCATIONS_BEFORE_KUBELET, ret);
}

static int try_again(struct fixture *fixture, const char *ids, const struct allocation **ret)
{
        return make(fixture, ids, ALLOCATIONS_AFTER_KUBELET, ret);
}

/* The unit that it is bound to. */
static const char *ask(struct fixture *fixture, const char *ids)
{
        const struct allocation *allocation = NULL;

        assert_ok(try(fixture, ids, &allocation), &fixture->err);
        return allocation->unit ? allocation->unit : "-";
}

static void on_released(const char *id, void *data)
{
        struct fixture *fixture = data;

        strbuf_printf(&fixture->released, "%s%s", fixture->released.size ? " " : "", id);
}

/* Containers separated by ';'. What is over is compared with |expected|. */
static void sync_at(struct fixture *fixture, const char *list, int64_t as_of, const char *expected)
{
        char *copy = arena_strdup(&fixture->rig->arena, list);
        struct allocations_held *held = ARENA_ARRAY(&fixture->rig->arena, struct allocations_held, strlen(list) + 1);
        size_t n_held = 0;
        char *rest;

        for (char *one = strtok_r(copy, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
                const char **devices;

                held[n_held].n_devices = rig_split(fixture->rig, one, &devices);
                held[n_held++].devices = devices;
        }
        strbuf_clear(&fixture->released);
        allocations_sync(fixture->allocations, held, n_held, as_of, on_released, fixture);
        assert_string_equal(fixture->released.data, expected);
}

static void sync_all(struct fixture *fixture, const char *list, const char *expected)
{
        sync_at(fixture, list, INT64_MAX, expected);
}

/* "A:g1=A::0,A::1" for each allocation, oldest first. */
static void assert_allocations(struct fixture *fixture, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < allocations_count(fixture->allocations); i++) {
                const struct allocation *allocation = allocations_get(fixture->allocations, i);

                strbuf_printf(
                        &text, "%s%s:%s=", i ? " " : "", allocation->unit ? allocation->unit : "-", allocation->id);
                for (size_t j = 0; j < allocation->n_devices; j++)
                        strbuf_printf(&text, "%s%s", j ? "," : "", allocation->devices[j]);
        }
        assert_string_equal(text.data, expected);
}

static void assert_reserved(struct fixture *fixture, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const bool *reserved = allocations_reserved_ids(fixture->allocations);

        for (size_t i = 0; i < fixture->rig->resource.n_devices; i++)
                if (reserved[i])
                        strbuf_printf(&text, "%s%s", text.size ? " " : "", fixture->rig->resource.devices[i].id);
        assert_string_equal(text.data, expected);
}

/* ---- how many are advertised ---- */

static void test_the_bound_is_that_of_the_design(void **state UNUSED)
{
        static const struct {
                const char *units;
                unsigned int max_per_request;
                size_t expected;
        } rows[] = {
                {"A*20 B*20 C*20 D*20", 0, 80},
                {"A*20 B*20 C*20 D*20", 1, 80},
                {"A*20 B*20 C*20 D*20", 5, 68},
                {"A*20 B*20 C*20 D*20", 20, 23},
                {"A*20 B*20 C*20 D*20", 1000, 23},
                {"A*20", 20, 20},
                {"A*20 B*10", 5, 26},
                /* A unit that is smaller than the request is no help to it, and lends nothing. */
                {"A*20 B*3", 5, 20},
                {"A*20 B", 5, 20},
                {"A*4 B*3 C*2", 3, 5},
                {"A B C", 1, 3},
                {"A B C", 9, 3},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(rig_done) struct rig rig;

                rig_init(&rig, rows[i].units);
                assert_int_equal(allocations_capacity(&rig.resource, rows[i].max_per_request), rows[i].expected);
        }
}

static void test_without_a_reserve_all_are_advertised_and_a_request_goes_whole_on_one_unit_or_is_refused(
        void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*4 B*4", 4);
        fixture.rig->resource.reserves = false;
        allocations_set_resource(fixture.allocations, &fixture.rig->resource, 4);
        assert_int_equal(allocations_capacity(&fixture.rig->resource, 4), 8);
        assert_reserved(&fixture, "");
        ask(&fixture, "A::0 A::1");
        assert_string_equal(ask(&fixture, "B::0 A::2 B::1"), "B");
        assert_reserved(&fixture, "");
        assert_fails(try(&fixture, "A::3 B::2 B::3", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "no unit of resource 'nvidia.com/gpu' has 3 free replicas: the most is 2; 0 of 2 units are not healthy "
                "(with reserve: strict no pod is admitted that finds no unit)");
}

/* ---- requests ---- */

static void test_a_request_goes_to_the_unit_of_its_ids(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        assert_string_equal(ask(&fixture, "B::1 B::0"), "B");
        assert_string_equal(ask(&fixture, "A::0"), "A");
        assert_allocations(&fixture, "B:g1=B::1,B::0 A:g2=A::0");
        assert_string_equal(allocations_of_device(fixture.allocations, "B::0")->id, "g1");
        assert_null(allocations_of_device(fixture.allocations, "B::2"));
        assert_null(allocations_of_device(fixture.allocations, "X::2"));
}

static void test_a_mixed_request_is_bound_to_one_unit_whatever_its_ids_say(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4 C*4", 2);
        assert_string_equal(ask(&fixture, "A::0 A::1"), "A");
        assert_string_equal(ask(&fixture, "A::2"), "A");
        assert_string_equal(ask(&fixture, "A::3 B::0"), "B");
        /* A has room without an id, B an id without room. */
        assert_string_equal(ask(&fixture, "B::1 B::2"), "B");
        assert_string_equal(ask(&fixture, "B::3"), "A");
        assert_allocations(&fixture, "A:g1=A::0,A::1 A:g2=A::2 B:g3=A::3,B::0 B:g4=B::1,B::2 A:g5=B::3");
}

static void test_among_units_with_as_many_of_the_ids_it_fits_tightest(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4 C*4", 2);
        assert_string_equal(ask(&fixture, "B::3"), "B");
        assert_string_equal(ask(&fixture, "A::0 B::0"), "B");
}

static void test_an_id_that_is_there_twice_counts_once(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        assert_string_equal(ask(&fixture, "A::0 A::1 A::0"), "A");
        assert_allocations(&fixture, "A:g1=A::0,A::1");
}

static void test_without_a_guarantee_each_id_counts_for_its_own_unit(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*2 B*2", 0);
        assert_string_equal(ask(&fixture, "A::0 B::0 B::1"), "-");
        assert_string_equal(ask(&fixture, "A::0 A::1"), "-");
        assert_allocations(&fixture, "-:g1=A::0,B::0,B::1 -:g2=A::0,A::1");
        assert_reserved(&fixture, "");
}

static void test_requests_that_can_never_be_met_are_refused_for_good(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*4 B*2", 3);
        assert_fails(try(&fixture, "A::0 A::1 A::2 A::3", &allocation), &fixture.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': 4 replicas are asked for, but maxPerRequest is 3: ask for "
                "fewer, or raise it");
        assert_fails(try(&fixture, "A::0 A::1 A::2 A::3 B::0", &allocation), &fixture.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': 5 replicas are asked for, but all must be of one unit, and "
                "the largest has 4: ask for fewer");
        assert_fails(try(&fixture, "", &allocation), &fixture.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': it names no device");
        assert_fails(try(&fixture, "A::0 C::1", &allocation), &fixture.err, ERROR_NOT_FOUND,
                "invalid request for resource 'nvidia.com/gpu': unknown device 'C::1'");
        assert_allocations(&fixture, "");
}

static void test_where_the_ledger_have_no_room_kubelet_is_to_be_asked(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*3 B*3 C*3", 3);
        ask(&fixture, "A::0");
        ask(&fixture, "B::0");
        assert_string_equal(ask(&fixture, "C::0"), "C");
        /* 9 − 4 may be in use, so that something has left. */
        assert_fails(try(&fixture, "A::1 A::2 B::1", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "with this request 6 replicas of resource 'nvidia.com/gpu' would be in use, and 5 are advertised");
        assert_allocations(&fixture, "A:g1=A::0 B:g2=B::0 C:g3=C::0");
        sync_all(&fixture, "A::0;B::0", "g3");
        assert_string_equal(ask(&fixture, "A::1 A::2 B::1"), "C");
        /* Where it has not, the second try may still have what there is. */
        sync_all(&fixture, "A::0;B::0;A::1 A::2 B::1", "");
        assert_fails(try(&fixture, "A::1 A::2 B::1 B::2", &allocation), &fixture.err, ERROR_INVALID,
                "invalid request for resource 'nvidia.com/gpu': 4 replicas are asked for, but all must be of one unit, and "
                "the largest has 3: ask for fewer");
        assert_fails(try(&fixture, "B::2 C::1 C::2", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "with this request 8 replicas of resource 'nvidia.com/gpu' would be in use, and 5 are advertised");
        assert_fails(try_again(&fixture, "B::2 C::1 C::2", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "no unit of resource 'nvidia.com/gpu' has 3 free replicas: the most is 2; 0 of 3 units are not healthy");
        assert_fails(try(&fixture, "B::2 C::1", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "with this request 7 replicas of resource 'nvidia.com/gpu' would be in use, and 5 are advertised");
        assert_ok(try_again(&fixture, "B::2 C::1", &allocation), &fixture.err);
        assert_string_equal(allocation->unit, "B");
        assert_fails(try(&fixture, "C::2", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "with this request 8 replicas of resource 'nvidia.com/gpu' would be in use, and 5 are advertised");
}

static void test_two_requests_in_the_same_state_get_the_same_answer(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*3 B*3 C*3", 3);
        ask(&fixture, "A::0 A::1");
        ask(&fixture, "B::0 B::1");
        ask(&fixture, "C::0");
        for (int i = 0; i < 3; i++)
                assert_fails(try(&fixture, "C::1", &allocation), &fixture.err, ERROR_EXHAUSTED,
                        "with this request 6 replicas of resource 'nvidia.com/gpu' would be in use, and 5 are advertised");
        assert_ok(try_again(&fixture, "C::1", &allocation), &fixture.err);
}

/* ---- ids that another allocation has ---- */

static void test_an_app_container_takes_over_from_its_init_container_on_the_same_unit(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 4);
        assert_string_equal(ask(&fixture, "B::0 B::1 B::2"), "B"); /* init */
        assert_string_equal(ask(&fixture, "B::1 A::0"), "B");      /* app */
        assert_string_equal(allocations_of_device(fixture.allocations, "B::1")->id, "g2");
        assert_string_equal(allocations_of_device(fixture.allocations, "B::2")->id, "g1");
        /* The init container keeps two, so B is full. */
        assert_string_equal(ask(&fixture, "B::3"), "A");
}

static void test_a_container_that_is_asked_for_again_keeps_its_unit(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*2 B*2", 2);
        assert_string_equal(ask(&fixture, "A::0 B::0"), "A");
        assert_string_equal(ask(&fixture, "B::1"), "B");
        assert_string_equal(ask(&fixture, "B::0 A::0"), "A");
        sync_all(&fixture, "A::0 B::0;B::1", "g1");
}

static void test_an_init_container_that_kubelet_still_has_is_not_over(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 3);
        ask(&fixture, "A::0 A::1 A::2");
        ask(&fixture, "A::0");
        sync_all(&fixture, "A::0 A::1 A::2;A::0", "");
        sync_all(&fixture, "A::0", "g1");
        assert_allocations(&fixture, "A:g2=A::0");
        /* One whose ids were all taken over is found, too. */
        ask(&fixture, "A::0");
        sync_all(&fixture, "A::0;A::0", "");
        sync_all(&fixture, "A::0", "g2");
        assert_allocations(&fixture, "A:g3=A::0");
}

/* ---- kubelet's list ---- */

static void test_what_kubelet_does_not_list_is_over(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        ask(&fixture, "A::0 A::1");
        ask(&fixture, "B::0");
        ask(&fixture, "B::1");
        sync_all(&fixture, "A::1 A::0;B::1", "g2");
        sync_all(&fixture, "", "g1 g3");
        assert_int_equal(allocations_count(fixture.allocations), 0);
        assert_null(allocations_of_device(fixture.allocations, "B::1"));
}

static void test_a_list_says_nothing_about_what_was_granted_since(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        fixture.now = 1000;
        ask(&fixture, "A::0");
        fixture.now = 1001;
        ask(&fixture, "A::1");
        sync_at(&fixture, "", 1001, "g1");
        assert_allocations(&fixture, "A:g2=A::1");
        sync_at(&fixture, "", 1002, "g2");
}

static void test_what_the_ledger_have_lost_is_entered_as_it_was_answered(void **state UNUSED)
{
        const char *const one[] = {"A::0"};
        const char *const two[] = {"A::1", "A::2"};
        const char *const three[] = {"A::3"};
        const struct allocations_held held[] = {
                {.devices = one, .n_devices = 1, .id = "g77", .texts = "7/20\nB\n"}, /* another unit than its ids say */
                {.devices = two, .n_devices = 2, .id = "../g78", .texts = "A"},
                {.devices = three, .n_devices = 1, .id = "g79", .texts = "A\nB"},
        };
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        allocations_sync(fixture.allocations, held, ARRAY_SIZE(held), 1000, on_released, &fixture);
        assert_int_equal(allocations_count(fixture.allocations), 3);
        assert_string_equal(allocations_get(fixture.allocations, 0)->id, "g77");
        assert_string_equal(allocations_get(fixture.allocations, 0)->unit, "B");
        assert_false(allocations_get(fixture.allocations, 0)->is_guess);
        assert_string_not_equal(allocations_get(fixture.allocations, 1)->id, "../g78");
        assert_true(allocations_get(fixture.allocations, 1)->is_guess);
        assert_string_equal(allocations_get(fixture.allocations, 2)->unit, "A");
        assert_true(allocations_get(fixture.allocations, 2)->is_guess);
}

static void test_a_time_of_day_that_was_set_back_keeps_no_allocation_in_the_ledger(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const char *const ids[] = {"A::0"};
        const struct allocation *allocation;

        fixture_init(&fixture, "A*4 B*4", 2);
        assert_ok(allocations_make(fixture.allocations, ids, 1,
                          (struct allocations_moment){.clock = 100, .date = 2000000000}, "g1",
                          ALLOCATIONS_BEFORE_KUBELET, &allocation, &fixture.err),
                &fixture.err);
        sync_at(&fixture, "", 100, "");
        sync_at(&fixture, "", 101, "g1");
}

static void test_an_entry_about_an_id_that_was_granted_since_is_out_of_date(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        ask(&fixture, "A::0 A::1");
        sync_at(&fixture, "A::0 A::2", 1000, "");
        assert_allocations(&fixture, "A:g1=A::0,A::1");
        /* But one from later is right. */
        sync_at(&fixture, "A::0 A::2", 1001, "g1");
        assert_int_equal(allocations_count(fixture.allocations), 1);
        assert_int_equal(allocations_get(fixture.allocations, 0)->n_devices, 2);
}

static void test_allocations_that_the_ledger_lost_are_entered(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;
        _free_ char *id = NULL;

        fixture_init(&fixture, "A*4 B*4", 3);
        sync_all(&fixture, "A::0 B::0 B::1;A::3;X::1", "");
        assert_int_equal(allocations_count(fixture.allocations), 3);
        allocation = allocations_get(fixture.allocations, 0);
        assert_string_equal(allocation->unit, "B");
        assert_int_equal(allocation->since, 0);
        assert_int_equal(allocations_of_device(fixture.allocations, "A::0"), allocation);
        assert_null(allocations_of_device(fixture.allocations, "X::1")->unit);
        /* Under the same name if that happens again, in whatever order they come. */
        id = xstrdup(allocation->id);
        allocations_free(fixture.allocations);
        fixture.allocations = allocations_new(&fixture.rig->resource, 3);
        sync_all(&fixture, "A::3;B::1 A::0 B::0", "");
        assert_string_equal(allocations_of_device(fixture.allocations, "A::0")->id, id);
}

/* ---- what is hidden ---- */

static size_t count_reserved(const struct fixture *fixture)
{
        size_t count = 0;

        for (size_t i = 0; i < fixture->rig->resource.n_devices; i++)
                count += allocations_reserved_ids(fixture->allocations)[i];
        return count;
}

static void test_the_rest_is_reserved_and_stays_reserved_while_that_is_enough(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4 C*4", 2);
        assert_reserved(&fixture, "A::2 A::3");
        ask(&fixture, "A::0 A::1");
        ask(&fixture, "B::0");
        ask(&fixture, "B::1 B::2");
        ask(&fixture, "C::0 C::1");
        assert_reserved(&fixture, "A::2 A::3");
        /* Now the next two would be split. */
        ask(&fixture, "C::2");
        assert_reserved(&fixture, "B::3 C::3");
        sync_all(&fixture, "A::0 A::1", "g2 g3 g4 g5");
        assert_reserved(&fixture, "B::3 C::3");
}

static void test_a_reserved_id_that_kubelet_took_is_reserved_no_more(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        assert_reserved(&fixture, "A::3");
        assert_string_equal(ask(&fixture, "A::3"), "A");
        assert_int_equal(count_reserved(&fixture), 1);
        assert_reserved(&fixture, "B::3");
}

static void test_ids_without_room_are_reserved_first(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 2);
        ask(&fixture, "B::0 B::1");
        ask(&fixture, "A::0 A::1");
        assert_reserved(&fixture, "A::3");
        ask(&fixture, "A::2");
        /* A has one replica left and B two; of the ids, A has none left but the hidden one. */
        assert_string_equal(ask(&fixture, "A::3"), "A");
        assert_reserved(&fixture, "B::3");
}

/* ---- health ---- */

static void test_a_unit_that_is_not_healthy_has_no_room_and_nothing_reserved(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*4 B*4 C*4", 3);
        assert_int_equal(count_reserved(&fixture), 4);
        allocations_set_unit_health(fixture.allocations, "A", false);
        allocations_set_unit_health(fixture.allocations, "X", false);
        /* 8 − 2 */
        assert_reserved(&fixture, "B::3 C::3");
        assert_string_equal(ask(&fixture, "A::0 A::1"), "B");
        allocations_set_unit_health(fixture.allocations, "B", false);
        assert_reserved(&fixture, "");
        allocations_set_unit_health(fixture.allocations, "C", false);
        assert_fails(try(&fixture, "C::0", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "no unit of resource 'nvidia.com/gpu' has 1 free replicas: the most is 0; 3 of 3 units are not healthy");
        allocations_set_unit_health(fixture.allocations, "A", true);
        allocations_set_unit_health(fixture.allocations, "B", true);
        allocations_set_unit_health(fixture.allocations, "C", true);
        assert_int_equal(count_reserved(&fixture), 4);
}

/* Else the scheduler would send a request of 4, for which no unit is left. */
static void test_no_more_is_advertised_than_the_largest_healthy_unit_has(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*5 B*3 C*3", 5);
        assert_reserved(&fixture, "B::0 B::1 B::2 C::0 C::1 C::2");
        allocations_set_unit_health(fixture.allocations, "A", false);
        assert_reserved(&fixture, "C::0 C::1 C::2");
}

static void test_no_more_ids_are_reserved_than_are_free(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4 C*4", 3);
        ask(&fixture, "B::0 B::1 B::2");
        ask(&fixture, "B::3");
        ask(&fixture, "C::0 C::1 C::2");
        ask(&fixture, "C::3");
        allocations_set_unit_health(fixture.allocations, "A", false);
        assert_reserved(&fixture, "");
        sync_all(&fixture, "B::0 B::1 B::2;B::3;C::3", "g3");
        assert_int_equal(count_reserved(&fixture), 2);
}

/* ---- another plan ---- */

static void test_allocations_and_health_survive_another_plan(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        const struct allocation *allocation;

        fixture_init(&fixture, "A*4 B*4", 4);
        ask(&fixture, "A::0 A::3");
        ask(&fixture, "B::0 B::1");
        allocations_set_unit_health(fixture.allocations, "B", false);
        fixture_replan(&fixture, "C*4 B*4 A*3", 3);
        assert_allocations(&fixture, "A:g1=A::0,A::3 B:g2=B::0,B::1");
        assert_string_equal(allocations_of_device(fixture.allocations, "A::3")->id, "g1");
        /* A has one left, B is sick. */
        assert_string_equal(ask(&fixture, "A::1 A::2"), "C");
        assert_string_equal(ask(&fixture, "B::2 B::3"), "C");
        assert_fails(try(&fixture, "B::2 B::1", &allocation), &fixture.err, ERROR_EXHAUSTED,
                "no unit of resource 'nvidia.com/gpu' has 2 free replicas: the most is 1; 1 of 3 units are not healthy");
}

static void test_allocations_of_a_unit_that_is_gone_do_not_count(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4 B*4", 4);
        ask(&fixture, "B::0 B::1");
        fixture_replan(&fixture, "A*4", 4);
        assert_allocations(&fixture, "B:g1=B::0,B::1");
        assert_string_equal(ask(&fixture, "A::0 A::1 A::2 A::3"), "A");
        sync_all(&fixture, "B::0 B::1", "g2");
        sync_all(&fixture, "", "g1");
}

/* ---- the record ---- */

static void test_the_ledger_survive_as_text(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture;
        _free_ char *text = NULL;
        _free_ char *again = NULL;

        fixture_init(&fixture, "A*4 B*4", 3);
        ask(&fixture, "A::0 A::1 B::0");
        ask(&fixture, "A::1");
        text = allocations_write_all(&(const struct allocations *){fixture.allocations}, 1);
        assert_string_equal(text,
                "{\"version\":1,\"grants\":["
                "{\"id\":\"g1\",\"unit\":\"A\",\"since\":1000,\"devices\":[\"A::0\",\"A::1\",\"B::0\"]},"
                "{\"id\":\"g2\",\"unit\":\"A\",\"since\":1000,\"devices\":[\"A::1\"]}]}");
        allocations_free(fixture.allocations);
        fixture.allocations = allocations_new(&fixture.rig->resource, 3);
        assert_ok(allocations_read(fixture.allocations, text, strlen(text), fixture.now, &fixture.err), &fixture.err);
        again = allocations_write_all(&(const struct allocations *){fixture.allocations}, 1);
        assert_string_equal(again, text);
        assert_string_equal(allocations_of_device(fixture.allocations, "A::1")->id, "g2");
        assert_string_equal(ask(&fixture, "B::1 B::2"), "B");
}

static size_t json_size;
static size_t json_peak;

static void *count_json(size_t size)
{
        size_t *block = xmalloc(sizeof(max_align_t) + size);

        *block = size;
        json_size += size;
        json_peak = MAX(json_peak, json_size);
        return (char *)block + sizeof(max_align_t);
}

static void uncount_json(void *bytes)
{
        char *block = bytes ? (char *)bytes - sizeof(max_align_t) : NULL;

        json_size -= block ? *(size_t *)block : 0;
        free(block);
}

/* How much of JSON there is at once while |count| allocations are written. */
static size_t peak_of_writing(unsigned int count)
{
        _cleanup_(fixture_done) struct fixture fixture;
        _free_ char *text = NULL;

        fixture_init(&fixture, "A*200", 1);
        for (unsigned int i = 0; i < count; i++) {
                _free_ char *id = xasprintf("A::%u", i);

                assert_string_equal(ask(&fixture, id), "A");
        }
        json_peak = json_size = 0;
        json_set_alloc_funcs(count_json, uncount_json);
        text = allocations_write_all(&(const struct allocations *){fixture.allocations}, 1);
        json_set_alloc_funcs(malloc, free);
        assert_int_equal(json_size, 0);
        assert_true(strlen(text) > (size_t)40 * count);
        return json_peak;
}

/* What the record takes for a moment stays with the process where other things were put behind it. */
static void test_writing_many_allocations_takes_no_more_json_at_once_than_one(void **state UNUSED)
{
        assert_in_range(peak_of_writing(150), 1, peak_of_writing(10) + 64);
}

/* A byte of the file is another: what kubelet's record says of the same allocation is right. */
static void test_what_was_answered_counts_for_more_than_the_record(void **state UNUSED)
{
        static const char *const records[] = {
                "{\"grants\":[{\"id\":\"g7\",\"unit\":\"A\",\"since\":5,\"devices\":[\"A::1\",\"B::2\"]}]}",
                "{\"grants\":[{\"id\":\"g7\",\"xnit\":\"B\",\"since\":5,\"devices\":[\"A::1\",\"B::3\"]}]}",
                "{\"grants\":[{\"id\":\"g7\",\"unit\":\"B\",\"since\":5,\"devices\":[\"A::1\"]}]}",
        };
        const char *const ids[] = {"A::1", "B::2"};
        const struct allocations_held held = {.devices = ids, .n_devices = 2, .id = "g7", .texts = "B\n"};

        for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
                _cleanup_(fixture_done) struct fixture fixture;
                const struct allocation *allocation;

                fixture_init(&fixture, "A*4 B*4", 2);
                assert_ok(allocations_read(fixture.allocations, records[i], strlen(records[i]), 100, &fixture.err),
                        &fixture.err);
                allocations_sync(fixture.allocations, &held, 1, 1000, on_released, &fixture);
                assert_int_equal(allocations_count(fixture.allocations), 1);
                allocation = allocations_get(fixture.allocations, 0);
                assert_string_equal(allocation->unit, "B");
                assert_int_equal(allocation->n_devices, 2);
                assert_string_equal(allocation->devices[1], "B::2");
                assert_int_equal(allocation->since, 5);
                assert_ptr_equal(allocations_of_device(fixture.allocations, "A::1"), allocation);
                assert_null(allocations_of_device(fixture.allocations, "B::3"));
        }
}

static void test_what_is_malformed_in_the_record_is_left_out(void **state UNUSED)
{
        static const char text[] = "{\"future\":true,\"grants\":[7,{},{\"id\":\"g1\"},"
                                   "{\"id\":\"g/../2\",\"since\":1,\"devices\":[\"A::0\"]},"
                                   "{\"id\":\"g3\",\"since\":1,\"devices\":[]},"
                                   "{\"id\":\"g4\",\"since\":1,\"devices\":[\"A::0\",\"A::0\"]},"
                                   "{\"id\":\"g5\",\"since\":1,\"devices\":[\"A::0\",5]},"
                                   "{\"id\":\"g6\",\"since\":9223372036854775807,\"devices\":[\"A::0\"]},"
                                   "{\"id\":\"g6\",\"since\":-1,\"devices\":[\"A::0\"]},"
                                   "{\"id\":\"g7\",\"unit\":7,\"since\":1,\"devices\":[\"A::0\"]},"
                                   "{\"id\":\"g8\",\"unit\":\"A\",\"since\":1,\"devices\":[\"A::0\"],\"future\":1},"
                                   "{\"id\":\"g8\",\"unit\":\"A\",\"since\":1,\"devices\":[\"A::1\"]},"
                                   "{\"id\":\"g9\",\"since\":1,\"devices\":[\"gone\"]}]}";
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4", 3);
        assert_ok(allocations_read(fixture.allocations, text, strlen(text), fixture.now, &fixture.err), &fixture.err);
        assert_allocations(&fixture, "A:g8=A::0 -:g9=gone");
}

static void test_what_is_no_record_changes_nothing(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected;
        } rows[] = {
                {"", "no allocation record: '[' or '{' expected near end of file"},
                {"{\"grants\":[", "no allocation record: ']' expected near end of file"},
                {"[]", "no allocation record: it has no list 'grants'"},
                {"{\"grants\":{}}", "no allocation record: it has no list 'grants'"},
        };
        _cleanup_(fixture_done) struct fixture fixture;

        fixture_init(&fixture, "A*4", 3);
        ask(&fixture, "A::0");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_fails(allocations_read(fixture.allocations, rows[i].text, strlen(rows[i].text), 0, &fixture.err),
                        &fixture.err, ERROR_INVALID, rows[i].expected);
        assert_fails(allocations_read(fixture.allocations, "", ALLOCATIONS_TEXT_MAX + 1, 0, &fixture.err), &fixture.err,
                ERROR_INVALID, "16777217 bytes are more than the limit of 16777216 of an allocation record");
        assert_allocations(&fixture, "A:g1=A::0");
}

static void test_allocations_without_an_end_do_not_pile_up(void **state UNUSED)
{
        struct fixture fixture;

        fixture_init(&fixture, "A*2", 2);
        for (unsigned int i = 0; i < 100; i++)
                ask(&fixture, i % 2 ? "A::0 A::1" : "A::0");
        assert_in_range(allocations_count(fixture.allocations), 2, 5);
        assert_string_equal(allocations_of_device(fixture.allocations, "A::0")->id, "g100");
        assert_string_equal(
                allocations_get(fixture.allocations, allocations_count(fixture.allocations) - 1)->id, "g100");
        fixture_done(&fixture);
}

/* From a resource to the part of it that keeps its sharing policy; a unit that neither has is a damaged name. */
static void test_what_is_handed_on_goes_with_its_unit_or_else_with_its_ids(void **state UNUSED)
{
        static const char text[] = "{\"grants\":[{\"id\":\"g1\",\"unit\":\"A\",\"since\":1,\"devices\":[\"B::0\"]},"
                                   "{\"id\":\"g2\",\"unit\":\"C\",\"since\":1,\"devices\":[\"B::1\"]},"
                                   "{\"id\":\"g3\",\"unit\":\"B\",\"since\":1,\"devices\":[\"A::2\"]},"
                                   "{\"id\":\"g4\",\"since\":1,\"devices\":[\"B::3\"]}]}";
        struct fixture from, to;

        fixture_init(&from, "A*4", 4);
        fixture_init(&to, "B*4", 4);
        assert_ok(allocations_read(from.allocations, text, strlen(text), 1, &from.err), &from.err);
        allocations_move(from.allocations, to.allocations, ALLOCATIONS_OF_TARGET);
        assert_allocations(&from, "A:g1=B::0 C:g2=B::1");
        assert_allocations(&to, "B:g3=A::2 -:g4=B::3");
        allocations_move(from.allocations, to.allocations, ALLOCATIONS_STRAY);
        assert_allocations(&from, "A:g1=B::0");
        assert_allocations(&to, "B:g3=A::2 -:g4=B::3 C:g2=B::1");
        allocations_move(from.allocations, to.allocations, ALLOCATIONS_ALL);
        assert_allocations(&from, "");
        assert_allocations(&to, "B:g3=A::2 -:g4=B::3 C:g2=B::1 A:g1=B::0");
        fixture_done(&from);
        fixture_done(&to);
}

/* Nothing goes while it is looked at. */
static void test_allocations_without_an_end_go_after_a_list_or_a_record_was_read(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct fixture fixture;

        fixture_init(&fixture, "A*2", 2);
        for (unsigned int i = 0; i < 8; i++)
                ask(&fixture, i % 2 ? "A::0 A::1" : "A::0");
        sync_at(&fixture, "A::1;A::1;A::1;A::1;A::1;A::1", INT64_MAX, "g4 g5 g6 g7 g8");
        assert_in_range(allocations_count(fixture.allocations), 1, 5);
        strbuf_puts(&text, "{\"grants\":[");
        for (unsigned int i = 0; i < 100; i++)
                strbuf_printf(&text, "%s{\"id\":\"h%u\",\"unit\":\"A\",\"since\":1,\"devices\":[\"A::0\"]}",
                        i ? "," : "", i % 50);
        strbuf_puts(&text, "]}");
        assert_ok(allocations_read(fixture.allocations, text.data, text.size, 1, &fixture.err), &fixture.err);
        assert_in_range(allocations_count(fixture.allocations), 2, 5);
        assert_string_equal(allocations_of_device(fixture.allocations, "A::0")->id, "h49");
        fixture_done(&fixture);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_handed_on_goes_with_its_unit_or_else_with_its_ids),
                cmocka_unit_test(test_allocations_without_an_end_go_after_a_list_or_a_record_was_read),
                cmocka_unit_test(test_the_bound_is_that_of_the_design),
                cmocka_unit_test(
                        test_without_a_reserve_all_are_advertised_and_a_request_goes_whole_on_one_unit_or_is_refused),
                cmocka_unit_test(test_a_request_goes_to_the_unit_of_its_ids),
                cmocka_unit_test(test_a_mixed_request_is_bound_to_one_unit_whatever_its_ids_say),
                cmocka_unit_test(test_among_units_with_as_many_of_the_ids_it_fits_tightest),
                cmocka_unit_test(test_an_id_that_is_there_twice_counts_once),
                cmocka_unit_test(test_allocations_without_an_end_do_not_pile_up),
                cmocka_unit_test(test_without_a_guarantee_each_id_counts_for_its_own_unit),
                cmocka_unit_test(test_requests_that_can_never_be_met_are_refused_for_good),
                cmocka_unit_test(test_two_requests_in_the_same_state_get_the_same_answer),
                cmocka_unit_test(test_where_the_ledger_have_no_room_kubelet_is_to_be_asked),
                cmocka_unit_test(test_an_app_container_takes_over_from_its_init_container_on_the_same_unit),
                cmocka_unit_test(test_a_container_that_is_asked_for_again_keeps_its_unit),
                cmocka_unit_test(test_an_init_container_that_kubelet_still_has_is_not_over),
                cmocka_unit_test(test_what_kubelet_does_not_list_is_over),
                cmocka_unit_test(test_a_list_says_nothing_about_what_was_granted_since),
                cmocka_unit_test(test_what_the_ledger_have_lost_is_entered_as_it_was_answered),
                cmocka_unit_test(test_a_time_of_day_that_was_set_back_keeps_no_allocation_in_the_ledger),
                cmocka_unit_test(test_an_entry_about_an_id_that_was_granted_since_is_out_of_date),
                cmocka_unit_test(test_allocations_that_the_ledger_lost_are_entered),
                cmocka_unit_test(test_the_rest_is_reserved_and_stays_reserved_while_that_is_enough),
                cmocka_unit_test(test_a_reserved_id_that_kubelet_took_is_reserved_no_more),
                cmocka_unit_test(test_ids_without_room_are_reserved_first),
                cmocka_unit_test(test_a_unit_that_is_not_healthy_has_no_room_and_nothing_reserved),
                cmocka_unit_test(test_no_more_is_advertised_than_the_largest_healthy_unit_has),
                cmocka_unit_test(test_no_more_ids_are_reserved_than_are_free),
                cmocka_unit_test(test_allocations_and_health_survive_another_plan),
                cmocka_unit_test(test_allocations_of_a_unit_that_is_gone_do_not_count),
                cmocka_unit_test(test_the_ledger_survive_as_text),
                cmocka_unit_test(test_writing_many_allocations_takes_no_more_json_at_once_than_one),
                cmocka_unit_test(test_what_was_answered_counts_for_more_than_the_record),
                cmocka_unit_test(test_what_is_malformed_in_the_record_is_left_out),
                cmocka_unit_test(test_what_is_no_record_changes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
