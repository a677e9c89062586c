// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "mig/plan.h"

/* ---- GPUs, as NVML describes them ---- */

static const struct mig_placement ones[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}};
static const struct mig_placement doubles[] = {{0, 2}, {2, 2}, {4, 2}, {6, 2}};
static const struct mig_placement twos[] = {{0, 2}, {2, 2}, {4, 2}};
static const struct mig_placement threes[] = {{0, 4}, {4, 4}};
static const struct mig_placement fours[] = {{0, 4}};
static const struct mig_placement sevens[] = {{0, 8}};

#define AT(list) .placements = (list), .n_placements = ARRAY_SIZE(list)
static const struct mig_gpu_profile h100[] = {
        {.name = "1g.10gb",
                .driver_name = "1g.10gb",
                .slices = 1,
                .max = 7,
                .attributes = {.decoders = 1, .encoders = 0, .jpegs = 1, .ofas = 0},
                AT(ones)},
        {.name = "1g.10gb+me",
                .slices = 1,
                .max = 1,
                .attributes = {.decoders = 1, .encoders = 0, .jpegs = 1, .ofas = 1},
                AT(ones)},
        {.name = "1g.20gb",
                .slices = 1,
                .max = 4,
                .attributes = {.decoders = 1, .encoders = 0, .jpegs = 1, .ofas = 0},
                AT(doubles)},
        {.name = "2g.20gb",
                .slices = 2,
                .max = 3,
                .attributes = {.decoders = 2, .encoders = 0, .jpegs = 2, .ofas = 0},
                AT(twos)},
        {.name = "3g.40gb",
                .slices = 3,
                .max = 2,
                .attributes = {.decoders = 3, .encoders = 0, .jpegs = 3, .ofas = 0},
                AT(threes)},
        {.name = "4g.40gb",
                .slices = 4,
                .max = 1,
                .attributes = {.decoders = 4, .encoders = 0, .jpegs = 4, .ofas = 0},
                AT(fours)},
        {.name = "7g.80gb",
                .driver_name = "7g.79gb",
                .slices = 7,
                .max = 1,
                .attributes = {.decoders = 7, .encoders = 0, .jpegs = 7, .ofas = 1},
                AT(sevens)},
};
enum { P1, P1_ME, P1_DOUBLE, P2, P3, P4, P7 };

static const struct mig_placement quarters[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}};
static const struct mig_gpu_profile rtx[] = {
        {.name = "1g.24gb",
                .slices = 1,
                .max = 4,
                .attributes = {.decoders = 1, .encoders = 1, .jpegs = 1, .ofas = 0},
                AT(quarters)},
        {.name = "1g.24gb+me.all",
                .slices = 1,
                .max = 1,
                .attributes = {.decoders = 4, .encoders = 4, .jpegs = 4, .ofas = 1},
                AT(quarters)},
        {.name = "1g.24gb-me",
                .slices = 1,
                .max = 4,
                .attributes = {.decoders = 0, .encoders = 0, .jpegs = 0, .ofas = 0},
                AT(quarters)},
};

static const struct mig_gpu_device whole[] = {
        {"MIG-1", 0, 1}, {"MIG-2", 0, 2}, {"MIG-3", 0, 3}, {"MIG-4", 0, 4}, {"MIG-7", 0, 7}};
static const struct mig_gpu_device parts[] = {{"MIG-1c", 0, 1}, {"MIG-2c", 1, 2}};
static const struct mig_gpu_device other_part[] = {{"MIG-2c'", 0, 2}};
static const struct mig_gpu_device thirds[] = {{"MIG-a", 0, 1}, {"MIG-b", 1, 1}, {"MIG-c", 2, 1}};

#define WHOLE(position, at, device)                                                                                    \
        {                                                                                                              \
                .profile = &h100[position], .placement = {.start = (at)}, .devices = &whole[device], .n_devices = 1    \
        }

/* ---- what a plan says, as text ---- */

/* "stays 1g.10gb@0; goes 1g.10gb@4; made 3g.40gb@4; mode reset", or its problem. */
static void describe(struct strbuf *text, const struct mig_plan_gpu *plan)
{
        if (plan->problem) {
                strbuf_puts(text, plan->problem);
                return;
        }
        for (size_t i = 0; i < plan->n_stays; i++)
                strbuf_printf(text, "stays %s@%u; ", plan->stays[i]->profile->name, plan->stays[i]->placement.start);
        for (size_t i = 0; i < plan->n_goes; i++)
                strbuf_printf(text, "goes %s@%u; ", plan->goes[i]->profile->name, plan->goes[i]->placement.start);
        for (size_t i = 0; i < plan->n_made; i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;

                strbuf_printf(text, "made %s", mig_plan_label(&arena, plan->made[i].profile, &plan->made[i].shape));
                if (plan->made[i].start == MIG_START_UNKNOWN)
                        strbuf_puts(text, "; ");
                else
                        strbuf_printf(text, "@%u+%u; ", plan->made[i].start, plan->made[i].size);
        }
        if (plan->changes_mode)
                strbuf_printf(text, "mode%s; ", plan->needs_reset ? " reset" : "");
        assert_int_equal(plan->changes, plan->changes_mode || plan->n_goes || plan->n_made);
}

struct plan_case {
        const struct mig_gpu_instance *instances;
        size_t n_instances;
        bool is_disabled, is_pending_enabled, mode_needs_reset; /* MIG is enabled, and nothing pending, by default */
        bool wants_disabled;
        struct mig_wanted_count counts[4];
        const char *expected;
};

static size_t count_of(const struct plan_case *this)
{
        size_t count = 0;

        while (count < ARRAY_SIZE(this->counts) && this->counts[count].profile)
                count++;
        return count;
}

static void assert_plan_of(
        const struct plan_case *this, const struct mig_gpu_profile *profiles, size_t n_profiles, const char *where)
{
        const struct mig_node_gpu gpu = {.uuid = "GPU-1",
                .is_capable = true,
                .geometry = {.is_enabled = !this->is_disabled,
                        .is_pending_enabled = !this->is_disabled || this->is_pending_enabled,
                        .mode_needs_reset = this->mode_needs_reset,
                        .profiles = profiles,
                        .n_profiles = n_profiles,
                        .instances = this->instances,
                        .n_instances = this->n_instances}};
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        const struct mig_wanted wanted = {.is_named = true,
                .is_enabled = !this->wants_disabled,
                .counts = this->counts,
                .n_counts = count_of(this)};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_plan plan;

        mig_plan_build(&plan, &arena, &node, &wanted);
        describe(&text, &plan.gpus[0]);
        if (strcmp(text.data, this->expected) != 0)
                fail_msg("%s\n     is %s\nwanted %s", where, text.data, this->expected);
        assert_int_equal(plan.fits, !plan.gpus[0].problem);
        assert_int_equal(plan.changes, plan.gpus[0].changes);
}

#define HAS(list) .instances = (list), .n_instances = ARRAY_SIZE(list)

static void test_what_is_wanted_and_there_stays_and_the_rest_is_made_around_it(void **state UNUSED)
{
        static const struct mig_gpu_instance small[] = {WHOLE(P1, 0, 0), WHOLE(P1, 1, 0), WHOLE(P1, 4, 0)};
        static const struct mig_gpu_instance large[] = {WHOLE(P3, 4, 2)};
        static const struct mig_gpu_instance split[] = {
                {.profile = &h100[P3], .placement = {.start = 4}, .devices = parts, .n_devices = 2}};
        static const struct mig_gpu_instance empty[] = {{.profile = &h100[P2], .placement = {.start = 0}}};
        static const struct plan_case cases[] = {
                {HAS(small), .counts = {{"1g.10gb", 3}},
                        .expected = "stays 1g.10gb@0; stays 1g.10gb@1; stays 1g.10gb@4; "},
                {HAS(small), .counts = {{"1g.10gb", 2}, {"3g.40gb", 1}},
                        .expected = "stays 1g.10gb@0; stays 1g.10gb@1; goes 1g.10gb@4; made 3g.40gb@4+4; "},
                {HAS(small), .expected = "goes 1g.10gb@0; goes 1g.10gb@1; goes 1g.10gb@4; "},
                {HAS(large), .counts = {{"3g.40gb", 1}, {"2g.20gb", 1}},
                        .expected = "stays 3g.40gb@4; made 2g.20gb@0+2; "},
                {HAS(large), .counts = {{"7g.79gb", 1}}, .expected = "goes 3g.40gb@4; made 7g.80gb@0+8; "},
                {HAS(split), .counts = {{"3g.40gb", 1}}, .expected = "goes 3g.40gb@4; made 3g.40gb@0+4; "},
                {HAS(empty), .counts = {{"2g.20gb", 1}}, .expected = "goes 2g.20gb@0; made 2g.20gb@0+2; "},
                {.counts = {{"3g.40gb", 2}}, .expected = "made 3g.40gb@0+4; made 3g.40gb@4+4; "},
                {.counts = {{"1g.10gb", 2}, {"2g.20gb", 1}, {"3g.40gb", 1}},
                        .expected = "made 1g.10gb@0+1; made 1g.10gb@1+1; made 2g.20gb@2+2; made 3g.40gb@4+4; "},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_plan_of(&cases[i], h100, ARRAY_SIZE(h100), cases[i].expected);
}

static void test_a_mode_changes_with_what_it_takes(void **state UNUSED)
{
        static const struct mig_gpu_instance small[] = {WHOLE(P1, 0, 0)};
        static const struct plan_case cases[] = {
                {.is_disabled = true, .counts = {{"7g.80gb", 1}}, .expected = "made 7g.80gb@0+8; mode; "},
                {.is_disabled = true,
                        .mode_needs_reset = true,
                        .counts = {{"7g.80gb", 1}},
                        .expected = "made 7g.80gb@0+8; mode reset; "},
                {HAS(small), .mode_needs_reset = true, .wants_disabled = true,
                        .expected = "goes 1g.10gb@0; mode reset; "},
                {.mode_needs_reset = true, .expected = ""},
                {.is_disabled = true, .mode_needs_reset = true, .wants_disabled = true, .expected = ""},
                /* Somebody has set a mode that waits for a reset: it is set back, which needs none. */
                {.is_disabled = true,
                        .is_pending_enabled = true,
                        .mode_needs_reset = true,
                        .wants_disabled = true,
                        .expected = "mode; "},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_plan_of(&cases[i], h100, ARRAY_SIZE(h100), cases[i].expected);
}

static void test_what_does_not_fit_is_said_with_what_would(void **state UNUSED)
{
        static const struct mig_gpu_instance small[] = {WHOLE(P1, 0, 0)};
        static const struct plan_case cases[] = {
                {.counts = {{"3g.40gb", 3}},
                        .expected =
                                "3 of 3g.40gb do not fit: at most 2 of 3g.40gb fit on this GPU; this would fit: 2 of 3g.40gb"},
                {.counts = {{"1g.10gb+me", 2}},
                        .expected =
                                "2 of 1g.10gb+me do not fit: at most 1 of 1g.10gb+me fit on this GPU; this would fit: "
                                "1 of 1g.10gb+me"},
                {HAS(small), .counts = {{"4g.40gb", 1}, {"3g.40gb", 1}, {"1g.10gb", 1}},
                        .expected =
                                "1 of 1g.10gb, 1 of 3g.40gb, 1 of 4g.40gb do not fit: they need 8 compute slices, and it "
                                "has 7; this would fit: 1 of 3g.40gb, 1 of 4g.40gb"},
                {.counts = {{"3g.40gb", 2}, {"1g.10gb", 1}},
                        .expected =
                                "1 of 1g.10gb, 2 of 3g.40gb do not fit: its memory slices have no place for all of them; "
                                "this would fit: 2 of 3g.40gb"},
                {.counts = {{"1g.5gb", 1}},
                        .expected = "it has no profile 1g.5gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, "
                                    "4g.40gb, 7g.80gb"},
                {.counts = {{"1g.10gb", 4000000000U}, {"2g.20gb", 4000000000U}},
                        .expected = "8000000000 MIG devices are wanted, at most 32 are possible"},
        };
        static const struct plan_case media = {.counts = {{"1g.24gb", 1}, {"1g.24gb+me.all", 1}},
                .expected =
                        "1 of 1g.24gb, 1 of 1g.24gb+me.all do not fit: they need 5 decoders, and it has 4; this would "
                        "fit: 1 of 1g.24gb"};
        static const struct plan_case without = {.counts = {{"1g.24gb-me", 3}, {"1g.24gb+me.all", 1}},
                .expected = "made 1g.24gb+me.all@0+1; made 1g.24gb-me@1+1; made 1g.24gb-me@2+1; made 1g.24gb-me@3+1; "};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_plan_of(&cases[i], h100, ARRAY_SIZE(h100), cases[i].expected);
        assert_plan_of(&media, rtx, ARRAY_SIZE(rtx), media.expected);
        assert_plan_of(&without, rtx, ARRAY_SIZE(rtx), without.expected);
}

static void test_without_a_list_of_profiles_placements_are_not_known_yet(void **state UNUSED)
{
        static const struct plan_case blind = {.is_disabled = true,
                .mode_needs_reset = true,
                .counts = {{"1g.5gb", 2}, {"3g.20gb", 1}},
                .expected = "made 1g.5gb; made 1g.5gb; made 3g.20gb; mode reset; "};

        assert_plan_of(&blind, NULL, 0, blind.expected);
}

static void test_only_gpus_that_are_named_change_and_each_problem_has_its_gpu(void **state UNUSED)
{
        static const struct mig_gpu_instance small[] = {WHOLE(P1, 0, 0)};
        const struct mig_geometry geometry = {.is_enabled = true,
                .is_pending_enabled = true,
                .profiles = h100,
                .n_profiles = ARRAY_SIZE(h100),
                .instances = small,
                .n_instances = 1};
        const struct mig_node_gpu gpus[] = {
                {.index = 0, .uuid = "GPU-left", .is_capable = true, .geometry = geometry},
                {.index = 1, .uuid = "GPU-t4"},
                {.index = 2, .uuid = "GPU-off"},
                {.index = 3, .uuid = "", .problem = "nvmlDeviceGetHandleByIndex: GPU is lost (GPU_IS_LOST)"},
                {.index = 4, .uuid = "GPU-one", .is_capable = true, .geometry = geometry},
        };
        const struct mig_wanted wanted[] = {
                {0},
                {.is_named = true, .is_enabled = true},
                {.is_named = true},
                {.is_named = true},
                {.is_named = true},
        };
        const struct mig_node node = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_plan plan;

        mig_plan_build(&plan, &arena, &node, wanted);
        assert_int_equal(plan.n_gpus, 5);
        assert_false(plan.fits);
        assert_true(plan.changes);
        assert_false(plan.gpus[0].changes);
        assert_int_equal(plan.gpus[0].n_stays, 1);
        assert_string_equal(plan.gpus[1].problem, "it has no MIG");
        assert_null(plan.gpus[2].problem);
        assert_false(plan.gpus[2].changes);
        assert_string_equal(plan.gpus[3].problem, gpus[3].problem);
        assert_true(plan.gpus[4].changes);
        assert_string_equal(mig_plan_reason(&plan, &arena), "GPU 1 (GPU-t4): it has no MIG");
}

static void test_a_plan_may_be_held_to_gpus_that_have_to_be_there(void **state UNUSED)
{
        static const struct mig_node_gpu gpus[] = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}, {.uuid = "GPU-c"}};
        static const struct mig_plan_gpu planned[] = {
                {.gpu = &gpus[0], .changes = true}, {.gpu = &gpus[1]}, {.gpu = &gpus[2], .changes = true}};
        const struct mig_plan plan = {.gpus = planned, .n_gpus = ARRAY_SIZE(planned), .fits = true, .changes = true};
        struct error err;

        assert_ok(mig_plan_check_only(&plan, "GPU-c,GPU-a", &err), &err);
        assert_ok(mig_plan_check_only(&plan, "GPU-a,GPU-b,GPU-c", &err), &err);
        assert_fails(mig_plan_check_only(&plan, "GPU-a,GPU-b", &err), &err, ERROR_UNAVAILABLE,
                "the configuration would change another GPU than GPU-a,GPU-b now: nothing changes before it is planned "
                "again");
        assert_fails(mig_plan_check_only(&plan, "GPU-a,GPU-c,GPU-", &err), &err, ERROR_UNAVAILABLE,
                "GPU-, which is to change, is away: nothing changes before it is back");
        assert_fails(mig_plan_check_only(&plan, "GPU-a,,GPU-c", &err), &err, ERROR_UNAVAILABLE,
                ", which is to change, is away: nothing changes before it is back");
}

#define DIVIDED(at, list)                                                                                              \
        {                                                                                                              \
                .profile = &h100[P3], .placement = {.start = (at)}, .devices = (list), .n_devices = ARRAY_SIZE(list)   \
        }

static void test_parts_share_an_instance_and_what_is_divided_as_wanted_stays(void **state UNUSED)
{
        static const struct mig_gpu_instance split[] = {DIVIDED(4, parts)};
        static const struct mig_gpu_instance apart[] = {DIVIDED(0, other_part), DIVIDED(4, thirds)};
        static const struct mig_gpu_instance mixed[] = {WHOLE(P1, 0, 0), DIVIDED(4, parts)};
        static const struct mig_gpu_instance large[] = {WHOLE(P3, 0, 2), DIVIDED(4, parts)};
        static const struct plan_case cases[] = {
                {.counts = {{"3g.40gb", 3, 1}}, .expected = "made 3g.40gb 1c 1c 1c@0+4; "},
                {.counts = {{"3g.40gb", 2, 1}, {"3g.40gb", 1, 2}},
                        .expected = "made 3g.40gb 2c 1c@0+4; made 3g.40gb 1c@4+4; "},
                {.counts = {{"3g.40gb", 1, 1}, {"3g.40gb", 1}}, .expected = "made 3g.40gb@0+4; made 3g.40gb 1c@4+4; "},
                {.counts = {{"7g.80gb", 1, 4}, {"7g.80gb", 1, 3}}, .expected = "made 7g.80gb 4c 3c@0+8; "},
                {HAS(split), .counts = {{"3g.40gb", 1, 2}, {"3g.40gb", 1, 1}}, .expected = "stays 3g.40gb@4; "},
                {HAS(split), .counts = {{"3g.40gb", 2, 2}, {"3g.40gb", 1, 1}},
                        .expected = "stays 3g.40gb@4; made 3g.40gb 2c@0+4; "},
                {HAS(split), .counts = {{"3g.40gb", 1, 2}}, .expected = "goes 3g.40gb@4; made 3g.40gb 2c@0+4; "},
                /* Made anew they would be divided otherwise: 2 and 1, 1 and 1. */
                {HAS(apart), .counts = {{"3g.40gb", 1, 2}, {"3g.40gb", 3, 1}},
                        .expected = "stays 3g.40gb@0; stays 3g.40gb@4; "},
                /*
                 * With the one of 2 slices that is there they would take two instances, which leave no room for the
                 * third.
                 */
                {HAS(apart), .counts = {{"3g.40gb", 1, 2}, {"3g.40gb", 1, 1}, {"4g.40gb", 1}},
                        .expected = "goes 3g.40gb@0; goes 3g.40gb@4; made 4g.40gb@0+4; made 3g.40gb 2c 1c@4+4; "},
                {HAS(mixed), .counts = {{"1g.10gb", 1}, {"3g.40gb", 1, 2}, {"3g.40gb", 1, 1}},
                        .expected = "stays 1g.10gb@0; stays 3g.40gb@4; "},
                {HAS(large), .counts = {{"3g.40gb", 2}},
                        .expected = "stays 3g.40gb@0; goes 3g.40gb@4; made 3g.40gb@4+4; "},
                {.counts = {{"3g.40gb", 7, 1}},
                        .expected =
                                "2 of 3g.40gb 1c 1c 1c, 1 of 3g.40gb 1c do not fit: they need 9 compute slices, and it "
                                "has 7; this would fit: 2 of 3g.40gb 1c 1c 1c"},
                {.counts = {{"3g.40gb", 1, 3}},
                        .expected = "a compute instance of 3 slices of 3g.40gb cannot be made: it has no more slices"},
                {.counts = {{"7g.80gb", 1, 5}},
                        .expected =
                                "a compute instance of 5 slices of 7g.80gb cannot be made: no GPU has one of this size"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_plan_of(&cases[i], h100, ARRAY_SIZE(h100), cases[i].expected);
}

static void test_parts_are_divided_by_their_names_while_the_driver_lists_no_profiles(void **state UNUSED)
{
        static const struct plan_case cases[] = {
                {.is_disabled = true,
                        .counts = {{"3g.40gb", 2, 1}, {"1g.10gb", 1}, {"3g.40gb", 1, 2}},
                        .expected = "made 3g.40gb 2c 1c; made 3g.40gb 1c; made 1g.10gb; mode; "},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_plan_of(&cases[i], NULL, 0, cases[i].expected);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_wanted_and_there_stays_and_the_rest_is_made_around_it),
                cmocka_unit_test(test_a_mode_changes_with_what_it_takes),
                cmocka_unit_test(test_what_does_not_fit_is_said_with_what_would),
                cmocka_unit_test(test_without_a_list_of_profiles_placements_are_not_known_yet),
                cmocka_unit_test(test_parts_share_an_instance_and_what_is_divided_as_wanted_stays),
                cmocka_unit_test(test_parts_are_divided_by_their_names_while_the_driver_lists_no_profiles),
                cmocka_unit_test(test_only_gpus_that_are_named_change_and_each_problem_has_its_gpu),
                cmocka_unit_test(test_a_plan_may_be_held_to_gpus_that_have_to_be_there),
        };

        return cmocka_run_group_tests_name("mig/plan", tests, NULL, NULL);
}
